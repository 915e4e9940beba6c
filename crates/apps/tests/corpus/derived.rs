//! Columns that follow from the packets of a flow, by their documented definitions.

use std::net::IpAddr;

use serde_json::{Value as Json, json};
use sha1::{Digest as _, Sha1};

use crate::judge::{begins, has, has_conn, number};
use crate::zeek;

pub(crate) const FIN: u64 = 1;
pub(crate) const SYN: u64 = 2;
pub(crate) const RST: u64 = 4;
pub(crate) const ACK: u64 = 16;
/// Names of flags, FIN first.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
const SECOND: u64 = 1_000_000_000;

/// The length that the header of a malformed segment states.
const MALFORMED_BYTES: u64 = 60;

/// A datagram of a flow.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) stamp_ns: u64,
    /// 0 if it comes from the source.
    pub(crate) way: usize,
    wire_bytes: u64,
    ip_bytes: u64,
    header_bytes: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) flags: u64,
    pub(crate) window: u64,
    pub(crate) sequence: i64,
    pub(crate) acknowledged: i64,
}

impl Packet {
    fn of(row: &Json, source_side: u64) -> Self {
        let number = |at: usize| row[at].as_u64().unwrap_or_default();
        let signed = |at: usize| row[at].as_i64().unwrap_or_default();
        Self {
            stamp_ns: number(0),
            way: usize::from(number(1) != source_side),
            wire_bytes: number(2),
            ip_bytes: number(3),
            header_bytes: number(4),
            payload_bytes: number(5),
            // A header that is longer than its packet has no flags.
            flags: if number(4) == MALFORMED_BYTES { 0 } else { number(6) },
            window: number(7),
            sequence: signed(8),
            // Without ACK it acknowledges nothing.
            acknowledged: if number(6) & ACK == 0 { -1 } else { signed(9) },
        }
    }

    pub(crate) fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }

    /// The number after the segment.
    pub(crate) fn end(&self) -> i64 {
        let controls = i64::from(self.has(SYN)) + i64::from(self.has(FIN));
        self.sequence + self.payload_bytes.cast_signed() + controls
    }
}

/// Statistics of numbers.
struct Statistics {
    least: u64,
    largest: u64,
    sum: u64,
    count: u64,
    /// The sum of the squared distances from the mean, times the count.
    spread: u128,
}

impl Statistics {
    fn of(numbers: &[u64]) -> Self {
        let count = numbers.len() as u128;
        let (sum, squares) = numbers
            .iter()
            .map(|&number| u128::from(number))
            .fold((0, 0), |(sum, squares), number| (sum + number, squares + number * number));
        Self {
            least: numbers.iter().copied().min().unwrap_or(0),
            largest: numbers.iter().copied().max().unwrap_or(0),
            sum: u64::try_from(sum).unwrap(),
            count: numbers.len() as u64,
            spread: count * squares - sum * sum,
        }
    }

    fn mean(&self) -> f64 {
        ratio(self.sum, self.count)
    }

    fn variance(&self) -> f64 {
        self.spread as f64 / (self.count * self.count).max(1) as f64
    }

    fn sample_deviation(&self) -> f64 {
        (self.spread as f64 / (self.count * self.count.saturating_sub(1)).max(1) as f64).sqrt()
    }

    /// Minimum, mean, maximum and deviation, rounded down.
    fn rounded(&self) -> [Json; 4] {
        if self.count == 0 {
            return [const { Json::Null }; 4];
        }
        let count = u128::from(self.count);
        let deviation = u64::try_from((self.spread / (count * count)).isqrt()).unwrap();
        [self.least.into(), (self.sum / self.count).into(), self.largest.into(), deviation.into()]
    }
}

fn ratio(sum: u64, divisor: u64) -> f64 {
    if divisor == 0 { 0.0 } else { sum as f64 / divisor as f64 }
}

