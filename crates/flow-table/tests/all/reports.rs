//! Reports of tables, victims of eviction, and lookups of flows outside their bucket.

use flowloom_flow_table::TableHash;
use std::collections::BTreeSet;

use flowloom_cpu::features::Isa;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::dhash::ReferenceDHash;
use flowloom_flow_table::evict::{Evict, Refuse, UnestablishedFirst, WINDOW};
use flowloom_flow_table::sighash::ReferenceSigHash;
use flowloom_flow_table::{
    BuildError, DHash, Flow, FlowId, FlowIndex, FlowTable, Growing, LineHash, MemoryReport, SigHash,
    TableKey, TableOptions, Tick, TimeoutClass, Timeouts,
};

const CLASS: TimeoutClass = TimeoutClass(0);

fn timeouts() -> Timeouts {
    Timeouts::NEVER.with(CLASS, 100).with(TimeoutClass(1), 1000)
}

fn hash(key: u64) -> TableHash {
    TableHash::from_mixed(split_mix(&mut key.clone()))
}

/// Builds a table under a limit of memory.
type Build<'a> = &'a dyn Fn(u64) -> Result<MemoryReport, BuildError>;

/// Builds a table under a limit of memory, and returns its memory report.
macro_rules! built {
    ($table:ident, $config:expr, $limit:expr) => {{
        let mut config = $config;
        config.memory_limit_bytes = $limit;
        config.timeouts = timeouts();
        $table::<u64, u64>::try_new(&config).map(|table| table.memory())
    }};
}

