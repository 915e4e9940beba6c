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
//! A packet whose transport header states an impossible length is INVALID, and so is a packet of
//! IPv6 whose headers end without a transport protocol.
//!
//! Unlike the kernel, the tracker does not compare sequence numbers, tags or checksums, and a
//! connection times out only with its flow.

use std::collections::BTreeMap;

use flowloom_flow_key::protocol::{AUTHENTICATION, FRAGMENT, NO_NEXT_HEADER, ROUTING, TCP, UDP, UDPLITE};
use flowloom_flow_key::{Direction, FlowKey};
use flowloom_packet::PacketView;
use flowloom_rules::firewall::{ConnectionState, Fragment, Packet};

use super::sctp_tracker::SctpTracker;
use super::tcp_tracker::{NetfilterTcp, Outcome};

/// Headers with options of IPv6.
const HOP_BY_HOP: u8 = 0;
const DESTINATION_OPTIONS: u8 = 60;

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

/// Returns whether the transport header states a length that the packet cannot have; `None` if the
/// bytes are not known. The kernel compares whole datagrams, so nothing is known of a fragment.
fn is_malformed(packet: &Packet<'_>) -> Option<bool> {
    const UDP_BYTES: usize = 8;
    const TCP_BYTES: usize = 20;
    let bytes = packet.network.filter(|_| packet.fragment == Fragment::Whole)?;
    let at = |at: usize| bytes.captured.get(at).copied();
    let word = |first: usize| Some(usize::from(u16::from_be_bytes([at(first)?, at(first + 1)?])));
    let start = bytes.transport as usize;
    let (stated, fixed) = if packet.tuple.source.is_ipv6() { (word(4)?, 40) } else { (word(2)?, 0) };
    // A jumbogram, or a packet that the network card cuts into segments later.
    let length = (stated > 0).then_some(stated + fixed)?.checked_sub(start)?;
    Some(match packet.tuple.protocol {
        UDP => !(UDP_BYTES..=length).contains(&word(start + 4)?),
        // The part of the datagram under the checksum, which must not be absent; 0 means all.
        UDPLITE => {
            let coverage = word(start + 4)?;
            coverage != 0 && !(UDP_BYTES..=length).contains(&coverage) || word(start + 6)? == 0
        }
        TCP => !(TCP_BYTES..=length).contains(&(usize::from(at(start + 12)? >> 4) * 4)),
        _ => false,
    })
}

