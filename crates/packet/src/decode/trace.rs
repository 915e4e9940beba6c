//! Records the steps of a walk through the headers of a packet.

use std::cell::RefCell;

use flowloom_flow_key::protocol;

use super::table::Encapsulation;
use crate::drop_reason::DropReason;
use crate::link::LinkType;
use crate::view::Headers;

/// Maximum number of headers in a recorded path, which is more than the decoder follows.
const PATH_MAX: usize = 40;
/// Maximum number of unfollowed tunnels recorded for one packet.
const LEFT_MAX: usize = 16;

/// An unknown number at which the decoder stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unknown {
    /// An Ethertype.
    EtherType(u16),
    /// The two access points of a link-control header, destination first.
    LinkControl(u16),
    /// A protocol number of an organisation in a subnetwork access point.
    Snap {
        /// The organisation.
        organisation: [u8; 3],
        /// The organisation's protocol number.
        kind: u16,
    },
    /// A protocol number of PPP.
    Ppp(u16),
    /// The first four bits under MPLS labels, if they are not those of an IP header.
    UnderLabels(u8),
    /// An IP protocol without known ports. Such a packet has a key.
    IpProtocol(u8),
    /// A link type.
    Link(LinkType),
}

impl Unknown {
    /// Returns the well-known name of the number, if it has one.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::EtherType(0x0806) => "ARP",
            Self::EtherType(0x0842) => "wake on LAN",
            Self::EtherType(0x2000) => "CDP",
            Self::EtherType(0x6002..=0x6004) => "DEC",
            Self::EtherType(0x8035) => "RARP",
            Self::EtherType(0x809B | 0x80F3) => "AppleTalk",
            Self::EtherType(0x809A | 0xA0ED) => "IEEE 802.15.4",
            Self::EtherType(0x8137) | Self::LinkControl(0xE0E0 | 0xFFFF) => "IPX",
            Self::EtherType(0x8808) => "Ethernet flow control",
            Self::EtherType(0x8809) => "slow protocols (LACP, OAM)",
            Self::EtherType(0x8863) => "PPPoE discovery",
            Self::EtherType(0x886D) => "Intel ANS probe",
            Self::EtherType(0x888E) => "EAPOL",
            Self::EtherType(0x8892) => "PROFINET",
            Self::EtherType(0x88A2) => "ATA over Ethernet",
            Self::EtherType(0x88A4) => "EtherCAT",
            Self::EtherType(0x88AB) => "Ethernet POWERLINK",
            Self::EtherType(0x88B8) => "GOOSE",
            Self::EtherType(0x88BA) => "IEC 61850 sampled values",
            Self::EtherType(0x88CC) => "LLDP",
            Self::EtherType(0x88E3) => "MRP (IEC 62439-2)",
            Self::EtherType(0x88F7) => "PTP",
            Self::EtherType(0x88FB) => "PRP supervision",
            Self::EtherType(0x8902) => "CFM",
            Self::EtherType(0x8906) => "FCoE",
            Self::EtherType(0x8914) => "FIP",
            Self::EtherType(0x8915) => "RoCE",
            Self::EtherType(0x9000) => "loopback test",
            Self::LinkControl(0x4242) => "spanning tree",
            Self::LinkControl(0xF0F0) => "NetBIOS",
            Self::LinkControl(0xFEFE) => "OSI (IS-IS, CLNP)",
            Self::Snap { organisation: [0, 0, 0x0C], kind } => match kind {
                0x2000 => "CDP",
                0x2003 => "VTP",
                0x2004 => "DTP",
                0x010B => "PVST+",
                0x0111 => "UDLD",
                _ => "Cisco",
            },
            Self::Ppp(0xC021) => "LCP",
            Self::Ppp(0xC023) => "PAP",
            Self::Ppp(0xC223) => "CHAP",
            Self::Ppp(0x8021) => "IPCP",
            Self::Ppp(0x8057) => "IPv6CP",
            Self::Ppp(0x80FD) => "CCP",
            Self::Ppp(0x00FD) => "compressed",
            Self::IpProtocol(0) => "hop-by-hop options",
            Self::IpProtocol(2) => "IGMP",
            Self::IpProtocol(8) => "EGP",
            Self::IpProtocol(9) => "IGP",
            Self::IpProtocol(46) => "RSVP",
            Self::IpProtocol(47) => "GRE",
            Self::IpProtocol(50) => "ESP",
            Self::IpProtocol(51) => "AH",
            Self::IpProtocol(59) => "no next header",
            Self::IpProtocol(88) => "EIGRP",
            Self::IpProtocol(89) => "OSPF",
            Self::IpProtocol(103) => "PIM",
            Self::IpProtocol(112) => "VRRP",
            Self::IpProtocol(115) => "L2TPv3",
            Self::IpProtocol(253 | 254) => "for experiments",
            _ => return None,
        })
    }
}

