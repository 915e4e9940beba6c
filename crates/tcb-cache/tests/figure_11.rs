//! The worked example of the speculative policy, step by step [TCBCACHE §3.4, Fig. 11].
//!
//! The figure has two banks with some ON lines, and the sequence T1 … T5: "the policy places T1,
//! T2, T4 in the right cache bank and T3 in the left cache bank. When T5 comes, neither of two
//! corresponding cache sets in two cache banks has OFF cache lines and T3 is replaced. Since T3 is
//! still in the ON mode, our policy gives T3 one more chance … T3 is migrated to the right bank".
//! The text does not contain the drawing's colours, so the lines that are initially ON are chosen
//! to give these steps: two ways per bank; in the sets of T1 … T5, the left bank has one more ON
//! line.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flowloom_tcb_cache::reference::ReferenceCache;
use flowloom_tcb_cache::{Access, CacheSpec, Geometry, IndexFunction, Indexing, Policy, Simulator, Tie};

const SEED: u64 = 11;

fn spec() -> CacheSpec {
    CacheSpec {
        geometry: Geometry::new(64 * 2 * 3 * 4, 64, 2, 3).unwrap(),
        index: IndexFunction::H3 { key_bits: 16, full_rank: true },
        policy: Policy::Speculative { tie: Tie::Left },
        drops_closed: false,
        seed: SEED,
    }
}

/// Returns a number of sessions with these sets in the left and the right bank.
fn sessions(index: &Indexing, left: u32, right: u32, count: usize) -> Vec<u64> {
    let wanted = |key: &u64| (index.set(*key, 0), index.set(*key, 1)) == (left, right);
    (0..1 << 16).map(|n: u64| (n >> 8) << 16 | (n & 0xFF)).filter(wanted).take(count).collect()
}

/// Returns the bank of a session, from copies of the cache's contents.
fn bank_of(resident: &[u64], before: usize, key: u64) -> bool {
    resident.iter().position(|k| *k == key).expect("it is in the cache") < before
}

fn check(cache: &mut dyn Simulator) {
    let spec = spec();
    let index = spec.indexing().unwrap();
    // All of these share set 0 of the left bank and set 0 of the right one.
    let shared = sessions(&index, 0, 0, 40);
    // Lines that are initially in those sets, of sessions whose other set contains no ON line.
    let left_only = sessions(&index, 0, 1, 2);

    // Initially, there are two ON lines in the left set, and none in the right one.
    let mut now = 10_000;
    for key in &left_only {
        cache.run(&[Access::new(*key, now)]);
    }
    let before = cache.counts();
    assert_eq!(before.misses, 2);
    // The left bank got them: both sets were empty, and a tie goes left; for the second, set 1 on
    // the right had fewer ON lines, so it is there.
    let resident = cache.resident();
    assert!(bank_of(&resident, 1, left_only[0]));
    assert!(!bank_of(&resident, 1, left_only[1]));

    // T1 finds one ON line on the left and none on the right: right. T2: one against one, a tie:
    // left. The sequence of the figure follows from the same counts, with the left set one ahead
    // each time.
    let filler = sessions(&index, 0, 2, 1)[0];
    let right_two = sessions(&index, 3, 2, 1)[0];
    // A line in set 2 on the right sends the filler left in a tie: left set 0 then has two ON
    // lines.
    now += 1;
    cache.run(&[Access::new(right_two, now)]); // left, set 3
    let right_two_again = sessions(&index, 3, 2, 3);
    cache.run(&[Access::new(right_two_again[1], now)]); // right, set 2: fewer ON there
    cache.run(&[Access::new(filler, now)]); // one against one: left, set 0
    let resident = cache.resident();
    let lefts = |resident: &[u64]| resident.iter().position(|k| *k == right_two).unwrap();
    assert!(
        resident.iter().position(|k| *k == filler).unwrap() < lefts(&resident),
        "filler lies on the left"
    );

    // Now the left set has two ON lines and one empty way, the right set three empty ways.
    // T1 → right (2 : 0), T2 → right (2 : 1), T3 → left (2 : 2, tie), T4 → right (3 : 2).
    let third = shared[20];
    let stuck: Vec<u64> = shared.iter().copied().filter(|key| *key != third).collect();
    let sequence = [stuck[0], stuck[1], third, stuck[2]];
    let expected_left = [false, false, true, false];
    for (key, left) in sequence.iter().zip(expected_left) {
        now += 1;
        cache.run(&[Access::new(*key, now)]);
        let resident = cache.resident();
        // Right lines come after all left ones; the first resident of the right bank is
        // left_only[1] or later.
        let boundary = resident.iter().position(|k| *k == right_two).unwrap();
        let at = resident.iter().position(|k| k == key).unwrap();
        assert_eq!(at < boundary, left, "place of {key:#x} among {resident:x?}");
    }

    // T5: three against three, all ON: the tie goes left, and one of its lines moves instead of
    // being evicted.
    let counts = cache.counts();
    assert_eq!((counts.moves, counts.evictions), (0, 0));
    now += 1;
    cache.run(&[Access::new(stuck[3], now)]);
    let counts = cache.counts();
    assert_eq!((counts.moves, counts.evictions), (1, 0), "a line is saved");
    let resident = cache.resident();
    for key in sequence.iter().chain([&stuck[3], &filler, &left_only[0]]) {
        assert!(resident.contains(key), "{key:#x} is still there");
    }
    // Its next packet finds it, by the auxiliary functions.
    let moved: Vec<u64> = [third, filler, left_only[0]]
        .into_iter()
        .filter(|key| {
            let found = cache.counts().auxiliary_hits;
            cache.run(&[Access::new(*key, now)]);
            cache.counts().auxiliary_hits > found
        })
        .collect();
    assert_eq!(moved, [third], "T3 was moved");
}

#[test]
fn example_of_figure_11_gives_the_steps_of_the_paper() {
    check(&mut *spec().build().unwrap());
    check(&mut ReferenceCache::new(&spec()).unwrap());
}
