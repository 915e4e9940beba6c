//! Tables under pressure: full, in turnover, flooded. The long-term guarantees also hold there.

#![expect(clippy::cast_precision_loss, reason = "small counts")]

use core::cell::Cell;
use flowloom_flow_table::TableHash;

use flowloom_cpu::features::Isa;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::evict::UnestablishedFirst;
use flowloom_flow_table::linehash::layout::DISPLACED_MAX;
use flowloom_flow_table::probe::Counts;
use flowloom_flow_table::{
    BuildError, Cursor, DHash, FlowId, FlowTable, FullReason, LineHash, SigHash, TableOptions, Tick,
    TimeoutClass,
};

const CLASS: TimeoutClass = TimeoutClass(0);

/// Flows of a full table; fewer where every step is interpreted.
const FLOWS: u32 = if cfg!(miri) { 300 } else { 50_000 };

fn hash(key: u64) -> TableHash {
    TableHash::from_mixed(split_mix(&mut key.clone()))
}

/// Fills a table and replaces every flow by another one, `turnovers` times.
fn turn_over(table: &mut impl FlowTable<u64, ()>, turnovers: u64) {
    let flows = u64::from(table.capacity());
    let mut ids: Vec<_> = (0..flows)
        .map(|key| table.insert(key, hash(key), (), CLASS, Tick(0)).expect("below the capacity"))
        .collect();
    let mut state = 11;
    for key in flows..flows * (turnovers + 1) {
        let slot = usize::try_from(split_mix(&mut state) % flows).expect("a small table");
        table.remove(ids[slot]).expect("a flow that is there");
        ids[slot] = table.insert(key, hash(key), (), CLASS, Tick(0)).expect("below the capacity");
    }
}

#[test]
fn line_hash_keeps_its_load_factor_through_eight_turnovers() {
    let mut table = LineHash::<u64, ()>::try_new(&TableOptions::for_flows(FLOWS)).unwrap();
    turn_over(&mut table, 8);
    let (stats, memory) = (table.stats(), table.memory());
    assert_eq!((stats.len, stats.refused), (FLOWS, 0), "no insertion fails below the capacity");
    if cfg!(miri) {
        return;
    }
    let stashed = f64::from(stats.stashed) / f64::from(stats.len);
    assert!(stashed < 1e-4, "{stashed} of the flows are in the stash");
    let away = f64::from(stats.displaced) / f64::from(stats.len);
    assert!((0.03..0.07).contains(&away), "{away} of the flows are not at home");
    let bytes = memory.lookup_bytes() as f64 / f64::from(stats.len);
    assert!(bytes <= 3.0, "{bytes} bytes of lookup structure a flow");
}

#[test]
fn other_tables_accept_their_promised_number_of_flows() {
    let mut table = DHash::<u64, ()>::try_new(&TableOptions::for_flows(FLOWS)).unwrap();
    turn_over(&mut table, 3);
    assert_eq!(table.stats().refused, 0);
    let mut table = SigHash::<u64, ()>::try_new(&TableOptions::for_flows(FLOWS)).unwrap();
    turn_over(&mut table, 3);
    assert_eq!(table.stats().refused, 0);
}

/// Returns the share of flows that have the state a lookup prefetches before it has seen the line.
fn favourites(table: &LineHash<u64, ()>) -> f64 {
    let (mut cursor, mut right) = (Cursor::default(), 0);
    while let Some((id, next)) = table.next_live(cursor) {
        cursor = next;
        let key = table.key_of(id).expect("it was just met");
        right += u32::from(id.slot() == table.favourite_of(hash(key)));
    }
    f64::from(right) / f64::from(table.len())
}

#[test]
fn lookup_mostly_prefetches_the_right_state() {
    if cfg!(miri) {
        return;
    }
    let config = TableOptions::for_flows(FLOWS);
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    turn_over(&mut table, 0);
    let filled = favourites(&table);
    assert!((0.58..0.68).contains(&filled), "{filled} once it is filled");
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    turn_over(&mut table, 8);
    let turned = favourites(&table);
    assert!((0.22..0.40).contains(&turned), "{turned} after turnovers at the capacity");
    let buckets = Some(table.line_count() * 2);
    let mut table = LineHash::<u64, ()>::try_new(&TableOptions { buckets, ..config }).unwrap();
    turn_over(&mut table, 8);
    let half = favourites(&table);
    assert!((0.60..0.75).contains(&half), "{half} after turnovers at half the load");
}

