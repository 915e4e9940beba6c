//! Translates nftables comparisons into conditions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::iptables::dscp_class;
use super::super::words::mac;
use super::super::{ipset, protocol};
use super::ast::{Expr, Op, Set, Table, Value, Verdict};
use super::bits::{masked, tcp_flags};
use super::icmp::{icmp_code, icmp_types};
use crate::firewall::{
    Conditions, ConnectionState, Contents, Families, HeaderField, InterfacePattern, Ranges, Test, TestKind,
    WITH_PORTS,
};
use crate::rule::decimal;
use flowloom_flow_key::protocol::service;

/// A description of an unsupported part of a rule.
pub(super) type Refusal = String;

/// Returns the conditions of a comparison, in a rule that has asked for these protocols before.
pub(super) fn compare(
    table: &Table,
    expr: &Expr,
    op: Op,
    value: &Value,
    protocols: Option<&Ranges>,
) -> Result<Conditions, Refusal> {
    let mut conditions = Conditions::default();
    if let Expr::Other(text) = expr {
        conditions.ask(TestKind::Unknowable(text.clone()));
        return Ok(conditions);
    }
    let not = op == Op::NotEqual;
    // A named set whose elements change while packets flow.
    if let Value::Named(name) = value {
        let set = set(table, name)?;
        if set.is_dynamic {
            conditions.ask(Test::new(TestKind::Unknowable(format!("in set {name}, which changes")), not));
            return Ok(conditions);
        }
    }
    if let Expr::Concat(parts) = expr {
        let elements: Vec<&Value> = match value {
            Value::Set(elements) => elements.iter().map(|(key, _)| key).collect(),
            Value::Named(name) => set(table, name)?.elements.iter().map(|(key, _)| key).collect(),
            one => Vec::from([one]),
        };
        let all: Result<Vec<Conditions>, Refusal> =
            elements.into_iter().map(|element| concat(table, parts, element)).collect();
        let all = all?;
        if let ([one], false) = (&all[..], not) {
            return Ok(one.clone());
        }
        // The condition that the parts exist holds for the negation too.
        conditions = needs(parts);
        if not {
            conditions = conditions.and(&has_headers(table, parts));
        }
        conditions.ask(Test::new(TestKind::AnyOf(all), not));
        return Ok(conditions);
    }
    let asked = single(table, expr, op, value)?;
    let with_ports = Ranges::new(WITH_PORTS.map(|number| (u128::from(number), u128::from(number))));
    match expr {
        Expr::Payload(header, field)
            if header == "th" && protocols.is_none_or(|asked| !with_ports.covers(asked)) =>
        {
            // The kernel reads these bytes of every protocol.
            let mut others = Conditions::default();
            others.ask_protocol(&with_ports.complement(255));
            let at = if field == "dport" { 16 } else { 0 };
            let raw = Expr::Raw(String::from("th"), at, 16);
            let value = numeric(table, value)?;
            others = others.and(&single(table, &raw, op, &value)?);
            Ok(any(Vec::from([asked, others])))
        }
        _ => Ok(asked),
    }
}

/// Returns the ports of a comparison as numbers.
fn numeric(table: &Table, value: &Value) -> Result<Value, Refusal> {
    let ports = numbers(table, "th", Op::In, value, 65_535, &port)?;
    let ranges = ports
        .as_slice()
        .iter()
        .map(|(low, high)| (Value::Range(format!("{low}"), format!("{high}")), None));
    Ok(Value::Set(ranges.collect()))
}

/// Returns the conditions that hold if one of several does; with none, they never hold.
pub(super) fn any(mut all: Vec<Conditions>) -> Conditions {
    let mut conditions = Conditions::default();
    match all.len() {
        0 => conditions.families = Families { v4: false, v6: false },
        1 => conditions = all.remove(0),
        _ => conditions.ask(TestKind::AnyOf(all)),
    }
    conditions
}

/// Returns the conditions of an element with several parts.
pub(super) fn concat(table: &Table, parts: &[Expr], element: &Value) -> Result<Conditions, Refusal> {
    let Value::Concat(values) = element else {
        return Err(format!("expected an element of {} parts", parts.len()));
    };
    if values.len() != parts.len() {
        return Err(format!("expected an element of {} parts, found one of {}", parts.len(), values.len()));
    }
    let mut all = Conditions::default();
    for (part, value) in parts.iter().zip(values) {
        if *value == Value::Any {
            all = all.and(&needs(core::slice::from_ref(part)));
        } else {
            all = all.and(&single(table, part, Op::Equal, value)?);
        }
    }
    Ok(all)
}

