//! Formats of text: a head, and rows that do not depend on each other.

use std::io::{self, Write};

use flowloom_record::Row;

use crate::RecordWriter;

/// Rows of a format of text. Several threads may format rows at the same time, each with
/// [another](Self::another) of these; a [`TextWriter`] writes them.
pub trait TextRows: Send {
    /// Appends what precedes the first row.
    fn head(&self, _out: &mut Vec<u8>) {}

    /// Appends a row.
    fn row(&mut self, row: &Row, out: &mut Vec<u8>);

    /// Returns rows of the same format.
    fn another(&self) -> Box<dyn TextRows>;
}

impl TextRows for Box<dyn TextRows> {
    fn head(&self, out: &mut Vec<u8>) {
        (**self).head(out);
    }

    fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        (**self).row(row, out);
    }

    fn another(&self) -> Box<dyn TextRows> {
        (**self).another()
    }
}

/// Writes records in a format of text.
#[derive(Debug)]
pub struct TextWriter<W, R> {
    out: W,
    rows: R,
    is_begun: bool,
    row: Vec<u8>,
}

impl<W: Write, R: TextRows> TextWriter<W, R> {
    /// Returns a writer of rows.
    pub fn of_rows(out: W, rows: R) -> Self {
        Self { out, rows, is_begun: false, row: Vec::new() }
    }

    /// Writes rows that [`TextRows::row`] has formatted.
    ///
    /// # Errors
    ///
    /// Returns the error of the output.
    pub fn write_rows(&mut self, rows: &[u8]) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(rows)
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_begun, true) {
            let mut head = Vec::new();
            self.rows.head(&mut head);
            self.out.write_all(&head)?;
        }
        Ok(())
    }
}

impl<W: Write + Send, R: TextRows> RecordWriter for TextWriter<W, R> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        self.begin()?;
        self.row.clear();
        self.rows.row(row, &mut self.row);
        self.out.write_all(&self.row)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}
