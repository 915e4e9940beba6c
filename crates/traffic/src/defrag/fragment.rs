//! Recognises fragments, and identifies the datagram of each.

use flowloom_flow_key::protocol::FRAGMENT;
use std::net::IpAddr;

use flowloom_packet::decode::decode_layered;
use flowloom_packet::{DecodeOptions, LinkType, RawPacket};

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const FRAGMENT_HEADER_BYTES: usize = 8;
/// The bits of IPv4's field that hold "more fragments" and the offset.
const MORE_OR_OFFSET: u16 = 0x3FFF;

/// The fields that the fragments of one datagram share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DatagramId {
    pub(super) pass: u32,
    zone: u32,
    source: IpAddr,
    destination: IpAddr,
    /// IPv4 only. In IPv6, the value of the first fragment counts.
    protocol: u8,
    identification: u32,
    /// Whether it is inside a tunnel.
    inner: bool,
}

/// A fragment, with its position in the packet that carries it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    pub(super) id: DatagramId,
    /// The offset of its payload in the datagram's, in units of eight bytes.
    pub(super) offset: u16,
    pub(super) more: bool,
    /// The captured part of the payload.
    pub(super) payload: &'a [u8],
    /// Whether the captured bytes end before the payload does.
    pub(super) cut: bool,
    pub(super) shape: Shape,
}

/// The position of a fragment's IP header, for the header of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The header is `at..end`.
    V4 { at: usize, end: usize },
    /// The header and the extensions before the fragment header are `at..fragment_at`. The byte at
    /// `announced_at` announces the fragment header, which `next` follows.
    V6 { at: usize, fragment_at: usize, announced_at: usize, next: u8 },
}

/// Returns the fragment that a packet contains. Returns `None` for other packets, and for packets
/// that the decoder rejects and counts.
#[inline]
pub(super) fn find<'a>(
    raw: &RawPacket,
    bytes: &'a [u8],
    pass: u32,
    options: DecodeOptions,
) -> Option<Fragment<'a>> {
    if raw.link == LinkType::ETHERNET && is_usual(bytes, options) {
        return None;
    }
    find_layered(raw.link, bytes, pass, options)
}

/// Returns whether a frame is certainly not a fragment: Ethernet, at most one VLAN tag, and an IP
/// header without fragmentation.
#[inline(always)]
fn is_usual(bytes: &[u8], options: DecodeOptions) -> bool {
    let Some(header) = bytes.first_chunk::<28>() else { return false };
    let tagged = [header[12], header[13]] == [0x81, 0x00];
    let at = if tagged { 18 } else { 14 };
    let next = match [header[at - 2], header[at - 1]] {
        [0x08, 0x00] if u16::from_be_bytes([header[at + 6], header[at + 7]]) & MORE_OR_OFFSET == 0 => {
            header[at + 9]
        }
        [0x86, 0xDD] => header[at + 6],
        _ => return false,
    };
    // TCP carries no tunnel, but UDP may.
    next == 6 || (next == 17 && !options.decap)
}

#[inline(never)]
fn find_layered(link: LinkType, bytes: &[u8], pass: u32, options: DecodeOptions) -> Option<Fragment<'_>> {
    let outer = read(link, bytes, pass, DecodeOptions::new());
    if outer.is_some() || !options.decap {
        return outer;
    }
    read(link, bytes, pass, options)
}

/// Reads the IP header at the decoder's offset.
fn read(link: LinkType, bytes: &[u8], pass: u32, options: DecodeOptions) -> Option<Fragment<'_>> {
    let headers = decode_layered(link, bytes, options).ok()?;
    let tuple = headers.tuple();
    let at = headers.network_offset as usize;
    let id = DatagramId {
        pass,
        zone: headers.key.zone(),
        source: tuple.source,
        destination: tuple.destination,
        protocol: 0,
        identification: 0,
        inner: options.decap,
    };
    if tuple.source.is_ipv4() { ipv4(bytes, at, id) } else { ipv6(bytes, at, id) }
}

fn ipv4(bytes: &[u8], at: usize, id: DatagramId) -> Option<Fragment<'_>> {
    let header = bytes.get(at..)?.first_chunk::<IPV4_BYTES>()?;
    let field = u16::from_be_bytes([header[6], header[7]]);
    if field & MORE_OR_OFFSET == 0 {
        return None;
    }
    let start = at + usize::from(header[0] & 0xF) * 4;
    let promised = match usize::from(u16::from_be_bytes([header[2], header[3]])) {
        0 => bytes.len(),
        total => at + total,
    };
    let end = promised.min(bytes.len());
    Some(Fragment {
        id: DatagramId {
            protocol: header[9],
            identification: u32::from(u16::from_be_bytes([header[4], header[5]])),
            ..id
        },
        offset: field & 0x1FFF,
        more: field & 0x2000 != 0,
        payload: bytes.get(start..end)?,
        cut: promised > bytes.len(),
        shape: Shape::V4 { at, end: start },
    })
}

