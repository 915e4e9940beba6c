//! The descriptor of a packet in the pipeline: its position and its hash, but not its bytes.
//!
//! ```text
//!  hash      64 bits   the table half of the flow's hash
//!  time      64 bits   nanoseconds, clamped to never go back
//!  place     64 bits   link type (16) | position in the block (48)
//!  tag       64 bits   sequence number in its shard (24) | packet number in the run (40)
//!  captured  32 bits   bytes present
//!  wire      32 bits   bytes on the wire
//! ```
//!
//! A [`PacketDescriptor`] adds the packet's time stamp and the results of the decoder. A worker
//! therefore decodes nothing, and reads packet bytes only if its application does.

use flowloom_cpu::prefetch;
use flowloom_flow_key::TableHash;
use flowloom_flow_key::{Direction, FlowKey};
use flowloom_packet::arena::{OpenBlock, bytes_at};
use flowloom_packet::{Headers, InterfaceName, LinkType, PacketView};

/// The position, times and hash of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PacketRef {
    pub(crate) hash: TableHash,
    pub(crate) time_ns: u64,
    place: u64,
    tag: u64,
    captured: u32,
    pub(crate) wire: u32,
}

const _: () = assert!(size_of::<PacketRef>() == PacketRef::BYTES, "the egress stage keeps many");

/// The results of the decoder for a packet, except the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderFields {
    network_offset: u32,
    transport_offset: u32,
    payload_offset: u32,
    payload_bytes: u32,
    vlans: u32,
    tcp_flags: u16,
    interface: InterfaceName,
    direction: Direction,
    later_fragment: bool,
    is_error_of_flow: bool,
}

impl HeaderFields {
    /// Copies the fields one by one. A copy of the whole struct would wait until the decoder's
    /// single-byte stores have reached memory, after all other pending stores.
    #[inline(always)]
    pub(crate) fn from_headers(headers: &Headers) -> Self {
        Self {
            network_offset: headers.network_offset,
            transport_offset: headers.transport_offset,
            payload_offset: headers.payload_offset,
            payload_bytes: headers.payload_bytes,
            vlans: headers.vlans,
            tcp_flags: headers.tcp_flags,
            interface: headers.interface,
            direction: headers.direction,
            later_fragment: headers.later_fragment,
            is_error_of_flow: headers.is_error_of_flow,
        }
    }

    /// Returns the headers of a packet with this key.
    #[inline(always)]
    pub(crate) fn headers(&self, key: FlowKey) -> Headers {
        let mut headers = Headers::new(key, self.direction);
        headers.tcp_flags = self.tcp_flags;
        headers.later_fragment = self.later_fragment;
        headers.is_error_of_flow = self.is_error_of_flow;
        headers.interface = self.interface;
        headers.vlans = self.vlans;
        headers.network_offset = self.network_offset;
        headers.transport_offset = self.transport_offset;
        headers.payload_offset = self.payload_offset;
        headers.payload_bytes = self.payload_bytes;
        headers
    }

    /// Encodes the fields. Fields that lie beside each other in [`Headers`] go into different
    /// words: the compiler would read a pair of them at once, which waits until the decoder's two
    /// stores have reached memory.
    ///
    /// ```text
    ///   payload offset (32) | network offset (32)
    /// bytes of payload (32) | transport offset (32)
    ///  VLANs (32) | interface (20) | TCP flags (9) | error | later fragment | direction
    /// ```
    #[inline(always)]
    fn words(self) -> [u64; 3] {
        let rest = self.interface.0 << 12
            | u32::from(self.tcp_flags & 0x1FF) << 3
            | u32::from(self.is_error_of_flow) << 2
            | u32::from(self.later_fragment) << 1
            | self.direction as u32;
        [
            pair(self.network_offset, self.payload_offset),
            pair(self.transport_offset, self.payload_bytes),
            pair(rest, self.vlans),
        ]
    }

    /// Decodes [`words`](Self::words).
    #[inline(always)]
    fn of_words([network, transport, rest]: [u64; 3]) -> Self {
        Self {
            network_offset: low(network),
            transport_offset: low(transport),
            payload_offset: high(network),
            payload_bytes: high(transport),
            vlans: high(rest),
            tcp_flags: (rest >> 3) as u16 & 0x1FF,
            interface: InterfaceName((rest >> 12) as u32 & ((1 << InterfaceName::BITS) - 1)),
            direction: if rest & 1 == 0 { Direction::LowToHigh } else { Direction::HighToLow },
            later_fragment: rest >> 1 & 1 != 0,
            is_error_of_flow: rest >> 2 & 1 != 0,
        }
    }
}

