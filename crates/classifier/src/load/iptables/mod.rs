//! A subset of what `iptables-save` and `ip6tables-save` write: one chain of the filter table.
//!
//! Read are `-s`, `-d`, `-p`, `--sport`, `--dport`, `-m multiport` with `--sports` and `--dports`, comments, and the targets ACCEPT
//! (value 1), DROP (0) and REJECT (2), which are the rules' actions: DROP and REJECT both deny. The chain's policy becomes a last rule.
//! Counters in front of a rule (`iptables-save -c`) are passed over. Whatever would change which packets match and is not
//! read is an error, never passed over: negations, interfaces, states, fragments, other chains, commands other than `-A`, lines in
//! no table, such as all that `iptables -S` writes. A table that no COMMIT ends is one too: `iptables-restore` loads nothing of it, and
//! a file that is being written, or was cut short, ends so.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::cursor::Cursor;
use super::{LoadError, LoadErrorKind, LoadLimits, Located};
use crate::rule::{Action, Addresses, PortRange, Prefix, ProtocolMatch, Rule, decimal};

/// Reads the rules of a chain, such as `INPUT`.
///
/// A chain that the text does not have has no rules, and a classifier of none matches nothing: whoever names the chain by hand
/// should refuse an empty list.
///
/// # Errors
///
/// [`LoadError`] at the first option of the chain that is not read, or where a limit is passed.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::load::{LoadLimits, iptables};
/// let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
/// let rules = iptables::parse(text, "INPUT", LoadLimits::default())?;
/// assert_eq!(rules[0].to_string(), "10.0.0.0/8 0.0.0.0/0 0 : 65535 22 : 22 0x06/0xff");
/// assert_eq!((rules.len(), rules[1].value), (2, 0));
/// # Ok::<(), flowloom_classifier::load::LoadError>(())
/// ```
pub fn parse(text: &str, chain: &str, limits: LoadLimits) -> Result<Vec<Rule>, LoadError> {
    Ok(parse_located(text, chain, limits)?.into_iter().map(|located| located.rule).collect())
}

/// Reads what [`parse`] does, each rule with its line: that of the chain's policy for the last one.
///
/// # Errors
///
/// Those of [`parse`].
pub fn parse_located(text: &str, chain: &str, limits: LoadLimits) -> Result<Vec<Located>, LoadError> {
    if text.len() > limits.bytes_max {
        let kind = LoadErrorKind::TooMuch { what: "bytes", limit: limits.bytes_max };
        return Err(LoadError::new(1, "", 0, kind));
    }
    let mut rules = Vec::new();
    let mut policy = None;
    let mut table = None;
    for (index, line) in text.lines().enumerate() {
        let mut cursor = Cursor::new(index + 1, line);
        cursor.blanks();
        if cursor.is_at_end() || cursor.rest().starts_with('#') {
            continue;
        }
        if let Some(name) = cursor.rest().strip_prefix('*') {
            table = Some(name.trim());
        } else if table.is_none() {
            let kind = LoadErrorKind::Unsupported(
                "this line stands in no table: iptables-save writes *filter before it, and COMMIT behind the last",
            );
            return Err(cursor.error(kind));
        } else if table != Some("filter") {
            table = table.filter(|_| cursor.rest().trim() != "COMMIT");
        } else if cursor.take(':') {
            if word(&mut cursor) == chain {
                cursor.blanks();
                let at = cursor.at();
                policy = match word(&mut cursor) {
                    "-" => None,
                    target => {
                        let value = value_of(target).ok_or_else(|| {
                            cursor.error_at(at, LoadErrorKind::Expected("a policy: ACCEPT or DROP"))
                        })?;
                        Some((value, index + 1))
                    }
                };
            }
        } else {
            counters(&mut cursor)?;
            let at = cursor.at();
            match word(&mut cursor) {
                "-A" | "--append" => {}
                "COMMIT" => {
                    table = None;
                    continue;
                }
                _ => {
                    let kind = LoadErrorKind::Unsupported(
                        "this line is not read: only those that begin with -A are, as iptables-save writes them",
                    );
                    return Err(cursor.error_at(at, kind));
                }
            }
            cursor.blanks();
            let at = cursor.at();
            match word(&mut cursor) {
                "" => return Err(cursor.error_at(at, LoadErrorKind::Expected("the rule's chain"))),
                other if other != chain => continue,
                _ => {}
            }
            let found = rule(&mut cursor)?;
            if rules.len() + found.len() > limits.rules_max {
                return Err(cursor.error(LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max }));
            }
            rules.extend(found.into_iter().map(|rule| Located { rule, line: index + 1 }));
        }
    }
    if table.is_some() {
        let kind = LoadErrorKind::Expected(
            "COMMIT behind the last line of a table; without it the file may be cut short",
        );
        let (index, line) = text.lines().enumerate().last().unwrap_or((0, ""));
        return Err(LoadError::new(index + 1, line, line.len(), kind));
    }
    if let Some((value, line)) = policy {
        rules.push(Located { rule: Rule { value, action: Some(action_of(value)), ..Rule::ANY }, line });
    }
    Ok(rules)
}

