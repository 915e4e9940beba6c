//! A seed gives the same traffic, runs and check results on every machine. The digests were
//! recorded on the first machine that ran the test.
//!
//! They change with a model, a policy, the simulated machine or a check; this test detects
//! unintended changes.

use flowloom_scheduler::registry::DigestKind;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::sim::models::Model;
use flowloom_scheduler::sim::{Machine, Offered, Pace, Report, WhenFull};
use flowloom_scheduler::{
    Decision, Fetched, LoadView, OrderGuarantee, Placement, PullPolicy, WorkItem, WorkerCount, WorkerId,
    laws,
};

/// Combines many numbers into one; no two lists that occur here have the same result.
fn folded(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0xCBF2_9CE4_8422_2325, |sum, word| {
        (sum ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29)
    })
}

/// Compares named figures with the recorded ones, and prints all of them if they differ.
fn compare<const N: usize>(found: &[(String, [u64; N])], recorded: &[(&str, [u64; N])]) {
    let same = found.len() == recorded.len()
        && found.iter().zip(recorded).all(|(found, recorded)| (found.0.as_str(), found.1) == *recorded);
    let shown = |figure: u64| {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| figure >> shift & 0xFFFF);
        format!("0x{a:04X}_{b:04X}_{c:04X}_{d:04X}")
    };
    let lines: Vec<String> = found
        .iter()
        .map(|(name, figures)| format!("    ({name:?}, [{}]),", figures.map(shown).join(", ")))
        .collect();
    assert!(same, "figures are now\n{}", lines.join("\n"));
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
fn traffic_is_drawn_alike() {
    let found: Vec<(String, [u64; 2])> = Model::EACH
        .iter()
        .map(|model| {
            let traffic = model.generate(40_000, 3).unwrap();
            let keys = folded(traffic.keys.iter().flat_map(|key| *key.words()));
            let servers = folded(traffic.servers.iter().map(|&server| u64::from(server)));
            let traffic = traffic.with_arrivals(900, 100_000, 4).with_digests(DigestKind::Crc, 5);
            let jobs = folded(traffic.jobs.iter().flat_map(|job| {
                [job.arrival, job.flow.into(), job.digest.into(), job.bytes.into(), job.work.into()]
            }));
            (model.name().to_owned(), [keys ^ servers, jobs])
        })
        .collect();
    compare(&found, &TRAFFIC);
}

/// Returns four machines with workloads, chosen so that every kind of event occurs.
fn settings() -> [(Machine, Offered); 4] {
    let offered = |model: Model, packets, pace| {
        let traffic = model.generate(packets, 1).expect("sound traffic").with_arrivals(600, 200_000, 1);
        Offered::of(traffic, pace).expect("sound traffic")
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
fn every_scheme_does_the_same_on_every_machine() {
    let settings = settings();
    let found: Vec<(String, [u64; 4])> = Scheme::ALL
        .iter()
        .map(|scheme| {
            let run = |(machine, offered): &(Machine, Offered)| {
                all_of(&scheme.run(machine, offered, 7).expect("sound machines"))
            };
            (scheme.name.to_owned(), settings.each_ref().map(run))
        })
        .collect();
    compare(&found, &RUNS);
}

/// Records what a check shows to a policy, and assigns workers round robin.
#[derive(Default)]
struct Witness {
    seen: Vec<u64>,
    waiting: std::collections::VecDeque<u32>,
    turn: u16,
}

impl Placement for Witness {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.seen.extend(items.iter().flat_map(|item| [u64::from(item.digest), u64::from(item.bytes)]));
        for reported in [load.sent, load.completed, load.sent_bytes, load.completed_bytes, load.busy] {
            self.seen.extend(reported);
        }
        for decision in decisions {
            self.turn = (self.turn + 1) % 3;
            *decision = Decision::To(WorkerId::from(self.turn));
        }
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::None
    }

    fn name(&self) -> &'static str {
        "witness"
    }
}

