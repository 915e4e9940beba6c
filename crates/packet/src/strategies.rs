//! Strategies that generate frames for property tests, with the results that a decoder must return.

use flowloom_flow_key::FiveTuple;
use flowloom_flow_key::protocol::{FRAGMENT, SCTP, TCP, UDP};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::link::LinkType;

const ICMP: [u8; 2] = [1, 58];

/// A valid frame, and the expected headers.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The frame's link type.
    pub link: LinkType,
    /// All its bytes, padding included.
    pub bytes: Vec<u8>,
    /// The outermost IP header's tuple.
    pub tuple: FiveTuple,
    /// VLAN IDs, outermost first, without priority tags.
    pub vlans: Vec<u16>,
    /// TCP flags, 0 for other protocols and later fragments.
    pub tcp_flags: u16,
    /// Whether it is a fragment other than the first.
    pub later_fragment: bool,
    /// The first fragment of several.
    pub first_fragment: bool,
    /// Offset of the IP header.
    pub network_offset: usize,
    /// Offset after its options or extensions.
    pub transport_offset: usize,
    /// Offset after the transport header.
    pub payload_offset: usize,
    /// Bytes from there to the end of the IP packet.
    pub payload_bytes: usize,
}

impl Frame {
    /// Returns the same frame from the other end: addresses and ports are exchanged.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let mut reversed = Self { tuple: self.tuple.reversed(), ..self.clone() };
        let (addresses, each) = if self.tuple.source.is_ipv4() { (12, 4) } else { (8, 16) };
        let exchange = |bytes: &mut [u8], each: usize| {
            let (first, second) = bytes[..2 * each].split_at_mut(each);
            first.swap_with_slice(second);
        };
        exchange(&mut reversed.bytes[self.network_offset + addresses..], each);
        if !self.later_fragment && matches!(self.tuple.protocol, TCP | UDP | SCTP) {
            exchange(&mut reversed.bytes[self.transport_offset..], 2);
        }
        if !self.later_fragment && matches!(self.tuple.protocol, 1 | 58) {
            // An echo reply answers an echo request.
            let [request, reply] = if self.tuple.source.is_ipv4() { [8, 0] } else { [128, 129] };
            let kind = &mut reversed.bytes[self.transport_offset];
            *kind = match *kind {
                kind if kind == request => reply,
                kind if kind == reply => request,
                kind => kind,
            };
        }
        reversed
    }
}

/// The bytes before the IP header, their link type, and their VLAN IDs.
#[derive(Clone, Debug)]
struct Prefix {
    link: LinkType,
    bytes: Vec<u8>,
    vlans: Vec<u16>,
}

/// Headers between an Ethertype and IP: tags, then nothing, labels, or PPP over Ethernet.
fn tagged(v6: bool) -> impl Strategy<Value = (u16, Vec<u8>, Vec<u16>)> {
    let ether_type: u16 = if v6 { 0x86DD } else { 0x0800 };
    let tag_type =
        prop_oneof![3 => Just(0x8100_u16), 1 => Just(0x88A8), 1 => Just(0x9100), 1 => Just(0x9200)];
    let id = prop_oneof![Just(0_u16), 1_u16..4, 0_u16..4096];
    let tag = (tag_type, id, 0_u16..8);
    let tags = prop_oneof![4 => Just(Vec::new()), 2 => vec(tag.clone(), 1), 1 => vec(tag, 2..6)];
    let below = prop_oneof![
        4 => Just((ether_type, Vec::new())),
        1 => vec(any::<[u8; 3]>(), 1..12).prop_map(|labels| {
            let last = labels.len() - 1;
            let bytes = labels.iter().enumerate().flat_map(|(i, &[a, b, c])| {
                [a, b, c & !1 | u8::from(i == last), 64]
            });
            (0x8847, bytes.collect())
        }),
        1 => any::<u16>().prop_map(move |session| {
            let mut bytes = vec![0x11, 0];
            bytes.extend(session.to_be_bytes());
            bytes.extend([0, 0, 0, if v6 { 0x57 } else { 0x21 }]);
            (0x8864, bytes)
        }),
    ];
    (tags, below).prop_map(|(tags, (below_type, below))| {
        let first = tags.first().map_or(below_type, |tag| tag.0);
        let mut bytes = Vec::new();
        for (i, &(_, id, priority)) in tags.iter().enumerate() {
            bytes.extend((priority << 13 | id).to_be_bytes());
            bytes.extend(tags.get(i + 1).map_or(below_type, |tag| tag.0).to_be_bytes());
        }
        bytes.extend(below);
        (first, bytes, tags.iter().map(|tag| tag.1).filter(|&id| id != 0).collect())
    })
}