/// Returns the columns that the packets of a flow determine.
pub(crate) fn columns(scenario: &Json, flow: &Json, is_first_client: bool) -> Vec<(String, Json)> {
    let rows = flow["packets"].as_array().unwrap();
    let packets: Vec<Packet> =
        rows.iter().map(|row| Packet::of(row, u64::from(!is_first_client))).collect();
    let sides =
        [0, 1].map(|way| packets.iter().copied().filter(|packet| packet.way == way).collect::<Vec<_>>());
    let mut out: Vec<(String, Json)> = Vec::new();
    let mut latest_ns = 0;
    let times_back = packets.iter().filter(|packet| {
        let is_back = packet.stamp_ns < latest_ns;
        latest_ns = latest_ns.max(packet.stamp_ns);
        is_back
    });
    out.push(("times_back".into(), times_back.count().into()));
    let sizes = sides.each_ref().map(|side| Statistics::of(&of(side, |packet| packet.ip_bytes)));
    let gaps =
        sides.each_ref().map(|side| Statistics::of(&ordered_gaps(&of(side, |packet| packet.stamp_ns))));
    let mut columns = vec![("size", sizes), ("gap", gaps)];
    if flow["protocol"] == 6 {
        columns.push(("rtt", round_trips(&packets).map(|times| Statistics::of(&times))));
    }
    for (name, statistics) in columns {
        for (prefix, statistics) in ["", "reverse_"].into_iter().zip(statistics) {
            for (what, value) in ["min", "mean", "max", "deviation"].into_iter().zip(statistics.rounded()) {
                out.push((format!("{prefix}{name}_{what}"), value));
            }
        }
    }
    let signed = |packet: &Packet| format!("{}{}", if packet.way == 0 { "" } else { "-" }, packet.ip_bytes);
    let first: Vec<String> = packets.iter().take(20).map(signed).collect();
    out.push(("first_sizes".into(), first.join(" ").into()));
    out.push(("community_id".into(), community_id(flow).into()));
    features(scenario, flow, &packets, &sides, &mut out);
    tcp(scenario, flow, &packets, &mut out);
    if has_conn(scenario) {
        zeek::conn(scenario, flow, &packets, &mut out);
    }
    out
}

fn of(packets: &[Packet], what: fn(&Packet) -> u64) -> Vec<u64> {
    packets.iter().map(what).collect()
}

/// Returns the times between packets in the order of their stamps. A packet that is stamped before
/// the two latest ones is left out.
fn ordered_gaps(stamps: &[u64]) -> Vec<u64> {
    let mut ordered: Vec<u64> = Vec::new();
    for &stamp_ns in stamps {
        match *ordered {
            [.., before, last] if stamp_ns < last && stamp_ns < before => {}
            [.., last] if stamp_ns < last => ordered.insert(ordered.len() - 1, stamp_ns),
            _ => ordered.push(stamp_ns),
        }
    }
    ordered.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Returns the times between packets in the order of the capture; 0 where a stamp goes back.
fn gaps(packets: &[Packet]) -> Vec<u64> {
    let mut latest_ns = packets.first().map_or(0, |packet| packet.stamp_ns);
    let gap = |packet: &Packet| {
        let gap_ns = packet.stamp_ns.saturating_sub(latest_ns);
        latest_ns = latest_ns.max(packet.stamp_ns);
        gap_ns
    };
    packets.iter().skip(1).map(gap).collect()
}

/// Returns the times from data to its acknowledgement: one segment is timed at a time, and none
/// that was sent again.
fn round_trips(packets: &[Packet]) -> [Vec<u64>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    let (mut highest, mut timed) = ([i64::MIN; 2], [None::<(i64, u64)>; 2]);
    for packet in packets.iter().filter(|packet| !packet.has(RST)) {
        let (way, other) = (packet.way, 1 - packet.way);
        if let Some((end, sent_ns)) =
            timed[other].filter(|(end, _)| packet.has(ACK) && packet.acknowledged >= *end)
        {
            times[other].extend((packet.stamp_ns >= sent_ns).then(|| packet.stamp_ns - sent_ns));
            debug_assert!(packet.acknowledged >= end);
            timed[other] = None;
        }
        let begin = packet.sequence + i64::from(packet.has(SYN));
        let end = begin + packet.payload_bytes.cast_signed();
        if packet.payload_bytes > 0 {
            if begin >= highest[way] {
                timed[way].get_or_insert((end, packet.stamp_ns));
            } else if timed[way].is_some_and(|(end, _)| begin < end) {
                timed[way] = None;
            }
            highest[way] = highest[way].max(end);
        }
    }
    times
}

/// Returns the Community ID, version 1 with seed 0.
fn community_id(flow: &Json) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let end = |side: &Json| {
        let address: IpAddr = side["address"].as_str().unwrap().parse().unwrap();
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        (octets, number(side, "port"))
    };
    let mut ends = ["client", "server"].map(|side| end(&flow[side]));
    let mut is_one_way = false;
    if let Some(kind) = flow["icmp_type"].as_u64() {
        if flow["first_sender"] == "server" {
            ends.swap(0, 1);
        }
        let answer = [(8, 0), (0, 8), (128, 129), (129, 128)].into_iter().find(|(one, _)| *one == kind);
        is_one_way = answer.is_none();
        (ends[0].1, ends[1].1) = answer.unwrap_or((kind, number(flow, "icmp_code")));
    }
    if !is_one_way {
        ends.sort();
    }
    let protocol = u8::try_from(number(flow, "protocol")).unwrap();
    let ports: Vec<u8> =
        ends.iter().flat_map(|(_, port)| u16::try_from(*port).unwrap().to_be_bytes()).collect();
    let digest = Sha1::digest([&[0, 0][..], &ends[0].0, &ends[1].0, &[protocol, 0], &ports].concat());
    let mut text = String::from("1:");
    for group in digest.chunks(3) {
        let word =
            group.iter().chain([&0; 2]).take(3).fold(0_usize, |word, byte| word << 8 | usize::from(*byte));
        let digits = (0..=group.len()).map(|at| char::from(DIGITS[word >> (18 - 6 * at) & 63]));
        text.extend(digits);
    }
    text + "="
}

