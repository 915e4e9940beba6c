//! The sizes of packets.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use super::moments::Moments;
use super::{FieldColumn, FieldGroup, FieldStore, FieldValue, Fields};

/// Minimum, mean, maximum and deviation of the size of IP packets, by direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSizes {
    sizes: [Moments; 2],
}

/// Appends the values of both directions, the source's first.
pub(super) fn show(moments: &[Moments; 2], way: Direction, out: &mut Vec<FieldValue>) {
    for way in [way, way.reversed()] {
        match moments[way.index()].shown() {
            Some(values) => out.extend(values.map(FieldValue::Number)),
            None => out.extend([FieldValue::None, FieldValue::None, FieldValue::None, FieldValue::None]),
        }
    }
}

impl Fields for PacketSizes {
    const GROUP: Option<FieldGroup> = Some(FieldGroup::Sizes);

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        self.sizes[packet.headers.direction.index()].add(u64::from(packet.ip_bytes()));
    }

    fn columns(out: &mut Vec<FieldColumn>) {
        let column = |name, description| FieldColumn::new(name, "bytes", description);
        out.extend([
            column("size_min", "The size of the smallest IP packet from the source.")
                .with_ipfix(25, "minimumIpTotalLength"),
            column("size_mean", "The mean size of these packets, rounded down."),
            column("size_max", "The size of the largest of these packets.")
                .with_ipfix(26, "maximumIpTotalLength"),
            column("size_deviation", "The standard deviation of these sizes, rounded down."),
            column("reverse_size_min", "The size of the smallest IP packet from the destination.")
                .with_ipfix(25, "reverseMinimumIpTotalLength"),
            column("reverse_size_mean", "The mean size of these packets, rounded down."),
            column("reverse_size_max", "The size of the largest of these packets.")
                .with_ipfix(26, "reverseMaximumIpTotalLength"),
            column("reverse_size_deviation", "The standard deviation of these sizes, rounded down."),
        ]);
    }

    fn values(&self, way: Direction, out: &mut Vec<FieldValue>) {
        show(&self.sizes, way, out);
    }
}
