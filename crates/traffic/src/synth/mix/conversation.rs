//! Generates the contents of a flow's packets.
//!
//! A flow's number determines its kind, and its number of packets determines how far it progresses.
//! A TCP flow of one packet is a SYN without an answer. From six packets on, it is a whole session;
//! one session in eight ends with a reset. One long session in sixteen began before the trace, and
//! has neither a start nor an end.

use super::config::FrameSize;
use crate::synth::hosts::{self, FLOWS_PER_CLIENT, Hosts};
use crate::synth::random::{Random, word_of};
use crate::synth::wire::{
    ACK, Addresses, ETHERNET_BYTES, FIN, PAYLOAD_BYTES_MAX, PSH, Packet, RST, SYN, SYN_OPTIONS, Slice,
    Transport,
};

/// IP lengths of the two larger classes of the simple IMIX, and each class's share in twelfths.
const IMIX_IP_BYTES: (usize, usize) = (576, 1500);
const IMIX_SHARES: (u64, u64, u64) = (7, 4, 1);

/// The kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowShape {
    Tcp,
    Dns,
    Quic,
    Echo,
    /// Datagrams in two fragments: two flow keys, because the later fragment has no ports.
    Fragments,
    Flood,
}

/// The numbering of flows: ordinary ones first, then the flood. The first flow of each of the first
/// few clients sends fragments.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) seed: u64,
    /// Flows that send fragments; they are the first of as many clients.
    pub(super) fragmenting: u64,
    /// Ordinary flows, including the fragmenting ones.
    pub(super) ordinary: u64,
    pub(super) v6_permille: u16,
    pub(super) vlan_permille: u16,
    pub(super) size: FrameSize,
}

/// The progress of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) sent: u32,
    pub(super) left: u32,
    /// Sequence numbers used by each side.
    by_client: u32,
    by_server: u32,
}

impl Layout {
    /// Returns whether an ordinary flow sends fragments. Such a flow has two keys and needs two
    /// packets.
    #[inline]
    pub(super) fn is_fragmenting(&self, flow: u64) -> bool {
        flow.is_multiple_of(FLOWS_PER_CLIENT) && flow / FLOWS_PER_CLIENT < self.fragmenting
    }

    /// Returns the kind of a flow of `packets` packets. Short flows may be of any kind; long flows
    /// are TCP, QUIC or a ping.
    #[inline]
    fn kind(&self, flow: u64, packets: u32) -> FlowShape {
        if flow >= self.ordinary {
            return FlowShape::Flood;
        }
        if self.is_fragmenting(flow) {
            return FlowShape::Fragments;
        }
        match word_of(self.seed ^ 0x4B49_4E44, flow) % 100 {
            66..90 if packets <= 4 => FlowShape::Dns,
            0..80 => FlowShape::Tcp,
            80..97 => FlowShape::Quic,
            _ => FlowShape::Echo,
        }
    }

    /// Returns the next packet of a flow, from client or server, and updates `progress`.
    #[inline]
    pub(super) fn next(
        &self,
        flow: u64,
        progress: &mut Progress,
        hosts: &Hosts,
        random: &mut Random,
    ) -> Packet {
        let size = progress.sent + progress.left;
        let kind = self.kind(flow, size);
        let word = word_of(self.seed, flow);
        let tags = self.tags(flow, word);
        let v6 = self.is_v6(flow) && kind != FlowShape::Fragments;
        let (client, client_port) = hosts.client(flow);
        // A flood has a single victim: the web server of the most popular host.
        let server = if kind == FlowShape::Flood { 0 } else { hosts.server(flow) };
        let addresses = if v6 { hosts::v6(client, server) } else { hosts::v4(client, server) };
        let headers_bytes = ETHERNET_BYTES + 4 * tags.iter().flatten().count() + addresses.header_bytes();
        let space = Space { headers_bytes, size: self.size };

        let draw = random.next();
        let step = match kind {
            FlowShape::Tcp => tcp(progress, size, word, &space, draw),
            FlowShape::Flood => Step { from_client: true, payload: 0, what: What::Tcp(SYN) },
            FlowShape::Dns => dns(progress.sent, &space, draw),
            FlowShape::Quic => {
                let payload = space.drawn(8, draw).unwrap_or(30);
                // Most packets come from the server, as in downloads.
                Step { from_client: progress.sent == 0 || draw >> 61 == 0, payload, what: What::Udp }
            }
            FlowShape::Echo => Step {
                from_client: progress.sent.is_multiple_of(2),
                payload: space.filled(8).unwrap_or(56),
                what: What::Echo,
            },
            FlowShape::Fragments => fragment(progress, &space),
        };
        let server_port = match kind {
            FlowShape::Tcp => hosts.tcp_port(flow),
            FlowShape::Dns => 53,
            FlowShape::Quic | FlowShape::Flood => 443,
            FlowShape::Fragments => 2049,
            FlowShape::Echo => client_port,
        };
        // Both fragments of a datagram come from the same piece of the pool, which the datagram's
        // number selects.
        let place =
            if kind == FlowShape::Fragments { word_of(word, u64::from(progress.sent / 2)) } else { draw };
        let transport = transport(&step, word, progress);
        let payload = match transport {
            Transport::UdpFirst { whole_bytes } => Slice::new(place, whole_bytes).part(0, step.payload),
            Transport::UdpLater { offset_bytes } => {
                let skip = offset_bytes - 8;
                Slice::new(place, skip + step.payload).part(skip, step.payload)
            }
            _ => Slice::new(place, step.payload),
        };
        let identification = match kind {
            FlowShape::Fragments => (word as u16).wrapping_add((progress.sent / 2) as u16),
            _ => (word as u16).wrapping_add(progress.sent as u16),
        };
        note(progress, &step);
        packet(
            tags,
            addresses,
            (client_port, server_port),
            identification,
            transport,
            payload,
            step.from_client,
        )
    }

