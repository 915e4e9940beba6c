//! What endpoints send, at the times at which it passes the tap.
//!
//! ```text
//!  client ──── delay 0 ──── tap ──── delay 1 ──── server
//! ```
//!
//! The reply of a side passes the tap twice the delay of that side after what it replies to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::contents;
use crate::dns;
use crate::frame::{Datagram, ICMP, ICMPV6, SCTP, TCP, UDP, seal};
use crate::hello;
use crate::quic::{self, Initials, Version};
use crate::random::Random;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// What a segment is to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It was sent for the first time, or has no sequence numbers.
    First,
    /// It was sent again because an earlier copy was lost.
    Again,
    KeepAlive,
    WindowProbe,
    /// It is not what its connection sends next: an RST outside of the window, an acknowledgement
    /// of what was never sent.
    Stray,
    /// Its header claims to be longer than its packet.
    Malformed,
}

/// The facts of a TCP segment that the answers need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) flags: u8,
    /// Sequence numbers relative to the initial one, before the end.
    pub(crate) range: (u64, u64),
    /// The acknowledgement, relative to the initial number of the other side.
    pub(crate) acknowledged: u64,
    pub(crate) role: Role,
    pub(crate) window: u16,
}

/// A datagram at the tap.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) time_ns: u64,
    /// Number of the session, and of the connection among those of the session.
    pub(crate) session: usize,
    pub(crate) connection: usize,
    pub(crate) side: usize,
    /// The side that opens the connection.
    pub(crate) opener: usize,
    pub(crate) datagram: Datagram,
    pub(crate) segment: Option<Segment>,
}

/// Two endpoints that exchange datagrams.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: usize,
    pub(crate) connection: usize,
    /// The side that opens the connection, or sends first.
    pub(crate) opener: Option<usize>,
    pub(crate) addresses: [IpAddr; 2],
    pub(crate) ports: [u16; 2],
    pub(crate) protocol: u8,
    /// The identifier of messages of ICMP.
    pub(crate) icmp: Option<u16>,
    /// What the first flow has as contents.
    pub(crate) facts: contents::Facts,
    pub(crate) random: Random,
    pub(crate) clock_ns: u64,
    pub(crate) sent: Vec<Sent>,
    pub(crate) delays_ns: [u64; 2],
    last_side: Option<usize>,
    ids: u32,
}