impl Unknown {
    /// Returns the layer, in the form of reports and JSON, and the number.
    pub fn layer_and_number(self) -> (&'static str, u64) {
        match self {
            Self::EtherType(number) => ("ether_type", number.into()),
            Self::LinkControl(points) => ("link_control", points.into()),
            Self::Snap { organisation: [a, b, c], kind } => {
                ("snap", u64::from(u32::from_be_bytes([0, a, b, c])) << 16 | u64::from(kind))
            }
            Self::Ppp(number) => ("ppp", number.into()),
            Self::UnderLabels(first) => ("mpls", first.into()),
            Self::IpProtocol(number) => ("ip_protocol", number.into()),
            Self::Link(link) => ("link_type", link.0.into()),
        }
    }

    /// Returns the unknown number of a layer, if it has such a number.
    pub(crate) fn of_layer(layer: &str, number: u64) -> Option<Self> {
        Some(match layer {
            "ether_type" => Self::EtherType(number.try_into().ok()?),
            "link_control" => Self::LinkControl(number.try_into().ok()?),
            "snap" => {
                let [0, 0, 0, a, b, c, high, low] = number.to_be_bytes() else { return None };
                Self::Snap { organisation: [a, b, c], kind: u16::from_be_bytes([high, low]) }
            }
            "ppp" => Self::Ppp(number.try_into().ok()?),
            "mpls" => Self::UnderLabels(number.try_into().ok()?),
            "ip_protocol" => Self::IpProtocol(number.try_into().ok()?),
            "link_type" => Self::Link(LinkType(number.try_into().ok()?)),
            _ => return None,
        })
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EtherType(number) => write!(f, "Ethertype {number:#06x}")?,
            Self::LinkControl(points) => write!(f, "LLC {points:#06x}")?,
            Self::Snap { organisation: [a, b, c], kind } => {
                write!(f, "SNAP {a:02x}-{b:02x}-{c:02x} {kind:#06x}")?;
            }
            Self::Ppp(number) => write!(f, "PPP {number:#06x}")?,
            Self::UnderLabels(first) => write!(f, "MPLS payload {first:#x}")?,
            Self::IpProtocol(number) => write!(f, "IP protocol {number}")?,
            Self::Link(link) => return write!(f, "link type {link}"),
        }
        match self.name() {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// The steps of a walk through the headers.
#[derive(Debug, Default)]
pub(crate) struct Trace(RefCell<Steps>);

#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) path: Vec<&'static Encapsulation>,
    pub(crate) left: Vec<(&'static Encapsulation, DropReason)>,
    pub(super) unknown: Option<Unknown>,
    /// The packet is a message between the endpoints of the tunnel, and carries no packet.
    is_message: bool,
}

impl Steps {
    /// Returns the unknown number at which the decoder stopped with this result.
    pub(crate) fn unknown(&self, link: LinkType, decoded: &Result<Headers, DropReason>) -> Option<Unknown> {
        match decoded {
            Ok(headers) => {
                let protocol = headers.tuple().protocol;
                (!has_ports(protocol)).then_some(Unknown::IpProtocol(protocol))
            }
            Err(DropReason::Unsupported) => self.unknown.or(Some(Unknown::Link(link))),
            Err(_) => self.unknown,
        }
    }
}

/// Returns whether the key of an IP protocol contains its ports or its identifier.
pub(crate) fn has_ports(number: u8) -> bool {
    protocol::has_ports(number) || matches!(number, protocol::ICMP | protocol::ICMPV6)
}

impl Trace {
    pub(super) fn enter(&self, entry: &'static Encapsulation) {
        let mut steps = self.0.borrow_mut();
        if steps.path.len() < PATH_MAX {
            steps.path.push(entry);
        }
    }

    /// Removes the last entry for an encapsulation, and all entries after it.
    pub(super) fn leave(&self, entry: &'static Encapsulation, reason: DropReason) {
        let mut steps = self.0.borrow_mut();
        if let Some(at) = steps.path.iter().rposition(|other| other.name == entry.name) {
            steps.path.truncate(at);
        }
        let is_message = std::mem::take(&mut steps.is_message);
        if !is_message && steps.left.len() < LEFT_MAX {
            steps.left.push((entry, reason));
        }
    }

    pub(super) fn message(&self) {
        self.0.borrow_mut().is_message = true;
    }

    /// Returns the recorded steps.
    pub(super) fn into_steps(self) -> Steps {
        self.0.into_inner()
    }

    /// Returns the recorded steps, without giving up the memory they are in.
    pub(crate) fn steps(&mut self) -> &Steps {
        self.0.get_mut()
    }

    /// Forgets all steps.
    pub(crate) fn clear(&mut self) {
        let steps = self.0.get_mut();
        steps.path.clear();
        steps.left.clear();
        (steps.unknown, steps.is_message) = (None, false);
    }

    pub(super) fn end(&self, unknown: Unknown) {
        self.0.borrow_mut().unknown = Some(unknown);
    }
}
