//! Link types, by their numbers in capture files.

/// A link type (`LINKTYPE_…`, the number in the file) of a capture's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

macro_rules! link_types {
    ($($name:ident = $number:literal, $text:literal, $supported:literal;)*) => {
        impl LinkType {
            $(#[doc = concat!($text, ", ", stringify!($number), ".")] pub const $name: Self = Self($number);)*

            /// Returns the link type's usual name, `"unknown"` for one that is not in our list.
            pub fn name(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "unknown" }
            }

            /// Says whether packets of this link type are decoded.
            pub fn is_supported(self) -> bool {
                match self.0 { $($number => $supported,)* _ => false }
            }

            /// The link types that are decoded, in rising order of number.
            pub fn supported() -> impl Iterator<Item = Self> {
                [$((Self($number), $supported),)*].into_iter().filter(|&(_, yes)| yes).map(|(link, _)| link)
            }
        }
    };
}

link_types! {
    NULL = 0, "BSD loopback", true;
    ETHERNET = 1, "Ethernet", true;
    AX25 = 3, "AX.25", false;
    TOKEN_RING = 6, "Token Ring", true;
    ARCNET = 7, "ARCNET", false;
    SLIP = 8, "SLIP", false;
    PPP = 9, "PPP", true;
    FDDI = 10, "FDDI", true;
    RAW_BSD = 12, "raw IP (BSD)", true;
    RAW_OPENBSD = 14, "raw IP (OpenBSD)", true;
    PPP_HDLC = 50, "PPP in HDLC framing", true;
    PPP_ETHER = 51, "PPPoE session", true;
    ATM_RFC1483 = 100, "RFC 1483 ATM", true;
    RAW = 101, "raw IP", true;
    C_HDLC = 104, "Cisco HDLC", true;
    IEEE802_11 = 105, "802.11", true;
    FRELAY = 107, "Frame Relay", true;
    LOOP = 108, "OpenBSD loopback", true;
    ENC = 109, "OpenBSD enc", true;
    LINUX_SLL = 113, "Linux cooked v1", true;
    PFLOG = 117, "OpenBSD pflog", true;
    IEEE802_11_PRISM = 119, "802.11 with Prism header", true;
    IEEE802_11_RADIOTAP = 127, "802.11 with radiotap header", true;
    MTP2 = 140, "SS7 MTP2", false;
    DOCSIS = 143, "DOCSIS", false;
    IEEE802_11_AVS = 163, "802.11 with AVS header", true;
    USB_LINUX = 189, "USB (Linux)", false;
    CAN20B = 190, "CAN", false;
    PPI = 192, "PPI", true;
    IEEE802_15_4 = 195, "802.15.4", false;
    SITA = 196, "SITA", false;
    ERF = 197, "Endace ERF", false;
    BLUETOOTH_H4_PHDR = 201, "Bluetooth H4 with pseudo-header", false;
    IPV4 = 228, "raw IPv4", true;
    IPV6 = 229, "raw IPv6", true;
    NFLOG = 239, "Linux NFLOG", true;
    NETANALYZER = 240, "netANALYZER", false;
    USBPCAP = 249, "USBPcap", false;
    BLUETOOTH_LE_LL = 251, "Bluetooth LE link layer", false;
    NETLINK = 253, "Linux netlink", false;
    LINUX_SLL2 = 276, "Linux cooked v2", true;
    UNDECLARED = 65535, "of an interface that the capture never declared", false;
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
    fn a_link_type_says_its_number_and_name() {
        assert_eq!(LinkType::CAN20B.to_string(), "190 (CAN)");
        assert_eq!(LinkType(9999).to_string(), "9999 (unknown)");
        assert!(!LinkType::UNDECLARED.is_supported(), "it is nobody's number");
    }

    #[test]
    fn the_list_of_supported_types_rises() {
        let numbers: Vec<u16> = LinkType::supported().map(|link| link.0).collect();
        assert!(numbers.is_sorted());
        assert!(numbers.contains(&1) && !numbers.contains(&190));
    }
}
