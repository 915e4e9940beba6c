//! Fast and simple implementations of the banked caches agree, access by access.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flowloom_tcb_cache::reference::ReferenceCache;
use flowloom_tcb_cache::{
    Access, CacheSpec, Candidate, Geometry, IndexFunction, Policy, ReplacementPolicy, Simulator, Tie,
};
use proptest::prelude::*;

fn sorted(cache: &dyn Simulator) -> Vec<u64> {
    let mut keys = cache.resident();
    keys.sort_unstable();
    keys
}

fn banked_policy() -> impl Strategy<Value = Policy> {
    let policies: Vec<Policy> = Policy::ALL
        .into_iter()
        .filter(|policy| !policy.is_fully_associative() && !policy.needs_future())
        .chain([Policy::Timestamp { bits: 3 }, Policy::TimestampDistance { bits: 3 }])
        .chain([Policy::TimestampDistance { bits: 16 }])
        .collect();
    prop::sample::select(policies)
}

fn index() -> impl Strategy<Value = IndexFunction> {
    prop_oneof![
        Just(IndexFunction::Modulo),
        Just(IndexFunction::Xor),
        Just(IndexFunction::PrimeModulo),
        Just(IndexFunction::PrimeDisplacement),
        Just(IndexFunction::Crc),
        (4_u32..=48, any::<bool>())
            .prop_map(|(key_bits, full_rank)| IndexFunction::H3 { key_bits, full_rank }),
    ]
}

fn spec() -> impl Strategy<Value = CacheSpec> {
    let shape = prop_oneof![
        Just((2, 4)),
        Just((1, 8)),
        (1_u32..=4, prop::sample::select(vec![1_u32, 2, 3, 4, 8])),
    ];
    (banked_policy(), index(), shape, 0_u32..4, any::<bool>(), any::<u64>()).prop_map(
        |(policy, index, (banks, ways), sets, drops_closed, seed)| {
            let bytes = u64::from(64 * banks * ways) << sets;
            let geometry = Geometry::new(bytes, 64, banks, ways).unwrap();
            CacheSpec { geometry, index, policy, drops_closed, seed }
        },
    )
}

