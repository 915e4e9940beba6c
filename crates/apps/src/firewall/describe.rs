//! Converts a decoded packet to the packet type of policies.

use flowloom_flow_key::protocol::{AUTHENTICATION, FRAGMENT};
use flowloom_flow_key::{FiveTuple, IpFamily};
use flowloom_packet::{PacketView, icmp};
use flowloom_rules::firewall::{Fragment, NetworkBytes, Packet};

/// Returns the fields of a packet on which rules match, except interfaces and the connection's
/// state.
///
/// TCP flags and the ICMP type are unknown if the captured bytes end before them. The sender's MAC
/// address is known for Ethernet frames whose IP header follows the Ethernet header and VLAN tags.
#[must_use]
pub fn describe<'a>(view: &PacketView<'a>) -> Packet<'a> {
    let headers = &view.headers;
    let byte = |from: u32, offset: usize| view.bytes.get(from as usize + offset).copied();
    let ip = |offset: usize| byte(headers.network_offset, offset);
    let is_v6 = headers.key.family() == IpFamily::V6;
    let extensions = if is_v6 { extensions_of_v6(view) } else { Extensions::default() };
    // iptables knows a later fragment of IPv4 that begins at byte 8.
    let is_at_8 = || {
        !is_v6 && ip(6).zip(ip(7)).is_some_and(|(high, low)| u16::from_be_bytes([high, low]) & 0x1fff == 1)
    };
    let fragment = if headers.later_fragment {
        if is_at_8() { Fragment::Second } else { Fragment::Later }
    } else if is_v6 {
        if extensions.is_first { Fragment::First } else { Fragment::Whole }
    } else {
        // The "more fragments" flag of a packet at offset zero.
        match ip(6) {
            Some(flags) if flags & 0x20 != 0 => Fragment::First,
            _ => Fragment::Whole,
        }
    };
    let mut tuple = if headers.is_error_of_flow { tuple_of_error(view) } else { headers.tuple() };
    // Netfilter does not look behind an authentication header of IPv4.
    if !is_v6 && ip(9) == Some(AUTHENTICATION) {
        (tuple.protocol, tuple.source_port, tuple.destination_port) = (AUTHENTICATION, 0, 0);
    }
    let mut packet = Packet::new(tuple).with_fragment(fragment);
    // Of a later fragment of IPv6, netfilter takes the start of the packet for the transport
    // header.
    let is_lost = is_v6 && fragment.is_later();
    let transport_offset = if is_lost { headers.network_offset } else { headers.transport_offset };
    let transport = |offset: usize| byte(transport_offset, offset);
    match tuple.protocol {
        6 => packet.tcp_flags = transport(13),
        1 | 58 => packet.icmp = transport(0).zip(transport(1)),
        132 if !fragment.is_later() => packet.sctp_chunk = transport(12),
        _ => {}
    }
    if fragment.is_later()
        && let (Some(a), Some(b), Some(c), Some(d)) =
            (transport(0), transport(1), transport(2), transport(3))
    {
        packet.has_later_bytes = true;
        (packet.tuple.source_port, packet.tuple.destination_port) =
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    }
    let service =
        if is_v6 { ip(0).zip(ip(1)).map(|(first, second)| first << 4 | second >> 4) } else { ip(1) };
    (packet.dscp, packet.ecn) = (service.map(|service| service >> 2), service.map(|service| service & 3));
    packet.ttl = ip(if is_v6 { 7 } else { 8 });
    packet.next_header = ip(6).filter(|_| is_v6);
    packet.length = Some(view.ip_bytes());
    // The zone of stacked tags or of a tunnel is not a single VLAN ID.
    packet.vlan = u16::try_from(headers.key.zone()).ok().filter(|&vlan| vlan < 4096);
    packet.source_mac = source_mac(view);
    packet.authentication = extensions.authentication;
    // An authentication header of IPv4 is the transport header.
    let header = if is_v6 { None } else { ip(0).map(|first| u32::from(first & 15) * 4) };
    let transport = header.unwrap_or(transport_offset - headers.network_offset);
    packet.network = view.bytes.get(headers.network_offset as usize..).map(|captured| {
        let length = view.ip_bytes();
        NetworkBytes { captured, length, transport, is_forwarded: false }
    });
    packet
}

