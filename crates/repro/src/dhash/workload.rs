//! Table contents that several items share.

use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::baseline::{Chained, ChainedConfig};
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::dhash::major_location::MajorLocation;
use flowloom::flow_table::dhash::signature::Keyed;
use flowloom::flow_table::{DHash, DHashConfig, FlowTable};

use crate::experiment::ItemError;

/// Flows of File-3, the greatest of [DHASH Tab. II].
pub(super) const FILE_3_FLOWS: u32 = 1_048_576;

/// Buckets of the paper's table [DHASH §V-A].
pub(super) const BUCKETS: u32 = 100_000;

/// Returns a number of flows, and the buckets that keep the paper's load with it.
pub(super) fn scaled(divisor: u32) -> (u32, u32) {
    (FILE_3_FLOWS / divisor, BUCKETS / divisor)
}

/// Returns a number of hashes, each of which is a key as well.
pub(super) fn hashes(count: u32, seed: u64) -> Vec<u64> {
    let mut state = seed;
    (0..count).map(|_| split_mix(&mut state)).collect()
}

/// A state of the paper's size: a line, with the table's own words and the key.
pub(super) type State = flowloom_measure::lookup::State;

/// Flows with their keys and hashes, as the benches have them.
pub(super) type Flows = flowloom_measure::lookup::Flows<2>;

/// Looks up a number of flows one by one, reading each one's state; they are spread evenly over the
/// order of insertion.
pub(super) fn look_up(table: &impl FlowTable<[u64; 2], State>, flows: &Flows, count: usize) -> u64 {
    let found = |key: &[u64; 2]| table.lookup(key, flows.hash(key)).and_then(|id| table.get(id));
    let step = (flows.keys.len() / count.max(1)).max(1);
    flows.keys.iter().step_by(step).take(count).filter_map(found).map(|state| state[0]).sum()
}

/// Returns a table of lists as in the paper: 1,040 buckets by default, without an effective cap.
pub(super) fn chained(flows: &Flows, buckets: u32) -> Result<Chained<[u64; 2], State>, ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let config = ChainedConfig { buckets, list_cap: u32::MAX, ..ChainedConfig::for_flows(count) };
    let mut table = Chained::try_new(&config).map_err(ItemError::during("building lists"))?;
    flows.fill(&mut table).map_err(ItemError::during("filling lists"))?;
    Ok(table)
}

/// Returns our `DHash`, filled.
pub(super) fn dhash(flows: &Flows) -> Result<DHash<[u64; 2], State>, ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let mut table =
        DHash::try_new(&DHashConfig::for_flows(count)).map_err(ItemError::during("building DHash"))?;
    table.prefault();
    flows.fill(&mut table).map_err(ItemError::during("filling DHash"))?;
    Ok(table)
}

/// Returns the paper's table, which compares slot by slot, with a number of buckets, filled.
pub(super) fn reference<M: MajorLocation>(
    flows: &Flows,
    buckets: u32,
) -> Result<ReferenceDHash<[u64; 2], State, Keyed, M>, ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let config = DHashConfig { buckets: Some(buckets), ..DHashConfig::for_flows(count) };
    let mut table =
        ReferenceDHash::try_new(&config).map_err(ItemError::during("building the reference table"))?;
    flows.fill(&mut table).map_err(ItemError::during("filling the reference table"))?;
    Ok(table)
}
