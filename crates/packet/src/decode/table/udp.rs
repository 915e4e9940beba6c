//! Encapsulations by UDP port. A port does not prove a tunnel: if the bytes do not fit, the packet
//! keeps its outer key.

use super::Announced::{UdpDestination, UdpEither};
use super::Carries::{AnyIp, EtherTypeAt, Ethernet, Ipv4, Ipv6};
use super::{Encapsulation, Header, carries};
use crate::drop_reason::DropReason;

/// Encapsulations by UDP port.
pub static UDP: &[Encapsulation] = &[
    Encapsulation {
        name: "vxlan",
        announced: UdpDestination(&[4789, 8472]),
        document: "RFC 7348 §5",
        header: Header::Walk(|layers, at| layers.vxlan(at)),
        examples: &[carries(&[8, 0, 0, 0, 0, 0, 7, 0], Ethernet)],
    },
    Encapsulation {
        name: "vxlan_gpe",
        announced: UdpDestination(&[4790]),
        document: "draft-ietf-nvo3-vxlan-gpe-13 §3",
        header: Header::Walk(|layers, at| layers.vxlan_gpe(at)),
        examples: &[
            carries(&[0x0C, 0, 0, 1, 0, 0, 7, 0], Ipv4),
            carries(&[0x0C, 0, 0, 2, 0, 0, 7, 0], Ipv6),
            carries(&[0x0C, 0, 0, 3, 0, 0, 7, 0], Ethernet),
            carries(&[0x0C, 0, 0, 4, 0, 0, 7, 0, 0x0F, 0xC2, 2, 1, 0, 0, 1, 255], Ipv4),
        ],
    },
    Encapsulation {
        name: "geneve",
        announced: UdpDestination(&[6081]),
        document: "RFC 8926 §3.4",
        header: Header::Walk(|layers, at| layers.geneve(at)),
        examples: &[
            carries(&[0, 0, 0, 0, 0, 0, 7, 0], EtherTypeAt(2)),
            carries(&[2, 0, 0, 0, 0, 0, 7, 0, 1, 1, 1, 1, 1, 1, 1, 1], EtherTypeAt(2)),
        ],
    },
    Encapsulation {
        name: "gtpu",
        announced: UdpEither(&[2152]),
        document: "3GPP TS 29.281 §5.1",
        header: Header::Walk(|layers, at| layers.gtpu(at)),
        examples: &[
            carries(&[0x30, 255, 0, 40, 0, 0, 0, 1], AnyIp),
            carries(&[0x34, 255, 0, 48, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], AnyIp),
            carries(&[0x30, 255, 0, 54, 0, 0, 0, 1], Ethernet),
        ],
    },
    Encapsulation {
        name: "teredo",
        announced: UdpEither(&[3544]),
        document: "RFC 4380 §5.1.1",
        header: Header::Walk(|layers, at| layers.teredo(at)),
        examples: &[carries(&[], Ipv6), carries(&[0, 0, 1, 2, 3, 4, 5, 6], Ipv6)],
    },
    Encapsulation {
        name: "mpls_in_udp",
        announced: UdpDestination(&[6635]),
        document: "RFC 7510 §3",
        header: Header::Walk(|layers, at| layers.mpls(at)),
        examples: &[carries(&[0, 1, 1, 64], AnyIp)],
    },
    Encapsulation {
        name: "gre_in_udp",
        announced: UdpDestination(&[4754]),
        document: "RFC 8086 §3",
        header: Header::Walk(|layers, at| layers.gre(at)),
        examples: &[
            carries(&[0, 0, 0, 0], EtherTypeAt(2)),
            carries(&[0x20, 0, 0, 0, 0, 0, 0, 9], EtherTypeAt(2)),
        ],
    },
    Encapsulation {
        name: "l2tp",
        announced: UdpEither(&[1701]),
        document: "RFC 2661 §3.1, RFC 3931 §4.1.2",
        header: Header::Walk(|layers, at| layers.l2tp_over_udp(at)),
        examples: &[
            carries(&[0x00, 2, 0, 5, 0, 6, 0xFF, 3, 0, 0x21], Ipv4),
            carries(&[0x00, 2, 0, 5, 0, 6, 0x57], Ipv6),
            carries(&[0x4B, 2, 0, 99, 0, 5, 0, 6, 0, 1, 0, 2, 0, 2, 9, 9, 0xFF, 3, 0, 0x21], Ipv4),
            carries(&[0x00, 3, 0, 0, 0, 0, 0, 7], Ethernet),
            carries(&[0x00, 3, 0, 0, 0, 0, 0, 7, 0xC0, 0xFF, 0xEE, 1], Ethernet),
        ],
    },
    Encapsulation {
        name: "lisp",
        announced: UdpDestination(&[4341]),
        document: "RFC 9300 §5, RFC 9305 §3",
        header: Header::Walk(|layers, at| layers.lisp(at)),
        examples: &[
            carries(&[0x80, 0, 0, 1, 0, 0, 0, 0], AnyIp),
            carries(&[0x04, 0, 0, 3, 0, 0, 7, 0], Ethernet),
        ],
    },
    Encapsulation {
        name: "tzsp",
        announced: UdpDestination(&[37008]),
        document: "Wireshark wiki, TaZmen Sniffer Protocol",
        header: Header::Walk(|layers, at| layers.tzsp(at)),
        examples: &[
            carries(&[1, 0, 0, 1, 1], Ethernet),
            carries(&[1, 1, 0, 1, 0, 10, 1, 200, 1], Ethernet),
            carries(
                &[
                    1, 0, 0, 18, 1, 0x08, 0x02, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3,
                    0, 0, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0,
                ],
                EtherTypeAt(35),
            ),
        ],
    },
    Encapsulation {
        name: "ayiya",
        announced: UdpEither(&[5072]),
        document: "draft-massar-v6ops-ayiya-02 §3",
        header: Header::Walk(|layers, at| layers.ayiya(at)),
        examples: &[
            carries(
                &[
                    0x44, 0x52, 0x11, 41, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9, 9,
                    9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
                ],
                Ipv6,
            ),
            carries(&[0x21, 0x00, 0x01, 4, 0, 0, 0, 0, 1, 1, 1, 1], Ipv4),
        ],
    },
    Encapsulation {
        name: "capwap",
        announced: UdpEither(&[5247]),
        document: "RFC 5415 §4.3",
        header: Header::Walk(|layers, at| layers.capwap(at)),
        examples: &[
            carries(&[0, 0x10, 0x02, 0, 0, 0, 0, 0], Ethernet),
            carries(
                &[
                    0, 0x10, 0x03, 0, 0, 0, 0, 0, 0x08, 0x01, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2,
                    0, 0, 0, 0, 3, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0,
                ],
                EtherTypeAt(38),
            ),
            carries(
                &[
                    0, 0x18, 0x43, 0x20, 0, 0, 0, 0, 4, 1, 2, 3, 0x01, 0x08, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0,
                    0, 0, 0, 2, 2, 0, 0, 0, 0, 3, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0,
                ],
                EtherTypeAt(42),
            ),
        ],
    },
    Encapsulation {
        name: "gue",
        announced: UdpDestination(&[6080]),
        document: "draft-ietf-intarea-gue-09 §3",
        header: Header::Walk(|layers, at| layers.gue(at)),
        examples: &[
            carries(&[0, 4, 0, 0], Ipv4),
            carries(&[1, 41, 0, 0, 1, 2, 3, 4], Ipv6),
            carries(&[], AnyIp),
        ],
    },
    Encapsulation {
        name: "hp_erm",
        announced: UdpDestination(&[7932]),
        document: "Wireshark packet-hp-erm.c",
        header: Header::Fixed { bytes: 12, follows: super::Follows::Ethernet },
        examples: &[carries(&[0; 12], Ethernet)],
    },
    Encapsulation {
        name: "esp_in_udp",
        announced: UdpEither(&[4500]),
        document: "RFC 3948 §2.1",
        header: Header::Walk(|layers, at| layers.esp_in_udp(at)),
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
        name: "wireguard",
        announced: UdpEither(&[51820]),
        document: "Donenfeld, WireGuard (NDSS 2017) §5.4",
        header: Header::Walk(|_, _| Err(DropReason::Encrypted)),
        examples: &[carries(&[4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], AnyIp)],
    },
];
