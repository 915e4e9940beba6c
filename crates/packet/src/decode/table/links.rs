//! Encapsulations by a capture's link type.

use super::Announced::Links;
use super::Carries::{AnyIp, EtherTypeAt, Ethernet, Ipv4, Ipv6};
use super::{Encapsulation, Follows, Header, carries};
use crate::drop_reason::DropReason;

/// Sixteen bytes of ignored fields, then a link-control header with an Ethertype.
const IP_OVER_FC: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0];
const WIRELESS: &[u8] = &[
    0x08, 0x02, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0,
    0, 0,
];
const RADIOTAP: &[u8] = &[
    0, 0, 8, 0, 0, 0, 0, 0, 0x08, 0x02, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3, 0, 0,
    0xAA, 0xAA, 3, 0, 0, 0, 0, 0,
];
const AVS: &[u8] = &[
    0x80, 0x21, 0x10, 1, 0, 0, 0, 8, 0x08, 0x02, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0,
    3, 0, 0, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0,
];
/// An ERF record of Ethernet: time stamp, type, flags, lengths, and two padding bytes before the
/// frame.
const ERF_ETHERNET: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0, 72, 0, 0, 0, 54, 0, 0];
/// The same with two extension headers.
const ERF_EXTENDED: &[u8] = &[
    0, 0, 0, 0, 0, 0, 0, 0, 0x82, 4, 0, 88, 0, 0, 0, 54, 0x83, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 2,
    0, 0,
];
const ERF_IPV4: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 22, 4, 0, 56, 0, 0, 0, 40];
const ERF_POS: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 1, 4, 0, 60, 0, 0, 0, 44, 0x0F, 0, 0, 0];
/// A header of 108 bytes before an Ethernet frame.
const PKTAP: &[u8] = &{
    let mut header = [0; 108];
    header[0] = 108;
    header[4] = 1;
    header[8] = 1;
    header
};
const PFLOG: &[u8] = &{
    let mut header = [0; 64];
    header[0] = 61;
    header
};
const SLIP: &[u8] = &[1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const IPNET: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
const BROADCOM: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0];
const DSA_UNTAGGED: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xC0, 8, 0, 5, 0, 0];
const DSA_TAGGED: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xE0, 8, 0, 5, 0, 0];
const EDSA: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xDA, 0xDA, 0, 0, 0xC0, 8, 0, 5, 0, 0];