    /// Spreads the share evenly over the flow numbers, so that it is exact to one flow.
    fn is_v6(&self, flow: u64) -> bool {
        spread(flow, self.v6_permille)
    }

    fn tags(&self, flow: u64, word: u64) -> [Option<u16>; 2] {
        // The phase differs from that of IPv6; otherwise the same flows would be chosen.
        if !spread(flow.wrapping_mul(613).wrapping_add(311), self.vlan_permille) {
            return [None, None];
        }
        let id = 100 + ((word >> 20) & 3) as u16;
        if (word >> 24).is_multiple_of(8) { [Some(200), Some(id)] } else { [Some(id), None] }
    }
}

fn transport(step: &Step, word: u64, progress: &Progress) -> Transport {
    match step.what {
        What::Tcp(flags) => {
            let by_client = (word as u32).wrapping_add(progress.by_client);
            let by_server = ((word >> 32) as u32).wrapping_add(progress.by_server);
            let (sequence, other) =
                if step.from_client { (by_client, by_server) } else { (by_server, by_client) };
            Transport::Tcp {
                flags,
                sequence,
                acknowledgment: if flags & ACK == 0 { 0 } else { other },
                options: if flags & SYN == 0 { &[] } else { SYN_OPTIONS },
            }
        }
        What::Udp => Transport::Udp,
        What::UdpFirst { whole_bytes } => Transport::UdpFirst { whole_bytes },
        What::UdpLater { offset_bytes } => Transport::UdpLater { offset_bytes },
        What::Echo => Transport::Echo { reply: !step.from_client, sequence: (progress.sent / 2) as u16 },
    }
}

fn spread(flow: u64, permille: u16) -> bool {
    flow % 1000 * u64::from(permille) % 1000 + u64::from(permille) >= 1000
}

#[derive(Clone, Copy, Debug)]
enum What {
    Tcp(u8),
    Udp,
    UdpFirst { whole_bytes: usize },
    UdpLater { offset_bytes: usize },
    Echo,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    from_client: bool,
    payload: usize,
    what: What,
}

/// The space that the frame size leaves for data.
struct Space {
    headers_bytes: usize,
    size: FrameSize,
}

impl Space {
    /// Returns the payload that fills a frame of fixed size.
    fn filled(&self, transport_bytes: usize) -> Option<usize> {
        match self.size {
            FrameSize::Imix => None,
            FrameSize::Fixed(bytes) => Some(
                usize::from(bytes)
                    .saturating_sub(self.headers_bytes + transport_bytes)
                    .min(PAYLOAD_BYTES_MAX),
            ),
        }
    }

