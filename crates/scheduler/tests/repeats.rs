//! A seed gives the same traffic and runs on every machine. The digests were recorded on the first
//! machine that ran the test, and change with a model, a policy or the simulated machine.

use flowloom_scheduler::registry::DigestKind;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::sim::models::Model;
use flowloom_scheduler::sim::{Machine, Offered, Pace, Report, WhenFull};

/// Combines many numbers into one; no two lists that occur here have the same result.
fn folded(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0xCBF2_9CE4_8422_2325, |sum, word| {
        (sum ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29)
    })
}

/// Compares named figures with the recorded ones, and prints all of them if they differ.
fn compare(found: &[(&str, u64)], recorded: &[(&str, u64)]) {
    let lines: Vec<String> = found
        .iter()
        .map(|(name, figure)| {
            let [a, b, c, d] = [48, 32, 16, 0].map(|shift| figure >> shift & 0xFFFF);
            format!("    ({name:?}, 0x{a:04X}_{b:04X}_{c:04X}_{d:04X}),")
        })
        .collect();
    assert!(found == recorded, "figures are now\n{}", lines.join("\n"));
}

/// Returns every value of a report.
fn all_of(report: &Report) -> u64 {
    let misses = report.misses;
    let mut words = vec![
        report.jobs,
        report.completed,
        report.dropped,
        report.cycles,
        report.work,
        report.least_cycles,
        report.reorders,
        report.races,
        report.migrations,
        misses.shared,
        misses.remote,
        misses.memory,
        report.hand_overs,
        report.steals,
        report.blocked_cycles,
        report.latency.count(),
        report.latency.mean(),
        report.latency.max(),
        report.latency.permille(500),
        report.digest,
    ];
    words.extend(report.queue_max.iter().map(|&max| u64::from(max)));
    words.extend(&report.queue_mean_milli);
    for level in &report.levels {
        words.extend(level.permille.iter().map(|&permille| u64::from(permille)));
        words.extend(&level.p99_cycles);
        words.extend([u64::from(level.mean()), u64::from(level.range().0), u64::from(level.range().1)]);
    }
    folded(words)
}

#[test]
fn generated_traffic_is_the_same_on_every_machine() {
    let found: Vec<(&str, u64)> = Model::EACH
        .iter()
        .map(|model| {
            let traffic = model.generate(40_000, 3).unwrap();
            let keys = folded(traffic.keys.iter().flat_map(|key| *key.words()));
            let servers = folded(traffic.servers.iter().map(|&server| u64::from(server)));
            let traffic = traffic.with_arrivals(900, 100_000, 4).with_digests(DigestKind::Crc, 5);
            let jobs = folded(traffic.jobs.iter().flat_map(|job| {
                [job.arrival, job.flow.into(), job.digest.into(), job.bytes.into(), job.work.into()]
            }));
            (model.name(), folded([keys ^ servers, jobs]))
        })
        .collect();
    compare(&found, &TRAFFIC);
}

/// Returns four machines with workloads, chosen so that every kind of event occurs.
fn settings() -> [(Machine, Offered); 4] {
    let offered = |model: Model, packets, pace| {
        let traffic = model.generate(packets, 1).expect("sound traffic").with_arrivals(600, 200_000, 1);
        Offered::new(traffic, pace).expect("sound traffic")
    };
    let zipf = Model::Zipf { flows: 500, exponent_permille: 1000 };
    [
        (
            Machine::xeon("2x2x2,-0,3=25".parse().expect("a sound shape")),
            offered(Model::Dominant, 4000, Pace::Closed),
        ),
        (
            Machine::niagara("8x2x4,-0".parse().expect("a sound shape")),
            offered(Model::L7 { elephant_permille: 50 }, 12_000, Pace::Closed),
        ),
        (
            Machine {
                queue_packets: 16,
                when_full: WhenFull::Drop,
                ..Machine::xeon("8".parse().expect("a sound shape"))
            },
            offered(zipf, 8000, Pace::Open),
        ),
        (
            Machine {
                thread_demand_permille: 500,
                dispatcher_on_first_pipeline: true,
                queue_packets: 20,
                pool_packets: 40,
                batch: 8,
                chunk: 4,
                ..Machine::xeon("2x2,3=50".parse().expect("a sound shape"))
            },
            offered(Model::Bursts, 4000, Pace::Open),
        ),
    ]
}

#[test]
fn every_scheme_gives_the_same_result_on_every_machine() {
    let settings = settings();
    let found: Vec<(&str, u64)> = Scheme::ALL
        .iter()
        .map(|scheme| {
            let run = |(machine, offered): &(Machine, Offered)| {
                all_of(&scheme.run(machine, offered, 7).expect("sound machines"))
            };
            (scheme.name, folded(settings.each_ref().map(run)))
        })
        .collect();
    compare(&found, &RUNS);
}

const TRAFFIC: [(&str, u64); 9] = [
    ("dominant", 0x4669_5FFB_96E8_C34E),
    ("many", 0xDE98_47C1_CF87_D287),
    ("balanced", 0x369F_C8A6_8681_7B3C),
    ("l7", 0xDF8D_188B_F757_1430),
    ("l7-elephant", 0x1C62_EE96_3814_B194),
    ("zipf", 0x2DEC_D5CD_3977_9A7D),
    ("bursts", 0x8FF1_CF8E_7198_F8A8),
    ("elephants", 0x088C_80F5_7B6A_B519),
    ("attack", 0x25AC_1345_E4AC_16A3),
];
const RUNS: [(&str, u64); 26] = [
    ("rr", 0x4593_AD9F_0ABE_24B6),
    ("dh", 0x6D34_467A_4154_9953),
    ("crc", 0x27A6_19EE_8F34_403D),
    ("dst", 0x3C38_E870_9D72_3918),
    ("rss", 0xBCD8_8790_B3F6_B3E6),
    ("rss++", 0xC743_B63D_0427_49F9),
    ("fixed", 0x6CFB_244E_8B02_6EF8),
    ("minload", 0xDC8C_9641_2634_9491),
    ("hrw", 0x356D_F2BD_CA34_CF5F),
    ("hrw3", 0xCEEE_58C5_EAFF_4833),
    ("hrw3-2009", 0x9DDA_985F_4A17_8140),
    ("adaptive", 0x4D57_E75A_866C_DEC1),
    ("adaptive-fitted", 0x124D_15CF_E988_3B08),
    ("adaptive-racy", 0x4E09_D6F4_2C7A_4764),
    ("adaptive-2009", 0x7B8F_957B_B262_008C),
    ("pckt+os", 0xA628_E498_9BDC_5CE1),
    ("conn+aff", 0x6D34_467A_4154_9953),
    ("conn+os", 0xF2A4_3A57_75F2_2921),
    ("scr", 0x2F75_604E_EEBF_3247),
    ("fbs", 0x73F2_EEE6_51AC_0633),
    ("p2c", 0x317E_D584_55E0_18D3),
    ("flowpin", 0x46AD_18E9_608C_8421),
    ("ph", 0xAC14_732E_EAB0_61E2),
    ("lfb", 0xF316_C704_4384_CCF6),
    ("lfb-ns", 0x49F5_7317_2BB9_A308),
    ("flowpull", 0x5878_E39F_E456_8325),
];
