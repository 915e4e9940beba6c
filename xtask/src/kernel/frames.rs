//! Random frames: connections packet by packet, and single packets of every kind.

use super::hosts::{Family, PORTS};
use crate::draw::Draw;

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const ACK: u8 = 16;

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const DCCP: u8 = 33;
const ESP: u8 = 50;
const AUTHENTICATION: u8 = 51;
pub(super) const ICMPV6: u8 = 58;
pub(super) const SCTP: u8 = 132;
const UDPLITE: u8 = 136;

/// Number of connections that send packets in turn.
const CONNECTIONS: usize = 24;

/// A connection, and the number of packets that it has sent.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) family: Family,
    pub(super) protocol: u8,
    pub(super) hosts: [Vec<u8>; 2],
    pub(super) ports: [u16; 2],
    sent: usize,
    sequence: [u32; 2],
}

/// Generates the frames of a capture.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of the frames")]
pub(super) struct Frames<'a> {
    pub(super) draw: &'a mut Draw,
    families: &'static [Family],
    /// Whether the kernel tracks connections. It then reassembles fragments, so none are sent.
    is_tracked: bool,
    /// Whether later fragments are sent. The iptables of nf_tables reads their payload for ports,
    /// which its files do not show.
    has_later: bool,
    /// Authentication headers of IPv6 are sent. The iptables of nf_tables does not look behind
    /// them, which its files do not show.
    pub(super) signs_v6: bool,
    is_iptables: bool,
    connections: Vec<Connection>,
    /// The frames of a sequence that have not been sent, the last one first.
    pub(super) sequence: Vec<Vec<u8>>,
}

impl<'a> Frames<'a> {
    pub(super) fn new(
        draw: &'a mut Draw,
        families: &'static [Family],
        is_tracked: bool,
        (has_later, is_iptables): (bool, bool),
    ) -> Self {
        Self {
            draw,
            families,
            is_tracked,
            has_later,
            signs_v6: false,
            is_iptables,
            connections: Vec::new(),
            sequence: Vec::new(),
        }
    }

    /// Returns the next frame.
    pub(super) fn frame(&mut self) -> Vec<u8> {
        if self.is_tracked && self.draw.percent(40) {
            return self.next_of_sequence();
        }
        let index = self.draw.below(CONNECTIONS);
        if index >= self.connections.len() {
            let connection = self.connection();
            self.connections.push(connection);
        }
        let index = index.min(self.connections.len() - 1);
        if self.connections[index].sent > 12 {
            self.connections[index] = self.connection();
        }
        if self.draw.percent(6) {
            let connection = self.connections[index].clone();
            return self.icmp_error(&connection, None, true);
        }
        let mut connection = self.connections[index].clone();
        let (is_reply, transport) = self.transport(&mut connection);
        connection.sent += 1;
        let [from, to] = &connection.hosts;
        let (from, to) = if is_reply { (to, from) } else { (from, to) };
        let frame = self.network(connection.family, from, to, connection.protocol, transport);
        self.connections[index] = connection;
        frame
    }

    pub(super) fn connection(&mut self) -> Connection {
        let family = self.draw.pick(self.families);
        let icmp = if family == Family::V4 { ICMP } else { ICMPV6 };
        let protocol =
            self.draw.pick(&[TCP, TCP, TCP, TCP, UDP, UDP, UDP, SCTP, UDPLITE, DCCP, icmp, icmp, 47, ESP]);
        // A host that sends to itself has no direction that addresses could distinguish.
        let from = family.host(self.draw);
        let to = std::iter::repeat_with(|| family.host(self.draw)).find(|host| *host != from);
        let hosts = [from.clone(), to.unwrap_or(from)];
        let from = if self.draw.percent(50) {
            20_000 + self.draw.below(30_000) as u16
        } else {
            self.draw.pick(&PORTS)
        };
        let mut ports = [from, self.draw.pick(&PORTS)];
        // Kernels from 6.17 on track DCCP by addresses only, so two hosts use one pair of ports.
        if protocol == DCCP && self.is_tracked {
            ports = [5000, 5000];
        }
        Connection { family, protocol, hosts, ports, sent: 0, sequence: [1000, 5000] }
    }

