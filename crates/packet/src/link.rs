//! Link types by their numbers in capture files.

/// The link type of a capture's interface: `LINKTYPE_…`, with the number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

macro_rules! link_types {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl LinkType {
            $(#[doc = concat!($text, ", ", stringify!($number), ".")] pub const $name: Self = Self($number);)*

            /// Returns the link type's usual name, or `"unknown"` for a number that is not in the
            /// list of tcpdump.org.
            pub fn name(self) -> &'static str {
                match self.0 { $($number => $text,)* other => name_of_others(other) }
            }
        }
    };
}

link_types! {
    NULL = 0, "BSD loopback";
    ETHERNET = 1, "Ethernet";
    AX25 = 3, "AX.25";
    TOKEN_RING = 6, "Token Ring";
    ARCNET = 7, "ARCNET";
    SLIP = 8, "SLIP";
    PPP = 9, "PPP";
    FDDI = 10, "FDDI";
    RAW_BSD = 12, "raw IP (BSD)";
    RAW_OPENBSD = 14, "raw IP (OpenBSD)";
    PPP_HDLC = 50, "PPP in HDLC framing";
    PPP_ETHER = 51, "PPPoE session";
    ATM_RFC1483 = 100, "RFC 1483 ATM";
    RAW = 101, "raw IP";
    C_HDLC = 104, "Cisco HDLC";
    IEEE802_11 = 105, "802.11";
    FRELAY = 107, "Frame Relay";
    LOOP = 108, "OpenBSD loopback";
    ENC = 109, "OpenBSD enc";
    LINUX_SLL = 113, "Linux cooked v1";
    PFLOG = 117, "OpenBSD pflog";
    IEEE802_11_PRISM = 119, "802.11 with Prism header";
    IEEE802_11_RADIOTAP = 127, "802.11 with radiotap header";
    MTP2 = 140, "SS7 MTP2";
    DOCSIS = 143, "DOCSIS";
    IEEE802_11_AVS = 163, "802.11 with AVS header";
    USB_LINUX = 189, "USB (Linux)";
    CAN20B = 190, "CAN";
    PPI = 192, "PPI";
    IEEE802_15_4 = 195, "802.15.4";
    SITA = 196, "SITA";
    ERF = 197, "Endace ERF";
    BLUETOOTH_H4_PHDR = 201, "Bluetooth H4 with pseudo-header";
    IPV4 = 228, "raw IPv4";
    IPV6 = 229, "raw IPv6";
    NFLOG = 239, "Linux NFLOG";
    NETANALYZER = 240, "netANALYZER";
    USBPCAP = 249, "USBPcap";
    BLUETOOTH_LE_LL = 251, "Bluetooth LE link layer";
    NETLINK = 253, "Linux netlink";
    LINUX_SLL2 = 276, "Linux cooked v2";
    UNDECLARED = 65535, "of an interface that the capture never declared";
}

