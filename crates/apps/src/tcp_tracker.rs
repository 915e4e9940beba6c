//! Connection tracking: packets, bytes, times and TCP flags per direction, and the state of the
//! connection.

use flowloom_engine::{App, Composed, FlowState, Verdict};
use flowloom_flow_key::Direction::{self, HighToLow, LowToHigh};
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Kind, Value, Word, element};

use crate::accounting::DirectionBasis;
use crate::accounting::direction::Initiator;
use crate::record_columns::{SOURCE_END, end_word};
use crate::save_state::{SaveState, put, words};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;
const SYN_ACK_FIN_FLAGS: u16 = SYN | ACK | FIN;

/// The state of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TcpState {
    /// The flow is not TCP.
    #[default]
    NotTcp,
    /// The opening of the connection was not captured.
    Midstream,
    /// A SYN was seen.
    SynSent,
    /// A SYN and its answer were seen.
    SynReceived,
    /// The handshake was complete.
    Established,
    /// One side has sent FIN.
    HalfClosed,
    /// Both sides have sent FIN.
    Closed,
    /// An RST ended the connection.
    Reset,
}

impl TcpState {
    const ALL: [Self; 8] = [
        Self::NotTcp,
        Self::Midstream,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::HalfClosed,
        Self::Closed,
        Self::Reset,
    ];

    /// The names of all states.
    const WORDS: [Word; 8] = {
        let mut words = [Word::new("", 0); 8];
        let mut at = 0;
        while at < words.len() {
            words[at] = Word::new(Self::ALL[at].name(), 0);
            at += 1;
        }
        words
    };

    /// Returns the name that flow files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotTcp => "-",
            Self::Midstream => "midstream",
            Self::SynSent => "syn-sent",
            Self::SynReceived => "syn-received",
            Self::Established => "established",
            Self::HalfClosed => "half-closed",
            Self::Closed => "closed",
            Self::Reset => "reset",
        }
    }

    /// Returns the state after a packet with `flags`. `other_fin` is set if the other direction has
    /// sent FIN.
    #[must_use]
    fn after(self, flags: u16, other_fin: bool) -> Self {
        if flags & RST != 0 {
            return Self::Reset;
        }
        if flags & SYN != 0 {
            return match self {
                _ if flags & ACK == 0 => Self::SynSent, // Opens the connection, or reopens it on the same ports.
                // An answer, even if its SYN was not captured.
                Self::SynSent | Self::NotTcp | Self::Midstream => Self::SynReceived,
                state => state,
            };
        }
        if flags & FIN != 0 {
            return match self {
                Self::Reset => self, // A packet that was in flight.
                _ if other_fin => Self::Closed,
                _ => Self::HalfClosed,
            };
        }
        match self {
            Self::NotTcp => Self::Midstream,
            Self::SynReceived if flags & ACK != 0 => Self::Established,
            state => state,
        }
    }
}

/// The tracker's state of a flow: one cache line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TcpFlow {
    packets: [u64; 2],
    bytes: [u64; 2],
    first_ns: u64,
    last_ns: u64,
    order: u64,
    flags: [u16; 2],
    state: TcpState,
    /// Bits 0 and 1 mark the directions that have sent FIN since the connection was last opened.
    /// Composing needs the other bits in addition to the state.
    facts: u8,
    initiator: Initiator,
}

/// A SYN without ACK was seen, so the state does not depend on earlier packets.
const OPENED: u8 = 1 << 2;
/// An ACK without SYN, FIN and RST was seen since then.
const ACKED: u8 = 1 << 3;
/// A packet with SYN, ACK and FIN was seen since then, which the state does not show.
const SYN_ACK_FIN: u8 = 1 << 4;
/// The factor of the order digest. It is odd, so that a multiplication loses no digest.
const ORDER: u64 = 0x9E37_79B9_7F4A_7C15;

const _: () = assert!(size_of::<TcpFlow>() == 64, "a flow's counters fill the line behind its key");

impl TcpFlow {
    /// Returns the packet counts: from the low endpoint to the high one, and back.
    pub fn packets(&self) -> [u64; 2] {
        self.packets
    }

    /// Returns the bytes on the wire, per direction.
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Returns the times of the first and the last packet, in nanoseconds since 1970.
    pub fn flags(&self) -> [u16; 2] {
        self.flags
    }

