//! Sizes and directions of the first packets, which distinguish protocols without their contents.

use std::fmt::Write;

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::{FieldStore, Fields};

/// The sizes of the first `N` IP packets with their directions. `N` is at most 32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstPackets<const N: usize = 20> {
    sizes: [u32; N],
    /// Bit `i` is set if packet `i` came from the high endpoint.
    from_high: u32,
    count: u8,
}

impl<const N: usize> Default for FirstPackets<N> {
    fn default() -> Self {
        const { assert!(N <= 32, "directions are the bits of a word") };
        Self { sizes: [0; N], from_high: 0, count: 0 }
    }
}

impl<const N: usize> FirstPackets<N> {
    #[inline(always)]
    fn add(&mut self, size: u32, from_high: bool) {
        let at = usize::from(self.count);
        if let Some(place) = self.sizes.get_mut(at) {
            *place = size;
            self.from_high |= u32::from(from_high) << at;
            self.count += 1;
        }
    }
}

impl<const N: usize> Fields for FirstPackets<N> {
    const COLUMNS: &'static [Column] = &[Column::new("first_sizes", Kind::Text, "The bytes of the first IP packets, in their order: positive from the source, negative from the destination.").in_group(Group::Splt)];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        self.add(packet.ip_bytes(), packet.headers.direction == Direction::HighToLow);
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        let mut text = String::new();
        for (at, size) in self.sizes[..usize::from(self.count)].iter().enumerate() {
            let is_back = (self.from_high >> at & 1 != 0) != (way == Direction::HighToLow);
            let _ =
                write!(text, "{}{}{size}", if at > 0 { " " } else { "" }, if is_back { "-" } else { "" });
        }
        out.push(Value::Text(text.into()));
    }
}