impl Session {
    pub(crate) fn new(number: usize, protocol: u8, is_v6: bool, start_ns: u64, mut random: Random) -> Self {
        let host = number as u16 * 16;
        let (a, b) = (host + random.within(1, 7) as u16, host + random.within(8, 15) as u16);
        let mut addresses: [IpAddr; 2] = if is_v6 {
            [a, b].map(|low| Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, low).into())
        } else {
            [a, b].map(|low| Ipv4Addr::new(192, 0, 2, low as u8).into())
        };
        // The client has the lower address in half of the sessions.
        if random.chance(50) {
            addresses.swap(0, 1);
        }
        let ports = [random.within(32_768, 60_999) as u16, random.pick(&[8000, 9100, 26_001, 40_000])];
        let delays_ns = [0; 2].map(|_| random.within(50_000, 20 * MILLISECOND));
        let ids = (random.next() as u32) & 0xFFFF;
        Self {
            number,
            connection: 0,
            opener: None,
            addresses,
            ports,
            protocol,
            icmp: None,
            facts: Vec::new(),
            random,
            clock_ns: start_ns,
            sent: Vec::new(),
            delays_ns,
            last_side: None,
            ids,
        }
    }

    /// Lets time pass in which no datagram is on its way.
    pub(crate) fn wait(&mut self, time_ns: u64) {
        self.clock_ns += time_ns;
    }

    /// Sends a transport header and its payload.
    pub(crate) fn send(&mut self, side: usize, header: &[u8], payload: &[u8], segment: Option<Segment>) {
        self.clock_ns += match self.last_side {
            Some(last) if last != side => {
                2 * self.delays_ns[side] + self.random.within(20_000, MILLISECOND)
            }
            _ => self.random.within(10_000, 400_000),
        };
        self.last_side = Some(side);
        let datagram = self.datagram(side, header, payload);
        let (time_ns, session, connection) = (self.clock_ns, self.number, self.connection);
        let opener = *self.opener.get_or_insert(side);
        self.sent.push(Sent { time_ns, session, connection, side, opener, datagram, segment });
    }

    /// Sends a frame that is lost before the tap.
    pub(crate) fn send_in_vain(&mut self, side: usize, header: &[u8], payload: &[u8]) {
        self.send(side, header, payload, None);
        self.sent.pop();
    }

    fn datagram(&mut self, side: usize, header: &[u8], payload: &[u8]) -> Datagram {
        let ends = [self.addresses[side], self.addresses[1 - side]];
        let mut body = [header, payload].concat();
        seal(ends, self.protocol, &mut body);
        self.ids = (self.ids + 1) & 0xFFFF;
        Datagram {
            source: ends[0],
            destination: ends[1],
            protocol: self.protocol,
            body,
            payload_bytes: payload.len(),
            id: self.ids,
        }
    }

    fn ports_from(&self, side: usize) -> Vec<u8> {
        [self.ports[side].to_be_bytes(), self.ports[1 - side].to_be_bytes()].concat()
    }

    fn payload(&mut self, bytes_max: u64) -> Vec<u8> {
        let count = self.random.within(1, bytes_max) as usize;
        self.random.bytes(count)
    }

    /// Sends messages of DNS.
    pub(crate) fn dns(&mut self, kind: dns::Kind) {
        self.ports[SERVER] = self.random.pick(&[53, 5355]);
        if kind == dns::Kind::Announcements {
            self.ports = [5353; 2];
        }
        let (messages, facts) = dns::messages(&mut self.random, kind);
        for (side, message) in &messages {
            self.datagram_of_udp(*side, message);
        }
        self.facts = facts;
    }

    /// Opens a connection of QUIC, and sends protected data.
    pub(crate) fn quic(&mut self, version: Version, initials: Initials, rounds: u64) {
        self.ports[SERVER] = 443;
        let (hello, facts) = hello::quic(&mut self.random);
        let [chosen, client, server] = [(8, 20), (0, 20), (8, 20)].map(|(least, most)| {
            let count = self.random.pick(&[least, least, most]);
            self.random.bytes(count)
        });
        let half = self.random.within(1, hello.len() as u64 - 1) as usize;
        let frames = if initials == Initials::One {
            vec![quic::crypto(0, &hello)]
        } else {
            vec![quic::crypto(half, &hello[half..]), quic::crypto(0, &hello[..half])]
        };
        let bytes_min = if initials == Initials::Coalesced { 200 } else { quic::DATAGRAM_BYTES };
        let token_bytes = self.random.pick(&[0, 0, 5, 80]);
        let token = self.random.bytes(token_bytes);
        let mut packets = Vec::new();
        for (number, frames) in (0..).zip(&frames) {
            // Padding, a ping, or an acknowledgement with one range and the counts of ECN.
            let before: &[u8] = self.random.pick(&[
                &[],
                &[0, 0, 0],
                &[1],
                &[3, 9, 0x40, 7, 1, 2, 1, 1, 4, 5, 6, 0],
                &[2, 3, 0, 0, 1],
            ]);
            let frames = [before, frames].concat();
            let number_bytes = self.random.within(1, 4) as usize;
            let shape = quic::Shape { is_server: false, token: &token, number_bytes, bytes_min };
            packets.push(quic::initial(version, &chosen, [&chosen, &client], number, &frames, shape));
        }
        if initials == Initials::Coalesced {
            let shape = quic::Shape { is_server: false, token: &[], number_bytes: 1, bytes_min };
            let (other, _) = hello::quic(&mut self.random);
            let other =
                quic::initial(version, &chosen, [&chosen, &client], 2, &quic::crypto(0, &other), shape);
            let behind = self.random.within(0, 3);
            let header = |first: u8, version: u32| quic::header(first, version, [&chosen, &client]);
            let behind = match behind {
                // A packet of 0-RTT, and the rest of the handshake.
                0 => {
                    [&header(0xD0, 1)[..], &[0x40, 80], &self.random.bytes(80), &packets.remove(1)].concat()
                }
                // Other packets have no length. What they contain looks like an Initial packet.
                1 => [&[other[0] & 0x7F], &other[1..]].concat(),
                2 => [&header(0xF0, 1)[..], &[0], &other].concat(),
                _ => [&header(0xD0, 0)[..], &[0], &other].concat(),
            };
            packets[0].extend(behind);
        }
        for datagram in &packets {
            self.datagram_of_udp(CLIENT, datagram);
        }
        // An acknowledgement of all packets, without delay.
        let ack = [2, frames.len() as u8 - 1, 0, 0, frames.len() as u8 - 1];
        let bytes_min = quic::DATAGRAM_BYTES;
        let shape = quic::Shape { is_server: true, token: &[], number_bytes: 2, bytes_min };
        let answer = quic::initial(version, &chosen, [&client, &server], 0, &ack, shape);
        self.datagram_of_udp(SERVER, &answer);
        for _ in 0..rounds {
            for (side, id) in [(CLIENT, &server), (SERVER, &client)] {
                let payload = [&[0x40][..], id, &self.payload(1000), &self.random.bytes(20)].concat();
                self.datagram_of_udp(side, &payload);
            }
        }
        self.facts = [vec![("quic_version", contents::some(version.name()))], facts].concat();
    }

    /// Sends a UDP datagram with random contents.
    pub(crate) fn udp(&mut self, side: usize) {
        let payload = self.payload(1400);
        self.datagram_of_udp(side, &payload);
    }

    fn datagram_of_udp(&mut self, side: usize, payload: &[u8]) {
        let mut header = self.ports_from(side);
        header.extend((8 + payload.len() as u16).to_be_bytes());
        header.extend([0, 0]);
        self.send(side, &header, payload, None);
    }

    /// Sends requests and replies of ICMP's echo.
    pub(crate) fn echo(&mut self, rounds: u64) {
        let types = if self.protocol == ICMPV6 { [128, 129] } else { [8, 0] };
        let identifier = self.random.next() as u16;
        self.ports = [0, 0];
        self.icmp = Some(identifier);
        for number in 0..rounds as u16 {
            let payload = self.payload(1400);
            for (side, kind) in types.into_iter().enumerate() {
                let header = [[kind, 0], [0, 0], identifier.to_be_bytes(), number.to_be_bytes()].concat();
                self.send(side, &header, &payload, None);
            }
        }
    }

    /// Sends the error that a port is unreachable, about a datagram from the other side.
    pub(crate) fn unreachable(&mut self, side: usize, about: &[u8]) {
        let kind = if self.protocol == ICMPV6 { [1, 4] } else { [3, 3] };
        self.ports = [0, 0];
        self.icmp = Some(0);
        self.send(side, &[kind[0], kind[1], 0, 0, 0, 0, 0, 0], about, None);
    }

    /// Opens an association of SCTP, sends data, and closes it.
    pub(crate) fn sctp(&mut self, rounds: u64) {
        let tags = [self.random.next() as u32, self.random.next() as u32];
        let numbers = [self.random.next() as u32, self.random.next() as u32];
        let cookie = self.random.bytes(32);
        let init = |side: usize| {
            let mut value = tags[side].to_be_bytes().to_vec();
            value.extend([0, 1, 0, 0, 0, 10, 0, 10]);
            value.extend(numbers[side].to_be_bytes());
            value
        };
        let mut answer = init(SERVER);
        answer.extend([0, 7, 0, 36]);
        answer.extend(&cookie);
        self.chunk(CLIENT, 0, (1, 0), &init(CLIENT));
        self.chunk(SERVER, tags[CLIENT], (2, 0), &answer);
        self.chunk(CLIENT, tags[SERVER], (10, 0), &cookie);
        self.chunk(SERVER, tags[CLIENT], (11, 0), &[]);
        for round in 0..rounds as u32 {
            let number = numbers[CLIENT].wrapping_add(round);
            let mut data = number.to_be_bytes().to_vec();
            data.extend([0, 0, 0, round as u8, 0, 0, 0, 0]);
            data.extend(self.payload(1300));
            self.chunk(CLIENT, tags[SERVER], (0, 3), &data);
            let mut ack = number.to_be_bytes().to_vec();
            ack.extend([0, 1, 0, 0, 0, 0, 0, 0]);
            self.chunk(SERVER, tags[CLIENT], (3, 0), &ack);
        }
        let last = numbers[SERVER].wrapping_sub(1).to_be_bytes();
        self.chunk(CLIENT, tags[SERVER], (7, 0), &last);
        self.chunk(SERVER, tags[CLIENT], (8, 0), &[]);
        self.chunk(CLIENT, tags[SERVER], (14, 0), &[]);
    }

    fn chunk(&mut self, side: usize, tag: u32, (kind, flags): (u8, u8), value: &[u8]) {
        let mut header = self.ports_from(side);
        header.extend(tag.to_be_bytes());
        header.extend([0; 4]);
        let mut payload = vec![kind, flags];
        payload.extend((4 + value.len() as u16).to_be_bytes());
        payload.extend(value);
        payload.resize(payload.len().next_multiple_of(4), 0);
        self.send(side, &header, &payload, None);
    }
}

/// Returns the number of ICMP for a version of IP.
pub(crate) fn icmp(is_v6: bool) -> u8 {
    if is_v6 { ICMPV6 } else { ICMP }
}

/// Returns the name of a protocol.
pub(crate) fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        TCP => "tcp",
        UDP => "udp",
        SCTP => "sctp",
        ICMP => "icmp",
        _ => "ipv6-icmp",
    }
}
