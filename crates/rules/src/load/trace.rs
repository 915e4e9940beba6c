//! ClassBench header traces: source, destination, ports and protocol as decimals, then columns that
//! are ignored.
//!
//! Some tools write flags and a rule number after the five fields. The number counts from zero or
//! one, or refers to another set, so it is never used.

use alloc::vec::Vec;

use super::cursor::Cursor;
use super::{LoadError, LoadErrorKind, LoadLimits};
use crate::key::KeyV4;

/// Reads all headers of a text, in order.
///
/// # Errors
///
/// Returns [`LoadError`] at the first line that is not a header, or if a limit is exceeded.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, trace};
/// let keys = trace::parse("167772161 167772162 1024 80 6 0 17\n", LoadLimits::default())?;
/// assert_eq!(keys[0].to_string(), "10.0.0.1:1024 > 10.0.0.2:80 proto 6");
/// # Ok::<(), flowloom_rules::load::LoadError>(())
/// ```
pub fn parse(text: &str, limits: LoadLimits) -> Result<Vec<KeyV4>, LoadError> {
    if text.len() > limits.bytes_max {
        let kind = LoadErrorKind::TooMuch { what: "bytes", limit: limits.bytes_max };
        return Err(LoadError::new(1, "", 0, kind));
    }
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut cursor = Cursor::new(index + 1, line);
        cursor.blanks();
        if cursor.is_at_end() || cursor.rest().starts_with('#') {
            continue;
        }
        let mut field = |max: u64, what: &'static str| {
            let number = cursor.number(max, what)?;
            if cursor.blanks() || cursor.is_at_end() {
                Ok(number)
            } else {
                Err(cursor.error(LoadErrorKind::Expected("a blank between numbers")))
            }
        };
        let source = field(0xffff_ffff, "the source address as a number")?;
        let destination = field(0xffff_ffff, "the destination address as a number")?;
        let from = field(0xffff, "the source port")?;
        let to = field(0xffff, "the destination port")?;
        let protocol = field(0xff, "the protocol")?;
        keys.push(KeyV4::new(source as u32, destination as u32, (from as u16, to as u16), protocol as u8));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_columns_are_skipped_and_errors_have_their_line() {
        let keys = parse("1 2 3 4 5\n\n1\t2\t3\t4\t6\t0\t77\t\n", LoadLimits::default()).unwrap();
        assert_eq!(keys, [KeyV4::new(1, 2, (3, 4), 5), KeyV4::new(1, 2, (3, 4), 6)]);
        for (line, column) in [("1 2 3 4", 8), ("4294967296 2 3 4 5", 1), ("1 2 3 4 x", 9), ("1 2,3", 4)] {
            assert_eq!(parse(line, LoadLimits::default()).unwrap_err().column, column, "{line}");
        }
    }
}
