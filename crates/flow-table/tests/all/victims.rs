//! The victim of an eviction: the guarantees of the `evict` module, in every table.

use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::TableHash;
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::dhash::ReferenceDHash;
use flowloom_flow_table::evict::{Evict, WINDOW};
use flowloom_flow_table::sighash::ReferenceSigHash;
use flowloom_flow_table::{
    Cursor, DHash, Flow, FlowId, FlowTable, LineHash, SigHash, TableOptions, Tick, TimeoutClass,
};

const CLASS: TimeoutClass = TimeoutClass(0);

/// Inspects at most one bucket before any other flow is shown.
const NEAR: usize = 32;

const ROUNDS: u64 = if cfg!(miri) { 300 } else { 4000 };

fn hash(key: u64) -> TableHash {
    TableHash::from_mixed(split_mix(&mut key.clone()))
}

/// Ranks flows by their value, keeps those of 0, and records the candidates.
#[derive(Default)]
struct Noting {
    shown: Vec<(FlowId, u64, u64)>,
    gone: Option<(FlowId, u64)>,
}

impl Evict<u64, u64> for Noting {
    fn rank(&mut self, candidate: &Flow<'_, u64, u64>) -> Option<u64> {
        self.shown.push((candidate.id, *candidate.key, *candidate.value));
        (*candidate.value != 0).then_some(*candidate.value)
    }

    fn evicted(&mut self, id: FlowId, key: u64, _value: u64) {
        assert!(self.gone.replace((id, key)).is_none(), "one goes");
    }
}

/// Returns all flows of a table that are in a bucket.
fn residents(table: &impl FlowTable<u64, u64>, is_in: impl Fn(FlowId, u64) -> bool) -> Vec<FlowId> {
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    while let Some((id, next)) = table.next_live(cursor) {
        cursor = next;
        if table.key_of(id).is_some_and(|key| is_in(id, key)) {
            found.push(id);
        }
    }
    found
}

/// Fills tables and evicts from them; in one case half of the flows may be evicted, and in the
/// other one in 40. `is_in` determines whether a flow is in a hash's own bucket.
fn check<T: FlowTable<u64, u64>>(
    name: &str,
    build: impl Fn() -> T,
    is_in: impl Fn(FlowId, u64, TableHash) -> bool,
) {
    let [some, few] = [2, 40].map(|one_in| evict_from(name, build(), one_in, &is_in));
    assert!(some.0 > ROUNDS / 2 && few.1 > ROUNDS / 20, "{name}: near and far {some:?}, {few:?}");
}

/// Fills a table and evicts repeatedly, while one flow in `one_in` may be evicted. Returns how
/// often the victim was in the flow's own bucket and how often elsewhere.
fn evict_from<T: FlowTable<u64, u64>>(
    name: &str,
    mut table: T,
    one_in: u64,
    is_in: impl Fn(FlowId, u64, TableHash) -> bool,
) -> (u64, u64) {
    let (mut near, mut far) = (0, 0);
    for key in 0..u64::from(table.capacity()) + ROUNDS {
        let new = hash(key);
        let mut policy = Noting::default();
        let own = if table.len() == table.capacity() {
            residents(&table, |id, key| is_in(id, key, TableHash::from_mixed(new.bits())))
        } else {
            Vec::new()
        };
        let rank = if !own.is_empty() || hash(!key).bits().is_multiple_of(one_in) {
            hash(key ^ 1 << 50).bits() | 1
        } else {
            0
        };
        let entry = table.entry_or_evict(key, new, CLASS, Tick(key), || rank, &mut policy);
        if own.is_empty() || policy.shown.is_empty() {
            continue;
        }
        let shown: Vec<FlowId> = policy.shown.iter().map(|shown| shown.0).collect();
        assert!(shown.len() <= WINDOW as usize, "{name}: {key}");
        let first = &shown[..own.len().min(NEAR).min(shown.len())];
        assert!(
            first.len() == own.len().min(NEAR),
            "{name}: {key}: all of the own bucket is shown, as far as {NEAR}"
        );
        assert!(first.iter().all(|id| own.contains(id)), "{name}: {key}: and before all others");
        let best = |shown: &[(FlowId, u64, u64)]| {
            shown
                .iter()
                .filter(|shown| shown.2 != 0)
                .max_by_key(|shown| shown.2)
                .map(|shown| (shown.0, shown.1))
        };
        let of_own = best(&policy.shown[..first.len()]);
        assert_eq!(
            policy.gone,
            of_own.or(best(&policy.shown)),
            "{name}: {key}: the highest rank is evicted"
        );
        assert_eq!(entry.is_ok(), policy.gone.is_some(), "{name}: {key}");
        match (of_own, policy.gone) {
            (Some(_), _) => {
                assert_eq!(shown.len(), first.len(), "{name}: {key}: no other flow is looked at");
                near += 1;
            }
            (None, Some(_)) => far += 1,
            (None, None) => {}
        }
    }
    (near, far)
}

