//! One scenario: the plan, the sessions, the tap, the capture and its answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::answers::{Answers, Captured, Facts, IDLE_TIMEOUT_S};
use crate::capture::{Packet, pcap, pcapng};
use crate::dimension::{DIMENSIONS, Dimension, Plan, Reuse, Transport, View};
use crate::frame::{Framing, SCTP, TCP, UDP};
use crate::random::Random;
use crate::script::{CLIENT, MILLISECOND, Role, SECOND, SERVER, Sent, Session, icmp};
use crate::tcp::{Close, Connection, Message, Numbers, Opening, Phase, RST};

const SNAP_BYTES: usize = 262_144;
/// 14 November 2023.
const EPOCH_NS: u64 = 1_700_000_000 * SECOND;
/// The mirror's copy of a frame follows it after this time.
const COPY_NS: u64 = 300;
const FRAGMENT_NS: u64 = 1000;
/// What a file that is cut off lacks: less than the shortest frame.
const CUT_BYTES: usize = 20;

/// The most dimensions that a scenario combines.
pub const COMBINED_MAX: usize = 4;

/// A small capture whose right flow records are known by construction.
///
/// # Examples
///
/// ```
/// use flowloom_scenarios::Scenario;
///
/// let scenario = Scenario::new(1, 0, 2);
/// assert_eq!(scenario.capture(false), Scenario::new(1, 0, 2).capture(false));
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    index: u64,
    seed: u64,
    dimensions: Vec<&'static str>,
    packets: Vec<Packet>,
    snap_bytes: usize,
    is_cut_off: bool,
    missed: usize,
    vlan_in_key: bool,
    active_s: Option<u64>,
    is_decapsulated: bool,
    flows: String,
}

impl Scenario {
    /// Returns the scenario of this index among those of a seed. The first ones have each dimension
    /// alone, those after them as many drawn ones as stated, at least 1 and at most
    /// [`COMBINED_MAX`].
    pub fn new(seed: u64, index: u64, combined: usize) -> Self {
        let mut random = Random::new(seed ^ index.wrapping_mul(0xD1B5_4A32_D192_ED03));
        let dimensions = draw(index, combined.clamp(1, COMBINED_MAX), &mut random);
        let mut plan = Plan::default();
        for dimension in &dimensions {
            (dimension.apply)(&mut plan);
        }
        let is_v6 = plan.is_v6.unwrap_or_else(|| random.chance(50));
        let sessions = sessions(&plan, is_v6, &mut random);
        let sent = merged(&sessions, &plan, &mut random);
        let all: usize = sessions.iter().map(|session| session.sent.len()).sum();
        let mut captured = frames(&sent, &plan);
        let packet = |captured: &Captured<'_>| Packet {
            stamp_ns: captured.stamp_ns(),
            bytes: captured.frame.bytes.clone(),
        };
        let mut packets: Vec<Packet> = captured.iter().map(packet).collect();
        if plan.is_cut_off {
            captured.pop();
        }
        let mut answers = Answers::new(plan.active_s);
        for captured in &captured {
            let session = &sessions[captured.sent.session];
            let facts = Facts {
                vlans: framing(&plan, session.number).vlans,
                icmp: session.icmp,
                contents: &session.facts,
            };
            answers.add(captured, facts);
        }
        let frames = packets.clone();
        for frame in if plan.has_broken_frames { &frames[..frames.len().min(4)] } else { &[] } {
            let at = random.within(0, packets.len() as u64 - 1) as usize;
            let (stamp_ns, bytes) = (packets[at].stamp_ns, broken_frame(&frame.bytes, &mut random));
            packets.insert(at, Packet { stamp_ns, bytes });
        }
        Self {
            index,
            seed,
            dimensions: dimensions.iter().map(|dimension| dimension.name).collect(),
            packets,
            is_cut_off: plan.is_cut_off,
            snap_bytes: plan.snap_bytes.unwrap_or(SNAP_BYTES),
            missed: all - sent.len(),
            active_s: plan.active_s,
            is_decapsulated: plan.framing.tunnel.is_some(),
            vlan_in_key: plan.framing.vlans[CLIENT] == plan.framing.vlans[SERVER],
            flows: answers.json(captured.last().map_or(0, |captured| captured.time_ns)),
        }
    }

    /// Returns the name of its files, without an ending.
    pub fn name(&self) -> String {
        format!("{:05}-{}", self.index, self.dimensions.join("+"))
    }

    /// Returns the names of its dimensions.
    pub fn dimensions(&self) -> &[&'static str] {
        &self.dimensions
    }

    /// Returns the packets that are whole in the file.
    fn whole(&self) -> &[Packet] {
        &self.packets[..self.packets.len() - usize::from(self.is_cut_off)]
    }

    /// Returns its packets in the order of the capture.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Returns the lengths of its packets on the wire and in the capture, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        let lengths = || self.whole().iter().map(|packet| packet.bytes.len());
        let kept = lengths().map(|bytes| bytes.min(self.snap_bytes) as u64).sum();
        (lengths().sum::<usize>() as u64, kept)
    }

    /// Returns the bytes of the capture.
    pub fn capture(&self, is_pcapng: bool) -> Vec<u8> {
        let write = if is_pcapng { pcapng } else { pcap };
        let mut file = write(&self.packets, self.snap_bytes);
        if self.is_cut_off {
            file.truncate(file.len() - CUT_BYTES);
        }
        file
    }

    /// Returns the answers as a JSON document.
    pub fn answers(&self) -> String {
        let (wire_bytes, captured_bytes) = self.bytes();
        format!(
            "{{\n  \"schema\": \"flowloom/scenario/1\",\n  \"name\": \"{}\",\n  \"seed\": {},\n  \
             \"dimensions\": {:?},\n  \"settings\": {{ \"idle_timeout_s\": {IDLE_TIMEOUT_S}, \
             \"active_timeout_s\": {}, \"vlan_in_key\": {}, \"decapsulated\": {}, \"fragments_joined\": true, \
             \"duplicates_counted\": true }},\n  \"capture\": {{ \"packets\": {}, \"wire_bytes\": {wire_bytes}, \
             \"captured_bytes\": {captured_bytes}, \"snap_bytes\": {}, \"missed_by_tap\": {}, \
             \"cut_off\": {} }},\n  \
             \"flows\": [\n{}\n  ]\n}}\n",
            self.name(),
            self.seed,
            self.dimensions,
            self.active_s.map_or_else(|| String::from("null"), |seconds| seconds.to_string()),
            self.vlan_in_key,
            self.is_decapsulated,
            self.whole().len(),
            self.snap_bytes,
            self.missed,
            self.is_cut_off,
            self.flows,
        )
    }
}