#[test]
fn a_table_reserves_exactly_the_bytes_it_reports() {
    for flows in [1000, 5000] {
        let tables: [(&str, Build<'_>); 7] = [
            ("LineHash", &|limit| built!(LineHash, TableOptions::for_flows(flows), limit)),
            ("DHash", &|limit| built!(DHash, TableOptions::for_flows(flows), limit)),
            ("ReferenceDHash", &|limit| built!(ReferenceDHash, TableOptions::for_flows(flows), limit)),
            ("SigHash", &|limit| built!(SigHash, TableOptions::for_flows(flows), limit)),
            ("ReferenceSigHash", &|limit| built!(ReferenceSigHash, TableOptions::for_flows(flows), limit)),
            ("Chained", &|limit| built!(Chained, TableOptions::for_flows(flows), limit)),
            ("DirectTable", &|limit| built!(DirectTable, TableOptions::for_flows(flows), limit)),
        ];
        for (name, build) in tables {
            let Err(BuildError::TooLarge { needed_bytes, limit_bytes: 1 }) = build(1) else {
                panic!("{name}: one byte is too few");
            };
            assert!(build(needed_bytes - 1).is_err(), "{name}");
            let memory = build(needed_bytes).expect("as many as are needed");
            // Each array begins and ends with a separate line.
            let more = memory.total_bytes() - needed_bytes;
            assert!(more < 8 * 64, "{name}: {memory:?} where {needed_bytes} are needed");
            assert_eq!(memory.pages.bytes, memory.index_bytes + memory.state_bytes, "{name}: {memory:?}");
            assert_eq!(memory.lookup_bytes(), memory.index_bytes + memory.list_bytes, "{name}");
            let all = memory.lookup_bytes() + memory.state_bytes + memory.wheel_bytes;
            assert_eq!(memory.total_bytes(), all, "{name}");
            assert!(memory.state_bytes >= u64::from(flows) * 24 && memory.wheel_bytes > 0, "{name}");
            assert!(memory.list_bytes > 0 && (memory.index_bytes > 0 || name == "DirectTable"), "{name}");
            let twice = memory.and(memory);
            assert_eq!(twice.total_bytes(), 2 * memory.total_bytes(), "{name}");
            assert_eq!(
                [
                    twice.index_bytes, twice.state_bytes, twice.list_bytes, twice.wheel_bytes,
                    twice.pages.bytes
                ],
                [
                    2 * memory.index_bytes,
                    2 * memory.state_bytes,
                    2 * memory.list_bytes,
                    2 * memory.wheel_bytes,
                    2 * memory.pages.bytes
                ]
            );
        }
    }
}

/// Tries to build a table with one byte of memory, which fails before anything is reserved. Returns
/// the error.
macro_rules! refusal {
    ($table:ident, $config:expr) => {{
        let mut config = $config;
        config.memory_limit_bytes = 1;
        match $table::<u64, ()>::try_new(&config) {
            Ok(_) => panic!("a byte is too few"),
            Err(error) => error,
        }
    }};
}

#[test]
fn flow_count_beyond_the_range_of_links_is_refused() {
    let most = (1 << 27) - 1;
    for flows in [1 << 27, 1 << 28, (1 << 30) + 1, u32::MAX] {
        let error = refusal!(Chained, TableOptions::for_flows(flows));
        assert_eq!(error, BuildError::TooManyLinks { places: flows.into(), places_max: most });
        let direct = TableOptions { buckets: Some(1), ..TableOptions::for_flows(flows) };
        let error = refusal!(DirectTable, direct);
        assert_eq!(error, BuildError::TooManyLinks { places: u64::from(flows) + 1, places_max: most });
        assert!(
            error.to_string().contains("134217727") && error.to_string().contains("fewer flows"),
            "{error}"
        );
    }
    let error = refusal!(DirectTable, TableOptions::for_flows(1 << 26));
    assert_eq!(error, BuildError::TooManyLinks { places: 1 << 27, places_max: most });
    // Up to this size, memory is the limit.
    let few = |error| matches!(error, BuildError::TooLarge { limit_bytes: 1, .. });
    assert!(few(refusal!(Chained, TableOptions::for_flows((1 << 27) - 1))));
    assert!(few(refusal!(DirectTable, TableOptions::for_flows((1 << 26) - 1))));
    assert_eq!(refusal!(Chained, TableOptions::for_flows(0)), BuildError::NoCapacity);
    assert_eq!(refusal!(DirectTable, TableOptions::for_flows(0)), BuildError::NoCapacity);
}

#[test]
fn list_count_beyond_the_range_of_links_is_refused() {
    let config = |buckets| TableOptions { buckets: Some(buckets), ..TableOptions::for_flows(9) };
    assert!(matches!(refusal!(Chained, config(1 << 31)), BuildError::TooLarge { .. }));
    let mut config = config((1 << 31) + 1);
    config.memory_limit_bytes = u64::MAX;
    let Err(error) = Chained::<u64, ()>::try_new(&config) else { panic!("links cannot begin them") };
    assert_eq!(error, BuildError::TooManyPlaces { places: (1 << 31) + 1, places_max: 1 << 31 });
}

#[test]
fn tables_accept_exactly_their_capacity() {
    let too_many = |flows| BuildError::TooManyFlows { flows: flows + 1, flows_max: flows };
    let most = SigHash::<u64, ()>::FLOWS_MAX;
    assert_eq!(most, 1 << 28);
    assert!(matches!(refusal!(SigHash, TableOptions::for_flows(most)), BuildError::TooLarge { .. }));
    assert_eq!(refusal!(SigHash, TableOptions::for_flows(most + 1)), too_many(1 << 28));
    assert_eq!(refusal!(ReferenceSigHash, TableOptions::for_flows(most + 1)), too_many(1 << 28));
    // With fewer buckets than flows, there are additional states.
    let fewer = |flows| TableOptions { buckets: Some(500_000_000), ..TableOptions::for_flows(flows) };
    assert!(matches!(refusal!(SigHash, fewer(1 << 30)), BuildError::TooLarge { .. }));
    assert_eq!(refusal!(SigHash, fewer((1 << 30) + 1)), too_many(1 << 30));
    let lines = TableOptions { buckets: Some(u32::MAX), ..TableOptions::for_flows(1000) };
    assert!(
        matches!(refusal!(LineHash, lines), BuildError::TooManyPlaces { places, places_max } if places > places_max)
    );
    assert!(matches!(refusal!(LineHash, TableOptions::for_flows(1 << 30)), BuildError::TooLarge { .. }));
    assert_eq!(refusal!(LineHash, TableOptions::for_flows((1 << 30) + 1)), too_many(1 << 30));
    assert!(matches!(refusal!(DHash, TableOptions::for_flows(1 << 30)), BuildError::TooLarge { .. }));
    assert_eq!(refusal!(DHash, TableOptions::for_flows((1 << 30) + 1)), too_many(1 << 30));
}

#[test]
fn page_report_covers_index_and_states() {
    let table = DHash::<u64, u64>::try_new(&TableOptions::for_flows(1000)).unwrap();
    assert_eq!(table.pages_obtained().bytes, table.memory().pages.bytes);
    assert_eq!(u64::from(table.bucket_count()) * 64, table.memory().index_bytes);
    assert!(format!("{table:?}").starts_with("DHash { buckets: "), "{table:?}");
    let table = LineHash::<u64, u64>::try_new(&TableOptions::for_flows(1000)).unwrap();
    assert_eq!(table.pages_obtained().bytes, table.memory().pages.bytes);
    assert!(format!("{table:?}").starts_with("LineHash { lines: 45"), "{table:?}");
    let table = SigHash::<u64, u64>::try_new(&TableOptions::for_flows(1000)).unwrap();
    assert!(format!("{table:?}").starts_with("SigHash { buckets: 1024"), "{table:?}");
    let table = DirectTable::<u64, u64>::try_new(&TableOptions::for_flows(1000)).unwrap();
    assert!(format!("{table:?}").starts_with("DirectTable { buckets: 1000"), "{table:?}");
}

/// Checks the memory report of tables whose pages are all resident.
fn check_pages<T: FlowTable<u64, u64>>(name: &str, table: Result<T, BuildError>) {
    let table = table.expect("it fits");
    let (reserved, obtained) = (table.memory().pages, table.pages_obtained());
    assert_eq!(reserved.huge_obtained, None, "{name}: not asked");
    assert_eq!(
        (reserved.bytes, reserved.huge_requested),
        (obtained.bytes, obtained.huge_requested),
        "{name}"
    );
    // Whether the machine has any available does not matter here.
    let is_known = cfg!(all(target_os = "linux", not(miri)));
    assert_eq!(obtained.huge_obtained.is_some(), is_known, "{name}: {obtained:?}");
}

#[test]
fn every_table_reports_whether_huge_pages_were_obtained() {
    // Enough for a huge page.
    let flows = if cfg!(miri) { 100 } else { 200_000 };
    check_pages("LineHash", LineHash::try_new(&TableOptions::for_flows(flows)));
    check_pages("DHash", DHash::try_new(&TableOptions::for_flows(flows)));
    check_pages("ReferenceDHash", ReferenceDHash::<u64, u64>::try_new(&TableOptions::for_flows(flows)));
    check_pages("SigHash", SigHash::try_new(&TableOptions::for_flows(flows)));
    check_pages("ReferenceSigHash", ReferenceSigHash::try_new(&TableOptions::for_flows(flows)));
    check_pages("Chained", Chained::try_new(&TableOptions::for_flows(flows)));
    check_pages("DirectTable", DirectTable::try_new(&TableOptions::for_flows(flows)));
    let grown = Growing::try_new(10, TableOptions::for_flows(flows), DHash::try_new);
    let grown = grown.map(|mut table| {
        for key in 0..u64::from(flows) {
            table.insert(key, hash(key), key, CLASS, Tick(0)).unwrap();
        }
        assert!(table.stats().segments > 1);
        table
    });
    check_pages("Growing", grown);
}

#[test]
fn lines_and_pool_grow_with_the_flows() {
    // Two lines for 45 flows; one pool state for a thousand, and 64.
    for (flows, lines, pool) in [(1, 1, 64), (999, 45, 64), (4_500_999, 200_045, 4564)] {
        let table = LineHash::<u64, ()>::try_new(&TableOptions::for_flows(flows)).unwrap();
        let pool_size = FlowTable::stats(&table).pool_size;
        assert_eq!((table.line_count(), pool_size), (lines, pool), "{flows}");
    }
}

/// Evicts the flow with the greatest value, and keeps flows with odd values.
#[derive(Default)]
struct GreatestEven {
    offered: Vec<u64>,
    gone: Vec<u64>,
}

impl Evict<u64, u64> for GreatestEven {
    fn rank(&mut self, candidate: &Flow<'_, u64, u64>) -> Option<u64> {
        self.offered.push(*candidate.value);
        candidate.value.is_multiple_of(2).then_some(*candidate.value)
    }

    fn evicted(&mut self, _id: FlowId, _key: u64, value: u64) {
        self.gone.push(value);
    }
}

/// Checks every table with few flows, all in one bucket.
fn check_small(name: &str, table: &mut impl FlowTable<u64, u64>, flows: u64) {
    let values = |key: u64| key * 7 % 16;
    let ids: Vec<_> = (0..flows)
        .map(|key| {
            table.insert(key, TableHash::default(), values(key), CLASS, Tick(key)).expect("there is space")
        })
        .collect();
    // Classes.
    assert_eq!(table.class_of(ids[1]), Some(CLASS), "{name}");
    assert!(table.set_class(ids[1], TimeoutClass(1)), "{name}");
    let classes: Vec<_> = ids.iter().take(3).map(|&id| table.class_of(id).map(|class| class.0)).collect();
    assert_eq!(classes, [Some(0), Some(1), Some(0)], "{name}");
    // The highest-ranked evictable flow is evicted.
    let mut policy = GreatestEven::default();
    assert!(!table.evict(TableHash::default(), &mut Refuse), "{name}");
    assert!(table.evict(TableHash::default(), &mut policy), "{name}");
    let best = policy.offered.iter().filter(|&value| value.is_multiple_of(2)).max();
    assert_eq!(policy.gone.iter().max(), best, "{name}");
    assert!(policy.offered.len() > 1, "{name}: {:?}", policy.offered);
    let distinct: BTreeSet<_> = policy.offered.iter().collect();
    assert_eq!(distinct.len(), policy.offered.len(), "{name}: {:?} with some twice", policy.offered);
    assert_eq!((table.len(), table.stats().evicted), (u32::try_from(flows).expect("few") - 1, 1), "{name}");
    let gone = ids.iter().find(|&&id| table.get(id).is_none()).expect("one went");
    assert_eq!(table.class_of(*gone), None, "{name}");
    // Everything is removed.
    table.clear();
    let stats = table.stats();
    assert_eq!((table.len(), stats.removed, stats.inserted), (0, flows - 1, flows), "{name}");
    assert!(ids.iter().all(|&id| table.get(id).is_none() && table.class_of(id).is_none()), "{name}");
    assert!(!table.evict(TableHash::default(), &mut policy), "{name}: no flow exists");
}

#[test]
fn classes_evictions_and_clearing_are_alike_in_every_table() {
    let line = TableOptions { buckets: Some(1), timeouts: timeouts(), ..TableOptions::for_flows(12) };
    let dhash = TableOptions { buckets: Some(1), timeouts: timeouts(), ..TableOptions::for_flows(12) };
    let sig = TableOptions { buckets: Some(2), timeouts: timeouts(), ..TableOptions::for_flows(12) };
    let chained = TableOptions { buckets: Some(1), timeouts: timeouts(), ..TableOptions::for_flows(12) };
    let direct = TableOptions { buckets: Some(1), timeouts: timeouts(), ..TableOptions::for_flows(12) };
    check_small("LineHash", &mut LineHash::try_new(&line).unwrap(), 12);
    check_small("DHash", &mut DHash::try_new(&dhash).unwrap(), 12);
    check_small("ReferenceDHash", &mut ReferenceDHash::<u64, u64>::try_new(&dhash).unwrap(), 12);
    check_small("SigHash", &mut SigHash::try_new(&sig).unwrap(), 12);
    check_small("ReferenceSigHash", &mut ReferenceSigHash::try_new(&sig).unwrap(), 12);
    check_small("Chained", &mut Chained::try_new(&chained).unwrap(), 12);
    check_small("DirectTable", &mut DirectTable::try_new(&direct).unwrap(), 12);
    let mut growing = Growing::try_new(3, TableOptions { flows: 100, ..dhash }, DHash::try_new).unwrap();
    check_small("Growing", &mut growing, 12);
}

/// Looks up keys by their hashes.
type Lookup<'a> = &'a mut dyn FnMut(&[u64], &[TableHash], &mut [Option<FlowId>]);

/// Fills a table far beyond its buckets and checks that every flow is found, one by one and in
/// batches, and no other.
fn check_overfull(name: &str, table: &mut impl FlowTable<u64, u64>, flows: u64) {
    let mut ids: Vec<_> = (0..flows)
        .map(|key| Some(table.insert(key, hash(key), key, CLASS, Tick(0)).expect("there is space")))
        .collect();
    let compare = |table: Lookup<'_>, ids: &[Option<FlowId>]| {
        let keys: Vec<u64> = (0..2 * flows).collect();
        let hashes: Vec<TableHash> = keys.iter().map(|&key| hash(key)).collect();
        let mut found = vec![None; keys.len()];
        table(&keys, &hashes, &mut found);
        let (there, not) = found.split_at(ids.len());
        assert!(there == ids && not.iter().all(Option::is_none), "{name}");
    };
    for round in 0..3 {
        compare(&mut |keys, hashes, found| table.lookup_batch(keys, hashes, found), &ids);
        compare(
            &mut |keys, hashes, found| {
                for ((key, &hash), found) in keys.iter().zip(hashes).zip(found) {
                    *found = table.lookup(key, TableHash::from_mixed(hash.bits()));
                }
            },
            &ids,
        );
        // Some flows end, and others take different places.
        for key in (round..flows).step_by(3) {
            let id = ids[usize::try_from(key).expect("few")].expect("it is there");
            assert_eq!(table.remove(id), Some((key, key)), "{name}");
        }
        for key in (round..flows).step_by(3).collect::<Vec<_>>().into_iter().rev() {
            let id = table.insert(key, hash(key), key, CLASS, Tick(0)).expect("there is space again");
            ids[usize::try_from(key).expect("few")] = Some(id);
        }
    }
}

