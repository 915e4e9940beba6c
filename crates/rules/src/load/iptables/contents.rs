//! The matches `u32` and `string`, which ask for bytes of a packet.

use alloc::string::String;
#[cfg(feature = "std")]
use alloc::vec::Vec;

use super::words::Word;
#[cfg(feature = "std")]
use super::words::words;
use crate::firewall::{Contents, Test, TestKind, of_hexadecimal};
use crate::rule::decimal;

/// The options of a match.
pub(super) struct Read {
    /// How many words they are.
    pub(super) words: usize,
    /// What they ask for. `None` if it is not understood.
    pub(super) test: Option<Test>,
}

/// Reads the options that follow the name of a match, up to the first word that is not one of its
/// options.
pub(super) fn read(name: &str, words: &[Word]) -> Read {
    let (mut is_negated, mut next) = (false, 0);
    let (mut expression, mut text) = (None, None);
    let (mut range, mut ignores_case, mut is_right) = ([0, 65_535], false, true);
    while let Some(word) = words.get(next) {
        let (option, is_not) = match words.get(next + 1) {
            Some(option) if word.is_not() => (option, true),
            _ => (word, false),
        };
        let at = next + 1 + usize::from(is_not);
        let argument = words.get(at).map(|word| word.text.as_str());
        let is_flag = match (name, option.text.as_str()) {
            _ if !option.is_option() => break,
            ("u32", "--u32") => {
                (expression, is_negated) = (argument, is_not);
                false
            }
            ("string", "--string") => {
                (text, is_negated) = (argument.map(|text| text.as_bytes().to_vec()), is_not);
                false
            }
            ("string", "--hex-string") => {
                (text, is_negated) = (argument.and_then(of_hexadecimal), is_not);
                false
            }
            ("string", "--algo") => false,
            ("string", option @ ("--from" | "--to")) => {
                let number = argument.and_then(decimal);
                is_right &= number.is_some();
                range[usize::from(option == "--to")] = number.unwrap_or(0);
                false
            }
            ("string", "--icase") => {
                ignores_case = true;
                true
            }
            _ => break,
        };
        next = at + usize::from(!is_flag);
    }
    let contents = match (expression, text) {
        (Some(expression), _) => Contents::of_words(expression),
        (None, text) => text.and_then(|text| Contents::of_text(text, range, ignores_case)),
    };
    let test =
        contents.filter(|_| is_right).map(|contents| Test::new(TestKind::Contents(contents), is_negated));
    Read { words: next.min(words.len()), test }
}

/// Reads a match as [`Contents`] shows it, such as `u32 --u32 "6&0xFF=17"`; `datagram` before it
/// means [`Contents::of_datagram`].
#[cfg(feature = "std")]
pub(crate) fn contents(text: &str) -> Option<Contents> {
    if let Some(text) = text.strip_prefix("datagram ") {
        return contents(text).map(Contents::of_datagram);
    }
    if text.starts_with('@') {
        return Contents::of_shown_bits(text);
    }
    let all: Vec<Word> = words(0, text, 0).ok()?;
    let (name, options) = all.split_first()?;
    let Read { words, test } = read(&name.text, options);
    match test?.kind {
        TestKind::Contents(contents) if words == options.len() => Some(contents),
        _ => None,
    }
}

/// Returns the words as text.
pub(super) fn text_of(name: &str, words: &[Word]) -> String {
    words.iter().fold(String::from(name), |text, word| text + " " + &word.text)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::super::{Options, load};
    use super::*;

    /// Returns the tests of a rule.
    fn tests(matches: &str) -> Vec<Test> {
        let text = format!("*filter\n:INPUT ACCEPT [0:0]\n-A INPUT {matches} -j DROP\nCOMMIT\n");
        let policy = load(&text, &Options::default()).unwrap();
        policy.entries().next().map(|entry| entry.conditions.tests.clone()).unwrap_or_default()
    }

    #[test]
    fn match_options_are_read_in_any_order_up_to_the_next_match() {
        let words = |expression| TestKind::Contents(Contents::of_words(expression).unwrap());
        let text = |bytes: &[u8], range, icase| {
            TestKind::Contents(Contents::of_text(bytes.to_vec(), range, icase).unwrap())
        };
        for (matches, expected) in [
            ("-m u32 --u32 \"6&0xFF=17\"", Test::new(words("6&0xFF=17"), false)),
            ("-m u32 ! --u32 6&0xFF=17", Test::new(words("6&0xFF=17"), true)),
            ("-m string --algo bm --string \"a b\"", Test::new(text(b"a b", [0, 65_535], false), false)),
            (
                "-m string ! --hex-string \"|61|b\" --algo kmp --to 90 --from 20 --icase",
                Test::new(text(b"ab", [20, 90], true), true),
            ),
        ] {
            assert_eq!(tests(matches), [expected], "{matches}");
        }
        assert_eq!(tests("-m u32 --u32 6=1 -m string --string a --algo bm").len(), 2);
        // What is not understood is unknown.
        for matches in ["-m u32 --u32 6>>40=1", "-m string --algo bm", "-m string --string a --from x"] {
            let [Test { kind: TestKind::Unknowable(_), .. }] = &tests(matches)[..] else {
                panic!("{matches} is taken for known");
            };
        }
    }
}
