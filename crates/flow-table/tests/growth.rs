//! A growing table's places: opened, given back, opened again, and never more than there are.

use flowloom_flow_table::segments::GrowthLimits;
use flowloom_flow_table::{
    BuildError, DHash, DHashConfig, FlowId, FlowTable, FullReason, Growing, Tick, TimeoutClass, Timeouts,
};

const CLASS: TimeoutClass = TimeoutClass(0);

/// Returns a part for so many flows; those of one hash fill a bucket of sixteen, and then its list.
fn part(flows: u32) -> Result<DHash<u64, u64>, BuildError> {
    DHash::try_new(&DHashConfig {
        buckets: Some(1),
        pool: Some(flows),
        list_cap: 1000,
        timeouts: Timeouts::NEVER.with(CLASS, 100),
        ..DHashConfig::for_flows(flows)
    })
}

fn limits(first_flows: u32, flows_max: u32) -> GrowthLimits {
    GrowthLimits { first_flows, flows_max, memory_max_bytes: u64::MAX }
}

#[test]
fn a_place_that_was_given_back_is_opened_again_under_other_names() {
    // All flows come into one bucket of sixteen, so that a part is full long before it has as many as it is for.
    let build = |flows| {
        let config = DHashConfig { buckets: Some(10), pool: Some(0), ..DHashConfig::for_flows(flows) };
        DHash::<u64, u64>::try_new(&config)
    };
    let mut table = Growing::try_new(limits(160, 160), build).unwrap();
    // Eight places.
    let ids: Vec<FlowId> =
        (0..128).map(|key| table.insert(key, 0, key, CLASS, Tick(0)).expect("a place for each")).collect();
    assert_eq!(table.stats().segments, 8);
    let full = table.insert(128, 0, 128, CLASS, Tick(0)).unwrap_err();
    assert_eq!(full.reason, FullReason::Memory, "nothing more can be opened");
    // The fourth part and the fifth by turns: the newest is never given back.
    for (round, part) in (1_u64..).zip([48..64_u64, 64..80, 48..64, 64..80]) {
        // Its flows go, and it with them.
        for key in part.clone() {
            let id = table.lookup(&key, 0).expect("it is there");
            assert_eq!(table.remove(id), Some((key, key)));
        }
        assert_eq!(table.expire(Tick(1), 100, &mut |_, _, _| panic!("nobody is due")).removed, 0);
        assert_eq!(table.stats().segments, 7, "round {round}");
        for key in part.clone() {
            let id = table.insert(key, 0, key, CLASS, Tick(0)).expect("the place is opened again");
            assert!(!ids.contains(&id) && table.get(id) == Some(&key), "round {round}: {id:?}");
        }
        assert!(table.insert(128, 0, 128, CLASS, Tick(0)).is_err());
        let stats = table.stats();
        assert_eq!((stats.segments, stats.len, stats.removed), (8, 128, 16 * round));
    }
    // Names of flows that are gone are nobody's.
    for (key, id) in (0..).zip(&ids) {
        assert_eq!(table.get(*id), (!(48..80).contains(&key)).then_some(&key));
    }
}

#[test]
fn the_longest_list_is_remembered_when_its_part_is_gone() {
    let mut table = Growing::try_new(limits(40, 1000), part).unwrap();
    for key in 0..45 {
        table.insert(key, 0, key, CLASS, Tick(0)).unwrap();
    }
    assert_eq!((table.stats().segments, table.stats().list_length_max), (2, 24));
    let mut gone = 0;
    table.expire(Tick(1000), 1000, &mut |_, _, _| gone += 1);
    let stats = table.stats();
    assert_eq!((gone, stats.segments, stats.list_length_max, stats.inserted), (45, 1, 24, 45));
}

#[test]
fn the_next_oldest_part_is_drained_from_its_beginning() {
    let mut table = Growing::try_new(limits(4, 1000), part).unwrap();
    // Parts of 4, 16 and 64 flows.
    for key in 0..25 {
        table.insert(key, 0, key, CLASS, Tick(0)).unwrap();
    }
    assert_eq!(table.stats().segments, 3);
    let moved = table.drain_oldest(3, |_| 0, |_, _| {});
    assert_eq!((moved.moved, moved.more), (3, true));
    // The last flow of the oldest part goes by itself, and its part with it.
    let last = table.lookup(&3, 0).unwrap();
    table.remove(last).unwrap();
    table.expire(Tick(1), 100, &mut |_, _, _| {});
    assert_eq!(table.stats().segments, 2);
    let moved = table.drain_oldest(1000, |_| 0, |_, _| {});
    assert_eq!((moved.moved, moved.more, table.stats().segments), (16, false, 1));
    let found = (0..25).filter(|key| table.lookup(key, 0).is_some()).count();
    assert_eq!((found, table.len()), (24, 24));
}
