//! Merges parts that were processed on another machine or earlier, independent of any file format.

use flowloom_flow_key::FlowKey;
use flowloom_packet::clock::ClockLimits;

use crate::app::{Composed, FlowState};
use crate::parts::compose::{Composer, PartRecords};
use crate::report::counters::{InputCounters, WorkerCounters};
use crate::report::results::{EndedBy, FlowRecord, FlowResults};
use crate::stage::panics::caught;
use crate::time::{FlowTimeouts, IdleTimeout};
use crate::worker::flows::Span;

/// A record of a part, with the data that composing needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartRecord<F> {
    /// The key of the flow.
    pub key: FlowKey,
    /// The [ticks](crate::time::tick_of) of its first and last packet. Zeros if no timeout ends
    /// flows.
    pub ticks: [u64; 2],
    /// Why the record ended, or `None` if it continues at the end of the part.
    pub ended: Option<EndedBy>,
    /// The application's state of the flow.
    pub state: F,
}

impl<F> PartRecord<F> {
    /// Returns a record.
    pub fn new(key: FlowKey, ticks: [u64; 2], ended: Option<EndedBy>, state: F) -> Self {
        Self { key, ticks, ended, state }
    }
}

/// The saved results of a part of an input.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SavedPart<F> {
    /// The counts of its reader.
    pub input: InputCounters,
    /// The counts of its workers, without the flows that had
    /// [timed out at its end](crate::RunReport::timed_out_at_end): the merge counts those.
    pub counters: WorkerCounters,
    /// Its records. The records of one key are in order of time.
    pub records: Vec<PartRecord<F>>,
}

impl<F> SavedPart<F> {
    /// Returns a part.
    pub fn new(input: InputCounters, counters: WorkerCounters, records: Vec<PartRecord<F>>) -> Self {
        Self { input, counters, records }
    }
}

/// The result of merging parts.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergedParts<F> {
    /// The counts of the readers.
    pub input: InputCounters,
    /// The counts of the workers.
    pub counters: WorkerCounters,
    /// The records of flows.
    pub flows: FlowResults<F>,
    /// Flows that continue from one part to the next.
    pub flows_joined: u64,
}

impl<F: FlowState> MergedParts<F> {
    /// Returns the digest of the per-flow results, which equals that of one run over all parts.
    #[must_use]
    pub fn digest(&self) -> String {
        self.flows.digest().finish()
    }
}

/// The reason why parts cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// In packet time, a part begins before the previous part ends.
    #[error("part {part} begins {by_ns} ns of packet time before part {before} ends", before = part - 1)]
    Overlap {
        /// The later part, counted from 1.
        part: usize,
        /// The overlap in nanoseconds.
        by_ns: u64,
    },
    /// The time stamps around a cut are so wrong that the times of a part depend on the packets
    /// before it.
    #[error(
        "the times of part {part} depend on the parts before: time stamps are off by years, or go \
         back\n  process the captures in one run"
    )]
    Clock {
        /// The later part, counted from 1.
        part: usize,
    },
    /// The summaries of some flows that continue across a cut do not suffice.
    #[error(
        "{flows} flows that continue into part {part} cannot be composed exactly from summaries\n  \
         process the captures in one run"
    )]
    NeedsPackets {
        /// The first such part, counted from 1.
        part: usize,
        /// Number of these flows, over all parts.
        flows: usize,
        /// Their keys, in ascending order. The other flows compose.
        keys: Vec<FlowKey>,
    },
    /// The application panicked while it composed flows.
    #[error("the application panicked while flows were composed: {0}")]
    Panicked(String),
}

/// Merges parts in order into the result of one run over all of them. `compose` adds the later
/// state of a flow to the earlier one, as [`FlowState::compose`] does.
///
/// # Errors
///
/// Returns [`MergeError`] when the result would not be exact.
pub fn merge_parts<F: FlowState>(
    parts: Vec<SavedPart<F>>,
    idle_timeout: Option<IdleTimeout>,
    mut compose: impl FnMut(&mut F, &mut F) -> Composed,
) -> Result<MergedParts<F>, MergeError> {
    let mut composer = Composer::new(FlowTimeouts { idle: idle_timeout, closed: None });
    let (mut input, mut counters) = (InputCounters::default(), WorkerCounters::default());
    let mut flows_joined = 0;
    let mut unresolved: Option<(usize, Vec<FlowKey>)> = None;
    for (part, SavedPart { input: of_part, counters: mut counted, records }) in (1..).zip(parts) {
        if input.packets > 0 && of_part.packets > 0 && of_part.first_ns < input.last_ns {
            return Err(MergeError::Overlap { part, by_ns: input.last_ns - of_part.first_ns });
        }
        // The clock of a part alone must advance as the clock of one run would.
        let is_far = of_part.first_ns.saturating_sub(input.last_ns) > ClockLimits::default().forward_max_ns;
        let is_odd = |input: &InputCounters| input.time_outliers + input.time_steps > 0;
        if input.packets > 0 && of_part.packets > 0 && (is_far || is_odd(&input) || is_odd(&of_part)) {
            return Err(MergeError::Clock { part });
        }
        let records = part_records(records, idle_timeout.is_some());
        let joined = caught(|| composer.join(records, &mut compose)).map_err(MergeError::Panicked)?;
        if !joined.unresolved.is_empty() {
            let (_, keys) = unresolved.get_or_insert_with(|| (part, Vec::new()));
            keys.extend(joined.unresolved);
        }
        counted.flows_begun -= joined.flows.min(counted.flows_begun);
        counted.flows_expired += joined.expired;
        flows_joined += joined.flows;
        counters.merge(&counted);
        input.append(of_part);
        // Later parts compose with fewer flows.
        counters.flows_expired +=
            caught(|| composer.expire(input.last_ns)).map_err(MergeError::Panicked)?;
    }
    if let Some((part, mut keys)) = unresolved {
        keys.sort_unstable();
        keys.dedup();
        return Err(MergeError::NeedsPackets { part, flows: keys.len(), keys });
    }
    let (flows, timed_out) = caught(|| composer.finish(input.last_ns)).map_err(MergeError::Panicked)?;
    counters.flows_expired += timed_out;
    Ok(MergedParts { input, counters, flows, flows_joined })
}

/// Converts records for the composer, which expects ended records before live records.
fn part_records<F: FlowState>(records: Vec<PartRecord<F>>, has_timeout: bool) -> PartRecords<F> {
    let (live, ended): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.ended.is_none());
    let count = ended.len();
    let all = ended.into_iter().chain(live);
    let (records, spans): (Vec<_>, Vec<_>) = all
        .map(|PartRecord { key, ticks: [start, last], state, ended }| {
            let ended = ended.unwrap_or_default();
            (FlowRecord { key, state, ended }, Span::of_ticks(start, last))
        })
        .unzip();
    PartRecords::new(records, count, if has_timeout { spans } else { Vec::new() })
}