/// Returns the chains of the filter table, in the order of the text.
pub fn chains(text: &str) -> Vec<&str> {
    let mut is_filter = false;
    let mut chains = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('*') {
            is_filter = table.trim() == "filter";
        } else if let Some(chain) = line.strip_prefix(':').filter(|_| is_filter) {
            chains.extend(chain.split_whitespace().next());
        }
    }
    chains
}

fn value_of(target: &str) -> Option<u32> {
    match target {
        "DROP" => Some(0),
        "ACCEPT" => Some(1),
        "REJECT" => Some(2),
        _ => None,
    }
}

/// Returns the action behind a target's value.
fn action_of(value: u32) -> Action {
    if value == 1 { Action::Accept } else { Action::Deny }
}

fn word<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    cursor.while_of(|c| !c.is_whitespace())
}

/// Passes a rule's counters, packets and bytes in brackets, where they are.
fn counters(cursor: &mut Cursor<'_>) -> Result<(), LoadError> {
    if cursor.take('[') {
        cursor.while_of(|c| c.is_ascii_digit() || c == ':');
        cursor.require(']', "counters such as [12:3456]")?;
    }
    Ok(())
}

/// Reads the options of a rule; several ports make several rules.
fn rule(cursor: &mut Cursor<'_>) -> Result<Vec<Rule>, LoadError> {
    let (mut sides, mut ports) = ([None, None], [None, None]);
    let (mut protocol, mut target) = (None, None);
    let mut ports_at = 0;
    loop {
        cursor.blanks();
        if cursor.is_at_end() {
            break;
        }
        let start = cursor.at();
        let option = word(cursor);
        cursor.blanks();
        let at = cursor.at();
        let is_repeated = match option {
            "-s" | "--source" => sides[0].replace(network(cursor)?).is_some(),
            "-d" | "--destination" => sides[1].replace(network(cursor)?).is_some(),
            "-p" | "--protocol" => {
                let named = match word(cursor) {
                    "0" => Some(ProtocolMatch::ANY), // As in the kernel: no protocol has this number here.
                    name => super::protocol(name),
                };
                let named = named.ok_or_else(|| {
                    cursor.error_at(at, LoadErrorKind::Expected("a protocol such as tcp or 47"))
                })?;
                protocol.replace(named).is_some()
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                ports_at = start;
                ports[0].replace(port_list(cursor)?).is_some()
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                ports_at = start;
                ports[1].replace(port_list(cursor)?).is_some()
            }
            "-m" | "--match" => {
                if !matches!(word(cursor), "tcp" | "udp" | "sctp" | "multiport" | "comment") {
                    let kind = LoadErrorKind::Unsupported(
                        "this match is not read: only tcp, udp, sctp, multiport and comment are; say the same without it, or leave the rule out",
                    );
                    return Err(cursor.error_at(at, kind));
                }
                false
            }
            "--comment" => {
                quoted(cursor);
                false
            }
            "-j" | "--jump" => {
                let value = value_of(word(cursor)).ok_or_else(|| {
                    let kind = LoadErrorKind::Unsupported("this target is not read: only ACCEPT, DROP and REJECT are; write the chain's rules in place");
                    cursor.error_at(at, kind)
                })?;
                target.replace(value).is_some()
            }
            "--reject-with" => {
                word(cursor);
                false
            }
            _ => {
                let kind = LoadErrorKind::Unsupported(
                    "this option would change which packets match and is not read; say the same without it, or leave the rule out",
                );
                return Err(cursor.error_at(start, kind));
            }
        };
        if is_repeated {
            let kind = LoadErrorKind::Unsupported("a second one of this in a rule is not read");
            return Err(cursor.error_at(start, kind));
        }
    }
    let Some(value) = target else {
        return Err(cursor.error(LoadErrorKind::Expected("a target: -j ACCEPT, DROP or REJECT")));
    };
    let protocol = protocol.unwrap_or(ProtocolMatch::ANY);
    if ports.iter().any(Option::is_some) && !HAVE_PORTS.map(ProtocolMatch::exact).contains(&protocol) {
        return Err(cursor.error_at(
            ports_at,
            LoadErrorKind::Expected(
                "a protocol that has ports beside these: -p tcp, udp, udplite, sctp or dccp",
            ),
        ));
    }
    let rule = Rule {
        addresses: addresses(cursor, sides)?,
        protocol,
        value,
        action: Some(action_of(value)),
        ..Rule::ANY
    };
    let [from, to] = ports.map(|list| list.unwrap_or_else(|| Vec::from([PortRange::ANY])));
    let each = |&source_ports: &PortRange| to.iter().map(move |&to| (source_ports, to)).collect::<Vec<_>>();
    Ok(from
        .iter()
        .flat_map(each)
        .map(|(source_ports, destination_ports)| Rule { source_ports, destination_ports, ..rule })
        .collect())
}

