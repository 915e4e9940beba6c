//! Trees of generated sets stay small, and are read and built in few steps. A badly chosen cut, or
//! one too many, would make them worse.

use flowloom_classifier::flowcuts::plan::{Plan, Split};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{Algorithm, ClassifierBuilder, KeyV4};

const fn plan(split: Split, leaf_rules: usize, growth_max: f64) -> Algorithm {
    Algorithm::FlowCuts(Plan { split, leaf_rules, growth_max })
}

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Auto,
    plan(Split::Whole, 16, 16.0),
    plan(Split::Whole, 8, 4.0),
    plan(Split::Lengths { source: 15, destination: 15 }, 8, 32.0),
];

/// Costs of each algorithm when this test was written: for a header, four cycles per node and ten
/// per block, in hundredths; bytes; build steps.
const TAKEN: [(Profile, [[u64; 3]; 4]); 3] = [
    (
        Profile::Acl,
        [
            [1419, 93_408, 1_056_676],
            [1285, 161_856, 212_658],
            [1307, 196_544, 249_636],
            [1329, 200_016, 257_730],
        ],
    ),
    (
        Profile::Firewall,
        [
            [3042, 206_344, 9_363_704],
            [5893, 456_360, 7_831_468],
            [11_374, 139_904, 2_550_481],
            [3453, 171_296, 251_734],
        ],
    ),
    (
        Profile::PacketFilter,
        [
            [1897, 182_648, 9_588_835],
            [4456, 344_416, 3_030_363],
            [6681, 129_152, 1_292_880],
            [3311, 306_784, 5_298_238],
        ],
    ),
];

#[test]
fn tree_sizes_stay_near_the_recorded_ones() {
    const HEADERS: u64 = 1000;
    let mut found = Vec::new();
    for (profile, taken) in TAKEN {
        let set = synth::rules(profile, 1500, 3, false).unwrap();
        let keys: Vec<KeyV4> = headers(&set, Traffic::MISSES, 1000, 1);
        for (algorithm, [cost, bytes, steps]) in ALGORITHMS.into_iter().zip(taken) {
            let classifier = ClassifierBuilder::new().algorithm(algorithm).build(&set).unwrap();
            let reads = keys.iter().map(|key| classifier.classify_counting(key).1);
            let cycles: u64 =
                reads.map(|reads| 4 * u64::from(reads.nodes) + 10 * u64::from(reads.blocks)).sum();
            let stats = classifier.stats().v4;
            let now = [100 * cycles / HEADERS, stats.bytes() as u64, stats.build_steps];
            // Better values are accepted. A fifth worse fails, and for the lookup of headers a
            // twentieth worse fails.
            let is_good = now[0] * 20 <= cost * 21 && now[1] * 5 <= bytes * 6 && now[2] * 5 <= steps * 6;
            found.push((
                is_good,
                format!("{profile:?} {algorithm:?}: {now:?}, it was {:?}", [cost, bytes, steps]),
            ));
        }
    }
    let worse: Vec<&str> =
        found.iter().filter(|(is_good, _)| !is_good).map(|(_, said)| said.as_str()).collect();
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
