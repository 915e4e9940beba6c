//! Splits a filter into tokens.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::FilterError;

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword, a name, or after a backslash a name that is not a keyword here.
    Word {
        text: String,
        escaped: bool,
    },
    /// A number in C's notation.
    Number(u32),
    /// An IPv4 address or a prefix of one, such as `10.1`: its value and its number of bytes.
    V4 {
        address: u32,
        bytes: u8,
    },
    V6(Ipv6Addr),
    Mac([u8; 6]),
    /// An operator or a bracket.
    Symbol(&'static str),
}

/// A token and its first byte.
#[derive(Clone, Debug)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) at: usize,
}

/// Longer operators come before their prefixes.
const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", ">=", "<=", "<<", ">>", "&", "|", "^", "!", "=", ">", "<", "+", "-", "*", "/",
    "%", "(", ")", "[", "]",
];

/// Splits a filter into tokens.
pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>, FilterError> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        }
        let rest = &text[at..];
        if let Some((token, bytes)) = operand(rest, at)? {
            out.push(Spanned { token, at });
            at += bytes;
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            out.push(Spanned { token: Token::Symbol(symbol), at });
            at += symbol.len();
        } else if rest.starts_with(':') {
            out.push(Spanned { token: Token::Symbol(":"), at });
            at += 1;
        } else {
            return Err(FilterError::new(at, format!("unexpected character '{next}'")));
        }
    }
    Ok(out)
}

/// Reads an address, a number or a word, if one begins here.
fn operand(rest: &str, at: usize) -> Result<Option<(Token, usize)>, FilterError> {
    let first = rest.chars().next().unwrap_or(' ');
    if first == '\\' {
        let word = take_while(&rest[1..], |c| c.is_alphanumeric() || c == '-' || c == '_');
        if word.is_empty() {
            return Err(FilterError::new(at, String::from("a name is missing after '\\'")));
        }
        return Ok(Some((Token::Word { text: word.to_ascii_lowercase(), escaped: true }, word.len() + 1)));
    }
    if let Some(found) = address(rest) {
        return Ok(Some(found));
    }
    if first.is_ascii_digit() {
        let digits = take_while(rest, |c| c.is_ascii_alphanumeric());
        let number = number(digits).ok_or_else(|| {
            FilterError::new(
                at,
                format!("'{digits}' is not a number of 32 bits (decimal, 0x hexadecimal or 0 octal)"),
            )
        })?;
        return Ok(Some((Token::Number(number), digits.len())));
    }
    if first.is_alphabetic() || first == '_' {
        // A hyphen belongs to a name such as `tcp-syn`; after a bracket or a space it subtracts.
        let mut word = take_while(rest, |c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        while word.ends_with(['-', '.']) {
            word = &word[..word.len() - 1];
        }
        return Ok(Some((Token::Word { text: word.to_ascii_lowercase(), escaped: false }, word.len())));
    }
    Ok(None)
}

fn take_while(text: &str, keeps: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c: char| !keeps(c)).unwrap_or(text.len());
    &text[..end]
}

/// Returns a number in C's notation.
pub(crate) fn number(digits: &str) -> Option<u32> {
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u32::from_str_radix(hex, 16).ok();
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return u32::from_str_radix(digits, 8).ok();
    }
    digits.parse().ok()
}

/// Reads a MAC, IPv6 or IPv4 address, or a prefix of an IPv4 address with at least one dot.
fn address(rest: &str) -> Option<(Token, usize)> {
    let text = take_while(rest, |c| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-'));
    if let Some(mac) = mac(text) {
        return Some((Token::Mac(mac), text.len()));
    }
    let colons = take_while(rest, |c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    // `[0:2]` has a colon too, but an IPv6 address has at least two.
    if colons.matches(':').count() >= 2
        && let Ok(v6) = colons.parse::<Ipv6Addr>()
    {
        return Some((Token::V6(v6), colons.len()));
    }
    let dotted = take_while(rest, |c| c.is_ascii_digit() || c == '.');
    if !dotted.contains('.') {
        return None;
    }
    if let Ok(v4) = dotted.parse::<Ipv4Addr>() {
        return Some((Token::V4 { address: v4.to_bits(), bytes: 4 }, dotted.len()));
    }
    let parts: Vec<&str> = dotted.split('.').collect();
    let bytes: Option<Vec<u8>> = parts.iter().map(|part| part.parse().ok()).collect();
    let bytes = bytes.filter(|bytes| (2..=3).contains(&bytes.len()))?;
    let mut all = [0; 4];
    all[..bytes.len()].copy_from_slice(&bytes);
    let count = u8::try_from(bytes.len()).ok()?;
    Some((Token::V4 { address: u32::from_be_bytes(all), bytes: count }, dotted.len()))
}

/// Returns a MAC address of six bytes, separated by colons or hyphens, or in three groups separated
/// by dots.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    for separator in [':', '-'] {
        let parts: Vec<&str> = text.split(separator).collect();
        if parts.len() == 6 && parts.iter().all(|part| (1..=2).contains(&part.len())) {
            for (byte, part) in mac.iter_mut().zip(parts) {
                *byte = u8::from_str_radix(part, 16).ok()?;
            }
            return Some(mac);
        }
    }
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() == 3 && parts.iter().all(|part| part.len() == 4) {
        for (pair, part) in mac.chunks_exact_mut(2).zip(parts) {
            pair.copy_from_slice(&u16::from_str_radix(part, 16).ok()?.to_be_bytes());
        }
        return Some(mac);
    }
    None
}
