//! Traffic models, fitted to the captures of [LFB Tab. 1] and the jobs of [HRWTREE §4.2], and
//! several synthetic ones.
//!
//! | model | what it is hard for |
//! | --- | --- |
//! | [`Model::Dominant`] | anything that keeps order: one flow has half of the packets and a quarter of the work |
//! | [`Model::Many`] | caches: a hundred flows at a time, fifteen packets each |
//! | [`Model::Balanced`] | little |
//! | [`Model::L7`] | counting packets: a job is a whole buffer, so jobs differ in work a hundredfold |
//! | [`Model::Zipf`] | hashing: few flows have most packets |
//! | [`Model::Bursts`] | slow feedback: trains of up to 64 packets |
//! | [`Model::Elephants`] | sharing: four flows have a tenth of the packets each |
//! | [`Model::Attack`] | unkeyed hashing: half of the packets are flows crafted for one queue |

mod captures;
mod l7;
mod power;
mod simple;

use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_key::{FlowHasher, FlowKey};

use super::workload::{JOBS_MAX, Job, Pace, Workload};
use crate::placement::modulo::crc_of;
use crate::placement::rendezvous::NegativeLog;
use crate::placement::{SetupError, bounded};
use crate::registry::DigestKind;

pub use captures::Capture;

/// A model of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// [LFB Tab. 1]: one flow dominates.
    Dominant,
    /// [LFB Tab. 1]: many small flows.
    Many,
    /// [LFB Tab. 1]: in between.
    Balanced,
    /// Reassembled buffers to be matched [HRWTREE §4.2]; one flow may have a share of the jobs.
    L7 {
        /// Thousandths of the jobs that belong to one flow which never matches.
        elephant_permille: u32,
    },
    /// A fixed number of flows with shares that fall with a power of their rank.
    Zipf {
        /// Number of flows.
        flows: u32,
        /// The exponent, in thousandths.
        exponent_permille: u32,
    },
    /// Two thousand flows that send trains of packets.
    Bursts,
    /// Four elephants among many small flows.
    Elephants,
    /// Flows constructed to hit one queue of a CRC modulo 64, among ordinary flows.
    Attack,
}

/// Generated packets and the keys of their flows.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The jobs. Their digests are [`DigestKind::Keyed`], and their arrival times are zero.
    pub jobs: Vec<Job>,
    /// The key of each flow.
    pub keys: Vec<FlowKey>,
    /// The server address of each flow.
    pub servers: Vec<u32>,
}

impl Model {
    /// One model of each kind; L7 without and with an elephant.
    pub const EACH: [Self; 9] = [
        Self::Dominant,
        Self::Many,
        Self::Balanced,
        Self::L7 { elephant_permille: 0 },
        Self::L7 { elephant_permille: 50 },
        Self::Zipf { flows: 1000, exponent_permille: 1100 },
        Self::Bursts,
        Self::Elephants,
        Self::Attack,
    ];

