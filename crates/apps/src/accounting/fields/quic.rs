//! The version of QUIC.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::application::quic_version;
use super::{FieldStore, Fields};

const UDP: u8 = 17;
/// Number of datagrams examined per direction. A handshake begins with long headers, and a version
/// negotiation or a retry precedes the final version.
const DATAGRAMS_MAX: u8 = 8;

/// The QUIC version in a flow's first datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quic {
    sides: [Side; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    version: Option<u32>,
    /// Number of datagrams examined, including the one with the version.
    datagrams: u8,
}

impl Side {
    fn is_decided(self) -> bool {
        self.version.is_some() || self.datagrams == DATAGRAMS_MAX
    }
}

impl Fields for Quic {
    const COLUMNS: &'static [Column] = &[Column::new("quic_version", Kind::Text, "The QUIC version in the first long header of the destination, or of the source if that has none: `1`, `2`, `draft-29`, `Q050`.").in_group(Group::Quic)];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let headers = &packet.headers;
        let side = &mut self.sides[headers.direction.index()];
        if headers.key.protocol() == UDP
            && !headers.later_fragment
            && headers.payload_bytes > 0
            && !side.is_decided()
        {
            side.datagrams += 1;
            side.version = quic_version::read(packet.payload());
        }
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        let version = self.sides[way.reversed().index()].version.or(self.sides[way.index()].version);
        out.push(Value::from_text(version.map(quic_version::name), false));
    }
}
