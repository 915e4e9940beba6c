//! The fields of a rule in TOML.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::Deserialize;
use toml::Spanned;

use super::super::iptables::{contents, dscp_class, icmp, tcp_flags};
use super::super::words::mac;
use super::super::{LoadError, LoadErrorKind};
use super::{Read, at};
use crate::firewall::{
    Conditions, ConnectionState, Families, HeaderField, InterfacePattern, Ranges, Test, TestKind,
};
use crate::rule::{
    Action, Addresses, FlagsColumn, PortRange, Prefix, ProtocolMatch, Rule, RuleError, decimal,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    source: Option<Spanned<Value>>,
    destination: Option<Spanned<Value>>,
    source_ports: Option<Spanned<Value>>,
    destination_ports: Option<Spanned<Value>>,
    protocol: Option<Spanned<Value>>,
    priority: Option<Spanned<i64>>,
    value: Option<Spanned<i64>>,
    action: Option<Spanned<String>>,
    skip: Option<Spanned<i64>>,
    family: Option<Spanned<String>>,
    tcp_flags: Option<Spanned<Value>>,
    icmp_type: Option<Spanned<Value>>,
    icmpv6_type: Option<Spanned<Value>>,
    fragment: Option<Spanned<Value>>,
    state: Option<Spanned<Value>>,
    in_interface: Option<Spanned<Value>>,
    out_interface: Option<Spanned<Value>>,
    vlan: Option<Spanned<Value>>,
    dscp: Option<Spanned<Value>>,
    ecn: Option<Spanned<Value>>,
    ttl: Option<Spanned<Value>>,
    contents: Option<Spanned<Value>>,
    next_header: Option<Spanned<Value>>,
    length: Option<Spanned<Value>>,
    source_mac: Option<Spanned<Value>>,
    either_port: Option<Spanned<Value>>,
    source_mask: Option<Spanned<Value>>,
    destination_mask: Option<Spanned<Value>>,
    flags: Option<Spanned<Value>>,
    may_match: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, a text, or a list of these")]
enum Value {
    Number(i64),
    Text(String),
    List(Vec<NumberOrText>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a text")]
enum NumberOrText {
    Number(i64),
    Text(String),
}

/// A field's values as words, and its position.
struct Words {
    words: Vec<String>,
    place: usize,
}

impl Words {
    fn new(start: usize, field: Spanned<Value>) -> Self {
        let place = start + field.span().start;
        let words = match field.into_inner() {
            Value::Number(number) => Vec::from([alloc::format!("{number}")]),
            Value::Text(text) => Vec::from([text]),
            Value::List(list) => list
                .into_iter()
                .map(|one| match one {
                    NumberOrText::Number(number) => alloc::format!("{number}"),
                    NumberOrText::Text(text) => text,
                })
                .collect(),
        };
        Self { words, place }
    }
}

/// The position of a field, for errors.
struct Place<'a> {
    text: &'a str,
    at: usize,
}

impl Place<'_> {
    fn expected(&self, what: &'static str) -> LoadError {
        at(self.text, self.at, LoadErrorKind::Expected(what))
    }

    fn wrong(&self, error: RuleError) -> LoadError {
        at(self.text, self.at, LoadErrorKind::Rule(error))
    }
}

/// The error about an empty list.
const EMPTY: &str = "a value in this list: an empty one would match nothing";

/// Returns the rule of an entry; `index` is its position in the file, and `start` the byte from
/// which spans count.
#[expect(clippy::too_many_lines, reason = "one call for each field of a rule")]
pub(super) fn rule(
    text: &str,
    start: usize,
    index: usize,
    entry: Spanned<Fields>,
    line: usize,
) -> Result<Read, LoadError> {
    let place = start + entry.span().start;
    let fields = entry.into_inner();
    let mut rule = Rule { value: index as u32, ..Rule::ANY };
    if let Some(priority) =
        whole_number(text, start, fields.priority, "a priority from -2147483648 to 2147483647")?
    {
        rule.priority = priority;
    }
    if let Some(value) = whole_number(text, start, fields.value, "a value from 0 to 4294967295")? {
        rule.value = value;
    }
    let skip: Option<u32> = whole_number(text, start, fields.skip, "a number of rules to skip")?;
    let mut has_action = false;
    if let Some(action) = fields.action {
        let here = Place { text, at: start + action.span().start };
        has_action = true;
        match (action.get_ref().as_str(), skip) {
            ("accept", None) => rule.action = Some(Action::Accept),
            ("deny", None) => rule.action = Some(Action::Deny),
            ("skip", Some(_)) => {}
            ("skip", None) => return Err(here.expected("skip = N with this action")),
            ("accept" | "deny", Some(_)) => return Err(here.expected("action = \"skip\" with skip = N")),
            _ => return Err(here.expected("an action: \"accept\" or \"deny\"")),
        }
    }
    let mut conditions = Conditions::default();
    let mut asked = Asked { text, start, place, conditions: &mut conditions };
    asked.addresses(fields.source, fields.destination)?;
    asked.family(fields.family)?;
    asked.protocol(fields.protocol)?;
    asked.ports(fields.source_ports, false)?;
    asked.ports(fields.destination_ports, true)?;
    asked.tests(fields.tcp_flags, "flags under a mask such as SYN/SYN,ACK,RST,FIN", |word| {
        let (value, mask) = word.split_once('/')?;
        Some(TestKind::TcpFlags { value: tcp_flags(value)?, mask: tcp_flags(mask)? })
    })?;
    for (field, is_v6) in [(fields.icmp_type, false), (fields.icmpv6_type, true)] {
        asked.sets(
            field,
            "an ICMP type: a name, 8, or 3/4",
            |word| icmp(word, is_v6),
            |codes| TestKind::Icmp { is_v6, codes },
        )?;
    }
    asked.bits(
        fields.fragment,
        "whole, first or later",
        |word| match word {
            "whole" => Some(1),
            "first" => Some(2),
            "later" => Some(12),
            // A later one at byte 8, and one behind.
            "second" => Some(8),
            "further" => Some(4),
            _ => None,
        },
        TestKind::Fragment,
    )?;
    asked.bits(
        fields.state,
        "a state: new, established, related, invalid or untracked",
        |word| ConnectionState::from_name(word).map(ConnectionState::bit),
        TestKind::State,
    )?;
    asked.interfaces(fields.in_interface, TestKind::Input)?;
    asked.interfaces(fields.out_interface, TestKind::Output)?;
    let code_point = |word: &str| dscp_class(word).map(|value| Ranges::exact(u128::from(value)));
    for (field, list, what) in [
        (HeaderField::Vlan, fields.vlan, "a VLAN from 0 to 4095, or a range"),
        (HeaderField::Dscp, fields.dscp, "a code point from 0 to 63, a range, or a class such as EF"),
        (HeaderField::Ecn, fields.ecn, "a number from 0 to 3"),
        (HeaderField::Length, fields.length, "a length, or a range such as 40-1500"),
        (HeaderField::Ttl, fields.ttl, "a number from 0 to 255, or a range"),
        (HeaderField::NextHeader, fields.next_header, "a number from 0 to 255, or a range"),
    ] {
        let read = |word: &str| {
            let class = code_point(word).filter(|_| field == HeaderField::Dscp);
            class.or_else(|| range(word, field.max()))
        };
        asked.sets(list, what, read, |set| TestKind::Number(field, set))?;
    }
    asked.sets(fields.either_port, PORT, |word| range(word, 65_535), TestKind::EitherPort)?;
    asked.tests(fields.source_mac, "a MAC address such as 00:11:22:33:44:55", |word| {
        mac(word).map(|value| TestKind::SourceMac { value, mask: (1 << 48) - 1 })
    })?;
    let what = "a match of iptables such as u32 --u32 \"6&0xFF=17\"";
    asked.tests(fields.contents, what, |word| contents(word).map(TestKind::Contents))?;
    for (field, is_destination) in [(fields.source_mask, false), (fields.destination_mask, true)] {
        asked.mask(field, is_destination)?;
    }
    asked.tests(fields.may_match, "a text", |word| Some(TestKind::Unknowable(String::from(word))))?;
    if let Some(field) = fields.flags {
        let words = Words::new(start, field);
        let here = Place { text, at: words.place };
        let column = match &words.words[..] {
            [word] => word.split_once('/').and_then(|(value, mask)| {
                Some(FlagsColumn { value: hexadecimal(value)?, mask: hexadecimal(mask)? })
            }),
            _ => None,
        };
        rule.flags = Some(column.ok_or_else(|| here.expected("flags such as \"0x0200/0x0200\""))?);
    }
    let conditions = if boxed(&conditions, &mut rule) {
        None
    } else {
        if let Some(column) = rule.flags.filter(|column| column.mask != 0) {
            conditions.ask(TestKind::Column(column));
        }
        Some(conditions)
    };
    Ok(Read { rule, conditions: conditions.map(alloc::sync::Arc::new), skip, has_action, line, place })
}

/// Writes conditions into a rule if one box can express them.
fn boxed(conditions: &Conditions, rule: &mut Rule) -> bool {
    if !conditions.tests.is_empty() {
        return false;
    }
    let one = |field: &Option<Ranges>, bits: u32| match field {
        None => Some((0, 0)),
        Some(set) => match set.prefixes(bits)[..] {
            [prefix] => Some(prefix),
            _ => None,
        },
    };
    let span = |field: &Option<Ranges>| match field {
        None => Some(PortRange::ANY),
        Some(set) => match set.as_slice() {
            // A range of all ports is not a box, because it requires ports.
            [(0, 0xffff)] => None,
            [(low, high)] => PortRange::new(*low as u16, *high as u16).ok(),
            _ => None,
        },
    };
    let is_v6 = conditions.families == Families::V6;
    let bits = if is_v6 { 128 } else { 32 };
    let sides = one(&conditions.source, bits).zip(one(&conditions.destination, bits));
    let Some((source, destination)) = sides else { return false };
    let Some((from, to)) = span(&conditions.source_ports).zip(span(&conditions.destination_ports)) else {
        return false;
    };
    let protocol = match &conditions.protocols {
        None => ProtocolMatch::ANY,
        Some(set) => match set.prefixes(8)[..] {
            [(value, length)] => {
                ProtocolMatch::new(value as u8, 0xff_u8.checked_shl(8 - length).unwrap_or(0))
            }
            _ => return false,
        },
    };
    rule.addresses = if conditions.families == Families::BOTH {
        Addresses::Any
    } else if is_v6 {
        let (Ok(source), Ok(destination)) =
            (Prefix::new(source.0, source.1), Prefix::new(destination.0, destination.1))
        else {
            return false;
        };
        Addresses::V6 { source, destination }
    } else {
        let (Ok(source), Ok(destination)) =
            (Prefix::new(source.0, source.1), Prefix::new(destination.0, destination.1))
        else {
            return false;
        };
        Addresses::V4 { source, destination }
    };
    (rule.source_ports, rule.destination_ports, rule.protocol) = (from, to, protocol);
    true
}

const PORT: &str = "a port from 0 to 65535, a range such as \"1024-65535\", a list, or \"any\"";

/// The conditions of a rule while it is read.
struct Asked<'a> {
    text: &'a str,
    start: usize,
    place: usize,
    conditions: &'a mut Conditions,
}

