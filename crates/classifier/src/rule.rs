//! A rule: what it matches, and its priority and value.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use crate::key::{Key, Span};
pub use crate::rule_id::RuleId;

/// An invalid part of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// The prefix is longer than an address.
    PrefixTooLong {
        /// Requested length.
        length: u32,
        /// Bits of an address.
        length_max: u32,
    },
    /// The first port of a range is above its last.
    ReversedRange {
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
    /// The text is not a prefix of this family.
    NoPrefix {
        /// Bits of an address of the family: 32 or 128.
        bits: u32,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrefixTooLong { length, length_max } => {
                write!(f, "prefix length {length} is above {length_max}, the bits of an address")
            }
            Self::ReversedRange { low, high } => {
                write!(f, "port range {low} : {high} ends before it begins; write {high} : {low}")
            }
            Self::NoPrefix { bits: 32 } => {
                f.write_str("expected an IPv4 address or prefix such as 192.0.2.0/24")
            }
            Self::NoPrefix { .. } => {
                f.write_str("expected an IPv6 address or prefix such as 2001:db8::/32")
            }
        }
    }
}

impl core::error::Error for RuleError {}

/// An address prefix of `BITS` bits; bits below the prefix are zero.
///
/// # Examples
///
/// ```
/// use std::net::Ipv4Addr;
/// use flowloom_classifier::{PrefixV4, PrefixV6};
/// let office: PrefixV4 = "192.0.2.0/24".parse()?;
/// assert_eq!(office, PrefixV4::new(0xc000_0200, 24)?);
/// assert!(office.covers(Ipv4Addr::new(192, 0, 2, 7).into()));
/// assert_eq!("2001:db8::1".parse::<PrefixV6>()?.length(), 128);
/// # Ok::<(), flowloom_classifier::RuleError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix<const BITS: u32> {
    /// The lowest address, its high bits first. Words of 32 bits keep a rule small.
    words: [u32; 4],
    length: u8,
}

/// An IPv4 prefix.
pub type PrefixV4 = Prefix<32>;
/// An IPv6 prefix.
pub type PrefixV6 = Prefix<128>;

impl<const BITS: u32> Prefix<BITS> {
    /// Every address.
    pub const ANY: Self = Self { words: [0; 4], length: 0 };

    /// Returns the prefix with that length. Only the low `BITS` of `address` count, and host bits
    /// are cleared.
    ///
    /// # Errors
    ///
    /// Returns [`RuleError::PrefixTooLong`].
    pub fn new(address: u128, length: u32) -> Result<Self, RuleError> {
        if length > BITS {
            return Err(RuleError::PrefixTooLong { length, length_max: BITS });
        }
        let value = address & Self::mask(length);
        let words = [96, 64, 32, 0].map(|shift| (value >> shift) as u32);
        Ok(Self { words, length: length as u8 })
    }

    /// Returns the mask of a length: that many ones from the top of the address.
    fn mask(length: u32) -> u128 {
        let all = u128::MAX >> (128 - BITS);
        all & !all.checked_shr(length).unwrap_or(0)
    }

    /// Returns the lowest address.
    pub fn low(self) -> u128 {
        let [a, b, c, d] = self.words.map(u128::from);
        a << 96 | b << 64 | c << 32 | d
    }

    /// Returns the highest address.
    pub fn high(self) -> u128 {
        self.low() | (u128::MAX >> (128 - BITS)) & !Self::mask(self.length())
    }

    /// Returns the length in bits.
    pub fn length(self) -> u32 {
        u32::from(self.length)
    }

    /// Returns whether the prefix contains an address.
    pub fn contains(self, address: u128) -> bool {
        address & Self::mask(self.length()) == self.low()
    }

    /// Returns whether the prefix contains all of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.low())
    }
}

impl<const BITS: u32> fmt::Display for Prefix<BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if BITS == 32 {
            write!(f, "{}/{}", Ipv4Addr::from_bits(self.low() as u32), self.length)
        } else {
            write!(f, "{}/{}", Ipv6Addr::from_bits(self.low()), self.length)
        }
    }
}