/// Returns the condition that a packet is not a later fragment, if expressions read its transport
/// header: without that header no comparison holds, negated or not. Where the kernel does not
/// reassemble fragments, it reads other bytes in place of the header.
fn has_headers(table: &Table, parts: &[Expr]) -> Conditions {
    let mut all = Conditions::default();
    if !table.is_tracked {
        return all;
    }
    let reads = |part: &Expr| matches!(part, Expr::Payload(header, _) if header == "th" || transport(header).is_some());
    if parts.iter().any(reads) {
        all.ask(TestKind::Fragment(3));
    }
    all
}

/// Returns the conditions under which packets have the fields of expressions at all.
pub(super) fn needs(parts: &[Expr]) -> Conditions {
    let mut all = Conditions::default();
    for part in parts {
        if let Expr::Payload(header, _) = part {
            match header.as_str() {
                "ip" => all.families = all.families.and(Families::V4),
                "ip6" => all.families = all.families.and(Families::V6),
                // These headers are not those of one protocol, or no comparison of them is read.
                "th" | "ether" | "vlan" | "exthdr" | "frag" => {}
                name => match transport(name) {
                    Some(number) => all.ask_protocol(&Ranges::exact(u128::from(number))),
                    None => all.ask(TestKind::Unknowable(describe(part))),
                },
            }
        }
    }
    all
}

fn transport(header: &str) -> Option<u8> {
    Some(match header {
        "tcp" => 6,
        "udp" => 17,
        "dccp" => 33,
        "sctp" => 132,
        "udplite" => 136,
        "icmp" => 1,
        "icmpv6" => 58,
        _ => return None,
    })
}

fn set<'a>(table: &'a Table, name: &str) -> Result<&'a Set, Refusal> {
    table.sets.get(name).ok_or_else(|| format!("no set '{name}' in table {}", table.name))
}

/// Returns the values of a comparison, with sets expanded.
pub(super) fn values<'a>(table: &'a Table, value: &'a Value) -> Result<Vec<&'a Value>, Refusal> {
    Ok(match value {
        Value::Set(elements) => elements.iter().map(|(key, _)| key).collect(),
        Value::Named(name) => set(table, name)?.elements.iter().map(|(key, _)| key).collect(),
        one => Vec::from([one]),
    })
}