    /// Returns the model's short name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dominant => "dominant",
            Self::Many => "many",
            Self::Balanced => "balanced",
            Self::L7 { elephant_permille: 0 } => "l7",
            Self::L7 { .. } => "l7-elephant",
            Self::Zipf { .. } => "zipf",
            Self::Bursts => "bursts",
            Self::Elephants => "elephants",
            Self::Attack => "attack",
        }
    }

    /// Returns the default number of packets, which is that of the modelled capture.
    #[must_use]
    pub fn packets(self) -> u32 {
        match self {
            Self::Dominant => Capture::DOMINANT.packets,
            Self::Many => Capture::MANY.packets,
            Self::Balanced => Capture::BALANCED.packets,
            Self::L7 { .. } => l7::PACKETS,
            _ => 1_000_000,
        }
    }

    /// Generates about `packets` packets. The same seed gives the same traffic on every machine.
    ///
    /// The models of captures scale with this number: a tenth of the packets have a tenth of the
    /// flows. [`Model::L7`] generates fewer jobs than packets.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for fewer than 1,000 packets or more than a workload may
    /// have, for zero flows, for an elephant's share above 900 thousandths, and for an exponent
    /// above 4000 thousandths.
    pub fn generate(self, packets: u32, seed: u64) -> Result<Traffic, SetupError> {
        bounded("packets of a model", u64::from(packets), 1000, JOBS_MAX as u64)?;
        let flows = match self {
            Self::Dominant => Capture::DOMINANT.generate(packets, seed),
            Self::Many => Capture::MANY.generate(packets, seed),
            Self::Balanced => Capture::BALANCED.generate(packets, seed),
            Self::L7 { elephant_permille } => {
                bounded("elephant's share", u64::from(elephant_permille), 0, 900)?;
                l7::generate(packets, elephant_permille, seed)
            }
            Self::Zipf { flows, exponent_permille } => {
                bounded("flows of a model", u64::from(flows), 1, 1 << 24)?;
                bounded("exponent of a model", u64::from(exponent_permille), 0, 4000)?;
                simple::zipf(packets, flows, exponent_permille, seed)
            }
            Self::Bursts => simple::bursts(packets, seed),
            Self::Elephants => simple::elephants(packets, seed),
            Self::Attack => simple::attack(packets, seed),
        };
        Ok(flows.finish(seed))
    }
}

impl Traffic {
    /// Replaces the digests of all jobs.
    #[must_use]
    pub fn with_digests(mut self, digest: DigestKind, seed: u64) -> Self {
        let hasher = FlowHasher::with_seed(seed);
        let digests: Vec<u32> = self
            .keys
            .iter()
            .zip(&self.servers)
            .map(|(key, &server)| match digest {
                DigestKind::Keyed => hasher.hash(key).worker,
                DigestKind::Crc => crc_of(key),
                DigestKind::Destination => server,
            })
            .collect();
        for job in &mut self.jobs {
            job.digest = digests[job.flow as usize];
        }
        self
    }

    /// Gives every job a random arrival time, on average one job every `mean_cycles` cycles. If
    /// `wave_cycles` is not 0, jobs arrive at 2.5 times the mean rate during a fifth of each wave,
    /// and at 0.625 times during the rest.
    #[must_use]
    pub fn with_arrivals(mut self, mean_cycles: u64, wave_cycles: u64, seed: u64) -> Self {
        let log = NegativeLog::new();
        let mut state = seed ^ 0xA771_7A15;
        // In 1/256 of a cycle, so that short gaps are not rounded to zero.
        let mut now = 0_u64;
        for job in &mut self.jobs {
            job.arrival = now >> 8;
            let in_wave = if wave_cycles == 0 { 0 } else { (now >> 8) % wave_cycles };
            let mean = (mean_cycles << 8)
                * match wave_cycles {
                    0 => 1000,
                    wave if in_wave < wave / 5 => 400,
                    _ => 1600,
                }
                / 1000;
            // −ln u is −log2 u times 0.6931; the logarithm has 40 fractional bits.
            let units = (u128::from(log.negative_log(split_mix(&mut state))) * 45_426) >> 16;
            now += ((u128::from(mean) * units) >> 40) as u64;
        }
        self
    }

    /// Returns the workload of these jobs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Workload::new`].
    pub fn workload(self, pace: Pace) -> Result<Workload, SetupError> {
        Workload::new(self.jobs, pace)
    }
}

/// Flows and jobs that are being generated.
#[derive(Debug, Default)]
struct Making {
    jobs: Vec<Job>,
    keys: Vec<FlowKey>,
    servers: Vec<u32>,
}

impl Making {
    /// Adds a flow from one of 60,000 clients to one of 40 servers and 8 services. Returns its
    /// number.
    fn flow(&mut self, random: &mut Random) -> u32 {
        const SERVICES: [u16; 8] = [80, 443, 25, 53, 22, 110, 143, 8080];
        let client = 0x0A00_0000 + random.below(60_000);
        let server = 0xC000_0200 + random.below(40);
        let port = 1024 + random.below(64_000) as u16;
        let service = SERVICES[random.below(8) as usize];
        self.flow_of(client, server, port, service)
    }

