//! Packets without a result: those that are lost, and those that are not tracked.

use std::collections::BTreeMap;

use flowloom::packet::EncapsulationCounts;
use flowloom::packet::drop_reason::{DropCounts, DropReason};
use schemars::JsonSchema;
use serde::Serialize;

use super::{counted, grouped, percent, warn};
use crate::args::Common;

/// Packets by reason; reasons without packets are omitted.
pub(crate) type ByReason = BTreeMap<&'static str, u64>;

/// Warns that flows are missing because the table was full.
pub(crate) fn warn_of_full_table(counts: &NoResult, all: u64, common: &Common) {
    if let Some(&packets) = counts.not_tracked.get(DropReason::TableFull.name()) {
        let share = percent(packets, all);
        let what = counted(packets, "packet");
        warn(
            &format!(
                "{what} ({share}) are not tracked, and in no record, because the flow table was full\n  \
                 end flows earlier with --timeout, or allow more memory or flows"
            ),
            common,
        );
    }
}

/// Packets without a result.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub(crate) struct NoResult {
    /// Packets that belong to no flow, by reason; reasons without packets are omitted.
    pub(crate) not_tracked: ByReason,
    /// Numbers of the first such packets, by reason, counted from 1 over all captures; only of
    /// reasons that the decoder gave.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    not_tracked_first: BTreeMap<&'static str, Vec<u64>>,
    /// Lost packets by reason; reasons without packets are omitted.
    pub(crate) dropped: ByReason,
}

impl NoResult {
    /// Returns these counts of a run.
    pub(crate) fn new(counts: &DropCounts) -> Self {
        let mut all = Self::default();
        for (reason, packets) in counts.nonzero() {
            let counts = if reason.is_loss() { &mut all.dropped } else { &mut all.not_tracked };
            counts.insert(reason.name(), packets);
        }
        all
    }

    /// Adds the numbers of the first packets without a key.
    pub(crate) fn with_first(mut self, counts: &EncapsulationCounts) -> Self {
        self.not_tracked_first =
            counts.no_key().map(|(reason, tally)| (reason.name(), tally.first_packets.clone())).collect();
        self
    }

    /// Returns the numbers of packets that are not tracked and that were lost, for the end of a
    /// line of counts.
    pub(crate) fn totals(&self) -> String {
        let total = |of: &ByReason| grouped(of.values().sum());
        format!("not tracked {}   dropped {}", total(&self.not_tracked), total(&self.dropped))
    }

    /// Returns a line of the reasons for not tracking, and one of the reasons of losses, the most
    /// frequent first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        [("Not tracked", &self.not_tracked), ("Dropped    ", &self.dropped)]
            .into_iter()
            .filter(|(_, counts)| !counts.is_empty())
            .map(|(label, counts)| {
                let mut reasons: Vec<_> = counts.iter().collect();
                reasons.sort_by_key(|(_, packets)| std::cmp::Reverse(**packets));
                let reasons: Vec<String> = reasons
                    .into_iter()
                    .map(|(reason, packets)| format!("{reason} {}", grouped(*packets)))
                    .collect();
                format!("{label} {}", reasons.join("   "))
            })
    }

    /// Returns all reasons with their packets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.not_tracked.iter().chain(&self.dropped).map(|(reason, packets)| (*reason, *packets))
    }
}
