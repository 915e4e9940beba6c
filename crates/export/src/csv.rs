//! Comma-separated values.

use std::fmt::Write as _;
use std::io::{self, Write};

use flowloom_apps::accounting::fields::{FieldColumn, FieldValue};
use flowloom_apps::accounting::{AccountingRecord, RecordColumn, RecordValue};

use crate::RecordWriter;

/// Writes records as CSV (RFC 4180): a line of names, then one line per record.
pub struct CsvWriter<W: Write> {
    out: ::csv::Writer<W>,
    columns: Vec<&'static RecordColumn>,
    fields: Vec<FieldColumn>,
    is_begun: bool,
    value: String,
}

impl<W: Write> std::fmt::Debug for CsvWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvWriter").field("columns", &self.columns.len()).finish_non_exhaustive()
    }
}

impl<W: Write> CsvWriter<W> {
    /// Returns a writer of these columns.
    pub fn new(out: W, columns: Vec<&'static RecordColumn>) -> Self {
        let out = ::csv::Writer::from_writer(out);
        Self { out, columns, fields: Vec::new(), is_begun: false, value: String::new() }
    }

    /// Adds additional fields after the columns, for [`write_with`](RecordWriter::write_with).
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<FieldColumn>) -> Self {
        self.fields = fields;
        self
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let names = self.columns.iter().map(|column| column.name);
            self.out.write_record(names.chain(self.fields.iter().map(|column| column.name)))?;
        }
        Ok(())
    }
}

impl<W: Write + Send> RecordWriter for CsvWriter<W> {
    fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        self.write_with(record, &[])
    }

    fn write_with(&mut self, record: &AccountingRecord, fields: &[FieldValue]) -> io::Result<()> {
        self.begin()?;
        // Most values are numbers, for which the formatter of the standard library takes long.
        let mut digits = itoa::Buffer::new();
        for column in &self.columns {
            let text = match column.value(record) {
                RecordValue::Number(number) => digits.format(number),
                RecordValue::Word(word) => word,
                RecordValue::None => "",
                other => {
                    self.value.clear();
                    // Writing to a string cannot fail.
                    let _ = write!(self.value, "{other}");
                    &self.value
                }
            };
            self.out.write_field(text)?;
        }
        for at in 0..self.fields.len() {
            let text = match fields.get(at) {
                Some(FieldValue::Number(number)) => digits.format(*number),
                Some(FieldValue::Text(text)) => text,
                Some(other) => {
                    self.value.clear();
                    let _ = write!(self.value, "{other}");
                    &self.value
                }
                None => "",
            };
            self.out.write_field(text)?;
        }
        Ok(self.out.write_record(None::<&[u8]>)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}
