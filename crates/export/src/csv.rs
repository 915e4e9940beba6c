//! Comma-separated values.

use std::io::Write;

use flowloom_record::{Row, SchemaColumn, Value};

use crate::text::{TextRows, TextWriter};

/// Writes records as CSV (RFC 4180): a line of names, then one line per record.
pub type CsvWriter<W> = TextWriter<W, CsvRows>;

/// Rows of CSV. A value that contains a comma, a quote or a line end is quoted.
#[derive(Clone, Debug)]
pub struct CsvRows {
    columns: Vec<SchemaColumn>,
}

impl CsvRows {
    /// Returns rows of these columns.
    #[must_use]
    pub fn new(columns: &[SchemaColumn]) -> Self {
        Self { columns: columns.to_vec() }
    }
}

impl<W: Write> CsvWriter<W> {
    /// Returns a writer of these columns.
    pub fn new(out: W, columns: &[SchemaColumn]) -> Self {
        Self::of_rows(out, CsvRows::new(columns))
    }
}

impl TextRows for CsvRows {
    fn head(&self, out: &mut Vec<u8>) {
        for found in &self.columns {
            out.extend_from_slice(found.column.name.as_bytes());
            out.push(b',');
        }
        end_line(out);
    }

    fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        let first = out.len();
        // Most values are numbers, for which the formatter of the standard library takes long.
        let mut digits = itoa::Buffer::new();
        for found in &self.columns {
            let at = out.len();
            match row.value(found.index) {
                Value::Number(number) => out.extend_from_slice(digits.format(*number).as_bytes()),
                Value::None => {}
                other => {
                    // Writing to memory cannot fail.
                    let _ = match other {
                        Value::Word(word) => out.write_all(word.as_bytes()),
                        other => write!(out, "{other}"),
                    };
                    quote(out, at);
                }
            }
            out.push(b',');
        }
        if out.len() == first + 1 {
            // A reader would skip an empty line.
            out.truncate(first);
            out.extend_from_slice(b"\"\",");
        }
        end_line(out);
    }

    fn another(&self) -> Box<dyn TextRows> {
        Box::new(self.clone())
    }
}

/// Ends a line in place of the comma after its last value.
fn end_line(out: &mut Vec<u8>) {
    out.pop_if(|&mut last| last == b',');
    out.push(b'\n');
}

/// Puts the value that begins at `at` in quotes if it needs them.
fn quote(out: &mut Vec<u8>, at: usize) {
    if !out[at..].iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return;
    }
    let value = out.split_off(at);
    out.push(b'"');
    for byte in value {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::FlowKey;
    use flowloom_record::{Column, Kind, Schema};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_reads_back_as_written(table in vec(vec("[ab,\"\r\n é']{0,4}", 3), 1..9), width in 1_usize..4) {
            const COLUMNS: [Column; 3] =
                [Column::new("a", Kind::Text, ""), Column::new("b", Kind::Text, ""), Column::new("c", Kind::Text, "")];
            let schema = Schema::new(&COLUMNS[..width]);
            let mut rows = CsvRows::new(&schema.iter().collect::<Vec<_>>());
            let mut text = Vec::new();
            rows.head(&mut text);
            for texts in &table {
                let mut row = Row::new(FlowKey::default());
                row.values = texts.iter().map(|text| Value::Text(text.as_str().into())).collect();
                rows.row(&row, &mut text);
            }
            let mut reader = ::csv::Reader::from_reader(&text[..]);
            prop_assert_eq!(reader.headers().unwrap(), &["a", "b", "c"][..width]);
            let read: Vec<Vec<String>> = reader.deserialize().map(Result::unwrap).collect();
            let expected: Vec<_> = table.iter().map(|texts| texts[..width].to_vec()).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