/// Link layers that announce their payload by an Ethertype.
fn prefix_with_type(v6: bool) -> impl Strategy<Value = Prefix> {
    (0..5_u8, tagged(v6), any::<[u8; 12]>()).prop_map(|(which, (ether_type, stack, vlans), addresses)| {
        let [high, low] = ether_type.to_be_bytes();
        let (link, mut bytes) = match which {
            0 => (LinkType::LINUX_SLL, [&[0, 0, 0, 1, 0, 6][..], &addresses[..8], &[high, low]].concat()),
            1 => (LinkType::LINUX_SLL2, [&[high, low, 0, 0][..], &addresses, &[0; 4]].concat()),
            2 => {
                // Quality of service, to the access point.
                let header = [&[0x88, 1, 0, 0][..], &addresses, &[2; 6], &[0, 0, 0, 0]].concat();
                (LinkType::IEEE802_11, [&header[..], &[0xAA, 0xAA, 3, 0, 0, 0, high, low]].concat())
            }
            _ => (LinkType::ETHERNET, [&addresses[..], &[high, low]].concat()),
        };
        bytes.extend(stack);
        Prefix { link, bytes, vlans }
    })
}

/// Link layers that carry IP directly.
fn prefix_without_type(v6: bool) -> impl Strategy<Value = Prefix> {
    let null = |family: u32, big: bool| if big { family.to_be_bytes() } else { family.to_le_bytes() };
    let protocol = if v6 { 0x57 } else { 0x21 };
    prop_oneof![
        Just((LinkType::RAW, Vec::new())),
        Just((if v6 { LinkType::IPV6 } else { LinkType::IPV4 }, Vec::new())),
        any::<bool>().prop_map(move |big| (LinkType::NULL, null(if v6 { 30 } else { 2 }, big).to_vec())),
        Just((LinkType::LOOP, null(if v6 { 24 } else { 2 }, true).to_vec())),
        Just((LinkType::PPP, vec![0xFF, 3, 0, protocol])),
        Just((LinkType::PPP, vec![protocol])),
        Just((LinkType::PPP_HDLC, vec![0, protocol])),
        Just((LinkType::PPP_ETHER, vec![0x11, 0, 0, 1, 0, 0, 0, protocol])),
    ]
    .prop_map(|(link, bytes)| Prefix { link, bytes, vlans: Vec::new() })
}

/// A transport header, and its ports.
#[derive(Clone, Debug)]
struct Transport {
    protocol: u8,
    header: Vec<u8>,
    ports: (u16, u16),
    flags: u16,
}

fn transport(v6: bool) -> impl Strategy<Value = Transport> {
    let port = prop_oneof![1 => Just(4789_u16), 1 => Just(2152), 4 => any::<u16>()];
    let rare = prop_oneof![Just(SCTP), Just(ICMP[usize::from(v6)]), Just(89), Just(50)];
    let kind = prop_oneof![2 => Just(TCP), 1 => Just(UDP), 2 => rare];
    (kind, port.clone(), port, 0..11_u8, any::<u16>(), any::<bool>()).prop_map(
        move |(protocol, source, destination, words, flags, echo)| {
            let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            let with =
                |header: Vec<u8>| Transport { protocol, header, ports: (source, destination), flags: 0 };
            match protocol {
                TCP => {
                    // The reserved bits of the data offset's byte are set too.
                    let [reserved, low] = (flags & 0xFFF).to_be_bytes();
                    let fixed =
                        [&ports[..], &[0; 8], &[(5 + words) << 4 | reserved, low], &[0; 6]].concat();
                    let options = vec![1; usize::from(words) * 4];
                    Transport { flags: flags & 0x1FF, ..with([fixed, options].concat()) }
                }
                UDP => with([&ports[..], &[0; 4]].concat()),
                SCTP => with([&ports[..], &[0; 8]].concat()),
                1 | 58 => {
                    let [request, reply] = if v6 { [128, 129] } else { [8, 0] };
                    let kind = match (echo, flags & 1) {
                        (true, 0) => request,
                        (true, _) => reply,
                        (false, _) => 3,
                    };
                    let ports = if echo { (source, source) } else { (0, 0) };
                    let identifier = source.to_be_bytes();
                    let header = vec![kind, 0, 0, 0, identifier[0], identifier[1], 0, 1];
                    Transport { protocol, header, ports, flags: 0 }
                }
                _ => Transport { protocol, header: Vec::new(), ports: (0, 0), flags: 0 },
            }
        },
    )
}

/// How an IP packet is fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Whole,
    First,
    Later,
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![6 => Just(Piece::Whole), 1 => Just(Piece::First), 1 => Just(Piece::Later)]
}

