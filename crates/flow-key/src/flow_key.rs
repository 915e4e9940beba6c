//! The key of both directions of a flow.
//!
//! ```text
//!  word   bits 63 … 32                  31 … 0
//!   0     IPv4: low address             high address      IPv6: low address, first half
//!   1     IPv4: 0                                         IPv6: low address, second half
//!   2     IPv4: 0                                         IPv6: high address, first half
//!   3     IPv4: 0                                         IPv6: high address, second half
//!   4     low port (16) high port (16)  protocol (8) asker (1) family (7) message (16)
//!   5     zone                          pass
//! ```
//!
//! *Low* and *high* order the two endpoints by (address, port), so the key does not depend on which
//! endpoint sends. Forty-eight bytes hold either family: one table serves both, and the key, the
//! table's own words and a small state share one cache line.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address family of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The direction of a packet, relative to its flow's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the low endpoint to the high one.
    LowToHigh = 0,
    /// From the high endpoint to the low one.
    HighToLow = 1,
}

impl Direction {
    /// Returns the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::LowToHigh => Self::HighToLow,
            Self::HighToLow => Self::LowToHigh,
        }
    }

    /// Returns 0 or 1, for arrays of two.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

const FAMILY_V4: u64 = 4 << 16;
const FAMILY_V6: u64 = 6 << 16;
const FAMILY: u64 = 0x7F << 16;
/// The bit of word 4 that is set if the high endpoint asks, and the whole message below it.
const ASKER: u64 = 1 << 23;
const MESSAGE: u64 = ASKER | 0xFFFF;

/// The identity of a flow: canonical five-tuple, zone and pass.
///
/// The *zone* separates flows that share a five-tuple: VLAN ids, a tunnel id, a tenant. The *pass*
/// separates the rounds of a looped capture, so that a second round creates new flows instead of
/// finding the old ones. It is zero everywhere else. The *message* and its *asker* separate the
/// messages of ICMP, which has no ports; they are zero for other protocols.
///
/// Equality and order compare six words. The order is total and stable, but between IPv6 and IPv4
/// it is not the numeric order of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(C)]
pub struct FlowKey {
    words: [u64; 6],
}

const _: () = assert!(size_of::<FlowKey>() == 48, "a key, 16 bytes of table words: one cache line");

impl FlowKey {
    /// Returns the key of an IPv4 packet and the packet's direction.
    ///
    /// Addresses are in host order (`10.0.0.1` is `0x0A00_0001`).
    #[inline]
    pub fn from_v4(
        source: u32,
        destination: u32,
        source_port: u16,
        destination_port: u16,
        protocol: u8,
    ) -> (Self, Direction) {
        let addresses = u64::from(source) << 32 | u64::from(destination);
        let ports = u32::from(source_port) << 16 | u32::from(destination_port);
        // The lower end is random from packet to packet, so a branch would often be mispredicted.
        // Both results are computed instead. Ports decide if the addresses are equal, so each
        // endpoint forms one number.
        let both = |addresses: u64, ports: u32| u128::from(addresses) << 64 | u128::from(ports);
        let (turned_addresses, turned_ports) = (addresses.rotate_left(32), ports.rotate_left(16));
        let swap = both(addresses, ports) > both(turned_addresses, turned_ports);
        let addresses = if swap { turned_addresses } else { addresses };
        let ports = if swap { turned_ports } else { ports };
        let words = [addresses, 0, 0, 0, u64::from(ports) << 32 | u64::from(protocol) << 24 | FAMILY_V4, 0];
        (Self { words }, if swap { Direction::HighToLow } else { Direction::LowToHigh })
    }

    /// Returns the key of an IPv6 packet and the packet's direction.
    #[inline]
    pub fn from_v6(
        source: u128,
        destination: u128,
        source_port: u16,
        destination_port: u16,
        protocol: u8,
    ) -> (Self, Direction) {
        let swap = (source, source_port) > (destination, destination_port);
        let (low, low_port, high, high_port) = if swap {
            (destination, destination_port, source, source_port)
        } else {
            (source, source_port, destination, destination_port)
        };
        let words = [
            (low >> 64) as u64,
            low as u64,
            (high >> 64) as u64,
            high as u64,
            u64::from(low_port) << 48 | u64::from(high_port) << 32 | u64::from(protocol) << 24 | FAMILY_V6,
            0,
        ];
        (Self { words }, if swap { Direction::HighToLow } else { Direction::LowToHigh })
    }

    /// Returns the same key in a zone (0 means none).
    #[inline]
    #[must_use]
    pub fn with_zone(mut self, zone: u32) -> Self {
        self.words[5] = u64::from(zone) << 32 | (self.words[5] & 0xFFFF_FFFF);
        self
    }