impl PullPolicy for Witness {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        self.seen.extend([u64::from(token), u64::from(item.digest), u64::from(item.bytes)]);
        self.waiting.push_back(token);
        None
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        self.seen.push(worker.index() as u64);
        let token = self.waiting.pop_front()?;
        Some(Fetched { token, steps: flowloom_scheduler::pull::FetchCost::default() })
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::PerFlow
    }

    fn name(&self) -> &'static str {
        "witness"
    }
}

#[test]
fn laws_ask_the_same_of_a_seed() {
    let seen = |check: &dyn Fn(&mut Witness)| {
        let mut witness = Witness::default();
        check(&mut witness);
        folded(witness.seen)
    };
    let workers = |count| WorkerCount::new(count).unwrap();
    let found = [
        ("order", seen(&|witness| laws::check_order(witness, workers(3), 11))),
        ("shares", seen(&|witness| laws::check(witness, workers(3), 12))),
        ("policy", seen(&|witness| laws::check_pull(witness, workers(1), 13))),
    ];
    let found: Vec<(String, [u64; 1])> =
        found.into_iter().map(|(name, figure)| (name.to_owned(), [figure])).collect();
    compare(&found, &LAWS);
}

const TRAFFIC: [(&str, [u64; 2]); 9] = [
    ("dominant", [0xFD98_2AD7_5F00_4EAA, 0x834A_6A49_3E63_DF97]),
    ("many", [0x8BC3_F376_A775_093E, 0x5C66_C1F5_F780_A0B0]),
    ("balanced", [0xBF5B_58DF_9EC3_DF82, 0x3861_99E3_A3A4_2111]),
    ("l7", [0x9982_7960_95E7_7E27, 0xF7D6_62BA_3F8D_C488]),
    ("l7-elephant", [0xD696_A889_4AE8_F9F9, 0x9B37_5295_73C5_E859]),
    ("zipf", [0x5D51_4C75_31C0_066A, 0xA39D_AE34_12EE_FFA0]),
    ("bursts", [0x8847_A8A6_B43C_2E5D, 0x5AE1_C767_6E38_12CF]),
    ("elephants", [0x7BF0_FEEA_DABA_7CE2, 0xBAB1_9B65_E255_BA84]),
    ("attack", [0x342D_3F09_ACEE_C225, 0xCA26_2ED5_43ED_FEEA]),
];
const RUNS: [(&str, [u64; 4]); 26] = [
    ("rr", [0x3A0C_3087_5A1C_8C4F, 0xD2E7_FCCB_A091_DB90, 0x88F4_E7F5_FD9F_922A, 0x0021_EC5C_D2A8_1198]),
    ("dh", [0xD758_43B2_7595_F386, 0x180F_50DC_B3F8_146F, 0x23BE_CFF3_6DBD_8508, 0x3042_8418_05A2_AB2D]),
    ("crc", [0x5276_21A7_9600_9FC4, 0x4A0D_F439_C255_041B, 0xF0FD_CE2C_C7D7_50E8, 0x8C8E_C9F9_9C70_39CE]),
    ("dst", [0x5489_87AA_6C89_E95E, 0x54E5_C3E3_9626_6D7D, 0x006D_BD7C_14CB_1E1A, 0x0BFD_6597_3502_AEC0]),
    ("rss", [0xD3E5_DD2B_C2BB_BD96, 0xBBEB_343A_8122_7F7B, 0xC022_6700_2C5D_968A, 0xBE75_DF9F_DEE5_CA89]),
    ("rss++", [0x1015_35DC_BD18_AAD6, 0x12F6_B0BD_2F29_C98C, 0x0A5A_2F24_487A_5276, 0x8B22_11A0_10F0_E135]),
    ("fixed", [0x12BE_06BE_573A_CE74, 0x17A8_DCB3_5963_83E3, 0xF6F1_A4E4_F617_7BBB, 0x19FA_239D_B142_8E90]),
    (
        "minload",
        [0x00F5_2351_8513_AE98, 0xFF4F_AB07_D3FD_3A80, 0x2173_880D_77B3_DDF1, 0x838C_78E9_3574_82A0],
    ),
    ("hrw", [0x0C19_E954_1AAF_C625, 0x4BD4_E6C9_35F3_846A, 0xEECF_6366_E116_7D8C, 0xA0B8_4FC6_5A4C_A189]),
    ("hrw3", [0x4C4B_31B9_69F5_6CD5, 0x250A_A715_785B_46F2, 0x791A_3E86_2635_A588, 0x1E57_1FDC_DF06_FA85]),
    (
        "hrw3-2009",
        [0x6041_6809_EDA9_D733, 0xF7A7_83ED_F1F7_38CF, 0xB151_45C3_A497_BBA3, 0x75D8_C940_9641_9C9A],
    ),
    (
        "adaptive",
        [0x854B_AF70_F5AF_3D52, 0x49F5_5B48_4CB8_E74E, 0x81E5_E591_7376_2D8B, 0x871E_4D03_6730_E1A2],
    ),
    (
        "adaptive-fitted",
        [0xBD59_AD07_4631_59D9, 0xE1EE_8A31_5892_30B3, 0x5D8C_D7BC_464F_A470, 0x7A7F_A152_1980_7932],
    ),
    (
        "adaptive-racy",
        [0xB241_A08F_C3BF_3099, 0x669E_A100_52BD_0D9B, 0x6533_C22A_2799_B7E6, 0x460C_70E5_1FDB_BDB3],
    ),
    (
        "adaptive-2009",
        [0x3C90_45DB_2A49_6892, 0x4B54_4C34_0B2E_2F44, 0x3CDD_68E2_784F_24A6, 0x0625_70D9_94D6_B237],
    ),
    (
        "pckt+os",
        [0x69BA_5736_1C17_5F97, 0x78DE_1147_9DF9_A5F4, 0x88F4_E7F5_FD9F_922A, 0xC3EB_0C78_8DE0_3B55],
    ),
    (
        "conn+aff",
        [0xD758_43B2_7595_F386, 0x180F_50DC_B3F8_146F, 0x23BE_CFF3_6DBD_8508, 0x3042_8418_05A2_AB2D],
    ),
    (
        "conn+os",
        [0x8876_A8F6_727E_4349, 0xF378_21BB_6BE0_10A6, 0x23BE_CFF3_6DBD_8508, 0xE38E_D23E_031A_BEB6],
    ),
    ("scr", [0x1286_5567_96B0_FAEA, 0xE722_2450_D414_72C2, 0xE2A4_89C1_4AA6_460D, 0xDDF0_44AC_B1A8_0B33]),
    ("fbs", [0x5FA3_C7EA_1EEF_29E9, 0xC0EF_9601_05E0_854D, 0x1E2F_71B4_FF20_4C7C, 0x13F3_E70C_A17E_BC88]),
    ("p2c", [0x27E8_6BF4_E1D3_729F, 0x4355_192B_BA10_C305, 0x11E3_A76D_6655_8C7D, 0x49BA_6F36_CD98_384E]),
    (
        "flowpin",
        [0xCE90_AB67_2CB9_73B3, 0xDF8F_EFB5_A88D_531F, 0x8F7D_C36F_B5D0_F6ED, 0x08D3_BC14_9E4C_E3E9],
    ),
    ("ph", [0xC2B4_1689_B3DE_37B7, 0x30A6_50FC_B57B_FF9E, 0xBE03_C000_F351_35B1, 0xF6AB_EA26_172A_D55E]),
    ("lfb", [0xF173_BB4E_4E0D_6917, 0x1A78_4183_6E22_419D, 0xF1F7_8547_8BD6_5A9F, 0xD9C5_9CF9_D277_DAB1]),
    (
        "lfb-ns",
        [0x0AED_B8F5_16F1_9E24, 0xA560_D768_87A9_512E, 0x75DB_887A_FC5A_3CD8, 0x1FB4_CE55_75C1_9F62],
    ),
    (
        "flowpull",
        [0xC93C_4E48_1907_34EC, 0x18AF_D9F5_51B2_E9B7, 0x7A16_55CF_F5A2_56B5, 0xDB39_244B_FCB6_FBDD],
    ),
];
const LAWS: [(&str, [u64; 1]); 3] = [
    ("order", [0x0DE5_D41E_8302_667E]),
    ("shares", [0x0C96_3BA5_6E96_8B2A]),
    ("policy", [0x2F38_1A33_3FD1_60EE]),
];
