//! JSON lines.

use std::io::{self, Write};

use flowloom_record::{Row, SchemaColumn, Value};

use crate::RecordWriter;

/// Writes records as JSON lines: one object per record and line, with its names sorted.
#[derive(Debug)]
pub struct JsonWriter<W> {
    out: W,
    /// The columns, each with what comes before its value.
    columns: Vec<(usize, String)>,
    line: Vec<u8>,
}

impl<W: Write> JsonWriter<W> {
    /// Returns a writer of these columns.
    pub fn new(out: W, columns: &[SchemaColumn]) -> Self {
        let mut columns = columns.to_vec();
        columns.sort_by_key(|found| found.column.name);
        columns.dedup_by_key(|found| found.column.name);
        let begin = |(at, found): (usize, &SchemaColumn)| {
            let name = Value::Word(found.column.name);
            (found.index, format!("{}{}:", if at == 0 { '{' } else { ',' }, name.json()))
        };
        let columns = columns.iter().enumerate().map(begin).collect();
        Self { out, columns, line: Vec::new() }
    }
}

impl<W: Write + Send> RecordWriter for JsonWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        self.line.clear();
        let mut digits = itoa::Buffer::new();
        for (index, begin) in &self.columns {
            self.line.extend_from_slice(begin.as_bytes());
            match row.value(*index) {
                Value::Number(number) | Value::Bits(number) => {
                    self.line.extend_from_slice(digits.format(*number).as_bytes());
                }
                Value::None => self.line.extend_from_slice(b"null"),
                other => write!(self.line, "{}", other.json())?,
            }
        }
        self.line.extend_from_slice(if self.columns.is_empty() { b"{}\n" } else { b"}\n" });
        self.out.write_all(&self.line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
