//! The load of a trace on a flow table: how many sessions are open at the same time, and how soon a
//! session is needed again.

use super::{Generate, Meta};

/// Figures of a trace, counted packet by packet.
///
/// A session is *open* from its first packet until its last, and concurrency is counted after every
/// packet. A session of one packet therefore never counts as open, and the average is the sum of
/// all distances from first to last packet, divided by the number of packets. This definition gives
/// the figures of the paper, see [`sessions`](super::sessions).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TraceProfile {
    /// Packets, with and without a flow.
    pub packets: u64,
    /// Bytes of the packets on the wire.
    pub wire_bytes: u64,
    /// Distinct flows.
    pub sessions: u64,
    /// Maximum number of sessions open at once.
    pub sessions_max: u64,
    /// Mean number of open sessions over all packets.
    pub sessions_average: f64,
    /// Mean bytes of a packet on the wire.
    pub mean_length_bytes: f64,
    /// Minimum number of other packets between two packets of one flow; `None` if no flow has two
    /// packets.
    pub reuse_distance_min: Option<u64>,
    /// Maximum number of other packets between two packets of one flow.
    pub reuse_distance_max: Option<u64>,
}

impl TraceProfile {
    /// Counts the remaining packets of `generator`, and exhausts it.
    pub fn from_generator(generator: &mut dyn Generate) -> Self {
        Self::count(std::iter::from_fn(|| generator.next_meta()))
    }

    /// Counts packets. It takes 24 bytes of memory per flow.
    pub fn count(packets: impl IntoIterator<Item = Meta>) -> Self {
        const NEVER: u64 = u64::MAX;
        let mut last: Vec<u64> = Vec::new();
        let mut first: Vec<u64> = Vec::new();
        let (mut count, mut wire_bytes) = (0_u64, 0_u64);
        let (mut distance_min, mut distance_max) = (None, None);
        let mut open_total = 0_u64;
        for meta in packets {
            let position = count;
            count += 1;
            wire_bytes += u64::from(meta.wire_bytes);
            let Some(flow) = meta.flow else { continue };
            let flow = flow as usize;
            if flow >= last.len() {
                last.resize(flow + 1, NEVER);
            }
            let before = std::mem::replace(&mut last[flow], position);
            if before == NEVER {
                first.push(position);
                continue;
            }
            let distance = position - before - 1;
            open_total += position - before;
            distance_min = Some(distance_min.map_or(distance, |least: u64| least.min(distance)));
            distance_max = Some(distance_max.map_or(distance, |most: u64| most.max(distance)));
        }
        last.retain(|&position| position != NEVER);
        last.sort_unstable();
        Self {
            packets: count,
            wire_bytes,
            sessions: first.len() as u64,
            sessions_max: most_open(&first, &last),
            sessions_average: mean(open_total, count),
            mean_length_bytes: mean(wire_bytes, count),
            reuse_distance_min: distance_min,
            reuse_distance_max: distance_max,
        }
    }
}

/// Returns the maximum number of sessions open after any packet, given the sorted positions of
/// first and last packets.
fn most_open(first: &[u64], last: &[u64]) -> u64 {
    let (mut closed, mut most) = (0, 0);
    for (opened, &position) in (1_u64..).zip(first) {
        while closed < last.len() && last[closed] <= position {
            closed += 1;
        }
        most = most.max(opened - closed as u64);
    }
    most
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, far more than a trace contains")]
fn mean(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(flows: &[u32]) -> impl Iterator<Item = Meta> {
        flows.iter().map(|&flow| Meta { time_ns: 0, wire_bytes: 60, flow: Some(flow) })
    }

    #[test]
    fn concurrency_and_reuse_distance_match_a_worked_example() {
        // Open after each packet:        1  2  2  2  1  0
        let profile = TraceProfile::count(trace(&[0, 1, 0, 1, 0, 1]));
        assert_eq!(profile.sessions_max, 2);
        assert!((profile.sessions_average - 8.0 / 6.0).abs() < 1e-12);
        assert_eq!((profile.reuse_distance_min, profile.reuse_distance_max), (Some(1), Some(1)));
        let profile = TraceProfile::count(trace(&[0, 0, 1, 1]));
        assert_eq!((profile.sessions, profile.sessions_max), (2, 1));
    }

    #[test]
    fn empty_trace_has_a_profile() {
        let profile = TraceProfile::count(std::iter::empty());
        assert_eq!((profile.packets, profile.sessions_max, profile.reuse_distance_min), (0, 0, None));
        assert_eq!(profile.mean_length_bytes.to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn packets_without_a_flow_have_length_only() {
        let other = Meta { time_ns: 0, wire_bytes: 42, flow: None };
        let profile = TraceProfile::count([other, other]);
        assert_eq!((profile.packets, profile.wire_bytes, profile.sessions), (2, 84, 0));
    }
}