fn draw(index: u64, combined: usize, random: &mut Random) -> Vec<&'static Dimension> {
    if let Some(alone) = usize::try_from(index).ok().and_then(|index| DIMENSIONS.get(index)) {
        return vec![alone];
    }
    loop {
        let drawn: Vec<usize> =
            (0..combined).map(|_| random.within(0, DIMENSIONS.len() as u64 - 1) as usize).collect();
        let drawn: Vec<_> = drawn
            .is_sorted_by(|a, b| a < b)
            .then_some(drawn)
            .into_iter()
            .flatten()
            .map(|at| &DIMENSIONS[at])
            .collect();
        let combine = |at: usize, a: &&Dimension| drawn[at + 1..].iter().all(|b| a.combines_with(b));
        if !drawn.is_empty() && drawn.iter().enumerate().all(|(at, a)| combine(at, a)) {
            return drawn;
        }
    }
}

/// Returns a frame that is part of no flow: shorter than its headers, or of no version of IP.
fn broken_frame(frame: &[u8], random: &mut Random) -> Vec<u8> {
    match random.within(0, 2) {
        0 => frame[..random.within(1, 13) as usize].to_vec(),
        // The network layer has less than the shortest header of IP.
        1 => [&frame[..12], &[8, 0], &random.bytes(19)].concat(),
        _ => {
            let mut bytes = [&frame[..12], &[8, 0], &random.bytes(40)].concat();
            bytes[14] = 0x95;
            bytes
        }
    }
}

/// Returns how datagrams of a session become frames: those of a twin have another VLAN.
fn framing(plan: &Plan, session: usize) -> Framing {
    let is_twin = plan.has_twin && session == 1;
    if is_twin { Framing { vlans: [&[41], &[41]], ..plan.framing } } else { plan.framing }
}

