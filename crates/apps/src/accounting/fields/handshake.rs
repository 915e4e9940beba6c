//! Round-trip times of the TCP handshake.

use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::{FieldStore, Fields};
use crate::accounting::connection::{ACK, RST, SYN};

/// The times of a handshake: from the last SYN before the answer to that answer, and from the
/// answer to the first ACK of the opening side. Their sum is the round-trip time between both ends,
/// regardless of the capture point. The order of the packets is that of their time stamps: the
/// capture may contain the ACK before the SYN-ACK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The last SYN, and its direction.
    syn: Option<(u64, Direction)>,
    answer_ns: Option<u64>,
    /// The ACK, before the answer one that may belong to it. Both complete the handshake.
    ack_ns: Option<u64>,
}

impl Handshake {
    /// Returns the time from SYN to SYN+ACK in nanoseconds: the round trip to the answering side.
    #[must_use]
    pub fn answer_time_ns(&self) -> Option<u64> {
        Some(self.answer_ns?.saturating_sub(self.syn?.0))
    }

    /// Returns the time from SYN+ACK to ACK in nanoseconds: the round trip to the opening side.
    #[must_use]
    pub fn ack_time_ns(&self) -> Option<u64> {
        self.ack_ns?.checked_sub(self.answer_ns?)
    }

    fn is_over(&self) -> bool {
        self.answer_ns.is_some() && self.ack_ns.is_some()
    }

    #[cold]
    #[inline(never)]
    fn take(&mut self, packet: &PacketView<'_>) {
        let (flags, way) = (packet.headers.tcp_flags, packet.headers.direction);
        let stamped_ns = packet.stamped_ns;
        match (flags & (SYN | RST | ACK), self.syn) {
            (SYN, None) => self.syn = Some((stamped_ns, way)),
            (SYN, Some((_, opener))) if way == opener && self.answer_ns.is_none() => {
                (self.syn, self.ack_ns) = (Some((stamped_ns, way)), None);
            }
            (flags, Some((_, opener))) if flags == SYN | ACK && way != opener => {
                self.answer_ns.get_or_insert(stamped_ns);
                self.ack_ns = self.ack_ns.filter(|&ack_ns| ack_ns >= stamped_ns);
            }
            // With the FIN of an opening side that sends nothing.
            (ACK, Some((_, opener))) if way == opener => {
                self.ack_ns.get_or_insert(stamped_ns);
            }
            _ => {}
        }
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Duration, description).in_group(Group::Handshake)
}

impl Fields for Handshake {
    const COLUMNS: &'static [Column] = &[
        column(
            "handshake_rtt",
            "The time from the SYN to the ACK of its SYN+ACK: the round-trip time of the handshake.",
        ),
        column("handshake_answer", "The part of `handshake_rtt` from the SYN to the SYN+ACK."),
        column("handshake_ack", "The part of `handshake_rtt` from the SYN+ACK to the ACK."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let headers = &packet.headers;
        let is_over = self.is_over() || (self.syn.is_none() && headers.tcp_flags & SYN == 0);
        if !is_over && headers.key.protocol() == TCP && !headers.later_fragment {
            self.take(packet);
        }
    }

    fn values(&self, _way: Direction, out: &mut Vec<Value>) {
        let (answer, ack) = (self.answer_time_ns(), self.ack_time_ns());
        let both = answer.zip(ack).map(|(answer, ack)| answer + ack);
        out.extend([both.into(), answer.into(), ack.into()]);
    }
}
