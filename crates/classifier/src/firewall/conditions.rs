//! The conditions of a rule on a packet, field by field. A condition on a field that is not indexed
//! is a [`Test`], which is evaluated for packets whose five-tuple matches.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::packet::{ConnectionState, Fragment, Packet};
use super::ranges::{Ranges, address_text};
use crate::rule::FlagsColumn;

/// Address families to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Families {
    /// IPv4 packets.
    pub v4: bool,
    /// IPv6 packets.
    pub v6: bool,
}

impl Families {
    /// Both.
    pub const BOTH: Self = Self { v4: true, v6: true };
    /// IPv4 only.
    pub const V4: Self = Self { v4: true, v6: false };
    /// IPv6 only.
    pub const V6: Self = Self { v4: false, v6: true };

    /// Returns the families in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { v4: self.v4 && other.v4, v6: self.v6 && other.v6 }
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        !self.v4 && !self.v6
    }
}

/// Conditions that must all hold. `None` means no condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// Families of the packet's addresses.
    pub families: Families,
    /// Senders: addresses of a single family.
    pub source: Option<Ranges>,
    /// Receivers: addresses of a single family.
    pub destination: Option<Ranges>,
    /// Protocols.
    pub protocols: Option<Ranges>,
    /// Senders' ports. A packet without ports does not match any set.
    pub source_ports: Option<Ranges>,
    /// Receivers' ports. A packet without ports does not match any set.
    pub destination_ports: Option<Ranges>,
    /// Conditions on other fields.
    pub tests: Vec<Test>,
}

impl Default for Conditions {
    /// Returns conditions that every packet meets.
    fn default() -> Self {
        Self {
            families: Families::BOTH,
            source: None,
            destination: None,
            protocols: None,
            source_ports: None,
            destination_ports: None,
            tests: Vec::new(),
        }
    }
}

fn both(a: &mut Option<Ranges>, b: Option<&Ranges>) {
    match (&*a, b) {
        (_, None) => {}
        (None, Some(b)) => *a = Some(b.clone()),
        (Some(x), Some(y)) => *a = Some(x.intersection(y)),
    }
}

impl Conditions {
    /// Adds the condition that the protocol is one of these.
    pub fn ask_protocol(&mut self, protocols: &Ranges) {
        both(&mut self.protocols, Some(protocols));
    }

    /// Adds the condition that the sender, or the receiver, is one of these addresses of a family.
    pub fn ask_address(&mut self, is_destination: bool, is_v6: bool, addresses: &Ranges) {
        self.families = self.families.and(if is_v6 { Families::V6 } else { Families::V4 });
        let field = if is_destination { &mut self.destination } else { &mut self.source };
        both(field, Some(addresses));
    }

    /// Adds the condition that the sender's port, or the receiver's, is one of these.
    pub fn ask_port(&mut self, is_destination: bool, ports: &Ranges) {
        let field = if is_destination { &mut self.destination_ports } else { &mut self.source_ports };
        both(field, Some(ports));
    }

    /// Adds another condition. A condition that exists already is not added twice.
    pub fn ask(&mut self, test: impl Into<Test>) {
        let test = test.into();
        if !self.tests.contains(&test) {
            self.tests.push(test);
        }
    }