/// Returns a time in UTC [Hinnant, `civil_from_days`].
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Adds the columns of `cicflowmeter`, and those of `NFStream`.
fn features(
    scenario: &Json,
    flow: &Json,
    packets: &[Packet],
    sides: &[Vec<Packet>; 2],
    out: &mut Vec<(String, Json)>,
) {
    let all = packets.to_vec();
    let groups = [&all, &sides[0], &sides[1]];
    let times = groups.map(|packets| {
        let stamps = of(packets, |packet| packet.stamp_ns);
        (stamps.iter().copied().min().unwrap_or(0), stamps.into_iter().max().unwrap_or(0))
    });
    let sizes = groups.map(|packets| Statistics::of(&of(packets, |packet| packet.wire_bytes)));
    let between = groups.map(|packets| Statistics::of(&gaps(packets)));
    let duration_ns = times[0].1 - times[0].0;
    let per_second = |count: u64| ratio(count, duration_ns) * 1e9;
    let mut add = |name: &str, value: Json| out.push((name.to_owned(), value));
    add("timestamp", date(times[0].0 / SECOND).into());
    add("flow_duration", json!(duration_ns as f64 / 1e3));
    add("flow_byts_s", json!(per_second(sizes[0].sum)));
    for (name, at) in [("flow", 0), ("fwd", 1), ("bwd", 2)] {
        add(&format!("{name}_pkts_s"), json!(per_second(sizes[at].count)));
    }
    let clumps = gaps(&all).iter().filter(|gap_ns| **gap_ns > SECOND).count() as u64 + 1;
    let has_header = !has(scenario, "bad-offset");
    for (name, way) in [("fwd", 0), ("bwd", 1)] {
        let (side, sizes, between) = (&sides[way], &sizes[way + 1], &between[way + 1]);
        add(&format!("tot_{name}_pkts"), sizes.count.into());
        add(&format!("totlen_{name}_pkts"), sizes.sum.into());
        add(&format!("{name}_pkt_len_max"), sizes.largest.into());
        add(&format!("{name}_pkt_len_min"), sizes.least.into());
        add(&format!("{name}_pkt_len_mean"), json!(sizes.mean()));
        add(&format!("{name}_pkt_len_std"), json!(sizes.variance().sqrt()));
        add(&format!("{name}_seg_size_avg"), json!(sizes.mean()));
        for (what, ns) in [
            ("tot", between.sum as f64),
            ("max", between.largest as f64),
            ("min", between.least as f64),
            ("mean", between.mean()),
            ("std", between.variance().sqrt()),
        ] {
            add(&format!("{name}_iat_{what}"), json!(ns / 1e3));
        }
        for flag in [3, 5] {
            let count = side.iter().filter(|packet| packet.has(1 << flag)).count();
            add(&format!("{name}_{}_flags", FLAGS[flag]), count.into());
        }
        let window = side.first().map_or(0, |packet| packet.window);
        add(&format!("init_{name}_win_byts"), window.into());
        add(&format!("subflow_{name}_pkts"), json!(ratio(sizes.count, clumps)));
        add(&format!("subflow_{name}_byts"), json!(ratio(sizes.sum, clumps)));
        let bulks = bulks(flow, packets, way);
        let sum = |what: fn(&[u64; 3]) -> u64| bulks.iter().map(what).sum::<u64>();
        let count = bulks.len() as u64;
        add(&format!("{name}_byts_b_avg"), json!(ratio(sum(|bulk| bulk[1]), count)));
        add(&format!("{name}_pkts_b_avg"), json!(ratio(sum(|bulk| bulk[0]), count)));
        add(&format!("{name}_blk_rate_avg"), json!(ratio(sum(|bulk| bulk[1]), sum(|bulk| bulk[2])) * 1e9));
        if has_header {
            let headers = of(side, |packet| packet.header_bytes);
            add(&format!("{name}_header_len"), headers.iter().sum::<u64>().into());
        }
    }
    if has_header {
        let segments = of(&sides[0], |packet| packet.header_bytes + packet.payload_bytes);
        add("fwd_seg_size_min", segments.into_iter().min().unwrap_or(0).into());
    }
    let is_data = |packet: &&Packet| packet.payload_bytes > 0 && matches!(number(flow, "protocol"), 6 | 17);
    add("fwd_act_data_pkts", sides[0].iter().filter(is_data).count().into());
    add("pkt_len_max", sizes[0].largest.into());
    add("pkt_len_min", sizes[0].least.into());
    add("pkt_len_mean", json!(sizes[0].mean()));
    add("pkt_size_avg", json!(sizes[0].mean()));
    add("pkt_len_std", json!(sizes[0].variance().sqrt()));
    add("pkt_len_var", json!(sizes[0].variance()));
    add("flow_iat_mean", json!(between[0].mean() / 1e3));
    add("flow_iat_max", json!(between[0].largest as f64 / 1e3));
    add("flow_iat_min", json!(between[0].least as f64 / 1e3));
    add("flow_iat_std", json!(between[0].variance().sqrt() / 1e3));
    add("down_up_ratio", json!(ratio(sizes[2].count, sizes[1].count)));
    let (active, idle) = activities(&all);
    for (name, times) in [("active", active), ("idle", idle)] {
        let times = Statistics::of(&times);
        add(&format!("{name}_max"), json!(times.largest as f64 / 1e3));
        add(&format!("{name}_min"), json!(times.least as f64 / 1e3));
        add(&format!("{name}_mean"), json!(times.mean() / 1e3));
        add(&format!("{name}_std"), json!(times.variance().sqrt() / 1e3));
    }
    let shared = Shared { groups, times, sizes, between };
    nfstream(scenario, flow, &shared, out);
}

