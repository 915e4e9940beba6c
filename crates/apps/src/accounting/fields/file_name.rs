//! The file that a record's first packet was read from.

use flowloom_flow_key::Direction;
use flowloom_packet::{InterfaceName, PacketView};
use flowloom_record::{Column, Group, Kind, Value};

use super::application::text::CUT;
use super::{FieldStore, Fields};

/// The file of the first packet, by the name that a set of captures gives its packets in the place
/// of their interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    file: Option<InterfaceName>,
}

impl Fields for FileName {
    const COLUMNS: &'static [Column] = &[Column::new(
        "file",
        Kind::Text,
        "The capture that the record's first packet was read from; `…` for the files after the first 1,048,575.",
    )
    .in_group(Group::File)];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        self.file.get_or_insert(packet.headers.interface);
    }

    fn values(&self, _way: Direction, out: &mut Vec<Value>) {
        let name = |file: InterfaceName| file.as_str().unwrap_or(CUT).to_owned();
        out.push(Value::from_text(self.file.map(name), false));
    }
}
