//! The bytes of frames: Ethernet, VLAN tags, IP, and transport headers with right checksums.

use std::net::IpAddr;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// Length of the shortest Ethernet frame, without its checksum.
const FRAME_BYTES_MIN: usize = 60;

/// An IP packet before it becomes frames.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// The transport header and its payload.
    pub(crate) body: Vec<u8>,
    /// Bytes of `body` behind the transport header.
    pub(crate) payload_bytes: usize,
    /// The identification, unlike that of every other datagram of the scenario.
    pub(crate) id: u32,
}

/// What IP packets are carried in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    /// IPv4 alone.
    Ip,
    Gre,
    Vxlan,
}

impl Tunnel {
    /// Returns the headers between the Ethernet header and an IP packet of this length.
    fn headers(self, side: usize, is_v6: bool, bytes: usize) -> Vec<u8> {
        let kind: [u8; 2] = if is_v6 { [0x86, 0xDD] } else { [8, 0] };
        let (protocol, inner) = match self {
            Self::Ip => (if is_v6 { 41 } else { 4 }, Vec::new()),
            Self::Gre => (47, [[0, 0], kind].concat()),
            Self::Vxlan => {
                // Ports, length, no checksum; the flag of a network, and its number.
                let mut inner = vec![0xD4, 0x31, 0x12, 0xB5];
                inner.extend((30 + bytes as u16).to_be_bytes());
                inner.extend([0, 0, 8, 0, 0, 0, 0, 0, 77, 0]);
                inner.extend([2, 0, 0, 0, 1, 2 - side as u8, 2, 0, 0, 0, 1, side as u8 + 1]);
                inner.extend(kind);
                (UDP, inner)
            }
        };
        let length = (20 + inner.len() + bytes) as u16;
        let mut outer = vec![0x45, 0];
        outer.extend(length.to_be_bytes());
        outer.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        outer.extend([198, 51, 100, 1 + side as u8, 198, 51, 100, 2 - side as u8]);
        let sum = checksum(&outer);
        outer[10..12].copy_from_slice(&sum.to_be_bytes());
        [outer, inner].concat()
    }
}

/// How datagrams become frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Framing {
    /// VLAN ids of frames from each side, outer first.
    pub(crate) vlans: [&'static [u16]; 2],
    /// Frames are padded to the shortest length of Ethernet.
    pub(crate) is_padded: bool,
    /// IPv6 packets have hop-by-hop and destination options.
    pub(crate) has_extensions: bool,
    /// Datagrams are fragmented to 576 bytes in IPv4, 1280 bytes in IPv6.
    pub(crate) is_fragmented: bool,
    pub(crate) tunnel: Option<Tunnel>,
}

/// A frame, with the length of the IP packet in it.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) vlans: &'static [u16],
    pub(crate) bytes: Vec<u8>,
    pub(crate) ip_bytes: usize,
    /// Bytes behind the transport header; all of a later fragment.
    pub(crate) payload_bytes: usize,
}

impl Framing {
    /// Returns the frames of a datagram from a side: one, or its fragments.
    pub(crate) fn frames(&self, side: usize, datagram: &Datagram) -> Vec<Frame> {
        let is_v6 = datagram.source.is_ipv6();
        let mut first = if is_v6 && self.has_extensions { vec![HOP_BY_HOP] } else { Vec::new() };
        let mut body = datagram.body.clone();
        let mut next = datagram.protocol;
        if is_v6 && self.has_extensions {
            body.splice(..0, [next, 0, 1, 4, 0, 0, 0, 0]);
            next = DESTINATION_OPTIONS;
        }
        let fixed = if is_v6 { 40 + 8 * first.len() } else { 20 };
        let mtu = if is_v6 { 1280 } else { 576 };
        if !self.is_fragmented || fixed + body.len() <= mtu {
            return vec![self.frame(side, datagram, &first, next, &body, None)];
        }
        if is_v6 {
            first.push(FRAGMENT);
        }
        let capacity = (mtu - fixed - if is_v6 { 8 } else { 0 }) / 8 * 8;
        let last = (body.len() - 1) / capacity;
        let parts = body.chunks(capacity).enumerate();
        parts
            .map(|(at, part)| {
                let offset = (at * capacity / 8) as u16;
                self.frame(side, datagram, &first, next, part, Some((offset, at < last)))
            })
            .collect()
    }

