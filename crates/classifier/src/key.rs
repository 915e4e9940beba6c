//! The key of classification: the five fields of a packet, packed into the words that a lookup
//! cuts.

use core::fmt;

use flowloom_flow_key::FiveTuple;

use crate::rule_id::RuleId;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::KeyV4 {}
    impl Sealed for super::KeyV6 {}
}

/// An interval of one dimension, including both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Least value.
    pub low: u32,
    /// Greatest value.
    pub high: u32,
}

impl Span {
    /// Returns whether a value lies in it.
    #[inline]
    pub fn contains(self, value: u32) -> bool {
        self.low <= value && value <= self.high
    }
}

/// A key of one address family. Only [`KeyV4`] and [`KeyV6`] are keys.
///
/// A key consists of a few 64-bit *words*. The fields are *dimensions* of at most 32 bits within
/// these words; an IPv6 address is four dimensions.
pub trait Key: sealed::Sealed + Copy + Eq + Default + fmt::Debug + Send + Sync + 'static {
    /// A box: one [`Span`] per dimension.
    type Spans: Copy + Eq + AsRef<[Span]> + AsMut<[Span]> + fmt::Debug + Default + Send + Sync;

    /// 64-bit words in a key.
    const WORDS: usize;
    /// Dimensions of 32 bits that one address takes.
    const ADDRESS_DIMENSIONS: usize;
    /// All dimensions: two addresses, two ports, the protocol.
    const DIMENSIONS: usize = 2 * Self::ADDRESS_DIMENSIONS + 3;
    /// Bits of an address.
    const ADDRESS_BITS: u32 = 32 * Self::ADDRESS_DIMENSIONS as u32;
    /// Whether this is the IPv6 key.
    const IS_V6: bool = Self::ADDRESS_DIMENSIONS == 4;

    /// Returns a word; `index` is below [`Key::WORDS`].
    fn word(&self, index: usize) -> u64;

    /// Returns the key with these fields; only the low [`Key::ADDRESS_BITS`] of an address count.
    fn from_fields(source: u128, destination: u128, ports: (u16, u16), protocol: u8) -> Self;

    /// Returns the word that contains a dimension, and the lowest bit of the dimension in it.
    #[inline]
    fn place(dimension: usize) -> (usize, u32) {
        let addresses = 2 * Self::ADDRESS_DIMENSIONS;
        if dimension < addresses {
            (dimension / 2, if dimension.is_multiple_of(2) { 32 } else { 0 })
        } else {
            (Self::WORDS - 1, [16, 0, 32][dimension - addresses])
        }
    }

    /// Returns the number of bits of a dimension: 32 for a part of an address, 16 for a port, 8 for
    /// the protocol.
    #[inline]
    fn bits(dimension: usize) -> u32 {
        let addresses = 2 * Self::ADDRESS_DIMENSIONS;
        if dimension < addresses { 32 } else { [16, 16, 8][dimension - addresses] }
    }

    /// Returns the value in a dimension.
    #[inline]
    fn dimension(&self, dimension: usize) -> u32 {
        let (word, shift) = Self::place(dimension);
        ((self.word(word) >> shift) & ((1 << Self::bits(dimension)) - 1)) as u32
    }

    /// Returns the ports, with the source port in the upper half.
    #[inline]
    fn ports(&self) -> u32 {
        self.word(Self::WORDS - 1) as u32
    }

    /// Returns the protocol number.
    #[inline]
    fn protocol(&self) -> u8 {
        (self.word(Self::WORDS - 1) >> 32) as u8
    }

    /// Returns the key as a five-tuple, for printing.
    fn tuple(&self) -> FiveTuple;
}

/// Packs ports and protocol: source port in bits 31..16, destination port below, protocol in bits
/// 39..32.
const fn rest(ports: (u16, u16), protocol: u8) -> u64 {
    (protocol as u64) << 32 | (ports.0 as u64) << 16 | ports.1 as u64
}

/// The fields of an IPv4 packet.
///
/// Protocols without ports, and fragments without the transport header, have zero ports. Rules for
/// any port, for port 0, and for a range from 0 match them.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{Key, KeyV4};
/// let key = KeyV4::new(0xc000_0201, 0xc000_0202, (1024, 80), 6);
/// assert_eq!(key.tuple().to_string(), "192.0.2.1:1024 > 192.0.2.2:80 proto 6");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct KeyV4 {
    words: [u64; 2],
}

impl KeyV4 {
    /// Returns the key of these fields; ports are (source, destination).
    #[inline]
    pub const fn new(source: u32, destination: u32, ports: (u16, u16), protocol: u8) -> Self {
        Self { words: [(source as u64) << 32 | destination as u64, rest(ports, protocol)] }
    }
}

impl Key for KeyV4 {
    type Spans = [Span; 5];
    const WORDS: usize = 2;
    const ADDRESS_DIMENSIONS: usize = 1;

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words[index]
    }

    fn from_fields(source: u128, destination: u128, ports: (u16, u16), protocol: u8) -> Self {
        Self::new(source as u32, destination as u32, ports, protocol)
    }

    fn tuple(&self) -> FiveTuple {
        let ports = self.ports();
        FiveTuple::v4(
            self.dimension(0).to_be_bytes(),
            self.dimension(1).to_be_bytes(),
            (ports >> 16) as u16,
            ports as u16,
            self.protocol(),
        )
    }
}