    /// Returns whether the packet goes back, and its transport header with a payload.
    fn transport(&mut self, connection: &mut Connection) -> (bool, Vec<u8>) {
        let is_odd = connection.sent % 2 == 1;
        let payload = self.draw.below(40);
        let is_reply = match connection.protocol {
            TCP | SCTP | ICMP | ICMPV6 => is_odd,
            _ => self.draw.percent(40),
        };
        let [mut from, mut to] = connection.ports;
        if is_reply {
            (from, to) = (to, from);
        }
        let mut bytes = Vec::new();
        if !matches!(connection.protocol, ICMP | ICMPV6 | ESP | 47) {
            bytes.extend(from.to_be_bytes());
            bytes.extend(to.to_be_bytes());
        }
        match connection.protocol {
            TCP => {
                let mut flags = match connection.sent {
                    0 => SYN,
                    1 => SYN | ACK,
                    2..8 => ACK | self.draw.pick(&[0, PSH]),
                    8 | 9 => FIN | ACK,
                    _ => ACK,
                };
                if self.draw.percent(6) {
                    flags = self.draw.pick(&[0, RST, RST | ACK, SYN, SYN | FIN, ACK, 0x3f, FIN]);
                }
                bytes = segment(connection, is_reply, flags, payload);
            }
            UDP | UDPLITE => {
                bytes.extend((8 + payload as u16).to_be_bytes());
                // UDP-Lite always has a checksum.
                bytes.extend([0xff, 0xff]);
                bytes.resize(8 + payload, b'x');
            }
            DCCP => {
                // The data offset in words, and a type: data.
                bytes.extend([3, 0, 0, 0, 2 << 1, 0, 0, connection.sent as u8]);
                bytes.resize(12 + payload, b'x');
            }
            SCTP => {
                let chunk = match (connection.sent, is_reply) {
                    (0, _) => 1,
                    (1, _) => 2,
                    (2, _) => 10,
                    (3, _) => 11,
                    _ => 0,
                };
                bytes.extend(sctp(chunk));
            }
            ESP | 47 => bytes.extend([0, 0, 8, 0, 1, 2, 3, 4]),
            // Echo requests and their replies; a pair of hosts uses one identifier.
            protocol => {
                let is_v6 = protocol == ICMPV6;
                let kind = match (is_v6, is_reply) {
                    (false, false) => 8,
                    (false, true) => 0,
                    (true, false) => 128,
                    (true, true) => 129,
                };
                let kind = if self.draw.percent(75) {
                    kind
                } else if is_v6 {
                    self.draw.pick(&[1, 2, 3, 4, 130, 135, 143])
                } else {
                    self.draw.pick(&[3, 4, 5, 11, 12, 13, 14])
                };
                let code = if kind == 3 { self.draw.below(5) as u8 } else { 0 };
                bytes.extend([kind, code, 0, 0, 0, 1, 0, connection.sent as u8]);
                bytes.resize(8 + payload, b'x');
            }
        }
        (is_reply, bytes)
    }

    /// Returns an ICMP error about a packet of a connection in a direction, sent by a third host to
    /// the sender of that packet, or to another host.
    pub(super) fn icmp_error(
        &mut self,
        connection: &Connection,
        direction: Option<bool>,
        is_to_sender: bool,
    ) -> Vec<u8> {
        let mut inner = connection.clone();
        inner.sent = usize::from(direction == Some(true));
        let (mut is_reply, mut transport) = self.transport(&mut inner);
        // Some protocols draw the direction.
        while direction.is_some_and(|direction| direction != is_reply) {
            (is_reply, transport) = self.transport(&mut inner);
        }
        let [from, to] = &connection.hosts;
        let (from, to) = if is_reply { (to, from) } else { (from, to) };
        let quoted =
            packet(connection.family, from, to, connection.protocol, &[], &transport, [0, 64], None);
        let is_v6 = connection.family == Family::V6;
        let (protocol, kind) = if is_v6 {
            (ICMPV6, self.draw.pick(&[1, 2, 3, 4]))
        } else {
            (ICMP, self.draw.pick(&[3, 11, 12]))
        };
        let code = if kind == 3 { self.draw.below(2) as u8 } else { 0 };
        let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
        bytes.extend(quoted);
        let router = connection.family.host(self.draw);
        let to = if is_to_sender { from.clone() } else { connection.family.host(self.draw) };
        let body = packet(connection.family, &router, &to, protocol, &[], &bytes, [0, 64], None);
        ethernet(connection.family, body)
    }

