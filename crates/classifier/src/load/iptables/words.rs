//! Splits a line of `iptables-save` into words, like `iptables-restore`.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind};

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// First byte in the line.
    pub(super) at: usize,
    /// It was quoted, so a leading dash begins no option.
    pub(super) is_quoted: bool,
}

impl Word {
    /// Returns whether the word begins an option.
    pub(super) fn is_option(&self) -> bool {
        !self.is_quoted && self.text.len() > 1 && self.text.starts_with('-')
    }

    /// Returns whether the word negates the next one.
    pub(super) fn is_not(&self) -> bool {
        !self.is_quoted && self.text == "!"
    }
}

/// Splits a line from a byte on. Quotes keep blanks together; inside them a backslash escapes the
/// next character.
pub(super) fn words(number: usize, line: &str, from: usize) -> Result<Vec<Word>, LoadError> {
    let mut words: Vec<Word> = Vec::new();
    let mut chars = line[from..].char_indices().map(|(at, c)| (at + from, c)).peekable();
    while let Some(&(at, first)) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let mut word = Word { text: String::new(), at, is_quoted: false };
        while let Some(&(place, c)) = chars.peek() {
            if c.is_whitespace() {
                break;
            }
            chars.next();
            if c != '"' {
                word.text.push(c);
                continue;
            }
            word.is_quoted = true;
            let mut is_open = true;
            while let Some((_, c)) = chars.next() {
                match c {
                    '"' => {
                        is_open = false;
                        break;
                    }
                    '\\' => word.text.extend(chars.next().map(|(_, c)| c)),
                    c => word.text.push(c),
                }
            }
            if is_open {
                let kind = LoadErrorKind::Expected("a quote that ends this text");
                return Err(LoadError::new(number, line, place, kind));
            }
        }
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let line = r#"-A X -m comment --comment "a \"b\" -j c" -j "D""#;
        let all = words(1, line, 0).unwrap();
        let texts: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["-A", "X", "-m", "comment", "--comment", "a \"b\" -j c", "-j", "D"]);
        assert_eq!((all[2].at, all[5].is_quoted, all[5].is_option()), (5, true, false));
        assert_eq!(words(3, "a \"b", 0).unwrap_err().column, 3);
    }
}
