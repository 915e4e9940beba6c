//! Connection states as in the Linux kernel's connection tracking, for rules that match on the
//! state.
//!
//! ```text
//!  first packet, of a kind that can open a connection ─▶ NEW, until the other end answers
//!  any packet of the other end, and all after it      ─▶ ESTABLISHED
//!  a packet that opens nothing, in a closed flow      ─▶ INVALID
//! ```
//!
//! A connection whose opening packet is denied is forgotten, as the kernel forgets a connection
//! whose first packet it drops: [`Connection::settle`] receives the verdict on a packet. The states
//! of TCP are those of [`NetfilterTcp`], those of SCTP come from [`SctpTracker`].
//!
//! RELATED is an ICMP error about a known connection, sent to the host whose packet it quotes. The
//! kernel's helpers for FTP and similar protocols have no counterpart here. An error about any
//! other packet is INVALID. See [`Connection::take_view`].
//!
//! Unlike the kernel, the tracker does not compare sequence numbers, tags or checksums, and a
//! connection times out only with its flow.

use std::collections::BTreeMap;

use flowloom_flow_key::{Direction, FlowKey};
use flowloom_packet::PacketView;
use flowloom_rules::firewall::{ConnectionState, Packet};

use super::sctp_tracker::SctpTracker;
use super::tcp_tracker::{NetfilterTcp, Outcome};

/// The data of a flow that determines the states of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The endpoint that opened it.
    opener: Option<Direction>,
    /// The other endpoint has sent a packet.
    is_answered: bool,
    /// A packet of it has been accepted.
    is_confirmed: bool,
    tcp: NetfilterTcp,
    sctp: SctpTracker,
}

/// The relation of a packet to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It belongs to a connection, and can open one.
    Opens,
    /// It belongs to an open connection only.
    Follows,
    /// TCP: the tracker decides by these flags.
    Tcp(u8),
    /// SCTP: the tracker decides by this chunk.
    Sctp(u8),
    /// It belongs to no connection, even if one is open.
    Invalid,
    /// It is not tracked.
    Untracked,
    /// It concerns another connection, or is a fragment without headers. Its own flow does not
    /// determine the state.
    Unknown,
}

/// Returns whether a packet is an ICMP error message.
fn is_error(packet: &Packet<'_>) -> bool {
    !packet.fragment.is_later()
        && matches!(
            (packet.tuple.protocol, packet.icmp),
            (1, Some((3 | 4 | 5 | 11 | 12, _))) | (58, Some((1..=127, _)))
        )
}

fn role(packet: &Packet<'_>) -> Role {
    if packet.fragment.is_later() {
        return Role::Unknown;
    }
    match (packet.tuple.protocol, packet.tcp_flags, packet.icmp) {
        (6, Some(flags), _) => Role::Tcp(flags),
        (1, _, Some((8 | 13 | 15 | 17, _))) | (58, _, Some((128, _))) => Role::Opens,
        (1, _, Some((0 | 14 | 16 | 18, _))) | (58, _, Some((129, _))) => Role::Follows,
        // An ICMP error does not belong to the flow of its own addresses. The type of a truncated
        // packet is unknown.
        _ if is_error(packet) => Role::Unknown,
        (1 | 58, _, None) | (6, None, _) => Role::Unknown,
        // Neighbour discovery and multicast listener messages.
        (58, _, Some((130..=137 | 143, _))) => Role::Untracked,
        (1 | 58, _, Some(_)) => Role::Invalid,
        (132, ..) => packet.sctp_chunk.map_or(Role::Unknown, Role::Sctp),
        _ => Role::Opens,
    }
}