    /// Returns the same key in a pass over a looped capture (0 is the first).
    #[inline]
    #[must_use]
    pub fn with_pass(mut self, pass: u32) -> Self {
        self.words[5] = (self.words[5] & !0xFFFF_FFFF) | u64::from(pass);
        self
    }

    /// Returns the same key for an ICMP message of this kind (0 means no ICMP message), which
    /// travels in this direction or answers one that does. The decoder chooses the number: see
    /// `flowloom_packet::icmp`.
    #[inline]
    #[must_use]
    pub fn with_message(mut self, message: u16, asked: Direction) -> Self {
        self.words[4] = (self.words[4] & !MESSAGE) | u64::from(message) | u64::from(asked as u8) << 23;
        self
    }

    /// Returns the kind of ICMP message, or 0 for none.
    pub fn message(&self) -> u16 {
        self.words[4] as u16
    }

    /// Returns the direction of ICMP messages that are no answers; that from low to high for other
    /// protocols.
    pub fn query_direction(&self) -> Direction {
        if self.words[4] & ASKER == 0 { Direction::LowToHigh } else { Direction::HighToLow }
    }

    /// Returns the zone, or 0 for none.
    pub fn zone(&self) -> u32 {
        (self.words[5] >> 32) as u32
    }

    /// Returns the pass over a looped capture, 0 for the first.
    pub fn pass(&self) -> u32 {
        self.words[5] as u32
    }

    /// Returns the IP protocol number.
    #[inline]
    pub fn protocol(&self) -> u8 {
        (self.words[4] >> 24) as u8
    }

    /// Returns the address family.
    #[inline]
    pub fn family(&self) -> IpFamily {
        if self.words[4] & FAMILY == FAMILY_V6 { IpFamily::V6 } else { IpFamily::V4 }
    }

    /// Returns the lower endpoint's address.
    pub fn low_address(&self) -> IpAddr {
        match self.family() {
            IpFamily::V4 => IpAddr::V4(Ipv4Addr::from_bits((self.words[0] >> 32) as u32)),
            IpFamily::V6 => IpAddr::V6(v6(self.words[0], self.words[1])),
        }
    }

    /// Returns the higher endpoint's address.
    pub fn high_address(&self) -> IpAddr {
        match self.family() {
            IpFamily::V4 => IpAddr::V4(Ipv4Addr::from_bits(self.words[0] as u32)),
            IpFamily::V6 => IpAddr::V6(v6(self.words[2], self.words[3])),
        }
    }

    /// Returns the lower endpoint's port.
    pub fn low_port(&self) -> u16 {
        (self.words[4] >> 48) as u16
    }

    /// Returns the higher endpoint's port.
    pub fn high_port(&self) -> u16 {
        (self.words[4] >> 32) as u16
    }

    /// Returns the six words of the layout above, for hashing and serialising.
    #[inline]
    pub fn words(&self) -> &[u64; 6] {
        &self.words
    }

    /// Returns the key with these [`words`](Self::words). Other words form a key that no packet
    /// has.
    ///
    /// ```
    /// use flowloom_flow_key::FlowKey;
    ///
    /// let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 50_000, 53, 17);
    /// assert_eq!(FlowKey::from_words(*key.words()), key);
    /// ```
    #[inline]
    #[must_use]
    pub fn from_words(words: [u64; 6]) -> Self {
        Self { words }
    }
}

impl core::hash::Hash for FlowKey {
    /// Hashes the words that the family uses: two for IPv4, five for IPv6, and a sixth if there is
    /// a zone or a pass.
    #[inline]
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        let [first, second, third, fourth, ports, apart] = self.words;
        state.write_u64(first);
        state.write_u64(ports);
        // IPv4 addresses have zeros here, unless the key was created from other words.
        if second | third | fourth != 0 {
            state.write_u64(second);
            state.write_u64(third);
            state.write_u64(fourth);
        }
        if apart != 0 {
            state.write_u64(apart);
        }
    }
}

fn v6(first: u64, second: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(first) << 64 | u128::from(second))
}

