//! Captures built byte by byte, so that each can contain a single error.

use std::io::Write;

/// The file header of a little-endian classic capture counting microseconds.
pub(crate) fn pcap_header(link: u32) -> Vec<u8> {
    let mut bytes = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0]);
    bytes.extend([0; 8]);
    bytes.extend(65_535_u32.to_le_bytes());
    bytes.extend(link.to_le_bytes());
    bytes
}

/// A record whose stated captured length may differ from its actual length.
pub(crate) fn pcap_record(second: u32, captured: u32, wire: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [second, 0, captured, wire] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(data);
    bytes
}

/// An Ethernet frame of a UDP packet between two hosts; the source port selects the flow.
pub(crate) fn udp_frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    // Version and length, class, total length, identification, flags, lifetime, UDP, checksum,
    // addresses.
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// A classic capture of `count` UDP packets, one per second, each of which is a separate flow.
pub(crate) fn pcap(packets: u16) -> Vec<u8> {
    let mut file = pcap_header(1);
    for i in 0..packets {
        let frame = udp_frame(1000 + i);
        file.extend(pcap_record(1000 + u32::from(i), 46, 46, &frame));
    }
    file
}

/// A little-endian pcapng block.
pub(crate) fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = u32::try_from(padded + 12).unwrap().to_le_bytes();
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(length);
    bytes.extend(body);
    bytes.resize(8 + padded, 0);
    bytes.extend(length);
    bytes
}

/// A section header followed by an interface for each link type.
pub(crate) fn pcapng_header(links: &[u16]) -> Vec<u8> {
    let mut body = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend([0xFF; 8]);
    let mut file = block(0x0A0D_0D0A, &body);
    for link in links {
        let mut body = link.to_le_bytes().to_vec();
        body.extend([0; 6]);
        file.extend(block(1, &body));
    }
    file
}

/// An enhanced packet block whose stated captured length may differ from its actual length.
pub(crate) fn enhanced(interface: u32, microsecond: u32, captured: u32, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [interface, 0, microsecond, captured, u32::try_from(data.len()).unwrap()] {
        body.extend(word.to_le_bytes());
    }
    body.extend(data);
    block(6, &body)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A classic capture of frames, one per second from second 1000 on.
pub(crate) fn capture(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header(link);
    for (second, frame) in (1000..).zip(frames) {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend(pcap_record(second, length, length, frame));
    }
    file
}

/// An IPv4 packet between the hosts 10.0.0.x.
pub(crate) fn ipv4(protocol: u8, fragment: u16, from: u8, to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap();
    let mut packet = vec![0x45, 0];
    packet.extend([length, u16::from(from), fragment].map(u16::to_be_bytes).concat());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, from]);
    packet.extend(to);
    packet.extend(payload);
    packet
}

/// An Ethernet frame with an IPv4 packet.
pub(crate) fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], packet].concat()
}

/// A TCP segment.
pub(crate) fn tcp(ports: [u16; 2], numbers: [u32; 2], flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = ports.map(u16::to_be_bytes).concat();
    segment.extend(numbers.map(u32::to_be_bytes).concat());
    segment.extend([0x50, flags, 255, 255, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

/// A UDP datagram.
pub(crate) fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    [&[ports[0], ports[1], length, 0].map(u16::to_be_bytes).concat()[..], payload].concat()
}