impl From<Ipv4Addr> for PrefixV4 {
    /// Returns the prefix of one address.
    fn from(address: Ipv4Addr) -> Self {
        Self { words: [0, 0, 0, address.to_bits()], length: 32 }
    }
}

impl From<Ipv6Addr> for PrefixV6 {
    /// Returns the prefix of one address.
    fn from(address: Ipv6Addr) -> Self {
        Self { words: [96, 64, 32, 0].map(|shift| (address.to_bits() >> shift) as u32), length: 128 }
    }
}

impl FromStr for PrefixV4 {
    type Err = RuleError;

    /// Reads an address, optionally followed by a slash and a length.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        prefix_of(text, |address| address.parse().map(Ipv4Addr::to_bits).map(u128::from).ok())
    }
}

impl FromStr for PrefixV6 {
    type Err = RuleError;

    /// Reads an address, optionally followed by a slash and a length.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        prefix_of(text, |address| address.parse().map(Ipv6Addr::to_bits).ok())
    }
}

fn prefix_of<const BITS: u32>(
    text: &str,
    address: impl FnOnce(&str) -> Option<u128>,
) -> Result<Prefix<BITS>, RuleError> {
    let wrong = RuleError::NoPrefix { bits: BITS };
    let (first, length) = match text.split_once('/') {
        Some((first, length)) => (first, decimal(length).ok_or(wrong)?),
        None => (text, BITS),
    };
    Prefix::new(address(first).ok_or(wrong)?, length)
}

/// Reads decimal digits only: the standard library would accept a leading plus sign.
pub fn decimal<T: FromStr>(digits: &str) -> Option<T> {
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

/// A range of ports, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    low: u16,
    high: u16,
}

impl Default for PortRange {
    /// Returns [`PortRange::ANY`].
    fn default() -> Self {
        Self::ANY
    }
}

impl PortRange {
    /// Every port, and packets without ports.
    pub const ANY: Self = Self { low: 0, high: u16::MAX };

    /// Returns the range.
    ///
    /// # Errors
    ///
    /// Returns [`RuleError::ReversedRange`].
    pub fn new(low: u16, high: u16) -> Result<Self, RuleError> {
        if low > high { Err(RuleError::ReversedRange { low, high }) } else { Ok(Self { low, high }) }
    }

    /// Returns the range of one port.
    pub const fn exact(port: u16) -> Self {
        Self { low: port, high: port }
    }

    /// Returns the first port.
    pub const fn low(self) -> u16 {
        self.low
    }

    /// Returns the last port.
    pub const fn high(self) -> u16 {
        self.high
    }

    /// Returns whether the range contains a port.
    pub const fn contains(self, port: u16) -> bool {
        self.low <= port && port <= self.high
    }

    /// Returns whether the range contains all of `other`.
    pub const fn covers(self, other: Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {}", self.low, self.high)
    }
}

/// A protocol under a mask: it matches if the bits under the mask are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtocolMatch {
    value: u8,
    mask: u8,
}

impl ProtocolMatch {
    /// Every protocol.
    pub const ANY: Self = Self { value: 0, mask: 0 };

    /// Returns the match; bits of `value` outside the mask are cleared.
    pub const fn new(value: u8, mask: u8) -> Self {
        Self { value: value & mask, mask }
    }

    /// Returns the match of one protocol.
    pub const fn exact(protocol: u8) -> Self {
        Self { value: protocol, mask: 0xff }
    }

    /// Returns the required bits.
    pub const fn value(self) -> u8 {
        self.value
    }

    /// Returns the mask.
    pub const fn mask(self) -> u8 {
        self.mask
    }

    /// Returns whether a protocol matches.
    pub const fn contains(self, protocol: u8) -> bool {
        (protocol ^ self.value) & self.mask == 0
    }

