//! Losses and disorder of TCP segments.

use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::{FieldStore, Fields, is_before};
use crate::accounting::connection::{ACK, FIN, RST, SYN, Segment};

/// Wireshark's limit between the last of several duplicate acknowledgements and a fast
/// retransmission.
const FAST_NS: u64 = 20_000_000;
/// Wireshark's limit of disorder, without the round-trip time of a handshake.
const DISORDER_NS: u64 = 3_000_000;

/// What a segment without new data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    None,
    KeepAlive,
    Window,
}

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirectionCounts {
    /// The number after everything sent so far, and when it was sent.
    next: Option<(u32, u64)>,
    /// The last acknowledgement, and when it was sent.
    acknowledged: Option<(u32, u64)>,
    /// The last window.
    window: u16,
    /// Duplicates of the last acknowledgement.
    duplicates: u32,
    last: Probe,
    retransmissions: u64,
    out_of_order: u64,
    keep_alives: u64,
    window_probes: u64,
    zero_windows: u64,
    duplicate_acks: u64,
}

/// Counts of retransmitted and out-of-order segments, of probes and of closed windows, by
/// direction, with Wireshark's rules.
///
/// A segment with data, SYN or FIN that does not advance the sequence numbers is *out of order* if
/// it follows the segment with the highest number within the round-trip time of the handshake (3 ms
/// if that is unknown), and otherwise a *retransmission*: of a segment that was captured, or of one
/// that was lost before. It is also a retransmission if its data was acknowledged, or if it follows
/// two duplicate acknowledgements of its number within 20 ms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpTrouble {
    sides: [DirectionCounts; 2],
    /// When the last SYN was sent, until it is acknowledged.
    syn_ns: Option<u64>,
    /// The round-trip time of the handshake.
    rtt_ns: Option<u64>,
}

/// A segment, as the rules see it.
#[derive(Clone, Copy)]
struct Sent {
    segment: Segment,
    flags: u16,
    payload_bytes: u32,
    stamped_ns: u64,
}

impl Sent {
    fn is_control(&self) -> bool {
        self.flags & (SYN | FIN | RST) != 0
    }

    /// Returns the number after the data.
    fn data_end(&self) -> u32 {
        self.segment.sequence.wrapping_add(self.payload_bytes)
    }

    /// Returns the number after the segment. SYN and FIN take one number.
    fn end(&self) -> u32 {
        self.data_end().wrapping_add(u32::from(self.flags & (SYN | FIN) != 0))
    }

    /// Returns whether it has no data and repeats everything of the last segment of its side.
    fn is_repeated(&self, side: &DirectionCounts) -> bool {
        let Segment { sequence, acknowledgement, window, .. } = self.segment;
        !self.is_control()
            && self.payload_bytes == 0
            && window == side.window
            && side.next.is_some_and(|(next, _)| sequence == next)
            && side.acknowledged.is_some_and(|(number, _)| acknowledgement == number)
    }
}

impl TcpTrouble {
    fn take(&mut self, way: Direction, sent: Sent) {
        let disorder_ns = self.time_handshake(&sent);
        let [low, high] = &mut self.sides;
        let (side, other) = if way == Direction::LowToHigh { (low, &*high) } else { (high, &*low) };
        let Segment { sequence, acknowledgement, window, .. } = sent.segment;
        let next = side.next.map(|(next, _)| next);
        let mut probe = Probe::None;
        let is_window_probe = sent.payload_bytes == 1
            && next == Some(sequence)
            && other.acknowledged.is_some()
            && other.window == 0;
        if is_window_probe {
            probe = Probe::Window;
            side.window_probes += 1;
        } else {
            side.zero_windows += u64::from(window == 0 && !sent.is_control());
            if sent.payload_bytes <= 1 && !sent.is_control() && next == Some(sequence.wrapping_add(1)) {
                probe = Probe::KeepAlive;
                side.keep_alives += 1;
            }
            let answers_probe = match other.last {
                Probe::None => false,
                Probe::KeepAlive => window != 0,
                Probe::Window => window == 0,
            };
            if sent.is_repeated(side) && window != 0 && !answers_probe {
                side.duplicates += 1;
                side.duplicate_acks += 1;
            }
        }
        if side.acknowledged.is_none_or(|(number, _)| number != acknowledgement) {
            side.duplicates = 0;
        }
        let has_data = sent.payload_bytes > 0 || sent.flags & (SYN | FIN) != 0;
        if has_data && probe != Probe::KeepAlive {
            side.count_again(other, &sent, disorder_ns);
        }
        let end = sent.end();
        if next.is_none_or(|next| is_before(next, end)) && probe != Probe::Window {
            side.next = Some((end, sent.stamped_ns));
        }
        side.acknowledged = Some((acknowledgement, sent.stamped_ns));
        (side.window, side.last) = (window, probe);
    }

