//! The profile of a capture: sizes, layers, flows, concurrency, skew. `inspect` collects it packet
//! by packet.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use flowloom::flow_key::{Direction, FlowKey, IpFamily};
use flowloom::packet::clock::{ClockCounts, PacketClock};
use flowloom::packet::drop_reason::DropCounts;
use flowloom::packet::{DropReason, Headers, LinkType, RawPacket};

use crate::flow_name::name_of_key;

/// Number of first packets to remember for each reason.
const EXAMPLES: usize = 4;
/// Number of ranks over which the skew is fitted.
const RANKS_MAX: usize = 10_000;
/// Larger sizes are counted as this size.
const SIZE_MAX: usize = 65_536;

const NS_PER_SECOND: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3_600 * NS_PER_SECOND;
const DAY_NS: u64 = 24 * HOUR_NS;
/// 1990-01-01: no capture is older.
const OLDEST_NS: u64 = 7_305 * DAY_NS;

/// A packet whose time stamp is probably wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OddTime {
    /// The number of the packet, from 1.
    pub(crate) packet: u64,
    pub(crate) time_ns: u64,
    /// The time of the packet before it, if it is wrong relative to that.
    pub(crate) before_ns: Option<u64>,
    pub(crate) why: &'static str,
}

/// The period of a flow between two idle times.
#[derive(Clone, Copy, Debug)]
struct Stay {
    begin_ns: u64,
    last_ns: u64,
}

/// The data kept per flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    packets: u64,
    bytes: u64,
    stay: Stay,
    /// The direction of the first packet.
    first: Direction,
}

/// Counts of packets by their protocols.
#[derive(Clone, Copy, Debug, Default, schemars::JsonSchema, serde::Serialize)]
pub(crate) struct Layers {
    /// Packets with an IPv4 key.
    pub(crate) ipv4: u64,
    /// Packets with an IPv6 key.
    pub(crate) ipv6: u64,
    /// TCP.
    pub(crate) tcp: u64,
    /// UDP.
    pub(crate) udp: u64,
    /// SCTP.
    pub(crate) sctp: u64,
    /// ICMP, for IPv4 or IPv6.
    pub(crate) icmp: u64,
    /// Any other transport.
    pub(crate) other_transport: u64,
    /// Packets in a VLAN.
    pub(crate) in_vlan: u64,
    /// Fragments other than the first.
    pub(crate) later_fragments: u64,
    /// Packets whose IPv4 header checksum is wrong.
    pub(crate) bad_ipv4_checksum: u64,
}

/// Collects the profile of a capture.
#[derive(Debug)]
pub(crate) struct Profiler {
    timeout_ns: u64,
    packets: u64,
    bytes_on_wire: u64,
    bytes_captured: u64,
    cut_packets: u64,
    captured_over_wire: u64,
    clock: PacketClock,
    now_ns: u64,
    stamp_ns: Option<u64>,
    odd_time: Option<OddTime>,
    first_ns: u64,
    last_ns: u64,
    sizes: Vec<u64>,
    packets_by_second: HashMap<u64, u64>,
    layers: Layers,
    dropped: DropCounts,
    examples: BTreeMap<DropReason, Vec<u64>>,
    unsupported: BTreeMap<LinkType, u64>,
    flows: HashMap<FlowKey, Flow>,
    stays: Vec<Stay>,
}

/// A profile.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) packets: u64,
    pub(crate) bytes_on_wire: u64,
    pub(crate) bytes_captured: u64,
    pub(crate) cut_packets: u64,
    pub(crate) captured_over_wire: u64,
    pub(crate) clock: ClockCounts,
    /// The first packet with such a time.
    pub(crate) odd_time: Option<OddTime>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) size_p50: u64,
    pub(crate) size_p95: u64,
    pub(crate) peak_packets_per_second: u64,
    pub(crate) layers: Layers,
    pub(crate) dropped: DropCounts,
    pub(crate) examples: BTreeMap<DropReason, Vec<u64>>,
    pub(crate) unsupported: BTreeMap<LinkType, u64>,
    pub(crate) flows: u64,
    pub(crate) flows_by_timeout: u64,
    pub(crate) concurrent_peak: u64,
    pub(crate) concurrent_peak_at_ns: u64,
    pub(crate) packets_per_flow: [u64; 3],
    pub(crate) new_flows_peak_per_second: u64,
    pub(crate) zipf: Option<Zipf>,
    pub(crate) top: Vec<TopFlow>,
}