    /// Returns whether this matches everything that `other` matches.
    pub const fn covers(self, other: Self) -> bool {
        self.mask & other.mask == self.mask && (other.value ^ self.value) & self.mask == 0
    }

    /// Returns the smallest interval that contains all matching protocols. It is exact if the mask
    /// is a prefix.
    pub const fn span(self) -> Span {
        Span { low: self.value as u32, high: (self.value | !self.mask) as u32 }
    }

    /// Returns whether [`ProtocolMatch::span`] is exact.
    pub const fn is_interval(self) -> bool {
        self.mask.leading_ones() == self.mask.count_ones()
    }
}

impl fmt::Display for ProtocolMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:02x}/0x{:02x}", self.value, self.mask)
    }
}

/// The addresses of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Every address of both families.
    #[default]
    Any,
    /// IPv4 packets only.
    V4 {
        /// Senders.
        source: PrefixV4,
        /// Receivers.
        destination: PrefixV4,
    },
    /// IPv6 packets only.
    V6 {
        /// Senders.
        source: PrefixV6,
        /// Receivers.
        destination: PrefixV6,
    },
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Its packets pass.
    Accept,
    /// Its packets are refused.
    Deny,
}

impl Action {
    /// Returns the action's name in TOML rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The last column of a ClassBench rule, as in its file. It is kept and reported, and takes part in
/// matching only in [`crate::RuleSet::first_match_with_flags`].
///
/// Published sets use its upper byte for the TCP flags (`0x1000/0x1000` is ACK, `0x0200/0x1200` SYN
/// without ACK), and in ICMP rules for the type (`0x0800/0xff00` is an echo request), with the code
/// below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagsColumn {
    /// Required bits.
    pub value: u16,
    /// Bits that are compared.
    pub mask: u16,
}

impl FlagsColumn {
    /// Returns whether a packet matches. `word` has its TCP flags in the upper byte, or its ICMP
    /// type and code; a packet without either matches if no bit is compared.
    pub const fn contains(self, word: Option<u16>) -> bool {
        match word {
            Some(word) => (word ^ self.value) & self.mask == 0,
            None => self.mask == 0,
        }
    }
}

/// A rule.
///
/// Fields may be added in any version: a literal ends with `..Rule::ANY` or `..Rule::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{KeyV4, PortRange, PrefixV4, ProtocolMatch, Rule};
/// let mut web = Rule::v4(PrefixV4::ANY, "192.0.2.0/24".parse()?);
/// web.destination_ports = PortRange::exact(443);
/// web.protocol = ProtocolMatch::exact(6);
/// assert!(web.matches(&KeyV4::new(1, 0xc000_0207, (1024, 443), 6)));
/// assert!(!web.matches(&KeyV4::new(1, 0xc000_0207, (1024, 80), 6)));
/// # Ok::<(), flowloom_classifier::RuleError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Senders and receivers.
    pub addresses: Addresses,
    /// Senders' ports.
    pub source_ports: PortRange,
    /// Receivers' ports.
    pub destination_ports: PortRange,
    /// IP protocol.
    pub protocol: ProtocolMatch,
    /// Rules with higher priority come first; rules with equal priority keep their order.
    pub priority: i32,
    /// A value of the caller: an action, a class, a line.
    pub value: u32,
    /// The flags column of a ClassBench file.
    pub flags: Option<FlagsColumn>,
    /// The action for its packets, if the rule's file states one; it takes no part in matching.
    pub action: Option<Action>,
    /// A match is only a candidate, because the rule has conditions beyond its five fields. A
    /// classifier keeps later rules even if this one covers them, and
    /// [`crate::Classifier::candidates`] continues with them.
    pub is_conditional: bool,
    /// The only such condition is that the packet has ports: the rule asks for ports, and its box
    /// contains packets without ports, whose key has zeros in their place. A classifier may leave
    /// out later rules of this kind where this one covers them.
    pub is_certain_with_ports: bool,
}