    /// Puts IP and Ethernet headers before a transport header.
    pub(super) fn network(
        &mut self,
        family: Family,
        from: &[u8],
        to: &[u8],
        protocol: u8,
        mut transport: Vec<u8>,
    ) -> Vec<u8> {
        let service = self.draw.pick(&[0, 0, 0, 0xb8, 0x28]);
        let mut fragment = None;
        if !self.is_tracked && self.draw.percent(12) {
            let is_later = self.draw.percent(60) && self.has_later;
            if is_later && self.draw.percent(50) {
                transport = vec![b'y'; 24];
            } else {
                transport.truncate(transport.len() / 8 * 8);
                if transport.len() < 24 {
                    transport.resize(24, b'y');
                }
            }
            fragment = Some(if is_later {
                // iptables drops the second part of TCP, which no counter of a rule tells.
                let at = if self.is_iptables && protocol == TCP { 2 } else { 1 };
                (self.draw.pick(&[at, 2, 3, 100, 185, 1000]), self.draw.percent(50))
            } else {
                (0, true)
            });
        }
        let mut protocol = protocol;
        // Of IPv4, connection tracking does not look behind an authentication header.
        let may_sign = if family == Family::V4 { !self.is_tracked } else { self.signs_v6 };
        if fragment.is_none() && may_sign && self.draw.percent(5) {
            let mut header = vec![protocol, 4, 0, 0];
            header.resize(24, 1);
            header.extend(transport);
            (transport, protocol) = (header, AUTHENTICATION);
        }
        let ttl = self.draw.pick(&[64, 64, 5, 6, 200]);
        let options: &[u8] = if !self.draw.percent(10) {
            &[]
        } else if family == Family::V4 {
            // No operation, four times.
            &[1, 1, 1, 1]
        } else {
            // A kind of extension header, then its bytes: padding.
            self.draw.pick(&[
                &[0, 0, 1, 4, 0, 0, 0, 0],
                &[60, 0, 1, 4, 0, 0, 0, 0],
                &[43, 0, 0, 0, 0, 0, 0, 0],
            ])
        };
        ethernet(family, packet(family, from, to, protocol, options, &transport, [service, ttl], fragment))
    }
}

/// Returns the next TCP segment of a side of a connection, with a payload of so many bytes.
pub(super) fn segment(connection: &mut Connection, is_reply: bool, flags: u8, payload: usize) -> Vec<u8> {
    let [mut from, mut to] = connection.ports;
    if is_reply {
        (from, to) = (to, from);
    }
    let side = usize::from(is_reply);
    let length = if flags & SYN != 0 { 0 } else { payload };
    let mut bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
    bytes.extend(connection.sequence[side].to_be_bytes());
    let acknowledged = if flags & ACK == 0 { 0 } else { connection.sequence[1 - side] };
    bytes.extend(acknowledged.to_be_bytes());
    bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.resize(20 + length, b'x');
    let step = length as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    connection.sequence[side] = connection.sequence[side].wrapping_add(step);
    bytes
}

/// Returns a chunk of SCTP, after the ports.
pub(super) fn sctp(chunk: u8) -> Vec<u8> {
    let tag = u32::from(chunk != 1);
    let mut bytes = tag.to_be_bytes().to_vec();
    // The checksum, then type, flags and length of the chunk, then the tag of the sender.
    bytes.extend([0, 0, 0, 0, chunk, 0, 0, 20, 0, 0, 0, 1]);
    bytes.extend([0; 12]);
    bytes
}

fn ethernet(family: Family, body: Vec<u8>) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(if family == Family::V4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(body);
    frame
}

