//! Flowloom's own form of rules.
//!
//! ```toml
//! [[rule]]
//! source = "10.0.0.0/8"              # or "2001:db8::/32", or "any", which is also what a missing field means
//! destination = "192.0.2.7"
//! source_ports = "1024-65535"        # or a number
//! destination_ports = 443
//! protocol = "tcp"                   # or a number, or "0x06/0x0f" for a value under a mask
//! priority = 10                      # higher goes first; 0 where it is missing
//! value = 1                          # the caller's own
//! action = "deny"                    # or "accept"; whoever asks decides where it is missing
//! ```

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::{LoadError, LoadErrorKind, LoadLimits, Located, line_of};
use crate::rule::{Action, Addresses, PortRange, Prefix, ProtocolMatch, Rule, decimal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    source: Option<Spanned<String>>,
    destination: Option<Spanned<String>>,
    source_ports: Option<Spanned<NumberOrText>>,
    destination_ports: Option<Spanned<NumberOrText>>,
    protocol: Option<Spanned<NumberOrText>>,
    priority: Option<Spanned<i64>>,
    value: Option<Spanned<i64>>,
    action: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number or a text; several ports that are no range take a rule each"
)]
enum NumberOrText {
    Number(i64),
    Text(String),
}

/// Reads all rules of a text, in its order. A rule without a value gets its place in the file.
///
/// # Errors
///
/// [`LoadError`] where the text is no TOML, or a field is not right, or a limit is passed.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::load::{LoadLimits, toml};
/// let text = "[[rule]]\nsource = '10.0.0.0/8'\ndestination_ports = 443\nprotocol = 'tcp'\n";
/// let rules = toml::parse(text, LoadLimits::default())?;
/// assert_eq!(rules[0].to_string(), "10.0.0.0/8 0.0.0.0/0 0 : 65535 443 : 443 0x06/0xff");
/// # Ok::<(), flowloom_classifier::load::LoadError>(())
/// ```
pub fn parse(text: &str, limits: LoadLimits) -> Result<Vec<Rule>, LoadError> {
    Ok(parse_located(text, limits)?.into_iter().map(|located| located.rule).collect())
}

/// Reads what [`parse`] does, each rule with its line.
///
/// # Errors
///
/// Those of [`parse`].
pub fn parse_located(text: &str, limits: LoadLimits) -> Result<Vec<Located>, LoadError> {
    if text.len() > limits.bytes_max {
        let kind = LoadErrorKind::TooMuch { what: "bytes", limit: limits.bytes_max };
        return Err(LoadError::new(1, "", 0, kind));
    }
    let file: File = ::toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        at(text, place, LoadErrorKind::Form(error.message().to_owned()))
    })?;
    if let Some(entry) = file.rule.get(limits.rules_max) {
        let kind = LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max };
        return Err(at(text, entry.span().start, kind));
    }
    let (mut line, mut counted) = (1, 0);
    let mut located = |(index, entry): (usize, Spanned<Entry>)| {
        let start = entry.span().start;
        line += text.get(counted..start).unwrap_or("").matches('\n').count();
        counted = start;
        Ok(Located { rule: rule(text, index, entry)?, line })
    };
    file.rule.into_iter().enumerate().map(&mut located).collect()
}

fn at(text: &str, place: usize, kind: LoadErrorKind) -> LoadError {
    let (line, start, content) = line_of(text, place);
    LoadError::new(line, content, place - start, kind)
}

fn rule(text: &str, index: usize, entry: Spanned<Entry>) -> Result<Rule, LoadError> {
    let place = entry.span();
    let entry = entry.into_inner();
    let priority = whole(text, entry.priority, "a priority from -2147483648 to 2147483647")?;
    let value = whole(text, entry.value, "a value from 0 to 4294967295")?;
    let (priority, value) = (priority.unwrap_or(0), value.unwrap_or(index as u32));
    let mut rule = Rule { priority, value, ..Rule::ANY };
    rule.addresses = addresses(text, place, entry.source, entry.destination)?;
    if let Some(ports) = entry.source_ports {
        rule.source_ports = port_range(text, ports)?;
    }
    if let Some(ports) = entry.destination_ports {
        rule.destination_ports = port_range(text, ports)?;
    }
    if let Some(protocol) = entry.protocol {
        rule.protocol = protocol_match(text, protocol)?;
    }
    rule.action = entry.action.map(|field| action(text, &field)).transpose()?;
    Ok(rule)
}