    fn flow_of(&mut self, client: u32, server: u32, port: u16, service: u16) -> u32 {
        self.keys.push(FlowKey::from_v4(client, server, port, service, 6).0);
        self.servers.push(server);
        (self.keys.len() - 1) as u32
    }

    fn job(&mut self, flow: u32, bytes: u32, work: u32) {
        self.jobs.push(Job { arrival: 0, flow, digest: 0, bytes, work });
    }

    fn finish(self, seed: u64) -> Traffic {
        let Self { jobs, keys, servers } = self;
        Traffic { jobs, keys, servers }.with_digests(DigestKind::Keyed, seed)
    }
}

/// Random numbers drawn from a seed.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    /// Returns a number below `bound`, which must not be 0.
    fn below(&mut self, bound: u32) -> u32 {
        (((self.word() >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn permille(&mut self, permille: u32) -> bool {
        self.below(1000) < permille
    }

    /// Returns a size on the wire in bytes: 45 % are small, 16.5 % medium, and the others nearly
    /// full.
    fn bytes(&mut self) -> u32 {
        match self.below(1000) {
            0..450 => 64 + self.below(60),
            450..615 => 200 + self.below(800),
            _ => 1400 + self.below(60),
        }
    }

    /// Returns a value around `mean`, uniformly distributed between a quarter and seven quarters of
    /// it.
    fn around(&mut self, mean: u32) -> u32 {
        (u64::from(mean) * u64::from(250 + self.below(1501)) / 1000) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_generates_the_same_workload_for_a_seed() {
        for model in Model::EACH {
            let make = |seed| model.generate(20_000, seed).unwrap();
            let (first, again, other) = (make(1), make(1), make(2));
            assert_eq!(first.jobs, again.jobs, "{}", model.name());
            assert_ne!(first.jobs, other.jobs, "{}", model.name());
            assert_eq!(first.keys.len(), first.servers.len());
            let workload = first.workload(Pace::Closed).unwrap();
            assert!(workload.jobs().len() > 4_000 && workload.work() > 0, "{}", model.name());
        }
        assert!(Model::Many.generate(10, 1).is_err());
        assert!(Model::Zipf { flows: 0, exponent_permille: 0 }.generate(1000, 1).is_err());
    }

    #[test]
    fn model_of_a_capture_has_its_length() {
        let packets = Model::EACH.map(Model::packets);
        assert_eq!(packets[..5], [454_988, 1_567_397, 1_236_710, 340_000, 340_000]);
        assert_eq!(packets[5..], [1_000_000; 4]);
    }

    #[test]
    fn arrivals_have_the_given_mean_rate_and_come_in_bursts() {
        for wave in [0, 1_000_000] {
            let traffic = Model::Balanced.generate(100_000, 3).unwrap().with_arrivals(700, wave, 3);
            let last = traffic.jobs.last().unwrap().arrival;
            assert!(last.abs_diff(70_000_000) < 2_000_000, "{last}");
            let early = traffic.jobs.iter().filter(|job| wave > 0 && job.arrival % wave < wave / 5).count();
            assert!(wave == 0 || early.abs_diff(50_000) < 4_000, "{early}");
        }
    }

    #[test]
    fn crafted_flows_share_a_queue_by_crc_only() {
        let traffic = Model::Attack.generate(20_000, 1).unwrap();
        let most = |traffic: &Traffic| {
            let mut queues = [0_u32; 64];
            for job in &traffic.jobs {
                queues[(job.digest % 64) as usize] += 1;
            }
            queues.into_iter().max().unwrap()
        };
        assert!(most(&traffic) < 1000);
        assert!(most(&traffic.with_digests(DigestKind::Crc, 1)) > 10_000);
    }
}