#[expect(clippy::too_many_lines, reason = "one arm for each field of nftables")]
fn single(table: &Table, expr: &Expr, op: Op, value: &Value) -> Result<Conditions, Refusal> {
    let mut conditions = needs(core::slice::from_ref(expr));
    let not = op == Op::NotEqual;
    let what = describe(expr);
    let unknowable = |mut conditions: Conditions| {
        conditions.ask(Test::new(TestKind::Unknowable(what.clone()), not));
        Ok(conditions)
    };
    // Only numbers have an order; the kernel compares other values as bytes.
    if op.is_order() && !has_order(expr) {
        conditions.ask(TestKind::Unknowable(format!("{what} {op:?} a value")));
        return Ok(conditions);
    }
    if let Expr::Masked(inner, mask) = expr {
        return masked(table, inner, mask, op, value);
    }
    let numbers =
        |max: u128, read: &dyn Fn(&str) -> Option<u128>| numbers(table, &what, op, value, max, read);
    match expr {
        Expr::Payload(header, field) => match (header.as_str(), field.as_str()) {
            ("ip" | "ip6", "saddr" | "daddr") => {
                let is_v6 = header == "ip6";
                let all = if is_v6 { u128::MAX } else { 0xffff_ffff };
                let mut set = Vec::new();
                for one in values(table, value)? {
                    set.push(
                        addresses(one, is_v6).ok_or_else(|| {
                            format!("{what}: expected an address or a prefix of {header}")
                        })?,
                    );
                }
                let set = ordered(op, Ranges::new(set), all);
                conditions.ask_address(field == "daddr", is_v6, &set);
            }
            ("ip", "protocol") => conditions.ask_protocol(&numbers(255, &protocol_number)?),
            ("ip6", "nexthdr") => {
                let set = numbers(255, &protocol_number)?;
                conditions.ask(TestKind::Number(HeaderField::NextHeader, set));
            }
            ("ip", "ttl") | ("ip6", "hoplimit") => {
                conditions.ask(TestKind::Number(HeaderField::Ttl, numbers(255, &number)?));
            }
            ("ip" | "ip6", "ecn") => {
                conditions.ask(TestKind::Number(HeaderField::Ecn, numbers(3, &ecn)?));
            }
            ("ip" | "ip6", "dscp") => {
                let read = |word: &str| dscp_class(word).map(u128::from).or_else(|| number(word));
                conditions.ask(TestKind::Number(HeaderField::Dscp, numbers(63, &read)?));
            }
            // The family determines the version.
            ("ip" | "ip6", "version") => {
                let version = if header == "ip6" { 6 } else { 4 };
                if !numbers(15, &number)?.contains(version) {
                    conditions.families = Families { v4: false, v6: false };
                }
            }
            ("ip", "length") => {
                conditions.ask(TestKind::Number(HeaderField::Length, numbers(65_535, &number)?));
            }
            ("tcp" | "udp" | "udplite" | "sctp" | "dccp" | "th", "sport" | "dport") => {
                conditions.ask_port(field == "dport", &numbers(65_535, &port)?);
            }
            ("tcp", "flags") => return tcp_flags(table, op, value),
            ("icmp" | "icmpv6", "type") => {
                let is_v6 = header == "icmpv6";
                let mut codes = Ranges::default();
                for one in values(table, value)? {
                    codes = codes.union(
                        &icmp_types(one, is_v6).ok_or_else(|| format!("{what}: expected an ICMP type"))?,
                    );
                }
                let codes = if op.is_order() { ordered(op, codes, 0xffff) } else { codes };
                conditions.ask(Test::new(TestKind::Icmp { is_v6, codes }, not));
            }
            ("icmp" | "icmpv6", "code") => {
                let is_v6 = header == "icmpv6";
                let set = numbers(255, &|word: &str| icmp_code(word, is_v6))?;
                let every = (0..256_u128).flat_map(|kind| {
                    set.as_slice()
                        .iter()
                        .map(move |(low, high)| (kind << 8 | low, kind << 8 | high))
                        .collect::<Vec<_>>()
                });
                conditions.ask(TestKind::Icmp { is_v6, codes: Ranges::new(every) });
            }
            ("ether", "saddr") => {
                let mut any = Vec::new();
                for one in values(table, value)? {
                    let Value::Word(word) = one else { return unknowable(conditions) };
                    let value = mac(word).ok_or_else(|| format!("{what}: expected a MAC address"))?;
                    any.push(TestKind::SourceMac { value, mask: (1 << 48) - 1 });
                }
                let kind = if let [one] = &any[..] {
                    one.clone()
                } else {
                    let lowered =
                        |kind| Conditions { tests: Vec::from([Test::from(kind)]), ..Conditions::default() };
                    TestKind::AnyOf(any.into_iter().map(lowered).collect())
                };
                conditions.ask(Test::new(kind, not));
            }
            ("ether", "type") => return family(table, key_of_family(expr), value, not, conditions),
            ("vlan", "id") => {
                // A packet without a tag meets no comparison. One with the tag 0 looks like it.
                let ids = numbers(4095, &number)?;
                let tags = ids.intersection(&Ranges::new([(1, 4095)]));
                if tags.is_empty() {
                    return unknowable(conditions);
                }
                conditions.ask(TestKind::Number(HeaderField::Vlan, tags));
            }
            ("exthdr", name) => {
                conditions.families = conditions.families.and(Families::V6);
                match (name, value, op) {
                    ("frag", Value::Any, Op::Equal) => {
                        conditions = conditions.and(&any(Vec::from([parts(14), atomic()])));
                    }
                    ("frag", Value::Any, Op::NotEqual) => {
                        conditions.ask(TestKind::Fragment(1));
                        conditions.ask(Test::new(next_is_fragment(), true));
                    }
                    _ => return unknowable(conditions),
                }
            }
            // A packet without this header does not meet any comparison.
            ("frag", "frag-off") => {
                conditions.families = conditions.families.and(Families::V6);
                match (numbers(0x1fff, &number)?.complement(0x1fff).as_slice(), table.is_tracked) {
                    ([(0, 0)], _) => conditions.ask(TestKind::Fragment(12)),
                    ([(1, 0x1fff)], _) => {
                        conditions = conditions.and(&any(Vec::from([parts(2), atomic()])));
                    }
                    _ => return unknowable(conditions),
                }
            }
            _ => return unknowable(conditions),
        },
        Expr::Meta(key) => match key.as_str() {
            "l4proto" => conditions.ask_protocol(&numbers(255, &protocol_number)?),
            "nfproto" | "protocol" => {
                return family(table, key_of_family(expr), value, not, conditions);
            }
            "mark" => conditions.ask(mark_test(false, u32::MAX, numbers(u128::from(u32::MAX), &number)?)),
            "iif" | "iifname" | "oif" | "oifname" => {
                let is_index = matches!(key.as_str(), "iif" | "oif");
                let mut names = Vec::new();
                for one in values(table, value)? {
                    match one {
                        // The number of an interface differs from host to host.
                        Value::Word(word) if is_index && word.starts_with(|c: char| c.is_ascii_digit()) => {
                            let text = format!("{what} {word}, an interface by its number");
                            conditions.ask(Test::new(TestKind::Unknowable(text), not));
                            return Ok(conditions);
                        }
                        Value::Range(..) if is_index => return unknowable(conditions),
                        Value::Word(word) if is_index && word.ends_with('*') => {
                            return Err(format!(
                                "{what} compares one interface, not '{word}'; write {key}name"
                            ));
                        }
                        Value::Word(word) => names.push(InterfacePattern::new(word, '*')),
                        Value::Any => names.push(InterfacePattern::new("*", '*')),
                        _ => return Err(format!("{what}: expected the name of an interface")),
                    }
                }
                let is_input = key.starts_with('i');
                let kind = if is_input { TestKind::Input(names) } else { TestKind::Output(names) };
                conditions.ask(Test::new(kind, not));
            }
            "length" => conditions
                .ask(TestKind::Number(HeaderField::Length, numbers(u128::from(u32::MAX), &number)?)),
            _ => return unknowable(conditions),
        },
        Expr::Ct(key) if key == "mark" => {
            conditions.ask(mark_test(true, u32::MAX, numbers(u128::from(u32::MAX), &number)?));
        }
        Expr::Ct(key) if key == "state" => {
            let mut states = 0;
            let is_list = matches!(value, Value::Flags(_)) && op == Op::In;
            for one in values(table, value)? {
                let names: Vec<&String> = match one {
                    Value::Word(word) => Vec::from([word]),
                    Value::Flags(words) => words.iter().collect(),
                    _ => return Err(format!("{what}: expected states such as new,established")),
                };
                let mut bits = 0;
                for name in names {
                    let state = ConnectionState::from_name(name);
                    bits |= state.ok_or_else(|| format!("{what}: '{name}' is not a state"))?.bit();
                }
                // A packet has one state, so that it never equals several.
                if is_list || bits.is_power_of_two() {
                    states |= bits;
                }
            }
            match (states, not) {
                (0, false) => conditions = any(Vec::new()),
                (0, true) => {}
                _ => conditions.ask(Test::new(TestKind::State(states), not)),
            }
        }
        Expr::Raw(base, 96, 16) if base == "ll" => {
            return family(table, key_of_family(expr), value, not, conditions);
        }
        Expr::Raw(base, at, count) => {
            let max = u128::MAX >> 128_u32.saturating_sub(*count).min(127);
            let op = if not { Op::Equal } else { op };
            // Addresses and texts are no numbers here.
            let Ok(values) = self::numbers(table, &what, op, value, max, &number) else {
                return unknowable(conditions);
            };
            let bits = match base.as_str() {
                "nh" | "th" if !values.is_empty() => Contents::of_bits(base == "th", *at, *count, values),
                "ll" if (*at, *count, values.len()) == (48, 48, 1) && !op.is_order() => {
                    let [(low, high)] = values.as_slice() else { return unknowable(conditions) };
                    if low != high {
                        return unknowable(conditions);
                    }
                    let kind = TestKind::SourceMac { value: *low as u64, mask: (1 << 48) - 1 };
                    conditions.ask(Test::new(kind, not));
                    return Ok(conditions);
                }
                _ => None,
            };
            let Some(mut bits) = bits else { return unknowable(conditions) };
            if table.is_tracked {
                bits = bits.of_datagram();
            }
            conditions.ask(Test::new(TestKind::Contents(bits), not));
        }
        Expr::Ct(_) | Expr::Concat(_) | Expr::Masked(..) | Expr::Other(_) => return unknowable(conditions),
    }
    Ok(conditions)
}

