//! The right records of a scenario: what a meter at the tap can know, from what was sent.

use std::fmt::Write;

use crate::contents;
use crate::frame::{Frame, TCP};
use crate::script::{Role, SECOND, SERVER, Segment, Sent, protocol_name};
use crate::tcp::{ACK, FIN, MALFORMED_BYTES, RST, SYN};

/// A flow ends if none of its packets passes the tap for longer than this.
pub(crate) const IDLE_TIMEOUT_S: u64 = 60;

/// The counts of one direction.
#[derive(Clone, Debug, Default)]
struct DirectionAnswers {
    packets: u64,
    wire_bytes: u64,
    ip_bytes: u64,
    payload_bytes: u64,
    /// The earliest and the latest stamp.
    times_ns: Option<(u64, u64)>,
    tcp_flags: u8,
    /// Segments with each flag, FIN first.
    flag_segments: [u64; 8],
    retransmissions_seen: u64,
    retransmissions_filling: u64,
    retransmissions_hidden: u64,
    duplicates: u64,
    reordered: u64,
    keep_alives: u64,
    zero_windows: u64,
    zero_window_probes: u64,
    /// The stacks of VLAN ids, in the order of their first frames.
    vlans: Vec<&'static [u16]>,
    /// The ranges of sequence numbers that have passed the tap.
    ranges: Vec<(u64, u64)>,
}

/// A time at the tap, and the step of its clock then.
type Stamp = (u64, i64);

/// Facts that all flows of a session share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// The values of the columns about contents, in the first flow.
    pub(crate) contents: &'a contents::Facts,
    /// The VLAN ids of frames from each side, outer first.
    pub(crate) vlans: [&'static [u16]; 2],
    /// The identifier of messages of ICMP.
    pub(crate) icmp: Option<u16>,
}

/// The right record of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow<'a> {
    sent: Sent,
    facts: Facts<'a>,
    has_contents: bool,
    first_side: usize,
    begun_ns: u64,
    start_ns: u64,
    end_ns: u64,
    last_ns: u64,
    opening_captured: bool,
    /// The datagrams whose transport header is in the flow.
    packets: Vec<String>,
    /// The side whose SYN passed the tap first.
    opener: Option<usize>,
    has_no_handshake: bool,
    syn: Option<Stamp>,
    answer: Option<Stamp>,
    ack: Option<Stamp>,
    fins: [bool; 2],
    end_reason: &'static str,
    sides: [DirectionAnswers; 2],
}

impl<'a> Flow<'a> {
    fn new(sent: &Sent, facts: Facts<'a>, stamp_ns: u64) -> Self {
        Self {
            sent: sent.clone(),
            facts,
            has_contents: false,
            first_side: sent.side,
            begun_ns: sent.time_ns,
            start_ns: stamp_ns,
            end_ns: stamp_ns,
            last_ns: sent.time_ns,
            opening_captured: false,
            packets: Vec::new(),
            opener: None,
            has_no_handshake: false,
            syn: None,
            answer: None,
            ack: None,
            fins: [false; 2],
            end_reason: "end",
            sides: <[DirectionAnswers; 2]>::default(),
        }
    }

    fn end(&mut self, reason: &'static str) {
        if self.end_reason == "end" {
            self.end_reason = reason;
        }
    }