    /// Takes the times of the handshake. Returns how long segments may be out of order.
    fn time_handshake(&mut self, sent: &Sent) -> u64 {
        match sent.flags & (SYN | ACK) {
            SYN => self.syn_ns = Some(sent.stamped_ns),
            ACK if self.rtt_ns.is_none() => {
                self.rtt_ns = self.syn_ns.and_then(|syn_ns| sent.stamped_ns.checked_sub(syn_ns));
            }
            _ => {}
        }
        self.rtt_ns.filter(|&rtt_ns| rtt_ns > 0).unwrap_or(DISORDER_NS)
    }
}

impl DirectionCounts {
    /// Counts a segment with data, SYN or FIN that was sent again or too late.
    fn count_again(&mut self, other: &Self, sent: &Sent, disorder_ns: u64) {
        let begin = sent.segment.sequence;
        let is_within = |since_ns: u64, limit_ns: u64| {
            sent.stamped_ns.checked_sub(since_ns).is_some_and(|ns| ns < limit_ns)
        };
        let is_spurious = sent.payload_bytes > 0
            && other
                .acknowledged
                // An RST may acknowledge nothing.
                .is_some_and(|(number, _)| number != 0 && !is_before(number, sent.data_end()));
        if is_spurious {
            self.retransmissions += 1;
            return;
        }
        // One byte of it may have probed a closed window, so that the rest is new.
        let is_new = |next: u32| {
            !is_before(begin, next) || (sent.payload_bytes > 1 && begin.wrapping_add(1) == next)
        };
        let Some((next, next_ns)) = self.next.filter(|&(next, _)| !is_new(next)) else { return };
        let is_fast = other.duplicates >= 2
            && other.acknowledged.is_some_and(|(number, ns)| number == begin && is_within(ns, FAST_NS));
        let is_disorder = !is_fast && is_within(next_ns, disorder_ns) && sent.end() != next;
        *if is_disorder { &mut self.out_of_order } else { &mut self.retransmissions } += 1;
    }
}

/// Returns whether a header without payload is longer than its packet, of which all bytes are
/// there. Wireshark does not analyse such a segment.
fn has_bad_header(packet: &PacketView<'_>) -> bool {
    let (at, end) = (packet.headers.transport_offset as usize, packet.headers.payload_offset as usize);
    let words = packet.bytes.get(at + 12).map_or(5, |byte| usize::from(byte >> 4));
    packet.wire_bytes as usize <= packet.bytes.len() && at + words * 4 > end
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Packets, description).in_group(Group::Tcp)
}

impl Fields for TcpTrouble {
    const COLUMNS: &'static [Column] = &[
        column(
            "retransmissions",
            "TCP segments from the source that do not advance the sequence numbers and come too late to be out of order: their \
             first copy was captured, or lost before. Wireshark's rules, as for the following columns.",
        ),
        column(
            "out_of_order",
            "TCP segments from the source that fill a gap in the sequence numbers within the round-trip time of the handshake.",
        ),
        column(
            "keep_alives",
            "TCP segments from the source with one byte or none that begin one before the next sequence number.",
        ),
        column(
            "window_probes",
            "TCP segments from the source with one byte beyond the window of 0 that the destination announced last.",
        ),
        column("zero_windows", "TCP segments from the source that announce a window of 0."),
        column(
            "duplicate_acks",
            "TCP segments from the source without data that repeat its last acknowledgement and window.",
        ),
        column("reverse_retransmissions", "Retransmissions from the destination."),
        column("reverse_out_of_order", "Segments out of order from the destination."),
        column("reverse_keep_alives", "Keep-alives from the destination."),
        column("reverse_window_probes", "Window probes from the destination."),
        column("reverse_zero_windows", "Zero windows that the destination announces."),
        column("reverse_duplicate_acks", "Duplicate acknowledgements from the destination."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let headers = &packet.headers;
        if headers.key.protocol() != TCP || headers.later_fragment {
            return;
        }
        if headers.payload_bytes == 0 && has_bad_header(packet) {
            return;
        }
        let Some(segment) = Segment::from_packet(packet) else { return };
        let (flags, payload_bytes) = (headers.tcp_flags, headers.payload_bytes);
        let sent = Sent { segment, flags, payload_bytes, stamped_ns: packet.stamped_ns };
        self.take(headers.direction, sent);
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        for way in [way, way.reversed()] {
            let side = &self.sides[way.index()];
            let counts = [side.retransmissions, side.out_of_order, side.keep_alives];
            out.extend(counts.map(Value::Number));
            let counts = [side.window_probes, side.zero_windows, side.duplicate_acks];
            out.extend(counts.map(Value::Number));
        }
    }
}