/// Returns the name of an expression in messages.
pub(super) fn describe(expr: &Expr) -> String {
    match expr {
        Expr::Payload(header, field) => format!("{header} {field}"),
        Expr::Meta(key) => format!("meta {key}"),
        Expr::Ct(key) => format!("ct {key}"),
        Expr::Concat(parts) => parts.iter().map(describe).collect::<Vec<_>>().join(" . "),
        Expr::Masked(inner, _) => format!("{} under a mask", describe(inner)),
        Expr::Raw(base, at, count) => format!("@{base},{at},{count}"),
        Expr::Other(text) => text.clone(),
    }
}

/// Returns the set of numbers of a comparison, including negation and order.
fn numbers(
    table: &Table,
    what: &str,
    op: Op,
    value: &Value,
    max: u128,
    read: &dyn Fn(&str) -> Option<u128>,
) -> Result<Ranges, Refusal> {
    let wrong = |word: &str| format!("{what}: '{word}' is not a value of this field");
    let one = |word: &str| read(word).filter(|&number| number <= max).ok_or_else(|| wrong(word));
    let mut ranges = Vec::new();
    for value in values(table, value)? {
        ranges.push(match value {
            Value::Word(word) => match one(word) {
                Ok(number) => (number, number),
                // Two numbers with a dash; names may contain dashes too.
                Err(error) => match word.split_once('-') {
                    Some((low, high)) => {
                        (one(low).map_err(|_| error.clone())?, one(high).map_err(|_| error)?)
                    }
                    None => return Err(error),
                },
            },
            Value::Range(low, high) => (one(low)?, one(high)?),
            Value::Any => (0, max),
            _ => return Err(format!("{what}: expected a number, a range or a set of these")),
        });
    }
    if ranges.iter().any(|(low, high)| low > high) {
        return Err(format!("{what}: a range ends before it begins"));
    }
    Ok(ordered(op, Ranges::new(ranges), max))
}

