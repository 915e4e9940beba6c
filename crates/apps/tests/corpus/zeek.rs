//! State, history and bytes of connections, by the rules of Zeek's `conn.log`.

use serde_json::Value as Json;

use crate::derived::{ACK, FIN, Packet, RST, SYN};
use crate::judge::{begins, has, number};

/// Ports of servers in scenarios.
const SERVERS: [u64; 8] = [21, 53, 80, 443, 6669, 8000, 8080, 25_565];

/// Adds state, history and bytes in Zeek's terms of flows whose beginning was captured whole.
pub(crate) fn conn(scenario: &Json, flow: &Json, packets: &[Packet], out: &mut Vec<(String, Json)>) {
    let is_unclear = scenario["dimensions"].as_array().unwrap().iter().any(|name| {
        let name = name.as_str().unwrap();
        ["ack-unsent", "open-simultaneous", "snap-length"].contains(&name)
    });
    // Zeek believes the numbers of RSTs.
    let has_odd_numbers =
        ["open-blind-reset", "open-scan", "reuse-after-scan", "close-reset-outside", "close-reset-at-edge"]
            .iter()
            .any(|name| has(scenario, name));
    let bytes = |way: usize| packets.iter().filter(move |packet| packet.way == way);
    let seen = [0, 1].map(|way| bytes(way).next().is_some());
    if flow["protocol"] != 6 {
        let is_udp = flow["protocol"] == 17;
        let state = match seen {
            _ if !is_udp => "OTH",
            [true, true] => "SF",
            _ => "S0",
        };
        out.push(("conn_state".into(), state.into()));
        let history = if seen[1] { "Dd" } else { "D" };
        out.push(("conn_history".into(), if is_udp { history.into() } else { Json::Null }));
        let has_bytes = flow["protocol"] != 132;
        for (way, name) in ["conn_bytes", "reverse_conn_bytes"].into_iter().enumerate() {
            let sum: u64 = bytes(way).map(|packet| packet.payload_bytes).sum();
            out.push((name.into(), if has_bytes { sum } else { 0 }.into()));
        }
        out.push(("conn_originator".into(), "source".into()));
        return;
    }
    if ["tap-without-first", "tap-mid-stream", "tap-known"].iter().any(|begin| begins(scenario, begin)) {
        out.extend(originator(flow, packets).map(|word| ("conn_originator".into(), word.into())));
    }
    let is_swapped = has(scenario, "open-swapped");
    // A port of servers decides about the roles before the SYN comes.
    let is_unclear = is_unclear || is_swapped && SERVERS.contains(&number(&flow["server"], "port"));
    if is_unclear || !packets.iter().take(2).any(|packet| packet.flags & (SYN | ACK) == SYN) {
        return;
    }
    let mut history = History::default();
    for packet in packets {
        history.add(packet);
    }
    let first =
        |way: usize, flag: u64| packets.iter().position(|packet| packet.way == way && packet.has(flag));
    let answered = first(1, SYN).is_some();
    let fin = |way: usize| {
        packets.iter().position(|packet| packet.way == way && packet.flags & (FIN | RST) == FIN)
    };
    let closed = fin(0).is_some() && fin(1).is_some();
    let state = match (first(0, RST), first(1, RST)) {
        _ if closed => "SF",
        (None, Some(_)) if !answered => "REJ",
        (None, Some(_)) => "RSTR",
        (Some(_), _) => "RSTO",
        _ if first(0, FIN).is_some() => "S2",
        _ if first(1, FIN).is_some() => "S3",
        _ if answered => "S1",
        _ => "S0",
    };
    if !is_swapped {
        out.push(("conn_history".into(), history.text.into()));
    }
    if has_odd_numbers {
        return;
    }
    out.push(("conn_state".into(), state.into()));
    for (way, name) in ["conn_bytes", "reverse_conn_bytes"].into_iter().enumerate() {
        let end = bytes(way).map(Packet::end).max().unwrap_or(0);
        let acked = bytes(1 - way).filter(|packet| packet.has(ACK)).map(|packet| packet.acknowledged).max();
        let controls = 1 + i64::from(first(way, FIN).is_some());
        let count = (end.max(acked.unwrap_or(0)) - controls).max(0);
        out.push((name.into(), count.into()));
    }
    out.push(("conn_originator".into(), "source".into()));
    out.push(("conn_missed_bytes".into(), history.missed.into()));
}

