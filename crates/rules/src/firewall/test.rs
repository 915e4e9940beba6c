//! Conditions of a rule on fields that are not indexed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::conditions::{Conditions, Truth, bits_of};
use super::contents::Contents;
use super::packet::{ConnectionState, Fragment, Packet};
use super::ranges::Ranges;
use crate::rule::FlagsColumn;

/// A number in the headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderField {
    /// VLAN; 0 means none.
    Vlan,
    /// Differentiated services code point.
    Dscp,
    /// Explicit congestion notification.
    Ecn,
    /// Size of the IP packet, in bytes.
    Length,
    /// Time to live, or hop limit.
    Ttl,
    /// The field of the fixed IPv6 header that names the next header. IPv4 packets have none.
    NextHeader,
}

impl HeaderField {
    /// Every field.
    pub const ALL: [Self; 6] =
        [Self::Vlan, Self::Dscp, Self::Ecn, Self::Length, Self::Ttl, Self::NextHeader];

    /// Returns its name in conditions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vlan => "vlan",
            Self::Dscp => "dscp",
            Self::Ecn => "ecn",
            Self::Length => "length",
            Self::Ttl => "ttl",
            Self::NextHeader => "next_header",
        }
    }

    /// Returns its largest value.
    #[must_use]
    pub const fn max(self) -> u128 {
        match self {
            Self::Vlan => 4095,
            Self::Dscp => 63,
            Self::Ecn => 3,
            Self::Length => u32::MAX as u128,
            Self::Ttl | Self::NextHeader => 255,
        }
    }

    /// Returns its value in a packet, if known.
    fn value(self, packet: &Packet<'_>) -> Option<u128> {
        match self {
            Self::Vlan => packet.vlan.map(u128::from),
            Self::Dscp => packet.dscp.map(u128::from),
            Self::Ecn => packet.ecn.map(u128::from),
            Self::Length => packet.length.map(u128::from),
            Self::Ttl => packet.ttl.map(u128::from),
            Self::NextHeader => packet.next_header.map(u128::from),
        }
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
    /// The part of a datagram, as [`Fragment::bit`](super::Fragment::bit)s.
    Fragment(u8),
    /// State of the connection, as [`ConnectionState::bit`]s.
    State(u8),
    /// The interface by which the packet entered has one of these names.
    Input(Vec<InterfacePattern>),
    /// The interface by which the packet leaves has one of these names.
    Output(Vec<InterfacePattern>),
    /// A number in the headers.
    Number(HeaderField, Ranges),
    /// The mark of the packet, or of its connection. The packet does not contain it.
    Mark {
        /// The connection's.
        is_connection: bool,
        /// Bits that are compared.
        mask: u32,
        /// Values under the mask.
        values: Ranges,
    },
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
    /// The bytes of the packet.
    Contents(Contents),
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
        self.holds_for(packet, false)
    }

    /// Returns whether it holds for rules that read the payload of later fragments, or for others.
    pub(super) fn holds_for(&self, packet: &Packet<'_>, reads_later: bool) -> Truth {
        match self.asks(packet, reads_later) {
            None => Truth::No,
            Some(truth) if self.is_negated => truth.negated(),
            Some(truth) => truth,
        }
    }

    /// Returns the bits of the parts of datagrams that it asks for; `None` if it asks for something
    /// else.
    pub(super) fn fragments(&self) -> Option<u8> {
        match self.kind {
            TestKind::Fragment(parts) if self.is_negated => Some(!parts & 0xf),
            TestKind::Fragment(parts) => Some(parts),
            _ => None,
        }
    }

    /// Returns whether it asks for a field of the transport header, or may.
    pub(crate) fn names_transport(&self) -> bool {
        match &self.kind {
            TestKind::TcpFlags { .. } | TestKind::Icmp { .. } | TestKind::EitherPort(_) => true,
            TestKind::Column(column) => column.mask != 0,
            TestKind::AnyOf(all) => all.iter().any(Conditions::names_transport),
            _ => false,
        }
    }

    /// Returns whether the test and its negation are both false of no packet of its families.
    pub(crate) fn is_complemented(&self) -> bool {
        use TestKind::{Address, Fragment, Input, Output, State};
        matches!(self.kind, Address { .. } | Fragment(_) | Input(_) | Output(_) | State(_))
    }

    /// Evaluates the condition without negation; `None` if the packet lacks the header.
    fn asks(&self, packet: &Packet<'_>, reads_later: bool) -> Option<Truth> {
        let is_read = packet.fragment.is_later() && reads_later;
        let later = packet.fragment.is_later() && !reads_later;
        // Bytes past the end of a later fragment meet no condition.
        let absent = || if is_read && packet.has_later_bytes { Truth::No } else { Truth::Maybe };
        let is_known = !is_read || packet.has_later_bytes;
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
                let flags = packet.tcp_flags.filter(|_| is_known);
                if flags.is_none() && absent() == Truth::No {
                    return None;
                }
                flags.map_or(Truth::Maybe, |flags| (flags & mask == *value).into())
            }
            TestKind::Column(column) => column_holds(*column, packet),
            TestKind::Icmp { is_v6, codes } => {
                if protocol != if *is_v6 { 58 } else { 1 } || later {
                    return None;
                }
                let icmp = packet.icmp.filter(|_| is_known);
                if icmp.is_none() && absent() == Truth::No {
                    return None;
                }
                known(icmp.map(|(kind, code)| u128::from(kind) << 8 | u128::from(code)), codes)
            }
            TestKind::Fragment(parts) => (parts & packet.fragment.bit() != 0).into(),
            TestKind::State(states) => {
                packet.state.map_or(Truth::Maybe, |state| (states & state.bit() != 0).into())
            }
            TestKind::Input(patterns) => named(packet.input, patterns),
            TestKind::Output(patterns) => named(packet.output, patterns),
            TestKind::Number(HeaderField::NextHeader, _) if packet.tuple.source.is_ipv4() => return None,
            TestKind::Number(field, ranges) => known(field.value(packet), ranges),
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
            TestKind::Contents(contents) => {
                let is_there = packet.fragment == Fragment::Whole || !contents.is_of_datagram();
                let Some(bytes) = packet.network.filter(|_| is_there) else { return Some(Truth::Maybe) };
                return contents.holds(bytes);
            }
            TestKind::Mark { .. } | TestKind::Unknowable(_) => Truth::Maybe,
        })
    }
}

fn column_holds(column: FlagsColumn, packet: &Packet<'_>) -> Truth {
    let word = match packet.tuple.protocol {
        _ if packet.fragment.is_later() => None,
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
                let names = [
                    (1, "whole"),
                    (2, "first fragment"),
                    (4, "later fragment"),
                    (8, "later fragment at byte 8"),
                ];
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
            TestKind::Number(field, set) => {
                write!(f, "{} ", field.name())?;
                ranges(f, set)
            }
            TestKind::Mark { is_connection, mask, values } => {
                f.write_str(if *is_connection { "[connmark " } else { "[mark " })?;
                for (i, &(low, high)) in values.as_slice().iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{low:#x}")?;
                    if low != high {
                        write!(f, "-{high:#x}")?;
                    }
                }
                if *mask != u32::MAX {
                    write!(f, "/{mask:#x}")?;
                }
                f.write_str("]")
            }
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
            TestKind::Contents(contents) => write!(f, "[{contents}]"),
            TestKind::Unknowable(text) => write!(f, "[{text}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::Fragment;
    use super::*;
    use flowloom_flow_key::FiveTuple;

    #[test]
    fn condition_on_an_absent_header_never_holds() {
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