/// The fields of an IPv6 packet. See [`KeyV4`] for packets without ports.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{Key, KeyV6};
/// let key = KeyV6::new(1, 2, (1024, 80), 17);
/// assert_eq!(key.tuple().to_string(), "[::1]:1024 > [::2]:80 proto 17");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct KeyV6 {
    words: [u64; 5],
}

impl KeyV6 {
    /// Returns the key of these fields; ports are (source, destination).
    #[inline]
    pub const fn new(source: u128, destination: u128, ports: (u16, u16), protocol: u8) -> Self {
        Self {
            words: [
                (source >> 64) as u64,
                source as u64,
                (destination >> 64) as u64,
                destination as u64,
                rest(ports, protocol),
            ],
        }
    }
}

impl Key for KeyV6 {
    type Spans = [Span; 11];
    const WORDS: usize = 5;
    const ADDRESS_DIMENSIONS: usize = 4;

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words[index]
    }

    fn from_fields(source: u128, destination: u128, ports: (u16, u16), protocol: u8) -> Self {
        Self::new(source, destination, ports, protocol)
    }

    fn tuple(&self) -> FiveTuple {
        let ports = self.ports();
        let address = |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        FiveTuple::v6(
            address(self.words[0], self.words[1]),
            address(self.words[2], self.words[3]),
            (ports >> 16) as u16,
            ports as u16,
            self.protocol(),
        )
    }
}

impl fmt::Display for KeyV4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tuple().fmt(f)
    }
}

impl fmt::Display for KeyV6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tuple().fmt(f)
    }
}

/// A key of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnyKey {
    /// IPv4.
    V4(KeyV4),
    /// IPv6.
    V6(KeyV6),
}

impl From<KeyV4> for AnyKey {
    fn from(key: KeyV4) -> Self {
        Self::V4(key)
    }
}

impl From<KeyV6> for AnyKey {
    fn from(key: KeyV6) -> Self {
        Self::V6(key)
    }
}

impl From<&FiveTuple> for AnyKey {
    /// Protocols without ports have none in the key, including ICMP, whose tuple contains an
    /// identifier there. A tuple of two families cannot come from a packet; its IPv4 side becomes
    /// an IPv4-mapped address.
    fn from(tuple: &FiveTuple) -> Self {
        use core::net::IpAddr;
        let ports = if flowloom_flow_key::protocol::has_ports(tuple.protocol) {
            (tuple.source_port, tuple.destination_port)
        } else {
            (0, 0)
        };
        let wide = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        match (tuple.source, tuple.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Self::V4(KeyV4::new(source.to_bits(), destination.to_bits(), ports, tuple.protocol))
            }
            (source, destination) => {
                Self::V6(KeyV6::new(wide(source), wide(destination), ports, tuple.protocol))
            }
        }
    }
}

/// The result of a lookup: the winning rule, or none.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{Match, RuleId};
/// assert_eq!(Match::from(RuleId(7)).rule(), Some(RuleId(7)));
/// assert_eq!(Match::NONE.rule(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Match(pub(crate) u32);

impl Match {
    /// No rule matches. It is greater than every match.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns the rule.
    #[inline]
    pub const fn rule(self) -> Option<RuleId> {
        if self.0 == u32::MAX { None } else { Some(RuleId(self.0)) }
    }
}

impl Default for Match {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<RuleId> for Match {
    fn from(id: RuleId) -> Self {
        Self(id.0)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule() {
            Some(RuleId(id)) => write!(f, "Match({id})"),
            None => f.write_str("Match::NONE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_is_read_from_its_word() {
        let key = KeyV4::new(0x0102_0304, 0x0506_0708, (0x090a, 0x0b0c), 0x0d);
        let fields: [u32; 5] = core::array::from_fn(|d| key.dimension(d));
        assert_eq!(fields, [0x0102_0304, 0x0506_0708, 0x090a, 0x0b0c, 0x0d]);
        let key = KeyV6::new(1 << 96 | 2 << 64 | 3 << 32 | 4, 5 << 96 | 6 << 64 | 7 << 32 | 8, (9, 10), 11);
        let fields: [u32; 11] = core::array::from_fn(|d| key.dimension(d));
        assert_eq!(fields, core::array::from_fn(|d| d as u32 + 1));
    }

    #[test]
    fn a_key_is_shown_as_its_tuple() {
        let four = FiveTuple::v4([10, 0, 0, 9], [10, 0, 0, 2], 53, 4096, 17);
        let six = FiveTuple::v6([0xfe; 16], [1; 16], 7, 8, 6);
        for tuple in [four, six] {
            let shown = match AnyKey::from(&tuple) {
                AnyKey::V4(key) => key.to_string(),
                AnyKey::V6(key) => key.to_string(),
            };
            assert!(shown == tuple.to_string() && shown.contains(" > "), "{shown}");
        }
    }

    #[test]
    fn tuple_converts_to_a_key_and_back() {
        for tuple in [
            FiveTuple::v4([10, 0, 0, 9], [10, 0, 0, 2], 53, 4096, 17),
            FiveTuple::v6([0xfe; 16], [1; 16], 7, 8, 6),
        ] {
            let back = match AnyKey::from(&tuple) {
                AnyKey::V4(key) => key.tuple(),
                AnyKey::V6(key) => key.tuple(),
            };
            assert_eq!(back, tuple);
        }
    }
}