fn ipv6(bytes: &[u8], at: usize, id: DatagramId) -> Option<Fragment<'_>> {
    let header = bytes.get(at..)?.first_chunk::<IPV6_BYTES>()?;
    let promised = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => bytes.len(),
        length => at + IPV6_BYTES + length,
    };
    let (mut announced_at, mut next_at) = (at + 6, at + IPV6_BYTES);
    while *bytes.get(announced_at)? != FRAGMENT {
        let extension = bytes.get(next_at..)?.first_chunk::<2>()?;
        let units = usize::from(extension[1]);
        let length = match bytes[announced_at] {
            0 | 43 | 60 | 135 | 139 | 140 => (units + 1) * 8,
            51 => (units + 2) * 4,
            _ => return None,
        };
        announced_at = next_at;
        next_at += length;
    }
    let fragment = bytes.get(next_at..)?.first_chunk::<FRAGMENT_HEADER_BYTES>()?;
    let field = u16::from_be_bytes([fragment[2], fragment[3]]);
    if field & 0xFFF9 == 0 {
        return None; // A fragment header around a whole datagram, which the decoder skips.
    }
    let end = promised.min(bytes.len());
    Some(Fragment {
        id: DatagramId {
            identification: u32::from_be_bytes([fragment[4], fragment[5], fragment[6], fragment[7]]),
            ..id
        },
        offset: field >> 3,
        more: field & 1 != 0,
        payload: bytes.get(next_at + FRAGMENT_HEADER_BYTES..end)?,
        cut: promised > bytes.len(),
        shape: Shape::V6 { at, fragment_at: next_at, announced_at, next: fragment[0] },
    })
}

impl Fragment<'_> {
    /// Returns the bytes of the IP packet, as far as they are captured.
    pub(super) fn ip_bytes(&self) -> u32 {
        let header = match self.shape {
            Shape::V4 { at, end } => end - at,
            Shape::V6 { at, fragment_at, .. } => fragment_at + FRAGMENT_HEADER_BYTES - at,
        };
        u32::try_from(header + self.payload.len()).unwrap_or(u32::MAX)
    }
}

impl Shape {
    /// Returns the offset of the IP header.
    pub(super) fn network_offset(self) -> usize {
        match self {
            Self::V4 { at, .. } | Self::V6 { at, .. } => at,
        }
    }

    /// Returns the bytes before the datagram's payload: the link-layer headers, and the IP header
    /// of an unfragmented packet, except for its lengths.
    pub(super) fn head(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::V4 { at, end } => {
                let mut head = bytes.get(..end).unwrap_or_default().to_vec();
                if let Some(field) = head.get_mut(at + 6..at + 8) {
                    field[0] &= 0xC0;
                    field[1] = 0;
                }
                head
            }
            Self::V6 { fragment_at, announced_at, next, .. } => {
                let mut head = bytes.get(..fragment_at).unwrap_or_default().to_vec();
                if let Some(announced) = head.get_mut(announced_at) {
                    *announced = next;
                }
                head
            }
        }
    }

    /// Writes the datagram's length into its header, and IPv4's checksum. Returns `None` if no
    /// header can state this length.
    pub(super) fn finish(self, head: &mut [u8], payload_bytes: usize) -> Option<()> {
        match self {
            Self::V4 { at, end } => {
                let total = u16::try_from(end - at + payload_bytes).ok()?;
                let header = head.get_mut(at..end)?;
                header.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
                header.get_mut(10..12)?.fill(0);
                let sum: u32 = header
                    .chunks_exact(2)
                    .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                    .sum();
                let folded = (sum & 0xFFFF) + (sum >> 16);
                let folded = (folded & 0xFFFF) + (folded >> 16);
                let checksum = !u16::try_from(folded).ok()?;
                header.get_mut(10..12)?.copy_from_slice(&checksum.to_be_bytes());
            }
            Self::V6 { at, fragment_at, .. } => {
                let length = u16::try_from(fragment_at - at - IPV6_BYTES + payload_bytes).ok()?;
                head.get_mut(at + 4..at + 6)?.copy_from_slice(&length.to_be_bytes());
            }
        }
        Some(())
    }
}
