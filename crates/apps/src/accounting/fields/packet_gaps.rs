//! The times between packets.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::moments::Moments;
use super::packet_sizes::show;
use super::{FieldStore, Fields};

/// Minimum, mean, maximum and deviation of the time between two consecutive packets of one
/// direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketGaps {
    gaps: [Moments; 2],
    /// The time of the last packet of each direction.
    last_ns: [Option<u64>; 2],
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Duration, description).in_group(Group::Gaps)
}

impl Fields for PacketGaps {
    const COLUMNS: &'static [Column] = &[
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
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let way = packet.headers.direction.index();
        if let Some(last_ns) = self.last_ns[way].replace(packet.time_ns) {
            self.gaps[way].add(packet.time_ns.saturating_sub(last_ns));
        }
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        show(&self.gaps, way, out);
    }
}
