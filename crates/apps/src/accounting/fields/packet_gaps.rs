//! The times between packets.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::moments::Moments;
use super::packet_sizes::show;
use super::{FieldStore, Fields};

/// Minimum, mean, maximum and deviation of the time between two consecutive packets of one
/// direction, in the order of their time stamps.
///
/// The capture may contain a packet one position too late. One that is stamped before the two
/// latest packets of its direction is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketGaps {
    sides: [DirectionGaps; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirectionGaps {
    /// All gaps but the last, into which a packet may still fall.
    gaps: Moments,
    /// The stamp of the latest packet, and the gap before it.
    latest: Option<(u64, Option<u64>)>,
}

impl DirectionGaps {
    #[inline(always)]
    fn add(&mut self, stamped_ns: u64) {
        let Some((last_ns, gap_ns)) = self.latest else {
            self.latest = Some((stamped_ns, None));
            return;
        };
        let Some(back_ns) = last_ns.checked_sub(stamped_ns).filter(|&back_ns| back_ns > 0) else {
            if let Some(gap_ns) = gap_ns {
                self.gaps.add(gap_ns);
            }
            self.latest = Some((stamped_ns, Some(stamped_ns - last_ns)));
            return;
        };
        match gap_ns.map(|gap_ns| gap_ns.checked_sub(back_ns)) {
            Some(Some(before_ns)) => self.gaps.add(before_ns),
            Some(None) => return,
            None => {}
        }
        self.latest = Some((last_ns, Some(back_ns)));
    }

    fn shown(&self) -> Moments {
        let mut gaps = self.gaps;
        if let Some((_, Some(gap_ns))) = self.latest {
            gaps.add(gap_ns);
        }
        gaps
    }
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
        self.sides[packet.headers.direction.index()].add(packet.stamped_ns);
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        show(&self.sides.map(|side| side.shown()), way, out);
    }
}
