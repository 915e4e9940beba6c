//! ClassBench filter files, in the existing dialects.
//!
//! ```text
//! @10.0.0.0/8 <blank> 192.0.2.7/32 <blank> 0 : 65535 <blank> 80 : 80 <blank> 0x06/0xFF
//! [<blank> 0x0000/0x0200]
//! ```
//!
//! Blanks are spaces or tabs, also at the end of a line. The sign at the start, the flags, and
//! blanks around colons may be missing. Addresses are dotted decimals or IPv6; bits below the
//! prefix are cleared. Empty lines and lines that begin with `#` are skipped.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::cursor::Cursor;
use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, Located};
use crate::firewall::Policy;
use crate::rule::{Addresses, FlagsColumn, PortRange, Prefix, ProtocolMatch, Rule};

/// Reads all rules of a text, in order.
///
/// # Errors
///
/// Returns [`LoadError`] at the first line that is not a rule, or if a limit is exceeded.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, classbench};
/// let text = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\n";
/// let rules = classbench::parse(text, LoadLimits::default())?;
/// assert_eq!(rules[0].to_string(), "10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xff");
/// let error = classbench::parse("@10.0.0.0/40\t", LoadLimits::default()).unwrap_err();
/// assert_eq!((error.line, error.column), (1, 11));
/// # Ok::<(), flowloom_rules::load::LoadError>(())
/// ```
pub fn parse(text: &str, limits: LoadLimits) -> Result<Vec<Rule>, LoadError> {
    Ok(parse_located(text, limits)?.into_iter().map(|located| located.rule).collect())
}

/// Reads the same as [`parse`], with the line of each rule.
fn parse_located(text: &str, limits: LoadLimits) -> Result<Vec<Located>, LoadError> {
    let (located, errors) = located(text, limits, 1);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(located),
    }
}

/// Reads all rules, up to the limits and the maximum number of errors.
fn located(text: &str, limits: LoadLimits, errors_max: usize) -> (Vec<Located>, Vec<LoadError>) {
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    if let Err(error) = limits.check_bytes(text) {
        errors.push(error);
        return (rules, errors);
    }
    for (index, line) in text.lines().enumerate() {
        if errors.len() == errors_max {
            break;
        }
        let mut cursor = Cursor::new(index + 1, line);
        cursor.blanks();
        if cursor.is_at_end() || cursor.rest().starts_with('#') {
            continue;
        }
        if rules.len() == limits.rules_max {
            errors.push(cursor.error(LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max }));
            break;
        }
        match rule(&mut cursor) {
            Ok(rule) => {
                let value = rules.len() as u32;
                rules.push(Located { rule: Rule { value, ..rule }, line: index + 1 });
            }
            Err(error) => errors.push(error),
        }
    }
    (rules, errors)
}

/// Reads the rules of a text as a policy that also evaluates the flags column.
///
/// # Errors
///
/// Returns [`LoadErrors`]: every line that is not a rule.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, classbench};
/// use flowloom_rules::{classifier::FiveTuple, firewall::{Assume, Packet}};
/// let text = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0200/0x0200\n";
/// let policy = classbench::load(text, LoadLimits::default())?;
/// let mut packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, 80, 6));
/// packet.tcp_flags = Some(0x10);
/// assert_eq!(policy.first_match(&packet, Assume::NoMatch), None);
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, limits: LoadLimits) -> Result<Policy, LoadErrors> {
    let (located, errors) = located(text, limits, usize::MAX);
    if let Some(errors) = LoadErrors::from_list(errors) {
        return Err(errors);
    }
    Policy::plain(located).map_err(|error| {
        LoadError::new(1, "", 0, LoadErrorKind::RuleFormat(alloc::format!("{error}"))).into()
    })
}

