//! The shortcut for the usual packet: Ethernet, at most one VLAN tag, IP without options, TCP or UDP, unfragmented, with
//! all its headers captured. Anything else is left to the layers.

use flowloom_flow_key::{Direction, FlowKey};

use crate::view::Headers;

const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns the headers of a usual packet.
#[inline(always)]
pub(super) fn ethernet(bytes: &[u8]) -> Option<Headers> {
    let header = bytes.first_chunk::<18>()?;
    match [header[12], header[13]] {
        [0x08, 0x00] => ipv4(bytes, ETHERNET_BYTES, 0),
        [0x86, 0xDD] => ipv6(bytes, ETHERNET_BYTES, 0),
        [0x81, 0x00] => {
            let zone = u32::from(u16::from_be_bytes([header[14], header[15]]) & 0xFFF);
            match [header[16], header[17]] {
                [0x08, 0x00] => ipv4(bytes, ETHERNET_BYTES + TAG_BYTES, zone),
                [0x86, 0xDD] => ipv6(bytes, ETHERNET_BYTES + TAG_BYTES, zone),
                _ => None,
            }
        }
        _ => None,
    }
}

#[inline(always)]
fn ipv4(bytes: &[u8], at: usize, zone: u32) -> Option<Headers> {
    // Forty bytes reach to the end of a TCP header, and one length check is for all of them.
    let ip = bytes.get(at..)?.first_chunk::<40>()?;
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3FFF;
    if ip[0] != 0x45 || fragment != 0 {
        return None;
    }
    let (transport_bytes, tcp_flags) = transport(ip[9], ip[32], ip[33])?;
    let total = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
    let payload_bytes = total.checked_sub(20 + transport_bytes)?;
    let (key, direction) = FlowKey::from_v4(
        u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]),
        u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]),
        u16::from_be_bytes([ip[20], ip[21]]),
        u16::from_be_bytes([ip[22], ip[23]]),
        ip[9],
    );
    Some(headers(bytes, key.with_zone(zone), direction, tcp_flags, at, 20, transport_bytes, payload_bytes))
}

#[inline(always)]
fn ipv6(bytes: &[u8], at: usize, zone: u32) -> Option<Headers> {
    let ip = bytes.get(at..)?.first_chunk::<60>()?;
    if ip[0] >> 4 != 6 {
        return None;
    }
    let (transport_bytes, tcp_flags) = transport(ip[6], ip[52], ip[53])?;
    let length = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
    let payload_bytes = length.checked_sub(transport_bytes)?;
    let address = |from: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&ip[from..from + 16]);
        u128::from_be_bytes(octets)
    };
    let (key, direction) = FlowKey::from_v6(
        address(8),
        address(24),
        u16::from_be_bytes([ip[40], ip[41]]),
        u16::from_be_bytes([ip[42], ip[43]]),
        ip[6],
    );
    Some(headers(bytes, key.with_zone(zone), direction, tcp_flags, at, 40, transport_bytes, payload_bytes))
}

/// Returns the length of the transport header and the TCP flags, for TCP and UDP.
///
/// The two alternate from packet to packet: they are told apart by arithmetic, and only what is neither by a branch.
#[inline(always)]
fn transport(protocol: u8, data_offset: u8, flags: u8) -> Option<(u32, u8)> {
    let is_tcp = protocol == TCP;
    let is_usual = (is_tcp && data_offset >= 0x50) || protocol == UDP;
    if !is_usual {
        return None;
    }
    let mask = u8::from(is_tcp).wrapping_neg();
    let words = (data_offset >> 4 & mask) | (2 & !mask);
    Some((u32::from(words) * 4, flags & mask))
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the parts of one value, each used once")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "offsets of headers in the first hundred bytes; records are below 2^32"
)]
fn headers(
    bytes: &[u8],
    key: FlowKey,
    direction: Direction,
    tcp_flags: u8,
    at: usize,
    ip_bytes: u32,
    transport_bytes: u32,
    payload_bytes: u32,
) -> Headers {
    let network_offset = at as u32;
    let transport_offset = network_offset + ip_bytes;
    Headers {
        key,
        direction,
        tcp_flags,
        later_fragment: false,
        network_offset,
        transport_offset,
        payload_offset: (transport_offset + transport_bytes).min(bytes.len() as u32),
        payload_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{ethernet as framed, ipv4, ipv6, on, plain, tag, udp};
    use super::*;
    use crate::link::LinkType;

    /// Returns a TCP header without options.
    fn tcp() -> Vec<u8> {
        on(&[3, 0xE8, 0, 53, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18], &[0; 6])
    }

    /// Returns frames of both families with this transport, each with and without a tag.
    fn frames(protocol: u8, segment: &[u8]) -> [Vec<u8>; 4] {
        let (four, six) = (ipv4(protocol, segment), ipv6(protocol, segment));
        [
            framed(0x0800, &four),
            framed(0x86DD, &six),
            framed(0x8100, &tag(5, 0x0800, &four)),
            framed(0x8100, &tag(5, 0x86DD, &six)),
        ]
    }

    #[test]
    fn what_is_usual_takes_the_shortcut() {
        for (protocol, segment) in [(TCP, on(&tcp(), b"data")), (UDP, udp(1000, 53, &[7; 40]))] {
            for frame in frames(protocol, &segment) {
                let headers = ethernet(&frame);
                assert!(headers.is_some(), "{frame:?}");
                assert_eq!(headers, plain(LinkType::ETHERNET, &frame).ok());
            }
        }
    }

    #[test]
    fn a_packet_without_a_frame_is_not_taken_for_one() {
        // Both an Ethernet frame with a query to port 53, and, from its first byte on, an IPv4 packet of protocol 89.
        let mut both = framed(0x0800, &ipv4(UDP, &udp(1000, 53, &[7; 40])));
        let length = u16::try_from(both.len()).unwrap().to_be_bytes();
        both[..10].copy_from_slice(&[0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, 89]);
        let protocol = |link| plain(link, &both).map(|headers| headers.tuple().protocol);
        assert_eq!((protocol(LinkType::ETHERNET), protocol(LinkType::RAW)), (Ok(UDP), Ok(89)));
    }

    #[test]
    fn what_is_not_usual_is_left_to_the_layers() {
        let mut short = tcp();
        short[12] = 0x40;
        let sctp = [1; 40];
        for (protocol, segment) in [(TCP, &short[..]), (132, &sctp)] {
            for frame in frames(protocol, segment) {
                assert_eq!(ethernet(&frame), None, "{frame:?}");
            }
        }
        let usual = ipv4(TCP, &tcp());
        let with = |at: usize, byte| {
            let mut frame = framed(0x0800, &usual);
            frame[ETHERNET_BYTES + at] = byte;
            ethernet(&frame)
        };
        assert!(with(6, 0x40).is_some(), "may not be fragmented");
        assert_eq!(with(6, 0x20), None, "a first fragment");
        assert_eq!(with(7, 1), None, "a later fragment");
        assert_eq!(with(0, 0x46), None, "options");
        assert_eq!(ethernet(&framed(0x0800, &usual[..39])), None, "cut");
        assert_eq!(ethernet(&framed(0x0806, &[0; 60])), None, "ARP");
        assert_eq!(ethernet(&framed(0x86DD, &on(&[0x40], &[0; 80]))), None, "no version 6");
    }
}