    /// Returns conditions that hold if both hold.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.families = all.families.and(other.families);
        both(&mut all.source, other.source.as_ref());
        both(&mut all.destination, other.destination.as_ref());
        both(&mut all.protocols, other.protocols.as_ref());
        both(&mut all.source_ports, other.source_ports.as_ref());
        both(&mut all.destination_ports, other.destination_ports.as_ref());
        for test in &other.tests {
            all.ask(test.clone());
        }
        all
    }

    /// Returns whether no packet can meet them, judging by the indexed fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_nothing = |field: &Option<Ranges>| field.as_ref().is_some_and(Ranges::is_empty);
        self.families.is_none()
            || is_nothing(&self.source)
            || is_nothing(&self.destination)
            || is_nothing(&self.protocols)
            || is_nothing(&self.source_ports)
            || is_nothing(&self.destination_ports)
    }

    /// Returns whether a packet without ports cannot match.
    #[must_use]
    pub(crate) fn names_ports(&self) -> bool {
        self.source_ports.is_some() || self.destination_ports.is_some()
    }

    /// Returns whether a packet meets them.
    #[must_use]
    pub fn matches(&self, packet: &Packet<'_>) -> Truth {
        if !self.fields_match(packet) {
            return Truth::No;
        }
        self.tests_hold(packet)
    }

    /// Returns whether the indexed fields match.
    #[must_use]
    pub(crate) fn fields_match(&self, packet: &Packet<'_>) -> bool {
        let tuple = &packet.tuple;
        let family = if tuple.source.is_ipv6() { self.families.v6 } else { self.families.v4 };
        let has = |field: &Option<Ranges>, value: u128| {
            field.as_ref().is_none_or(|ranges| ranges.contains(value))
        };
        family
            && (packet.has_ports || !self.names_ports())
            && has(&self.protocols, u128::from(tuple.protocol))
            && has(&self.source, bits_of(tuple.source))
            && has(&self.destination, bits_of(tuple.destination))
            && has(&self.source_ports, u128::from(tuple.source_port))
            && has(&self.destination_ports, u128::from(tuple.destination_port))
    }

    /// Returns whether the other conditions hold.
    #[must_use]
    pub(crate) fn tests_hold(&self, packet: &Packet<'_>) -> Truth {
        let mut truth = Truth::Yes;
        for test in &self.tests {
            truth = truth.and(test.holds(packet));
            if truth == Truth::No {
                break;
            }
        }
        truth
    }

    /// Returns the texts of the conditions on data that packets do not contain.
    pub fn unknowable(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter_map(|test| match &test.kind {
            TestKind::Unknowable(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Maximum number of ranges that a text shows of a list.
const SHOWN: usize = 8;

/// Returns a set of addresses, as prefixes if that is short.
fn addresses_text(addresses: &Ranges, is_v6: bool) -> String {
    let bits = if is_v6 { 128 } else { 32 };
    let mut parts = Vec::new();
    for &(low, high) in addresses.as_slice().iter().take(SHOWN) {
        let prefixes = Ranges::of([(low, high)]).prefixes(bits);
        parts.push(match prefixes[..] {
            [(address, length)] if length == bits => address_text(address, is_v6),
            [(address, length)] => alloc::format!("{}/{length}", address_text(address, is_v6)),
            _ => alloc::format!("{}-{}", address_text(low, is_v6), address_text(high, is_v6)),
        });
    }
    if addresses.len() > SHOWN {
        parts.push(alloc::format!("and {} more", addresses.len() - SHOWN));
    }
    parts.join(",")
}

fn numbers_text(numbers: &Ranges) -> String {
    let mut parts: Vec<String> = numbers
        .as_slice()
        .iter()
        .take(SHOWN)
        .map(
            |&(low, high)| {
                if low == high { alloc::format!("{low}") } else { alloc::format!("{low}-{high}") }
            },
        )
        .collect();
    if numbers.len() > SHOWN {
        parts.push(alloc::format!("and {} more", numbers.len() - SHOWN));
    }
    parts.join(",")
}

/// Returns the name of a protocol, or its number.
pub(crate) fn protocol_name(number: u8) -> String {
    let name = match number {
        1 => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        50 => "esp",
        51 => "ah",
        58 => "ipv6-icmp",
        89 => "ospf",
        132 => "sctp",
        136 => "udplite",
        _ => return alloc::format!("{number}"),
    };
    String::from(name)
}

impl fmt::Display for Conditions {
    /// Writes the conditions as text: `tcp 10.0.0.0/8 > any dport 80 state NEW`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.protocols {
            None => f.write_str("all")?,
            Some(set) => {
                let ranges = set.as_slice().iter().take(SHOWN).map(|&(low, high)| {
                    if low == high { protocol_name(low as u8) } else { alloc::format!("{low}-{high}") }
                });
                f.write_str(&ranges.collect::<Vec<_>>().join(","))?;
            }
        }
        let any = match self.families {
            Families::V4 => "any IPv4",
            Families::V6 => "any IPv6",
            _ => "any",
        };
        let is_v6 = self.families == Families::V6;
        let side = |field: &Option<Ranges>, any: &str| {
            field.as_ref().map_or_else(|| String::from(any), |set| addresses_text(set, is_v6))
        };
        write!(f, " {} > {}", side(&self.source, any), side(&self.destination, "any"))?;
        for (name, ports) in [("sport", &self.source_ports), ("dport", &self.destination_ports)] {
            if let Some(ports) = ports {
                write!(f, " {name} {}", numbers_text(ports))?;
            }
        }
        for test in &self.tests {
            write!(f, " {test}")?;
        }
        Ok(())
    }
}

/// Whether a condition holds, with partial knowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    /// It does not hold.
    No,
    /// It may hold.
    Maybe,
    /// It holds.
    Yes,
}

impl Truth {
    /// Returns whether both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.min(other)
    }

    /// Returns whether at least one holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.max(other)
    }

    /// Returns whether it does not hold.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// The name of an interface, or a prefix of names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfacePattern {
    /// The name, without the wildcard character.
    pub name: String,
    /// The pattern matches every interface whose name begins with `name`.
    pub is_prefix: bool,
}

