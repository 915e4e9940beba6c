//! Splits an expression into tokens.

use super::RecordFilterError;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// One of the bits is set.
    HasBits,
    /// One of several values.
    In,
    /// The text has one of several parts.
    Contains,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Open,
    Close,
    Comma,
    And,
    Or,
    Not,
    Compare(Comparison),
    /// A name or a value without quotes.
    Word(String),
    /// Quoted text.
    Quoted(String),
}

/// A token, and its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: TokenKind,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '+' | '-')
}

/// Returns the tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, RecordFilterError> {
    // Longer operators come before their prefixes.
    let operators = [
        ("==", TokenKind::Compare(Comparison::Equal)),
        ("!=", TokenKind::Compare(Comparison::Unequal)),
        ("<=", TokenKind::Compare(Comparison::LessOrEqual)),
        (">=", TokenKind::Compare(Comparison::GreaterOrEqual)),
        ("&&", TokenKind::And),
        ("||", TokenKind::Or),
        ("<", TokenKind::Compare(Comparison::Less)),
        (">", TokenKind::Compare(Comparison::Greater)),
        ("&", TokenKind::Compare(Comparison::HasBits)),
        ("!", TokenKind::Not),
        ("(", TokenKind::Open),
        (")", TokenKind::Close),
        (",", TokenKind::Comma),
    ];
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, bytes) = if let Some((operator, kind)) =
            operators.iter().find(|(operator, _)| rest.starts_with(operator))
        {
            (kind.clone(), operator.len())
        } else if matches!(first, '"' | '\'') {
            let Some(end) = rest[1..].find(first) else {
                return Err(RecordFilterError::new(at, format!("the quote {first} is not closed")));
            };
            (TokenKind::Quoted(rest[1..=end].to_owned()), end + 2)
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (of_word(&rest[..end]), end)
        } else if first == '=' {
            let operator = match rest.as_bytes().get(1) {
                Some(b'>') => ">=",
                Some(b'<') => "<=",
                Some(b'~') => "contains",
                _ => "==",
            };
            let what =
                format!("'=' is not an operator\n  write {operator}, or quote a value that contains '='");
            return Err(RecordFilterError::new(at, what));
        } else {
            let hint = if first == '~' { "write contains for a part of a text, or " } else { "" };
            let what =
                format!("unexpected '{}'\n  {hint}quote a value that contains it", first.escape_debug());
            return Err(RecordFilterError::new(at, what));
        };
        tokens.push(Token { at, kind });
        at += bytes;
    }
    Ok(tokens)
}

fn of_word(word: &str) -> TokenKind {
    match &*word.to_ascii_lowercase() {
        "and" => TokenKind::And,
        "or" => TokenKind::Or,
        "not" => TokenKind::Not,
        "in" => TokenKind::Compare(Comparison::In),
        "contains" => TokenKind::Compare(Comparison::Contains),
        _ => TokenKind::Word(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_words_and_quotes_are_distinguished() {
        let kinds = |text: &str| -> Vec<TokenKind> {
            tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
        };
        let word = |word: &str| TokenKind::Word(word.to_owned());
        assert_eq!(
            kinds("a<=1M&&!(b in ::1/128)"),
            [
                word("a"),
                TokenKind::Compare(Comparison::LessOrEqual),
                word("1M"),
                TokenKind::And,
                TokenKind::Not,
                TokenKind::Open,
                word("b"),
                TokenKind::Compare(Comparison::In),
                word("::1/128"),
                TokenKind::Close
            ]
        );
        assert_eq!(
            kinds("'1:+/=' \"\""),
            [TokenKind::Quoted("1:+/=".into()), TokenKind::Quoted(String::new())]
        );
        assert_eq!(kinds("NOT a IN b"), kinds("not a in b"));
        assert_eq!(tokens("a = 1").unwrap_err().at, 2);
        for (text, operator) in [("a => 1", ">="), ("a =~ b", "contains"), ("a ~ b", "contains")] {
            assert!(tokens(text).unwrap_err().to_string().contains(operator), "{text}");
        }
        assert_eq!(tokens("a == 'é").unwrap_err().at, 5);
        assert_eq!(tokens("a == é").unwrap_err().at, 5);
    }
}
