//! The times between packets.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use super::moments::Moments;
use super::packet_sizes::show;
use super::{FieldColumn, FieldGroup, FieldStore, FieldValue, Fields};

/// Minimum, mean, maximum and deviation of the time between two consecutive packets of one
/// direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketGaps {
    gaps: [Moments; 2],
    /// The times of the first and the last packet of each direction.
    times_ns: [Option<(u64, u64)>; 2],
}

impl Fields for PacketGaps {
    const GROUP: Option<FieldGroup> = Some(FieldGroup::Gaps);

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let way = packet.headers.direction.index();
        match &mut self.times_ns[way] {
            Some((_, last)) => {
                self.gaps[way].add(packet.time_ns.saturating_sub(*last));
                *last = packet.time_ns;
            }
            none => *none = Some((packet.time_ns, packet.time_ns)),
        }
    }

    fn compose(&mut self, later: &Self) -> bool {
        for way in 0..2 {
            let Some((first, last)) = later.times_ns[way] else { continue };
            match &mut self.times_ns[way] {
                Some((_, before)) => {
                    self.gaps[way].add(first.saturating_sub(*before));
                    *before = last;
                }
                none => *none = later.times_ns[way],
            }
            self.gaps[way].merge(&later.gaps[way]);
        }
        true
    }

    fn columns(out: &mut Vec<FieldColumn>) {
        let column = |name, description| FieldColumn::new(name, "ns", description);
        out.extend([
            column("gap_min", "The shortest time between two consecutive packets from the source."),
            column("gap_mean", "The mean of these times, rounded down."),
            column("gap_max", "The longest of these times."),
            column("gap_deviation", "The standard deviation of these times, rounded down."),
            column(
                "reverse_gap_min",
                "The shortest time between two consecutive packets from the \
                destination.",
            ),
            column("reverse_gap_mean", "The mean of these times, rounded down."),
            column("reverse_gap_max", "The longest of these times."),
            column("reverse_gap_deviation", "The standard deviation of these times, rounded down."),
        ]);
    }

    fn values(&self, way: Direction, out: &mut Vec<FieldValue>) {
        show(&self.gaps, way, out);
    }
}
