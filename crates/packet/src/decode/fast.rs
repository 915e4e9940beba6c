//! The fast path for the usual packet: Ethernet, at most one VLAN tag, IP without options, TCP or
//! UDP, unfragmented, with all headers captured. The layers decode all other packets.

use flowloom_flow_key::protocol::{TCP, UDP};
use flowloom_flow_key::{Direction, FlowKey};

use super::ethernet::{IPV4, IPV6};
use crate::interface::InterfaceName;
use crate::view::Headers;

const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const IPV4_AND_TCP_BYTES: usize = 40;
const VLAN: u16 = 0x8100;

/// Offsets in an IPv4 header without options and the transport header behind it.
mod v4 {
    pub(super) const VERSION: usize = 0;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const ADDRESSES: usize = 12;
    pub(super) const PORTS: usize = 20;
    pub(super) const TCP_DATA_OFFSET: usize = 32;
    pub(super) const TCP_FLAGS: usize = 33;
}

/// Offsets in an IPv6 header and the transport header directly behind it.
mod v6 {
    pub(super) const VERSION: usize = 0;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
    pub(super) const SOURCE_PORT: usize = 40;
    pub(super) const DESTINATION_PORT: usize = 42;
    pub(super) const TCP_DATA_OFFSET: usize = 52;
    pub(super) const TCP_FLAGS: usize = 53;
}

/// Reads the 16 bits at an offset below the end.
#[inline(always)]
fn word<const N: usize>(ip: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([ip[at], ip[at + 1]])
}

/// Returns the headers of a usual packet, or `None` for other packets.
#[inline(always)]
pub(super) fn ethernet(bytes: &[u8]) -> Option<Headers> {
    // Forty bytes after the start of IP reach the end of an IPv4 packet's TCP header, so one length
    // check covers all headers of the usual packet.
    if let Some(frame) = bytes.first_chunk::<{ ETHERNET_BYTES + IPV4_AND_TCP_BYTES }>()
        && [frame[12], frame[13]] == IPV4.to_be_bytes()
    {
        return ipv4(bytes, ETHERNET_BYTES, 0);
    }
    tagged_or_version_6(bytes)
}

#[inline(always)]
fn tagged_or_version_6(bytes: &[u8]) -> Option<Headers> {
    let header = bytes.first_chunk::<18>()?;
    match u16::from_be_bytes([header[12], header[13]]) {
        IPV6 => ipv6(bytes, ETHERNET_BYTES, 0),
        VLAN => {
            let zone = u32::from(u16::from_be_bytes([header[14], header[15]]) & 0xFFF);
            match u16::from_be_bytes([header[16], header[17]]) {
                IPV4 => ipv4(bytes, ETHERNET_BYTES + TAG_BYTES, zone),
                IPV6 => ipv6(bytes, ETHERNET_BYTES + TAG_BYTES, zone),
                _ => None,
            }
        }
        _ => None,
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "parts of words")]
fn ipv4(bytes: &[u8], at: usize, zone: u32) -> Option<Headers> {
    let ip = bytes.get(at..)?.first_chunk::<IPV4_AND_TCP_BYTES>()?;
    // Version 4, a header of five words, and no fragment.
    if ip[v4::VERSION] != 0x45 || word(ip, v4::FRAGMENT) & 0x3FFF != 0 {
        return None;
    }
    let transport = Transport::from_header(ip[v4::PROTOCOL], ip[v4::TCP_DATA_OFFSET], ip[v4::TCP_FLAGS])?;
    let payload_bytes = u32::from(word(ip, v4::TOTAL_LENGTH)).checked_sub(20 + transport.bytes)?;
    let source_and_destination = u64::from_be_bytes(std::array::from_fn(|i| ip[v4::ADDRESSES + i]));
    let ports = u32::from_be_bytes(std::array::from_fn(|i| ip[v4::PORTS + i]));
    let (key, direction) = FlowKey::from_v4(
        (source_and_destination >> 32) as u32,
        source_and_destination as u32,
        (ports >> 16) as u16,
        ports as u16,
        ip[v4::PROTOCOL],
    );
    Some(headers(bytes, key.with_zone(zone), direction, transport, [at, 20], payload_bytes))
}