/// Returns whether the headers of an IPv6 packet end without a transport protocol. For the kernel,
/// some headers that others skip are transport protocols: mobility, HIP, Shim6.
fn has_no_transport(packet: &Packet<'_>) -> bool {
    let captured = packet.network.map_or(&[][..], |bytes| bytes.captured);
    let (mut next, mut offset) = (packet.next_header, 40);
    while let Some(header @ (HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)) = next
    {
        let units = captured.get(offset + 1).map_or(0, |count| usize::from(*count));
        next = captured.get(offset).copied();
        offset += match header {
            FRAGMENT => 8,
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
    }
    next == Some(NO_NEXT_HEADER)
}

fn role(packet: &Packet<'_>) -> Role {
    if packet.fragment.is_later() {
        return Role::Unknown;
    }
    if is_malformed(packet) == Some(true) {
        return Role::Invalid;
    }
    match (packet.tuple.protocol, packet.tcp_flags, packet.icmp) {
        (NO_NEXT_HEADER, ..) if has_no_transport(packet) => Role::Invalid,
        (6, Some(flags), _) => Role::Tcp(flags),
        (1, _, Some((8 | 13 | 15 | 17, _))) | (58, _, Some((128 | 139, _))) => Role::Opens,
        (1, _, Some((0 | 14 | 16 | 18, _))) | (58, _, Some((129 | 140, _))) => Role::Follows,
        // An ICMP error does not belong to the flow of its own addresses. The type of a truncated
        // packet is unknown.
        _ if is_error(packet) => Role::Unknown,
        (1 | 58, _, None) | (6, None, _) => Role::Unknown,
        // Neighbour discovery without redirects, multicast listeners, and the discovery of
        // multicast routers by newer kernels.
        (58, _, Some((130..=136 | 143 | 151 | 152, _))) => Role::Untracked,
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
    use flowloom_rules::firewall::NetworkBytes;

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

    /// Returns the state of a first packet with this transport header. Its IP header states the
    /// length of the header and as many bytes more.
    fn state_of(protocol: u8, is_v6: bool, header: &[u8], more: usize) -> Option<ConnectionState> {
        let (mut bytes, tuple) = if is_v6 {
            (vec![0; 40], FiveTuple::v6([1; 16], [2; 16], 9, 53, protocol))
        } else {
            (vec![0; 20], FiveTuple::v4([1; 4], [2; 4], 9, 53, protocol))
        };
        let transport = bytes.len();
        let stated = header.len() + more + if is_v6 { 0 } else { transport };
        let at = if is_v6 { 4 } else { 2 };
        bytes[at..at + 2].copy_from_slice(&u16::try_from(stated).unwrap().to_be_bytes());
        bytes.extend(header);
        let mut packet = Packet::new(tuple);
        packet.tcp_flags = (protocol == TCP).then_some(SYN);
        packet.icmp = (protocol == 58).then(|| (header[0], header[1]));
        packet.network = Some(NetworkBytes {
            captured: &bytes,
            length: u32::try_from(transport + header.len() + more).unwrap(),
            transport: u32::try_from(transport).unwrap(),
            is_forwarded: false,
        });
        Connection::default().take(&packet, FORTH)
    }

    #[test]
    fn a_packet_with_an_impossible_length_is_invalid() {
        use ConnectionState::{Invalid, New};
        for is_v6 in [false, true] {
            let udp = |length| state_of(UDP, is_v6, &[0, 9, 0, 53, 0, length, 0, 1], 5);
            assert_eq!([0, 7, 8, 13, 14].map(udp), [Invalid, Invalid, New, New, Invalid].map(Some));
            let light = |coverage| state_of(UDPLITE, is_v6, &[0, 9, 0, 53, 0, coverage, 0, 1], 5);
            assert_eq!([0, 7, 8, 13, 14].map(light), [New, Invalid, New, New, Invalid].map(Some));
            let no_sum = state_of(UDPLITE, is_v6, &[0, 9, 0, 53, 0, 8, 0, 0], 5);
            assert_eq!(no_sum, Some(Invalid), "UDP-Lite requires a checksum");
            let tcp = |words: u8| {
                let mut header = [0; 20];
                (header[12], header[13]) = (words << 4, SYN);
                state_of(TCP, is_v6, &header, 5)
            };
            assert_eq!([0, 4, 5, 6, 7].map(tcp), [Invalid, Invalid, New, New, Invalid].map(Some));
        }
    }

    #[test]
    fn states_of_icmpv6_and_of_the_end_of_headers_are_those_of_the_kernel() {
        use ConnectionState::{Invalid, New, Untracked};
        let icmp = |kind| state_of(58, true, &[kind, 0, 0, 1, 0, 1, 0, 1], 8);
        let untracked: Vec<u8> = (128..=u8::MAX).filter(|kind| icmp(*kind) == Some(Untracked)).collect();
        assert_eq!(untracked, [130, 131, 132, 133, 134, 135, 136, 143, 151, 152]);
        assert_eq!([128, 129, 137, 139, 140].map(icmp), [New, Invalid, Invalid, New, Invalid].map(Some));
        assert_eq!(state_of(NO_NEXT_HEADER, true, &[], 0), Some(Invalid));
        assert_eq!(state_of(NO_NEXT_HEADER, false, &[], 0), Some(New), "a protocol like others");
        let mut bytes = [0; 56];
        let behind = |first, bytes: &[u8]| {
            let mut packet = Packet::new(FiveTuple::v6([1; 16], [2; 16], 0, 0, NO_NEXT_HEADER));
            packet.next_header = Some(first);
            let length = u32::try_from(bytes.len()).unwrap();
            packet.network =
                Some(NetworkBytes { captured: bytes, length, transport: length, is_forwarded: false });
            Connection::default().take(&packet, FORTH)
        };
        (bytes[40], bytes[48]) = (60, NO_NEXT_HEADER);
        assert_eq!(behind(0, &bytes), Some(Invalid), "after two headers with options");
        bytes[40] = NO_NEXT_HEADER;
        assert_eq!(behind(140, &bytes), Some(New), "Shim6 is a transport protocol here");
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