/// Other link types with their names, in ascending order. No other code refers to these link types.
static OTHERS: &[(u16, &str)] = &[
    (2, "experimental Ethernet"),
    (4, "ProNET"),
    (5, "Chaosnet"),
    (99, "Symantec firewall"),
    (102, "SLIP (BSD/OS)"),
    (103, "PPP (BSD/OS)"),
    (106, "classical IP over ATM"),
    (114, "LocalTalk"),
    (115, "Econet"),
    (116, "IPFilter log"),
    (118, "Cisco IOS"),
    (120, "Aironet"),
    (122, "IP over Fibre Channel"),
    (123, "SunATM"),
    (128, "TZSP"),
    (129, "ARCNET (Linux)"),
    (130, "Juniper multilink PPP"),
    (131, "Juniper multilink Frame Relay"),
    (132, "Juniper encryption services"),
    (133, "Juniper GGSN"),
    (134, "Juniper FRF.16"),
    (135, "Juniper ATM2"),
    (136, "Juniper services"),
    (137, "Juniper ATM1"),
    (138, "IP over IEEE 1394"),
    (139, "SS7 MTP2 with pseudo-header"),
    (141, "SS7 MTP3"),
    (142, "SS7 SCCP"),
    (144, "IrDA (Linux)"),
    (145, "IBM SP switch"),
    (146, "IBM federation switch"),
    (165, "BACnet MS/TP"),
    (166, "PPP of pppd"),
    (167, "Juniper PPPoE"),
    (168, "Juniper PPPoE over ATM"),
    (169, "GPRS LLC"),
    (170, "GFP-T"),
    (171, "GFP-F"),
    (172, "Gcom T1/E1"),
    (173, "Gcom serial"),
    (174, "Juniper PIC peer"),
    (175, "Endace ERF of Ethernet"),
    (176, "Endace ERF of POS"),
    (177, "LAPD (Linux)"),
    (178, "Juniper Ethernet"),
    (179, "Juniper PPP"),
    (180, "Juniper Frame Relay"),
    (181, "Juniper Cisco HDLC"),
    (182, "FRF.16 Frame Relay"),
    (183, "Juniper voice"),
    (184, "ARINC 429"),
    (185, "ARINC 653"),
    (186, "USB (FreeBSD)"),
    (187, "Bluetooth H4"),
    (188, "802.16"),
    (191, "802.15.4 (Linux)"),
    (193, "802.16 with radio header"),
    (194, "Juniper integrated services"),
    (198, "RAIF1"),
    (199, "IPMB (Kontron)"),
    (200, "Juniper secure tunnel"),
    (202, "AX.25 with KISS header"),
    (203, "LAPD"),
    (204, "PPP with direction"),
    (205, "Cisco HDLC with direction"),
    (206, "Frame Relay with direction"),
    (207, "LAPB with direction"),
    (209, "I2C (Linux)"),
    (210, "FlexRay"),
    (211, "MOST"),
    (212, "LIN"),
    (213, "X2E serial"),
    (214, "X2E Xoraya"),
    (215, "802.15.4 with non-ASK header"),
    (216, "evdev (Linux)"),
    (217, "GSMTAP Um"),
    (218, "GSMTAP Abis"),
    (219, "MPLS"),
    (220, "USB (Linux, mapped)"),
    (221, "DECT"),
    (222, "AOS space data link"),
    (223, "WirelessHART"),
    (224, "Fibre Channel"),
    (225, "Fibre Channel with delimiters"),
    (226, "IPNET (Solaris)"),
    (227, "SocketCAN"),
    (230, "802.15.4 without FCS"),
    (231, "D-Bus"),
    (232, "Juniper VS"),
    (233, "Juniper SRX"),
    (234, "Juniper Fibre Channel"),
    (235, "DVB-CI"),
    (236, "TS 27.010 multiplexer"),
    (237, "STANAG 5066"),
    (238, "Juniper ATM CEMIC"),
    (241, "netANALYZER, transparent"),
    (242, "IP over InfiniBand"),
    (243, "MPEG-2 transport stream"),
    (244, "ng40"),
    (245, "NFC LLCP"),
    (246, "pfsync"),
    (247, "InfiniBand"),
    (248, "SCTP"),
    (250, "RTAC serial"),
    (252, "Wireshark upper PDU"),
    (254, "Bluetooth (Linux monitor)"),
    (255, "Bluetooth baseband"),
    (256, "Bluetooth LE with pseudo-header"),
    (257, "PROFIBUS"),
    (258, "PKTAP (Apple)"),
    (259, "EPON"),
    (260, "IPMI HPM.2"),
    (261, "Z-Wave R1 and R2"),
    (262, "Z-Wave R3"),
    (263, "WattStopper DLM"),
    (264, "ISO 14443"),
    (265, "RDS"),
    (266, "USB (Darwin)"),
    (267, "OpenFlow (OpenBSD)"),
    (268, "SDLC"),
    (269, "TI LLN sniffer"),
    (270, "LoRaTap"),
    (271, "vsock"),
    (272, "Nordic BLE"),
    (273, "DOCSIS 3.1"),
    (274, "Ethernet mPackets"),
    (275, "DisplayPort AUX"),
    (277, "Sercos monitor"),
    (278, "OpenVizsla"),
    (279, "EBHSCR"),
    (280, "VPP dispatch"),
    (281, "Broadcom switch tag"),
    (282, "Broadcom switch tag in front"),
    (283, "802.15.4 TAP"),
    (284, "Marvell DSA tag"),
    (285, "Marvell EDSA tag"),
    (286, "ELEE"),
    (287, "Z-Wave serial"),
    (288, "USB 2.0"),
    (289, "ATSC ALP"),
];

fn name_of_others(number: u16) -> &'static str {
    match number {
        147..=162 => "private use",
        _ => OTHERS.binary_search_by_key(&number, |other| other.0).map_or("unknown", |at| OTHERS[at].1),
    }
}

impl std::fmt::Display for LinkType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_type_displays_its_number_and_name() {
        assert_eq!(LinkType::CAN20B.to_string(), "190 (CAN)");
        assert_eq!(LinkType(9999).to_string(), "9999 (unknown)");
        assert_eq!(LinkType(160).to_string(), "160 (private use)");
        // The newest entry of the list, one of a switch, and one of a router.
        let names = [289, 281, 178].map(|number| LinkType(number).name());
        assert_eq!(names, ["ATSC ALP", "Broadcom switch tag", "Juniper Ethernet"]);
        assert!(!LinkType::UNDECLARED.is_supported(), "no link type has this number");
    }

    #[test]
    fn link_type_lists_are_sorted() {
        assert!(OTHERS.is_sorted_by(|one, next| one.0 < next.0));
        let numbers: Vec<u16> = LinkType::supported().map(|link| link.0).collect();
        assert!(numbers.is_sorted());
        assert!(numbers.contains(&1) && !numbers.contains(&190));
    }
}