    fn frame(
        &self,
        side: usize,
        datagram: &Datagram,
        extensions: &[u8],
        protocol: u8,
        body: &[u8],
        fragment: Option<(u16, bool)>,
    ) -> Frame {
        let (offset, more) = fragment.unwrap_or_default();
        let mut bytes = mac(side, datagram.destination).to_vec();
        bytes.extend([2, 0, 0, 0, 0, side as u8 + 1]);
        for (at, vlan) in self.vlans[side].iter().enumerate() {
            let is_outer = self.vlans[side].len() > at + 1;
            bytes.extend(if is_outer { [0x88, 0xA8] } else { [0x81, 0] });
            bytes.extend(vlan.to_be_bytes());
        }
        let link = bytes.len() + 2;
        match (datagram.source, datagram.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend([8, 0, 0x45, 0]);
                bytes.extend(length_field(20 + body.len()));
                bytes.extend((datagram.id as u16).to_be_bytes());
                bytes.extend((offset | u16::from(more) << 13).to_be_bytes());
                bytes.extend([64, protocol, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                let sum = checksum(&bytes[link..]);
                bytes[link + 10..link + 12].copy_from_slice(&sum.to_be_bytes());
            }
            (source, destination) => {
                bytes.extend([0x86, 0xDD, 0x60, 0, 0, 0]);
                bytes.extend(length_field(8 * extensions.len() + body.len()));
                bytes.extend([*extensions.first().unwrap_or(&protocol), 64]);
                bytes.extend(octets(source));
                bytes.extend(octets(destination));
                for (at, &extension) in extensions.iter().enumerate() {
                    let next = *extensions.get(at + 1).unwrap_or(&protocol);
                    if extension == FRAGMENT {
                        bytes.extend([next, 0]);
                        bytes.extend((offset << 3 | u16::from(more)).to_be_bytes());
                        bytes.extend(datagram.id.to_be_bytes());
                    } else {
                        bytes.extend([next, 0, 1, 4, 0, 0, 0, 0]);
                    }
                }
            }
        }
        bytes.extend(body);
        let ip_bytes = bytes.len() - link;
        if let Some(tunnel) = self.tunnel {
            let headers = tunnel.headers(side, datagram.source.is_ipv6(), ip_bytes);
            bytes.splice(link - 2..link, [8, 0].into_iter().chain(headers));
        }
        if self.is_padded && bytes.len() < FRAME_BYTES_MIN {
            bytes.resize(FRAME_BYTES_MIN, 0);
        }
        let headers = datagram.body.len() - datagram.payload_bytes;
        let options = if datagram.source.is_ipv6() && self.has_extensions { 8 } else { 0 };
        let hidden = if offset == 0 { headers + options } else { 0 };
        Frame { vlans: self.vlans[side], bytes, ip_bytes, payload_bytes: body.len() - hidden }
    }
}

fn mac(side: usize, destination: IpAddr) -> [u8; 6] {
    match destination {
        IpAddr::V4(group) if group.is_multicast() => {
            let [_, b, c, d] = group.octets();
            [1, 0, 0x5E, b & 0x7F, c, d]
        }
        IpAddr::V6(group) if group.is_multicast() => {
            let end = group.octets();
            [0x33, 0x33, end[12], end[13], end[14], end[15]]
        }
        _ => [2, 0, 0, 0, 0, 2 - side as u8],
    }
}

/// Returns a length of IP, 0 if it is too long: a network card will divide the packet.
fn length_field(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(0).to_be_bytes()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the Internet checksum [RFC 1071].
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Puts the checksum with the pseudo-header into a transport header.
pub(crate) fn seal(ends: [IpAddr; 2], protocol: u8, body: &mut [u8]) {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        SCTP => {
            let sum = crc32c(body);
            return body[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        _ => 2,
    };
    let mut all = Vec::new();
    if protocol != ICMP {
        all.extend(octets(ends[0]));
        all.extend(octets(ends[1]));
        all.extend((body.len() as u32).to_be_bytes());
        all.extend([0, 0, 0, protocol]);
    }
    all.extend(&*body);
    let sum = checksum(&all);
    // A UDP checksum of 0 means that there is none [RFC 768].
    let sum = if protocol == UDP && sum == 0 { 0xFFFF } else { sum };
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the checksum of SCTP [RFC 9260 appendix A].
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for &byte in bytes {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert_eq!(checksum(&[0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7]), !0xDDF2);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn fragments_cover_the_whole_datagram() {
        for end in ["192.0.2.1", "2001:db8::1"] {
            let end = end.parse().unwrap();
            let datagram = Datagram {
                source: end,
                destination: end,
                protocol: UDP,
                body: vec![0; 1400],
                payload_bytes: 1392,
                id: 7,
            };
            for has_extensions in [false, true] {
                let framing = Framing { is_fragmented: true, has_extensions, ..Framing::default() };
                let frames = framing.frames(0, &datagram);
                assert!(frames.len() > 1);
                assert_eq!(frames.iter().map(|frame| frame.payload_bytes).sum::<usize>(), 1392);
            }
        }
    }
}
