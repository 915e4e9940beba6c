//! Comma-separated values.

use std::fmt::Write as _;
use std::io::{self, Write};

use flowloom_record::{Row, SchemaColumn, Value};

use crate::RecordWriter;

/// Writes records as CSV (RFC 4180): a line of names, then one line per record.
pub struct CsvWriter<W: Write> {
    out: ::csv::Writer<W>,
    columns: Vec<SchemaColumn>,
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
    pub fn new(out: W, columns: &[SchemaColumn]) -> Self {
        let out = ::csv::Writer::from_writer(out);
        Self { out, columns: columns.to_vec(), is_begun: false, value: String::new() }
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let names = self.columns.iter().map(|found| found.column.name);
            self.out.write_record(names).map_err(of_output)?;
        }
        Ok(())
    }
}

/// Returns the error of the output, which has its kind.
fn of_output(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

impl<W: Write + Send> RecordWriter for CsvWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        self.begin()?;
        // Most values are numbers, for which the formatter of the standard library takes long.
        let mut digits = itoa::Buffer::new();
        for found in &self.columns {
            let text = match row.value(found.index) {
                Value::Number(number) => digits.format(*number),
                Value::Word(word) => word,
                Value::Text(text) => text,
                Value::None => "",
                other => {
                    self.value.clear();
                    // Writing to a string cannot fail.
                    let _ = write!(self.value, "{other}");
                    &self.value
                }
            };
            self.out.write_field(text).map_err(of_output)?;
        }
        self.out.write_record(None::<&[u8]>).map_err(of_output)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}