/// Packets of a flow and of each direction, and their statistics.
struct Shared<'a> {
    groups: [&'a Vec<Packet>; 3],
    times: [(u64, u64); 3],
    sizes: [Statistics; 3],
    between: [Statistics; 3],
}

/// Adds the columns of `NFStream`, and the counts of flags.
fn nfstream(scenario: &Json, flow: &Json, shared: &Shared<'_>, out: &mut Vec<(String, Json)>) {
    let Shared { groups, times, sizes, between } = shared;
    let mut add = |name: &str, value: Json| out.push((name.to_owned(), value));
    let is_v6 = flow["client"]["address"].as_str().unwrap().contains(':');
    add("ip_version", if is_v6 { 6 } else { 4 }.into());
    let first = if flow["first_sender"] == "client" { "client" } else { "server" };
    if !begins(scenario, "active-timeout") {
        add("vlan_id", flow[first]["vlan_stacks"][0].get(0).cloned().unwrap_or(0.into()));
    }
    for (at, name) in ["bidirectional", "src2dst", "dst2src"].into_iter().enumerate() {
        let (first_ms, last_ms) = (times[at].0 / 1_000_000, times[at].1 / 1_000_000);
        add(&format!("{name}_first_seen_ms"), first_ms.into());
        add(&format!("{name}_last_seen_ms"), last_ms.into());
        add(&format!("{name}_duration_ms"), (last_ms - first_ms).into());
        add(&format!("{name}_packets"), sizes[at].count.into());
        add(&format!("{name}_bytes"), sizes[at].sum.into());
        for (what, statistics, unit) in [("ps", &sizes[at], 1.0), ("piat_ms", &between[at], 1e6)] {
            add(&format!("{name}_min_{what}"), json!(statistics.least as f64 / unit));
            add(&format!("{name}_mean_{what}"), json!(statistics.mean() / unit));
            add(&format!("{name}_stddev_{what}"), json!(statistics.sample_deviation() / unit));
            add(&format!("{name}_max_{what}"), json!(statistics.largest as f64 / unit));
        }
        for (bit, flag) in FLAGS.into_iter().enumerate() {
            let count: Json = groups[at].iter().filter(|packet| packet.has(1 << bit)).count().into();
            add(&format!("{name}_{flag}_packets"), count.clone());
            if at == 0 {
                add(&format!("{flag}_flag_{}", if flag == "cwr" { "count" } else { "cnt" }), count);
            }
        }
    }
}

