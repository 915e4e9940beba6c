//! Encapsulations by IP protocol number, and those recognised only by their position.

use super::Announced::{Inside, Protocols};
use super::Carries::{AnyIp, EtherTypeAt, Ethernet, Ipv4, Ipv6};
use super::{Encapsulation, Follows, Header, carries};
use crate::drop_reason::DropReason;
pub(in super::super) use flowloom_flow_key::protocol::AUTHENTICATION;

/// Encapsulations by IP protocol.
pub static PROTOCOLS: &[Encapsulation] = &[
    Encapsulation {
        name: "ipv4",
        announced: Protocols(&[4]),
        document: "RFC 2003 §3",
        header: Header::Walk(|layers, at| layers.ipv4(at)),
        examples: &[carries(&[], Ipv4)],
    },
    Encapsulation {
        name: "ipv6",
        announced: Protocols(&[41]),
        document: "RFC 2473 §3, RFC 4213 §3",
        header: Header::Walk(|layers, at| layers.ipv6(at)),
        examples: &[carries(&[], Ipv6)],
    },
    Encapsulation {
        name: "gre",
        announced: Protocols(&[47]),
        document: "RFC 2784 §2, RFC 2890 §2, RFC 1701",
        header: Header::Walk(|layers, at| layers.gre(at)),
        examples: &[
            carries(&[0, 0, 0, 0], EtherTypeAt(2)),
            carries(&[0xB0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], EtherTypeAt(2)),
        ],
    },
    Encapsulation {
        name: "esp",
        announced: Protocols(&[50]),
        document: "RFC 4303 §2, RFC 2410",
        // The decoder removes null encryption earlier, so this payload is encrypted.
        header: Header::Walk(|_, _| Err(DropReason::Encrypted)),
        examples: &[
            super::Example {
                header: &[0, 0, 1, 0, 0, 0, 0, 1],
                carries: Ipv4,
                trailer: &[1, 2, 2, 4, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
            },
            super::Example {
                header: &[0, 0, 1, 0, 0, 0, 0, 2],
                carries: Ipv6,
                trailer: &[1, 2, 2, 41, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
            },
        ],
    },
    Encapsulation {
        name: "ah",
        announced: Protocols(&[AUTHENTICATION]),
        document: "RFC 4302 §2",
        // The decoder removes these with the IP header, so this packet has more of them than the
        // decoder follows.
        header: Header::Walk(|_, _| Err(DropReason::Depth)),
        examples: &[
            carries(&[4, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9], Ipv4),
            carries(&[41, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], Ipv6),
        ],
    },
    Encapsulation {
        name: "ipip_mobile",
        announced: Protocols(&[94]),
        document: "IANA protocol 94, KA9Q",
        header: Header::Walk(|layers, at| layers.ipv4(at)),
        examples: &[carries(&[], Ipv4)],
    },
    Encapsulation {
        name: "etherip",
        announced: Protocols(&[97]),
        document: "RFC 3378 §3",
        header: Header::Walk(|layers, at| layers.ether_ip(at)),
        examples: &[carries(&[0x30, 0], Ethernet)],
    },
    Encapsulation {
        name: "pim_register",
        announced: Protocols(&[103]),
        document: "RFC 7761 §4.9.3",
        header: Header::Walk(|layers, at| layers.pim_register(at)),
        examples: &[carries(&[0x21, 0, 0xDE, 0xFF, 0, 0, 0, 0], AnyIp)],
    },
    Encapsulation {
        name: "ipcomp",
        announced: Protocols(&[108]),
        document: "RFC 3173 §3",
        header: Header::Walk(|_, _| Err(DropReason::Encrypted)),
        examples: &[carries(&[4, 0, 0, 2], AnyIp)],
    },
    Encapsulation {
        name: "l2tpv3",
        announced: Protocols(&[115]),
        document: "RFC 3931 §4.1.1, RFC 4719",
        header: Header::Walk(|layers, at| layers.l2tp_over_ip(at)),
        examples: &[
            carries(&[0, 0, 0, 7], Ethernet),
            carries(&[0, 0, 0, 7, 0xC0, 0xFF, 0xEE, 1, 0x40, 0, 0, 3], Ethernet),
            carries(&[0, 0, 0, 7, 0xC0, 0xFF, 0xEE, 1, 0xC0, 0xFF, 0xEE, 2], Ethernet),
        ],
    },
    Encapsulation {
        name: "mpls_in_ip",
        announced: Protocols(&[137]),
        document: "RFC 4023 §3.1",
        header: Header::Walk(|layers, at| layers.mpls(at)),
        examples: &[carries(&[0, 1, 1, 64], AnyIp)],
    },
    Encapsulation {
        name: "ethernet_in_ip",
        announced: Protocols(&[143]),
        document: "RFC 8986 §10.1",
        header: Header::Fixed { bytes: 0, follows: Follows::Ethernet },
        examples: &[carries(&[], Ethernet)],
    },
];

/// Encapsulations that are recognised only by their position.
pub static UNDER: &[Encapsulation] = &[
    Encapsulation {
        name: "pseudowire",
        announced: Inside("mpls"),
        document: "RFC 4385 §3, RFC 4448",
        header: Header::Walk(|layers, at| layers.pseudowire(at)),
        examples: &[carries(&[0, 0, 0, 1], Ethernet), carries(&[], Ethernet)],
    },
    Encapsulation {
        name: "ppp_multilink",
        announced: Inside("ppp"),
        document: "RFC 1990 §3",
        header: Header::Walk(|layers, at| layers.multilink(at)),
        examples: &[
            carries(&[0xC0, 0, 0, 1, 0x00, 0x21], Ipv4),
            carries(&[0xC0, 0, 0, 1, 0x57], Ipv6),
            carries(&[0xC0, 1, 0x00, 0x21], Ipv4),
        ],
    },
];

pub(in super::super) static PSEUDOWIRE: &Encapsulation = &UNDER[0];
pub(in super::super) static MULTILINK: &Encapsulation = &UNDER[1];
