//! Tab-separated logs: host, login name, time, method, URL, status, bytes.
//!
//! A line with the words `host` and `time`, at the beginning of the file or of an appended file,
//! names the columns. Without such a line, they are as above. Time is in seconds since 1970.
//! Additional columns are ignored.

use super::entry::Entry;
use super::number::{seconds_as_ms, size};
use super::summary::Skip;

/// The positions of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    host: usize,
    time: usize,
    bytes: Option<usize>,
}

impl Default for Columns {
    fn default() -> Self {
        Self { host: 0, time: 2, bytes: Some(6) }
    }
}

impl Columns {
    /// Parses a header line; returns `None` for any other.
    #[must_use]
    pub fn from_header(line: &[u8]) -> Option<Self> {
        let named = |name: &[u8]| {
            line.split(|byte| *byte == b'\t').position(|field| field.eq_ignore_ascii_case(name))
        };
        Some(Self { host: named(b"host")?, time: named(b"time")?, bytes: named(b"bytes") })
    }

    /// Parses a line.
    ///
    /// # Errors
    ///
    /// The reason why it is unusable.
    pub fn parse(self, line: &[u8]) -> Result<Entry<'_>, Skip> {
        if line.is_empty() || line.starts_with(b"#") {
            return Err(Skip::Empty);
        }
        let field = |at| line.split(|byte| *byte == b'\t').nth(at);
        let host = field(self.host).ok_or(Skip::FieldsMissing)?;
        let time_ms = seconds_as_ms(field(self.time).ok_or(Skip::FieldsMissing)?).ok_or(Skip::Time)?;
        let reply_bytes = match self.bytes {
            Some(at) => size(field(at).ok_or(Skip::FieldsMissing)?).ok_or(Skip::Number)?,
            None => 0,
        };
        Entry { host, time_ms, reply_bytes }.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_determines_the_order_of_columns() {
        let nasa = b"uplherc.upl.com\t-\t807249607\tGET\t/\t304\t0\t\t";
        let entry = Columns::default().parse(nasa).unwrap();
        assert_eq!(
            (entry.host, entry.time_ms, entry.reply_bytes),
            (&b"uplherc.upl.com"[..], 807_249_607_000, 0)
        );
        let columns = Columns::from_header(b"Time\tx\tHOST").unwrap();
        assert_eq!(
            columns.parse(b"5.25\t\tme").unwrap(),
            Entry { host: b"me", time_ms: 5250, reply_bytes: 0 }
        );
        assert_eq!(Columns::from_header(nasa), None);
        assert_eq!(Columns::default().parse(b"a\tb"), Err(Skip::FieldsMissing));
        assert_eq!(Columns::default().parse(b"a\tb\tc\td\te\tf\t9"), Err(Skip::Time));
        assert_eq!(Columns::default().parse(b"a\tb\t1\td\te\tf\tx"), Err(Skip::Number));
    }
}