/// A packet on its way to a worker, with the results of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketDescriptor {
    pub(crate) packet: PacketRef,
    stamped_ns: u64,
    pub(crate) key: FlowKey,
    fields: HeaderFields,
}

impl PacketDescriptor {
    /// Words of an encoded descriptor.
    pub(crate) const WORDS: usize = 15;
    /// Bytes of an encoded descriptor.
    pub(crate) const BYTES: usize = 8 * Self::WORDS;
    /// The index of the word that holds the packet's time.
    pub(crate) const TIME: usize = 1;
    /// The index of the word that holds the packet's tag.
    pub(crate) const TAG: usize = 3;

    /// Returns the encoded descriptor of a packet.
    #[inline(always)]
    pub(crate) fn words(packet: PacketRef, stamped_ns: u64, headers: &Headers) -> [u64; Self::WORDS] {
        let PacketRef { hash, time_ns, place, tag, captured, wire } = packet;
        let key = headers.key.words();
        let fields = HeaderFields::from_headers(headers).words();
        [
            hash.bits(),
            time_ns,
            place,
            tag,
            pair(captured, wire),
            stamped_ns,
            key[0],
            key[1],
            key[2],
            key[3],
            key[4],
            key[5],
            fields[0],
            fields[1],
            fields[2],
        ]
    }

    /// Decodes a descriptor. The compiler reads only the words that the caller uses.
    #[inline(always)]
    pub(crate) fn of_words(words: &[u64; Self::WORDS]) -> Self {
        let &[hash, time_ns, place, tag, lengths, stamped_ns, ref key @ .., network, transport, rest] =
            words;
        Self {
            packet: PacketRef {
                hash: TableHash::from_mixed(hash),
                time_ns,
                place,
                tag,
                captured: low(lengths),
                wire: high(lengths),
            },
            stamped_ns,
            key: FlowKey::from_words(*key),
            fields: HeaderFields::of_words([network, transport, rest]),
        }
    }

    /// Returns the number of the packet and the packet as applications see it.
    #[inline(always)]
    pub(crate) fn view<'b>(&self, block: OpenBlock<'b>) -> (u64, PacketView<'b>) {
        let packet = &self.packet;
        let headers = self.fields.headers(self.key);
        let view = PacketView::new(packet.bytes(block.bytes), headers, packet.time_ns, packet.wire);
        (packet.number(), view.with_stamp(self.stamped_ns).with_fragments(block.fragments))
    }

    /// Prefetches the lines that an application reads first, if the packet has a payload. They may
    /// still be in the cache of the input stage's CPU.
    #[inline(always)]
    pub(crate) fn request(&self, block: &[u8]) {
        if self.fields.payload_bytes > 0 {
            let start = self.packet.position();
            prefetch::read_at(block, start + self.fields.transport_offset as usize);
            prefetch::read_at(block, start + self.fields.payload_offset as usize + prefetch::LINE_BYTES);
        }
    }
}

#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[inline(always)]
fn low(pair: u64) -> u32 {
    pair as u32
}

#[inline(always)]
fn high(pair: u64) -> u32 {
    (pair >> 32) as u32
}

const POSITION_BITS: u32 = 48;
const NUMBER_BITS: u32 = 40;
/// Number of sequence numbers in a shard before they wrap. The rings hold fewer packets than this.
pub(crate) const SEQUENCE_NUMBERS: u32 = 1 << (u64::BITS - NUMBER_BITS);

/// Position, lengths, time and number of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketPlace {
    pub(crate) position: u64,
    pub(crate) time_ns: u64,
    pub(crate) stamped_ns: u64,
    pub(crate) captured: u32,
    pub(crate) wire: u32,
    pub(crate) number: u64,
}

impl PacketRef {
    /// Size of a packet reference, in bytes.
    pub(crate) const BYTES: usize = 40;

    /// The bits of a packet's number that a reference keeps.
    pub(crate) const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;

    /// Returns the reference to a packet.
    #[inline]
    pub(crate) fn packet(hash: TableHash, place: PacketPlace, link: LinkType) -> Self {
        debug_assert!(place.position < 1 << POSITION_BITS, "no mapping is longer than the address space");
        Self {
            hash,
            time_ns: place.time_ns,
            place: u64::from(link.0) << POSITION_BITS | place.position,
            tag: place.number & Self::NUMBERS,
            captured: place.captured,
            wire: place.wire,
        }
    }

    /// Returns a packet's tag with its sequence number in its shard, below [`SEQUENCE_NUMBERS`].
    pub(crate) fn tag_with_sequence(tag: u64, sequence: u32) -> u64 {
        debug_assert!(sequence < SEQUENCE_NUMBERS, "sequence numbers wrap");
        tag & Self::NUMBERS | u64::from(sequence) << NUMBER_BITS
    }

