//! Sender and receiver of a packet, as on the wire.

use core::net::{IpAddr, SocketAddr};

use crate::flow_key::{Direction, FlowKey};

/// The addresses, ports and protocol of one packet, in the packet's own direction.
///
/// For ICMP echo, both ports contain the identifier. Protocols without ports, and fragments without
/// the transport header, have port zero.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::FiveTuple;
/// let tuple = FiveTuple::v4([192, 0, 2, 1], [192, 0, 2, 2], 1024, 80, 6);
/// assert_eq!(tuple.to_string(), "192.0.2.1:1024 > 192.0.2.2:80 proto 6");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiveTuple {
    /// Sender's address.
    pub source: IpAddr,
    /// Receiver's address, of the same family as `source`.
    pub destination: IpAddr,
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// IP protocol number (6 is TCP, 17 UDP).
    pub protocol: u8,
}

impl FiveTuple {
    /// Returns an IPv4 tuple from address octets.
    pub fn v4(
        source: [u8; 4],
        destination: [u8; 4],
        source_port: u16,
        destination_port: u16,
        protocol: u8,
    ) -> Self {
        Self {
            source: IpAddr::from(source),
            destination: IpAddr::from(destination),
            source_port,
            destination_port,
            protocol,
        }
    }

    /// Returns an IPv6 tuple from address octets.
    pub fn v6(
        source: [u8; 16],
        destination: [u8; 16],
        source_port: u16,
        destination_port: u16,
        protocol: u8,
    ) -> Self {
        Self {
            source: IpAddr::from(source),
            destination: IpAddr::from(destination),
            source_port,
            destination_port,
            protocol,
        }
    }

    /// Returns the tuple of the opposite direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// Returns the direction-free key, and the direction of this packet.
    ///
    /// A tuple whose addresses are of different families cannot come from a packet. Its IPv4 side
    /// becomes an IPv4-mapped IPv6 address, so that the result is still a key.
    pub fn canonical(&self) -> (FlowKey, Direction) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => FlowKey::from_v4(
                source.to_bits(),
                destination.to_bits(),
                self.source_port,
                self.destination_port,
                self.protocol,
            ),
            (source, destination) => FlowKey::from_v6(
                v6_bits(source),
                v6_bits(destination),
                self.source_port,
                self.destination_port,
                self.protocol,
            ),
        }
    }
}

impl core::hash::Hash for FiveTuple {
    /// Hashes two words if both addresses are IPv4, and five otherwise.
    #[inline]
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        let ports = u64::from(self.source_port) << 16 | u64::from(self.destination_port);
        let rest = ports << 8 | u64::from(self.protocol);
        // The word with the ports includes the families, so an address differs from its mapped
        // form.
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                state.write_u64(u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits()));
                state.write_u64(rest);
            }
            (source, destination) => {
                let families = 1 + u64::from(source.is_ipv6()) + 2 * u64::from(destination.is_ipv6());
                state.write_u64(rest | families << 48);
                state.write_u128(v6_bits(source));
                state.write_u128(v6_bits(destination));
            }
        }
    }
}

fn v6_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl core::fmt::Display for FiveTuple {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} > {} proto {}",
            SocketAddr::new(self.source, self.source_port),
            SocketAddr::new(self.destination, self.destination_port),
            self.protocol
        )
    }
}

impl FlowKey {
    /// Returns the five-tuple of a packet of this flow in the given direction.
    pub fn tuple(&self, direction: Direction) -> FiveTuple {
        let tuple = FiveTuple {
            source: self.low_address(),
            destination: self.high_address(),
            source_port: self.low_port(),
            destination_port: self.high_port(),
            protocol: self.protocol(),
        };
        match direction {
            Direction::LowToHigh => tuple,
            Direction::HighToLow => tuple.reversed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_reads_from_sender_to_receiver() {
        let tuple = FiveTuple::v6([0xfe; 16], [0; 16], 7, 8, 6);
        assert_eq!(tuple.to_string(), "[fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe]:7 > [::]:8 proto 6");
    }

    #[test]
    fn a_key_gives_its_tuple_back() {
        let tuple = FiveTuple::v4([10, 0, 0, 9], [10, 0, 0, 2], 53, 4096, 17);
        let (key, direction) = tuple.canonical();
        assert_eq!(key.tuple(direction), tuple);
        assert_eq!(key.tuple(direction.reversed()), tuple.reversed());
        let tuple = FiveTuple::v6([0xfe; 16], [1; 16], 7, 8, 6);
        let (key, direction) = tuple.canonical();
        assert_eq!(key.tuple(direction), tuple);
    }
}