/// Returns the values from 0 to `max` that compare with a set in this way.
fn ordered(op: Op, set: Ranges, max: u128) -> Ranges {
    let (low, high) = set.hull().unwrap_or((1, 0));
    match op {
        Op::In | Op::Equal => set,
        Op::NotEqual => set.complement(max),
        Op::Less => Ranges::new(low.checked_sub(1).map(|end| (0, end))),
        Op::LessOrEqual => Ranges::new([(0, high)]),
        Op::Greater => Ranges::new(high.checked_add(1).map(|start| (start, max))),
        Op::GreaterOrEqual => Ranges::new([(low, max)]),
    }
}

/// Returns whether the values of an expression are numbers whose order is that of the kernel.
fn has_order(expr: &Expr) -> bool {
    match expr {
        Expr::Payload(header, field) => match field.as_str() {
            "saddr" | "daddr" => matches!(header.as_str(), "ip" | "ip6"),
            "flags" => false,
            _ => header != "ether",
        },
        Expr::Meta(key) => matches!(key.as_str(), "l4proto" | "length" | "mark"),
        Expr::Ct(key) => key == "mark",
        Expr::Raw(base, ..) => base != "ll",
        Expr::Concat(_) | Expr::Masked(..) | Expr::Other(_) => false,
    }
}

pub(super) fn mark_test(is_connection: bool, mask: u32, values: Ranges) -> TestKind {
    TestKind::Mark { is_connection, mask, values }
}

pub(super) fn ecn(word: &str) -> Option<u128> {
    number(word).or_else(|| {
        Some(match word {
            "not-ect" => 0,
            "ect1" => 1,
            "ect0" => 2,
            "ce" => 3,
            _ => return None,
        })
    })
}

pub(super) fn number(word: &str) -> Option<u128> {
    match word.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        None => decimal(word),
    }
}

fn protocol_number(word: &str) -> Option<u128> {
    protocol(word)
        .filter(|found| found.mask() == 0xff && !word.contains('/'))
        .map(|found| u128::from(found.value()))
}

fn port(word: &str) -> Option<u128> {
    number(word).or_else(|| service(word).map(u128::from))
}

/// Reads an address, a prefix or a range.
fn addresses(value: &Value, is_v6: bool) -> Option<(u128, u128)> {
    match value {
        Value::Word(word) => ipset::addresses(word, is_v6),
        Value::Range(low, high) => {
            let one = |text: &str| {
                ipset::addresses(text, is_v6).filter(|(low, high)| low == high).map(|(low, _)| low)
            };
            let (low, high) = (one(low)?, one(high)?);
            (low <= high).then_some((low, high))
        }
        Value::Any => Some((0, if is_v6 { u128::MAX } else { 0xffff_ffff })),
        _ => None,
    }
}