impl InterfacePattern {
    /// Reads a name whose last character may be `wildcard`: `+` in iptables, `*` in nftables.
    #[must_use]
    pub fn new(text: &str, wildcard: char) -> Self {
        match text.strip_suffix(wildcard) {
            Some(name) => Self { name: String::from(name), is_prefix: true },
            None => Self { name: String::from(text), is_prefix: false },
        }
    }

    /// Returns whether the pattern matches an interface.
    #[must_use]
    pub fn matches(&self, interface: &str) -> bool {
        if self.is_prefix { interface.starts_with(self.name.as_str()) } else { interface == self.name }
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "+" } else { "" })
    }
}

/// The kind of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TestKind {
    /// TCP flags under a mask.
    TcpFlags {
        /// Flags that are compared.
        mask: u8,
        /// Required values of these flags.
        value: u8,
    },
    /// The flags column of ClassBench.
    Column(FlagsColumn),
    /// ICMP type in the upper byte and code in the lower.
    Icmp {
        /// `ICMPv6` instead of ICMP.
        is_v6: bool,
        /// Types and codes.
        codes: Ranges,
    },
    /// The part of a datagram, as [`Fragment::bit`]s.
    Fragment(u8),
    /// State of the connection, as [`ConnectionState::bit`]s.
    State(u8),
    /// The interface by which the packet entered has one of these names.
    Input(Vec<InterfacePattern>),
    /// The interface by which the packet leaves has one of these names.
    Output(Vec<InterfacePattern>),
    /// VLAN; 0 means none.
    Vlan(Ranges),
    /// Differentiated services code point.
    Dscp(Ranges),
    /// Size of the IP packet, in bytes.
    Length(Ranges),
    /// Sender's MAC address under a mask.
    SourceMac {
        /// Required bits.
        value: u64,
        /// Bits that are compared.
        mask: u64,
    },
    /// An address under a mask that ranges cannot express.
    Address {
        /// The receiver's address instead of the sender's.
        is_destination: bool,
        /// Required bits.
        value: u128,
        /// Bits that are compared.
        mask: u128,
    },
    /// At least one of both ports.
    EitherPort(Ranges),
    /// One of several conditions.
    AnyOf(Vec<Conditions>),
    /// Data that packets do not contain: a limit, a time, an owner. The text comes from the file.
    Unknowable(String),
}

/// A condition, or its negation.
///
/// A condition on a header that a packet lacks never holds, negated or not: a UDP datagram has
/// neither the flag SYN nor the flags "not SYN".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// It must not hold.
    pub is_negated: bool,
    /// The condition.
    pub kind: TestKind,
}

impl From<TestKind> for Test {
    fn from(kind: TestKind) -> Self {
        Self { is_negated: false, kind }
    }
}

impl Test {
    /// Returns the condition, or its negation.
    #[must_use]
    pub const fn new(kind: TestKind, is_negated: bool) -> Self {
        Self { is_negated, kind }
    }

    /// Returns whether the condition holds for a packet.
    #[must_use]
    pub fn holds(&self, packet: &Packet<'_>) -> Truth {
        match self.asks(packet) {
            None => Truth::No,
            Some(truth) if self.is_negated => truth.negated(),
            Some(truth) => truth,
        }
    }