/// One of the largest flows.
#[derive(Clone, Debug)]
pub(crate) struct TopFlow {
    pub(crate) name: String,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// A fitted skew of packets over flows.
#[derive(Clone, Copy, Debug, schemars::JsonSchema, serde::Serialize)]
pub(crate) struct Zipf {
    /// Exponent of the fitted power law; 0 if all flows are equal.
    pub(crate) exponent: f64,
    /// Share of the variance that the fit explains, 0 to 1.
    pub(crate) r_squared: f64,
}

impl Profiler {
    /// Returns an empty profiler; flows idle for longer than the timeout count as ended.
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self {
            timeout_ns,
            packets: 0,
            bytes_on_wire: 0,
            bytes_captured: 0,
            cut_packets: 0,
            captured_over_wire: 0,
            clock: PacketClock::default(),
            now_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(u64::MAX, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)),
            stamp_ns: None,
            odd_time: None,
            first_ns: u64::MAX,
            last_ns: 0,
            sizes: vec![0; SIZE_MAX + 1],
            packets_by_second: HashMap::new(),
            layers: Layers::default(),
            dropped: DropCounts::default(),
            examples: BTreeMap::new(),
            unsupported: BTreeMap::new(),
            flows: HashMap::new(),
            stays: Vec::new(),
        }
    }

    /// Adds a packet with its decoding result and its bytes on the wire.
    pub(crate) fn add(
        &mut self,
        raw: &RawPacket,
        bytes: &[u8],
        decoded: Result<&Headers, DropReason>,
        wire: u32,
    ) {
        self.packets += 1;
        self.bytes_on_wire += u64::from(wire);
        self.bytes_captured += u64::from(raw.captured_bytes);
        self.cut_packets += u64::from(raw.captured_bytes < wire);
        self.captured_over_wire += u64::from(raw.captured_bytes > raw.wire_bytes);
        self.look_at_time(raw.time_ns);
        let time_ns = self.clock.tick(raw.time_ns);
        self.last_ns = time_ns;
        self.first_ns = self.first_ns.min(time_ns);
        self.sizes[(wire as usize).min(SIZE_MAX)] += 1;
        *self.packets_by_second.entry(time_ns / NS_PER_SECOND).or_default() += 1;
        match decoded {
            Ok(headers) => {
                self.layer(headers, bytes);
                self.flow(headers, time_ns, wire);
            }
            Err(reason) => {
                self.dropped.count(reason);
                let examples = self.examples.entry(reason).or_default();
                if examples.len() < EXAMPLES {
                    examples.push(self.packets);
                }
                if reason == DropReason::Unsupported {
                    *self.unsupported.entry(raw.link).or_default() += 1;
                }
            }
        }
    }

    /// Remembers the first packet whose time stamp is probably wrong.
    fn look_at_time(&mut self, time_ns: u64) {
        let before_ns = self.stamp_ns.replace(time_ns);
        let (why, before_ns) = match before_ns {
            _ if self.odd_time.is_some() => return,
            Some(before) if time_ns.saturating_add(HOUR_NS) < before => {
                ("more than an hour before", before_ns)
            }
            Some(before) if before.saturating_add(365 * DAY_NS) < time_ns => {
                ("more than a year after", before_ns)
            }
            _ if time_ns < OLDEST_NS => ("before 1990", None),
            _ if time_ns > self.now_ns.saturating_add(DAY_NS) => ("in the future", None),
            _ => return,
        };
        self.odd_time = Some(OddTime { packet: self.packets, time_ns, before_ns, why });
    }

    fn layer(&mut self, headers: &Headers, bytes: &[u8]) {
        let layers = &mut self.layers;
        match headers.key.family() {
            IpFamily::V4 => {
                layers.ipv4 += 1;
                let header = bytes.get(headers.network_offset as usize..).unwrap_or_default();
                layers.bad_ipv4_checksum +=
                    u64::from(!flowloom::packet::checksum::ipv4_header_checksum_ok(header));
            }
            IpFamily::V6 => layers.ipv6 += 1,
        }
        match headers.key.protocol() {
            6 => layers.tcp += 1,
            17 => layers.udp += 1,
            132 => layers.sctp += 1,
            1 | 58 => layers.icmp += 1,
            _ => layers.other_transport += 1,
        }
        layers.in_vlan += u64::from(headers.vlans != 0);
        layers.later_fragments += u64::from(headers.later_fragment);
    }

    fn flow(&mut self, headers: &Headers, time_ns: u64, wire: u32) {
        let fresh = Stay { begin_ns: time_ns, last_ns: time_ns };
        let new = Flow { packets: 0, bytes: 0, stay: fresh, first: headers.direction };
        let flow = self.flows.entry(headers.key).or_insert(new);
        if time_ns - flow.stay.last_ns > self.timeout_ns {
            self.stays.push(flow.stay);
            flow.stay = fresh;
        }
        flow.packets += 1;
        flow.bytes += u64::from(wire);
        flow.stay.last_ns = time_ns;
    }

    /// Returns the profile, with the `top` largest flows.
    pub(crate) fn finish(mut self, top: usize) -> Profile {
        self.stays.extend(self.flows.values().map(|flow| flow.stay));
        let (concurrent_peak, concurrent_peak_at_ns) = peak(&self.stays, self.timeout_ns);
        let mut begun: HashMap<u64, u64> = HashMap::new();
        for stay in &self.stays {
            *begun.entry(stay.begin_ns / NS_PER_SECOND).or_default() += 1;
        }
        let mut counts: Vec<u64> = self.flows.values().map(|flow| flow.packets).collect();
        counts.sort_unstable();
        let at = |share: f64| {
            counts.get(((counts.len() as f64 * share) as usize).min(counts.len().saturating_sub(1)))
        };
        let packets_per_flow = [at(0.5), at(0.95), counts.last()].map(|count| count.copied().unwrap_or(0));
        let mut largest: Vec<(&FlowKey, &Flow)> = self.flows.iter().collect();
        largest.sort_by_key(|(key, flow)| (std::cmp::Reverse(flow.packets), **key));
        largest.truncate(top.max(1));
        let in_zones = self.flows.keys().filter(|key| key.zone() != 0);
        let also_in_zones: HashSet<FlowKey> = in_zones.map(|key| key.with_zone(0)).collect();
        let named = |(key, flow): (&FlowKey, &Flow)| {
            let is_low_first = flow.first == Direction::LowToHigh;
            let name = name_of_key(key, is_low_first, also_in_zones.contains(key));
            TopFlow { name, packets: flow.packets, bytes: flow.bytes }
        };
        let top = largest.into_iter().map(named).collect();
        Profile {
            packets: self.packets,
            bytes_on_wire: self.bytes_on_wire,
            bytes_captured: self.bytes_captured,
            cut_packets: self.cut_packets,
            captured_over_wire: self.captured_over_wire,
            odd_time: self.odd_time,
            clock: self.clock.counts(),
            first_ns: if self.packets == 0 { 0 } else { self.first_ns },
            last_ns: self.last_ns,
            size_p50: quantile(&self.sizes, self.packets, 0.5),
            size_p95: quantile(&self.sizes, self.packets, 0.95),
            peak_packets_per_second: self.packets_by_second.values().copied().max().unwrap_or(0),
            layers: self.layers,
            dropped: self.dropped,
            examples: self.examples,
            unsupported: self.unsupported,
            flows: counts.len() as u64,
            flows_by_timeout: self.stays.len() as u64,
            concurrent_peak,
            concurrent_peak_at_ns,
            packets_per_flow,
            new_flows_peak_per_second: begun.values().copied().max().unwrap_or(0),
            zipf: zipf(&counts),
            top,
        }
    }
}