/// Returns the condition on the part of a datagram that a packet is.
fn parts(bits: u8) -> Conditions {
    Conditions { tests: Vec::from([Test::from(TestKind::Fragment(bits))]), ..Conditions::default() }
}

/// Returns the condition that a fragment header follows the IPv6 header.
fn next_is_fragment() -> TestKind {
    TestKind::Number(HeaderField::NextHeader, Ranges::exact(44))
}

/// Returns the conditions of a packet that is whole and has a fragment header.
fn atomic() -> Conditions {
    let mut whole = parts(1);
    whole.ask(next_is_fragment());
    whole
}

/// What the values of a comparison of families are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FamilyKey {
    EtherType,
    Netfilter,
}

fn key_of_family(expr: &Expr) -> FamilyKey {
    match expr {
        Expr::Meta(key) if key == "nfproto" => FamilyKey::Netfilter,
        _ => FamilyKey::EtherType,
    }
}

fn family(
    table: &Table,
    key: FamilyKey,
    value: &Value,
    not: bool,
    mut conditions: Conditions,
) -> Result<Conditions, Refusal> {
    let [v4, v6, max] = match key {
        FamilyKey::EtherType => [0x0800, 0x86dd, 0xffff],
        FamilyKey::Netfilter => [2, 10, 0xff],
    };
    // Other protocols of links never reach these chains.
    let read = |word: &str| match (word, key) {
        ("ipv4", FamilyKey::Netfilter) | ("ip", FamilyKey::EtherType) => Some(v4),
        ("ipv6", FamilyKey::Netfilter) | ("ip6", FamilyKey::EtherType) => Some(v6),
        ("arp", FamilyKey::EtherType) => Some(0x0806),
        ("vlan" | "8021q", FamilyKey::EtherType) => Some(0x8100),
        ("8021ad", FamilyKey::EtherType) => Some(0x88a8),
        (word, _) => number(word),
    };
    let op = if not { Op::NotEqual } else { Op::Equal };
    let asked = numbers(table, "family", op, value, max, &read)?;
    let asked = Families { v4: asked.contains(v4), v6: asked.contains(v6) };
    conditions.families = conditions.families.and(asked);
    Ok(conditions)
}

/// Returns the conditions of each element of a map, with its verdict, in a rule that has asked for
/// these protocols before.
pub(super) fn map(
    table: &Table,
    expr: &Expr,
    value: &Value,
    protocols: Option<&Ranges>,
) -> Result<Vec<(Conditions, Verdict)>, Refusal> {
    let elements: &[(Value, Option<Verdict>)] = match value {
        Value::Set(elements) => elements,
        Value::Named(name) => {
            let set = set(table, name)?;
            if set.is_dynamic {
                return Err(format!(
                    "map '{name}' changes while packets flow, so its verdicts are unknown"
                ));
            }
            &set.elements
        }
        _ => return Err("expected a map in braces, or @ and its name".to_owned()),
    };
    let mut all = Vec::with_capacity(elements.len());
    let mut rest = None;
    let decides = |verdict: &Option<Verdict>| {
        !matches!(
            verdict,
            Some(Verdict::Continue | Verdict::Return | Verdict::Jump(_) | Verdict::Goto(_)) | None
        )
    };
    for (key, verdict) in elements {
        let Some(verdict) = verdict.clone() else {
            return Err("expected a map of verdicts".to_owned());
        };
        if *key == Value::Any {
            rest = Some(verdict);
            continue;
        }
        let conditions = match expr {
            Expr::Concat(parts) => concat(table, parts, key)?,
            // An element is a single value, not one of several bits.
            Expr::Payload(header, field) if header == "tcp" && field == "flags" => {
                tcp_flags(table, Op::Equal, key)?
            }
            Expr::Ct(_) => single(table, expr, Op::Equal, key)?,
            expr => compare(table, expr, Op::In, key, protocols)?,
        };
        all.push((conditions, verdict));
    }
    // All values that no other element has. After an element that decides, none of its packets come
    // here.
    if let Some(verdict) = rest {
        let keys = elements.iter().filter(|(key, _)| *key != Value::Any);
        let open = keys.filter(|(_, verdict)| !decides(verdict)).cloned().collect::<Vec<_>>();
        let conditions = if open.is_empty() {
            needs(core::slice::from_ref(expr)).and(&has_headers(table, core::slice::from_ref(expr)))
        } else {
            compare(table, expr, Op::NotEqual, &Value::Set(open), protocols)?
        };
        all.push((conditions, verdict));
    }
    Ok(all)
}