fn quoted(cursor: &mut Cursor<'_>) {
    if cursor.take('"') {
        loop {
            cursor.while_of(|c| c != '"' && c != '\\');
            // A backslash takes the next character with it.
            if cursor.take('\\') {
                cursor.skip();
            } else {
                cursor.take('"');
                return;
            }
        }
    }
    word(cursor);
}

type Network = (IpAddr, u32, usize);

fn network(cursor: &mut Cursor<'_>) -> Result<Network, LoadError> {
    let at = cursor.at();
    let text = word(cursor);
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let wrong =
        || cursor.error_at(at, LoadErrorKind::Expected("an address or a prefix such as 192.0.2.0/24"));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let whole = if address.is_ipv6() { 128 } else { 32 };
    let length = match length {
        None => whole,
        Some(length) if length.contains('.') => {
            let mask: core::net::Ipv4Addr = length.parse().map_err(|_| wrong())?;
            let ones = mask.to_bits().leading_ones();
            if mask.to_bits().count_ones() != ones {
                let kind = LoadErrorKind::Unsupported(
                    "a mask with holes is not read; write a rule for each prefix",
                );
                return Err(cursor.error_at(at, kind));
            }
            ones
        }
        Some(length) => decimal(length).ok_or_else(wrong)?,
    };
    Ok((address, length, at))
}

fn addresses(
    cursor: &Cursor<'_>,
    [source, destination]: [Option<Network>; 2],
) -> Result<Addresses, LoadError> {
    let is_v6 = |network: &Option<Network>| network.map(|(address, ..)| address.is_ipv6());
    match (is_v6(&source), is_v6(&destination)) {
        (None, None) => Ok(Addresses::Any),
        (Some(true), Some(true) | None) | (None, Some(true)) => {
            Ok(Addresses::V6 { source: prefix(cursor, source)?, destination: prefix(cursor, destination)? })
        }
        (Some(false), Some(false) | None) | (None, Some(false)) => {
            Ok(Addresses::V4 { source: prefix(cursor, source)?, destination: prefix(cursor, destination)? })
        }
        _ => Err(cursor.error(LoadErrorKind::Expected("both addresses of one family"))),
    }
}