impl core::fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::fmt::Display for FlowKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let tuple = self.tuple(Direction::LowToHigh);
        write!(
            f,
            "{} <> {} proto {}",
            core::net::SocketAddr::new(tuple.source, tuple.source_port),
            core::net::SocketAddr::new(tuple.destination, tuple.destination_port),
            tuple.protocol
        )?;
        if self.message() != 0 {
            let from = if self.query_direction() == Direction::LowToHigh { "low" } else { "high" };
            write!(f, " message {:#06x} from {from}", self.message())?;
        }
        if self.zone() != 0 {
            write!(f, " zone {:#x}", self.zone())?;
        }
        if self.pass() != 0 {
            write!(f, " pass {}", self.pass())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_share_one_key() {
        let (there, way) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 1, 2, 6);
        let (back, other) = FlowKey::from_v4(0x0A00_0002, 0x0A00_0001, 2, 1, 6);
        assert_eq!(there, back);
        assert_eq!(way.reversed(), other);
        let (there, way) = FlowKey::from_v6(9, 3, 80, 1000, 6);
        let (back, other) = FlowKey::from_v6(3, 9, 1000, 80, 6);
        assert_eq!(there, back);
        assert_eq!(way.reversed(), other);
    }

    #[test]
    fn lower_endpoint_has_the_lower_address_for_any_ports() {
        for (low_port, high_port) in [(5, 9), (9, 5), (7, 7)] {
            let (key, way) = FlowKey::from_v4(1, 2, low_port, high_port, 6);
            assert_eq!(FlowKey::from_v4(2, 1, high_port, low_port, 6), (key, way.reversed()));
            assert_eq!((key.low_address().to_string(), way.index()), ("0.0.0.1".to_owned(), 0));
            let (key, way) = FlowKey::from_v6(1 << 64, 2 << 64 | 3, low_port, high_port, 6);
            assert_eq!(
                FlowKey::from_v6(2 << 64 | 3, 1 << 64, high_port, low_port, 6),
                (key, way.reversed())
            );
            assert_eq!(
                (key.low_address().to_string(), way.reversed().index()),
                ("0:0:0:1::".to_owned(), 1)
            );
        }
        // A flow with equal ends has the direction low to high.
        assert_eq!(FlowKey::from_v4(7, 7, 9, 9, 17).1, Direction::LowToHigh);
        assert_eq!(FlowKey::from_v6(7, 7, 9, 9, 17).1, Direction::LowToHigh);
    }

    #[test]
    fn key_is_built_from_its_words_and_prints_its_endpoints() {
        let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 50_000, 53, 17);
        assert_eq!(FlowKey::from_words(*key.words()), key);
        assert_eq!(key.to_string(), "10.0.0.1:50000 <> 10.0.0.2:53 proto 17");
        let apart = key.with_zone(0x1F).with_pass(2);
        assert_eq!(format!("{apart:?}"), "10.0.0.1:50000 <> 10.0.0.2:53 proto 17 zone 0x1f pass 2");
        let error = FlowKey::from_v4(1, 2, 0, 0, 1).0.with_message(0x0301, Direction::HighToLow);
        assert_eq!(error.to_string(), "0.0.0.1:0 <> 0.0.0.2:0 proto 1 message 0x0301 from high");
    }

    #[test]
    fn equal_addresses_are_ordered_by_port() {
        let (a, _) = FlowKey::from_v4(7, 7, 5, 9, 17);
        let (b, _) = FlowKey::from_v4(7, 7, 9, 5, 17);
        assert_eq!(a, b);
        assert_eq!((a.low_port(), a.high_port()), (5, 9));
    }

    #[test]
    fn swapped_ports_belong_to_another_flow() {
        let (a, _) = FlowKey::from_v4(1, 2, 5, 9, 6);
        let (b, _) = FlowKey::from_v4(1, 2, 9, 5, 6);
        assert_ne!(a, b);
    }

    #[test]
    fn zone_pass_protocol_and_family_separate_flows() {
        let (key, _) = FlowKey::from_v4(0, 1, 2, 3, 6);
        assert_ne!(key, key.with_zone(1));
        assert_ne!(key, key.with_pass(1));
        assert_ne!(key.with_zone(1), key.with_pass(1));
        let message =
            key.with_message(0x0800, Direction::LowToHigh).with_message(0xFFFF, Direction::HighToLow);
        assert_eq!((message.message(), message.protocol(), message.family()), (0xFFFF, 6, IpFamily::V4));
        assert_ne!(message, key.with_message(0xFFFF, Direction::LowToHigh));
        assert_eq!(message.with_message(0, Direction::LowToHigh), key);
        assert_ne!(key, FlowKey::from_v4(0, 1, 2, 3, 17).0);
        assert_ne!(FlowKey::from_v4(0, 0, 2, 3, 6).0, FlowKey::from_v6(0, 0, 2, 3, 6).0);
        assert_eq!(key.with_zone(5).with_pass(6).zone(), 5);
        assert_eq!(key.with_zone(5).with_pass(6).pass(), 6);
        let again = key.with_zone(5).with_pass(6).with_zone(9).with_pass(3);
        assert_eq!(again, key.with_pass(3).with_zone(9), "the last one counts");
    }
}
