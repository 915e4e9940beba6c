//! Builds frames with valid checksums.
//!
//! ```text
//!  Ethernet 14 │ VLAN tags 0, 4, 8 │ IPv4 20, IPv6 40 │ TCP 20–28, UDP 8, echo 8 │ payload │ pad
//! ```
//!
//! The payload comes from a pool of noise with known running sums, so a checksum costs the same for
//! one byte as for 1,500.

use super::random::Random;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;

/// Bytes of an Ethernet header without tags.
pub(super) const ETHERNET_BYTES: usize = 14;

/// Maximum payload of a frame in bytes: that of a jumbo frame.
pub(super) const PAYLOAD_BYTES_MAX: usize = 9216;

/// Maximum segment size 1460 and selective acknowledgments, as in a SYN.
pub(super) const SYN_OPTIONS: &[u8] = &[2, 4, 0x05, 0xB4, 1, 1, 4, 2];

const POOL_BYTES: usize = 32 * 1024;
const HEADERS_BYTES_MAX: usize = ETHERNET_BYTES + 8 + 40 + 20 + 8;

/// The two addresses of a packet, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addresses {
    V4 { source: u32, destination: u32 },
    V6 { source: u128, destination: u128 },
}

impl Addresses {
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::V4 { source, destination } => Self::V4 { source: destination, destination: source },
            Self::V6 { source, destination } => Self::V6 { source: destination, destination: source },
        }
    }

    pub(super) fn header_bytes(self) -> usize {
        match self {
            Self::V4 { .. } => 20,
            Self::V6 { .. } => 40,
        }
    }
}

/// The protocol above IP.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport {
    Tcp {
        flags: u8,
        sequence: u32,
        acknowledgment: u32,
        options: &'static [u8],
    },
    Udp,
    /// The first fragment of a datagram. Its UDP header states `whole_bytes` of payload; this frame
    /// contains fewer.
    UdpFirst {
        whole_bytes: usize,
    },
    /// A later fragment, without a header, at `offset_bytes` in the datagram.
    UdpLater {
        offset_bytes: usize,
    },
    Echo {
        reply: bool,
        sequence: u16,
    },
}

impl Transport {
    pub(super) fn header_bytes(self) -> usize {
        match self {
            Self::Tcp { options, .. } => 20 + options.len(),
            Self::Udp | Self::UdpFirst { .. } | Self::Echo { .. } => 8,
            Self::UdpLater { .. } => 0,
        }
    }
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Outer and inner VLAN ID.
    pub(super) tags: [Option<u16>; 2],
    pub(super) addresses: Addresses,
    /// An echo uses its identifier for both ports.
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) identification: u16,
    pub(super) transport: Transport,
    pub(super) payload: Slice,
}

/// A piece of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    start: usize,
    bytes: usize,
}

impl Slice {
    /// Returns a piece of `bytes` bytes. `word` chooses its position.
    #[inline]
    pub(super) fn new(word: u64, bytes: usize) -> Self {
        let bytes = bytes.min(PAYLOAD_BYTES_MAX * 2);
        let places = ((POOL_BYTES - bytes) / 2 + 1) as u64;
        Self { start: (word % places) as usize * 2, bytes }
    }

    /// Returns the part that starts at `skip` (an even number) and has at most `bytes` bytes.
    pub(super) fn part(self, skip: usize, bytes: usize) -> Self {
        debug_assert!(skip.is_multiple_of(2), "sums are kept for whole words");
        let skip = skip.min(self.bytes);
        Self { start: self.start + skip, bytes: bytes.min(self.bytes - skip) }
    }
}

/// Noise for payloads, and its running sums.
#[derive(Clone)]
pub(super) struct Pool {
    bytes: Vec<u8>,
    /// `sums[i]` is the sum of the first `i` big-endian words. It stays below 2^30 and cannot
    /// overflow.
    sums: Vec<u32>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let bytes: Vec<u8> = (0..POOL_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let mut sums = Vec::with_capacity(POOL_BYTES / 2 + 1);
        let mut sum = 0;
        sums.push(sum);
        for word in bytes.chunks_exact(2) {
            sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
            sums.push(sum);
        }
        Self { bytes, sums }
    }

    #[inline]
    fn get(&self, slice: Slice) -> &[u8] {
        &self.bytes[slice.start..slice.start + slice.bytes]
    }