/// Writes rules as a file that [`parse`] reads; a rule for any address of both families becomes an
/// IPv4 rule.
pub fn write(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        let (source, destination) = match rule.addresses {
            Addresses::Any => (String::from("0.0.0.0/0"), String::from("0.0.0.0/0")),
            Addresses::V4 { source, destination } => {
                (alloc::format!("{source}"), alloc::format!("{destination}"))
            }
            Addresses::V6 { source, destination } => {
                (alloc::format!("{source}"), alloc::format!("{destination}"))
            }
        };
        let (from, to, protocol) = (rule.source_ports, rule.destination_ports, rule.protocol);
        let flags = rule.flags.unwrap_or(FlagsColumn { value: 0, mask: 0 });
        let written = writeln!(
            text,
            "@{source}\t{destination}\t{from}\t{to}\t0x{:02X}/0x{:02X}\t0x{:04X}/0x{:04X}\t",
            protocol.value(),
            protocol.mask(),
            flags.value,
            flags.mask
        );
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
    text
}

fn rule(cursor: &mut Cursor<'_>) -> Result<Rule, LoadError> {
    cursor.take('@');
    cursor.blanks();
    let addresses = addresses(cursor)?;
    let source_ports = ports(cursor)?;
    cursor.blanks();
    let destination_ports = ports(cursor)?;
    cursor.blanks();
    let value = cursor.number(0xff, "a protocol such as 0x06/0xFF")?;
    cursor.require('/', "a slash and the protocol's mask")?;
    let mask = cursor.number(0xff, "the protocol's mask")?;
    let protocol = ProtocolMatch::new(value as u8, mask as u8);
    let mut flags = None;
    if cursor.blanks() && !cursor.is_at_end() {
        let value = cursor.number(0xffff, "flags such as 0x0000/0x0200, or the end of the line")?;
        cursor.require('/', "a slash and the flags' mask")?;
        let mask = cursor.number(0xffff, "the flags' mask")?;
        flags = Some(FlagsColumn { value: value as u16, mask: mask as u16 });
        cursor.blanks();
    }
    if !cursor.is_at_end() {
        return Err(cursor.error(LoadErrorKind::Expected("the end of the line")));
    }
    Ok(Rule { addresses, source_ports, destination_ports, protocol, flags, ..Rule::ANY })
}

fn addresses(cursor: &mut Cursor<'_>) -> Result<Addresses, LoadError> {
    if cursor.rest().split(['/', ' ', '\t']).next().is_some_and(|word| word.contains(':')) {
        let source = prefix::<128>(cursor)?;
        cursor.blanks();
        let destination = prefix::<128>(cursor)?;
        cursor.blanks();
        return Ok(Addresses::V6 { source, destination });
    }
    let source = prefix::<32>(cursor)?;
    cursor.blanks();
    let destination = prefix::<32>(cursor)?;
    cursor.blanks();
    Ok(Addresses::V4 { source, destination })
}

/// Reads an address, a slash and a length.
pub(super) fn prefix<const BITS: u32>(cursor: &mut Cursor<'_>) -> Result<Prefix<BITS>, LoadError> {
    let start = cursor.at();
    let word = cursor.while_of(|c| c.is_ascii_hexdigit() || c == '.' || c == ':');
    let (address, expected) = if BITS == 32 {
        (
            word.parse::<Ipv4Addr>().ok().map(|address| u128::from(address.to_bits())),
            "an IPv4 prefix such as 192.0.2.0/24",
        )
    } else {
        (word.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits), "an IPv6 prefix such as 2001:db8::/32")
    };
    let Some(address) = address else {
        return Err(cursor.error_at(start, LoadErrorKind::Expected(expected)));
    };
    if !cursor.take('/') {
        return Err(cursor.error(LoadErrorKind::Expected("a slash and the prefix's length")));
    }
    let start = cursor.at();
    let length = cursor.number(255, "the prefix's length")?;
    Prefix::new(address, length as u32).map_err(|error| cursor.error_at(start, LoadErrorKind::Rule(error)))
}

