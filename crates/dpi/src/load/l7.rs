//! The file format of l7-filter: a name on one line, an expression on the next, and optional
//! settings for its user-space program.
//!
//! Flowloom supports the format but does not distribute l7-filter's patterns. An expression is a
//! POSIX extended regular expression with `\xHH` for any byte. Letters match either case, and bytes
//! of zero are removed from the payload before the search. Many published files are malformed, and
//! both regex libraries of l7-filter accept them. Therefore an opening bracket inside brackets, a
//! brace that repeats nothing, and a `*` with nothing before it are literals here too.

use super::ParseError;
use super::own::check_name;
use crate::pattern::{Dialect, Pattern};

/// Names that match everything in l7-filter: unmatched flows, and flows that were not scanned.
const CATCH_ALL: [&str; 2] = ["unknown", "unset"];

/// Parses the text of one file. Returns `None` for the catch-alls, which would conceal that no
/// pattern matched.
///
/// A second repetition mark after a first one repeats the whole, as in POSIX. After an interval
/// (`a{2}+`) it is read as any number of the atom, which matches more.
///
/// # Errors
///
/// Returns a [`ParseError`] with the line.
///
/// # Examples
///
/// ```
/// use flowloom_dpi::load::parse_l7;
///
/// let text = "# a comment\nmine\n^[\\x01-\\x03]hello.?world\n";
/// let pattern = parse_l7(text)?.expect("is no catch-all");
/// assert_eq!(pattern.name, "mine");
/// assert!(parse_l7("unknown\n.\n")?.is_none());
/// # Ok::<(), flowloom_dpi::load::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Option<Pattern>, ParseError> {
    let mut name: Option<&str> = None;
    let mut kernel: Option<(usize, &str)> = None;
    let mut user: Option<(usize, &str)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end_matches('\r');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(expression) = line.strip_prefix("userspace pattern=") {
            user = Some((number, expression));
        } else if line.starts_with("userspace flags=") {
            // These lines state defaults of l7-filter: extended syntax, either case, no match
            // positions.
        } else if name.is_none() {
            check_name(line.trim(), number)?;
            name = Some(line.trim());
        } else if kernel.is_none() {
            kernel = Some((number, line));
        } else {
            return Err(ParseError::at(
                number,
                "follows the expression: a file has one name and one expression",
            ));
        }
    }
    let name = name
        .ok_or_else(|| ParseError::at(0, "has no name: it must be the first line that is not a comment"))?;
    // The syntax is that of the user-space program; most files have one expression for both
    // programs.
    let (number, expression) = user
        .or(kernel)
        .ok_or_else(|| ParseError::at(0, format!("{name} has no expression on the line after its name")))?;
    if CATCH_ALL.contains(&name) {
        return Ok(None);
    }
    let regex = translate(expression).map_err(|what| ParseError::at(number, what))?;
    Ok(Some(Pattern { dialect: Dialect::L7Filter, ..Pattern::new(name, &regex) }))
}

/// The last item written, which decides how a repetition after it is read.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// An item that cannot be repeated.
    Nothing,
    /// An atom.
    Atom,
    /// An atom with its repetition; the text of both begins at this offset.
    Repeated(usize),
}

