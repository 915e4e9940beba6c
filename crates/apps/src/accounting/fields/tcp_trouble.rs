//! Losses and disorder of TCP segments.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::{FieldStore, Fields, is_before};
use crate::accounting::connection::{FIN, RST, SYN, Segment};

const TCP: u8 = 6;

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    /// The number after everything sent so far, if anything was sent.
    highest: Option<u32>,
    /// The last gap in the numbers: its start and its end.
    hole: Option<(u32, u32)>,
    retransmissions: u64,
    out_of_order: u64,
    zero_windows: u64,
}

/// Counts of retransmitted and out-of-order segments, and of closed windows, by direction.
///
/// A segment with data, SYN or FIN is *out of order* if it lies in the last gap of the sequence
/// numbers, and a *retransmission* if all of it was sent before. A *zero window* is a segment that
/// announces one, without SYN, FIN and RST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpTrouble {
    sides: [Side; 2],
}

impl Side {
    #[inline(always)]
    fn take(&mut self, begin: u32, end: u32) {
        let Some(highest) = self.highest else {
            self.highest = Some(end);
            return;
        };
        if is_before(highest, end) {
            if is_before(highest, begin) {
                self.hole = Some((highest, begin));
            }
            self.highest = Some(end);
            return;
        }
        let fills = self.hole.filter(|&(from, to)| !is_before(begin, from) && !is_before(to, end));
        if let Some((from, to)) = fills {
            self.out_of_order += 1;
            // Keep one remaining gap: the part after the segment if the segment starts at the start
            // of the gap, otherwise the part before it.
            self.hole = if begin == from { Some((end, to)) } else { Some((from, begin)) };
            self.hole = self.hole.filter(|(from, to)| from != to);
        } else {
            self.retransmissions += 1;
        }
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Packets, description).in_group(Group::Tcp)
}

impl Fields for TcpTrouble {
    const COLUMNS: &'static [Column] = &[
        column(
            "retransmissions",
            "TCP segments from the source that repeat only sequence numbers already sent.",
        ),
        column(
            "out_of_order",
            "TCP segments from the source that fill an earlier gap in the sequence numbers.",
        ),
        column("zero_windows", "TCP segments from the source that announce a window of 0."),
        column("reverse_retransmissions", "Retransmissions from the destination."),
        column("reverse_out_of_order", "Segments out of order from the destination."),
        column("reverse_zero_windows", "Zero windows that the destination announces."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let headers = &packet.headers;
        if headers.key.protocol() != TCP || headers.later_fragment || headers.tcp_flags & RST != 0 {
            return;
        }
        let Some(segment) = Segment::of(packet) else { return };
        let side = &mut self.sides[headers.direction.index()];
        let (begin, end) = segment.range(headers.tcp_flags);
        if begin != end {
            side.take(begin, end);
        }
        side.zero_windows += u64::from(segment.is_closed() && headers.tcp_flags & (SYN | FIN) == 0);
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        for way in [way, way.reversed()] {
            let side = &self.sides[way.index()];
            let counts = [side.retransmissions, side.out_of_order, side.zero_windows];
            out.extend(counts.map(Value::Number));
        }
    }
}