/// Returns the addresses of an ICMP error, whose key is that of the flow that it concerns.
fn tuple_of_error(view: &PacketView<'_>) -> FiveTuple {
    let network = view.bytes.get(view.headers.network_offset as usize..).unwrap_or_default();
    match view.headers.key.family() {
        IpFamily::V4 => {
            let address =
                |at: usize| network.get(at..at + 4).and_then(|a| a.try_into().ok()).unwrap_or([0; 4]);
            FiveTuple::v4(address(12), address(16), 0, 0, icmp::ICMP)
        }
        IpFamily::V6 => {
            let address =
                |at: usize| network.get(at..at + 16).and_then(|a| a.try_into().ok()).unwrap_or([0; 16]);
            FiveTuple::v6(address(8), address(24), 0, 0, icmp::ICMPV6)
        }
    }
}

/// Returns the sender's MAC address of a frame whose Ethertypes lead to its IP header.
fn source_mac(view: &PacketView<'_>) -> Option<[u8; 6]> {
    const ETHERNET_BYTES: usize = 14;
    const TAG_BYTES: usize = 4;
    let network = view.headers.network_offset as usize;
    let mut offset = ETHERNET_BYTES;
    while offset < network && matches!(ether_type(view, offset)?, 0x8100 | 0x88a8 | 0x9100) {
        offset += TAG_BYTES;
    }
    let is_ip = offset == network && matches!(ether_type(view, offset)?, 0x0800 | 0x86dd);
    is_ip.then(|| view.bytes.get(6..12)?.try_into().ok())?
}