    /// Returns the sum of a piece's words. An odd last byte counts as if it were followed by a zero
    /// byte.
    #[inline]
    fn sum(&self, slice: Slice) -> u64 {
        let (first, words) = (slice.start / 2, slice.bytes / 2);
        let whole = self.sums[first + words] - self.sums[first];
        let odd = if slice.bytes % 2 == 1 {
            u64::from(self.bytes[slice.start + slice.bytes - 1]) << 8
        } else {
            0
        };
        u64::from(whole) + odd
    }
}

/// Replaces the contents of `frame` by the packet's bytes, without padding.
#[inline]
pub(super) fn write(frame: &mut Vec<u8>, packet: &Packet, pool: &Pool) {
    let mut headers = [0; HEADERS_BYTES_MAX];
    let at = ethernet(&mut headers, packet);
    let transport_at = at + packet.addresses.header_bytes();
    let end = transport_at + packet.transport.header_bytes();
    let ip_payload_bytes = end - transport_at + packet.payload.bytes;
    let (protocol, sums) = network(&mut headers, at, packet, ip_payload_bytes);
    transport(&mut headers[transport_at..end], packet, pool, protocol, sums);
    frame.clear();
    frame.extend_from_slice(&headers[..end]);
    frame.extend_from_slice(pool.get(packet.payload));
}

/// Appends zeros until the frame has `bytes` bytes, as Ethernet does with short frames.
#[inline]
pub(super) fn pad(frame: &mut Vec<u8>, bytes: usize) {
    if frame.len() < bytes {
        frame.resize(bytes, 0);
    }
}

/// Writes both addresses, the tags and the type. Returns the offset of IP.
fn ethernet(headers: &mut [u8], packet: &Packet) -> usize {
    let (source, destination, kind) = match packet.addresses {
        Addresses::V4 { source, destination } => (source, destination, 0x0800),
        Addresses::V6 { source, destination } => (source as u32, destination as u32, 0x86DD),
    };
    headers[0] = 0x02;
    headers[2..6].copy_from_slice(&destination.to_be_bytes());
    headers[6] = 0x02;
    headers[8..12].copy_from_slice(&source.to_be_bytes());
    let mut at = 12;
    for (index, tag) in packet.tags.iter().enumerate() {
        if let Some(id) = tag {
            // A tag before another tag is a service tag.
            let kind: u16 = if index == 0 && packet.tags[1].is_some() { 0x88A8 } else { 0x8100 };
            put_u16(headers, at, kind);
            put_u16(headers, at + 2, id & 0x0FFF);
            at += 4;
        }
    }
    put_u16(headers, at, kind);
    at + 2
}

/// Writes the IP header. Returns the protocol number, and the sum of the addresses for the
/// pseudo-header.
fn network(headers: &mut [u8], at: usize, packet: &Packet, payload_bytes: usize) -> (u8, u64) {
    let version6 = matches!(packet.addresses, Addresses::V6 { .. });
    let protocol = match packet.transport {
        Transport::Tcp { .. } => 6,
        Transport::Udp | Transport::UdpFirst { .. } | Transport::UdpLater { .. } => 17,
        Transport::Echo { .. } if version6 => 58,
        Transport::Echo { .. } => 1,
    };
    match packet.addresses {
        Addresses::V4 { source, destination } => {
            let fragment = match packet.transport {
                Transport::UdpFirst { .. } => 0x2000,
                Transport::UdpLater { offset_bytes } => (offset_bytes / 8) as u16,
                _ => 0x4000,
            };
            let header = &mut headers[at..at + 20];
            header[0] = 0x45;
            put_u16(header, 2, (20 + payload_bytes) as u16);
            put_u16(header, 4, packet.identification);
            put_u16(header, 6, fragment);
            header[8] = 64;
            header[9] = protocol;
            header[12..16].copy_from_slice(&source.to_be_bytes());
            header[16..20].copy_from_slice(&destination.to_be_bytes());
            let checksum = finish(words_sum(header));
            put_u16(header, 10, checksum);
            (protocol, words_sum(&headers[at + 12..at + 20]))
        }
        Addresses::V6 { source, destination } => {
            let header = &mut headers[at..at + 40];
            header[0] = 0x60;
            put_u16(header, 4, payload_bytes as u16);
            header[6] = protocol;
            header[7] = 64;
            header[8..24].copy_from_slice(&source.to_be_bytes());
            header[24..40].copy_from_slice(&destination.to_be_bytes());
            (protocol, words_sum(&headers[at + 8..at + 40]))
        }
    }
}

