//! Synthetic traffic that is not fitted to any paper, for schedulers that were fitted to papers.

use super::power::power;
use super::{Making, Random};
use crate::placement::modulo::crc_of;

/// Mean cycles per packet.
const MEAN_CYCLES: u32 = 5_000;

fn work(random: &mut Random, bytes: u32) -> u32 {
    // Half of the work is proportional to the bytes, so that neither packets nor bytes alone
    // predict it.
    random.around(MEAN_CYCLES / 2) + bytes * (MEAN_CYCLES / 2) / 690
}

fn packet(making: &mut Making, random: &mut Random, flow: u32) {
    let bytes = random.bytes();
    let work = work(random, bytes);
    making.job(flow, bytes, work);
}

/// Generates flows with shares that fall with a power of their rank.
pub(super) fn zipf(packets: u32, flows: u32, exponent_permille: u32, seed: u64) -> Making {
    let mut random = Random(seed ^ 0x21BF);
    let mut making = Making::default();
    let mut sums = Vec::with_capacity(flows as usize);
    let mut sum = 0.0;
    for rank in 1..=flows {
        making.flow(&mut random);
        sum += 1.0 / power(f64::from(rank), f64::from(exponent_permille) / 1000.0);
        sums.push(sum);
    }
    for _ in 0..packets {
        let at = f64::from((random.word() >> 32) as u32) / 4_294_967_296.0 * sum;
        let flow = sums.partition_point(|&up_to| up_to <= at).min(flows as usize - 1);
        packet(&mut making, &mut random, flow as u32);
    }
    making
}

/// Generates two thousand flows, each of which sends trains of 1 to 64 packets; four trains are
/// interleaved.
pub(super) fn bursts(packets: u32, seed: u64) -> Making {
    const FLOWS: u32 = 2_000;
    let mut random = Random(seed ^ 0xB1257);
    let mut making = Making::default();
    for _ in 0..FLOWS {
        making.flow(&mut random);
    }
    let mut trains = [(0_u32, 0_u32); 4];
    for _ in 0..packets {
        let at = random.below(4) as usize;
        if trains[at].1 == 0 {
            trains[at] = (random.below(FLOWS), 1 + random.below(64));
        }
        trains[at].1 -= 1;
        packet(&mut making, &mut random, trains[at].0);
    }
    making
}

/// Generates four flows with a tenth of the packets each; every other packet belongs to one of five
/// thousand flows.
pub(super) fn elephants(packets: u32, seed: u64) -> Making {
    const MICE: u32 = 5_000;
    let mut random = Random(seed ^ 0xE1E);
    let mut making = Making::default();
    for _ in 0..4 + MICE {
        making.flow(&mut random);
    }
    for _ in 0..packets {
        let flow = match random.below(10) {
            elephant @ 0..4 => elephant,
            _ => 4 + random.below(MICE),
        };
        packet(&mut making, &mut random, flow);
    }
    making
}

/// Generates packets, half of which belong to flows whose CRC is 17 modulo 64; the others belong to
/// five thousand ordinary flows.
pub(super) fn attack(packets: u32, seed: u64) -> Making {
    const EACH: u32 = 5_000;
    let mut random = Random(seed ^ 0xA77AC);
    let mut making = Making::default();
    for _ in 0..EACH {
        making.flow(&mut random);
    }
    let mut crafted = 0;
    while crafted < EACH {
        let (client, port) = (0x0A00_0000 + random.below(60_000), 1024 + random.below(64_000) as u16);
        let key = flowloom_flow_key::FlowKey::from_v4(client, 0xC000_0201, port, 80, 6).0;
        if crc_of(&key) % 64 == 17 {
            making.flow_of(client, 0xC000_0201, port, 80);
            crafted += 1;
        }
    }
    for _ in 0..packets {
        let flow = random.below(2 * EACH);
        packet(&mut making, &mut random, flow);
    }
    making
}

#[cfg(test)]
mod tests {
    use crate::sim::models::Model;

    #[test]
    fn flow_shares_follow_the_power_of_the_rank() {
        let model = Model::Zipf { flows: 100, exponent_permille: 1000 };
        let traffic = model.generate(200_000, 1).unwrap();
        let count = |flow| traffic.jobs.iter().filter(|job| job.flow == flow).count() as f64;
        let ratio = count(0) / count(9);
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn each_elephant_has_a_tenth() {
        let traffic = Model::Elephants.generate(50_000, 1).unwrap();
        for elephant in 0..4 {
            let own = traffic.jobs.iter().filter(|job| job.flow == elephant).count();
            assert!(own.abs_diff(5_000) < 500, "{own}");
        }
    }
}