/// Narrows a number that is there.
fn whole<T: TryFrom<i64>>(
    text: &str,
    field: Option<Spanned<i64>>,
    expected: &'static str,
) -> Result<Option<T>, LoadError> {
    let narrow = |field: Spanned<i64>| {
        T::try_from(*field.get_ref())
            .map_err(|_| at(text, field.span().start, LoadErrorKind::Expected(expected)))
    };
    field.map(narrow).transpose()
}

fn action(text: &str, field: &Spanned<String>) -> Result<Action, LoadError> {
    [Action::Accept, Action::Deny].into_iter().find(|action| action.name() == field.get_ref()).ok_or_else(
        || {
            let kind = LoadErrorKind::Expected("an action: \"accept\" or \"deny\"");
            at(text, field.span().start, kind)
        },
    )
}

/// An address and a length, not yet of a family.
struct Network {
    address: IpAddr,
    length: u32,
    place: Range<usize>,
}

fn addresses(
    text: &str,
    place: Range<usize>,
    source: Option<Spanned<String>>,
    destination: Option<Spanned<String>>,
) -> Result<Addresses, LoadError> {
    let source = source.map(|field| network(text, field)).transpose()?.flatten();
    let destination = destination.map(|field| network(text, field)).transpose()?.flatten();
    let is_v6 = match (&source, &destination) {
        (None, None) => return Ok(Addresses::Any),
        (Some(one), None) | (None, Some(one)) => one.address.is_ipv6(),
        (Some(one), Some(other)) if one.address.is_ipv6() == other.address.is_ipv6() => {
            one.address.is_ipv6()
        }
        (Some(_), Some(_)) => {
            let kind = LoadErrorKind::Expected("source and destination of one family; write two rules");
            return Err(at(text, place.start, kind));
        }
    };
    Ok(if is_v6 {
        Addresses::V6 { source: prefix(text, source)?, destination: prefix(text, destination)? }
    } else {
        Addresses::V4 { source: prefix(text, source)?, destination: prefix(text, destination)? }
    })
}