#[test]
fn flows_beyond_their_buckets_are_found() {
    // Fewer where every step is interpreted.
    let lines_max = if cfg!(miri) { 1 } else { 12 };
    for isa in Isa::available() {
        for lines in [1, 4, 12].into_iter().filter(|&lines| lines <= lines_max) {
            let config = TableOptions {
                buckets: Some(lines),
                pool: Some(300),
                list_cap: Some(400),
                isa: Some(isa),
                ..TableOptions::for_flows(lines * 30 + 60)
            };
            let mut table = LineHash::try_new(&config).unwrap();
            check_overfull("LineHash", &mut table, u64::from(lines) * 30 + 50);
            let stats = table.stats();
            assert!(
                stats.stashed >= 50 && stats.list_length_max > 3 && stats.pool_size == 300,
                "{stats:?}"
            );
        }
        let config = TableOptions {
            buckets: Some(5),
            pool: Some(300),
            list_cap: Some(300),
            isa: Some(isa),
            ..TableOptions::for_flows(300)
        };
        let mut table = DHash::try_new(&config).unwrap();
        check_overfull("DHash", &mut table, 250);
        assert!(table.stats().displaced >= 250 - 80 && table.stats().pool_size == 300);
    }
    let config = TableOptions {
        buckets: Some(32),
        pool: Some(300),
        list_cap: Some(64),
        ..TableOptions::for_flows(300)
    };
    check_overfull("SigHash", &mut SigHash::try_new(&config).unwrap(), 250);
    let mut table = ReferenceSigHash::try_new(&config).unwrap();
    check_overfull("ReferenceSigHash", &mut table, 250);
    let stats = table.stats();
    assert!(
        stats.displaced > 100 && stats.displaced == stats.stashed && stats.pool_size == 300,
        "{stats:?}"
    );
    assert!(stats.list_length_max > 1, "{stats:?}");
}