/// Returns an IPv4 header with options, for a packet of `rest` more bytes.
fn ipv4_header(addresses: &[u8; 32], protocol: u8, option_words: u8, piece: Piece, rest: usize) -> Vec<u8> {
    let length = 20 + usize::from(option_words) * 4;
    let total = u16::try_from(length + rest).expect("generated packets are below 64 KiB").to_be_bytes();
    let fragment: u16 = match piece {
        Piece::Whole => 0x4000,
        Piece::First => 0x2000,
        Piece::Later => 0x2005,
    };
    let mut header = vec![0x45 + option_words, 0, total[0], total[1], 0, 1];
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(&addresses[..4]);
    header.extend(&addresses[16..20]);
    header.resize(length, 1);
    header
}

/// Returns an IPv6 header with extensions of the given kinds, for a packet of `rest` more bytes.
fn ipv6_header(
    addresses: &[u8; 32],
    protocol: u8,
    kinds: &[(u8, u8)],
    piece: Piece,
    rest: usize,
) -> Vec<u8> {
    let mut kinds = kinds.to_vec();
    if piece != Piece::Whole {
        kinds.push((FRAGMENT, 0));
    }
    let next_of = |i: usize| kinds.get(i).map_or(protocol, |kind| kind.0);
    let mut extensions = Vec::new();
    for (i, &(kind, units)) in kinds.iter().enumerate() {
        extensions.push(next_of(i + 1));
        if kind == FRAGMENT {
            let offset: u16 = if piece == Piece::Later { 5 << 3 | 1 } else { 1 };
            extensions.push(0);
            extensions.extend(offset.to_be_bytes());
            extensions.extend([0, 0, 0, 1]);
        } else {
            extensions.push(units);
            extensions.extend(vec![0; 6 + usize::from(units) * 8]);
        }
    }
    let length = u16::try_from(extensions.len() + rest).expect("generated packets are below 64 KiB");
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(length.to_be_bytes());
    header.extend([next_of(0), 64]);
    header.extend(addresses);
    header.extend(extensions);
    header
}

/// Returns valid frames: every link layer, stacks of tags and labels, both families with options
/// and extensions, fragments, the transports, and padding after the packet.
pub fn frame() -> impl Strategy<Value = Frame> {
    any::<bool>().prop_flat_map(|v6| {
        let prefix = prop_oneof![3 => prefix_with_type(v6), 1 => prefix_without_type(v6)];
        // Often there are none, so that the fast path is tested too.
        let option_words = prop_oneof![2 => Just(0_u8), 1 => 1..11_u8];
        let some = vec((prop_oneof![Just(0_u8), Just(43), Just(60)], 0..3_u8), 1..4);
        let kinds = prop_oneof![2 => Just(Vec::new()), 1 => some];
        // An IPv6 packet of length 0 would be a jumbogram, so a packet without extensions or a
        // transport header needs a payload.
        let (payload, padding) = (vec(any::<u8>(), 1..64), vec(any::<u8>(), 0..24));
        (prefix, transport(v6), any::<[u8; 32]>(), option_words, kinds, piece(), payload, padding).prop_map(
            move |(prefix, transport, addresses, option_words, kinds, piece, payload, padding)| {
                let later_fragment = piece == Piece::Later;
                let header = if later_fragment { &[][..] } else { &transport.header[..] };
                let rest = header.len() + payload.len();
                let ip = if v6 {
                    ipv6_header(&addresses, transport.protocol, &kinds, piece, rest)
                } else {
                    ipv4_header(&addresses, transport.protocol, option_words, piece, rest)
                };
                let (source_port, destination_port) = if later_fragment { (0, 0) } else { transport.ports };
                let wide = |at: usize| -> [u8; 16] { std::array::from_fn(|i| addresses[at + i]) };
                let narrow = |at: usize| -> [u8; 4] { std::array::from_fn(|i| addresses[at + i]) };
                let protocol = transport.protocol;
                let tuple = if v6 {
                    FiveTuple::v6(wide(0), wide(16), source_port, destination_port, protocol)
                } else {
                    FiveTuple::v4(narrow(0), narrow(16), source_port, destination_port, protocol)
                };
                let network_offset = prefix.bytes.len();
                let transport_offset = network_offset + ip.len();
                Frame {
                    link: prefix.link,
                    bytes: [&prefix.bytes[..], &ip, header, &payload, &padding].concat(),
                    tuple,
                    vlans: prefix.vlans,
                    tcp_flags: if later_fragment { 0 } else { transport.flags },
                    later_fragment,
                    first_fragment: piece == Piece::First,
                    network_offset,
                    transport_offset,
                    payload_offset: transport_offset + header.len(),
                    payload_bytes: payload.len(),
                }
            },
        )
    })
}