fn network(text: &str, field: Spanned<String>) -> Result<Option<Network>, LoadError> {
    let place = field.span();
    let word = field.into_inner();
    if word == "any" {
        return Ok(None);
    }
    let (address, length) = word.split_once('/').map_or((word.as_str(), None), |(a, l)| (a, Some(l)));
    let wrong = || {
        let kind =
            LoadErrorKind::Expected("a prefix such as 192.0.2.0/24 or 2001:db8::/32, an address, or any");
        at(text, place.start, kind)
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let whole = if address.is_ipv6() { 128 } else { 32 };
    let length = length.map_or(Some(whole), decimal).ok_or_else(wrong)?;
    Ok(Some(Network { address, length, place }))
}

fn prefix<const BITS: u32>(text: &str, network: Option<Network>) -> Result<Prefix<BITS>, LoadError> {
    let Some(Network { address, length, place }) = network else { return Ok(Prefix::ANY) };
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    Prefix::new(bits, length).map_err(|error| at(text, place.start, LoadErrorKind::Rule(error)))
}

fn port_range(text: &str, field: Spanned<NumberOrText>) -> Result<PortRange, LoadError> {
    let place = field.span().start;
    let wrong = || {
        at(
            text,
            place,
            LoadErrorKind::Expected("a port from 0 to 65535, a range such as \"1024-65535\", or \"any\""),
        )
    };
    match field.into_inner() {
        NumberOrText::Number(port) => u16::try_from(port).map(PortRange::exact).map_err(|_| wrong()),
        NumberOrText::Text(word) if word == "any" => Ok(PortRange::ANY),
        NumberOrText::Text(word) => {
            let (low, high) = word.split_once(['-', ':']).unwrap_or((&word, &word));
            let (low, high) =
                (decimal(low.trim()).ok_or_else(wrong)?, decimal(high.trim()).ok_or_else(wrong)?);
            PortRange::new(low, high).map_err(|error| at(text, place, LoadErrorKind::Rule(error)))
        }
    }
}

fn protocol_match(text: &str, field: Spanned<NumberOrText>) -> Result<ProtocolMatch, LoadError> {
    let place = field.span().start;
    let wrong = || {
        let kind =
            LoadErrorKind::Expected("a protocol: tcp, udp, icmp, a number, \"0x06/0xff\", or \"any\"");
        at(text, place, kind)
    };
    match field.into_inner() {
        NumberOrText::Number(number) => u8::try_from(number).map(ProtocolMatch::exact).map_err(|_| wrong()),
        NumberOrText::Text(word) => super::protocol(&word).ok_or_else(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Rule, LoadError> {
        parse(&alloc::format!("[[rule]]\n{text}\n"), LoadLimits::default()).map(|rules| rules[0])
    }

    #[test]
    fn fields_have_several_forms() {
        let rule =
            one("source = '2001:db8::1'\nsource_ports = '5-7'\nprotocol = '0x06/0x0f'\npriority = 3")
                .unwrap();
        assert_eq!(rule.to_string(), "2001:db8::1/128 ::/0 5 : 7 0 : 65535 0x06/0x0f");
        assert_eq!((rule.priority, rule.value, rule.action), (3, 0, None));
        assert_eq!(one("action = 'deny'").unwrap().action, Some(Action::Deny));
        assert_eq!(one("protocol = 'any'\nsource = 'any'").unwrap().to_string(), Rule::ANY.to_string());
        assert!(parse("", LoadLimits::default()).unwrap().is_empty());
    }

    #[test]
    fn rules_know_their_lines() {
        let text = "# first\n\n[[rule]]\nprotocol = 'tcp'\n\n[[rule]]\n[[rule]]\n";
        let located = parse_located(text, LoadLimits::default()).unwrap();
        assert_eq!(located.iter().map(|rule| rule.line).collect::<Vec<_>>(), [3, 6, 7]);
        let inline = parse_located("rule = [\n  {},\n  {}, {} ]", LoadLimits::default()).unwrap();
        assert_eq!(inline.iter().map(|rule| rule.line).collect::<Vec<_>>(), [2, 3, 3]);
    }

    #[test]
    fn an_empty_line_is_not_shown() {
        let error = parse("\"\"\"\n", LoadLimits::default()).unwrap_err();
        assert_eq!((error.line, error.column), (2, 1), "{error}");
        assert!(error.text.is_empty() && !error.to_string().contains('^'), "{error}");
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (text, column, part) in [
            ("source = '10.0.0.0/33'", 10, "above 32"),
            ("source = 'ten'", 10, "a prefix such as"),
            ("source = '10.0.0.0/+8'", 10, "a prefix such as"),
            ("destination_ports = '+80'", 21, "a port from"),
            ("destination_ports = '80-+90'", 21, "a port from"),
            ("protocol = '+6'", 12, "a protocol"),
            ("protocol = '0x+6'", 12, "a protocol"),
            ("protocol = '6/+15'", 12, "a protocol"),
            ("destination_ports = 70000", 21, "a port from"),
            ("destination_ports = '9-5'", 21, "ends before"),
            ("protocol = 'tpc'", 12, "a protocol"),
            ("destination_ports = [80, 443]", 21, "several ports that are no range take a rule each"),
            ("protocol = true", 12, "a number or a text"),
            ("priority = 2147483648", 12, "a priority from"),
            ("value = -1", 9, "a value from 0"),
            ("action = 'drop'", 10, "\"accept\" or \"deny\""),
            ("sauce = 'x'", 1, "unknown field"),
            ("source = ", 10, ""),
        ] {
            let error = one(text).unwrap_err();
            assert_eq!((error.line, error.column), (2, column), "{text}: {error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = one("source = '10.0.0.1'\ndestination = '::1'").unwrap_err();
        assert!(error.to_string().contains("one family"), "{error}");
        let limits = LoadLimits { rules_max: 1, ..LoadLimits::default() };
        assert_eq!(parse("[[rule]]\n[[rule]]\n", limits).unwrap_err().line, 2);
    }
}
