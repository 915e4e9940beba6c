//! Encapsulations by Ethertype: tags, labels, and frames inside frames.

use super::Announced::EtherTypes;
use super::Carries::{EtherTypeAt, Ethernet, Ipv4, Ipv6};
use super::{Encapsulation, Follows, Header, carries};

const fn tag(bytes: usize) -> Header {
    Header::Fixed { bytes, follows: Follows::EtherTypeAt(bytes - 2) }
}

/// Encapsulations by Ethertype.
pub static ETHER_TYPES: &[Encapsulation] = &[
    Encapsulation {
        name: "vlan",
        // The three registered types, and the four in use before them.
        announced: EtherTypes(&[0x8100, 0x88A8, 0x9100, 0x9200, 0x9300, 0xDADB, 0x893B]),
        document: "IEEE 802.1Q-2022 §9; 0x893B: RFC 7172 §2.3; 0xDADB: Linux net/dsa/tag_8021q.c",
        header: Header::Walk(|layers, at| layers.vlan(at)),
        examples: &[
            carries(&[0x00, 0x05, 0, 0], EtherTypeAt(2)),
            carries(&[0xE0, 0x00, 0, 0], EtherTypeAt(2)),
        ],
    },
    Encapsulation {
        name: "mpls",
        announced: EtherTypes(&[0x8847, 0x8848]),
        document: "RFC 3032 §2.1, RFC 5332",
        header: Header::Walk(|layers, at| layers.mpls(at)),
        examples: &[
            carries(&[0, 1, 1, 64], super::Carries::AnyIp),
            carries(&[0, 1, 0, 64, 0, 2, 0, 64, 0, 3, 1, 64], super::Carries::AnyIp),
        ],
    },
    Encapsulation {
        name: "pppoe",
        announced: EtherTypes(&[0x8864]),
        document: "RFC 2516 §4",
        header: Header::Walk(|layers, at| layers.pppoe(at)),
        examples: &[
            carries(&[0x11, 0, 0, 7, 0, 46, 0x00, 0x21], Ipv4),
            carries(&[0x11, 0, 0, 7, 0, 46, 0x00, 0x57], Ipv6),
        ],
    },
    Encapsulation {
        name: "ppp",
        announced: EtherTypes(&[0x880B]),
        document: "RFC 1661 §2",
        header: Header::Walk(|layers, at| layers.deeper()?.ppp(at)),
        examples: &[carries(&[0xFF, 0x03, 0x00, 0x21], Ipv4), carries(&[0x57], Ipv6)],
    },
    Encapsulation {
        name: "ethernet",
        announced: EtherTypes(&[0x6558]),
        document: "RFC 1701, protocol types",
        header: Header::Fixed { bytes: 0, follows: Follows::Ethernet },
        examples: &[carries(&[], Ethernet)],
    },
    Encapsulation {
        name: "pbb",
        announced: EtherTypes(&[0x88E7]),
        document: "IEEE 802.1Q-2022 §9.7",
        header: Header::Walk(|layers, at| layers.backbone_tag(at)),
        examples: &[carries(&[0, 0, 0, 9], Ethernet)],
    },
    Encapsulation {
        name: "fabric_path",
        announced: EtherTypes(&[0x8903]),
        document: "Cisco FabricPath tag",
        header: Header::Fixed { bytes: 2, follows: Follows::Ethernet },
        examples: &[carries(&[0, 0x60], Ethernet)],
    },
    Encapsulation {
        name: "vn_tag",
        announced: EtherTypes(&[0x8926]),
        document: "Cisco VN-Tag proposal, the precursor of IEEE 802.1BR",
        header: tag(6),
        examples: &[carries(&[0x80, 1, 0, 2, 0, 0], EtherTypeAt(4))],
    },
    Encapsulation {
        name: "e_tag",
        announced: EtherTypes(&[0x893F]),
        document: "IEEE 802.1BR-2012 §7.5",
        header: tag(8),
        examples: &[carries(&[0x10, 1, 0, 2, 0, 0, 0, 0], EtherTypeAt(6))],
    },
    Encapsulation {
        name: "r_tag",
        announced: EtherTypes(&[0xF1C1]),
        document: "IEEE 802.1CB-2017 §7.8",
        header: tag(6),
        examples: &[carries(&[0, 0, 0, 1, 0, 0], EtherTypeAt(4))],
    },
    Encapsulation {
        name: "hsr",
        announced: EtherTypes(&[0x892F]),
        document: "IEC 62439-3:2016 §5.6",
        header: tag(6),
        examples: &[carries(&[0x10, 0x34, 0, 7, 0, 0], EtherTypeAt(4))],
    },
    Encapsulation {
        name: "cisco_metadata",
        announced: EtherTypes(&[0x8909]),
        document: "Cisco TrustSec: security group tag in metadata",
        header: Header::Walk(|layers, at| layers.cisco_metadata(at)),
        examples: &[
            carries(&[1, 1, 0, 1, 1, 0x23, 0, 0], EtherTypeAt(6)),
            carries(&[0, 0, 0, 0, 0, 0, 0, 0], EtherTypeAt(6)),
            carries(&[1, 2, 0, 1, 1, 0x23, 0, 2, 0, 5, 0, 0], EtherTypeAt(10)),
        ],
    },
    Encapsulation {
        name: "ttag",
        announced: EtherTypes(&[0x8988]),
        document: "Cisco Nexus time stamp tag",
        header: tag(8),
        examples: &[carries(&[0; 8], EtherTypeAt(6))],
    },
    Encapsulation {
        name: "arista_time",
        announced: EtherTypes(&[0xD28B]),
        document: "Arista EOS, ingress time stamping in a header",
        header: Header::Walk(|layers, at| layers.arista_time(at)),
        examples: &[
            carries(&[0, 1, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], EtherTypeAt(12)),
            carries(&[0, 1, 1, 0x21, 0, 0, 0, 0, 0, 0, 0, 0], EtherTypeAt(10)),
        ],
    },
    Encapsulation {
        name: "macsec",
        announced: EtherTypes(&[0x88E5]),
        document: "IEEE 802.1AE-2018 §9.3",
        header: Header::Walk(|layers, at| layers.macsec(at)),
        examples: &[
            super::Example {
                header: &[0x02, 0, 0, 0, 0, 7, 0, 0],
                carries: EtherTypeAt(6),
                trailer: &[0; 16],
            },
            super::Example {
                header: &[0x23, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 0, 1, 0, 0],
                carries: EtherTypeAt(14),
                trailer: &[0; 16],
            },
        ],
    },
    Encapsulation {
        name: "nsh",
        announced: EtherTypes(&[0x894F]),
        document: "RFC 8300 §2.2",
        header: Header::Walk(|layers, at| layers.service_header(at)),
        examples: &[
            carries(&[0x0F, 0xC2, 2, 1, 0, 0, 1, 255], Ipv4),
            carries(&[0x0F, 0xC2, 2, 2, 0, 0, 1, 255], Ipv6),
            carries(
                &[0x0F, 0xC6, 1, 3, 0, 0, 1, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                Ethernet,
            ),
        ],
    },
    Encapsulation {
        name: "trill",
        announced: EtherTypes(&[0x22F3]),
        document: "RFC 6325 §3.1",
        header: Header::Walk(|layers, at| layers.trill(at)),
        examples: &[
            carries(&[0, 0x3F, 0, 1, 0, 2], Ethernet),
            carries(&[0, 0x7F, 0, 1, 0, 2, 0, 0, 0, 0], Ethernet),
        ],
    },
    Encapsulation {
        name: "batman_adv",
        announced: EtherTypes(&[0x4305]),
        document: "Linux include/uapi/linux/batadv_packet.h, version 15",
        header: Header::Walk(|layers, at| layers.batman(at)),
        examples: &[
            carries(&[0x40, 15, 50, 1, 2, 0, 0, 0, 0, 0x22], Ethernet),
            carries(&[0x42, 15, 50, 1, 2, 0, 0, 0, 0, 0x22, 2, 0, 0, 0, 0, 0x11, 1, 0], Ethernet),
            carries(&[0x01, 15, 50, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x22], Ethernet),
        ],
    },
    Encapsulation {
        name: "jumbo_llc",
        announced: EtherTypes(&[0x8870]),
        document: "draft-ietf-isis-ext-eth-01",
        header: Header::Fixed { bytes: 0, follows: Follows::LinkControl },
        examples: &[carries(&[0xAA, 0xAA, 3, 0, 0, 0, 0, 0], EtherTypeAt(6))],
    },
    Encapsulation {
        name: "edsa",
        announced: EtherTypes(&[0xDADA]),
        document: "Linux net/dsa/tag_dsa.c",
        header: tag(8),
        examples: &[carries(&[0, 0, 0xC0, 8, 0, 5, 0, 0], EtherTypeAt(6))],
    },
    Encapsulation {
        name: "realtek_dsa",
        announced: EtherTypes(&[0x8899]),
        document: "Linux net/dsa/tag_rtl4_a.c, net/dsa/tag_rtl8_4.c",
        header: Header::Walk(|layers, at| layers.realtek(at)),
        examples: &[
            carries(&[0xA0, 3, 0, 0], EtherTypeAt(2)),
            carries(&[0x04, 0, 0, 0, 0, 3, 0, 0], EtherTypeAt(6)),
        ],
    },
    Encapsulation {
        name: "a5psw_dsa",
        announced: EtherTypes(&[0xE001]),
        document: "Linux net/dsa/tag_rzn1_a5psw.c",
        header: tag(8),
        examples: &[carries(&[0, 1, 0, 0, 0, 1, 0, 0], EtherTypeAt(6))],
    },
];
