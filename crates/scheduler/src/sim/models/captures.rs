//! Models of the three captures of [LFB Tab. 1], as far as the slides describe them.

#![expect(clippy::cast_sign_loss, reason = "sizes and their sums are not negative")]

use super::power::power;
use super::{Making, Random};

/// The attributes of a capture and the way in which generated traffic reproduces them.
///
/// A fixed number of connections is active at a time. A packet belongs to the dominant flow with a
/// fixed probability. Otherwise it belongs to the flow of the previous packet with another fixed
/// probability, or else to any active flow. An exhausted connection is replaced by the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Number of packets.
    pub packets: u32,
    /// Number of connections.
    pub connections: u32,
    /// Mean cycles of work per packet.
    pub cycles_per_packet: u32,
    /// Thousandths of the packets and of the work that belong to one connection.
    pub dominant_permille: (u32, u32),
    /// Number of simultaneously active connections.
    pub active: u32,
    /// Thousandths of the packets, without those of the dominant flow, that belong to the same flow
    /// as the previous one.
    pub stay_permille: u32,
}

impl Capture {
    /// One connection has over half of the packets and 27 % of the cycles.
    pub const DOMINANT: Self = Self {
        packets: 454_988,
        connections: 2_224,
        cycles_per_packet: 4_814,
        dominant_permille: (520, 270),
        active: 10,
        stay_permille: 550,
    };
    /// Many small flows throughout.
    pub const MANY: Self = Self {
        packets: 1_567_397,
        connections: 105_691,
        cycles_per_packet: 5_658,
        dominant_permille: (0, 0),
        active: 120,
        stay_permille: 300,
    };
    /// A capture without a dominant flow and without many flows.
    pub const BALANCED: Self = Self {
        packets: 1_236_710,
        connections: 43_357,
        cycles_per_packet: 5_203,
        dominant_permille: (0, 0),
        active: 60,
        stay_permille: 580,
    };

    /// Generates `packets` packets, with the capture's ratio of connections to packets.
    pub(super) fn generate(&self, packets: u32, seed: u64) -> Making {
        let mut random = Random(seed ^ 0xCA97_0E5D);
        let mut making = Making::default();
        let connections =
            ((u64::from(self.connections) * u64::from(packets) / u64::from(self.packets)) as u32).max(2);
        let (share, work_share) = self.dominant_permille;
        let dominant_packets = (u64::from(packets) * u64::from(share) / 1000) as u32;
        let others = connections - u32::from(share > 0);
        let own_packets = packets - dominant_packets;
        // A connection with more than its share of the packets would outlast the others.
        let most = (own_packets / self.active).max(2);
        let mut left = sizes(own_packets, others, most, &mut random);
        let first = making.keys.len() as u32;
        for _ in 0..others {
            making.flow(&mut random);
        }
        let dominant = (share > 0).then(|| making.flow(&mut random));
        // The mean work of the dominant flow's packets, and of the other packets.
        let mean = |work: u32, packets: u32| {
            (u64::from(self.cycles_per_packet) * u64::from(work) / u64::from(packets.max(1))) as u32
        };
        let (own, other) = (mean(work_share, share), mean(1000 - work_share, 1000 - share));
        let mut active: Vec<u32> = (0..self.active.min(others)).collect();
        let mut next = active.len() as u32;
        let mut current = 0_usize;
        let mut dominant_left = dominant_packets;
        for at in 0..packets {
            if let Some(flow) = dominant.filter(|_| dominant_left > 0)
                && (active.is_empty() || random.below(packets - at) < dominant_left)
            {
                dominant_left -= 1;
                let (bytes, work) = (random.bytes(), random.around(own));
                making.job(flow, bytes, work);
                continue;
            }
            if !random.permille(self.stay_permille) || current >= active.len() {
                current = random.below(active.len() as u32) as usize;
            }
            let connection = active[current];
            let (bytes, work) = (random.bytes(), random.around(other));
            making.job(first + connection, bytes, work);
            let left = &mut left[connection as usize];
            *left -= 1;
            if *left == 0 {
                if next < others {
                    active[current] = next;
                    next += 1;
                } else {
                    active.swap_remove(current);
                }
                current = usize::MAX;
            }
        }
        making
    }
}