#[test]
fn list_lengths_follow_from_the_bucket_loads() {
    let mut chained = Chained::<u64, u64>::try_new(&TableOptions {
        buckets: Some(1024),
        ..TableOptions::for_flows(1000)
    })
    .unwrap();
    let mut direct = DirectTable::<u64, u64>::try_new(&TableOptions::for_flows(1000)).unwrap();
    for key in 0..1000 {
        chained.insert(key, hash(key), key, CLASS, Tick(0)).unwrap();
        direct.insert(key, hash(key), key, CLASS, Tick(0)).unwrap();
    }
    let stats = chained.stats();
    assert_eq!((stats.displaced, stats.stashed, stats.pool_size), (1000, 1000, 1000));
    assert!((3..12).contains(&stats.list_length_max), "{stats:?}");
    let stats = direct.stats();
    assert!((300..450).contains(&stats.displaced) && stats.stashed == stats.displaced, "{stats:?}");
    assert!((2..12).contains(&stats.list_length_max) && stats.pool_size == 1000, "{stats:?}");
}

#[test]
fn counters_of_a_freed_segment_are_kept() {
    let mut table = Growing::try_new(8, TableOptions::for_flows(4000), |options| {
        let (pool, list_cap) = (Some(options.flows), Some(4000));
        let roomy = TableOptions { buckets: Some(1), pool, list_cap, timeouts: timeouts(), ..*options };
        DHash::<u64, u64>::try_new(&roomy)
    })
    .unwrap();
    let ids: Vec<_> = (0..100_u64)
        .map(|key| table.insert(key, TableHash::default(), key, CLASS, Tick(0)).unwrap())
        .collect();
    let before = table.stats();
    assert!(before.segments > 1 && before.list_length_max > 10, "{before:?}");
    // Older segments are emptied one after another, and freed; a new flow goes into the newest.
    let mut expired = 0;
    let outcome = table.expire(Tick(10_000), 1000, &mut |_, _, _| expired += 1);
    assert_eq!((expired, outcome.removed, outcome.more), (100, 100, false));
    let after = table.stats();
    assert_eq!((after.segments, after.len, after.inserted, after.expired), (1, 0, 100, 100));
    assert_eq!(after.list_length_max, before.list_length_max);
    assert!(ids.iter().all(|&id| table.get(id).is_none()));
    // A budget applies to all segments together.
    for key in 0..100 {
        table.insert(key, TableHash::default(), key, CLASS, Tick(10_000)).unwrap();
    }
    let mut walked = 0;
    for _ in 0..50 {
        let part = table.expire(Tick(20_000), 3, &mut |_, _, _| walked += 1);
        assert!(part.examined <= 3);
        if !part.more {
            break;
        }
    }
    assert_eq!((walked, table.len()), (100, 0));
}