/// The bucket number of a slot, given the slots per bucket.
fn at(slots: u32) -> impl Fn(FlowId) -> u32 {
    move |id| id.slot() / slots
}

#[test]
fn highest_rank_is_evicted_starting_with_the_flows_own_bucket() {
    let config = TableOptions::for_flows(300);
    let (lines, line) = (LineHash::<u64, u64>::try_new(&config).unwrap().line_count(), at(30));
    let is_in = |id, _, new| line(id) == TableHash::bucket(new, lines);
    check("LineHash", || LineHash::try_new(&config).unwrap(), is_in);
    let (config, bucket) = (TableOptions { buckets: Some(30), ..TableOptions::for_flows(300) }, at(16));
    let is_in = |id, _, new| bucket(id) == TableHash::bucket(new, 30);
    check("DHash", || DHash::try_new(&config).unwrap(), is_in);
    check("ReferenceDHash", || ReferenceDHash::<_, _>::try_new(&config).unwrap(), is_in);
    let (config, bucket) = (TableOptions { buckets: Some(100), ..TableOptions::for_flows(300) }, at(4));
    let is_in = |id, _, new| bucket(id) == TableHash::bucket(new, 100);
    check("SigHash", || SigHash::try_new(&config).unwrap(), is_in);
    check("ReferenceSigHash", || ReferenceSigHash::try_new(&config).unwrap(), is_in);
    // With lists, the bucket consists of all flows in its list.
    let is_in = |_, key, new| hash(key).bucket(30) == TableHash::bucket(new, 30);
    let config = TableOptions { buckets: Some(30), ..TableOptions::for_flows(300) };
    check("Chained", || Chained::try_new(&config).unwrap(), is_in);
    let config = TableOptions { buckets: Some(30), ..TableOptions::for_flows(300) };
    check("DirectTable", || DirectTable::try_new(&config).unwrap(), is_in);
}

/// Evicts from two tables for each new flow, and expects the same victim wherever one of its own
/// bucket may be evicted.
fn check_alike(
    name: &str,
    mut production: impl FlowTable<u64, u64>,
    mut reference: impl FlowTable<u64, u64>,
    bucket_of: impl Fn(FlowId) -> u32,
) {
    let mut evicted = 0;
    for key in 0..u64::from(production.capacity()) + ROUNDS {
        let rank = hash(key ^ 1 << 50).bits() | 1;
        let [mut ours, mut letter] = [Noting::default(), Noting::default()];
        let one = production.entry_or_evict(key, hash(key), CLASS, Tick(key), || rank, &mut ours);
        let other = reference.entry_or_evict(key, hash(key), CLASS, Tick(key), || rank, &mut letter);
        assert!(one.is_ok() && other.is_ok(), "{name}: {key}: anybody may go");
        // Flows have other places within a bucket, and are therefore shown in another order.
        ours.shown.sort_unstable_by_key(|shown| shown.1);
        letter.shown.sort_unstable_by_key(|shown| shown.1);
        let flows = |policy: &Noting| {
            policy.shown.iter().map(|&(id, key, _)| (bucket_of(id), key)).collect::<Vec<_>>()
        };
        assert_eq!(flows(&ours), flows(&letter), "{name}: {key}");
        let gone = [&ours, &letter].map(|policy| policy.gone.map(|(_, key)| key));
        assert_eq!(gone[0], gone[1], "{name}: {key}");
        evicted += u64::from(gone[0].is_some());
    }
    assert!(evicted >= ROUNDS, "{name}: {evicted} evicted");
}

#[test]
fn the_reference_evicts_the_same_flow_as_production() {
    // Buckets that are never empty, so that a flow of the own bucket may be evicted.
    let config = TableOptions { buckets: Some(30), ..TableOptions::for_flows(400) };
    let reference = ReferenceDHash::<_, _>::try_new(&config).unwrap();
    check_alike("DHash", DHash::try_new(&config).unwrap(), reference, at(16));
    let config = TableOptions { buckets: Some(40), pool: Some(300), ..TableOptions::for_flows(300) };
    let reference = ReferenceSigHash::try_new(&config).unwrap();
    check_alike("SigHash", SigHash::try_new(&config).unwrap(), reference, at(4));
}