    /// Evaluates the condition without negation; `None` if the packet lacks the header.
    fn asks(&self, packet: &Packet<'_>) -> Option<Truth> {
        let later = packet.fragment == Fragment::Later;
        let protocol = packet.tuple.protocol;
        let known = |field: Option<u128>, ranges: &Ranges| {
            field.map_or(Truth::Maybe, |value| Truth::from(ranges.contains(value)))
        };
        let named = |interface: Option<&str>, patterns: &[InterfacePattern]| {
            interface.map_or(Truth::Maybe, |name| patterns.iter().any(|p| p.matches(name)).into())
        };
        Some(match &self.kind {
            TestKind::TcpFlags { mask, value } => {
                if protocol != 6 || later {
                    return None;
                }
                packet.tcp_flags.map_or(Truth::Maybe, |flags| (flags & mask == *value).into())
            }
            TestKind::Column(column) => column_holds(*column, packet),
            TestKind::Icmp { is_v6, codes } => {
                if protocol != if *is_v6 { 58 } else { 1 } || later {
                    return None;
                }
                known(packet.icmp.map(|(kind, code)| u128::from(kind) << 8 | u128::from(code)), codes)
            }
            TestKind::Fragment(parts) => (parts & packet.fragment.bit() != 0).into(),
            TestKind::State(states) => {
                packet.state.map_or(Truth::Maybe, |state| (states & state.bit() != 0).into())
            }
            TestKind::Input(patterns) => named(packet.input, patterns),
            TestKind::Output(patterns) => named(packet.output, patterns),
            TestKind::Vlan(ranges) => known(packet.vlan.map(u128::from), ranges),
            TestKind::Dscp(ranges) => known(packet.dscp.map(u128::from), ranges),
            TestKind::Length(ranges) => known(packet.length.map(u128::from), ranges),
            TestKind::SourceMac { value, mask } => packet.source_mac.map_or(Truth::Maybe, |mac| {
                let mac = mac.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                ((mac ^ value) & mask == 0).into()
            }),
            TestKind::Address { is_destination, value, mask } => {
                let address = if *is_destination { packet.tuple.destination } else { packet.tuple.source };
                ((bits_of(address) ^ value) & mask == 0).into()
            }
            TestKind::EitherPort(ports) => {
                if !packet.has_ports {
                    return None;
                }
                let has = |port: u16| ports.contains(u128::from(port));
                (has(packet.tuple.source_port) || has(packet.tuple.destination_port)).into()
            }
            TestKind::AnyOf(all) => {
                all.iter().fold(Truth::No, |truth, conditions| truth.or(conditions.matches(packet)))
            }
            TestKind::Unknowable(_) => Truth::Maybe,
        })
    }
}

fn column_holds(column: FlagsColumn, packet: &Packet<'_>) -> Truth {
    let word = match packet.tuple.protocol {
        _ if packet.fragment == Fragment::Later => None,
        6 => match packet.tcp_flags {
            Some(flags) => Some(u16::from_be_bytes([flags, 0])),
            None => return if column.mask == 0 { Truth::Yes } else { Truth::Maybe },
        },
        1 | 58 => match packet.icmp {
            Some((kind, code)) => Some(u16::from_be_bytes([kind, code])),
            None => return if column.mask == 0 { Truth::Yes } else { Truth::Maybe },
        },
        _ => None,
    };
    column.contains(word).into()
}