/// Returns the originator of a connection whose first packet has no SYN alone: the other end, if
/// the packet comes from a port of servers and does not go to one, or goes to a higher one.
fn originator(flow: &Json, packets: &[Packet]) -> Option<&'static str> {
    let first = packets.first().filter(|packet| packet.flags & (SYN | ACK) != SYN)?;
    let sides = ["client", "server"];
    let sender = usize::try_from(flow["packets"][0][1].as_u64()?).unwrap();
    let [from, to] = [sides[sender], sides[1 - sender]].map(|side| number(&flow[side], "port"));
    let is_server = |port: u64| SERVERS.contains(&port);
    let is_answer = is_server(from) && (!is_server(to) || (!first.has(SYN) && from < to));
    Some(if (first.way == 0) == is_answer { "destination" } else { "source" })
}

/// The letters of a connection whose packets were all captured.
#[derive(Default)]
struct History {
    text: String,
    /// Letters and numbers of those that occurred, by side.
    seen: Vec<(usize, char, i64)>,
    counts: [[u64; 3]; 2],
    highest: [i64; 2],
    closed: [bool; 2],
    is_reset: [bool; 2],
    is_open: [bool; 2],
    /// What was captured in sequence of each side, or is missed, and the data behind it.
    received: [i64; 2],
    waiting: [Vec<(i64, i64)>; 2],
    missed: u64,
}

impl History {
    fn push(&mut self, way: usize, letter: char) {
        match self.text.len() {
            0..31 => self.text.push(if way == 0 { letter } else { letter.to_ascii_lowercase() }),
            31 => self.text.push('x'),
            _ => {}
        }
    }

    fn count(&mut self, way: usize, what: usize) {
        let count = &mut self.counts[way][what];
        *count += 1;
        if [1, 10, 100, 1000].contains(count) {
            self.push(way, ['W', 'T', 'G'][what]);
        }
    }

    fn add(&mut self, packet: &Packet) {
        let way = packet.way;
        let (letter, at) = match packet.flags & (SYN | FIN | RST) {
            // Zeek counts from the last SYN.
            SYN if packet.has(ACK) => ('H', 0),
            SYN => ('S', 0),
            FIN => ('F', packet.end()),
            RST => ('R', packet.sequence),
            both if both == FIN | RST => ('I', 0),
            _ if packet.payload_bytes > 0 => ('D', 0),
            _ => ('A', 0),
        };
        if !self.seen.contains(&(way, letter, at)) {
            self.seen.push((way, letter, at));
            self.push(way, letter);
        }
        if packet.has(SYN) {
            // Zeek counts the data of a SYN as sent again.
            self.highest[way] = packet.end();
        }
        let is_over = self.closed[1 - way] || self.is_reset[way];
        if packet.window == 0 && !packet.has(RST) && !is_over {
            self.count(way, 0);
        }
        if packet.payload_bytes > 0 && packet.end() <= self.highest[way] && !self.is_reset[way] {
            self.count(way, 1);
        }
        self.highest[way] = self.highest[way].max(packet.end());
        self.is_open[way] |= packet.has(SYN);
        self.closed[way] |= packet.has(FIN);
        self.is_reset[way] |= packet.has(RST);
        if packet.payload_bytes > 0 {
            let begin = packet.sequence + i64::from(packet.has(SYN));
            self.waiting[way].push((begin, begin + packet.payload_bytes.cast_signed()));
        }
        self.miss(1 - way, packet);
    }

    /// Counts what a side has sent, an acknowledgement covers, and the tap has missed.
    fn miss(&mut self, of: usize, packet: &Packet) {
        let received = &mut self.received[of];
        *received = (*received).max(1);
        self.waiting[of].sort_unstable();
        for (begin, end) in std::mem::take(&mut self.waiting[of]) {
            if begin > *received {
                self.waiting[of].push((begin, end));
            } else {
                *received = (*received).max(end);
            }
        }
        let fin = i64::from(self.closed[of] && packet.acknowledged >= self.highest[of]);
        let up_to = packet.acknowledged - fin;
        let gap_end = self.waiting[of].first().map_or(up_to, |(begin, _)| up_to.min(*begin));
        if packet.has(ACK) && gap_end > *received && *received < up_to {
            let missed = (gap_end - std::mem::replace(received, gap_end)).cast_unsigned();
            // Only of an open connection.
            if self.is_open == [true; 2] && self.is_reset == [false; 2] {
                self.missed += missed;
                self.count(of, 2);
            }
        }
    }
}
