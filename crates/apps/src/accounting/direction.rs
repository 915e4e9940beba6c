//! The endpoint that is the source of a flow, and how it was determined.

use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;
use flowloom_record::Word;

use super::connection::{ACK, FIN, RST, SYN};

/// How the source of a record was determined. The source is the same in all records of a
/// connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum DirectionBasis {
    /// It sent the first captured packet of a TCP connection whose opening was not captured. It may
    /// be either end.
    #[default]
    Arbitrary = 0,
    /// It sent the first packet of a flow that opens without a handshake.
    FirstPacket = 1,
    /// It received a SYN+ACK.
    SynAck = 2,
    /// It sent a SYN.
    Syn = 3,
}

impl DirectionBasis {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Arbitrary, Self::FirstPacket, Self::SynAck, Self::Syn];

    /// The names of all values, with their codes in IPFIX.
    pub const WORDS: [Word; 4] = {
        let mut words = [Word::new("", 0); 4];
        let mut at = 0;
        while at < words.len() {
            words[at] = Word::new(Self::ALL[at].name(), Self::ALL[at].ipfix());
            at += 1;
        }
        words
    };

    /// Returns the name that flow files use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arbitrary => "arbitrary",
            Self::FirstPacket => "first_packet",
            Self::SynAck => "syn_ack",
            Self::Syn => "syn",
        }
    }

    /// Returns the value of IPFIX's element `biflowDirection` (RFC 5103, 6.3): 1 if the source is
    /// the initiator, 0 if it is arbitrary.
    #[must_use]
    pub const fn ipfix(self) -> u8 {
        match self {
            Self::Arbitrary => 0,
            Self::FirstPacket | Self::SynAck | Self::Syn => 1,
        }
    }
}

#[inline(always)]
pub(crate) fn has_tcp_header(packet: &PacketView<'_>) -> bool {
    let headers = &packet.headers;
    headers.key.protocol() == TCP && !headers.later_fragment && !headers.is_error_of_flow
}

/// Returns, for a packet that opens a connection (a SYN without FIN and RST), whether it
/// acknowledges another SYN.
#[inline(always)]
pub(crate) fn opening(packet: &PacketView<'_>) -> Option<bool> {
    let flags = packet.headers.tcp_flags;
    (flags & (SYN | FIN | RST) == SYN && has_tcp_header(packet)).then_some(flags & ACK != 0)
}

/// The initiator of a flow, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Initiator {
    /// Bit 0 is set for the high endpoint. Bits 1 and 2 contain the basis. Bit 3 is set if the
    /// initiator is known.
    bits: u8,
}

const KNOWN: u8 = 1 << 3;

impl Initiator {
    pub(crate) fn new(way: Direction, basis: DirectionBasis) -> Self {
        Self { bits: KNOWN | (basis as u8) << 1 | way as u8 }
    }

    /// Returns the initiator according to a single packet. A packet that opens no connection counts
    /// as the first packet of its flow.
    pub(crate) fn of_packet(packet: &PacketView<'_>) -> Self {
        let way = packet.headers.direction;
        match opening(packet) {
            Some(false) => Self::new(way, DirectionBasis::Syn),
            Some(true) => Self::new(way.reversed(), DirectionBasis::SynAck),
            None if packet.headers.key.protocol() == TCP => Self::new(way, DirectionBasis::Arbitrary),
            None => Self::new(way, DirectionBasis::FirstPacket),
        }
    }

    pub(crate) fn is_known(self) -> bool {
        self.bits & KNOWN != 0
    }

    /// Returns the direction of packets from the initiator.
    pub(crate) fn source_direction(self) -> Direction {
        if self.bits & 1 == 0 { Direction::LowToHigh } else { Direction::HighToLow }
    }

    pub(crate) fn basis(self) -> DirectionBasis {
        DirectionBasis::ALL[usize::from(self.bits >> 1 & 3)]
    }

    /// Replaces the initiator if the other one is known better.
    pub(crate) fn improve(&mut self, other: Self) {
        if !self.is_known() || (other.is_known() && other.basis() > self.basis()) {
            *self = other;
        }
    }

    pub(crate) fn to_byte(self) -> u8 {
        self.bits
    }

    pub(crate) fn from_byte(bits: u8) -> Option<Self> {
        (bits < KNOWN << 1).then_some(Self { bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiator_is_replaced_only_by_one_with_a_stronger_basis() {
        let (low, high) = (Direction::LowToHigh, Direction::HighToLow);
        for (i, basis) in DirectionBasis::ALL.into_iter().enumerate() {
            for (j, other) in DirectionBasis::ALL.into_iter().enumerate() {
                let mut known = Initiator::new(low, basis);
                known.improve(Initiator::new(high, other));
                let expected = if j > i { (high, other) } else { (low, basis) };
                assert_eq!((known.source_direction(), known.basis()), expected);
                assert_eq!(Initiator::from_byte(known.to_byte()), Some(known));
            }
        }
        let mut unknown = Initiator::default();
        unknown.improve(Initiator::new(high, DirectionBasis::Arbitrary));
        assert_eq!((unknown.source_direction(), unknown.is_known()), (high, true));
        assert_eq!(Initiator::from_byte(0x10), None);
    }
}
