//! Compares with a second decoder, the crate etherparse, for the headers that it supports.

use std::net::IpAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use flowloom_flow_key::FiveTuple;
use flowloom_packet::LinkType;

/// Returns the second decoder's tuple. Returns `None` if it finds no IP header or does not know the
/// link type.
pub(crate) fn tuple(link: LinkType, bytes: &[u8]) -> Option<FiveTuple> {
    let sliced = match link {
        LinkType::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok()?,
        LinkType::RAW => LaxSlicedPacket::from_ip(bytes).ok()?,
        LinkType::LINUX_SLL => {
            let protocol = u16::from_be_bytes(*bytes.get(14..)?.first_chunk()?);
            LaxSlicedPacket::from_ether_type(protocol.into(), &bytes[16..])
        }
        _ => return None,
    };
    let (source, destination, protocol): (IpAddr, IpAddr, u8) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), header.protocol().0)
        }
        LaxNetSlice::Ipv6(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
            ip.payload().ip_number.0,
        ),
        LaxNetSlice::Arp(_) => return None,
    };
    let (source_port, destination_port) = match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        Some(TransportSlice::Icmpv4(icmp)) if matches!(icmp.type_u8(), 0 | 8) => {
            let [high, low, ..] = icmp.bytes5to8();
            (u16::from_be_bytes([high, low]), u16::from_be_bytes([high, low]))
        }
        Some(TransportSlice::Icmpv6(icmp)) if matches!(icmp.type_u8(), 128 | 129) => {
            let [high, low, ..] = icmp.bytes5to8();
            (u16::from_be_bytes([high, low]), u16::from_be_bytes([high, low]))
        }
        _ => (0, 0),
    };
    Some(FiveTuple { source, destination, source_port, destination_port, protocol })
}

/// The reasons why the two decoders may differ about a packet to which both give a key.
pub(crate) fn explanation(ours: FiveTuple, theirs: FiveTuple) -> Option<&'static str> {
    if (ours.source, ours.destination) != (theirs.source, theirs.destination) {
        return None;
    }
    let no_ports = (theirs.source_port, theirs.destination_port) == (0, 0);
    match (ours.protocol, theirs.protocol) {
        (132, 132) if no_ports => Some("etherparse does not read SCTP"),
        (33, 33) | (136, 136) if no_ports => Some("etherparse does not read DCCP and UDP-Lite"),
        (6 | 17 | 1 | 58, same) if same == ours.protocol && no_ports => {
            Some("etherparse wants the whole transport header, and no fragment")
        }
        (_, 51) => Some("etherparse keeps IPv4's authentication header as protocol"),
        (51, _) => Some("IPv4's authentication header is our protocol, etherparse looks behind"),
        (_, 0 | 43 | 60) => Some("etherparse stops at an extension header that contradicts itself"),
        (135 | 139, 59) | (_, 135 | 139 | 140) => Some("mobility and host identity"),
        _ => None,
    }
}