fn sessions(plan: &Plan, is_v6: bool, random: &mut Random) -> Vec<Session> {
    let start_ns = EPOCH_NS + random.within(0, 1_000_000 * SECOND);
    let mut begin = |number: usize, protocol: u8, time_ns: u64| {
        Session::new(number, protocol, is_v6, time_ns, Random::new(random.next()))
    };
    let mut first = begin(0, TCP, start_ns);
    // Another session shares the wire, so that no flow has the capture to itself.
    let mut second = begin(1, TCP, start_ns + 3 * MILLISECOND);
    let mut third = None;
    let rounds = first.random.within(4, 8);
    match plan.transport {
        Transport::Tcp => tcp(plan, &mut first),
        Transport::Udp => {
            first.protocol = UDP;
            (0..rounds).for_each(|_| [CLIENT, SERVER].into_iter().for_each(|side| first.udp(side)));
        }
        Transport::Icmp => {
            first.protocol = icmp(is_v6);
            first.echo(rounds);
        }
        Transport::Dns(kind) => {
            first.protocol = UDP;
            first.dns(kind);
        }
        Transport::Quic(version, initials) => {
            first.protocol = UDP;
            first.quic(version, initials, rounds);
        }
        Transport::Multicast => {
            first.protocol = UDP;
            first.addresses[SERVER] = if is_v6 {
                IpAddr::V6(Ipv6Addr::new(0xFF05, 0, 0, 0, 0, 0, 1, 3))
            } else {
                IpAddr::V4(Ipv4Addr::new(239, 192, 1, 3))
            };
            (0..rounds).for_each(|_| first.udp(CLIENT));
        }
        Transport::Sctp => {
            first.protocol = SCTP;
            first.sctp(rounds);
        }
        Transport::IcmpError => {
            first.protocol = UDP;
            first.udp(CLIENT);
            let error = third.insert(begin(2, icmp(is_v6), first.clock_ns + 5 * MILLISECOND));
            error.addresses = first.addresses;
            let plain = Framing { is_fragmented: false, tunnel: None, ..plan.framing };
            let about = &plain.frames(CLIENT, &first.sent[0].datagram)[0];
            let start = 14 + 4 * plan.framing.vlans[CLIENT].len();
            error.unreachable(SERVER, &about.bytes[start..start + about.ip_bytes.min(200)]);
        }
    }
    if plan.has_twin {
        (second.addresses, second.ports) = (first.addresses, first.ports);
    }
    let mut connection = Connection::new(&mut second, CLIENT, Numbers::Anywhere);
    connection.open(Opening::Plain, &[]);
    connection.transfer(CLIENT, 1);
    connection.transfer(SERVER, 3);
    connection.close(Close::Fins, CLIENT);
    [Some(first), Some(second), third].into_iter().flatten().collect()
}

/// Runs the connection of a plan, and the one on the same ports if it has one.
fn tcp(plan: &Plan, session: &mut Session) {
    let [side, closer] = [0; 2].map(|_| session.random.within(0, 1) as usize);
    if plan.contents.is_some_and(|contents| contents.message == Message::Dns) {
        session.ports[SERVER] = 53;
    }
    if plan.has_known_ports {
        session.ports = [session.random.pick(&[21, 6669, 25_565]), session.random.pick(&[80, 443, 8080])];
    }
    if plan.phase == Some(Phase::ReorderedLate) {
        session.delays_ns = session.delays_ns.map(|delay_ns| delay_ns.max(5 * MILLISECOND));
    }
    if plan.phase == Some(Phase::LostFast) {
        // Both ends are near, so that the segment follows the acknowledgements at once.
        session.delays_ns = session.delays_ns.map(|delay_ns| delay_ns.min(8 * MILLISECOND));
    }
    let exchange = plan.contents.map(|contents| (contents.exchange(&mut session.random), contents.cut));
    let mut connection = Connection::new(session, CLIENT, plan.numbers);
    let first = exchange.as_ref().map_or(&[][..], |(exchange, _)| &exchange.request);
    if let Some(early) = connection.open(plan.opening, first) {
        if let Some((exchange, cut)) = &exchange {
            connection.exchange(&exchange.request[early..], &exchange.response, *cut);
        }
        // Other data behind messages of DNS would be another message.
        if plan.contents.is_none_or(|contents| contents.message != Message::Dns) {
            connection.transfer(CLIENT, 1);
            connection.transfer(SERVER, 2);
            if let Some(phase) = plan.phase {
                connection.phase(phase, side);
            }
            connection.transfer(CLIENT, 1);
        }
        connection.close(if plan.reuse == Reuse::WithoutClose { Close::Never } else { plan.close }, closer);
    }
    let (initial, next) = (connection.initial, connection.next);
    session.facts = exchange.map_or(Vec::new(), |(exchange, _)| exchange.facts);
    let refusals = if plan.reuse == Reuse::AfterRefusal { session.random.within(0, 1) } else { 0 };
    for nth in 0..if plan.reuse == Reuse::No { 0 } else { 1 + refusals } {
        session.wait(2 * SECOND);
        session.connection += 1;
        let opener = if plan.reuse == Reuse::Turned { SERVER } else { CLIENT };
        let ahead = session.random.within(1, 60_000) as u32;
        let mut connection = Connection::new(session, opener, plan.numbers);
        match plan.reuse {
            Reuse::Near if ahead.is_multiple_of(2) => {
                connection.initial =
                    [0, 1].map(|side| initial[side].wrapping_add(next[side] as u32 + ahead));
            }
            Reuse::Near => connection.initial = initial.map(|number| number.wrapping_sub(ahead)),
            Reuse::Same | Reuse::AfterRefusal => connection.initial = initial,
            _ => {}
        }
        let opening = if nth < refusals { plan.opening } else { Opening::Plain };
        if connection.open(opening, &[]).is_some() {
            connection.transfer(CLIENT, 1);
            connection.transfer(SERVER, 1);
            connection.close(Close::Fins, CLIENT);
        }
    }
}