impl Asked<'_> {
    fn words(&self, field: Option<Spanned<Value>>) -> Result<Option<(Words, Place<'_>)>, LoadError> {
        let Some(field) = field else { return Ok(None) };
        let words = Words::new(self.start, field);
        let here = Place { text: self.text, at: words.place };
        if words.words.is_empty() {
            return Err(here.expected(EMPTY));
        }
        Ok(Some((words, here)))
    }

    fn addresses(
        &mut self,
        source: Option<Spanned<Value>>,
        destination: Option<Spanned<Value>>,
    ) -> Result<(), LoadError> {
        let sides = [self.network(source, false)?, self.network(destination, true)?];
        let families: Vec<bool> = sides.iter().flatten().copied().collect();
        if families.contains(&true) && families.contains(&false) {
            let here = Place { text: self.text, at: self.place };
            return Err(here.expected("source and destination of one family; write two rules"));
        }
        Ok(())
    }

    /// Adds a condition on the addresses of a side; returns whether they are IPv6 addresses.
    fn network(
        &mut self,
        field: Option<Spanned<Value>>,
        is_destination: bool,
    ) -> Result<Option<bool>, LoadError> {
        const WHAT: &str =
            "a prefix such as 192.0.2.0/24 or 2001:db8::/32, an address, a range, a list, or any";
        let Some((words, here)) = self.words(field)? else { return Ok(None) };
        if words.words.iter().any(|word| word == "any") {
            return if words.words.len() == 1 {
                Ok(None)
            } else {
                Err(here.expected("any alone, or a list without it"))
            };
        }
        let mut family = None;
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for word in &words.words {
            let (is_out, word) = word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
            let first = word.split(['/', '-']).next().unwrap_or("");
            let address: IpAddr = first.parse().map_err(|_| here.expected(WHAT))?;
            let is_v6 = address.is_ipv6();
            if family.is_some_and(|family| family != is_v6) {
                return Err(here.expected("addresses of one family in one list; write two rules"));
            }
            family = Some(is_v6);
            if let Some(length) = word.split_once('/').and_then(|(_, length)| decimal::<u32>(length)) {
                let length_max = if is_v6 { 128 } else { 32 };
                if length > length_max {
                    return Err(here.wrong(RuleError::PrefixTooLong { length, length_max }));
                }
            }
            let range = super::super::ipset::addresses(word, is_v6).ok_or_else(|| here.expected(WHAT))?;
            if is_out { outside.push(range) } else { inside.push(range) }
        }
        let is_v6 = family == Some(true);
        let all = if is_v6 { u128::MAX } else { 0xffff_ffff };
        let inside = if inside.is_empty() { Ranges::up_to(all) } else { Ranges::new(inside) };
        let set = inside.intersection(&Ranges::new(outside).complement(all));
        if set.is_empty() {
            return Err(here.expected(EMPTY));
        }
        self.conditions.ask_address(is_destination, is_v6, &set);
        // The set of all addresses of a family is a condition on the family.
        if set == Ranges::up_to(all) {
            let side =
                if is_destination { &mut self.conditions.destination } else { &mut self.conditions.source };
            *side = None;
        }
        Ok(family)
    }

    /// Adds a condition on an address under a mask with holes.
    fn mask(&mut self, field: Option<Spanned<Value>>, is_destination: bool) -> Result<(), LoadError> {
        const WHAT: &str = "an address and a mask such as 10.0.0.1/255.0.0.255";
        let mut test = None;
        if let Some((words, here)) = self.words(field)? {
            let [word] = &words.words[..] else { return Err(here.expected(WHAT)) };
            let (not, word) = word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
            let (value, mask) = word.split_once('/').ok_or_else(|| here.expected(WHAT))?;
            let both: Option<(IpAddr, IpAddr)> = value.parse().ok().zip(mask.parse().ok());
            let (value, mask) = both.ok_or_else(|| here.expected(WHAT))?;
            let family = if value.is_ipv6() { Families::V6 } else { Families::V4 };
            if value.is_ipv6() != mask.is_ipv6() || self.conditions.families.and(family).is_none() {
                return Err(here.expected("a mask of the rule's family"));
            }
            let (value, mask) = (crate::firewall::bits_of(value), crate::firewall::bits_of(mask));
            let kind = TestKind::Address { is_destination, value: value & mask, mask };
            test = Some((family, Test::new(kind, not)));
        }
        if let Some((family, test)) = test {
            self.conditions.families = self.conditions.families.and(family);
            self.conditions.ask(test);
        }
        Ok(())
    }

    fn family(&mut self, field: Option<Spanned<String>>) -> Result<(), LoadError> {
        let Some(field) = field else { return Ok(()) };
        let here = Place { text: self.text, at: self.start + field.span().start };
        let asked = match field.get_ref().as_str() {
            "ipv4" => Families::V4,
            "ipv6" => Families::V6,
            _ => return Err(here.expected("a family: \"ipv4\" or \"ipv6\"")),
        };
        self.conditions.families = self.conditions.families.and(asked);
        if self.conditions.families.is_none() {
            return Err(here.expected("the family of the rule's addresses"));
        }
        Ok(())
    }

    fn protocol(&mut self, field: Option<Spanned<Value>>) -> Result<(), LoadError> {
        const WHAT: &str =
            "a protocol: tcp, udp, icmp, a number, \"0x06/0xff\", a list of these, or \"any\"";
        let Some((words, here)) = self.words(field)? else { return Ok(()) };
        let mut set = Ranges::default();
        for word in &words.words {
            let (is_out, word) = word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
            let one = super::super::protocol(word).ok_or_else(|| here.expected(WHAT))?;
            if one == ProtocolMatch::ANY {
                return if words.words.len() == 1 && !is_out { Ok(()) } else { Err(here.expected(WHAT)) };
            }
            let values = (0..=255_u8).filter(|&value| one.contains(value)).map(u128::from);
            let values = Ranges::new(values.map(|value| (value, value)));
            set = set.union(&if is_out { values.complement(255) } else { values });
        }
        self.conditions.ask_protocol(&set);
        Ok(())
    }

    fn ports(&mut self, field: Option<Spanned<Value>>, is_destination: bool) -> Result<(), LoadError> {
        let Some((words, here)) = self.words(field)? else { return Ok(()) };
        let mut ports = Vec::new();
        for word in &words.words {
            if word == "any" {
                return if words.words.len() == 1 { Ok(()) } else { Err(here.expected(PORT)) };
            }
            let (is_out, word) = word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
            let (low, high) = word.split_once(['-', ':']).unwrap_or((word, word));
            let ends: Option<(u16, u16)> = decimal(low.trim()).zip(decimal(high.trim()));
            let (low, high) = ends.ok_or_else(|| here.expected(PORT))?;
            if low > high {
                return Err(here.wrong(RuleError::ReversedRange { low, high }));
            }
            let range = Ranges::new([(u128::from(low), u128::from(high))]);
            let range = if is_out { range.complement(0xffff) } else { range };
            ports.extend_from_slice(range.as_slice());
        }
        self.conditions.ask_port(is_destination, &Ranges::new(ports));
        Ok(())
    }

    /// Adds each word as a separate test; all of them must hold.
    fn tests(
        &mut self,
        field: Option<Spanned<Value>>,
        what: &'static str,
        read: impl Fn(&str) -> Option<TestKind>,
    ) -> Result<(), LoadError> {
        let mut tests = Vec::new();
        if let Some((words, here)) = self.words(field)? {
            for word in &words.words {
                let (not, word) =
                    word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
                tests.push(Test::new(read(word).ok_or_else(|| here.expected(what))?, not));
            }
        }
        for test in tests {
            self.conditions.ask(test);
        }
        Ok(())
    }

    /// Adds a test for any of the words; a mark before any of them negates the test.
    fn sets(
        &mut self,
        field: Option<Spanned<Value>>,
        what: &'static str,
        read: impl Fn(&str) -> Option<Ranges>,
        kind: impl Fn(Ranges) -> TestKind,
    ) -> Result<(), LoadError> {
        let mut test = None;
        if let Some((words, here)) = self.words(field)? {
            let (mut set, mut is_negated) = (Ranges::default(), false);
            for word in &words.words {
                let (not, word) =
                    word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
                is_negated |= not;
                set = set.union(&read(word).ok_or_else(|| here.expected(what))?);
            }
            test = Some(Test::new(kind(set), is_negated));
        }
        if let Some(test) = test {
            self.conditions.ask(test);
        }
        Ok(())
    }

    fn bits(
        &mut self,
        field: Option<Spanned<Value>>,
        what: &'static str,
        read: impl Fn(&str) -> Option<u8>,
        kind: impl Fn(u8) -> TestKind,
    ) -> Result<(), LoadError> {
        let mut test = None;
        if let Some((words, here)) = self.words(field)? {
            let (mut set, mut is_negated) = (0, false);
            for word in &words.words {
                let (not, word) =
                    word.strip_prefix('!').map_or((false, word.as_str()), |word| (true, word));
                is_negated |= not;
                set |= read(word).ok_or_else(|| here.expected(what))?;
            }
            test = Some(Test::new(kind(set), is_negated));
        }
        if let Some(test) = test {
            self.conditions.ask(test);
        }
        Ok(())
    }

    fn interfaces(
        &mut self,
        field: Option<Spanned<Value>>,
        kind: impl Fn(Vec<InterfacePattern>) -> TestKind,
    ) -> Result<(), LoadError> {
        let mut test = None;
        if let Some((words, here)) = self.words(field)? {
            let is_negated = words.words.iter().any(|word| word.starts_with('!'));
            let name = |word: &String| InterfacePattern::new(word.trim_start_matches('!'), '+');
            let names: Vec<InterfacePattern> = words.words.iter().map(name).collect();
            if names.iter().any(|name| name.name.is_empty() && !name.is_prefix) {
                return Err(here.expected("the name of an interface"));
            }
            test = Some(Test::new(kind(names), is_negated));
        }
        if let Some(test) = test {
            self.conditions.ask(test);
        }
        Ok(())
    }
}

fn range(word: &str, max: u128) -> Option<Ranges> {
    let (low, high) = word.split_once('-').unwrap_or((word, word));
    let (low, high): (u128, u128) = (decimal(low)?, decimal(high)?);
    (low <= high && high <= max).then(|| Ranges::new([(low, high)]))
}

fn hexadecimal(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x")?;
    u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

/// Converts an optional number to a narrower type.
fn whole_number<T: TryFrom<i64>>(
    text: &str,
    start: usize,
    field: Option<Spanned<i64>>,
    expected: &'static str,
) -> Result<Option<T>, LoadError> {
    let narrow = |field: Spanned<i64>| {
        let here = Place { text, at: start + field.span().start };
        T::try_from(*field.get_ref()).map_err(|_| here.expected(expected))
    };
    field.map(narrow).transpose()
}