fn prefix<const BITS: u32>(
    cursor: &Cursor<'_>,
    network: Option<Network>,
) -> Result<Prefix<BITS>, LoadError> {
    let Some((address, length, at)) = network else { return Ok(Prefix::ANY) };
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    Prefix::new(bits, length).map_err(|error| cursor.error_at(at, LoadErrorKind::Rule(error)))
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite, as for the kernel.
const HAVE_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Ranges in one list, at most: what the kernel takes too.
const PORTS_MAX: usize = 15;

fn port_list(cursor: &mut Cursor<'_>) -> Result<Vec<PortRange>, LoadError> {
    let mut list = Vec::new();
    loop {
        let at = cursor.at();
        if list.len() == PORTS_MAX {
            let kind = LoadErrorKind::Unsupported(
                "a list of more than 15 ports is not read, nor does iptables take it; write another rule for these",
            );
            return Err(cursor.error(kind));
        }
        // An end of a range may be missing: then it is that of all ports.
        let low = if cursor.rest().starts_with(':') {
            0
        } else {
            cursor.number(0xffff, "a port, or a range such as 1:1023")?
        };
        let high = match cursor.take(':') {
            false => low,
            true if cursor.rest().starts_with(|c: char| c.is_ascii_digit()) => {
                cursor.number(0xffff, "the range's last port")?
            }
            true => 0xffff,
        };
        let range = PortRange::new(low as u16, high as u16);
        list.push(range.map_err(|error| cursor.error_at(at, LoadErrorKind::Rule(error)))?);
        if !cursor.take(',') {
            return Ok(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_rule(rule: &str) -> Result<Vec<Rule>, LoadError> {
        parse(&alloc::format!("*filter\n-A INPUT {rule}\nCOMMIT\n"), "INPUT", LoadLimits::default())
    }

    #[test]
    fn other_tables_and_chains_are_passed_over() {
        let text = "*nat\n:INPUT DROP [0:0]\n-A INPUT -i eth0 -j X\nCOMMIT\n*filter\n:OUTPUT DROP [0:0]\n-A OUTPUT -o lo -j X\n\
                    :INPUT ACCEPT [1:2]\n-A INPUT -d ::1/128 -p udp --sport :1023 -m comment --comment \"a \\\" -i b\" -j DROP\nCOMMIT\n";
        let rules = parse(text, "INPUT", LoadLimits::default()).unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].to_string(), "::/0 ::1/128 0 : 1023 0 : 65535 0x11/0xff");
        assert_eq!((rules[0].value, rules[1].value), (0, 1));
        assert_eq!((rules[0].action, rules[1].action), (Some(Action::Deny), Some(Action::Accept)));
        assert_eq!(ProtocolMatch::ANY, rules[1].protocol);
    }

    #[test]
    fn rules_know_their_lines_and_the_policy_its_own() {
        let text = "# saved\n*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n\n-A INPUT -p tcp -m multiport --dports 80,443 -j ACCEPT\n\
                    -A FORWARD -j DROP\n-A INPUT -j REJECT\nCOMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
        let located = parse_located(text, "INPUT", LoadLimits::default()).unwrap();
        assert_eq!(located.iter().map(|rule| rule.line).collect::<Vec<_>>(), [6, 6, 8, 3]);
        assert_eq!(chains(text), ["INPUT", "FORWARD"]);
    }

    #[test]
    fn counters_in_front_of_rules_are_passed_over() {
        let text = "*filter\n:INPUT DROP [5:300]\n[10:600] -A INPUT -s 10.0.0.0/8 -j ACCEPT\n[0:0] -A OUTPUT -o lo -j X\nCOMMIT\n";
        let rules = parse(text, "INPUT", LoadLimits::default()).unwrap();
        assert_eq!(rules.iter().map(|rule| rule.value).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn other_commands_are_errors_and_not_passed_over() {
        for line in [
            "-I INPUT -j DROP",
            "-A",
            "-P INPUT DROP",
            "[1:2 -A INPUT -j DROP",
            "iptables -A INPUT -j DROP",
        ] {
            let text = alloc::format!("*filter\n:INPUT ACCEPT [0:0]\n# a comment\n\n{line}\nCOMMIT\n");
            let error = parse(&text, "INPUT", LoadLimits::default()).unwrap_err();
            assert_eq!(error.line, 5, "{line}: {error}");
        }
    }

    #[test]
    fn lines_in_no_table_are_errors_and_not_passed_over() {
        for (text, line) in [
            ("-P INPUT DROP\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\n", 1),
            ("# saved\n\n:INPUT DROP [0:0]\n", 3),
            ("*filter\n:INPUT DROP [0:0]\nCOMMIT\n-A INPUT -j ACCEPT\n", 4),
            ("*nat\n-A X -j Y\nCOMMIT\n-A INPUT -j ACCEPT\n", 4),
            ("\u{feff}*filter\n:INPUT DROP [0:0]\nCOMMIT\n", 1),
        ] {
            let error = parse(text, "INPUT", LoadLimits::default()).unwrap_err();
            assert_eq!((error.line, error.column), (line, 1), "{text}: {error}");
        }
        assert_eq!(parse("", "INPUT", LoadLimits::default()), Ok(Vec::new()));
    }

    #[test]
    fn a_table_that_does_not_end_is_an_error() {
        let whole = "*nat\n-A X -j Y\nCOMMIT\n*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\nCOMMIT\n";
        assert_eq!(parse(whole, "INPUT", LoadLimits::default()).unwrap().len(), 2);
        let mut cut = whole;
        while let Some((shorter, _)) = cut.trim_end().rsplit_once('\n') {
            cut = shorter;
            let error = parse(cut, "INPUT", LoadLimits::default()).err();
            let ends = cut.ends_with("COMMIT");
            assert_eq!(
                error.as_ref().map(|error| error.line),
                (!ends).then(|| cut.lines().count()),
                "{cut}"
            );
        }
        assert_eq!(cut, "*nat");
    }

    #[test]
    fn protocol_0_is_any() {
        assert_eq!(parse_rule("-p 0 -j DROP").unwrap()[0].protocol, ProtocolMatch::ANY);
        assert_eq!(parse_rule("-p igmp -j DROP").unwrap()[0].protocol, ProtocolMatch::exact(2));
    }

    #[test]
    fn several_ports_are_several_rules() {
        let rules =
            parse_rule("-s 10.0.0.0/255.0.0.0 -p tcp -m multiport --dports 80,443,1000:2000 -j REJECT")
                .unwrap();
        let ports: Vec<(u16, u16)> = rules
            .iter()
            .map(|rule| (rule.destination_ports.low(), rule.destination_ports.high()))
            .collect();
        assert_eq!(ports, [(80, 80), (443, 443), (1000, 2000)]);
        assert!(rules.iter().all(|rule| rule.value == 2 && rule.action == Some(Action::Deny)));
    }

    #[test]
    fn a_range_may_have_one_end_and_a_refusal_a_kind() {
        let rule =
            parse_rule("-p tcp --sport :1023 --dport 1024: -j REJECT --reject-with tcp-reset").unwrap()[0];
        let ends = |ports: PortRange| (ports.low(), ports.high());
        assert_eq!((ends(rule.source_ports), ends(rule.destination_ports)), ((0, 1023), (1024, 0xffff)));
        assert_eq!(rule.value, 2);
    }

    #[test]
    fn what_is_not_read_is_an_error_with_its_place() {
        for (text, column) in [
            ("-i eth0 -j ACCEPT", 10),
            ("! -s 10.0.0.0/8 -j ACCEPT", 10),
            ("-m state --state NEW -j ACCEPT", 13),
            ("-p tcp -j mychain", 20),
            ("-p tcp", 16),
            ("-s 10.0.0.0/255.0.255.0 -j DROP", 13),
            ("-s 10.0.0.0/40 -j DROP", 13),
            ("-s 10.0.0.0/+8 -j DROP", 13),
            ("-p +6 -j DROP", 13),
            ("-p tcp --dport +80 -j DROP", 25),
            ("-p tcp --dport 9:5 -j DROP", 25),
            ("-p tcp --dport http -j DROP", 25),
            ("--dport 80 -j DROP", 10),
            ("-s 10.0.0.1 -p icmp --sport 80 -j DROP", 30),
            ("-p tcp -m multiport --dports 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 -j DROP", 75),
            ("-p tcp --dport 1:100 -m multiport --dports 5,200 -j DROP", 44),
        ] {
            let error = parse_rule(text).unwrap_err();
            assert_eq!((error.line, error.column), (2, column), "{text}: {error}");
        }
    }
}