#[test]
fn a_flow_that_the_policy_keeps_is_never_evicted() {
    let config = TableOptions { buckets: Some(1), pool: Some(0), ..TableOptions::for_flows(16) };
    let mut table = DHash::<u64, bool>::try_new(&config).unwrap();
    for key in 0..16 {
        table.insert(key, TableHash::default(), key != 5 && key != 9, CLASS, Tick(100 - key)).unwrap();
    }
    let mut policy = UnestablishedFirst::new(|established: &bool| *established);
    // Of the two that are not established, 9 was unseen for longer.
    assert!(
        table.evict(TableHash::default(), &mut policy)
            && table.lookup(&9, TableHash::default()).is_none()
            && table.lookup(&5, TableHash::default()).is_some()
    );
    assert!(
        table.evict(TableHash::default(), &mut policy) && table.lookup(&5, TableHash::default()).is_none()
    );
    assert!(!table.evict(TableHash::default(), &mut policy));
    assert_eq!((policy.count(), table.len()), (2, 14));
    let id = table.lookup(&0, TableHash::default()).unwrap();
    let candidate = Flow::new(id, &0_u64, &true, Tick(0));
    assert_eq!(Refuse.rank(&candidate), None);
}

#[test]
fn any_flow_may_be_evicted_if_lists_share_states() {
    fn check(name: &str, table: &mut impl FlowTable<u64, u64>) {
        // At most eight flows in sixteen places, which is fewer than the window.
        for key in 0..8 {
            table.insert(key, hash(key), key * 2, CLASS, Tick(key)).expect("there is space");
        }
        let mut policy = GreatestEven::default();
        for key in 100..160 {
            let entry = table.entry_or_evict(key, hash(key), CLASS, Tick(9), || 2 * key, &mut policy);
            assert!(entry.is_ok_and(|entry| entry.is_new), "{name}: {key}");
        }
        assert_eq!((table.len(), policy.gone.len()), (8, 60), "{name}");
    }
    check(
        "Chained",
        &mut Chained::try_new(&TableOptions { buckets: Some(8), ..TableOptions::for_flows(8) }).unwrap(),
    );
    let config = TableOptions { buckets: Some(8), ..TableOptions::for_flows(8) };
    check("DirectTable", &mut DirectTable::try_new(&config).unwrap());
    check("SigHash", &mut SigHash::try_new(&TableOptions::for_flows(8)).unwrap());
}