/// Returns an address as a number.
pub(crate) fn bits_of(address: core::net::IpAddr) -> u128 {
    match address {
        core::net::IpAddr::V4(v4) => u128::from(v4.to_bits()),
        core::net::IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Names of TCP flags, from the lowest bit on.
pub(crate) const FLAG_NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

/// Returns flags in the notation of iptables.
pub(crate) fn flags_text(flags: u8) -> String {
    let set: Vec<&str> = (0..8).filter(|bit| flags >> bit & 1 == 1).map(|bit| FLAG_NAMES[bit]).collect();
    if set.is_empty() { String::from("NONE") } else { set.join(",") }
}

/// Returns a MAC address in the notation of iptables.
pub(crate) fn mac_text(address: u64) -> String {
    let bytes = address.to_be_bytes();
    let text: Vec<String> = bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    text.join(":")
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negated {
            f.write_str("not ")?;
        }
        let ranges = |f: &mut fmt::Formatter<'_>, ranges: &Ranges| {
            for (i, &(low, high)) in ranges.as_slice().iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                if low == high {
                    write!(f, "{comma}{low}")?;
                } else {
                    write!(f, "{comma}{low}-{high}")?;
                }
            }
            Ok(())
        };
        let patterns = |patterns: &[InterfacePattern]| {
            let names: Vec<String> = patterns.iter().map(|p| alloc::format!("{p}")).collect();
            names.join(",")
        };
        match &self.kind {
            TestKind::TcpFlags { mask, value } => {
                write!(f, "flags {} of {}", flags_text(*value), flags_text(*mask))
            }
            TestKind::Column(column) => write!(f, "flags 0x{:04x}/0x{:04x}", column.value, column.mask),
            TestKind::Icmp { is_v6, codes } => {
                f.write_str(if *is_v6 { "icmpv6 type " } else { "icmp type " })?;
                for (i, &(low, high)) in codes.as_slice().iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    let (first, last) = (low >> 8, high >> 8);
                    match (low & 0xff, high & 0xff) {
                        (0, 0xff) if first == last => write!(f, "{comma}{first}")?,
                        (0, 0xff) => write!(f, "{comma}{first}-{last}")?,
                        (a, b) if first == last && a == b => write!(f, "{comma}{first}/{a}")?,
                        (a, b) => write!(f, "{comma}{first}/{a}-{last}/{b}")?,
                    }
                }
                Ok(())
            }
            TestKind::Fragment(parts) => {
                let names = [(1, "whole"), (2, "first fragment"), (4, "later fragment")];
                let set: Vec<&str> =
                    names.iter().filter(|(bit, _)| parts & bit != 0).map(|(_, name)| *name).collect();
                f.write_str(&set.join(" or "))
            }
            TestKind::State(states) => {
                let set: Vec<&str> = ConnectionState::ALL
                    .iter()
                    .filter(|state| states & state.bit() != 0)
                    .map(|state| state.name())
                    .collect();
                write!(f, "state {}", set.join(","))
            }
            TestKind::Input(names) => write!(f, "in {}", patterns(names)),
            TestKind::Output(names) => write!(f, "out {}", patterns(names)),
            TestKind::Vlan(set) => f.write_str("vlan ").and_then(|()| ranges(f, set)),
            TestKind::Dscp(set) => f.write_str("dscp ").and_then(|()| ranges(f, set)),
            TestKind::Length(set) => f.write_str("length ").and_then(|()| ranges(f, set)),
            TestKind::SourceMac { value, mask } if *mask == (1 << 48) - 1 => {
                write!(f, "mac {}", mac_text(*value))
            }
            TestKind::SourceMac { value, mask } => {
                write!(f, "mac {}/{}", mac_text(*value), mac_text(*mask))
            }
            TestKind::Address { is_destination, value, mask } => {
                let side = if *is_destination { "destination" } else { "source" };
                write!(f, "{side} {value:x} under {mask:x}")
            }
            TestKind::EitherPort(set) => f.write_str("a port of ").and_then(|()| ranges(f, set)),
            TestKind::AnyOf(all) => {
                let texts: Vec<String> = all.iter().take(4).map(|one| alloc::format!("({one})")).collect();
                f.write_str(&texts.join(" or "))?;
                if all.len() > 4 { write!(f, " or {} more", all.len() - 4) } else { Ok(()) }
            }
            TestKind::Unknowable(text) => write!(f, "[{text}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::FiveTuple;

    #[test]
    fn a_condition_on_a_header_that_is_not_there_never_holds() {
        let syn = TestKind::TcpFlags { mask: 0x17, value: 2 };
        let tcp = Packet::new(FiveTuple::v4([1; 4], [2; 4], 5, 6, 6));
        let udp = Packet::new(FiveTuple::v4([1; 4], [2; 4], 5, 6, 17));
        for (flags, holds) in [(Some(2), Truth::Yes), (Some(0x12), Truth::No), (None, Truth::Maybe)] {
            let packet = Packet { tcp_flags: flags, ..tcp };
            assert_eq!(Test::from(syn.clone()).holds(&packet), holds);
            assert_eq!(Test::new(syn.clone(), true).holds(&packet), holds.negated());
            let later = packet.with_fragment(Fragment::Later);
            for is_negated in [false, true] {
                assert_eq!(Test::new(syn.clone(), is_negated).holds(&later), Truth::No);
                assert_eq!(Test::new(syn.clone(), is_negated).holds(&udp), Truth::No);
            }
        }
    }

    #[test]
    fn interfaces_match_by_name_or_beginning() {
        let all = |text: &str, name: &str| InterfacePattern::new(text, '+').matches(name);
        assert!(all("eth0", "eth0") && !all("eth0", "eth01") && all("eth+", "eth01") && all("+", "lo"));
        assert!(!all("eth+", "et"));
    }
}