impl Connection {
    /// Updates the connection with a packet of the flow, and returns the packet's state. Returns
    /// `None` if the flow does not determine it: an ICMP error concerns another flow, and a later
    /// fragment belongs to a packet of another flow.
    pub fn take(&mut self, packet: &Packet<'_>, direction: Direction) -> Option<ConnectionState> {
        let is_reply = self.opener.is_some_and(|opener| opener != direction);
        match role(packet) {
            Role::Unknown => return None,
            Role::Untracked => return Some(ConnectionState::Untracked),
            Role::Invalid => return Some(ConnectionState::Invalid),
            Role::Follows if self.opener.is_none() => return Some(ConnectionState::Invalid),
            Role::Sctp(chunk) if !self.sctp.take(chunk, is_reply, self.opener.is_some()) => {
                return Some(ConnectionState::Invalid);
            }
            Role::Opens | Role::Follows | Role::Sctp(_) => {}
            Role::Tcp(flags) => match self.tcp.take(flags, is_reply, self.is_answered) {
                Outcome::Belongs => {}
                Outcome::Invalid => return Some(ConnectionState::Invalid),
                Outcome::Ends => {
                    *self = Self::default();
                    let state = if is_reply { ConnectionState::Established } else { ConnectionState::New };
                    return Some(state);
                }
                Outcome::Reopens => {
                    *self = Self::default();
                    self.tcp.take(flags, false, false);
                    self.opener = Some(direction);
                    return Some(ConnectionState::New);
                }
            },
        }
        self.opener.get_or_insert(direction);
        self.is_answered |= is_reply;
        Some(if self.is_answered { ConnectionState::Established } else { ConnectionState::New })
    }

    /// Like [`take`](Self::take), for a packet decoded with
    /// [`errors_by_flow`](flowloom_packet::DecodeOptions::errors_by_flow), so that an ICMP error
    /// comes with the connection that it concerns. `packet` describes the view.
    pub fn take_view(&mut self, view: &PacketView<'_>, packet: &Packet<'_>) -> Option<ConnectionState> {
        let headers = &view.headers;
        if headers.is_error_of_flow {
            // The error must go to the host that sent the quoted packet; otherwise it is not
            // related.
            let is_related = self.is_confirmed && headers.tuple().destination == packet.tuple.destination;
            return Some(if is_related { ConnectionState::Related } else { ConnectionState::Invalid });
        }
        if is_error(packet) && view.is_whole() {
            // The error quotes no packet.
            return Some(ConnectionState::Invalid);
        }
        self.take(packet, headers.direction)
    }

    /// Receives the state and the verdict of the packet of the last [`take`](Self::take). A
    /// connection without an accepted packet is forgotten.
    pub fn settle(&mut self, state: Option<ConnectionState>, is_accepted: bool) {
        if state == Some(ConnectionState::Untracked) {
            return;
        }
        if is_accepted {
            self.is_confirmed |= self.opener.is_some();
        } else if !self.is_confirmed {
            *self = Self::default();
        }
    }

    /// Returns whether a packet has opened the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opener.is_some()
    }
}

/// The connections of packets that no engine keeps in flows.
#[derive(Clone, Debug)]
pub struct Connections {
    all: BTreeMap<FlowKey, Connection>,
    count_max: usize,
    /// The last packet of a connection, and its state.
    last: Option<(FlowKey, Option<ConnectionState>)>,
    is_lost: bool,
}

