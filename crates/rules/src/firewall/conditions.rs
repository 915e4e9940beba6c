//! The conditions of a rule on a packet, field by field. A condition on a field that is not indexed
//! is a [`Test`], which is evaluated for packets whose five-tuple matches.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use flowloom_flow_key::protocol::{self, has_ports};

use super::packet::Packet;
use super::ranges::{Ranges, address_text};
use super::test::{Test, TestKind};

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
    /// The transport header of a later fragment is not missing, but read from the bytes of its
    /// payload, as `nf_tables` does.
    pub reads_later: bool,
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
            reads_later: false,
        }
    }
}

fn intersect(a: &mut Option<Ranges>, b: Option<&Ranges>) {
    match (&*a, b) {
        (_, None) => {}
        (None, Some(b)) => *a = Some(b.clone()),
        (Some(x), Some(y)) => *a = Some(x.intersection(y)),
    }
}

impl Conditions {
    /// Adds the condition that the protocol is one of these.
    pub fn ask_protocol(&mut self, protocols: &Ranges) {
        intersect(&mut self.protocols, Some(protocols));
    }

    /// Adds the condition that the sender, or the receiver, is one of these addresses of a family.
    pub fn ask_address(&mut self, is_destination: bool, is_v6: bool, addresses: &Ranges) {
        self.families = self.families.and(if is_v6 { Families::V6 } else { Families::V4 });
        let field = if is_destination { &mut self.destination } else { &mut self.source };
        intersect(field, Some(addresses));
    }

    /// Adds the condition that the sender's port, or the receiver's, is one of these.
    pub fn ask_port(&mut self, is_destination: bool, ports: &Ranges) {
        let field = if is_destination { &mut self.destination_ports } else { &mut self.source_ports };
        intersect(field, Some(ports));
    }

    /// Adds another condition. A condition that exists already is not added twice.
    pub fn ask(&mut self, test: impl Into<Test>) {
        let mut test = test.into();
        // Parts of datagrams are one set.
        if let Some(parts) = test.fragments()
            && let Some(at) = self.tests.iter().position(|other| other.fragments().is_some())
        {
            let other = self.tests.remove(at);
            test = TestKind::Fragment(parts & other.fragments().unwrap_or(parts)).into();
            if parts == other.fragments().unwrap_or(parts) {
                test = other;
            }
        }
        // So are types of ICMP.
        if let TestKind::Icmp { is_v6, codes } = &test.kind
            && !test.is_negated
            && let Some(other) = self.tests.iter_mut().find_map(|other| match &mut other.kind {
                TestKind::Icmp { is_v6: of_other, codes } if of_other == is_v6 && !other.is_negated => {
                    Some(codes)
                }
                _ => None,
            })
        {
            *other = other.intersection(codes);
            return;
        }
        if !self.tests.contains(&test) {
            self.tests.push(test);
        }
    }

    /// Returns conditions that hold if both hold.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.reads_later |= other.reads_later;
        all.families = all.families.and(other.families);
        intersect(&mut all.source, other.source.as_ref());
        intersect(&mut all.destination, other.destination.as_ref());
        intersect(&mut all.protocols, other.protocols.as_ref());
        intersect(&mut all.source_ports, other.source_ports.as_ref());
        intersect(&mut all.destination_ports, other.destination_ports.as_ref());
        for test in &other.tests {
            all.ask(test.clone());
        }
        all
    }

    /// Returns whether no packet can meet them, judging by the indexed fields, the parts of
    /// datagrams, and types of ICMP.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_nothing = |field: &Option<Ranges>| field.as_ref().is_some_and(Ranges::is_empty);
        self.families.is_none()
            || is_nothing(&self.source)
            || is_nothing(&self.destination)
            || is_nothing(&self.protocols)
            || is_nothing(&self.source_ports)
            || is_nothing(&self.destination_ports)
            || self.names_ports()
                && self.protocols.as_ref().is_some_and(|asked| {
                    !protocol::WITH_PORTS.iter().any(|&number| asked.contains(number.into()))
                })
            || self.tests.iter().any(|test| match &test.kind {
                TestKind::Icmp { codes, .. } => codes.is_empty() && !test.is_negated,
                _ => test.fragments() == Some(0),
            })
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
        let is_open = self.names_ports() && !packet.has_ports && !packet.has_later_bytes;
        self.tests_hold(packet).and(if is_open { Truth::Maybe } else { Truth::Yes })
    }

    /// Sets whether these conditions, and those inside, read the payload of later fragments.
    pub(crate) fn read_later(&mut self, reads_later: bool) {
        self.reads_later = reads_later;
        for test in &mut self.tests {
            if let TestKind::AnyOf(all) = &mut test.kind {
                for one in all {
                    one.read_later(reads_later);
                }
            }
        }
    }

    /// Returns whether they ask for a field of the transport header, or may.
    pub(crate) fn names_transport(&self) -> bool {
        self.names_ports() || self.tests.iter().any(Test::names_transport)
    }

    /// Returns whether the indexed fields match.
    #[must_use]
    pub(crate) fn fields_match(&self, packet: &Packet<'_>) -> bool {
        let tuple = &packet.tuple;
        let family = if tuple.source.is_ipv6() { self.families.v6 } else { self.families.v4 };
        let has = |field: &Option<Ranges>, value: u128| {
            field.as_ref().is_none_or(|ranges| ranges.contains(value))
        };
        // Ports of a later fragment that is read are bytes of its payload, if these are known.
        let is_read = self.reads_later && packet.fragment.is_later() && has_ports(tuple.protocol);
        let is_open = is_read && !packet.has_later_bytes;
        family
            && (packet.has_ports || is_read || !self.names_ports())
            && has(&self.protocols, u128::from(tuple.protocol))
            && has(&self.source, bits_of(tuple.source))
            && has(&self.destination, bits_of(tuple.destination))
            && (is_open
                || has(&self.source_ports, u128::from(tuple.source_port))
                    && has(&self.destination_ports, u128::from(tuple.destination_port)))
    }

    /// Returns whether the other conditions hold.
    #[must_use]
    pub(crate) fn tests_hold(&self, packet: &Packet<'_>) -> Truth {
        let mut truth = Truth::Yes;
        for test in &self.tests {
            truth = truth.and(test.holds_for(packet, self.reads_later));
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
        let prefixes = Ranges::new([(low, high)]).prefixes(bits);
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
    // The names that every format knows.
    match number {
        1 | 2 | 6 | 17 | 33 | 47 | 50 | 51 | 58 | 132 | 136 => protocol::name(number).map(String::from),
        89 => Some(String::from("ospf")),
        _ => None,
    }
    .unwrap_or_else(|| alloc::format!("{number}"))
}

impl fmt::Display for Conditions {
    /// Writes the conditions as text: `tcp 10.0.0.0/8 > any dport 80 state NEW`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.protocols {
            None => f.write_str("all")?,
            Some(set) if set.is_empty() => f.write_str("no protocol")?,
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
        // Conditions that contradict each other may have no family.
        let is_v6 = |set: &Ranges| {
            self.families == Families::V6 || set.hull().is_some_and(|(_, high)| high > u128::from(u32::MAX))
        };
        let side = |field: &Option<Ranges>, any: &str| {
            field.as_ref().map_or_else(|| String::from(any), |set| addresses_text(set, is_v6(set)))
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

/// Returns an address as a number.
pub(crate) fn bits_of(address: core::net::IpAddr) -> u128 {
    match address {
        core::net::IpAddr::V4(v4) => u128::from(v4.to_bits()),
        core::net::IpAddr::V6(v6) => v6.to_bits(),
    }
}