/// Returns the smallest size that `share` of the packets do not exceed.
fn quantile(sizes: &[u64], packets: u64, share: f64) -> u64 {
    let goal = (packets as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (size, count) in (0_u64..).zip(sizes) {
        seen += count;
        if seen >= goal && seen > 0 {
            return size;
        }
    }
    0
}

/// Returns the maximum number of concurrent flows, and its time. A flow is present until its
/// timeout has passed.
fn peak(stays: &[Stay], timeout_ns: u64) -> (u64, u64) {
    let mut begins: Vec<u64> = stays.iter().map(|stay| stay.begin_ns).collect();
    let mut ends: Vec<u64> = stays.iter().map(|stay| stay.last_ns.saturating_add(timeout_ns)).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let mut ended = 0;
    let (mut most, mut when) = (0, 0);
    for (begun, &begin) in begins.iter().enumerate() {
        while ends[ended] < begin {
            ended += 1;
        }
        let now = (begun + 1 - ended) as u64;
        if now > most {
            (most, when) = (now, begin);
        }
    }
    (most, when)
}

/// Fits packets ~ rank^-exponent over the largest flows, by least squares on logarithms.
fn zipf(ascending: &[u64]) -> Option<Zipf> {
    let ranked = ascending.iter().rev().take(RANKS_MAX).filter(|&&count| count > 0);
    let points: Vec<(f64, f64)> =
        ranked.zip(1_u32..).map(|(&count, rank)| (f64::from(rank).ln(), (count as f64).ln())).collect();
    if points.len() < 10 {
        return None;
    }
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        xx += (x - mean_x).powi(2);
        xy += (x - mean_x) * (y - mean_y);
        yy += (y - mean_y).powi(2);
    }
    let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
    Some(Zipf { exponent: -xy / xx, r_squared })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_finds_the_exponent_it_was_given() {
        let mut counts: Vec<u64> =
            (1..=1000_u32).map(|rank| (1e6 / f64::from(rank).powf(1.2)) as u64).collect();
        counts.sort_unstable();
        let fit = zipf(&counts).unwrap();
        assert!((fit.exponent - 1.2).abs() < 0.01, "{fit:?}");
        assert!(fit.r_squared > 0.99);
        assert!(zipf(&[1, 2, 3]).is_none());
    }

    #[test]
    fn flows_count_as_concurrent_until_their_timeout() {
        let stay = |begin_ns, last_ns| Stay { begin_ns, last_ns };
        assert_eq!(peak(&[stay(0, 10), stay(5, 20), stay(30, 40)], 0), (2, 5));
        assert_eq!(peak(&[stay(0, 10), stay(5, 20), stay(30, 40)], 100), (3, 30));
        assert_eq!(peak(&[], 1), (0, 0));
    }

    #[test]
    fn quantiles_count_packets() {
        let mut sizes = vec![0; 100];
        sizes[60] = 50;
        sizes[90] = 50;
        assert_eq!(quantile(&sizes, 100, 0.5), 60);
        assert_eq!(quantile(&sizes, 100, 0.51), 90);
        assert_eq!(quantile(&[0; 100], 0, 0.5), 0);
    }
}
