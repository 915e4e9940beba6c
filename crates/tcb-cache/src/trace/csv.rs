//! Accesses as comma-separated values: time, key, end of the session.
//!
//! A line with a word in place of the key, at the beginning of the file or of an appended file,
//! names the columns: `time`, `timestamp` or `ts` (seconds, with or without a fraction) or
//! `time_ms`; `key`, `id`, `obj_id` or `session`; `closes`, `end` or `fin` (`1` or `true`). Without
//! such a line, the columns are time, key, end. A key is a number, `0x…`, an address and port such
//! as `10.0.0.1:1024`, or any word.

use crate::access::Access;
use crate::model::logged::address_of;

use super::number::{digits, seconds_as_ms};
use super::summary::Skip;

/// The positions of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    time: Option<usize>,
    time_is_ms: bool,
    key: usize,
    closes: Option<usize>,
}

impl Default for Columns {
    fn default() -> Self {
        Self { time: Some(0), time_is_ms: false, key: 1, closes: Some(2) }
    }
}

/// Returns a field without surrounding blanks.
fn trimmed(field: &[u8]) -> &[u8] {
    field.trim_ascii()
}

impl Columns {
    /// Parses a header line; returns `None` for any other.
    #[must_use]
    pub fn from_header(line: &[u8]) -> Option<Self> {
        let named = |names: &[&str]| {
            line.split(|byte| *byte == b',').position(|field| {
                names.iter().any(|name| trimmed(field).eq_ignore_ascii_case(name.as_bytes()))
            })
        };
        let key = named(&["key", "id", "obj_id", "session"])?;
        let in_ms = named(&["time_ms"]);
        let time = in_ms.or_else(|| named(&["time", "timestamp", "ts"]));
        Some(Self { time, time_is_ms: in_ms.is_some(), key, closes: named(&["closes", "end", "fin"]) })
    }

    /// Parses a line; the time stays as written.
    ///
    /// # Errors
    ///
    /// The reason why it is unusable.
    pub fn parse(self, line: &[u8]) -> Result<Access, Skip> {
        if line.is_empty() || line.starts_with(b"#") {
            return Err(Skip::Empty);
        }
        let field = |at| line.split(|byte| *byte == b',').nth(at).map(trimmed);
        let time_ms = match self.time {
            Some(at) => {
                let field = field(at).ok_or(Skip::FieldsMissing)?;
                let time_ms = if self.time_is_ms { digits(field) } else { seconds_as_ms(field) };
                time_ms.filter(|time_ms| *time_ms < 1 << 62).ok_or(Skip::Time)?
            }
            None => 0,
        };
        let key = field(self.key).filter(|key| !key.is_empty()).ok_or(Skip::FieldsMissing)?;
        let access = Access::new(key_of(key).ok_or(Skip::Number)?, time_ms);
        let closes = self.closes.and_then(field).is_some_and(|field| field == b"1" || field == b"true");
        Ok(if closes { access.closing() } else { access })
    }
}

fn key_of(field: &[u8]) -> Option<u64> {
    if let Some(number) = digits(field) {
        return Some(number);
    }
    let text = core::str::from_utf8(field).ok();
    if let Some(hex) = text.and_then(|text| text.strip_prefix("0x")) {
        return u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'));
    }
    if let Some(endpoint) = text.and_then(|text| text.parse::<core::net::SocketAddrV4>().ok()) {
        return Some(Access::session_key(endpoint.ip().to_bits(), endpoint.port()));
    }
    // A word is replaced by two digests, which are as good as 64 bits of one digest.
    let backwards: Vec<u8> = field.iter().rev().copied().collect();
    Some(u64::from(address_of(field)) << 32 | u64::from(address_of(&backwards)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_determines_the_order_of_columns() {
        let plain = Columns::default();
        assert_eq!(plain.parse(b"1.5,7,1"), Ok(Access::new(7, 1500).closing()));
        assert_eq!(plain.parse(b"1, 0x10 "), Ok(Access::new(16, 1000)));
        for (field, closes) in [("1", true), ("true", true), ("0", false), ("false", false), ("", false)] {
            assert_eq!(plain.parse(format!("1,7,{field}").as_bytes()).unwrap().closes(), closes, "{field}");
        }
        assert_eq!(plain.parse(b"1,10.0.0.1:1024,0").unwrap().key(), 0x0A00_0001_0400);
        let named = Columns::from_header(b"size,obj_id,time_ms").unwrap();
        assert_eq!(named.parse(b"9,3,12,"), Ok(Access::new(3, 12)));
        assert_eq!(Columns::from_header(b"id").unwrap().parse(b"5"), Ok(Access::new(5, 0)));
        assert_eq!(Columns::from_header(b"1,2,3"), None);
        let word = |text: &[u8]| plain.parse(&[b"0,", text].concat()).unwrap().key();
        assert_eq!(word(b"index.html"), word(b" index.html "));
        assert_ne!(word(b"index.html"), word(b"index.htm"));
        assert_eq!(plain.parse(b"x,1"), Err(Skip::Time));
        assert_eq!(
            (plain.parse(b"1"), plain.parse(b"1,")),
            (Err(Skip::FieldsMissing), Err(Skip::FieldsMissing))
        );
        for number in ["0xzz", "0x", "0x+7"] {
            assert_eq!(plain.parse(format!("1,{number}").as_bytes()), Err(Skip::Number), "{number}");
        }
    }
}
