//! The worked example of the speculative policy [TCBCACHE §3.4, Fig. 11].
//!
//! The text does not contain the drawing's colours: the lines that are initially ON are chosen so
//! that the steps follow.

use flowloom::tcb_cache::{Access, CacheSpec, Geometry, IndexFunction, Indexing, Policy, Simulator, Tie};
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig11_example",
    place: "§3.4, Fig. 11",
    claim: "T1, T2 and T4 go right, T3 goes left; for T5 both sets are full of ON lines, and T3 is migrated and not lost",
    numbers: "text of §3.4 and Fig. 11, place by place",
    fidelity: &[Fidelity::Arithmetic],
    switches: &[MIGRATION],
    run,
    ..Item::PLAIN
};

const MIGRATION: Switch = Switch::mechanism("migration", "no line moves: the oldest ON line is lost");

/// Selects functions with which T3 is the line that is randomly chosen for migration.
const SEED: u64 = 11;
const NOW_MS: u64 = 10_000;

/// Returns sessions with these sets in the left and the right bank.
fn sessions(index: &Indexing, left: u32, right: u32, count: usize) -> Vec<u64> {
    (0..1 << 16)
        .map(|n: u64| (n >> 8) << 16 | (n & 0xFF))
        .filter(|key| (index.set(*key, 0), index.set(*key, 1)) == (left, right))
        .take(count)
        .collect()
}

fn access(cache: &mut dyn Simulator, key: u64) {
    cache.run(&[Access::new(key, NOW_MS)]);
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let geometry = Geometry::new(64 * 2 * 3 * 4, 64, 2, 3)
        .map_err(ItemError::during("shaping the example's cache"))?;
    let index = IndexFunction::H3 { key_bits: 16, full_rank: true };
    let policy = if context.is_off(&MIGRATION) {
        Policy::NoMigrate { tie: Tie::Left }
    } else {
        CacheSpec::PAPER.policy
    };
    let spec = CacheSpec { geometry, index, policy, seed: SEED, ..CacheSpec::PAPER };
    let mut cache = spec.build().map_err(ItemError::during("building the example's cache"))?;
    let index = spec.indexing().map_err(ItemError::during("drawing the example's functions"))?;
    // Initially, there are two ON lines in the left set 0, and none in the right one. `marker` is
    // the last line of the left bank.
    let before = sessions(&index, 0, 1, 2);
    let (filler, marker) = (sessions(&index, 0, 2, 1)[0], sessions(&index, 3, 2, 2));
    for key in [before[0], before[1], marker[0], marker[1], filler] {
        access(&mut *cache, key);
    }
    let is_left = |cache: &dyn Simulator, key: u64| {
        let resident = cache.resident();
        let at = |key: u64| resident.iter().position(|other| *other == key);
        at(key).is_some_and(|place| Some(place) <= at(marker[0]))
    };
    let shared = sessions(&index, 0, 0, 40);
    let (t3, others) = (shared[20], [shared[0], shared[1], shared[2], shared[3]]);
    let mut outcome = Outcome::new(Agreement::agrees("step by step"));
    for (name, key, left) in
        [("T1", others[0], 0.0), ("T2", others[1], 0.0), ("T3", t3, 1.0), ("T4", others[2], 0.0)]
    {
        access(&mut *cache, key);
        let placed = f64::from(u8::from(is_left(&*cache, key)));
        outcome =
            outcome.value(Value::new(format!("{name} lies left"), "", placed).paper(left).band(left, left));
    }
    let earlier = cache.counts();
    access(&mut *cache, others[3]);
    let step = cache.counts() - earlier;
    let found = cache.counts().auxiliary_hits;
    access(&mut *cache, t3);
    let by_auxiliary = cache.counts().auxiliary_hits - found;
    Ok(outcome
        .value(Value::new("lines moved for T5", "", step.moves as f64).paper(1.0).band(1.0, 1.0))
        .value(Value::new("lines lost for T5", "", step.evictions as f64).paper(0.0).band(0.0, 0.0))
        .value(Value::new("T3 is found by its auxiliary functions", "", by_auxiliary as f64).paper(1.0).band(1.0, 1.0))
        .note("two banks of three ways; the lines that are ON beforehand are ours, the drawing's are not in the text. Of three lines \
               that could be moved chance picks one: the functions are drawn so that it is T3")
        .chart_of("Steps of the example", Axis::linear("lies left, lines, found"), |_| true)
        .judged())
}
