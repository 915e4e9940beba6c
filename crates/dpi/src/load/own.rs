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
//! | key | value |
//! |---|---|
//! | `regex` | an expression; several are alternatives |
//! | `client`, `server` | an expression for what only that end of the connection sends |
//! | `length` | the size that the datagram must have, or that makes a stream's first record complete |
//! | `records` | the size of each of the records that fill the datagram |
//! | `checksum` | a checksum that must be right |
//! | `port` | `usual` if a port of the flow must be one of `ports` |
//! | `transport` | `tcp`, `udp` or both (the default) |
//! | `ports` | the usual ports, which make a weak match surer |
//! | `answer` | names of other patterns that answer this one in kind |
//! | `strict` | `yes` if an answer that is not in kind contradicts the label |
//! | `tshark`, `spec` | for readers and for comparisons |
//!
//! A condition (`length`, `records`, `checksum`, `port`) after an expression applies to that
//! expression. A condition before the first expression applies to all expressions. An expression
//! extends to the end of its line, without trailing spaces.
//!
//! ```text
//! [radius]
//! transport = udp
//! ports = 1812 1813
//! length = u16be@2               # the length field is that of the datagram
//! regex = ^[\x01-\x05]
//!   records = u8@1 from 20        # attributes from offset 20 on fill it
//!
//! length = u8@1 + 2              # the field leaves out two bytes
//! length = u16be@2 * 4 + 4       # the field counts words behind the first
//! length = ber@0                 # an element of BER
//! checksum = internet 8 20       # over 20 bytes from offset 8 on
//! checksum = dnp 0 10            # the last two of these bytes are the check
//! checksum = sum 14 3            # the sum of these bytes is a multiple of 256
//! ```
//!
//! Number formats are `u8`, `u16be`, `u24be`, `u32be`, `u16le`, `u24le`, `u32le` and `ber`.

use super::ParseError;
use super::conditions;
use crate::condition::Condition;
use crate::pattern::{Dialect, Expression, Pattern, Role, Transports};

/// Maximum number of expressions, ports or names per pattern, and of conditions per expression.
const LIST_MAX: usize = 64;
/// Maximum length of a name in bytes.
pub(super) const NAME_BYTES_MAX: usize = 64;

/// Parses patterns in Flowloom's format.
///
/// # Errors
///
/// Returns a [`ParseError`] with the line.
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
    let mut section: Option<Section> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.trim_end().strip_suffix(']').ok_or_else(|| {
                ParseError::at(number, "a name begins with [ but does not end with ]: write [name]")
            })?;
            check_name(name, number)?;
            if let Some(section) = section.take() {
                patterns.push(section.finish()?);
            }
            section = Some(Section::new(name, number));
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(ParseError::at(number, "is not a [name], key = value or # comment"));
        };
        let Some(section) = &mut section else {
            return Err(ParseError::at(number, "comes before the first [name]"));
        };
        section.take(key.trim(), value, number)?;
    }
    if let Some(section) = section {
        patterns.push(section.finish()?);
    }
    Ok(patterns)
}

/// A pattern whose lines are being read.
struct Section {
    pattern: Pattern,
    /// The line of its name.
    begun: usize,
    /// The conditions of all expressions.
    common: Vec<Condition>,
}

impl Section {
    fn new(name: &str, begun: usize) -> Self {
        let none = Transports { tcp: false, udp: false };
        let pattern = Pattern { transports: none, dialect: Dialect::Bytes, ..Pattern::empty(name) };
        Self { pattern, begun, common: Vec::new() }
    }