    fn segment(&mut self, side: usize, segment: Segment, at: Stamp, is_copy: bool) {
        let Segment { flags, range, role, window, .. } = segment;
        if flags & RST != 0 && role != Role::Stray && !is_copy {
            self.end("reset");
        }
        let counts = &mut self.sides[side];
        counts.tcp_flags |= flags;
        for (bit, segments) in counts.flag_segments.iter_mut().enumerate() {
            *segments += u64::from(flags >> bit & 1);
        }
        counts.zero_windows += u64::from(window == 0 && flags & (SYN | FIN | RST) == 0);
        self.opening_captured |= flags & SYN != 0;
        // An answer that another one replaces.
        self.has_no_handshake |= flags & SYN != 0 && role == Role::Stray;
        if is_copy || matches!(role, Role::Stray | Role::Malformed) {
            return;
        }
        let is_behind = counts.ranges.iter().any(|&(_, end)| end > range.0);
        match role {
            Role::KeepAlive => counts.keep_alives += 1,
            Role::WindowProbe => counts.zero_window_probes += 1,
            Role::Again if counts.ranges.contains(&range) => counts.retransmissions_seen += 1,
            Role::Again if is_behind => counts.retransmissions_filling += 1,
            Role::Again => counts.retransmissions_hidden += 1,
            Role::Stray | Role::Malformed => {}
            Role::First => counts.reordered += u64::from(range.0 != range.1 && is_behind),
        }
        if range.0 != range.1 && matches!(role, Role::First | Role::Again) {
            counts.ranges.push(range);
        }
        // An RST counts as nothing else [RFC 9293 §3.10.7.4].
        self.fins[side] |= flags & (FIN | RST) == FIN;
        if self.fins == [true; 2] && matches!(self.end_reason, "end" | "reset") {
            self.end_reason = "fin";
        }
        let is_opener = side == self.sent.opener;
        match flags & (SYN | ACK) {
            SYN if !is_opener => self.has_no_handshake = true,
            SYN if self.answer.is_none() => self.syn = Some(at),
            both if both == SYN | ACK && !is_opener => self.answer = self.answer.or(Some(at)),
            // A FIN acknowledges too, if the ACK before it did not pass.
            ACK if is_opener && flags & RST == 0 && self.answer.is_some() => {
                self.ack = self.ack.or(Some(at));
            }
            _ => {}
        }
        if flags & (SYN | ACK) == SYN {
            self.opener = self.opener.or(Some(side));
        }
    }

    fn key(&self) -> (u8, [(String, u16); 2]) {
        let Sent { datagram, side, .. } = &self.sent;
        let addresses = [datagram.source.to_string(), datagram.destination.to_string()];
        let ports = |at: usize| u16::from_be_bytes([datagram.body[at], datagram.body[at + 1]]);
        let ports = if self.facts.icmp.is_some() { [0, 0] } else { [ports(0), ports(2)] };
        let [a, b] = addresses;
        let mut ends = [(a, ports[0]), (b, ports[1])];
        if *side == SERVER {
            ends.swap(0, 1);
        }
        (datagram.protocol, ends)
    }