/// Returns sizes of connections. They follow a heavy-tailed distribution (Pareto, 1.2, from 1 to
/// 3000), are at most about `most`, and add up to `packets`.
///
/// Large connections tend to come first, so that the number of active connections stays constant
/// until the end.
fn sizes(packets: u32, connections: u32, most: u32, random: &mut Random) -> Vec<u32> {
    // The survival function is x^−1.2, so a uniform u gives u^(−5/6).
    let mut raw: Vec<f64> = (0..connections)
        .map(|_| {
            let u = f64::from((random.word() >> 32) as u32 | 1) / f64::from(u32::MAX);
            power(1.0 / u, 5.0 / 6.0).min(3000.0)
        })
        .collect();
    let spare = f64::from(packets.saturating_sub(connections));
    // The excess of the largest connections is spread over all, which may raise some above the
    // limit again. A few rounds converge.
    for _ in 0..8 {
        let whole: f64 = raw.iter().sum();
        let bound = f64::from(most) / spare.max(1.0) * whole;
        for size in &mut raw {
            *size = size.min(bound);
        }
    }
    let largest = raw.iter().copied().fold(1.0, f64::max);
    let mut order: Vec<(u32, f64)> = raw
        .into_iter()
        .map(|size| {
            let late = 1.0 - 0.9 * size / largest;
            ((f64::from(random.below(1 << 24)) * late) as u32, size)
        })
        .collect();
    order.sort_by_key(|&(place, _)| place);
    let whole: f64 = order.iter().map(|(_, size)| size).sum();
    let mut sum = 0.0;
    let mut given = 0_u32;
    let last = order.len() - 1;
    order
        .iter()
        .enumerate()
        .map(|(at, (_, size))| {
            sum += size;
            // The remainder, after each connection has one packet, is shared; differences of
            // rounded running sums add up exactly.
            let up_to = if at == last { spare } else { sum / whole * spare };
            let share = (up_to as u32).max(given) - given;
            given += share;
            1 + share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::models::Model;

    #[test]
    fn packets_connections_and_cycles_are_those_of_the_slides() {
        for (model, capture) in [
            (Model::Dominant, Capture::DOMINANT),
            (Model::Many, Capture::MANY),
            (Model::Balanced, Capture::BALANCED),
        ] {
            let traffic = model.generate(capture.packets, 1).unwrap();
            assert_eq!(traffic.jobs.len() as u32, capture.packets);
            assert_eq!(traffic.keys.len() as u32, capture.connections);
            let work: u64 = traffic.jobs.iter().map(|job| u64::from(job.work)).sum();
            let mean = work / u64::from(capture.packets);
            let expected = u64::from(capture.cycles_per_packet);
            assert!(mean.abs_diff(expected) * 50 < expected, "{}: {mean} not {expected}", model.name());
            let mut seen = vec![false; traffic.keys.len()];
            traffic.jobs.iter().for_each(|job| seen[job.flow as usize] = true);
            assert!(seen.iter().all(|&seen| seen), "{}: a connection without packets", model.name());
        }
    }

    #[test]
    fn the_dominant_flow_has_half_of_the_packets_and_27_percent_of_the_work() {
        let traffic = Model::Dominant.generate(Capture::DOMINANT.packets, 2).unwrap();
        let dominant = traffic.keys.len() as u32 - 1;
        let own = || traffic.jobs.iter().filter(|job| job.flow == dominant);
        let share = own().count() as f64 / traffic.jobs.len() as f64;
        let work = |jobs: &mut dyn Iterator<Item = u32>| jobs.map(f64::from).sum::<f64>();
        let work_share =
            work(&mut own().map(|job| job.work)) / work(&mut traffic.jobs.iter().map(|job| job.work));
        assert!((share - 0.52).abs() < 0.01 && (work_share - 0.27).abs() < 0.01, "{share} {work_share}");
    }
}