    fn take(&mut self, key: &str, value: &str, number: usize) -> Result<(), ParseError> {
        let at = |what: String| ParseError::at(number, what);
        let full = |list: usize| {
            if list < LIST_MAX {
                return Ok(());
            }
            Err(at(format!("more than {LIST_MAX} values of '{key}' in one pattern: omit some")))
        };
        let pattern = &mut self.pattern;
        match key {
            "regex" | "client" | "server" => {
                let regex = value.trim_start();
                if regex.is_empty() {
                    return Err(at(String::from("the expression is empty")));
                }
                full(pattern.expressions.len())?;
                let sender = match key {
                    "client" => Some(Role::Client),
                    "server" => Some(Role::Server),
                    _ => None,
                };
                pattern.expressions.push(Expression { sender, ..Expression::new(regex) });
            }
            "length" | "records" | "checksum" | "port" => {
                let condition = conditions::parse(key, value).map_err(at)?;
                let list =
                    pattern.expressions.last_mut().map_or(&mut self.common, |last| &mut last.conditions);
                full(list.len())?;
                list.push(condition);
            }
            "transport" => {
                for word in value.split_whitespace() {
                    match word {
                        "tcp" => pattern.transports.tcp = true,
                        "udp" => pattern.transports.udp = true,
                        _ => {
                            return Err(at(format!(
                                "'{word}' is not a transport: write tcp, udp, or both"
                            )));
                        }
                    }
                }
            }
            "ports" => {
                for word in value.split_whitespace() {
                    full(pattern.ports.len())?;
                    let port = word.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
                        at(format!(
                            "'{word}' is not a port: write numbers from 1 to 65535, separated by spaces"
                        ))
                    })?;
                    pattern.ports.push(port);
                }
            }
            "answer" => {
                for word in value.split_whitespace() {
                    full(pattern.answers.len())?;
                    check_name(word, number)?;
                    pattern.answers.push(word.to_owned());
                }
            }
            "strict" => {
                pattern.strict = match value.trim() {
                    "yes" => true,
                    "no" => false,
                    other => return Err(at(format!("'{other}' is neither yes nor no"))),
                }
            }
            "tshark" => pattern.tshark = value.split_whitespace().map(str::to_owned).collect(),
            "spec" => value.trim().clone_into(&mut pattern.spec),
            _ => {
                return Err(at(format!(
                    "'{key}' is not a key; the keys are regex, client, server, length, records, \
                     checksum, port, transport, ports, answer, strict, tshark and spec"
                )));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Pattern, ParseError> {
        let Self { mut pattern, begun, common } = self;
        if pattern.expressions.is_empty() {
            return Err(ParseError::at(begun, format!("{} has no regex", pattern.name)));
        }
        let mut conditions =
            common.iter().chain(pattern.expressions.iter().flat_map(|expression| &expression.conditions));
        if pattern.ports.is_empty() && conditions.any(|condition| *condition == Condition::UsualPort) {
            let name = &pattern.name;
            return Err(ParseError::at(
                begun,
                format!("{name} requires a usual port: list the usual ports with 'ports ='"),
            ));
        }
        if pattern.transports == (Transports { tcp: false, udp: false }) {
            pattern.transports = Transports::BOTH;
        }
        for expression in &mut pattern.expressions {
            expression.conditions.splice(0..0, common.iter().copied());
        }
        Ok(pattern)
    }
}

/// Names appear in tables, flow files and metrics, so they consist of letters, digits and a few
/// marks.
pub(super) fn check_name(name: &str, number: usize) -> Result<(), ParseError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(good) {
        return Err(ParseError::at(
            number,
            format!("a name consists of 1 to {NAME_BYTES_MAX} of the characters a-z A-Z 0-9 - _ . + /"),
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
        assert_eq!(patterns[0].regex(), "(?:^a|b)|(?:c d )");
        assert_eq!(patterns[0].transports, Transports::BOTH);
        assert_eq!(patterns[1].name, "b");
    }

    #[test]
    fn a_condition_concerns_the_expression_before_it_or_all() {
        let text = "[a]\nlength = u16be@2\nregex = ^a\nclient = ^b\n  checksum = dnp 0 10\nports = 53 5353\n\
                    answer = c d\nstrict = yes\n";
        let pattern = &parse(text).unwrap()[0];
        let length = conditions::parse("length", "u16be@2").unwrap();
        let checksum = conditions::parse("checksum", "dnp 0 10").unwrap();
        assert_eq!(pattern.expressions[0].conditions, [length]);
        assert_eq!(pattern.expressions[1].conditions, [length, checksum]);
        assert_eq!(
            (pattern.expressions[0].sender, pattern.expressions[1].sender),
            (None, Some(Role::Client))
        );
        assert_eq!((&pattern.ports[..], pattern.strict), (&[53, 5353][..], true));
        assert_eq!(pattern.answers, ["c", "d"]);
    }

    #[test]
    fn lists_are_bounded() {
        let ports = |count| format!("[a]\nregex = a\nports ={}\n", " 1".repeat(count));
        assert!(parse(&ports(64)).is_ok());
        assert_eq!(parse(&ports(65)).unwrap_err().line, 3);
        let lines = |line: &str, count| format!("[a]\nregex = a\n{}", line.repeat(count));
        assert!(parse(&lines("regex = b\n", 63)).is_ok());
        assert_eq!(parse(&lines("regex = b\n", 64)).unwrap_err().line, 66);
        assert_eq!(parse(&lines("length = u8@0\n", 65)).unwrap_err().line, 67);
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
            ("[a]\nregex = a\nlength = u17be@2\n", 3),
            ("[a]\nregex = a\nport = 80\n", 3),
            ("[a]\nregex = a\nport = usual\n", 1),
            ("[a]\nregex = a\nports = 0\n", 3),
            ("[a]\nregex = a\nports = 65536\n", 3),
            ("[a]\nregex = a\nstrict = maybe\n", 3),
            ("[a]\nregex = a\nanswer = b|c\n", 3),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
