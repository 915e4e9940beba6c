//! The syntax tree of a filter.

use std::net::Ipv6Addr;

use crate::names;

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    /// Tests joined from left to right; a list, so that a long filter is not deeply nested.
    Chain(Box<Expr>, Vec<(Join, Expr)>),
    Not(Box<Expr>),
    Primitive(Primitive),
    Relation(Arith, Relation, Arith),
}

/// How a test is joined to the preceding ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    And,
    Or,
}

/// A primitive and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Primitive {
    pub(crate) kind: PrimitiveTest,
    pub(crate) at: usize,
}

/// The test of a primitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrimitiveTest {
    /// A protocol by its name.
    Protocol(Protocol),
    /// `ether proto`, `ip proto`, `ip6 proto`, `proto`.
    Number(NumberOf, u32),
    V4 {
        protocol: Option<Protocol>,
        way: Way,
        address: u32,
        mask: u32,
    },
    V6 {
        way: Way,
        address: Ipv6Addr,
        bits: u8,
    },
    Mac {
        way: Way,
        address: [u8; 6],
    },
    Ports {
        protocol: Option<u8>,
        way: Way,
        first: u16,
        last: u16,
    },
    EtherMulticast,
    EtherBroadcast,
    IpMulticast,
    Ip6Multicast,
    /// `less`, as `true`, and `greater`.
    Length {
        at_most: bool,
        bytes: u32,
    },
    Vlan(Option<u32>),
    Mpls(Option<u32>),
    PppoeDiscovery,
    PppoeSession(Option<u32>),
    Outbound(bool),
}

/// The kind of number in `proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberOf {
    Ether,
    Ip,
    Ip6,
    Either,
}

/// Protocols with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Ether,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    /// Other Ethertypes.
    EtherType(u16),
    /// Other protocols of IPv4, or of both families.
    Transport {
        number: u8,
        in_ip6: bool,
    },
}

impl Protocol {
    pub(crate) fn named(word: &str) -> Option<Self> {
        Some(match word {
            "ether" | "link" => Self::Ether,
            "ip" => Self::Ip,
            "ip6" => Self::Ip6,
            "arp" => Self::Arp,
            "rarp" => Self::Rarp,
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            "sctp" => Self::Sctp,
            "icmp" => Self::Icmp,
            "icmp6" => Self::Icmp6,
            "igmp" => Self::Transport { number: 2, in_ip6: false },
            "igrp" => Self::Transport { number: 9, in_ip6: false },
            "vrrp" | "carp" => Self::Transport { number: 112, in_ip6: false },
            "pim" => Self::Transport { number: 103, in_ip6: true },
            "ah" => Self::Transport { number: 51, in_ip6: true },
            "esp" => Self::Transport { number: 50, in_ip6: true },
            "aarp" | "decnet" | "lat" | "moprc" | "mopdl" | "sca" | "atalk" => {
                Self::EtherType(names::ether_type(word)?)
            }
            _ => return None,
        })
    }

    pub(crate) fn transport(self) -> Option<u8> {
        match self {
            Self::Tcp => Some(6),
            Self::Udp => Some(17),
            Self::Sctp => Some(132),
            _ => None,
        }
    }
}

/// The end of a packet that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Source,
    Destination,
    Either,
    Both,
}

/// Relations between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Greater,
    Less,
    AtLeast,
    AtMost,
}

/// Arithmetic of 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arith {
    Number(u32),
    Length,
    Load { protocol: Protocol, index: Box<Arith>, bytes: u8 },
    Negate(Box<Arith>),
    Binary(Box<Arith>, Operator, Box<Arith>),
}

/// Operators, by their symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    Xor,
    And,
    Left,
    Right,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}
