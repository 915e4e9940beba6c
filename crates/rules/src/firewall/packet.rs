//! A packet as a policy sees it.

use super::contents::NetworkBytes;
use flowloom_flow_key::FiveTuple;
use flowloom_flow_key::protocol::{self, has_ports};

/// The part of a datagram that a packet contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// The whole datagram.
    #[default]
    Whole,
    /// The first part, with the transport header.
    First,
    /// A part without the transport header.
    Later,
    /// Such a part that begins at byte 8 of the datagram. iptables drops it if a rule asks for the
    /// header of TCP.
    Second,
}

impl Fragment {
    /// Returns the bit in a set of parts.
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Self::Whole => 1,
            Self::First => 2,
            Self::Later => 4,
            Self::Second => 8,
        }
    }

    /// Returns whether it has no transport header.
    #[must_use]
    pub const fn is_later(self) -> bool {
        matches!(self, Self::Later | Self::Second)
    }
}

/// The connection tracking state of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// It begins a connection, or belongs to one without an answer.
    New,
    /// It belongs to a connection that has sent packets in both directions.
    Established,
    /// It begins a connection, or is an error, that belongs to a known connection.
    Related,
    /// It belongs to no possible connection.
    Invalid,
    /// It is not tracked.
    Untracked,
}

impl ConnectionState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::New, Self::Established, Self::Related, Self::Invalid, Self::Untracked];

    /// Returns the bit in a set of states.
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Self::New => 1,
            Self::Established => 2,
            Self::Related => 4,
            Self::Invalid => 8,
            Self::Untracked => 16,
        }
    }

    /// Returns its name in iptables, in capitals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Established => "ESTABLISHED",
            Self::Related => "RELATED",
            Self::Invalid => "INVALID",
            Self::Untracked => "UNTRACKED",
        }
    }

    /// Returns the state with a name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(name))
    }
}

/// The known properties of a packet. `None` means "not known": a condition on the field may match.
///
/// Fields may be added in any version: create one with [`Packet::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet<'a> {
    /// Addresses, protocol, and ports where there are any.
    pub tuple: FiveTuple,
    /// The packet contains ports.
    pub has_ports: bool,
    /// The part of a datagram.
    pub fragment: Fragment,
    /// Of a later fragment, ports, flags and ICMP type are the bytes of its payload in their
    /// places, which only some rules [read](super::Conditions::reads_later).
    pub has_later_bytes: bool,
    /// TCP flags.
    pub tcp_flags: Option<u8>,
    /// Type and code of ICMP.
    pub icmp: Option<(u8, u8)>,
    /// Type of the first SCTP chunk, which tracking of associations uses.
    pub sctp_chunk: Option<u8>,
    /// State of its connection.
    pub state: Option<ConnectionState>,
    /// Interface by which it entered; empty if there is none.
    pub input: Option<&'a str>,
    /// Interface by which it leaves; empty if there is none.
    pub output: Option<&'a str>,
    /// VLAN; 0 means none.
    pub vlan: Option<u16>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Explicit congestion notification.
    pub ecn: Option<u8>,
    /// Size of the IP packet, in bytes.
    pub length: Option<u32>,
    /// Time to live, or hop limit.
    pub ttl: Option<u8>,
    /// The next header that the fixed IPv6 header names.
    pub next_header: Option<u8>,
    /// Sender's MAC address.
    pub source_mac: Option<[u8; 6]>,
    /// Offset of an authentication header of IPv6 before the transport header.
    pub authentication: Option<u32>,
    /// The bytes of the packet.
    pub network: Option<NetworkBytes<'a>>,
}

impl Packet<'_> {
    /// Returns a whole packet of which only the five-tuple is known.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_rules::{classifier::FiveTuple, firewall::Packet};
    /// let packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, 80, 6));
    /// assert!(packet.has_ports && packet.tcp_flags.is_none());
    /// ```
    #[must_use]
    pub const fn new(tuple: FiveTuple) -> Self {
        Self {
            has_ports: has_ports(tuple.protocol),
            tuple,
            fragment: Fragment::Whole,
            has_later_bytes: false,
            tcp_flags: None,
            icmp: None,
            sctp_chunk: None,
            state: None,
            input: None,
            output: None,
            vlan: None,
            dscp: None,
            ecn: None,
            length: None,
            ttl: None,
            // Without extension headers, unless the caller knows of some.
            next_header: if tuple.source.is_ipv6() { Some(tuple.protocol) } else { None },
            source_mac: None,
            authentication: None,
            network: None,
        }
    }

    /// Returns all fields of the packet except its interfaces and bytes, which are stored
    /// elsewhere.
    #[must_use]
    pub const fn detached(self) -> Packet<'static> {
        Packet { input: None, output: None, network: None, ..self }
    }

    /// Returns the packet as a fragment. A later fragment has no ports.
    #[must_use]
    pub const fn with_fragment(mut self, fragment: Fragment) -> Self {
        self.fragment = fragment;
        if self.tuple.source.is_ipv6() && !matches!(fragment, Fragment::Whole) {
            self.next_header = Some(protocol::FRAGMENT);
        }
        self.has_ports = has_ports(self.tuple.protocol) && !fragment.is_later();
        self
    }
}