/// Returns what the tap captures, in the order of time.
fn merged<'a>(sessions: &'a [Session], plan: &Plan, random: &mut Random) -> Vec<&'a Sent> {
    let mut captured = Vec::new();
    for session in sessions {
        let gap =
            session.sent.iter().position(|sent| sent.side == SERVER && sent.datagram.payload_bytes > 1);
        let is_reset = |sent: &Sent| {
            sent.segment.is_some_and(|segment| segment.flags & RST != 0 && segment.role == Role::First)
        };
        let reset = (plan.view == View::FromReset && random.chance(50))
            .then(|| session.sent.iter().position(is_reset).unwrap_or(0));
        for (at, sent) in session.sent.iter().enumerate() {
            let is_missed = session.number == 0
                && match plan.view {
                    View::Whole | View::Losses => false,
                    View::WithoutFirst => at == 0,
                    View::MidStream => at < 4,
                    View::Gap => gap == Some(at),
                    View::FromReset => reset.is_some_and(|reset| at < reset),
                    View::Without(side) => sent.side == side,
                };
            let is_lost = plan.view == View::Losses && random.chance(12);
            if !is_missed && !is_lost {
                captured.push(sent);
            }
        }
    }
    captured.sort_by_key(|sent| sent.time_ns);
    captured
}

/// Returns the frames of datagrams, with the copies of the mirror and the times of the clock.
fn frames<'a>(sent: &[&'a Sent], plan: &Plan) -> Vec<Captured<'a>> {
    let mut captured = Vec::new();
    for (nth, &sent) in sent.iter().enumerate() {
        const MANY: [&[u16]; 6] = [&[50], &[], &[50, 60], &[51], &[52], &[53]];
        let mut framing = framing(plan, sent.session);
        if plan.has_many_vlans {
            framing.vlans[CLIENT] = MANY[nth % 6];
        }
        let frames = framing.frames(sent.side, &sent.datagram);
        for (at, frame) in frames.into_iter().enumerate() {
            let tick_ns = if plan.is_coarse { MILLISECOND } else { 1 };
            let cut = |time_ns: u64| time_ns / tick_ns * tick_ns;
            let real_ns = sent.time_ns + at as u64 * FRAGMENT_NS;
            let (time_ns, has_header) = (cut(real_ns), at == 0);
            let one = Captured { sent, frame, time_ns, step_ns: 0, has_header, is_copy: false };
            if plan.is_mirrored {
                captured.push(Captured { time_ns: cut(real_ns + COPY_NS), is_copy: true, ..one.clone() });
            }
            captured.push(one);
        }
    }
    captured.sort_by_key(|captured| captured.time_ns);
    let half = captured.len() / 2;
    captured[half..].iter_mut().for_each(|captured| captured.step_ns = plan.step_ns);
    captured
}