    /// Returns the payload length of a packet that may carry data, or `None` if a small packet is
    /// drawn. With fixed frames all packets carry data, with piggybacked acknowledgments.
    fn drawn(&self, transport_bytes: usize, draw: u64) -> Option<usize> {
        if let Some(bytes) = self.filled(transport_bytes) {
            return Some(bytes);
        }
        let (small, middle, _) = IMIX_SHARES;
        let ip_bytes = match draw % 12 {
            n if n < small => return None,
            n if n < small + middle => IMIX_IP_BYTES.0,
            _ => IMIX_IP_BYTES.1,
        };
        let ip_header = self.headers_bytes - ETHERNET_BYTES;
        // Tags do not count towards the length of the IP packet.
        let ip_header = if ip_header >= 40 { 40 } else { 20 };
        Some(ip_bytes - ip_header - transport_bytes)
    }
}

fn tcp(progress: &Progress, size: u32, word: u64, space: &Space, draw: u64) -> Step {
    const RESET: u32 = 1;
    const CLOSE: u32 = 3;
    let Progress { sent, left, .. } = *progress;
    let step = |from_client, flags| Step { from_client, payload: 0, what: What::Tcp(flags) };
    let established = (word >> 40).is_multiple_of(16) && size >= 6;
    if !established {
        let ending = if size < 6 || (word >> 44).is_multiple_of(8) { RESET } else { CLOSE };
        match (sent, left) {
            (0, _) => return step(true, SYN),
            // A closed port.
            (1, 1) => return step(false, RST | ACK),
            (1, _) => return step(false, SYN | ACK),
            (_, 1) if ending == RESET => return step(true, RST | ACK),
            (2, _) | (_, 1) => return step(true, ACK),
            (_, 2) if ending == CLOSE => return step(false, FIN | ACK),
            (_, 3) if ending == CLOSE => return step(true, FIN | ACK),
            _ => {}
        }
    }
    // One in eight is an upload. The first packet of data is always the client's request.
    let upload = (word >> 48).is_multiple_of(8);
    let data_from_client = upload || sent == 3;
    let data = |payload| Step { from_client: data_from_client, payload, what: What::Tcp(PSH | ACK) };
    match space.drawn(20, draw) {
        Some(payload) if payload > 0 => data(payload),
        // A small amount of data, as in keystrokes and small requests.
        None if sent == 3 || draw >> 60 == 0 => data(6 + ((draw >> 32) & 15) as usize),
        _ => step(!data_from_client, ACK),
    }
}

fn dns(sent: u32, space: &Space, draw: u64) -> Step {
    let from_client = sent.is_multiple_of(2);
    let payload = space.filled(8).unwrap_or_else(|| {
        let spread = ((draw >> 32) & 31) as usize;
        if from_client { 28 + spread / 2 } else { 60 + spread * 4 }
    });
    Step { from_client, payload, what: What::Udp }
}

/// Packets come in pairs, the fragments of one datagram. An odd last packet is a whole datagram.
fn fragment(progress: &Progress, space: &Space) -> Step {
    let (first, later) = match space.filled(0) {
        None => (1480, 520),
        Some(bytes) => ((bytes & !7).max(16), bytes.max(1)),
    };
    let what = match (progress.sent % 2, progress.left) {
        (0, 1) => What::Udp,
        (0, _) => What::UdpFirst { whole_bytes: first - 8 + later },
        _ => What::UdpLater { offset_bytes: first },
    };
    let payload = match what {
        What::UdpLater { .. } => later,
        What::UdpFirst { .. } => first - 8,
        _ => space.filled(8).unwrap_or(120),
    };
    Step { from_client: true, payload, what }
}

fn note(progress: &mut Progress, step: &Step) {
    progress.sent += 1;
    progress.left -= 1;
    if let What::Tcp(flags) = step.what {
        let used = step.payload as u32 + u32::from(flags & (SYN | FIN) != 0);
        let side = if step.from_client { &mut progress.by_client } else { &mut progress.by_server };
        *side = side.wrapping_add(used);
    }
}

fn packet(
    tags: [Option<u16>; 2],
    addresses: Addresses,
    (client_port, server_port): (u16, u16),
    identification: u16,
    transport: Transport,
    payload: Slice,
    from_client: bool,
) -> Packet {
    let (addresses, source_port, destination_port) = if from_client {
        (addresses, client_port, server_port)
    } else {
        (addresses.reversed(), server_port, client_port)
    };
    Packet { tags, addresses, source_port, destination_port, identification, transport, payload }
}

impl Progress {
    /// Returns a flow before its first packet.
    pub(super) fn new(packets: u32) -> Self {
        Self { left: packets, ..Self::default() }
    }
}