#[test]
fn a_full_table_takes_a_flow_if_the_policy_evicts_another() {
    fn check(name: &str, mut table: impl FlowTable<u64, bool>) {
        let flows = u64::from(table.capacity());
        for key in 0..flows {
            table.insert(key, hash(key), false, CLASS, Tick(key)).expect("there is space");
        }
        let mut policy = UnestablishedFirst::new(|established: &bool| *established);
        for key in flows..3 * flows {
            let entry = table.entry_or_evict(key, hash(key), CLASS, Tick(key), || false, &mut policy);
            assert!(entry.is_ok_and(|entry| entry.is_new), "{name}: {key}");
        }
        assert_eq!((u64::from(table.len()), policy.count()), (flows, 2 * flows), "{name}");
    }
    let flows = if cfg!(miri) { 60 } else { 1000 };
    check("LineHash", LineHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("DHash", DHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("SigHash", SigHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("Chained", Chained::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("DirectTable", DirectTable::try_new(&TableOptions::for_flows(flows)).unwrap());
}

#[test]
fn full_table_evicts_its_few_unestablished_flows() {
    fn check(name: &str, mut table: impl FlowTable<u64, bool>) {
        let flows = u64::from(table.capacity());
        for key in 0..flows {
            table.insert(key, hash(key), key % 10 != 0, CLASS, Tick(key)).expect("there is space");
        }
        let mut policy = UnestablishedFirst::new(|established: &bool| *established);
        let mut refused = 0;
        // New flows are not established, so there are always as many to choose from.
        for key in flows..3 * flows {
            let entry = table.entry_or_evict(key, hash(key), CLASS, Tick(key), || false, &mut policy);
            refused += u64::from(entry.is_err());
        }
        // About forty places contain no flow of a tenth once in a hundred times; a bucket of ten
        // flows contains none one time in three.
        assert!(refused < flows / 10, "{name}: {refused} of {} refused", 2 * flows);
        assert_eq!((u64::from(table.len()), policy.count()), (flows, 2 * flows - refused), "{name}");
        for key in (0..flows).filter(|key| key % 10 != 0) {
            assert!(table.lookup(&key, hash(key)).is_some(), "{name}: {key} is established");
        }
    }
    let flows = if cfg!(miri) { 60 } else { 1000 };
    check("LineHash", LineHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("DHash", DHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("ReferenceDHash", ReferenceDHash::<u64, bool>::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("SigHash", SigHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("ReferenceSigHash", ReferenceSigHash::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("Chained", Chained::try_new(&TableOptions::for_flows(flows)).unwrap());
    check("DirectTable", DirectTable::try_new(&TableOptions::for_flows(flows)).unwrap());
    check(
        "Growing",
        Growing::try_new(flows / 20, TableOptions::for_flows(flows), LineHash::try_new).unwrap(),
    );
}

#[test]
fn an_unestablished_flow_is_evicted_from_another_line_or_list() {
    fn check(name: &str, build: &dyn Fn() -> Box<dyn FnMut(usize) -> bool>) {
        let mut admits = build();
        for number in 0..60 {
            assert!(admits(number), "{name}: flow {number} may go and did not");
        }
    }
    /// Returns the result of filling a table with established flows except one, and whether a new
    /// flow is accepted.
    fn trial<T: FlowTable<u64, bool> + 'static>(
        build: impl Fn() -> T + 'static,
    ) -> Box<dyn FnMut(usize) -> bool> {
        Box::new(move |number| {
            let mut table = build();
            let mut keys = (0..).map(|key| (key, hash(key)));
            let mut slots = Vec::new();
            while table.len() < 60 {
                let (key, hash) = keys.next().expect("there are many");
                slots.extend(table.insert(key, hash, true, CLASS, Tick(0)).ok());
            }
            *table.get_mut(slots[number]).expect("it is there") = false;
            let (key, hash) = keys.next().expect("there are many");
            let mut policy = UnestablishedFirst::new(|established: &bool| *established);
            let entry = table.entry_or_evict(key, hash, CLASS, Tick(9), || false, &mut policy);
            entry.is_ok_and(|entry| entry.is_new) && policy.count() == 1 && table.len() == 60
        })
    }
    // Two lines that are full, and no stash.
    let lines = TableOptions { buckets: Some(2), pool: Some(0), ..TableOptions::for_flows(60) };
    check("LineHash", &|| trial(move || LineHash::try_new(&lines).unwrap()));
    // One bucket, and a list behind it.
    let list = TableOptions {
        buckets: Some(1),
        pool: Some(44),
        list_cap: Some(44),
        ..TableOptions::for_flows(60)
    };
    check("DHash", &|| trial(move || DHash::try_new(&list).unwrap()));
    check("ReferenceDHash", &|| trial(move || ReferenceDHash::<u64, bool>::try_new(&list).unwrap()));
    // A list that is full, and longer than the first part of the window.
    let list = TableOptions { buckets: Some(1), list_cap: Some(60), ..TableOptions::for_flows(60) };
    check("Chained", &|| trial(move || Chained::try_new(&list).unwrap()));
    let list = TableOptions { buckets: Some(1), list_cap: Some(59), ..TableOptions::for_flows(60) };
    check("DirectTable", &|| trial(move || DirectTable::try_new(&list).unwrap()));
}

/// Keeps every flow whose value is true, and counts the candidates.
#[derive(Default)]
struct Shown {
    shown: u32,
    gone: u32,
}

impl Evict<u64, bool> for Shown {
    fn rank(&mut self, candidate: &Flow<'_, u64, bool>) -> Option<u64> {
        self.shown += 1;
        (!*candidate.value).then_some(self.shown.into())
    }

    fn evicted(&mut self, _id: FlowId, _key: u64, value: bool) {
        assert!(!value, "the policy keeps it");
        self.gone += 1;
    }
}

#[test]
fn each_eviction_frees_a_slot_after_a_bounded_search() {
    fn check(name: &str, mut table: impl FlowTable<u64, bool>, one_in: u64) {
        let flows = u64::from(table.capacity());
        let (mut shown_max, mut gone) = (0, 0);
        for key in 0..6 * flows {
            let hash = hash(key);
            let mut policy = Shown::default();
            let is_kept = !(hash.bits() >> 40).is_multiple_of(one_in);
            let entry = table.entry_or_evict(key, hash, CLASS, Tick(key), || is_kept, &mut policy);
            assert!(policy.gone <= 1 && (entry.is_ok() || policy.gone == 0), "{name}: {key} for nothing");
            shown_max = shown_max.max(policy.shown);
            gone += policy.gone;
        }
        assert!(shown_max <= WINDOW, "{name}: {shown_max} shown");
        assert!(one_in > 2 || gone > 0, "{name}: half of them may go");
    }
    let flows = if cfg!(miri) { 64 } else { 700 };
    for one_in in [2, 10, 40] {
        for (lines, list_cap) in [(flows / 30, Some(2)), (flows / 24, Some(64))] {
            let config =
                TableOptions { buckets: Some(lines.max(2)), list_cap, ..TableOptions::for_flows(flows) };
            let config = TableOptions { pool: Some(flows / 2), ..config };
            check("LineHash", LineHash::try_new(&config).unwrap(), one_in);
            let (buckets, pool) = (Some(flows / 20), Some(flows));
            let config = TableOptions { buckets, pool, list_cap, ..TableOptions::for_flows(flows) };
            check("DHash", DHash::try_new(&config).unwrap(), one_in);
            let (buckets, pool) = (Some(flows / 5), Some(flows));
            let config = TableOptions { buckets, pool, list_cap, ..TableOptions::for_flows(flows) };
            check("SigHash", SigHash::try_new(&config).unwrap(), one_in);
            let config =
                TableOptions { buckets: Some(flows / 50), list_cap, ..TableOptions::for_flows(flows) };
            check("Chained", Chained::try_new(&config).unwrap(), one_in);
            let buckets = Some(flows / 50);
            let config = TableOptions { buckets, list_cap, ..TableOptions::for_flows(flows) };
            check("DirectTable", DirectTable::try_new(&config).unwrap(), one_in);
        }
    }
}

#[test]
fn time_that_goes_backwards_removes_nothing_early() {
    let config = TableOptions { timeouts: timeouts(), ..TableOptions::for_flows(10) };
    let mut table = LineHash::<u64, u64>::try_new(&config).unwrap();
    let id = table.insert(7, hash(7), 7, CLASS, Tick(1000)).unwrap();
    let expire =
        |table: &mut LineHash<u64, u64>, now| table.expire(Tick(now), 10, &mut |_, _, _| {}).removed;
    assert_eq!(expire(&mut table, 1050), 0);
    assert_eq!(expire(&mut table, 500), 0);
    // Seen at an earlier time than before: due at 300, and checked at the time for which it was
    // armed.
    assert!(table.touch(id, Tick(200)));
    assert_eq!(table.last_seen(id), Some(Tick(200)));
    let granule = table.stats().granule_ticks;
    assert_eq!(expire(&mut table, 1100 + granule), 1);
    assert_eq!(table.get(id), None);
}

#[test]
fn integers_of_the_usual_sizes_can_be_keys() {
    fn holds<K: TableKey>(key: K) -> bool {
        let mut index = FlowIndex::<K>::try_new(&TableOptions::for_flows(1)).unwrap();
        let id = index.insert(key, TableHash::from_mixed(1 << 40), (), CLASS, Tick(0)).unwrap();
        index.lookup(&key, TableHash::from_mixed(1 << 40)) == Some(id)
    }
    assert!(holds(7_u32) && holds(7_u64) && holds(7_u128));
    assert!(holds([7_u8; 5]) && holds([7_u32; 3]) && holds([7_u64; 2]));
}