/// Converts a POSIX expression to the syntax of the `regex` crate.
fn translate(expression: &str) -> Result<String, String> {
    let text: Vec<char> = expression.chars().collect();
    let mut out = String::with_capacity(expression.len() + 16);
    let mut last = Last::Nothing;
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let c = text[at];
        match c {
            '\\' => {
                let (byte, length) = escape(&text[at..])?;
                literal(&mut out, byte);
                at += length;
                last = Last::Atom;
                continue;
            }
            '[' => {
                at += bracket(&text[at..], &mut out)?;
                last = Last::Atom;
                continue;
            }
            '*' | '+' | '?' => last = repeat(&mut out, last, c),
            '{' => {
                let length = interval(&text[at..]);
                if length > 0 && last == Last::Atom {
                    let begin = out.len();
                    out.extend(&text[at..at + length]);
                    at += length;
                    last = Last::Repeated(begin);
                    continue;
                }
                out.push_str("\\{");
                last = Last::Atom;
            }
            '}' | ']' => {
                out.push('\\');
                out.push(c);
                last = Last::Atom;
            }
            '(' => {
                depth += 1;
                out.push_str("(?:");
                last = Last::Nothing;
            }
            ')' if depth > 0 => {
                depth -= 1;
                out.push(')');
                last = Last::Atom;
            }
            ')' => {
                out.push_str("\\)");
                last = Last::Atom;
            }
            '|' | '^' | '$' => {
                out.push(c);
                last = Last::Nothing;
            }
            '.' => {
                out.push(c);
                last = Last::Atom;
            }
            c if c.is_ascii() => {
                literal(&mut out, c as u8);
                last = Last::Atom;
            }
            c => return Err(format!("'{c}' is not a byte: write bytes above 7f as \\xHH")),
        }
        at += 1;
    }
    if depth > 0 {
        return Err(String::from("a ( is never closed"));
    }
    Ok(out)
}

/// Repeats the last item. POSIX applies a second repetition to the whole, whereas the `regex` crate
/// would read it as a modifier of the first.
fn repeat(out: &mut String, last: Last, mark: char) -> Last {
    match last {
        Last::Nothing => {
            literal(out, mark as u8);
            Last::Atom
        }
        Last::Atom => {
            out.push(mark);
            Last::Repeated(out.len() - 1)
        }
        Last::Repeated(begin) => {
            let joined = match &out[begin..] {
                "?" if mark == '?' => "?",
                "+" if mark == '+' => "+",
                // This includes a repeated interval: it is rare, a group can no longer be inserted
                // before it, and any number of repetitions covers it.
                _ => "*",
            };
            out.truncate(begin);
            out.push_str(joined);
            Last::Repeated(begin)
        }
    }
}

/// Returns the byte that an escape represents, and the escape's length.
fn escape(text: &[char]) -> Result<(u8, usize), String> {
    match text.get(1) {
        None => Err(String::from("ends with a single \\")),
        Some('x' | 'X') => match (hex(text.get(2)), hex(text.get(3))) {
            (Some(high), Some(low)) => Ok((high << 4 | low, 4)),
            // l7-filter reads such an x as a literal.
            _ => Ok((b'x', 2)),
        },
        Some(&c) if c.is_ascii() => Ok((c as u8, 2)),
        Some(c) => Err(format!("'{c}' is not a byte")),
    }
}

fn hex(c: Option<&char>) -> Option<u8> {
    c.and_then(|c| c.to_digit(16)).and_then(|digit| u8::try_from(digit).ok())
}

/// Returns the length of `{n}`, `{n,}` or `{n,m}`, or 0 if the text is not an interval.
fn interval(text: &[char]) -> usize {
    let Some(end) = text.iter().take(12).position(|&c| c == '}') else { return 0 };
    let inner: String = text[1..end].iter().collect();
    let (low, high) = inner.split_once(',').unwrap_or((&inner, ""));
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let Some(least) = number(low) else { return 0 };
    let good = high.is_empty() || number(high).is_some_and(|most| most >= least);
    if good { end + 1 } else { 0 }
}

/// Converts a bracket expression, and returns its length.
fn bracket(text: &[char], out: &mut String) -> Result<usize, String> {
    let mut at = 1;
    out.push('[');
    if text.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    let first = at;
    let mut members: Vec<u8> = Vec::new();
    loop {
        let Some(&c) = text.get(at) else { return Err(String::from("a [ is never closed")) };
        if c == ']' && at > first {
            break;
        }
        if c == '[' && text.get(at + 1) == Some(&':') {
            let length = class(&text[at..], out)?;
            if length > 0 {
                at += length;
                continue;
            }
        }
        let (low, length) = member(&text[at..])?;
        at += length;
        let range = text.get(at) == Some(&'-') && text.get(at + 1).is_some_and(|&next| next != ']');
        if range {
            let (high, length) = member(&text[at + 1..])?;
            if high < low {
                return Err(format!("the range \\x{low:02x}-\\x{high:02x} is empty"));
            }
            literal(out, low);
            out.push('-');
            literal(out, high);
            at += 1 + length;
        } else {
            members.push(low);
        }
    }
    for byte in members {
        literal(out, byte);
    }
    out.push(']');
    Ok(at + 1)
}

