//! Shared by the tests of defragmentation: a source in memory, datagrams, and functions that
//! fragment them.

#![expect(clippy::cast_possible_truncation, reason = "small numbers make test bytes")]

use std::sync::Arc;

use flowloom_packet::{
    Block, DecodeOptions, DropCounts, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, RawPacket,
    SourceError,
};
use flowloom_traffic::defrag::{Defrag, DefragLimits};

/// A packet with its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Packet {
    pub(crate) time_ns: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) wire: u32,
}

impl Packet {
    pub(crate) fn new(time_ns: u64, bytes: Vec<u8>) -> Self {
        let wire = bytes.len() as u32;
        Self { time_ns, bytes, wire }
    }
}

/// Packets in memory, with a fixed number per batch, and each batch in its own block.
pub(crate) struct Memory {
    packets: Vec<Packet>,
    link: LinkType,
    batch: usize,
    at: usize,
}

impl Memory {
    pub(crate) fn new(packets: Vec<Packet>, link: LinkType, batch: usize) -> Self {
        Self { packets, link, batch, at: 0 }
    }
}

impl PacketSource for Memory {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        batch.block = None;
        let mut block = Vec::new();
        for packet in self.packets.iter().skip(self.at).take(self.batch) {
            batch.packets.push(RawPacket {
                position: block.len() as u64,
                captured_bytes: packet.bytes.len() as u32,
                wire_bytes: packet.wire,
                time_ns: packet.time_ns,
                link: self.link,
                interface: InterfaceName::UNKNOWN,
            });
            block.extend_from_slice(&packet.bytes);
        }
        if batch.packets.is_empty() {
            return Ok(Fill::End);
        }
        self.at += batch.packets.len();
        batch.block_number += 1;
        batch.block = Some(Arc::new(Block::Owned(block)));
        Ok(Fill::Packets)
    }
}

/// The joined packets, and the counts of the others.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) packets: Vec<Packet>,
    pub(crate) withheld: DropCounts,
    /// Maximum number of bytes held at a time.
    pub(crate) held_max: usize,
}

/// Joins packets, and checks that none is lost and that a block number identifies one block.
pub(crate) fn defragmented(
    packets: &[Packet],
    link: LinkType,
    batch_packets: usize,
    decode: DecodeOptions,
    limits: DefragLimits,
) -> Drained {
    let memory = Memory::new(packets.to_vec(), link, batch_packets);
    let mut source = Defrag::new(memory, decode, limits);
    let mut batch = PacketBatch::new();
    let mut out = Drained { packets: Vec::new(), withheld: DropCounts::default(), held_max: 0 };
    let mut last: Option<(u64, *const Block)> = None;
    loop {
        let fill = source.next_batch(&mut batch).expect("memory does not fail");
        out.withheld.merge(&source.withheld());
        out.held_max = out.held_max.max(source.held().1);
        match fill {
            Fill::Packets => {}
            Fill::Starved => panic!("no block is held"),
            Fill::End => break,
        }
        let block = batch.block.as_ref().expect("a batch with packets has a block");
        assert!(!batch.packets.is_empty());
        let place = (batch.block_number, Arc::as_ptr(block));
        if let Some(last) = last.filter(|last| last.0 == place.0) {
            assert_eq!(last, place, "another block has another number");
        }
        last = Some(place);
        for raw in &batch.packets {
            let bytes = raw.bytes_in(block.bytes()).to_vec();
            out.packets.push(Packet { time_ns: raw.time_ns, bytes, wire: raw.wire_bytes });
        }
    }
    assert_eq!(packets.len() as u64, out.packets.len() as u64 + out.withheld.total(), "{:?}", out.withheld);
    assert_eq!(source.held(), (0, 0), "an end leaves nothing");
    out
}

/// The headers before the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Ethernet,
    Vlan(u16),
    QinQ,
    Mpls,
    Pppoe,
}

impl Prefix {
    fn bytes(self, v6: bool) -> Vec<u8> {
        let ether_type: [u8; 2] = if v6 { [0x86, 0xDD] } else { [8, 0] };
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        match self {
            Self::Ethernet => bytes.extend(ether_type),
            Self::Vlan(id) => {
                bytes.extend([0x81, 0, (id >> 8) as u8, id as u8]);
                bytes.extend(ether_type);
            }
            Self::QinQ => {
                bytes.extend([0x88, 0xA8, 0, 5, 0x81, 0, 0, 7]);
                bytes.extend(ether_type);
            }
            Self::Mpls => bytes.extend([0x88, 0x47, 0, 1, 1, 64]),
            Self::Pppoe => {
                bytes.extend([0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, if v6 { 0x57 } else { 0x21 }]);
            }
        }
        bytes
    }
}