/// A worse hash or order of lanes would show here first.
#[test]
fn lookups_read_the_expected_number_of_lines() {
    let mut table = LineHash::<u64, ()>::try_new(&TableOptions::for_flows(FLOWS)).unwrap();
    turn_over(&mut table, 0);
    let (mut hits, mut misses) = (Counts::default(), Counts::default());
    for key in 0..u64::from(FLOWS) {
        assert!(table.find_counting(&key, hash(key), &mut hits).is_some());
        let missing = key + (1 << 40);
        assert!(table.find_counting(&missing, hash(missing), &mut misses).is_none());
    }
    if cfg!(miri) {
        return;
    }
    let per = |count: u64, counts: &Counts| count as f64 / (counts.hits + counts.misses) as f64;
    // Line and state; one lookup in twenty also reads an alternate line.
    assert!((2.0..2.07).contains(&per(hits.lines, &hits)), "{}", per(hits.lines, &hits));
    // One line; the filter is sometimes wrong, and a signature in one of three thousand cases.
    assert!((1.0..1.06).contains(&per(misses.lines, &misses)), "{}", per(misses.lines, &misses));
    assert!(per(hits.false_matches + misses.false_matches, &hits) < 2e-3);
}

#[test]
fn a_counting_lookup_finds_what_any_other_finds() {
    let config = TableOptions { buckets: Some(1), pool: Some(40), ..TableOptions::for_flows(60) };
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    for key in 0..60 {
        table.insert(key, hash(key), (), CLASS, Tick(0)).unwrap();
    }
    assert_eq!(table.stats().stashed, 30);
    for key in 0..120 {
        let found = table.find_counting(&key, hash(key), &mut Counts::default());
        assert_eq!((found, found.is_some()), (table.lookup(&key, hash(key)), key < 60), "{key}");
    }
}

#[test]
fn displaced_flows_can_be_inserted_and_removed_indefinitely() {
    // After a full line: in its list, and in the other line.
    for (lines, pool) in [(1, 1), (2, 0)] {
        let config = TableOptions { buckets: Some(lines), pool: Some(pool), ..TableOptions::for_flows(31) };
        let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
        for key in 0..30 {
            table.insert(key, TableHash::from_mixed(key), (), CLASS, Tick(0)).unwrap();
        }
        for key in 30..600 {
            // Each class of the filter in turn, and no other bit in addition.
            let hash = key | (key % 32) << 16;
            let id = table
                .insert(key, TableHash::from_mixed(hash), (), CLASS, Tick(0))
                .expect("the one before is gone");
            assert_eq!((table.stats().displaced, table.stats().stashed), (1, pool), "{key}");
            assert_eq!(table.lookup(&key, TableHash::from_mixed(hash)), Some(id), "{key}");
            assert!(if key / 32 % 2 == 0 {
                table.remove(id).is_some()
            } else {
                table.remove_key(&key, TableHash::from_mixed(hash)).is_some()
            });
        }
        // No flow is displaced, so a miss reads no other line.
        let mut counts = Counts::default();
        assert_eq!(
            (table.find_counting(&600, TableHash::from_mixed(600), &mut counts), counts.lines),
            (None, 1)
        );
    }
}

