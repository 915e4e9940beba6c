//! Contents of tables that several items share.

use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::baseline::Chained;
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::dhash::major_location::MajorLocation;
use flowloom::flow_table::dhash::signature::Keyed;
use flowloom::flow_table::{DHash, FlowTable, TableOptions};

use super::State;
use crate::experiment::ItemError;
use crate::rivals::{RivalTable, StateTable};

/// Number of flows of File-3, the largest file of [DHASH Tab. II].
pub(super) const FILE_3_FLOWS: u32 = 1_048_576;

/// Number of buckets of the paper's table [DHASH §V-A].
pub(super) const BUCKETS: u32 = 100_000;

/// Returns a number of flows, and the number of buckets that gives the paper's load.
pub(super) fn scaled(divisor: u32) -> (u32, u32) {
    (FILE_3_FLOWS / divisor, BUCKETS / divisor)
}

/// Returns a number of hashes, each of which is also a key.
pub(super) fn hashes(count: u32, seed: u64) -> Vec<u64> {
    let mut state = seed;
    (0..count).map(|_| split_mix(&mut state)).collect()
}

/// Flows with their keys and hashes, as in the benchmarks.
pub(super) type Flows = flowloom_measure::lookup::Flows<2>;

/// Looks up a number of flows one by one and reads each one's state. The flows are spread evenly
/// over the order of insertion.
pub(super) fn look_up(table: &impl FlowTable<[u64; 2], State>, flows: &Flows, count: usize) -> u64 {
    let found = |key: &[u64; 2]| table.lookup(key, flows.hash(key)).and_then(|id| table.get(id));
    let step = (flows.keys.len() / count.max(1)).max(1);
    flows.keys.iter().step_by(step).take(count).filter_map(found).map(|state| state[0]).sum()
}

/// As [`look_up`], in the table of a rival.
pub(super) fn look_up_rival(table: &dyn StateTable, flows: &Flows, count: usize) -> u64 {
    let step = (flows.keys.len() / count.max(1)).max(1);
    let found = |key: &[u64; 2]| table.get(key, flows.hash(key));
    flows.keys.iter().step_by(step).take(count).filter_map(found).map(|state| state[0]).sum()
}

/// Returns the table of a rival, filled.
pub(super) fn rival(rival: &RivalTable, flows: &Flows) -> Result<Box<dyn StateTable>, ItemError> {
    let mut table = (rival.make)(u32::try_from(flows.keys.len()).unwrap_or(u32::MAX));
    for (key, number) in &flows.arrivals {
        if !table.insert(*key, flows.hash(key), [u64::from(*number), 0, 0, 0]) {
            return Err(ItemError::during(format!("filling {}", rival.name))(format!(
                "it refuses flow {number} of {}",
                flows.keys.len()
            )));
        }
    }
    let (found, expected) = (look_up_rival(&*table, flows, flows.keys.len()), flows.answer());
    if found != expected {
        return Err(ItemError::during(format!("looking up flows in {}", rival.name))(format!(
            "their states add up to {found} instead of {expected}"
        )));
    }
    Ok(table)
}

/// Returns a table of lists as in the paper: by default 1,040 buckets, without an effective limit.
pub(super) fn chained(flows: &Flows, buckets: u32) -> Result<Chained<[u64; 2], State>, ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let config =
        TableOptions { buckets: Some(buckets), list_cap: Some(u32::MAX), ..TableOptions::for_flows(count) };
    let mut table = Chained::try_new(&config).map_err(ItemError::during("building lists"))?;
    flows.fill(&mut table).map_err(ItemError::during("filling lists"))?;
    Ok(table)
}

/// Returns Flowloom's `DHash`, filled.
pub(super) fn dhash(flows: &Flows) -> Result<DHash<[u64; 2], State>, ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let options = TableOptions { prefault: true, ..TableOptions::for_flows(count) };
    let mut table = DHash::try_new(&options).map_err(ItemError::during("building DHash"))?;
    flows.fill(&mut table).map_err(ItemError::during("filling DHash"))?;
    Ok(table)
}

/// Returns the paper's table, which compares slot by slot, with a number of buckets, filled.
pub(super) fn reference<M: MajorLocation + Default>(
    flows: &Flows,
    buckets: u32,
) -> Result<ReferenceDHash<[u64; 2], State, Keyed, M>, ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let config = TableOptions { buckets: Some(buckets), ..TableOptions::for_flows(count) };
    let mut table =
        ReferenceDHash::try_new(&config).map_err(ItemError::during("building the reference table"))?;
    flows.fill(&mut table).map_err(ItemError::during("filling the reference table"))?;
    Ok(table)
}