/// Returns an IP packet. `options` are IPv4 options, or the kind and bytes of an extension header.
/// Two bytes are those of service and of the time to live. `fragment` is an offset in units of 8
/// bytes, and whether more fragments follow.
#[expect(clippy::too_many_arguments, reason = "one argument for each part of a packet")]
fn packet(
    family: Family,
    from: &[u8],
    to: &[u8],
    protocol: u8,
    options: &[u8],
    transport: &[u8],
    [service, ttl]: [u8; 2],
    fragment: Option<(u16, bool)>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    if family == Family::V4 {
        let header = 20 + options.len();
        let total = (header + transport.len()) as u16;
        bytes.extend([0x40 | (header / 4) as u8, service]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 7]);
        let (offset, more) = fragment.unwrap_or((0, false));
        bytes.extend((offset | u16::from(more) << 13).to_be_bytes());
        bytes.extend([ttl, protocol, 0, 0]);
        bytes.extend(from);
        bytes.extend(to);
        bytes.extend(options);
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        let mut extensions = Vec::new();
        let mut next = protocol;
        if let Some((offset, more)) = fragment {
            extensions.extend([protocol, 0]);
            extensions.extend((offset << 3 | u16::from(more)).to_be_bytes());
            extensions.extend([0, 0, 0, 7]);
            next = 44;
        }
        if let Some((&kind, rest)) = options.split_first() {
            let mut header = vec![next];
            header.extend(rest);
            header.extend(extensions);
            extensions = header;
            next = kind;
        }
        bytes.extend([0x60 | service >> 4, service << 4, 0, 0]);
        bytes.extend(((extensions.len() + transport.len()) as u16).to_be_bytes());
        bytes.extend([next, ttl]);
        bytes.extend(from);
        bytes.extend(to);
        bytes.extend(extensions);
    }
    bytes.extend(transport);
    bytes
}

/// Numbers a frame: in the identification of IPv4, or in the flow label of IPv6.
pub(super) fn set_number(frame: &mut [u8], number: usize) {
    let bytes = (number as u16).to_be_bytes();
    if frame[12..14] == [0x86, 0xdd] {
        frame[16..18].copy_from_slice(&bytes);
        return;
    }
    frame[18..20].copy_from_slice(&bytes);
    frame[24..26].fill(0);
    let header = 14 + usize::from(frame[14] & 15) * 4;
    let sum = checksum(&frame[14..header]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the number of a frame.
pub(super) fn number(frame: &[u8]) -> Option<usize> {
    let at = match frame.get(12..14)? {
        [0x08, 0x00] => 18,
        [0x86, 0xdd] => 16,
        _ => return None,
    };
    Some(usize::from(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?])))
}

/// Returns whether a forwarded frame has the addresses and the payload of a sent one.
pub(super) fn is_same(sent: &[u8], forwarded: &[u8]) -> bool {
    let from = if sent[12..14] == [0x86, 0xdd] { 22 } else { 26 };
    sent[12..14] == forwarded[12..14] && forwarded.get(from..) == Some(&sent[from..])
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns a pcap capture of frames.
pub(super) fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (index, frame) in (0_u32..).zip(frames) {
        let length = frame.len() as u32;
        for word in [1_700_000_000, index, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_repeat_by_seed_and_have_valid_checksums() {
        let make = || {
            let mut draw = Draw::new(7);
            let mut frames = Frames::new(&mut draw, &[Family::V4, Family::V6], false, (false, true));
            (0..500).map(|_| frames.frame()).collect::<Vec<_>>()
        };
        let frames = make();
        assert_eq!(frames, make());
        for frame in &frames {
            if frame[12..14] == [8, 0] {
                let header = usize::from(frame[14] & 15) * 4;
                assert_eq!(checksum(&frame[14..14 + header]), 0);
                assert_eq!(usize::from(frame[16]) << 8 | usize::from(frame[17]), frame.len() - 14);
            } else {
                assert_eq!(usize::from(frame[18]) << 8 | usize::from(frame[19]), frame.len() - 54);
            }
        }
        let has = |protocol: u8| frames.iter().any(|frame| frame[12] == 8 && frame[23] == protocol);
        assert!([1, 6, 17, 33, 132, 136].into_iter().all(has));
    }
}
