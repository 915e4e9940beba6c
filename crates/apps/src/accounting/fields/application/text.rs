//! Text from the network, made safe for terminals, tables and databases.

use std::fmt::Write as _;

/// Maximum length of a value including escapes, in bytes.
pub const TEXT_BYTES_MAX: usize = 255;

/// Ends a text that a limit cut off. Alone, it means that nothing of the text is known. No other
/// text contains it.
pub const CUT: &str = "…";

/// Returns bytes as printable ASCII of at most [`TEXT_BYTES_MAX`] bytes. A byte outside `0x20` to
/// `0x7E` becomes `\xNN`, and a backslash is doubled. Different bytes therefore have different
/// texts, except for what the limit cuts off, for which [`CUT`] stands. An escape is never split.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::text::{CUT, printable};
/// assert_eq!(printable(b"a\\b\r\n\xFF"), r"a\\b\x0d\x0a\xff");
/// assert_eq!(printable(&[0; 1000]), r"\x00".repeat(63) + CUT);
/// ```
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    escaped(bytes, true)
}

/// Returns [`printable`] text that ends with [`CUT`], because the bytes are not all of the value.
#[must_use]
pub fn cut(bytes: &[u8]) -> String {
    escaped(bytes, false)
}

fn escaped(bytes: &[u8], is_all: bool) -> String {
    let mut text = String::with_capacity(bytes.len().min(TEXT_BYTES_MAX));
    let mut end = 0;
    for &byte in bytes {
        push_escaped(&mut text, byte);
        if !fits(&mut text, &mut end) {
            return text;
        }
    }
    if !is_all {
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

fn push_escaped(text: &mut String, byte: u8) {
    match byte {
        b'\\' => text.push_str(r"\\"),
        0x20..=0x7E => text.push(char::from(byte)),
        // Writing to a string cannot fail.
        _ => drop(write!(text, "\\x{byte:02x}")),
    }
}

/// [`printable`] names separated by commas, together of at most [`TEXT_BYTES_MAX`] bytes. A comma
/// within a name becomes `\x2c`, so that different lists have different texts.
#[derive(Debug, Default)]
pub(super) struct PrintableList {
    text: String,
    /// Where [`CUT`] fits.
    end: usize,
    is_cut: bool,
}

impl PrintableList {
    pub(super) fn push(&mut self, name: &[u8]) {
        let Self { text, end, is_cut } = self;
        let separator = (!text.is_empty()).then_some(None);
        for byte in separator.into_iter().chain(name.iter().copied().map(Some)) {
            if *is_cut {
                return;
            }
            match byte {
                None => text.push(','),
                Some(b',') => text.push_str(r"\x2c"),
                Some(byte) => push_escaped(text, byte),
            }
            *is_cut = !fits(text, end);
        }
    }

    /// Returns the names, or `None` if there are none.
    pub(super) fn finish(self) -> Option<String> {
        (!self.text.is_empty()).then_some(self.text)
    }
}

/// Returns whether a text that grew by one character still fits. Otherwise replaces its end with
/// [`CUT`]; `end` is where that fits.
fn fits(text: &mut String, end: &mut usize) -> bool {
    let is_fitting = text.len() <= TEXT_BYTES_MAX;
    if text.len() + CUT.len() <= TEXT_BYTES_MAX {
        *end = text.len();
    } else if !is_fitting {
        text.truncate(*end);
        text.push_str(CUT);
    }
    is_fitting
}

/// The domain name of its labels in the presentation format of RFC 1035 §5.1: `\.` and `\\` stand
/// for those characters, and `\DDD` for a byte that is not printable or a semicolon, which
/// separates names. The root is `.`.
#[derive(Debug, Default)]
pub(super) struct DomainName {
    text: String,
    /// Where [`CUT`] fits.
    end: usize,
    is_cut: bool,
}

impl DomainName {
    pub(super) fn push(&mut self, label: &[u8]) {
        let Self { text, end, is_cut } = self;
        if *is_cut {
            return;
        }
        if text.is_empty() {
            text.reserve(64);
        } else {
            text.push('.');
        }
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if let Ok(plain) = std::str::from_utf8(label)
            && text.len() + label.len() + CUT.len() <= TEXT_BYTES_MAX
            && label.iter().all(is_plain)
        {
            text.push_str(plain);
            *end = text.len();
            return;
        }
        for &byte in label {
            match byte {
                b'.' | b'\\' => text.extend(['\\', char::from(byte)]),
                b';' => text.push_str(r"\059"),
                0x21..=0x7E => text.push(char::from(byte)),
                _ => drop(write!(text, "\\{byte:03}")),
            }
            if !fits(text, end) {
                *is_cut = true;
                return;
            }
        }
    }

    pub(super) fn finish(self) -> String {
        if self.text.is_empty() { ".".into() } else { self.text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain_name(labels: &[&[u8]]) -> String {
        let mut name = DomainName::default();
        for label in labels {
            name.push(label);
        }
        name.finish()
    }

    #[test]
    fn any_bytes_become_printable_text_of_limited_length() {
        for byte in 0..=u8::MAX {
            for length in [0, 1, 63, 64, 252, 253, 255, 256, 2000] {
                let bytes = vec![byte; length];
                let is_ascii = |text: &str, first| text.bytes().all(|byte| (first..0x7F).contains(&byte));
                for (text, first) in
                    [(printable(&bytes), b' '), (cut(&bytes), b' '), (domain_name(&[&bytes]), b'!')]
                {
                    let kept = text.strip_suffix(CUT).unwrap_or(&text);
                    assert!(text.len() <= TEXT_BYTES_MAX && is_ascii(kept, first), "{text}");
                    let is_whole = length == 0 || kept.len().is_multiple_of(length);
                    assert!(is_whole || text.ends_with(CUT), "{text}");
                }
            }
        }
    }

    #[test]
    fn lists_of_names_have_no_comma_within_a_name() {
        let list = |names: &[&[u8]]| {
            let mut list = PrintableList::default();
            for name in names {
                list.push(name);
            }
            list.finish()
        };
        assert_eq!(list(&[b"h2", b"http/1.1"]).as_deref(), Some("h2,http/1.1"));
        assert_eq!(list(&[b"a,b", b"c"]).as_deref(), Some(r"a\x2cb,c"));
        assert_eq!(list(&[br"a\x2cb", b"\0"]).as_deref(), Some(r"a\\x2cb,\x00"));
        assert_eq!((list(&[]), list(&[b""])), (None, None));
        for names in 1..300 {
            let text = list(&vec![&b",\xFF"[..]; names]).unwrap();
            let whole = vec![r"\x2c\xff"; names].join(",");
            let kept = text.strip_suffix(CUT).unwrap_or(&text);
            assert!(text.len() <= TEXT_BYTES_MAX && whole.starts_with(kept), "{text}");
            assert_eq!(text.ends_with(CUT), whole.len() > TEXT_BYTES_MAX, "{text}");
        }
    }

    #[test]
    fn truncation_mark_does_not_split_an_escape() {
        assert_eq!(printable(&[b'x'; 255]), "x".repeat(255));
        assert_eq!(printable(&[b'x'; 256]), "x".repeat(252) + CUT);
        assert_eq!(printable(&[&[b'x'; 251], &b"\0\0"[..]].concat()), "x".repeat(251) + CUT);
        assert_eq!((cut(b""), cut(b"a")), (CUT.into(), format!("a{CUT}")));
        assert_eq!(cut(&[b'x'; 254]), "x".repeat(252) + CUT);
        assert_eq!(domain_name(&[b"a;b", b"c.d", b"\xC3 "]), r"a\059b.c\.d.\195\032");
    }
}