impl Connections {
    /// Returns at most so many connections, at first none.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_apps::firewall::Connections;
    /// assert_eq!(Connections::new(1 << 20).count(), 0);
    /// ```
    #[must_use]
    pub fn new(count_max: usize) -> Self {
        Self { all: BTreeMap::new(), count_max, last: None, is_lost: false }
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Updates the connection of a packet, and returns the packet's state, if it is known.
    /// `is_untracked` tells whether rules leave the packet untracked. Once that is not known, no
    /// later state is. `packet` describes the view.
    pub fn take(
        &mut self,
        view: &PacketView<'_>,
        packet: &Packet<'_>,
        is_untracked: Option<bool>,
    ) -> Option<ConnectionState> {
        self.last = None;
        self.is_lost |= is_untracked.is_none();
        if self.is_lost {
            return None;
        }
        if is_untracked == Some(true) {
            return Some(ConnectionState::Untracked);
        }
        let key = view.headers.key;
        if view.headers.is_error_of_flow {
            // An ICMP error opens no connection.
            return self.all.get(&key).copied().unwrap_or_default().take_view(view, packet);
        }
        if self.all.len() >= self.count_max && !self.all.contains_key(&key) {
            return None;
        }
        let state = self.all.entry(key).or_default().take_view(view, packet);
        self.last = Some((key, state));
        state
    }

    /// Receives the verdict on the packet of the last [`take`](Self::take).
    pub fn settle(&mut self, is_accepted: bool) {
        if let Some((key, state)) = self.last.take()
            && let Some(connection) = self.all.get_mut(&key)
        {
            connection.settle(state, is_accepted);
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::FiveTuple;

    use super::*;

    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;

    const FORTH: Direction = Direction::LowToHigh;
    const BACK: Direction = Direction::HighToLow;

    fn tcp(flags: u8) -> Packet<'static> {
        let mut packet = Packet::new(FiveTuple::v4([1; 4], [2; 4], 9, 80, 6));
        packet.tcp_flags = Some(flags);
        packet
    }

    #[test]
    fn a_connection_is_new_until_it_is_answered() {
        use ConnectionState::{Established, Invalid, New};
        let mut connection = Connection::default();
        let mut take = |flags, direction| connection.take(&tcp(flags), direction);
        assert_eq!(take(SYN, FORTH), Some(New));
        assert_eq!(take(SYN, FORTH), Some(New), "sent again");
        assert_eq!(take(SYN | ACK, BACK), Some(Established));
        assert_eq!(take(ACK, FORTH), Some(Established));
        assert_eq!(take(SYN | FIN, FORTH), Some(Invalid));
        assert_eq!(take(0, FORTH), Some(Invalid));
        assert_eq!(take(FIN | ACK, BACK), Some(Established));
    }

    #[test]
    fn segment_without_a_connection_is_invalid() {
        for flags in [SYN | ACK, RST, RST | ACK, FIN | ACK, FIN] {
            assert_eq!(
                Connection::default().take(&tcp(flags), FORTH),
                Some(ConnectionState::Invalid),
                "{flags}"
            );
        }
        assert_eq!(Connection::default().take(&tcp(ACK), FORTH), Some(ConnectionState::New), "picked up");
        let icmp = |kind| {
            let mut packet = Packet::new(FiveTuple::v4([1; 4], [2; 4], 0, 0, 1));
            packet.icmp = Some((kind, 0));
            packet
        };
        let mut echo = Connection::default();
        assert_eq!(echo.take(&icmp(0), BACK), Some(ConnectionState::Invalid));
        assert_eq!(echo.take(&icmp(8), FORTH), Some(ConnectionState::New));
        assert_eq!(echo.take(&icmp(0), BACK), Some(ConnectionState::Established));
        assert_eq!(echo.take(&icmp(3), FORTH), None, "an error is about another flow");
    }

    #[test]
    fn a_denied_packet_opens_nothing() {
        use ConnectionState::{Established, Invalid, New};
        let mut connection = Connection::default();
        let mut take = |flags, direction, is_accepted| {
            let state = connection.take(&tcp(flags), direction);
            connection.settle(state, is_accepted);
            state
        };
        assert_eq!(take(SYN, FORTH, false), Some(New));
        assert_eq!(take(SYN | ACK, BACK, true), Some(Invalid), "the SYN did not pass");
        assert_eq!(take(SYN, FORTH, true), Some(New));
        assert_eq!(take(SYN | ACK, BACK, false), Some(Established));
        assert_eq!(take(ACK, FORTH, true), Some(Established), "known from the SYN on");
    }

    #[test]
    fn associations_of_sctp_begin_with_init() {
        use ConnectionState::{Established, Invalid, New};
        let chunk = |chunk| {
            let mut packet = Packet::new(FiveTuple::v4([1; 4], [2; 4], 9, 80, 132));
            packet.sctp_chunk = chunk;
            packet
        };
        let mut connection = Connection::default();
        assert_eq!(connection.take(&chunk(Some(0)), FORTH), Some(Invalid), "data");
        assert_eq!(connection.take(&chunk(Some(1)), FORTH), Some(New));
        assert_eq!(connection.take(&chunk(Some(2)), BACK), Some(Established));
        assert_eq!(Connection::default().take(&chunk(None), FORTH), None, "not known");
    }
}
