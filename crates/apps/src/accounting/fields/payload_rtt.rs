//! Round-trip times of TCP data: from a segment to its acknowledgement.

use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::moments::Moments;
use super::{FieldStore, Fields, is_before};
use crate::accounting::connection::{ACK, RST, SYN, Segment};

/// Minimum, mean, maximum and deviation of the times from a segment with data to its
/// acknowledgement: the round trip between the capture point and the receiver, including the
/// receiver's delay before it acknowledges.
///
/// One segment is timed at a time, and never a retransmitted one [RFC 6298 §3, Karn's algorithm]. A
/// segment is timed if its data is new and no other is being timed. The measurement ends with the
/// first acknowledgement of all its data, and is abandoned when data before that end is sent again,
/// or when that acknowledgement is stamped before the segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadRtt {
    sides: [DirectionTimes; 2],
}

/// The data of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirectionTimes {
    times: Moments,
    /// The number after all data so far, if there was data.
    highest: Option<u32>,
    /// The end of the segment that is timed, and its time.
    timed: Option<(u32, u64)>,
}

impl DirectionTimes {
    #[inline(always)]
    fn send(&mut self, begin: u32, end: u32, stamped_ns: u64) {
        let is_new = self.highest.is_none_or(|highest| !is_before(begin, highest));
        if is_new {
            self.timed.get_or_insert((end, stamped_ns));
        } else if self.timed.is_some_and(|(end, _)| is_before(begin, end)) {
            self.timed = None;
        }
        if self.highest.is_none_or(|highest| is_before(highest, end)) {
            self.highest = Some(end);
        }
    }

    #[inline(always)]
    fn acknowledge(&mut self, number: u32, stamped_ns: u64) {
        if let Some((end, sent_ns)) = self.timed
            && !is_before(number, end)
        {
            if let Some(rtt_ns) = stamped_ns.checked_sub(sent_ns) {
                self.times.add(rtt_ns);
            }
            self.timed = None;
        }
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Duration, description).in_group(Group::Rtt)
}

impl Fields for PayloadRtt {
    const COLUMNS: &'static [Column] = &[
        column(
            "rtt_min",
            "The shortest time from TCP data of the source to its acknowledgement. One segment is timed at a \
             time, as TCP does, and none that was sent again.",
        ),
        column("rtt_mean", "The mean of these times, rounded down."),
        column("rtt_max", "The longest of these times."),
        column("rtt_deviation", "The standard deviation of these times, rounded down."),
        column(
            "reverse_rtt_min",
            "The shortest time from TCP data of the destination to its acknowledgement.",
        ),
        column("reverse_rtt_mean", "The mean of these times, rounded down."),
        column("reverse_rtt_max", "The longest of these times."),
        column("reverse_rtt_deviation", "The standard deviation of these times, rounded down."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let headers = &packet.headers;
        let flags = headers.tcp_flags;
        if headers.key.protocol() != TCP || headers.later_fragment || flags & RST != 0 {
            return;
        }
        let Some(segment) = Segment::from_packet(packet) else { return };
        let way = headers.direction;
        if flags & ACK != 0 {
            self.sides[way.reversed().index()].acknowledge(segment.acknowledgement, packet.stamped_ns);
        }
        if headers.payload_bytes > 0 {
            let begin = segment.sequence.wrapping_add(u32::from(flags & SYN != 0));
            let end = begin.wrapping_add(headers.payload_bytes);
            self.sides[way.index()].send(begin, end, packet.stamped_ns);
        }
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        super::packet_sizes::show(&self.sides.map(|side| side.times), way, out);
    }
}
