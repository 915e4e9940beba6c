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

/// Options of one letter, which their argument may follow without a blank.
const LETTERS: &[u8] = b"sdpiojgm";

/// Appends a word. An option that contains its argument (`--source=10.0.0.1`, `-s10.0.0.1`) becomes
/// two words.
fn push(words: &mut Vec<Word>, word: Word) {
    let text = word.text.as_bytes();
    let split = match text {
        _ if word.is_quoted => None,
        [b'-', b'-', ..] => text.iter().position(|&byte| byte == b'=').map(|at| (at, at + 1)),
        [b'-', letter, _, ..] if LETTERS.contains(letter) => Some((2, 2)),
        _ => None,
    };
    let Some((end, start)) = split else { return words.push(word) };
    let part = |text: &str, at: usize| Word { text: String::from(text), at, is_quoted: false };
    words.push(part(&word.text[..end], word.at));
    words.push(part(&word.text[start..], word.at + start));
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
        push(&mut words, word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_group_words() {
        let line = r#"-A X -m comment --comment "a \"b\" -j c" -j "D""#;
        let all = words(1, line, 0).unwrap();
        let texts: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["-A", "X", "-m", "comment", "--comment", "a \"b\" -j c", "-j", "D"]);
        assert_eq!((all[2].at, all[5].is_quoted, all[5].is_option()), (5, true, false));
        assert_eq!(words(3, "a \"b", 0).unwrap_err().column, 3);
    }

    #[test]
    fn options_may_be_joined_with_their_arguments() {
        let all = words(1, "-ptcp --source=10.0.0.1 -jACCEPT \"-sx\" -f -c --é=é -é", 0).unwrap();
        let texts: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
        let expected =
            ["-p", "tcp", "--source", "10.0.0.1", "-j", "ACCEPT", "-sx", "-f", "-c", "--é", "é", "-é"];
        assert_eq!(texts, expected);
        assert_eq!((all[1].at, all[3].at), (2, 15));
    }
}
