//! Text from the network, made safe for terminals, tables and databases.

use std::fmt::Write as _;

/// Maximum length of a value including escapes, in bytes.
pub const TEXT_BYTES_MAX: usize = 255;

/// Returns bytes as printable ASCII of at most [`TEXT_BYTES_MAX`] bytes. A byte outside `0x20` to
/// `0x7E` becomes `\xNN`, and a backslash is doubled. Different bytes therefore have different
/// texts, except for what the limit cuts off. An escape is never split.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::text::printable;
/// assert_eq!(printable(b"a\\b\r\n\xFF"), r"a\\b\x0d\x0a\xff");
/// assert_eq!(printable(&[0; 1000]).len(), 252);
/// ```
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().min(TEXT_BYTES_MAX));
    for &byte in bytes {
        let width = match byte {
            b'\\' => 2,
            0x20..=0x7E => 1,
            _ => 4,
        };
        if text.len() + width > TEXT_BYTES_MAX {
            break;
        }
        match byte {
            b'\\' => text.push_str(r"\\"),
            0x20..=0x7E => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text
}

/// Appends a label of a domain name in the presentation format of RFC 1035 §5.1: `\.` and `\\`
/// stand for those characters, and `\DDD` for a byte that is not printable. Returns whether the
/// whole label fitted into [`TEXT_BYTES_MAX`] bytes.
pub(super) fn push_label(text: &mut String, label: &[u8]) -> bool {
    for &byte in label {
        let width = match byte {
            b'.' | b'\\' => 2,
            0x21..=0x7E => 1,
            _ => 4,
        };
        if text.len() + width > TEXT_BYTES_MAX {
            return false;
        }
        match byte {
            b'.' | b'\\' => text.extend(['\\', char::from(byte)]),
            0x21..=0x7E => text.push(char::from(byte)),
            _ => drop(write!(text, "\\{byte:03}")),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_printable_and_bounded_whatever_the_bytes() {
        for byte in 0..=u8::MAX {
            for length in [0, 1, 63, 64, 254, 255, 256, 2000] {
                let text = printable(&vec![byte; length]);
                assert!(
                    text.len() <= TEXT_BYTES_MAX && text.bytes().all(|byte| (0x20..0x7F).contains(&byte))
                );
                let mut label = String::new();
                push_label(&mut label, &vec![byte; length]);
                assert!(
                    label.len() <= TEXT_BYTES_MAX && label.bytes().all(|byte| (0x21..0x7F).contains(&byte))
                );
            }
        }
    }
}
