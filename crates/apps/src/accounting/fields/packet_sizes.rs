//! The sizes of packets.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value, element};

use super::moments::Moments;
use super::{FieldStore, Fields};

/// Minimum, mean, maximum and deviation of the size of IP packets, by direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSizes {
    sizes: [Moments; 2],
}

/// Appends the values of both directions, the source's first.
pub(super) fn show(moments: &[Moments; 2], way: Direction, out: &mut Vec<Value>) {
    for way in [way, way.reversed()] {
        match moments[way.index()].shown() {
            Some(values) => out.extend(values.map(Value::Number)),
            None => out.extend([Value::None, Value::None, Value::None, Value::None]),
        }
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Bytes, description).in_group(Group::Sizes)
}

impl Fields for PacketSizes {
    const COLUMNS: &'static [Column] = &[
        column("size_min", "The size of the smallest IP packet from the source.")
            .with_elements(element::SIZE_MIN),
        column("size_mean", "The mean size of these packets, rounded down."),
        column("size_max", "The size of the largest of these packets.").with_elements(element::SIZE_MAX),
        column("size_deviation", "The standard deviation of these sizes, rounded down."),
        column("reverse_size_min", "The size of the smallest IP packet from the destination.")
            .with_elements(element::REVERSE_SIZE_MIN),
        column("reverse_size_mean", "The mean size of these packets, rounded down."),
        column("reverse_size_max", "The size of the largest of these packets.")
            .with_elements(element::REVERSE_SIZE_MAX),
        column("reverse_size_deviation", "The standard deviation of these sizes, rounded down."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        self.sizes[packet.headers.direction.index()].add(u64::from(packet.ip_bytes()));
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        show(&self.sizes, way, out);
    }
}