    /// Returns the reference with the index of the packet's block in its chunk, in place of a
    /// sequence number.
    #[inline(always)]
    pub(crate) fn in_run(self, run: u32) -> Self {
        debug_assert!(run < SEQUENCE_NUMBERS, "a chunk has fewer packets");
        Self { tag: Self::tag_with_sequence(self.tag, run), ..self }
    }

    /// Returns the packet's sequence number in its shard.
    pub(crate) fn sequence(self) -> u32 {
        (self.tag >> NUMBER_BITS) as u32
    }

    /// Returns the number of the packet in the run, from 0. It wraps after 2⁴⁰ packets.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.tag & Self::NUMBERS
    }

    /// Returns the position of the packet's first byte in its block.
    #[inline]
    pub(crate) fn position(self) -> usize {
        (self.place & ((1 << POSITION_BITS) - 1)) as usize
    }

    /// Returns the packet's bytes, or an empty slice if they do not lie in the block.
    #[inline]
    pub(crate) fn bytes(self, block: &[u8]) -> &[u8] {
        bytes_at(block, self.position() as u64, self.captured)
    }

    /// Returns the link type of the packet.
    #[inline]
    pub(crate) fn link(self) -> LinkType {
        LinkType((self.place >> POSITION_BITS & 0xFFFF) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_reads_back_as_written() {
        // On a 32-bit machine, a block is shorter.
        let position = ((1 << 48) - 1).min(usize::MAX as u64);
        let (time_ns, stamped_ns, number) = (5, 3, (1 << 40) - 1);
        let place = PacketPlace { position, time_ns, stamped_ns, captured: 1500, wire: 9000, number };
        let mut packet = PacketRef::packet(TableHash::from_mixed(7), place, LinkType(0xFFFF));
        packet.tag = PacketRef::tag_with_sequence(packet.tag, SEQUENCE_NUMBERS - 1);
        assert_eq!((packet.hash.bits(), packet.time_ns, packet.wire), (7, 5, 9000));
        assert_eq!(packet.position() as u64, position);
        assert_eq!(packet.link(), LinkType(0xFFFF));
        assert_eq!((packet.number(), packet.sequence()), ((1 << 40) - 1, SEQUENCE_NUMBERS - 1));
    }

    #[test]
    fn descriptor_reads_back_as_written() {
        let place = PacketPlace {
            position: 77,
            time_ns: u64::MAX,
            stamped_ns: u64::MAX - 9,
            captured: u32::MAX - 1,
            wire: u32::MAX,
            number: 9,
        };
        let (key, direction) = FlowKey::from_v6(u128::MAX - 6, u128::MAX - 7, 443, 50_000, 17);
        for later_fragment in [false, true] {
            for direction in [direction, direction.reversed()] {
                let mut headers = Headers::new(key.with_zone(u32::MAX).with_pass(3), direction);
                headers.tcp_flags = 0x1A5;
                headers.later_fragment = later_fragment;
                headers.is_error_of_flow = !later_fragment;
                headers.interface = InterfaceName((1 << InterfaceName::BITS) - 8);
                headers.vlans = u32::MAX - 9;
                headers.network_offset = 1;
                headers.transport_offset = u32::MAX - 2;
                headers.payload_offset = u32::MAX - 3;
                headers.payload_bytes = u32::MAX - 4;
                let packet =
                    PacketRef::packet(TableHash::from_mixed(u64::MAX - 5), place, LinkType(0x1234));
                let stamped_ns = place.stamped_ns;
                let descriptor =
                    PacketDescriptor::of_words(&PacketDescriptor::words(packet, stamped_ns, &headers));
                let (key, fields) = (headers.key, HeaderFields::from_headers(&headers));
                assert_eq!(descriptor, PacketDescriptor { packet, stamped_ns, key, fields });
                assert_eq!(descriptor.fields.headers(descriptor.key), headers);
            }
        }
    }

    #[test]
    fn position_outside_the_block_has_no_bytes() {
        let place = |position, captured| PacketPlace {
            position,
            time_ns: 0,
            stamped_ns: 0,
            captured,
            wire: 9,
            number: 0,
        };
        let packet = |position, captured| {
            PacketRef::packet(TableHash::default(), place(position, captured), LinkType(1))
        };
        assert_eq!(packet(2, 3).bytes(b"abcdefgh"), b"cde");
        assert_eq!(packet(6, 3).bytes(b"abcdefgh"), b"");
        assert_eq!(packet(100, 3).bytes(b"abcdefgh"), b"");
    }
}
