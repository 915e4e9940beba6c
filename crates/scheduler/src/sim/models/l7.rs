//! Models the jobs of an application classifier, which are whole reassembled buffers [HRWTREE §3.1,
//! §4.2].
//!
//! At most the first eight packets of each connection are appended to a buffer. Each time, the
//! whole buffer is matched again until a pattern matches.

use super::{Making, Random};

/// The paper's trace has about 340,000 packets of 40,000 connections.
pub(super) const PACKETS: u32 = 340_000;
const CONNECTIONS: u32 = 40_000;
const ACTIVE: usize = 400;
const STAY_PERMILLE: u32 = 600;
const JOBS_PER_CONNECTION: u32 = 8;
const MATCH_PERMILLE: u32 = 150;
/// Cycles per job, and per byte of it.
const JOB_CYCLES: u32 = 500;
const BYTE_CYCLES: u32 = 18;

/// Generates a number of jobs, of which `elephant_permille` thousandths belong to one connection
/// that never matches.
pub(super) fn generate(packets: u32, elephant_permille: u32, seed: u64) -> Making {
    let mut random = Random(seed ^ 0x1700_F117);
    let mut making = Making::default();
    let connections =
        ((u64::from(CONNECTIONS) * u64::from(packets) / u64::from(PACKETS)) as u32).max(ACTIVE as u32);
    let mean_packets = packets / connections;
    // The remainder of each active connection: its flow, packets, jobs, and bytes in the buffer.
    let mut active: Vec<(u32, u32, u32, u32)> = Vec::new();
    let begin = |making: &mut Making, random: &mut Random| {
        (making.flow(random), 1 + random.below(2 * mean_packets.max(1)), JOBS_PER_CONNECTION, 0)
    };
    for _ in 0..ACTIVE {
        active.push(begin(&mut making, &mut random));
    }
    let elephant = (elephant_permille > 0).then(|| making.flow(&mut random));
    let (mut mean_bytes, mut mean_work) = (1_500_u64, 30_000_u64);
    let mut current = 0;
    for _ in 0..packets {
        if !random.permille(STAY_PERMILLE) {
            current = random.below(ACTIVE as u32) as usize;
        }
        let (flow, packets_left, jobs_left, buffer) = &mut active[current];
        if *jobs_left > 0 {
            *buffer += random.bytes();
            let work = JOB_CYCLES + BYTE_CYCLES * *buffer;
            making.job(*flow, *buffer, work);
            mean_bytes = (mean_bytes * 255 + u64::from(*buffer)) / 256;
            mean_work = (mean_work * 255 + u64::from(work)) / 256;
            *jobs_left = if random.permille(MATCH_PERMILLE) { 0 } else { *jobs_left - 1 };
            // Each ordinary job is accompanied by its share of an elephant's job.
            if let Some(elephant) = elephant
                && random.below(1000 - elephant_permille) < elephant_permille
            {
                making.job(elephant, mean_bytes as u32, mean_work as u32);
            }
        }
        *packets_left -= 1;
        if *packets_left == 0 {
            active[current] = begin(&mut making, &mut random);
        }
    }
    making
}

#[cfg(test)]
mod tests {
    use crate::sim::models::Model;

    #[test]
    fn a_third_of_the_packets_are_jobs_of_some_thirty_thousand_cycles() {
        let traffic = Model::L7 { elephant_permille: 0 }.generate(super::PACKETS, 1).unwrap();
        let jobs = traffic.jobs.len();
        let mean = traffic.jobs.iter().map(|job| u64::from(job.work)).sum::<u64>() / jobs as u64;
        assert!((100_000..170_000).contains(&jobs), "{jobs}");
        assert!((20_000..45_000).contains(&mean), "{mean}");
    }

    #[test]
    fn the_elephant_has_its_share_of_the_jobs() {
        let traffic = Model::L7 { elephant_permille: 50 }.generate(100_000, 1).unwrap();
        let elephant = 400;
        let own = traffic.jobs.iter().filter(|job| job.flow == elephant).count();
        let permille = own * 1000 / traffic.jobs.len();
        assert!((40..60).contains(&permille), "{permille}");
    }
}
