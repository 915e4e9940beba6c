//! Converts packets of a capture to accesses: which end is the client, and its key.

use core::net::IpAddr;
pub use flowloom_flow_key::protocol::TCP;

use flowloom_flow_key::hash::fold::fold;
use flowloom_flow_key::{Direction, FlowKey};

use crate::access::Access;

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;

/// Returns the 48-bit key of a TCP session from its flow: the client's address and port [TCBCACHE
/// §3.1].
///
/// The client is the end with the higher port, because servers listen on low ports. If ports are
/// equal, it is the end that comes first in the flow's key. IPv6 addresses are folded to 32 bits.
/// Two sessions of one client port with different servers share a key, as in a cache for one
/// server.
#[must_use]
pub fn session_key(key: &FlowKey) -> u64 {
    let (address, port) = if key.low_port() >= key.high_port() {
        (key.low_address(), key.low_port())
    } else {
        (key.high_address(), key.high_port())
    };
    let address = match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            fold(bits as u64 ^ 0x9E37_79B9_7F4A_7C15, (bits >> 64) as u64 | 1) as u32
        }
    };
    Access::session_key(address, port)
}

/// Returns whether a packet in this direction comes from the client of [`session_key`].
#[must_use]
pub fn is_from_client(key: &FlowKey, direction: Direction) -> bool {
    let low_is_client = key.low_port() >= key.high_port();
    low_is_client == (direction == Direction::LowToHigh)
}

/// Progress of a session's end, from the flags seen so far, and the number of sessions of its flow:
/// four bytes.
///
/// # Examples
///
/// ```
/// use flowloom_tcb_cache::from_packets::{Closing, Seen};
/// let (ack, fin) = (16, 17);
/// let mut session = Closing::default();
/// assert_eq!(session.packet(ack, true), Seen::Open);
/// assert_eq!(session.packet(fin, true), Seen::Open);
/// assert_eq!(session.packet(fin, false), Seen::Closes); // both sides are done
/// assert_eq!(session.packet(ack, true), Seen::Over); // what follows needs no state
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Bit 0: the client's FIN was seen; bit 1: the server's FIN was seen; bit 2: the session is
    /// over.
    seen: u8,
    sessions: u16,
}

/// The meaning of a packet to a cache of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// An access.
    Open,
    /// The access that ends the session.
    Closes,
    /// A packet of a session that has ended, which is not an access.
    Over,
}

const OVER: u8 = 4;

impl Closing {
    /// Returns the key of the flow's present session, from the key of its address and port.
    #[inline]
    #[must_use]
    pub const fn key(self, session_key: u64) -> u64 {
        session_key | (self.sessions as u64) << 48
    }

    /// Processes the flags of a packet. A session ends with an RST or the second FIN; after that, a
    /// SYN starts another session.
    #[inline]
    pub fn packet(&mut self, tcp_flags: u16, from_client: bool) -> Seen {
        if tcp_flags & SYN != 0 && self.seen & OVER != 0 {
            self.seen = 0;
            self.sessions = self.sessions.wrapping_add(1);
        }
        if self.seen & OVER != 0 {
            return Seen::Over;
        }
        if tcp_flags & FIN != 0 {
            self.seen |= if from_client { 1 } else { 2 };
        }
        if tcp_flags & RST != 0 || self.seen == 3 {
            self.seen |= OVER;
            return Seen::Closes;
        }
        Seen::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_the_clients_key() {
        let (key, direction) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 80, 40_000, TCP);
        assert_eq!(session_key(&key), Access::session_key(0x0A00_0002, 40_000));
        assert!(!is_from_client(&key, direction) && is_from_client(&key, direction.reversed()));
        let (key, _) = FlowKey::from_v6(1 << 90, 7, 443, 50_000, TCP);
        let (other, _) = FlowKey::from_v6(1 << 90, 8, 443, 50_000, TCP);
        assert_eq!(session_key(&key) & 0xFFFF, 50_000);
        assert_ne!(session_key(&key), session_key(&other));
    }

    #[test]
    fn rst_ends_a_session_and_syn_begins_one() {
        let mut session = Closing::default();
        assert_eq!(session.packet(RST, false), Seen::Closes);
        assert_eq!(session.packet(FIN, true), Seen::Over);
        assert_eq!(session.key(5), 5);
        assert_eq!(session.packet(SYN, true), Seen::Open);
        assert_eq!(session.key(5), 1 << 48 | 5);
        assert_eq!((session.packet(FIN, true), session.packet(FIN, true)), (Seen::Open, Seen::Open));
        assert_eq!(session.packet(FIN, false), Seen::Closes);
    }
}
