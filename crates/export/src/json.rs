//! JSON lines.

use std::io::Write;

use flowloom_record::{Row, SchemaColumn, Value};

use crate::text::{TextRows, TextWriter};

/// Writes records as JSON lines: one object per record and line, with its names sorted.
pub type JsonWriter<W> = TextWriter<W, JsonRows>;

/// Rows of JSON lines.
#[derive(Clone, Debug)]
pub struct JsonRows {
    /// The columns, each with the text before its value.
    columns: Vec<(usize, String)>,
}

impl JsonRows {
    /// Returns rows of these columns.
    #[must_use]
    pub fn new(columns: &[SchemaColumn]) -> Self {
        let mut columns = columns.to_vec();
        columns.sort_by_key(|found| found.column.name);
        columns.dedup_by_key(|found| found.column.name);
        let begin = |(at, found): (usize, &SchemaColumn)| {
            let name = Value::Word(found.column.name);
            (found.index, format!("{}{}:", if at == 0 { '{' } else { ',' }, name.json()))
        };
        Self { columns: columns.iter().enumerate().map(begin).collect() }
    }
}

impl<W: Write> JsonWriter<W> {
    /// Returns a writer of these columns.
    pub fn new(out: W, columns: &[SchemaColumn]) -> Self {
        Self::of_rows(out, JsonRows::new(columns))
    }
}

impl TextRows for JsonRows {
    fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        for (index, begin) in &self.columns {
            out.extend_from_slice(begin.as_bytes());
            match row.value(*index) {
                Value::Number(number) | Value::Bits(number) => {
                    out.extend_from_slice(digits.format(*number).as_bytes());
                }
                Value::None => out.extend_from_slice(b"null"),
                other => {
                    // Writing to memory cannot fail.
                    let _ = write!(out, "{}", other.json());
                }
            }
        }
        out.extend_from_slice(if self.columns.is_empty() { b"{}\n" } else { b"}\n" });
    }

    fn another(&self) -> Box<dyn TextRows> {
        Box::new(self.clone())
    }
}