impl Rule {
    /// Matches every packet.
    pub const ANY: Self = Self {
        addresses: Addresses::Any,
        source_ports: PortRange::ANY,
        destination_ports: PortRange::ANY,
        protocol: ProtocolMatch::ANY,
        priority: 0,
        value: 0,
        flags: None,
        action: None,
        is_conditional: false,
        is_certain_with_ports: false,
    };

    /// Returns a rule for IPv4 addresses only.
    pub const fn v4(source: PrefixV4, destination: PrefixV4) -> Self {
        Self { addresses: Addresses::V4 { source, destination }, ..Self::ANY }
    }

    /// Returns a rule for IPv6 addresses only.
    pub const fn v6(source: PrefixV6, destination: PrefixV6) -> Self {
        Self { addresses: Addresses::V6 { source, destination }, ..Self::ANY }
    }

    /// Returns the bounds of both addresses in a key's family, and the lengths of the prefixes;
    /// `None` if the rule belongs to the other family.
    pub(crate) fn address_bounds<K: Key>(&self) -> Option<[(u128, u128, u32); 2]> {
        match (self.addresses, K::IS_V6) {
            (Addresses::Any, _) => Some([(0, u128::MAX >> (128 - K::ADDRESS_BITS), 0); 2]),
            (Addresses::V4 { source, destination }, false) => {
                Some([source, destination].map(|prefix| (prefix.low(), prefix.high(), prefix.length())))
            }
            (Addresses::V6 { source, destination }, true) => {
                Some([source, destination].map(|prefix| (prefix.low(), prefix.high(), prefix.length())))
            }
            _ => None,
        }
    }

    /// Returns the rule's box in the dimensions of a key; `None` if the rule belongs to the other
    /// family. For a protocol mask that is not a prefix, the box is too large.
    pub fn spans<K: Key>(&self) -> Option<K::Spans> {
        let bounds = self.address_bounds::<K>()?;
        let mut spans = K::Spans::default();
        let n = K::ADDRESS_DIMENSIONS;
        for (address, (low, high, _)) in bounds.into_iter().enumerate() {
            for part in 0..n {
                let shift = 32 * (n - 1 - part);
                spans.as_mut()[address * n + part] =
                    Span { low: (low >> shift) as u32, high: (high >> shift) as u32 };
            }
        }
        for (i, ports) in [self.source_ports, self.destination_ports].into_iter().enumerate() {
            spans.as_mut()[2 * n + i] = Span { low: u32::from(ports.low), high: u32::from(ports.high) };
        }
        spans.as_mut()[2 * n + 2] = self.protocol.span();
        Some(spans)
    }

    /// Returns whether a packet matches. This is the definition that every classifier must satisfy.
    pub fn matches<K: Key>(&self, key: &K) -> bool {
        let Some(spans) = self.spans::<K>() else { return false };
        spans.as_ref().iter().enumerate().all(|(d, span)| span.contains(key.dimension(d)))
            && self.protocol.contains(key.protocol())
    }

    /// Returns whether every packet that matches `other` matches this rule.
    pub fn covers(&self, other: &Self) -> bool {
        let addresses = match (self.addresses, other.addresses) {
            (Addresses::Any, _) => true,
            (Addresses::V4 { source, destination }, Addresses::V4 { source: s, destination: d }) => {
                source.covers(s) && destination.covers(d)
            }
            (Addresses::V6 { source, destination }, Addresses::V6 { source: s, destination: d }) => {
                source.covers(s) && destination.covers(d)
            }
            _ => false,
        };
        addresses
            && self.source_ports.covers(other.source_ports)
            && self.destination_ports.covers(other.destination_ports)
            && self.protocol.covers(other.protocol)
    }
}