    fn json(&self, out: &mut String) -> std::fmt::Result {
        let (protocol, ends) = self.key();
        let name = protocol_name(protocol);
        write!(out, "    {{\n      \"protocol\": {protocol}, \"protocol_name\": \"{name}\"")?;
        if let Some(identifier) = self.facts.icmp {
            let [kind, code] = [self.sent.datagram.body[0], self.sent.datagram.body[1]];
            write!(
                out,
                ", \"icmp_type\": {kind}, \"icmp_code\": {code}, \"icmp_identifier\": {identifier}"
            )?;
        }
        let sides = ["client", "server"];
        write!(out, ",\n      \"start_ns\": {}, \"end_ns\": {}", self.start_ns, self.end_ns)?;
        write!(out, ", \"end_reason\": \"{}\"", self.end_reason)?;
        write!(out, ",\n      \"initiator\": \"{}\"", sides[self.opener.unwrap_or(self.sent.opener)])?;
        write!(out, ", \"first_sender\": \"{}\"", sides[self.first_side])?;
        write!(out, ", \"opening_captured\": {}", self.opening_captured)?;
        write!(out, ", \"syn_captured\": {}", self.opener.is_some())?;
        if protocol == TCP && !self.has_no_handshake {
            let difference = |from: Option<Stamp>, to: Option<Stamp>| match (from, to) {
                (Some(from), Some(to)) if from.1 == to.1 => Some((to.0 - from.0).to_string()),
                (Some(_), Some(_)) => None,
                _ => Some(String::from("null")),
            };
            if let (Some(answer), Some(ack)) =
                (difference(self.syn, self.answer), difference(self.answer, self.ack))
            {
                let ack = if self.syn.is_some() { ack } else { String::from("null") };
                write!(out, ",\n      \"handshake_answer_ns\": {answer}, \"handshake_ack_ns\": {ack}")?;
            }
        }
        if self.has_contents {
            let values: Vec<String> = self
                .facts
                .contents
                .iter()
                .map(|(name, value)| {
                    let text = value.as_deref().map_or_else(|| String::from("null"), json_text);
                    format!("\"{name}\": {text}")
                })
                .collect();
            write!(out, ",\n      \"contents\": {{ {} }}", values.join(", "))?;
        }
        for (at, side) in self.sides.iter().enumerate() {
            let (address, port) = &ends[at];
            write!(out, ",\n      \"{}\": {{ \"address\": \"{address}\", \"port\": {port}", sides[at])?;
            write!(out, ", \"vlans\": {:?}, \"vlan_stacks\": {:?}", self.facts.vlans[at], side.vlans)?;
            let [start, end] = side.times_ns.map_or([None; 2], |(start, end)| [Some(start), Some(end)]);
            for (name, time) in [("start_ns", start), ("end_ns", end)] {
                let time = time.map_or_else(|| String::from("null"), |time: u64| time.to_string());
                write!(out, ", \"{name}\": {time}")?;
            }
            if protocol == TCP {
                write!(out, ", \"flag_segments\": {:?}", side.flag_segments)?;
            }
            let of_tcp: &[(&str, u64)] = &[
                ("tcp_flags", side.tcp_flags.into()),
                ("retransmissions_seen", side.retransmissions_seen),
                ("retransmissions_filling", side.retransmissions_filling),
                ("retransmissions_hidden", side.retransmissions_hidden),
                ("reordered", side.reordered),
                ("keep_alives", side.keep_alives),
                ("zero_windows", side.zero_windows),
                ("zero_window_probes", side.zero_window_probes),
            ];
            let counts = [
                ("packets", side.packets),
                ("wire_bytes", side.wire_bytes),
                ("ip_bytes", side.ip_bytes),
                ("payload_bytes", side.payload_bytes),
                ("duplicates", side.duplicates),
            ];
            for (name, count) in counts.iter().chain(if protocol == TCP { of_tcp } else { &[] }) {
                write!(out, ", \"{name}\": {count}")?;
            }
            out.push_str(" }");
        }
        write!(
            out,
            ",\n      \"packets\": [\n        {}\n      ]\n    }}",
            self.packets.join(",\n        ")
        )
    }
}

/// A frame that the tap has captured, with its meaning.
#[derive(Clone, Debug)]
pub(crate) struct Captured<'a> {
    pub(crate) sent: &'a Sent,
    pub(crate) frame: Frame,
    /// The time at the tap, by a right clock.
    pub(crate) time_ns: u64,
    /// What the clock of the tap adds to it.
    pub(crate) step_ns: i64,
    /// It is the first frame of its datagram, which has the transport header.
    pub(crate) has_header: bool,
    /// It is a copy that the mirror has added.
    pub(crate) is_copy: bool,
}

impl Captured<'_> {
    /// Returns the elements of `packets`.
    fn json(&self, stamp_ns: u64) -> String {
        let Self { sent, frame, .. } = self;
        let is_malformed = sent.segment.is_some_and(|segment| segment.role == Role::Malformed);
        let header_bytes = if is_malformed {
            MALFORMED_BYTES
        } else {
            sent.datagram.body.len() - sent.datagram.payload_bytes
        };
        let [wire, ip, payload] = [frame.bytes.len(), frame.ip_bytes, frame.payload_bytes];
        let of_tcp = sent.segment.map_or_else(String::new, |segment| {
            let Segment { flags, range: (sequence, _), acknowledged, window, .. } = segment;
            format!(", {flags}, {window}, {}, {acknowledged}", sequence.cast_signed())
        });
        format!("[{stamp_ns}, {}, {wire}, {ip}, {header_bytes}, {payload}{of_tcp}]", sent.side)
    }

    pub(crate) fn stamp_ns(&self) -> u64 {
        self.time_ns.saturating_add_signed(self.step_ns)
    }
}