#[test]
fn a_counting_lookup_reads_a_list_only_if_it_has_a_flow_of_its_line() {
    let config = TableOptions { buckets: Some(2), pool: Some(1), ..TableOptions::for_flows(61) };
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    // One flow of the first line is in the other, and its class has the filter's bit for the stash;
    // one of the other is in the stash.
    let last = 31 << 16;
    let hash = |key: u64| match key {
        0..30 => key,
        30 => key | last,
        _ => key | 1 << 63,
    };
    for key in 0..61 {
        table.insert(key, TableHash::from_mixed(hash(key)), (), CLASS, Tick(0)).unwrap();
    }
    assert_eq!((table.stats().displaced, table.stats().stashed), (2, 1));
    // Missing keys: home line and alternates, and for one of them the list's only element, whose
    // signature differs.
    let missing = 61;
    for (home, lines, steps) in [(last, 3, 0), (1 << 63, 4, 1)] {
        let mut counts = Counts::default();
        assert_eq!(table.find_counting(&missing, TableHash::from_mixed(missing | home), &mut counts), None);
        assert_eq!((counts.lines, counts.list_steps, counts.false_matches), (lines, steps, 0), "{home:#x}");
    }
}

#[test]
fn only_the_first_lane_of_its_home_line_is_a_first_hit() {
    let config = TableOptions { buckets: Some(2), pool: Some(0), ..TableOptions::for_flows(31) };
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    // All flows have the first line as home; the last one gets the first lane of the other.
    for key in 0..31 {
        table.insert(key, TableHash::from_mixed(key), (), CLASS, Tick(0)).unwrap();
    }
    assert_eq!(table.lookup(&30, TableHash::from_mixed(30)).map(FlowId::slot), Some(30));
    let mut counts = Counts::default();
    assert!(
        (0..31).all(|key| table.find_counting(&key, TableHash::from_mixed(key), &mut counts).is_some())
    );
    assert_eq!((counts.hits, counts.first_hits), (31, 1));
}

thread_local! {
    /// Number of compared keys.
    static COMPARED: Cell<u32> = const { Cell::new(0) };
}

