//! The value of a column in one record.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::CommunityId;

/// What takes the place of a text that was dropped for lack of memory.
pub const NO_MEMORY: &str = "(no memory)";

/// One value of a record. Its [`Display`](fmt::Display) is the form that tables have: numbers in
/// decimal, bits in hexadecimal, and nothing for a missing value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// A number in the unit of its column.
    Number(u64),
    /// A set of bits.
    Bits(u64),
    /// The bits of a finite number with a fraction: see [`real`](Self::real).
    Real(u64),
    /// An address.
    Address(IpAddr),
    /// One of a fixed set of words. For a word that only the configuration knows, such as the name
    /// of a pattern, leak it once per run (`String::leak`), not once per flow.
    Word(&'static str),
    /// Text.
    Text(Box<str>),
    /// A Community ID.
    CommunityId(CommunityId),
    /// A text that was dropped for lack of memory, shown as [`NO_MEMORY`].
    Dropped,
    /// The record has no such value: an empty field in text, `null` in JSON.
    #[default]
    None,
}

const _: () = assert!(size_of::<Value>() == 24, "a row of 32 values takes 12 cache lines");

impl Value {
    /// Returns the text, or that it was dropped.
    #[must_use]
    pub fn from_text(text: Option<String>, is_dropped: bool) -> Self {
        match text {
            Some(text) => Self::Text(text.into()),
            None if is_dropped => Self::Dropped,
            None => Self::None,
        }
    }

    /// Returns a number with a fraction; none if it is not finite, which formats cannot hold.
    #[must_use]
    pub const fn real(number: f64) -> Self {
        if number.is_finite() { Self::Real(number.to_bits()) } else { Self::None }
    }

    /// Returns the number or the bits; of a number with a fraction the whole part.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the whole part is asked for; of a negative number it is none"
    )]
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) | Self::Bits(number) => Some(*number),
            Self::Real(bits) => Some(f64::from_bits(*bits) as u64),
            _ => None,
        }
    }

    /// Returns the address.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            _ => None,
        }
    }

    /// Returns the text as it is shown, if the value is text.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Word(word) => Some((*word).into()),
            Self::Text(text) => Some((**text).into()),
            Self::Dropped => Some(NO_MEMORY.into()),
            Self::CommunityId(id) => Some(id.to_string().into()),
            Self::Number(_) | Self::Bits(_) | Self::Real(_) | Self::Address(_) | Self::None => None,
        }
    }

    /// Returns the value as JSON.
    #[must_use]
    pub fn json(&self) -> impl fmt::Display + '_ {
        Json(self)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Bits(bits) => write!(f, "{bits:#x}"),
            Self::Real(bits) => f64::from_bits(*bits).fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => f.write_str(text),
            Self::CommunityId(id) => id.fmt(f),
            Self::Dropped => f.write_str(NO_MEMORY),
            Self::None => Ok(()),
        }
    }
}

impl<T: Into<u64>> From<Option<T>> for Value {
    fn from(number: Option<T>) -> Self {
        number.map_or(Self::None, |number| Self::Number(number.into()))
    }
}

/// A value as JSON: bits are numbers, a missing value is `null`.
struct Json<'a>(&'a Value);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Number(number) | Value::Bits(number) => number.fmt(f),
            Value::Real(bits) => f64::from_bits(*bits).fmt(f),
            Value::Word(text) => quoted(text, f),
            Value::Text(text) => quoted(text, f),
            // These contain no character that needs an escape.
            value @ (Value::Address(_) | Value::CommunityId(_) | Value::Dropped) => {
                write!(f, "\"{value}\"")
            }
            Value::None => f.write_str("null"),
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        let (plain, escaped) = rest.split_at(at);
        f.write_str(plain)?;
        match escaped.as_bytes()[0] {
            byte @ (b'"' | b'\\') => write!(f, "\\{}", char::from(byte))?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            8 => f.write_str("\\b")?,
            12 => f.write_str("\\f")?,
            byte => write!(f, "\\u{byte:04x}")?,
        }
        rest = &escaped[1..];
    }
    f.write_str(rest)?;
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_formatted_for_tables_and_for_json() {
        for (value, text, json) in [
            (Value::Number(12), "12", "12"),
            (Value::Bits(0x1B), "0x1b", "27"),
            (Value::real(0.25), "0.25", "0.25"),
            (Value::real(3.0), "3", "3"),
            (Value::real(f64::NAN), "", "null"),
            (Value::Address(IpAddr::from([10, 0, 0, 1])), "10.0.0.1", "\"10.0.0.1\""),
            (Value::Word("closed"), "closed", "\"closed\""),
            (Value::Text("a\"\\\n\t\u{1}é\u{8}".into()), "a\"\\\n\t\u{1}é\u{8}", r#""a\"\\\n\t\u0001é\b""#),
            (Value::Dropped, NO_MEMORY, "\"(no memory)\""),
            (Value::None, "", "null"),
            (Some(3_u8).into(), "3", "3"),
            (Value::from_text(None, true), NO_MEMORY, "\"(no memory)\""),
        ] {
            assert_eq!((value.to_string(), value.json().to_string()), (text.into(), json.into()));
        }
    }
}