/// Returns the bulks of a side: at least four packets with data, none of the other side between
/// them, and no gap above a second. Each has packets, bytes and nanoseconds.
fn bulks(flow: &Json, packets: &[Packet], way: usize) -> Vec<[u64; 3]> {
    if !matches!(number(flow, "protocol"), 6 | 17) {
        return Vec::new();
    }
    let data: Vec<&Packet> = packets.iter().filter(|packet| packet.payload_bytes > 0).collect();
    let mut bulks = Vec::new();
    let (mut begin, mut latest_ns) = (0, 0);
    for at in 0..=data.len() {
        let is_same = at > begin
            && data.get(at).is_some_and(|next| {
                next.way == data[begin].way && next.stamp_ns.saturating_sub(latest_ns) <= SECOND
            });
        if at > begin && !is_same {
            let run = &data[begin..at];
            if run[0].way == way && run.len() >= 4 {
                let bytes = run.iter().map(|packet| packet.payload_bytes).sum();
                bulks.push([run.len() as u64, bytes, latest_ns.saturating_sub(run[0].stamp_ns)]);
            }
            begin = at;
            latest_ns = 0;
        }
        latest_ns = latest_ns.max(data.get(at).map_or(0, |packet| packet.stamp_ns));
    }
    bulks
}

/// Returns the times of activity before pauses of more than five seconds, and these pauses.
fn activities(packets: &[Packet]) -> (Vec<u64>, Vec<u64>) {
    let (mut active, mut idle) = (Vec::new(), Vec::new());
    let mut begin_ns = packets.first().map_or(0, |packet| packet.stamp_ns);
    let mut latest_ns = begin_ns;
    for packet in packets {
        let gap_ns = packet.stamp_ns.saturating_sub(latest_ns);
        if gap_ns > 5 * SECOND {
            active.extend((latest_ns > begin_ns).then(|| latest_ns - begin_ns));
            idle.push(gap_ns);
            begin_ns = packet.stamp_ns;
        }
        latest_ns = latest_ns.max(packet.stamp_ns);
    }
    (active, idle)
}

/// Adds columns of TCP that no answer states.
fn tcp(scenario: &Json, flow: &Json, packets: &[Packet], out: &mut Vec<(String, Json)>) {
    if flow["protocol"] != 6 {
        return;
    }
    let others = ["keep_alives", "zero_window_probes", "duplicates"];
    let has_others =
        ["client", "server"].iter().any(|side| others.iter().any(|name| flow[side][name] != 0));
    if !has_others {
        let mut duplicates = [0_u64; 2];
        // Next number, acknowledgement and window of each side.
        let mut last = [None::<(i64, i64, u64)>; 2];
        // A segment whose header is longer than its packet has no numbers.
        for packet in packets.iter().filter(|packet| packet.header_bytes + 20 <= packet.ip_bytes) {
            let side = &mut last[packet.way];
            let same = (packet.sequence, packet.acknowledged, packet.window);
            let is_plain = packet.payload_bytes == 0 && !packet.has(SYN | FIN | RST) && packet.window > 0;
            duplicates[packet.way] += u64::from(is_plain && *side == Some(same));
            let next = side.map_or(packet.end(), |(next, ..)| next.max(packet.end()));
            *side = Some((next, packet.acknowledged, packet.window));
        }
        if !has(scenario, "close-reset-outside") && !has(scenario, "open-blind-reset") {
            out.push(("duplicate_acks".into(), duplicates[0].into()));
            out.push(("reverse_duplicate_acks".into(), duplicates[1].into()));
        }
    }
    let is_divided =
        flow["end_reason"] == "active" || scenario["settings"]["active_timeout_s"] != Json::Null;
    if !is_divided {
        let open = [0, 1].map(|way| {
            let fin = packets
                .iter()
                .filter(|packet| packet.way == way && packet.flags & (FIN | RST) == FIN)
                .map(Packet::end)
                .max();
            // An RST takes nothing.
            let mut acks =
                packets.iter().filter(|packet| packet.way != way && packet.flags & (ACK | RST) == ACK);
            fin.is_some_and(|fin| acks.next_back().is_none_or(|packet| packet.acknowledged < fin))
        });
        let open = match open {
            [true, true] => "both".into(),
            [true, false] => "source".into(),
            [false, true] => "destination".into(),
            [false, false] => Json::Null,
        };
        out.push(("open_fin".into(), open));
    }
}