#[inline(always)]
fn ipv6(bytes: &[u8], at: usize, zone: u32) -> Option<Headers> {
    let ip = bytes.get(at..)?.first_chunk::<60>()?;
    if ip[v6::VERSION] >> 4 != 6 {
        return None;
    }
    let transport =
        Transport::from_header(ip[v6::NEXT_HEADER], ip[v6::TCP_DATA_OFFSET], ip[v6::TCP_FLAGS])?;
    let payload_bytes = u32::from(word(ip, v6::PAYLOAD_LENGTH)).checked_sub(transport.bytes)?;
    let address = |from: usize| u128::from_be_bytes(std::array::from_fn(|i| ip[from + i]));
    let (key, direction) = FlowKey::from_v6(
        address(v6::SOURCE),
        address(v6::DESTINATION),
        word(ip, v6::SOURCE_PORT),
        word(ip, v6::DESTINATION_PORT),
        ip[v6::NEXT_HEADER],
    );
    Some(headers(bytes, key.with_zone(zone), direction, transport, [at, 40], payload_bytes))
}

/// The fields of a transport header.
#[derive(Clone, Copy)]
struct Transport {
    bytes: u32,
    tcp_flags: u16,
}

/// How to read a transport header under one protocol.
#[derive(Clone, Copy)]
struct HeaderShape {
    /// The mask of the TCP data offset, in units of a byte.
    stated: u8,
    /// The header's length if the header does not state it.
    fixed: u8,
    /// The minimum length. No header reaches the minimum length of other protocols.
    least: u8,
    /// The mask of the flags.
    flags: u16,
}

/// Indexed by protocol.
static FORMS: [HeaderShape; 256] = {
    let mut forms = [HeaderShape { stated: 0, fixed: 0, least: u8::MAX, flags: 0 }; 256];
    forms[TCP as usize] = HeaderShape { stated: 0x3C, fixed: 0, least: 20, flags: 0x1FF };
    forms[UDP as usize] = HeaderShape { stated: 0, fixed: 8, least: 8, flags: 0 };
    forms
};

impl Transport {
    /// Reads a UDP header, or a TCP header if it is long enough.
    ///
    /// TCP and UDP alternate from packet to packet, and a branch would be mispredicted: a table
    /// avoids it.
    #[inline(always)]
    fn from_header(protocol: u8, data_offset: u8, flags: u8) -> Option<Self> {
        let form = &FORMS[usize::from(protocol)];
        let bytes = data_offset >> 2 & form.stated | form.fixed;
        let tcp_flags = u16::from_be_bytes([data_offset, flags]) & form.flags;
        (bytes >= form.least).then_some(Self { bytes: u32::from(bytes), tcp_flags })
    }
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "offsets of headers in the first hundred bytes; records are below 2^32"
)]
fn headers(
    bytes: &[u8],
    key: FlowKey,
    direction: Direction,
    transport: Transport,
    [network_at, ip_bytes]: [usize; 2],
    payload_bytes: u32,
) -> Headers {
    let network_offset = network_at as u32;
    let transport_offset = network_offset + ip_bytes as u32;
    Headers {
        key,
        direction,
        tcp_flags: transport.tcp_flags,
        later_fragment: false,
        is_error_of_flow: false,
        interface: InterfaceName::UNKNOWN,
        vlans: key.zone(),
        network_offset,
        transport_offset,
        payload_offset: (transport_offset + transport.bytes).min(bytes.len() as u32),
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
    fn usual_packet_takes_the_fast_path() {
        for (protocol, segment) in [(TCP, on(&tcp(), b"data")), (UDP, udp(1000, 53, &[7; 40]))] {
            for frame in frames(protocol, &segment) {
                let headers = ethernet(&frame);
                assert!(headers.is_some(), "{frame:?}");
                assert_eq!(headers, plain(LinkType::ETHERNET, &frame).ok());
            }
        }
    }

    #[test]
    fn link_type_decides_between_frame_and_ip_packet() {
        // This is both an Ethernet frame with a query to port 53, and, from its first byte on, an
        // IPv4 packet of protocol 89.
        let mut both = framed(0x0800, &ipv4(UDP, &udp(1000, 53, &[7; 40])));
        let length = u16::try_from(both.len()).unwrap().to_be_bytes();
        both[..10].copy_from_slice(&[0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, 89]);
        let protocol = |link| plain(link, &both).map(|headers| headers.tuple().protocol);
        assert_eq!((protocol(LinkType::ETHERNET), protocol(LinkType::RAW)), (Ok(UDP), Ok(89)));
    }

    #[test]
    fn unusual_packet_takes_the_slow_path() {
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