/// Returns a text as JSON.
fn json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\"))
}

/// All flows of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Answers<'a> {
    flows: Vec<Flow<'a>>,
    active_s: Option<u64>,
}

impl<'a> Answers<'a> {
    /// Returns the answers before the first frame. Records last `active_s` seconds at most.
    pub(crate) fn new(active_s: Option<u64>) -> Self {
        Self { flows: Vec::new(), active_s }
    }

    /// Adds the next frame at the tap.
    pub(crate) fn add(&mut self, captured: &Captured<'_>, facts: Facts<'a>) {
        let Captured { sent, frame, is_copy, .. } = captured;
        let (stamp_ns, at) = (captured.stamp_ns(), (captured.time_ns, captured.step_ns));
        let known = self.flows.iter().rposition(|flow| flow.sent.session == sent.session);
        let ended = known.map(|at| {
            let flow = &self.flows[at];
            let is_idle = captured.time_ns - flow.last_ns > IDLE_TIMEOUT_S * SECOND;
            let is_other = flow.sent.connection != sent.connection;
            let age_ns = captured.time_ns - flow.begun_ns;
            let is_old = self.active_s.is_some_and(|seconds| age_ns >= seconds * SECOND);
            let reasons = [(is_idle, "idle"), (is_other, "new_connection"), (is_old, "active")];
            (at, reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason)))
        });
        let index = if let Some((index, None)) = ended {
            index
        } else {
            if let Some((index, Some(reason))) = ended {
                self.flows[index].end(reason);
            }
            let mut flow = Flow::new(sent, facts, stamp_ns);
            flow.has_contents = known.is_none() && !facts.contents.is_empty();
            flow.begun_ns = captured.time_ns;
            if let Some((index, Some("active"))) = ended {
                // The connection goes on.
                let before = &self.flows[index];
                flow.first_side = before.first_side;
                (flow.opener, flow.opening_captured, flow.fins) =
                    (before.opener, before.opening_captured, before.fins);
                if before.end_reason != "active" {
                    flow.end_reason = before.end_reason;
                }
            }
            self.flows.push(flow);
            self.flows.len() - 1
        };
        let flow = &mut self.flows[index];
        flow.start_ns = flow.start_ns.min(stamp_ns);
        flow.end_ns = flow.end_ns.max(stamp_ns);
        flow.last_ns = captured.time_ns;
        let side = &mut flow.sides[sent.side];
        let (first_ns, last_ns) = side.times_ns.unwrap_or((stamp_ns, stamp_ns));
        side.times_ns = Some((first_ns.min(stamp_ns), last_ns.max(stamp_ns)));
        side.packets += 1;
        side.wire_bytes += frame.bytes.len() as u64;
        side.ip_bytes += frame.ip_bytes as u64;
        side.payload_bytes += frame.payload_bytes as u64;
        side.duplicates += u64::from(*is_copy);
        if !side.vlans.contains(&frame.vlans) {
            side.vlans.push(frame.vlans);
        }
        if captured.has_header {
            flow.packets.push(captured.json(stamp_ns));
        }
        if let Some(segment) = sent.segment.filter(|_| captured.has_header) {
            flow.segment(sent.side, segment, at, *is_copy);
        }
    }

    /// Returns the flows as elements of a JSON array. The last packet of the capture is at
    /// `end_ns`.
    pub(crate) fn json(mut self, end_ns: u64) -> String {
        for flow in &mut self.flows {
            if end_ns - flow.last_ns > IDLE_TIMEOUT_S * SECOND {
                flow.end("idle");
            }
        }
        let mut out = String::new();
        for (at, flow) in self.flows.iter().enumerate() {
            out.push_str(if at > 0 { ",\n" } else { "" });
            flow.json(&mut out).expect("writing to a string does not fail");
        }
        out
    }
}