/// A key whose comparisons are counted.
#[derive(Clone, Copy, Debug)]
struct Watched(u64);

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        COMPARED.set(COMPARED.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Watched {}

/// A lookup that confused the states of two flows would still find the flow, but later.
#[test]
fn flow_in_its_home_line_is_found_by_comparing_one_key() {
    for isa in Isa::available() {
        let config = TableOptions {
            isa: Some(isa),
            buckets: Some(4),
            pool: Some(0),
            ..TableOptions::for_flows(120)
        };
        let mut table = LineHash::<Watched, u64>::try_new(&config).unwrap();
        // Each line is the home of thirty flows, and no two have one signature.
        let keys: Vec<_> = (0..120).map(|key| (Watched(key), (key % 4) << 62 | key)).collect();
        for &(key, hash) in &keys {
            table.insert(key, TableHash::from_mixed(hash), key.0, CLASS, Tick(0)).unwrap();
        }
        assert_eq!(table.stats().displaced, 0, "{isa}");
        COMPARED.set(0);
        for (key, hash) in &keys {
            let id = table.lookup(key, TableHash::from_mixed(*hash));
            assert_eq!(
                table.lookup_value(key, TableHash::from_mixed(*hash)).map(|(id, value)| (Some(id), *value)),
                Some((id, key.0))
            );
            let touched = table.lookup_touch(key, TableHash::from_mixed(*hash), Tick(1));
            assert_eq!(touched.map(|(id, value, _)| (Some(id), *value)), Some((id, key.0)));
        }
        assert_eq!(COMPARED.get(), 3 * 120, "{isa}");
        for (key, hash) in &keys {
            assert_eq!(table.remove_key(key, TableHash::from_mixed(*hash)), Some(key.0));
        }
        assert_eq!(COMPARED.get(), 4 * 120, "{isa}");
    }
}

#[test]
fn displaced_flows_of_a_line_stay_within_its_counter() {
    // All flows have the first line as home, although other lines and the stash would have space
    // for all of them.
    let config = TableOptions {
        buckets: Some(64),
        pool: Some(300),
        list_cap: Some(300),
        ..TableOptions::for_flows(1000)
    };
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    let hash = |key| TableHash::from_mixed(hash(key).bits() & u64::from(u32::MAX));
    let count = 30 + 2 * u64::from(DISPLACED_MAX);
    for key in 0..count {
        table.insert(key, hash(key), (), CLASS, Tick(0)).expect("fewer than can be counted");
    }
    let full = table.insert(count, hash(count), (), CLASS, Tick(0)).unwrap_err();
    assert_eq!(full.reason, FullReason::ListCap);
    let stats = table.stats();
    assert_eq!((stats.displaced, stats.stashed), (2 * 255, 255));
    for key in 0..count {
        assert_eq!(table.lookup(&key, hash(key)).and_then(|id| table.key_of(id)), Some(key));
    }
    for key in 0..count {
        assert_eq!(table.remove_key(&key, hash(key)), Some(()), "{key}");
    }
    // No flow is displaced, so a miss reads no other line.
    let mut counts = Counts::default();
    assert!((0..100).all(|key| table.find_counting(&key, hash(key), &mut counts).is_none()));
    assert_eq!((table.stats().displaced, counts.lines), (0, 100));
}

#[test]
fn lanes_fill_evenly() {
    // Chi-square over lines: each has as many flows as with independent choices.
    if cfg!(miri) {
        return;
    }
    let table_lines = 2000;
    let config = TableOptions { buckets: Some(table_lines), ..TableOptions::for_flows(20_000) };
    let mut table = LineHash::<u64, ()>::try_new(&config).unwrap();
    let mut per_line = vec![0_u32; table_lines as usize];
    for key in 0..20_000 {
        let id = table.insert(key, hash(key), (), CLASS, Tick(0)).unwrap();
        per_line[id.slot() as usize / 30] += 1;
    }
    let chi: f64 = per_line.iter().map(|&count| (f64::from(count) - 10.0).powi(2) / 10.0).sum();
    let freedom = f64::from(table_lines - 1);
    let z = (chi - freedom) / (2.0 * freedom).sqrt();
    assert!(z.abs() < 4.0, "{z}");
}

#[test]
fn flood_of_first_packets_evicts_no_established_flow() {
    let (capacity, established) = if cfg!(miri) { (100, 50) } else { (200_000, 100_000) };
    let flood = 10 * u64::from(capacity);
    let mut table = LineHash::<u64, bool>::try_new(&TableOptions::for_flows(capacity)).unwrap();
    for key in 0..established {
        table.insert(key, hash(key), true, CLASS, Tick(0)).unwrap();
    }
    let before = table.memory();
    let mut policy = UnestablishedFirst::new(|established: &bool| *established);
    let mut refused = 0;
    for number in 0..flood {
        let key = (1 << 40) + number;
        let outcome = table.entry_or_evict(key, hash(key), CLASS, Tick(number), || false, &mut policy);
        refused += u64::from(outcome.is_err());
    }
    for key in 0..established {
        let id = table.lookup(&key, hash(key)).expect("an established flow is found");
        assert_eq!(table.get(id), Some(&true));
    }
    let stats = table.stats();
    assert_eq!(stats.evicted, policy.count());
    assert_eq!(stats.refused, refused);
    let taken = u64::from(stats.len) - established;
    assert_eq!(taken + stats.evicted + refused, flood, "every packet of the flood is accounted for");
    assert_eq!(table.memory(), before, "memory is flat");
}

#[test]
fn a_full_table_refuses_and_counts_it() {
    let (capacity, established) = (300, 100);
    let mut table = LineHash::<u64, ()>::try_new(&TableOptions::for_flows(capacity)).unwrap();
    let refused =
        (0..1000).filter(|&key| table.insert(key, hash(key), (), CLASS, Tick(0)).is_err()).count();
    assert_eq!((table.len(), table.stats().refused, refused), (300, 700, 700));
    assert!((0..established).all(|key| table.lookup(&key, hash(key)).is_some()));
}

#[test]
fn impossible_table_is_refused_with_its_numbers() {
    let build = |config: TableOptions| LineHash::<u64, ()>::try_new(&config).err();
    assert_eq!(build(TableOptions::for_flows(0)), Some(BuildError::NoCapacity));
    let few = TableOptions { buckets: Some(1), pool: Some(2), ..TableOptions::for_flows(1000) };
    assert_eq!(build(few), Some(BuildError::TooFewPlaces { flows: 1000, places: 32 }));
}
