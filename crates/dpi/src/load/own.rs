//! The native format: a name in brackets, and its properties, one per line.
//!
//! ```text
//! # a comment
//! [ssh]
//! transport = tcp
//! tshark = ssh
//! spec = RFC 4253 §4.2
//! regex = ^SSH-2\.0-
//! regex = ^SSH-1\.
//! ```
//!
//! Several `regex` lines are alternatives. `transport` is `tcp`, `udp` or both (the default);
//! `tshark` and `spec` are for readers and for comparisons. An expression extends to the end of its
//! line, without the spaces before it.

use super::ParseError;
use crate::pattern::{Dialect, Pattern, Transports};

/// The longest name.
pub(super) const NAME_BYTES_MAX: usize = 64;

/// Reads a text in our own form.
///
/// # Errors
///
/// [`ParseError`] with the line.
///
/// # Examples
///
/// ```
/// use flowloom_dpi::load::parse_own;
///
/// let patterns = parse_own("[ssh]\ntransport = tcp\nregex = ^SSH-2\\.0-\n")?;
/// assert_eq!(patterns[0].name, "ssh");
/// assert!(!patterns[0].transports.udp);
/// assert_eq!(parse_own("[ssh]\nregexp = ^SSH").unwrap_err().line, 2);
/// # Ok::<(), flowloom_dpi::load::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Pattern>, ParseError> {
    let mut patterns: Vec<Pattern> = Vec::new();
    let mut begun = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.trim_end().strip_suffix(']').ok_or_else(|| {
                ParseError::at(number, "a name begins with [ and does not end with ]: write [name]")
            })?;
            check_name(name, number)?;
            finished(patterns.last(), begun)?;
            begun = number;
            let mut pattern = Pattern::new(name, "");
            pattern.transports = Transports { tcp: false, udp: false };
            patterns.push(pattern);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(ParseError::at(number, "is no [name], no key = value, and no # comment"));
        };
        let Some(pattern) = patterns.last_mut() else {
            return Err(ParseError::at(number, "comes before the first [name]"));
        };
        take(pattern, key.trim(), value, number)?;
    }
    finished(patterns.last(), begun)?;
    for pattern in &mut patterns {
        if pattern.transports == (Transports { tcp: false, udp: false }) {
            pattern.transports = Transports::BOTH;
        }
    }
    Ok(patterns)
}

fn take(pattern: &mut Pattern, key: &str, value: &str, number: usize) -> Result<(), ParseError> {
    match key {
        "regex" => {
            let expression = value.trim_start();
            if expression.is_empty() {
                return Err(ParseError::at(number, "the expression is empty"));
            }
            if !pattern.regex.is_empty() {
                pattern.regex.push('|');
            }
            pattern.regex.push_str("(?:");
            pattern.regex.push_str(expression);
            pattern.regex.push(')');
            pattern.dialect = Dialect::Bytes;
        }
        "transport" => {
            for word in value.split_whitespace() {
                match word {
                    "tcp" => pattern.transports.tcp = true,
                    "udp" => pattern.transports.udp = true,
                    _ => {
                        return Err(ParseError::at(
                            number,
                            format!("'{word}' is no transport: tcp, udp, or both"),
                        ));
                    }
                }
            }
        }
        "tshark" => pattern.tshark = value.split_whitespace().map(str::to_owned).collect(),
        "spec" => value.trim().clone_into(&mut pattern.spec),
        _ => {
            return Err(ParseError::at(
                number,
                format!("'{key}' is no key: regex, transport, tshark, spec"),
            ));
        }
    }
    Ok(())
}

fn finished(pattern: Option<&Pattern>, begun: usize) -> Result<(), ParseError> {
    match pattern {
        Some(pattern) if pattern.regex.is_empty() => {
            Err(ParseError::at(begun, format!("{} has no regex", pattern.name)))
        }
        _ => Ok(()),
    }
}

/// Names appear in tables, flow files and metrics: letters, digits and a few marks.
pub(super) fn check_name(name: &str, number: usize) -> Result<(), ParseError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(good) {
        return Err(ParseError::at(
            number,
            format!("a name has 1 to {NAME_BYTES_MAX} of the characters a-z A-Z 0-9 - _ . + /"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_kept_apart() {
        let patterns =
            parse("[a]\nregex = ^a|b\nregex=  c d \n\n# x\n[b]\ntransport = udp tcp\nregex = e\n").unwrap();
        assert_eq!(patterns[0].regex, "(?:^a|b)|(?:c d )");
        assert_eq!(patterns[0].transports, Transports::BOTH);
        assert_eq!(patterns[1].name, "b");
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in [
            ("regex = a", 1),
            ("[a]\n[b]\nregex = a", 1),
            ("[a]\nregex =", 2),
            ("[a b]\nregex = a", 1),
            ("[a\nregex = a", 1),
            ("\n[a]\nregex = a\ntransport = sctp", 4),
            ("[a]\nwhat", 2),
            ("[a]\nregex = a\n[b]\nspec = c\n", 3),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
