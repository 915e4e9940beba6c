//! The tokens of an nft script.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind};

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, a number, an address, a range.
    Word(String),
    /// A text in quotes.
    Text(String),
    /// A sign: one of `{ } ( ) [ ] , ; = : . @ $ ! < > & | ^` or two of them that belong together.
    Sign(&'static str),
    /// The end of a line.
    Newline,
}

/// A token and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Line, from one.
    pub(super) line: usize,
    /// Maximum number of tokens in a text.
    pub(super) at: usize,
}

const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "<<", ">>", "{", "}", "(", ")", "[", "]", ",", ";", "=", "@", "$", "!", "<",
    ">", "&", "|", "^", "/",
];

/// Tokens of a text, at most so many.
const TOKENS_MAX: usize = 64 << 20;

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '-' | '*' | '+' | '%' | '\\')
}

/// Splits a text into tokens. It omits comments and joins lines that a backslash continues.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, LoadError> {
    let mut tokens: Vec<Token> = Vec::new();
    let (mut line, mut at) = (1, 0);
    while let Some(c) = text[at..].chars().next() {
        if tokens.len() > TOKENS_MAX {
            let kind = LoadErrorKind::TooMuch { what: "tokens", limit: TOKENS_MAX };
            return Err(super::error(text, at, kind));
        }
        let start = at;
        let rest = &text[at..];
        let kind = if c == '\n' {
            at += 1;
            line += 1;
            tokens.push(Token { kind: Kind::Newline, line: line - 1, at: start });
            continue;
        } else if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if rest.starts_with("# xt_") {
            // nft prints a comment in place of an iptables construct that it cannot express.
            at += 2;
            continue;
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if rest.starts_with("\\\n") || rest.starts_with("\\\r\n") {
            at += rest.find('\n').map_or(1, |end| end + 1);
            line += 1;
            continue;
        } else if c == '"' {
            let Some(end) = rest[1..].find('"') else {
                let kind = LoadErrorKind::Expected("a quote that ends this text");
                return Err(super::error(text, at, kind));
            };
            let inside = &rest[1..=end];
            line += inside.matches('\n').count();
            at += end + 2;
            Kind::Text(String::from(inside))
        } else if is_of_word(c) && c != '/' || c == ':' || c == '.' {
            let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            let mut word = &rest[..end];
            // A backslash at the end of a line is not part of the preceding word.
            if let Some(cut) = word.find('\\').filter(|_| rest[end..].starts_with(['\n', '\r'])) {
                word = &word[..cut];
            }
            at += word.len().max(1);
            match word {
                ":" => Kind::Sign(":"),
                "." => Kind::Sign("."),
                word => Kind::Word(String::from(word)),
            }
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            at += sign.len();
            Kind::Sign(sign)
        } else {
            let kind = LoadErrorKind::Expected("a word, a number, a text in quotes or a sign of nft");
            return Err(super::error(text, at, kind));
        };
        tokens.push(Token { kind, line, at: start });
    }
    Ok(tokens)
}