/// Encapsulations by link type, the usual ones first.
pub static LINKS: &[Encapsulation] = &[
    Encapsulation {
        name: "link_ethernet",
        announced: Links(&[1]),
        document: "IEEE 802.3-2022 §3, RFC 894, RFC 1042",
        header: Header::Fixed { bytes: 0, follows: Follows::Ethernet },
        examples: &[
            carries(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0, 0], EtherTypeAt(12)),
            carries(
                &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0, 48, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0],
                EtherTypeAt(20),
            ),
        ],
    },
    Encapsulation {
        name: "link_raw_ip",
        announced: Links(&[12, 14, 101, 228, 229]),
        document: "tcpdump.org, LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6",
        header: Header::Walk(|layers, at| layers.ip_by_version(at, DropReason::TruncatedIpv4)),
        examples: &[carries(&[], AnyIp)],
    },
    Encapsulation {
        name: "link_cooked_1",
        announced: Links(&[113]),
        document: "tcpdump.org, LINKTYPE_LINUX_SLL",
        header: Header::Walk(|layers, at| layers.linux_sll(at)),
        examples: &[carries(&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0], EtherTypeAt(14))],
    },
    Encapsulation {
        name: "link_cooked_2",
        announced: Links(&[276]),
        document: "tcpdump.org, LINKTYPE_LINUX_SLL2",
        header: Header::Walk(|layers, at| layers.linux_sll2(at)),
        examples: &[carries(&[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0], EtherTypeAt(0))],
    },
    Encapsulation {
        name: "link_loopback",
        announced: Links(&[0, 108]),
        document: "tcpdump.org, LINKTYPE_NULL, LINKTYPE_LOOP",
        header: Header::Walk(|layers, at| layers.loopback(at)),
        examples: &[carries(&[2, 0, 0, 0], Ipv4), carries(&[0, 0, 0, 30], Ipv6)],
    },
    Encapsulation {
        name: "link_token_ring",
        announced: Links(&[6]),
        document: "IEEE 802.5-1998 §3, RFC 1042",
        header: Header::Walk(|layers, at| layers.token_ring(at)),
        examples: &[carries(
            &[0x10, 0x40, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0],
            EtherTypeAt(20),
        )],
    },
    Encapsulation {
        name: "link_arcnet",
        announced: Links(&[7]),
        document: "RFC 1201, RFC 1051; tcpdump.org, LINKTYPE_ARCNET_BSD",
        header: Header::Walk(|layers, at| layers.arcnet(at, 0)),
        examples: &[carries(&[1, 2, 212, 0, 0, 7], Ipv4), carries(&[1, 2, 240], Ipv4)],
    },
    Encapsulation {
        name: "link_arcnet_linux",
        announced: Links(&[129]),
        document: "RFC 1201, RFC 1051; tcpdump.org, LINKTYPE_ARCNET_LINUX",
        header: Header::Walk(|layers, at| layers.arcnet(at, 2)),
        examples: &[carries(&[1, 2, 0, 0, 196, 0, 0, 7], Ipv6)],
    },
    Encapsulation {
        name: "link_slip",
        announced: Links(&[8]),
        document: "RFC 1055; tcpdump.org, LINKTYPE_SLIP",
        header: Header::Walk(|layers, at| layers.serial_line(at, 16)),
        examples: &[carries(SLIP, AnyIp), carries(&[], AnyIp)],
    },
    Encapsulation {
        name: "link_slip_bsdos",
        announced: Links(&[102]),
        document: "libpcap pcap/dlt.h, DLT_SLIP_BSDOS",
        header: Header::Walk(|layers, at| layers.serial_line(at, 24)),
        examples: &[carries(
            &[1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            AnyIp,
        )],
    },
    Encapsulation {
        name: "link_ppp",
        announced: Links(&[9, 50]),
        document: "RFC 1661 §2, RFC 1662 §3",
        header: Header::Fixed { bytes: 0, follows: Follows::Ppp },
        examples: &[carries(&[0xFF, 3, 0, 0x21], Ipv4), carries(&[0, 0x57], Ipv6)],
    },
    Encapsulation {
        name: "link_fddi",
        announced: Links(&[10]),
        document: "ANSI X3.139-1987, RFC 1390",
        header: Header::Walk(|layers, at| layers.fddi(at)),
        examples: &[carries(
            &[0x50, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0],
            EtherTypeAt(19),
        )],
    },
    Encapsulation {
        name: "link_pppoe",
        announced: Links(&[51]),
        document: "RFC 2516 §4",
        header: Header::Walk(|layers, at| layers.pppoe(at)),
        examples: &[carries(&[0x11, 0, 0, 7, 0, 46, 0, 0x21], Ipv4)],
    },
    Encapsulation {
        name: "link_atm",
        announced: Links(&[100, 106]),
        document: "RFC 2684 §5, RFC 2225",
        header: Header::Walk(|layers, at| layers.atm(at)),
        examples: &[
            carries(&[0xAA, 0xAA, 3, 0, 0, 0, 0, 0], EtherTypeAt(6)),
            carries(&[], AnyIp),
            carries(&[0xAA, 0xAA, 3, 0, 0x80, 0xC2, 0, 7, 0, 0], Ethernet),
        ],
    },
    Encapsulation {
        name: "link_cisco_hdlc",
        announced: Links(&[104]),
        document: "RFC 1547 §4.3.1",
        header: Header::Walk(|layers, at| layers.cisco_hdlc(at)),
        examples: &[carries(&[0x0F, 0, 0, 0], EtherTypeAt(2))],
    },
    Encapsulation {
        name: "link_wlan",
        announced: Links(&[105]),
        document: "IEEE 802.11-2020 §9.2",
        header: Header::Walk(|layers, at| layers.ieee80211(at, 1)),
        examples: &[carries(WIRELESS, EtherTypeAt(30))],
    },
    Encapsulation {
        name: "link_frame_relay",
        announced: Links(&[107]),
        document: "RFC 2427 §4",
        header: Header::Walk(|layers, at| layers.frame_relay(at)),
        examples: &[
            carries(&[0x18, 0x41, 0, 0], EtherTypeAt(2)),
            carries(&[0x18, 0x41, 3, 0xCC], Ipv4),
            carries(&[0x18, 0x41, 3, 0, 0x80, 0, 0x80, 0xC2, 0, 7], Ethernet),
        ],
    },
    Encapsulation {
        name: "link_enc",
        announced: Links(&[109]),
        document: "OpenBSD enc(4)",
        header: Header::Walk(|layers, at| layers.enc(at)),
        examples: &[carries(&[0; 12], AnyIp)],
    },
    Encapsulation {
        name: "link_pflog",
        announced: Links(&[117]),
        document: "OpenBSD pflog(4)",
        header: Header::Walk(|layers, at| layers.pflog(at)),
        examples: &[carries(PFLOG, AnyIp)],
    },
    Encapsulation {
        name: "link_wlan_prism",
        announced: Links(&[119, 163]),
        document: "tcpdump.org, LINKTYPE_IEEE802_11_PRISM, LINKTYPE_IEEE802_11_AVS",
        header: Header::Walk(|layers, at| layers.prism(at)),
        examples: &[carries(AVS, EtherTypeAt(38))],
    },
    Encapsulation {
        name: "link_ip_over_fc",
        announced: Links(&[122]),
        document: "RFC 2625 §3",
        header: Header::Fixed { bytes: 16, follows: Follows::LinkControl },
        examples: &[carries(IP_OVER_FC, EtherTypeAt(22))],
    },
    Encapsulation {
        name: "link_sun_atm",
        announced: Links(&[123]),
        document: "tcpdump.org, LINKTYPE_SUNATM",
        header: Header::Walk(|layers, at| layers.sun_atm(at)),
        examples: &[
            carries(&[2, 0, 0, 32, 0xAA, 0xAA, 3, 0, 0, 0, 0, 0], EtherTypeAt(10)),
            carries(&[0x81, 0, 0, 32, 0, 2], Ethernet),
        ],
    },
    Encapsulation {
        name: "link_wlan_radiotap",
        announced: Links(&[127]),
        document: "radiotap.org",
        header: Header::Walk(|layers, at| layers.radiotap(at)),
        examples: &[carries(RADIOTAP, EtherTypeAt(38))],
    },
    Encapsulation {
        name: "link_tzsp",
        announced: Links(&[128]),
        document: "Wireshark wiki, TaZmen Sniffer Protocol",
        header: Header::Walk(|layers, at| layers.tzsp(at)),
        examples: &[carries(&[1, 0, 0, 1, 1], Ethernet)],
    },
    Encapsulation {
        name: "link_juniper",
        announced: Links(&[
            130, 131, 132, 133, 134, 135, 136, 137, 167, 168, 178, 179, 180, 181, 183, 194, 200,
        ]),
        document: "tcpdump print-juniper.c",
        header: Header::Walk(|layers, at| layers.juniper(at)),
        // Without a link layer: the address family precedes the packet.
        examples: &[
            carries(&[0x4D, 0x47, 0x43, 2, 2, 0, 0, 0], AnyIp),
            carries(&[0x4D, 0x47, 0x43, 0x82, 0, 4, 1, 2, 3, 4, 2, 0, 0, 0], AnyIp),
        ],
    },
    Encapsulation {
        name: "link_ieee1394",
        announced: Links(&[138]),
        document: "RFC 2734 §4; tcpdump.org, LINKTYPE_APPLE_IP_OVER_IEEE1394",
        header: Header::Fixed { bytes: 18, follows: Follows::EtherTypeAt(16) },
        examples: &[carries(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0], EtherTypeAt(16))],
    },
    Encapsulation {
        name: "link_ppp_direction",
        announced: Links(&[166, 204]),
        document: "tcpdump.org, LINKTYPE_PPP_PPPD, LINKTYPE_PPP_WITH_DIR",
        header: Header::Walk(|layers, at| layers.ppp_with_direction(at)),
        examples: &[
            carries(&[1, 0xFF, 3, 0, 0x21], Ipv4),
            carries(&[0, 3, 0, 0x21], Ipv4),
            carries(&[1, 0, 0x57], Ipv6),
        ],
    },
    Encapsulation {
        name: "link_ppi",
        announced: Links(&[192]),
        document: "PPI specification 1.0.10, CACE",
        header: Header::Walk(|layers, at| layers.ppi(at)),
        examples: &[carries(&[0, 0, 8, 0, 1, 0, 0, 0], Ethernet)],
    },
    Encapsulation {
        name: "link_erf",
        announced: Links(&[175, 176, 197]),
        document: "Endace ERF Types Reference Guide, EDM11-01",
        header: Header::Walk(|layers, at| layers.erf(at)),
        examples: &[
            carries(ERF_ETHERNET, Ethernet),
            carries(ERF_EXTENDED, Ethernet),
            carries(ERF_IPV4, Ipv4),
            carries(ERF_POS, EtherTypeAt(18)),
        ],
    },
    Encapsulation {
        name: "link_cisco_hdlc_direction",
        announced: Links(&[205]),
        document: "tcpdump.org, LINKTYPE_C_HDLC_WITH_DIR",
        header: Header::Walk(|layers, at| layers.cisco_hdlc(at + 1)),
        examples: &[carries(&[1, 0x0F, 0, 0, 0], EtherTypeAt(3))],
    },
    Encapsulation {
        name: "link_frame_relay_direction",
        announced: Links(&[206]),
        document: "tcpdump.org, LINKTYPE_FRELAY_WITH_DIR",
        header: Header::Walk(|layers, at| layers.frame_relay(at + 1)),
        examples: &[carries(&[1, 0x18, 0x41, 0, 0], EtherTypeAt(3))],
    },
    Encapsulation {
        name: "link_mpls",
        announced: Links(&[219]),
        document: "RFC 3032 §2.1",
        header: Header::Walk(|layers, at| layers.mpls(at)),
        examples: &[carries(&[0, 1, 1, 64], AnyIp)],
    },
    Encapsulation {
        name: "link_ipnet",
        announced: Links(&[226]),
        document: "tcpdump.org, LINKTYPE_IPNET",
        header: Header::Fixed { bytes: 24, follows: Follows::AnyIp },
        examples: &[carries(IPNET, AnyIp)],
    },
    Encapsulation {
        name: "link_nflog",
        announced: Links(&[239]),
        document: "tcpdump.org, LINKTYPE_NFLOG",
        header: Header::Walk(|layers, at| layers.nflog(at)),
        examples: &[carries(&[2, 0, 0, 5, 0xFF, 0xFF, 9, 0], AnyIp)],
    },
    Encapsulation {
        name: "link_infiniband_ip",
        announced: Links(&[242]),
        document: "RFC 4391 §6; tcpdump.org, LINKTYPE_IPOIB",
        header: Header::Walk(|layers, at| layers.ip_over_infiniband(at)),
        examples: &[
            carries(&[0, 0, 0, 0], EtherTypeAt(0)),
            carries(
                &[
                    0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                ],
                EtherTypeAt(40),
            ),
        ],
    },
    Encapsulation {
        name: "link_pktap",
        announced: Links(&[258]),
        document: "Apple XNU bsd/net/pktap.h",
        header: Header::Walk(|layers, at| layers.pktap(at)),
        examples: &[carries(PKTAP, Ethernet)],
    },
    Encapsulation {
        name: "link_epon",
        announced: Links(&[259]),
        document: "IEEE 802.3-2022 §65.1.3",
        header: Header::Fixed { bytes: 8, follows: Follows::Ethernet },
        examples: &[carries(&[0x55, 0x55, 0xD5, 0x55, 0x55, 0x12, 0x34, 0x56], Ethernet)],
    },
    Encapsulation {
        name: "link_broadcom_dsa",
        announced: Links(&[281]),
        document: "Linux net/dsa/tag_brcm.c",
        header: Header::Fixed { bytes: 18, follows: Follows::EtherTypeAt(16) },
        examples: &[carries(BROADCOM, EtherTypeAt(16))],
    },
    Encapsulation {
        name: "link_broadcom_dsa_prepended",
        announced: Links(&[282]),
        document: "Linux net/dsa/tag_brcm.c",
        header: Header::Fixed { bytes: 4, follows: Follows::Ethernet },
        examples: &[carries(&[0, 0, 0, 3], Ethernet)],
    },
    Encapsulation {
        name: "link_marvell_dsa",
        announced: Links(&[284]),
        document: "Linux net/dsa/tag_dsa.c",
        header: Header::Walk(|layers, at| layers.marvell(at, 12)),
        examples: &[carries(DSA_UNTAGGED, EtherTypeAt(16)), carries(DSA_TAGGED, EtherTypeAt(16))],
    },
    Encapsulation {
        name: "link_marvell_edsa",
        announced: Links(&[285]),
        document: "Linux net/dsa/tag_dsa.c",
        header: Header::Walk(|layers, at| layers.marvell(at, 16)),
        examples: &[carries(EDSA, EtherTypeAt(20))],
    },
];