impl fmt::Display for Rule {
    /// Writes the rule as a line of a ClassBench file, without the `@` and the flags.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses {
            Addresses::Any => f.write_str("any any")?,
            Addresses::V4 { source, destination } => write!(f, "{source} {destination}")?,
            Addresses::V6 { source, destination } => write!(f, "{source} {destination}")?,
        }
        write!(f, " {} {} {}", self.source_ports, self.destination_ports, self.protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyV4, KeyV6};

    #[test]
    fn a_default_matches_everything() {
        assert_eq!(Rule::default(), Rule::ANY);
        let port = Rule { source_ports: PortRange::exact(7), ..Rule::default() };
        assert!(port.matches(&KeyV4::new(1, 2, (7, 9), 6)) && !port.matches(&KeyV4::new(1, 2, (8, 9), 6)));
    }

    #[test]
    fn prefix_reads_back_as_written() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.7/32"] {
            assert_eq!(text.parse::<PrefixV4>().map(|prefix| prefix.to_string()).as_deref(), Ok(text));
            assert_eq!(text.parse::<PrefixV6>(), Err(RuleError::NoPrefix { bits: 128 }));
        }
        for text in ["::/0", "2001:db8::/32", "::1/128"] {
            assert_eq!(text.parse::<PrefixV6>().map(|prefix| prefix.to_string()).as_deref(), Ok(text));
            assert_eq!(text.parse::<PrefixV4>(), Err(RuleError::NoPrefix { bits: 32 }));
        }
        assert_eq!("10.1.2.3/8".parse(), PrefixV4::new(0x0a00_0000, 8));
        assert_eq!("192.0.2.7".parse(), Ok(PrefixV4::from(Ipv4Addr::new(192, 0, 2, 7))));
        assert_eq!("::1".parse(), Ok(PrefixV6::from(Ipv6Addr::LOCALHOST)));
        let too_long = RuleError::PrefixTooLong { length: 33, length_max: 32 };
        assert_eq!("10.0.0.0/33".parse::<PrefixV4>(), Err(too_long));
        for text in
            ["", "/8", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0/8", "10.0.0.0/8/8", " 10.0.0.0"]
        {
            assert_eq!(text.parse::<PrefixV4>(), Err(RuleError::NoPrefix { bits: 32 }), "{text}");
        }
    }

    #[test]
    fn host_bits_are_cleared_and_length_zero_matches_everything() {
        let prefix = PrefixV4::new(0xc0a8_0107, 24).unwrap();
        assert_eq!(prefix.to_string(), "192.168.1.0/24");
        assert_eq!((prefix.low(), prefix.high()), (0xc0a8_0100, 0xc0a8_01ff));
        assert_eq!(PrefixV4::new(7, 0).unwrap(), PrefixV4::ANY);
        assert_eq!(PrefixV6::new(7, 0).unwrap().high(), u128::MAX);
        assert_eq!(PrefixV6::new(7, 128).unwrap().high(), 7);
        assert!(PrefixV4::new(0, 33).is_err() && PortRange::new(2, 1).is_err());
    }

    #[test]
    fn protocol_mask_with_holes_widens_to_an_interval() {
        let odd = ProtocolMatch::new(1, 1);
        assert!(odd.contains(7) && !odd.contains(6) && !odd.is_interval());
        assert_eq!(odd.span(), Span { low: 1, high: 255 });
        assert!(ProtocolMatch::exact(6).is_interval() && ProtocolMatch::ANY.is_interval());
        let rule = Rule { protocol: odd, ..Rule::ANY };
        assert!(rule.matches(&KeyV4::new(0, 0, (0, 0), 7)) && !rule.matches(&KeyV4::new(0, 0, (0, 0), 6)));
    }

    #[test]
    fn ipv6_prefix_is_a_box_of_four_words() {
        let rule = Rule::v6(PrefixV6::new(0x2001_0db8 << 96 | 5 << 64, 48).unwrap(), PrefixV6::ANY);
        let spans = rule.spans::<KeyV6>().unwrap();
        assert_eq!(spans[0], Span { low: 0x2001_0db8, high: 0x2001_0db8 });
        assert_eq!(spans[1], Span { low: 0, high: 0xffff });
        assert_eq!(spans[2], Span { low: 0, high: u32::MAX });
        assert!(rule.spans::<KeyV4>().is_none());
    }
}