/// Returns the Ethertype that ends before an offset.
fn ether_type(view: &PacketView<'_>, offset: usize) -> Option<u16> {
    let bytes = view.bytes.get(offset.checked_sub(2)?..offset)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// What extension headers before the transport header tell.
#[derive(Clone, Copy, Debug, Default)]
struct Extensions {
    /// A fragment header has the "more fragments" flag.
    is_first: bool,
    /// Offset of an authentication header from the network header.
    authentication: Option<u32>,
}

fn extensions_of_v6(view: &PacketView<'_>) -> Extensions {
    const HEADER_BYTES: usize = 40;
    /// Maximum number of extension headers that are searched, which is also the decoder's limit.
    const EXTENSIONS_MAX: usize = 8;
    let mut found = Extensions::default();
    let start = view.headers.network_offset as usize;
    let at = |offset: usize| view.bytes.get(start + offset).copied();
    let (mut next, mut offset) = (at(6), HEADER_BYTES);
    for _ in 0..EXTENSIONS_MAX {
        let units =
            |unit: usize, first: usize| at(offset + 1).map(|count| (usize::from(count) + first) * unit);
        let length = match next {
            Some(FRAGMENT) => {
                found.is_first |= at(offset + 3).is_some_and(|flags| flags & 1 != 0);
                Some(8)
            }
            Some(AUTHENTICATION) => {
                found.authentication = found.authentication.or(u32::try_from(offset).ok());
                units(4, 2)
            }
            Some(0 | 43 | 60 | 135 | 139 | 140) => units(8, 1),
            _ => break,
        };
        let Some(length) = length else { break };
        next = at(offset);
        offset += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use flowloom_packet::{DecodeOptions, LinkType, decode};

    use super::*;

    fn described(bytes: &[u8]) -> Packet<'static> {
        let bytes: &[u8] = bytes.to_vec().leak();
        let headers = decode(LinkType::RAW, bytes, DecodeOptions::default()).unwrap();
        describe(&PacketView::new(bytes, headers, 0, u32::try_from(bytes.len()).unwrap()))
    }

    fn v4(protocol: u8, fragment: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(20 + rest.len()).unwrap().to_be_bytes();
        let mut packet =
            vec![0x45, 0xb8, length[0], length[1], 0, 1, fragment[0], fragment[1], 64, protocol, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(rest);
        packet
    }

    #[test]
    fn fields_are_those_of_the_headers() {
        let syn = [0, 9, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0];
        let packet = described(&v4(6, [0, 0], &syn));
        assert_eq!(
            (packet.tcp_flags, packet.dscp, packet.length, packet.vlan),
            (Some(2), Some(46), Some(40), Some(0))
        );
        assert_eq!(described(&v4(6, [0, 0], &syn)[..32]).tcp_flags, None, "cut before the flags");
        let unreachable = described(&v4(1, [0, 0], &[3, 4, 0, 0, 0, 0, 0, 0]));
        assert_eq!((unreachable.icmp, unreachable.has_ports), (Some((3, 4)), false));
        let first = described(&v4(17, [0x20, 0], &[0, 9, 0, 80, 0, 8, 0, 0]));
        assert_eq!((first.fragment, first.has_ports), (Fragment::First, true));
        let later = described(&v4(17, [0, 7], &[1; 8]));
        assert_eq!((later.fragment, later.has_ports), (Fragment::Later, false));
        assert_eq!((later.has_later_bytes, later.tuple.destination_port), (true, 0x0101));
        assert_eq!(described(&v4(17, [0, 1], &[1; 8])).fragment, Fragment::Second);
        assert_eq!((first.ttl, first.ecn, first.next_header), (Some(64), Some(0), None));
    }

    #[test]
    fn an_authentication_header_of_ipv4_is_the_transport_header() {
        let signed = [17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 9, 0, 53, 0, 8, 0, 0];
        let packet = described(&v4(51, [0, 0], &signed));
        assert_eq!((packet.tuple.protocol, packet.tuple.destination_port), (51, 0));
        assert!(!packet.has_ports);
    }

    #[test]
    fn authentication_header_of_ipv6_is_found() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 28, 60, 64];
        packet.extend([1; 32]);
        packet.extend([51, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        packet.extend([0, 9, 0, 53, 0, 8, 0, 0]);
        let found = described(&packet);
        assert_eq!((found.authentication, found.tuple.destination_port), (Some(48), 53));
        assert_eq!(found.network.map(|bytes| bytes.transport), Some(60));
        packet[6] = 17;
        assert_eq!(described(&packet).authentication, None);
    }

    #[test]
    fn first_fragment_of_ipv6_is_found_after_other_extension_headers() {
        let mut packet = vec![0x6b, 0x80, 0, 0, 0, 24, 60, 64];
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        packet.extend([44, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([17, 0, 0, 1, 0, 0, 0, 9]);
        packet.extend([0, 9, 0, 80, 0, 8, 0, 0]);
        let first = described(&packet);
        assert_eq!((first.fragment, first.dscp, first.has_ports), (Fragment::First, Some(46), true));
        packet[51] = 0;
        assert_eq!(described(&packet).fragment, Fragment::Whole);
    }

    #[test]
    fn sender_address_is_known_only_on_ethernet() {
        let ip = v4(17, [0, 0], &[0, 9, 0, 80, 0, 8, 0, 0]);
        let plain = [&[1; 6][..], &[2; 6], &[8, 0], &ip].concat();
        let tagged = [&[1; 6][..], &[2; 6], &[0x81, 0, 0, 5, 8, 0], &ip].concat();
        let cooked = [&[0; 14][..], &[8, 0], &ip].concat();
        for (link, bytes, mac) in [
            (LinkType::ETHERNET, &plain, Some([2; 6])),
            (LinkType::ETHERNET, &tagged, Some([2; 6])),
            (LinkType::LINUX_SLL, &cooked, None),
            (LinkType::RAW, &ip, None),
        ] {
            let headers = decode(link, bytes, DecodeOptions::default()).unwrap();
            let view = PacketView::new(bytes, headers, 0, u32::try_from(bytes.len()).unwrap());
            assert_eq!(describe(&view).source_mac, mac);
        }
    }
}
