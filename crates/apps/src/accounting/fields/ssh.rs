//! The software of both ends of SSH.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::application::first_messages::{FirstMessages, Message};
use super::application::{Reading, ssh_banner};
use super::memory::Content;
use super::{FieldStore, Fields};

/// The software that both ends of an SSH connection announce.
#[derive(Clone, Debug, Default)]
pub struct Ssh {
    banners: FirstMessages<Banner>,
}

/// The text after the protocol version.
#[derive(Clone, Debug, PartialEq)]
struct Banner(String);

impl Message for Banner {
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self> {
        match ssh_banner::read(bytes, is_all) {
            Reading::Found(software) => Reading::Found(Self(software)),
            Reading::More => Reading::More,
            Reading::Other => Reading::Other,
        }
    }
}

impl Content for Banner {
    fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Text, description).in_group(Group::Ssh)
}

impl Fields for Ssh {
    const COLUMNS: &'static [Column] = &[
        column("ssh_client", "The software and comments in the SSH identification of the source."),
        column("ssh_server", "The software and comments in the SSH identification of the destination."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        self.banners.add(packet, store);
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        let mut banners = self.banners.messages();
        for way in [way, way.reversed()] {
            let software = banners[way.index()].take().map(|Banner(software)| software);
            out.push(Value::from_text(software, self.banners.is_dropped_from(way)));
        }
    }
}