    /// Returns the times of the first and the last packet, in nanoseconds since 1970.
    pub fn times_ns(&self) -> (u64, u64) {
        (self.first_ns, self.last_ns)
    }

    /// Returns the direction of packets from the flow's source, and how the source was determined,
    /// as in accounting records.
    pub fn source(&self) -> (Direction, DirectionBasis) {
        (self.initiator.source_direction(), self.initiator.basis())
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// Returns a digest of the flow's packets in the order in which they were seen. It changes if
    /// two packets are exchanged.
    pub fn order(&self) -> u64 {
        self.order
    }

    /// Returns the order digest with one more packet: the digest is a polynomial in [`ORDER`] whose
    /// coefficients are the words of the packets, so digests of consecutive packets compose.
    #[inline]
    fn mix(order: u64, word: u64) -> u64 {
        // High words are folded down first, because a product keeps only the low bits.
        order.wrapping_mul(ORDER).wrapping_add(word ^ word >> 32)
    }

    /// Adds the counts of later packets.
    fn add(&mut self, later: &Self) {
        let packets = later.packets[0] + later.packets[1];
        self.order = self.order.wrapping_mul(power(ORDER, packets)).wrapping_add(later.order);
        for way in 0..2 {
            self.packets[way] += later.packets[way];
            self.bytes[way] += later.bytes[way];
            self.flags[way] |= later.flags[way];
        }
        self.first_ns = self.first_ns.min(later.first_ns);
        self.last_ns = self.last_ns.max(later.last_ns);
        self.initiator.improve(later.initiator);
    }

    /// Returns the state after packets that alone lead to `later`.
    fn state_after(&self, later: &Self) -> TcpState {
        use TcpState::{Closed, Established, HalfClosed, Midstream, NotTcp, Reset, SynReceived, SynSent};
        let has_fin = |facts: u8, way: usize| facts >> way & 1 != 0;
        match (self.state, later.state) {
            _ if later.facts & OPENED != 0 => later.state,
            (_, NotTcp) => self.state,
            (_, Reset) | (Reset, _) => Reset,
            // The last FIN of these packets closes the connection if the other side has sent a FIN
            // before.
            (_, HalfClosed | Closed) => {
                let others = self.facts | later.facts;
                let is_closed = (0..2).any(|way| has_fin(later.facts, way) && has_fin(others, 1 - way));
                if is_closed { Closed } else { HalfClosed }
            }
            (SynReceived, _) if later.facts & ACKED != 0 => Established,
            (Established | HalfClosed | Closed | SynReceived, _) | (SynSent | Midstream, Midstream) => {
                self.state
            }
            _ => later.state,
        }
    }
}

/// Returns `base` to the power of `exponent`, modulo 2^64.
fn power(base: u64, exponent: u64) -> u64 {
    let (mut result, mut base, mut exponent) = (1_u64, base, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

impl FlowState for TcpFlow {
    const COLUMNS: &'static [Column] = &[
        Column::new("packets_low_to_high", Kind::Packets, "Packets from the source.")
            .of_direction(LowToHigh, "packets")
            .with_elements(element::PACKETS),
        Column::new("packets_high_to_low", Kind::Packets, "Packets from the destination.")
            .of_direction(HighToLow, "reverse_packets")
            .with_elements(element::REVERSE_PACKETS),
        Column::new("bytes_low_to_high", Kind::Bytes, "The bytes on the wire of packets from the source.")
            .of_direction(LowToHigh, "bytes")
            .with_elements(element::BYTES),
        Column::new(
            "bytes_high_to_low",
            Kind::Bytes,
            "The bytes on the wire of packets from the destination.",
        )
        .of_direction(HighToLow, "reverse_bytes")
        .with_elements(element::REVERSE_BYTES),
        Column::new("first_ns", Kind::Time, "The earliest time stamp of a packet.")
            .with_elements(element::START),
        Column::new("last_ns", Kind::Time, "The latest time stamp of a packet.")
            .with_elements(element::END),
        Column::new(
            "tcp_flags_low_to_high",
            Kind::Bits,
            "The union of the TCP flags of packets from the source.",
        )
        .of_direction(LowToHigh, "tcp_flags")
        .with_elements(element::TCP_FLAGS),
        Column::new(
            "tcp_flags_high_to_low",
            Kind::Bits,
            "The union of the TCP flags of packets from the destination.",
        )
        .of_direction(HighToLow, "reverse_tcp_flags")
        .with_elements(element::REVERSE_TCP_FLAGS),
        Column::new(
            "tcp_state",
            Kind::Word(&TcpState::WORDS),
            "The state of the TCP connection; `-` if the flow is not TCP.",
        ),
        Column::new("order_digest", Kind::Digest, "A digest of the packets in their order."),
        SOURCE_END,
        Column::new("direction", Kind::Word(&DirectionBasis::WORDS), "How the source is known.")
            .with_elements(element::DIRECTION),
    ];

    fn values(&self, out: &mut Vec<Value>) {
        out.extend([
            Value::Number(self.packets[0]),
            Value::Number(self.packets[1]),
            Value::Number(self.bytes[0]),
            Value::Number(self.bytes[1]),
            Value::Number(self.first_ns),
            Value::Number(self.last_ns),
            Value::Bits(u64::from(self.flags[0])),
            Value::Bits(u64::from(self.flags[1])),
            Value::Word(self.state.name()),
            Value::Bits(self.order),
            Value::Word(end_word(Some(self.initiator.source_direction()))),
            Value::Word(self.initiator.basis().name()),
        ]);
    }

    fn compose(&mut self, later: &mut Self) -> Composed {
        if later.facts & (OPENED | SYN_ACK_FIN) == SYN_ACK_FIN {
            return Composed::NeedsPackets;
        }
        self.state = self.state_after(later);
        self.facts = if later.facts & OPENED != 0 { later.facts } else { self.facts | later.facts };
        self.add(later);
        Composed::Joined
    }
}

impl SaveState for TcpFlow {
    const BYTES: usize = 63;

    fn save(&self, out: &mut Vec<u8>) {
        let Self { packets, bytes, first_ns, last_ns, order, flags, state, facts, initiator } = self;
        put(out, &[packets[0], packets[1], bytes[0], bytes[1], *first_ns, *last_ns, *order]);
        let [low, high] = flags.map(u16::to_le_bytes);
        let rest = [*state as u8, *facts, initiator.to_byte()];
        out.extend_from_slice(&[low[0], low[1], high[0], high[1], rest[0], rest[1], rest[2]]);
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let ([a, b, c, d, first_ns, last_ns, order], rest) = words(bytes)?;
        let &[low, low_ae, high, high_ae, state, facts, initiator] = rest else { return None };
        let state = TcpState::ALL.into_iter().find(|known| *known as u8 == state)?;
        let (packets, bytes, flags) = ([a, b], [c, d], [[low, low_ae], [high, high_ae]]);
        let flags = flags.map(u16::from_le_bytes);
        let initiator = Initiator::from_byte(initiator)?;
        Some(Self { packets, bytes, first_ns, last_ns, order, flags, state, facts, initiator })
    }
}

/// Tracks the state of TCP connections and counts every flow's packets and bytes.
///
/// It uses TCP flags only and does not check sequence numbers, so a forged RST ends a connection
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpTracker;

impl App for TcpTracker {
    type Flow = TcpFlow;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut TcpFlow) -> Verdict {
        let way = packet.headers.direction.index();
        let flags = packet.headers.tcp_flags;
        if flow.packets == [0, 0] {
            (flow.first_ns, flow.last_ns) = (packet.stamped_ns, packet.stamped_ns);
            flow.initiator = Initiator::of_packet(packet);
        }
        flow.packets[way] += 1;
        flow.bytes[way] += u64::from(packet.wire_bytes);
        flow.first_ns = flow.first_ns.min(packet.stamped_ns);
        flow.last_ns = flow.last_ns.max(packet.stamped_ns);
        // Most packets change nothing: acknowledgements on an open connection, and packets other
        // than TCP.
        if packet.headers.key.protocol() == TCP && !packet.headers.later_fragment {
            let settled = flow.facts & ACKED != 0 && flow.state != TcpState::SynReceived;
            if flags & (SYN | FIN | RST) != 0 || !settled {
                if flags & (SYN | ACK | RST) == SYN {
                    flow.facts = OPENED;
                }
                if flags & SYN != 0 {
                    flow.initiator.improve(Initiator::of_packet(packet));
                }
                flow.state = flow.state.after(flags, flow.facts >> (1 - way) & 1 != 0);
                flow.facts |= ((flags & FIN) as u8) << way;
                flow.facts |= match flags & (SYN | FIN | RST | ACK) {
                    ACK => ACKED,
                    SYN_ACK_FIN_FLAGS => SYN_ACK_FIN,
                    _ => 0,
                };
            }
        }
        flow.flags[way] |= flags;
        let word = packet.time_ns ^ u64::from(packet.wire_bytes) << 32 ^ u64::from(flags) << 1 ^ way as u64;
        flow.order = TcpFlow::mix(flow.order, word);
        Verdict::Accept
    }
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::FlowKey;
    use flowloom_packet::Headers;

    use super::*;

    /// Returns the view of a packet with this direction and these flags.
    fn headers(from_low: bool, tcp_flags: u16, protocol: u8) -> Headers {
        let (key, direction) = if from_low {
            FlowKey::from_v4(1, 2, 3, 4, protocol)
        } else {
            FlowKey::from_v4(2, 1, 4, 3, protocol)
        };
        let mut headers = Headers::new(key, direction);
        headers.tcp_flags = tcp_flags;
        headers.network_offset = 14;
        headers.transport_offset = 34;
        headers.payload_offset = 54;
        headers
    }

    /// Feeds packets, each as (from the low endpoint, flags), one microsecond apart.
    fn feed(packets: &[(bool, u16)]) -> TcpFlow {
        let mut flow = TcpFlow::default();
        for (i, &(from_low, flags)) in packets.iter().enumerate() {
            let headers = headers(from_low, flags, TCP);
            let view = PacketView::new(&[], headers, 1000 * (i as u64 + 1), 60);
            TcpTracker.on_packet(&view, &mut flow);
        }
        flow
    }

    #[test]
    fn a_whole_connection_opens_and_closes() {
        use TcpState::{Closed, Established, HalfClosed, SynReceived, SynSent};
        let talk = [
            (true, SYN),
            (false, SYN | ACK),
            (true, ACK),
            (true, ACK),
            (false, FIN | ACK),
            (true, FIN | ACK),
            (false, ACK),
        ];
        let states: Vec<TcpState> = (1..=talk.len()).map(|n| feed(&talk[..n]).state()).collect();
        assert_eq!(states, [SynSent, SynReceived, Established, Established, HalfClosed, Closed, Closed]);
        let flow = feed(&talk);
        assert_eq!(flow.packets(), [4, 3]);
        assert_eq!(flow.bytes(), [240, 180]);
        assert_eq!(flow.times_ns(), (1000, 7000));
        assert_eq!(flow.flags(), [SYN | ACK | FIN, SYN | ACK | FIN]);
    }

    #[test]
    fn source_sent_the_syn_or_received_the_syn_ack_or_sent_first() {
        use Direction::{HighToLow, LowToHigh};
        let talk = [(true, SYN), (false, SYN | ACK), (true, ACK)];
        assert_eq!(feed(&talk).source(), (LowToHigh, DirectionBasis::Syn));
        assert_eq!(feed(&talk[1..]).source(), (LowToHigh, DirectionBasis::SynAck));
        assert_eq!(feed(&[(false, ACK), (true, ACK)]).source(), (HighToLow, DirectionBasis::Arbitrary));
        assert_eq!(feed(&[(false, ACK), (true, SYN)]).source(), (LowToHigh, DirectionBasis::Syn));
    }

    #[test]
    fn every_state_has_a_name_of_its_own() {
        use TcpState::{Closed, Established, HalfClosed, Midstream, NotTcp, Reset, SynReceived, SynSent};
        let states = [NotTcp, Midstream, SynSent, SynReceived, Established, HalfClosed, Closed, Reset];
        assert_eq!(
            states.map(TcpState::name),
            ["-", "midstream", "syn-sent", "syn-received", "established", "half-closed", "closed", "reset"]
        );
    }

    #[test]
    fn connection_without_a_captured_start_is_reported_as_such() {
        assert_eq!(feed(&[(true, ACK), (false, ACK)]).state(), TcpState::Midstream);
        assert_eq!(feed(&[(true, ACK), (false, RST)]).state(), TcpState::Reset);
        assert_eq!(feed(&[(true, RST), (false, SYN)]).state(), TcpState::SynSent);
    }

    #[test]
    fn only_an_acknowledgement_completes_the_handshake() {
        let answered = [(true, SYN), (false, SYN | ACK)];
        let state = |flags: u16| feed(&[answered.as_slice(), &[(true, flags)]].concat()).state();
        assert_eq!((state(0), state(ACK)), (TcpState::SynReceived, TcpState::Established));
    }

    #[test]
    fn rst_overrides_other_flags_of_the_packet() {
        let open = [(true, SYN), (false, SYN | ACK), (true, ACK)];
        for flags in [RST, RST | ACK, SYN | FIN | RST] {
            assert_eq!(feed(&[open.as_slice(), &[(false, flags)]].concat()).state(), TcpState::Reset);
        }
    }

    #[test]
    fn packets_without_a_tcp_header_have_no_state() {
        for (protocol, later_fragment) in [(17, false), (17, true), (TCP, true)] {
            let mut flow = TcpFlow::default();
            let mut headers = headers(true, 0, protocol);
            headers.later_fragment = later_fragment;
            let view = PacketView::new(&[], headers, 1, 60);
            TcpTracker.on_packet(&view, &mut flow);
            assert_eq!(
                (flow.packets(), flow.state()),
                ([1, 0], TcpState::NotTcp),
                "{protocol}, {later_fragment}"
            );
        }
    }

    #[test]
    fn a_connection_on_the_ports_of_a_closed_one_closes_by_its_own_fins() {
        let one = [
            (true, SYN),
            (false, SYN | ACK),
            (true, ACK),
            (true, FIN | ACK),
            (false, FIN | ACK),
            (true, ACK),
        ];
        let two = [one.as_slice(), &one].concat();
        let states = |packets: &[(bool, u16)]| -> Vec<TcpState> {
            (1..=packets.len()).map(|n| feed(&packets[..n]).state()).collect()
        };
        assert_eq!(states(&two)[6..], states(&one));
        assert_eq!(states(&one)[3..], [TcpState::HalfClosed, TcpState::Closed, TcpState::Closed]);
    }

    #[test]
    fn fin_after_a_reset_opens_no_connection() {
        let reset = [(true, SYN), (false, SYN | ACK), (true, ACK), (true, RST)];
        assert_eq!(feed(&[reset.as_slice(), &[(false, FIN | ACK)]].concat()).state(), TcpState::Reset);
        let again = [reset.as_slice(), &[(true, SYN), (false, SYN | ACK), (true, ACK), (false, FIN | ACK)]];
        assert_eq!(feed(&again.concat()).state(), TcpState::HalfClosed);
    }

    #[test]
    fn exchanging_two_packets_changes_the_order_digest() {
        let mut a = TcpFlow::default();
        let mut b = TcpFlow::default();
        for word in [1, 2, 3] {
            a.order = TcpFlow::mix(a.order, word);
        }
        for word in [2, 1, 3] {
            b.order = TcpFlow::mix(b.order, word);
        }
        assert_ne!(a.order, b.order);
    }

    #[test]
    fn time_size_flags_and_direction_of_a_packet_are_in_the_order_digest() {
        let order = |time_ns: u64, wire_bytes: u32, flags: u16, from_low: bool| {
            let mut flow = TcpFlow::default();
            let view = PacketView::new(&[], headers(from_low, flags, TCP), time_ns, wire_bytes);
            TcpTracker.on_packet(&view, &mut flow);
            flow.order()
        };
        // All bits of the time are set and must not hide other bits.
        let usual = order(u64::MAX, 60, ACK, true);
        assert_ne!(order(u64::MAX - 4, 60, ACK, true), usual);
        assert_ne!(order(u64::MAX, 61, ACK, true), usual);
        assert_ne!(order(u64::MAX, 60, ACK | FIN, true), usual);
        assert_ne!(order(u64::MAX, 60, ACK, false), usual);
    }

    #[test]
    fn one_value_per_column() {
        let mut values = Vec::new();
        feed(&[(true, SYN)]).values(&mut values);
        assert_eq!(values.len(), TcpFlow::COLUMNS.len());
    }
}