/// A datagram before it is fragmented.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) prefix: Prefix,
    pub(crate) v6: bool,
    /// Bytes of IPv4 options, or of an IPv6 hop-by-hop header, a multiple of four or eight.
    pub(crate) options: usize,
    pub(crate) host: u8,
    pub(crate) id: u32,
    pub(crate) payload: Vec<u8>,
}

impl Datagram {
    /// Returns UDP to port 53 with a payload of `payload_bytes` bytes, header included, at least
    /// eight.
    pub(crate) fn udp(
        prefix: Prefix,
        v6: bool,
        options: usize,
        host: u8,
        id: u32,
        payload_bytes: usize,
    ) -> Self {
        let length = (payload_bytes as u16).to_be_bytes();
        let mut payload = vec![4, host, 0, 53, length[0], length[1], 0, 0];
        payload.extend((8..payload_bytes).map(|at| (at as u8).wrapping_mul(31) ^ host ^ id as u8));
        Self { prefix, v6, options, host, id, payload }
    }

    fn ip(&self, cut: Option<(usize, bool)>, payload: &[u8]) -> Vec<u8> {
        if self.v6 { self.ipv6(cut, payload) } else { self.ipv4(cut, payload) }
    }

    fn ipv4(&self, cut: Option<(usize, bool)>, payload: &[u8]) -> Vec<u8> {
        let total = ((20 + self.options + payload.len()) as u16).to_be_bytes();
        let field = cut.map_or(0, |(at, more)| (at / 8) as u16 | u16::from(more) << 13).to_be_bytes();
        let id = (self.id as u16).to_be_bytes();
        let words = (5 + self.options / 4) as u8;
        let mut header =
            vec![0x40 | words, 0, total[0], total[1], id[0], id[1], field[0], field[1], 64, 17];
        header.extend([0, 0, 10, 0, 0, self.host, 10, 0, 1, 1]);
        header.extend(vec![1; self.options]);
        let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let folded = (sum & 0xFFFF) + (sum >> 16);
        let checksum = !(((folded & 0xFFFF) + (folded >> 16)) as u16);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        [&header, payload].concat()
    }

    fn ipv6(&self, cut: Option<(usize, bool)>, payload: &[u8]) -> Vec<u8> {
        let mut extensions = Vec::new();
        let behind = if cut.is_some() { 44 } else { 17 };
        if self.options > 0 {
            extensions.extend([behind, (self.options / 8 - 1) as u8, 1, (self.options - 4) as u8]);
            extensions.extend(vec![0; self.options - 4]);
        }
        if let Some((at, more)) = cut {
            extensions.extend([17, 0]);
            extensions.extend((at as u16 | u16::from(more)).to_be_bytes());
            extensions.extend(self.id.to_be_bytes());
        }
        let length = ((extensions.len() + payload.len()) as u16).to_be_bytes();
        let next = if self.options > 0 { 0 } else { behind };
        let mut header = vec![0x60, 0, 0, 0, length[0], length[1], next, 64];
        for (net, host) in [(1, self.host), (2, 1)] {
            header.extend([0xFD, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        [&header, &extensions, payload].concat()
    }

    /// Returns the unfragmented frame.
    pub(crate) fn whole(&self) -> Vec<u8> {
        [self.prefix.bytes(self.v6), self.ip(None, &self.payload)].concat()
    }

    /// Returns the fragment with these bytes of the payload. The last one has no "more fragments"
    /// flag.
    pub(crate) fn fragment(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        let more = range.end < self.payload.len();
        self.fragment_of(range.start, more, &self.payload[range])
    }

    /// Returns a fragment with any offset and flag.
    pub(crate) fn fragment_of(&self, at: usize, more: bool, payload: &[u8]) -> Vec<u8> {
        [self.prefix.bytes(self.v6), self.ip(Some((at, more)), payload)].concat()
    }

    /// Returns all fragments, cut at these multiples of eight bytes.
    pub(crate) fn cut_at(&self, eighths: &[usize]) -> Vec<Vec<u8>> {
        let mut ends: Vec<usize> =
            eighths.iter().map(|eighth| eighth * 8).filter(|&end| end < self.payload.len()).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|&end| end > 0);
        ends.push(self.payload.len());
        let mut start = 0;
        ends.into_iter().map(|end| self.fragment(std::mem::replace(&mut start, end)..end)).collect()
    }
}
