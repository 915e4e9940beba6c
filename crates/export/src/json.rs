//! JSON lines.

use std::io::{self, Write};

use flowloom_apps::accounting::fields::{FieldColumn, FieldValue};
use flowloom_apps::accounting::{AccountingRecord, RecordColumn, RecordValue};
use serde_json::Value;

use crate::RecordWriter;

/// Writes records as JSON lines: one object per record and line.
#[derive(Debug)]
pub struct JsonWriter<W> {
    out: W,
    columns: Vec<&'static RecordColumn>,
    fields: Vec<FieldColumn>,
}

impl<W: Write> JsonWriter<W> {
    /// Returns a writer of these columns.
    pub fn new(out: W, columns: Vec<&'static RecordColumn>) -> Self {
        Self { out, columns, fields: Vec::new() }
    }

    /// Adds additional fields after the columns, for [`write_with`](RecordWriter::write_with).
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<FieldColumn>) -> Self {
        self.fields = fields;
        self
    }
}

impl<W: Write + Send> RecordWriter for JsonWriter<W> {
    fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        self.write_with(record, &[])
    }

    fn write_with(&mut self, record: &AccountingRecord, fields: &[FieldValue]) -> io::Result<()> {
        let pairs = self.columns.iter().map(|column| (column.name.into(), of_value(column.value(record))));
        let further = self.fields.iter().zip(fields.iter().chain(std::iter::repeat(&FieldValue::None)));
        let further = further.map(|(column, value)| (column.name.into(), of_field(value)));
        let line: serde_json::Map<String, Value> = pairs.chain(further).collect();
        serde_json::to_writer(&mut self.out, &line)?;
        self.out.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn of_value(value: RecordValue) -> Value {
    match value {
        RecordValue::Number(number) | RecordValue::Bits(number) => number.into(),
        RecordValue::Word(word) => word.into(),
        RecordValue::None => Value::Null,
        other => other.to_string().into(),
    }
}

fn of_field(value: &FieldValue) -> Value {
    match value {
        FieldValue::Number(number) => (*number).into(),
        FieldValue::None => Value::Null,
        other => other.to_string().into(),
    }
}