/// Returns one member of a bracket expression. A backslash is an escape here too, because the
/// authors of the files use it as one.
fn member(text: &[char]) -> Result<(u8, usize), String> {
    match text.first() {
        Some('\\') => escape(text),
        Some(&c) if c.is_ascii() => Ok((c as u8, 1)),
        Some(c) => Err(format!("'{c}' is not a byte: write bytes above 7f as \\xHH")),
        None => Err(String::from("a [ is never closed")),
    }
}

/// Converts a class such as `[:alpha:]`, and returns its length, or 0 if the text is not a class.
fn class(text: &[char], out: &mut String) -> Result<usize, String> {
    const NAMES: [&str; 12] = [
        "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph", "cntrl",
        "xdigit",
    ];
    let Some(end) = text.iter().take(12).position(|&c| c == ']') else { return Ok(0) };
    let name: String = text[2..end].iter().collect();
    let Some(name) = name.strip_suffix(':') else { return Ok(0) };
    if !NAMES.contains(&name) {
        return Err(format!("[:{name}:] is not a class"));
    }
    out.push_str("[:");
    out.push_str(name);
    out.push_str(":]");
    Ok(end + 1)
}

fn literal(out: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || byte == b' ' {
        out.push(byte as char);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.push_str("\\x");
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Rescanner;
    use crate::{Outcome, ScanState, Scanner, Transport};

    fn matches(expression: &str, payload: &[u8]) -> bool {
        let text = format!("test\n{expression}\n");
        let pattern = parse(&text).unwrap().unwrap();
        let found = Rescanner::new(std::slice::from_ref(&pattern)).unwrap().first(Transport::Tcp, payload);
        let scanner = Scanner::new(&[pattern]).unwrap();
        let outcome = scanner.scan(Transport::Tcp, &mut ScanState::default(), payload);
        assert_eq!(matches!(outcome, Outcome::Matched(_)), found.is_some(), "{expression} on {payload:?}");
        found.is_some()
    }

    #[test]
    fn case_is_ignored_and_zero_bytes_are_skipped() {
        assert!(matches("^hello", b"HeL\0lO world"));
        assert!(matches("^\\x01.?b", b"\x01\0\0\0b"));
        assert!(!matches("^a.b", b"a\0b"));
    }

    #[test]
    fn parser_is_as_lenient_as_the_original() {
        assert!(matches("^[a[b]+$", b"[ab["), "a bracket within brackets");
        assert!(matches("^a{$", b"a{"), "a brace that repeats nothing");
        assert!(matches("^(*a)", b"*a"), "a star behind nothing");
        assert!(matches("^x{2,3}$", b"xxx"));
        assert!(matches("^[]a]+$", b"]a"), "a closing bracket that comes first");
        assert!(matches("^[a\\-\\.z]+$", b"-.az"), "escapes within brackets");
        assert!(matches("^[[:alpha:]\\x00-\\x05]+$", b"ab\x05"));
        assert!(matches("^ab+?c$", b"ac"), "a second mark repeats the whole");
        assert!(matches("\\x2e\\x2a", b"a.*"), "bytes by number stand for themselves");
    }

    #[test]
    fn user_space_patterns_are_read_and_flags_ignored() {
        let text = "# c\n\nproto\r\n^kernel\n# more\nuserspace pattern=^user\nuserspace flags=REG_EXTENDED|REG_NOSUB\n";
        let pattern = parse(text).unwrap().unwrap();
        assert_eq!((pattern.name.as_str(), pattern.regex().as_str()), ("proto", "^user"));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in [
            ("", 0),
            ("# only\n", 0),
            ("a\n", 0),
            ("a\n\n(b\n", 3),
            ("a\n[b\n", 2),
            ("a\nb\\\n", 2),
            ("a\n[z-a]\n", 2),
            ("a b\nc\n", 1),
            ("a\nb\nc\n", 3),
            ("a\nä\n", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