fn ports(cursor: &mut Cursor<'_>) -> Result<PortRange, LoadError> {
    let start = cursor.at();
    let low = cursor.number(0xffff, "a port range such as 0 : 65535")?;
    cursor.require(':', "a colon and the range's last port")?;
    let high = cursor.number(0xffff, "the range's last port")?;
    PortRange::new(low as u16, high as u16)
        .map_err(|error| cursor.error_at(start, LoadErrorKind::Rule(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Rule, LoadError> {
        parse(line, LoadLimits::default()).map(|rules| rules[0])
    }

    #[test]
    fn all_dialects_of_classbench_are_read() {
        let lines = [
            "@10.1.2.3/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t",
            "@10.1.2.3/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t",
            "@10.1.2.3/8 0.0.0.0/0 0:65535 80:80 0x06/0xFF",
            "10.0.0.0/8  0.0.0.0/0  0 : 65535 \t 80 : 80  6/255   \r",
        ];
        for line in lines {
            let rule = parse_line(line).unwrap();
            assert_eq!(rule.to_string(), "10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xff", "{line}");
        }
        assert_eq!(parse_line(lines[0]).unwrap().flags, Some(FlagsColumn { value: 0, mask: 0x200 }));
        assert_eq!(parse_line(lines[1]).unwrap().flags, None);
        let six = parse_line("@2001:db8::7/32\t::/0\t0 : 65535\t53 : 53\t0x11/0xFF").unwrap();
        assert_eq!(six.to_string(), "2001:db8::/32 ::/0 0 : 65535 53 : 53 0x11/0xff");
        assert!(parse("# nothing\n\n  \n", LoadLimits::default()).unwrap().is_empty());
        let located =
            parse_located(&["# head", lines[0], lines[1]].join("\n"), LoadLimits::default()).unwrap();
        assert_eq!(located.iter().map(|rule| rule.line).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn written_rules_are_read_back() {
        let text = "@10.0.0.0/8\t1.2.3.4/32\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t\n";
        let rules = parse(text, LoadLimits::default()).unwrap();
        assert_eq!(write(&rules), text);
    }

    #[test]
    fn error_shows_line_and_text() {
        let error =
            parse("# head\n@10.0.0.0/8 1.2.3.4/32 9 : 5 80 : 80 6/255", LoadLimits::default()).unwrap_err();
        assert_eq!(
            error.in_file("rules"),
            "rules:2:24: port range 9 : 5 ends before it begins; write 5 : 9\n  \
             @10.0.0.0/8 1.2.3.4/32 9 : 5 80 : 80 6/255\n                         ^"
        );
        for (line, column) in [
            ("@10.0.0.0/33 ", 11),
            ("@10.0.0/8 ", 2),
            ("@1.2.3.4/8 1.2.3.4 ", 19),
            ("@1.2.3.4/8 1.2.3.4/8 70000 : 1", 22),
            ("@1.2.3.4/8 1.2.3.4/8 0 : 1 0 - 1", 30),
            ("@1.2.3.4/8 1.2.3.4/8 0 : 1 0 : 1 tcp", 34),
            ("@1.2.3.4/8 1.2.3.4/8 0 : 1 0 : 1 6/256", 36),
            ("@1.2.3.4/8 1.2.3.4/8 0 : 1 0 : 1 6/255 1/2 3", 44),
            ("@1.2.3.4/8 ::/8 0 : 1", 12),
            ("@ä", 2),
        ] {
            assert_eq!(
                parse_line(line).unwrap_err().column,
                column,
                "{line}: {}",
                parse_line(line).unwrap_err()
            );
        }
    }

    #[test]
    fn exceeded_limits_are_errors() {
        let line = "@10.0.0.0/8 1.2.3.4/32 0 : 5 80 : 80 6/255\n";
        let text = line.repeat(3);
        let limits = LoadLimits { rules_max: 2, ..LoadLimits::default() };
        assert_eq!(parse(&text, limits).unwrap_err().line, 3);
        let limits = LoadLimits { bytes_max: 20, ..LoadLimits::default() };
        assert!(matches!(
            parse(&text, limits).unwrap_err().kind,
            LoadErrorKind::TooMuch { what: "bytes", .. }
        ));
    }
}