/// Accesses over a few sessions, with pauses long enough for lines to go OFF, and times that go
/// back.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let gap = prop_oneof![6 => 0_i64..40, 2 => 200_i64..800, 1 => -500_i64..0];
    prop::collection::vec((0_u16..90, gap, 0_u32..8), 1..500).prop_map(|steps| {
        let mut now = 1000_i64;
        steps
            .into_iter()
            .map(|(session, gap, close)| {
                now = (now + gap).max(0);
                let (address, port) = (0x0A00_0000 + u32::from(session / 7) * 3, 1024 + session % 7);
                let key = Access::nth_session_key(address, port, session % 2);
                let access = Access::new(key, now.unsigned_abs());
                if close == 0 { access.closing() } else { access }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn production_and_reference_agree(spec in spec(), accesses in accesses()) {
        let mut quick = spec.build().unwrap();
        let mut plain = ReferenceCache::new(&spec).unwrap();
        for (number, access) in accesses.iter().enumerate() {
            quick.run(&[*access]);
            plain.run(&[*access]);
            prop_assert_eq!(quick.counts(), plain.counts(), "{:?} at access {}", spec, number);
            if number % 16 == 0 {
                prop_assert_eq!(sorted(&*quick), sorted(&plain), "{:?} at access {}", spec, number);
            }
        }
        let keys = sorted(&*quick);
        prop_assert_eq!(&keys, &sorted(&plain));
        prop_assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a line is in one place: {:?}", keys);
        let counts = quick.counts();
        prop_assert_eq!(counts.accesses, counts.hits + counts.misses);
        prop_assert_eq!(counts.accesses, accesses.len() as u64);
        let filled = counts.misses - counts.not_filled;
        prop_assert_eq!(filled, counts.evictions + counts.closed + keys.len() as u64);
    }

    #[test]
    fn simulation_split_anywhere_gives_equal_counts(spec in spec(), accesses in accesses(), cut: prop::sample::Index) {
        let mut whole = spec.build().unwrap();
        whole.run(&accesses);
        let mut parts = spec.build().unwrap();
        let (first, second) = accesses.split_at(cut.index(accesses.len()));
        parts.run(first);
        parts.run(second);
        prop_assert_eq!(whole.counts(), parts.counts());
    }
}

#[test]
fn with_one_bank_banked_and_set_associative_policies_are_the_same() {
    let trace: Vec<Access> =
        (0..5000_u64).map(|i| Access::new(i * i % 613 + (i % 7) * 64, i * 20)).collect();
    let misses = |policy| {
        let geometry = Geometry::PAPER.single_bank();
        let spec = CacheSpec { geometry, policy, ..CacheSpec::BASELINE };
        let mut cache = spec.build().unwrap();
        cache.run(&trace);
        cache.counts()
    };
    let lru = misses(Policy::Lru);
    assert!(lru.misses > 600 && lru.hits > 600, "{lru:?}");
    for policy in [Policy::RoundRobin, Policy::NoMigrate { tie: Tie::Left }, Policy::Timestamp { bits: 32 }]
    {
        assert_eq!(misses(policy), lru, "{policy}");
    }
}

/// Predictors learn from more misses than the random traces have: DRRIP fills one line in 32
/// differently, and its sets must have chosen a method.
#[test]
fn predictors_agree_with_their_references_over_a_long_run() {
    // A loop of three times the lines, and keys that are used again soon.
    let trace: Vec<Access> = (0..60_000_u32)
        .map(|i| if i % 3 == 0 { i % 97 } else { 1000 + i % 1536 })
        .map(|key| Access::new(Access::nth_session_key(0x0A00_0000 + key, 1024, 0), u64::from(key)))
        .collect();
    for policy in [Policy::Srrip, Policy::Drrip, Policy::Ship] {
        let spec = CacheSpec::PAPER.with_policy(policy);
        let (mut quick, mut plain) = (spec.build().unwrap(), ReferenceCache::new(&spec).unwrap());
        quick.run(&trace);
        plain.run(&trace);
        assert_eq!(quick.counts(), plain.counts(), "{policy}");
        assert_eq!(sorted(&*quick), sorted(&plain), "{policy}");
    }
}

/// LRU, and the oldest of the bank with fewer ON lines, from the outside.
#[derive(Debug)]
enum Outside {
    Lru,
    FewerOn,
}

impl ReplacementPolicy for Outside {
    fn choose(&mut self, _key: u64, candidates: &[Candidate]) -> usize {
        let on = |bank| candidates.iter().filter(|one| one.bank == bank && one.is_on).count();
        let rank = |at: &usize| {
            let one = candidates[*at];
            (if matches!(self, Self::FewerOn) { (on(one.bank), one.bank) } else { (0, 0) }, one.last_use)
        };
        (0..candidates.len()).min_by_key(rank).unwrap()
    }
}

proptest! {
    #[test]
    fn external_copy_of_a_policy_behaves_as_the_built_in_one(spec in spec(), accesses in accesses()) {
        for (outside, policy) in
            [(Outside::Lru, Policy::Lru), (Outside::FewerOn, Policy::NoMigrate { tie: Tie::Left })]
        {
            let mut built_in = CacheSpec { policy, ..spec }.build().unwrap();
            let mut own = spec.build_with(outside).unwrap();
            built_in.run(&accesses);
            own.run(&accesses);
            prop_assert_eq!(own.counts(), built_in.counts());
            prop_assert_eq!(sorted(&*own), sorted(&*built_in));
        }
    }
}

/// Counts uses and ends, and evicts the line with the fewest.
#[derive(Debug)]
struct Uses(Vec<u32>);

impl ReplacementPolicy for Uses {
    fn choose(&mut self, _key: u64, candidates: &[Candidate]) -> usize {
        let least = (0..candidates.len()).min_by_key(|&at| self.0[candidates[at].line]).unwrap();
        self.0[candidates[least].line] = 1;
        least
    }

    fn hit(&mut self, line: usize) {
        self.0[line] += 1;
    }

    fn closed(&mut self, line: usize) {
        self.0[line] = 0;
    }
}

#[test]
fn external_policy_is_told_of_hits_and_ends() {
    let spec = CacheSpec { geometry: Geometry::new(256, 64, 2, 2).unwrap(), ..CacheSpec::PAPER };
    let spec = CacheSpec { drops_closed: true, ..spec };
    let mut cache = spec.build_with(Uses(vec![0; 4])).unwrap();
    // Four lines in one set per bank; all but the third are used twice.
    let keys = [1, 2, 3, 4].map(|key: u64| key << 16);
    let run = |cache: &mut dyn Simulator, at: usize| cache.run(&[Access::new(keys[at], 0)]);
    (0..4).chain([0, 1, 3]).for_each(|at| run(&mut *cache, at));
    cache.run(&[Access::new(9 << 16, 1)]);
    assert_eq!(sorted(&*cache), [1 << 16, 2 << 16, 4 << 16, 9 << 16]);
    // What ends leaves its line to the next session.
    cache.run(&[Access::new(keys[0], 2).closing(), Access::new(8 << 16, 3)]);
    assert_eq!(sorted(&*cache), [2 << 16, 4 << 16, 8 << 16, 9 << 16]);
    assert_eq!((cache.counts().closed, cache.counts().evictions), (1, 1));
}