fn transport(header: &mut [u8], packet: &Packet, pool: &Pool, protocol: u8, addresses_sum: u64) {
    let payload = packet.payload;
    match packet.transport {
        Transport::Tcp { flags, sequence, acknowledgment, options } => {
            put_u16(header, 0, packet.source_port);
            put_u16(header, 2, packet.destination_port);
            header[4..8].copy_from_slice(&sequence.to_be_bytes());
            header[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
            header[12] = (((20 + options.len()) / 4) << 4) as u8;
            header[13] = flags;
            put_u16(header, 14, 0xFAF0);
            header[20..].copy_from_slice(options);
            let length = header.len() + payload.bytes;
            let sum = addresses_sum + u64::from(protocol) + length as u64 + pool.sum(payload);
            let checksum = finish(sum + words_sum(header));
            put_u16(header, 16, checksum);
        }
        Transport::Udp | Transport::UdpFirst { .. } => {
            let whole = match packet.transport {
                Transport::UdpFirst { whole_bytes } => Slice { bytes: whole_bytes, ..payload },
                _ => payload,
            };
            let length = 8 + whole.bytes;
            put_u16(header, 0, packet.source_port);
            put_u16(header, 2, packet.destination_port);
            put_u16(header, 4, length as u16);
            let sum = addresses_sum + u64::from(protocol) + length as u64 + pool.sum(whole);
            // Zero means "no checksum", so a sum of zero is sent in its other representation.
            let checksum = match finish(sum + words_sum(header)) {
                0 => 0xFFFF,
                checksum => checksum,
            };
            put_u16(header, 6, checksum);
        }
        Transport::UdpLater { .. } => {}
        Transport::Echo { reply, sequence } => {
            header[0] = match (protocol, reply) {
                (58, false) => 128,
                (58, true) => 129,
                (_, false) => 8,
                (_, true) => 0,
            };
            put_u16(header, 4, packet.source_port);
            put_u16(header, 6, sequence);
            let mut sum = words_sum(header) + pool.sum(payload);
            if protocol == 58 {
                sum += addresses_sum + u64::from(protocol) + (header.len() + payload.bytes) as u64;
            }
            put_u16(header, 2, finish(sum));
        }
    }
}

#[inline]
fn words_sum(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

/// Folds the carries and complements the sum.
#[inline]
fn finish(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[inline]
fn put_u16(into: &mut [u8], at: usize, value: u16) {
    into[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(transport: Transport, payload: Slice) -> Packet {
        Packet {
            tags: [None, None],
            addresses: Addresses::V4 { source: 0x0A00_0001, destination: 0xC612_0001 },
            source_port: 40_000,
            destination_port: 443,
            identification: 7,
            transport,
            payload,
        }
    }

    #[test]
    fn a_header_has_its_textbook_checksum() {
        // The well-known example of the IPv4 checksum.
        let header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xC0, 0xA8, 0, 1, 0xC0, 0xA8, 0, 0xC7];
        assert_eq!(finish(words_sum(&header)), 0xB861);
    }

    #[test]
    fn precomputed_checksums_match_the_payload_bytes() {
        let pool = Pool::new(3);
        for bytes in [0, 1, 2, 3, 64, 1459, 1460] {
            let slice = Slice::new(0x1234_5678_9ABC, bytes);
            let mut copy = pool.get(slice).to_vec();
            assert_eq!(copy.len(), bytes);
            if bytes % 2 == 1 {
                copy.push(0);
            }
            assert_eq!(pool.sum(slice), words_sum(&copy));
        }
    }

    #[test]
    fn every_frame_is_as_long_as_its_parts() {
        let pool = Pool::new(1);
        let mut frame = Vec::new();
        let payload = Slice::new(5, 33);
        let tcp = Transport::Tcp { flags: SYN, sequence: 1, acknowledgment: 0, options: SYN_OPTIONS };
        write(&mut frame, &packet(tcp, payload), &pool);
        assert_eq!(frame.len(), 14 + 20 + 28 + 33);
        assert_eq!(&frame[12..14], &[8, 0]);
        let tagged = Packet {
            tags: [Some(100), Some(7)],
            ..packet(Transport::Echo { reply: true, sequence: 1 }, payload)
        };
        write(&mut frame, &tagged, &pool);
        assert_eq!(frame.len(), 14 + 8 + 20 + 8 + 33);
        assert_eq!(&frame[12..22], &[0x88, 0xA8, 0, 100, 0x81, 0, 0, 7, 8, 0]);
        pad(&mut frame, 100);
        assert_eq!(frame.len(), 100);
        pad(&mut frame, 60);
        assert_eq!(frame.len(), 100);
    }
}
