//! Protocol types of GRE that are no Ethertypes, or that have their own header inside GRE.

use super::Announced::Gre;
use super::Carries::{AnyIp, EtherTypeAt, Ethernet};
use super::{Encapsulation, Header, carries};

/// The header of 802.11 data from an access point, with link control after it.
const WIRELESS: &[u8] = &[
    0x08, 0x02, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0,
    0, 0,
];

/// Encapsulations by GRE's protocol type. GRE itself reads those with sequence numbers.
pub static GRE: &[Encapsulation] = &[
    Encapsulation {
        name: "wccp",
        announced: Gre(&[0x883E]),
        document: "draft-wilson-wrec-wccp-v2-01 §4.12",
        header: Header::Walk(|layers, at| layers.wccp(at)),
        examples: &[carries(&[], AnyIp), carries(&[0, 0, 0, 1], AnyIp)],
    },
    Encapsulation {
        name: "wlan_aruba",
        announced: Gre(&[
            0x8200, 0x8210, 0x8220, 0x8230, 0x8240, 0x8250, 0x8260, 0x8270, 0x8280, 0x8290, 0x82A0, 0x82B0,
            0x82C0, 0x82D0, 0x82E0, 0x82F0, 0x8300, 0x8310, 0x8320, 0x8330, 0x8340, 0x8350, 0x8360, 0x8370,
            0x9000,
        ]),
        document: "Wireshark packet-gre.h, Aruba GRE encapsulation ids",
        header: Header::Walk(|layers, at| layers.ieee80211(at, 1)),
        examples: &[carries(WIRELESS, EtherTypeAt(30))],
    },
    Encapsulation {
        name: "wlan_aerohive",
        announced: Gre(&[0xFEAE]),
        document: "Wireshark packet-gre.h, Aerohive",
        header: Header::Walk(|layers, at| layers.ethernet_or_wireless(at)),
        examples: &[carries(&[], Ethernet), carries(WIRELESS, EtherTypeAt(30))],
    },
    Encapsulation {
        name: "gre_frame_relay",
        announced: Gre(&[0x6559]),
        document: "RFC 1701, protocol types",
        header: Header::Walk(|layers, at| layers.frame_relay(at)),
        examples: &[carries(&[0x18, 0x41, 0, 0], EtherTypeAt(2))],
    },
];
