//! Packets without a result: lost packets, and packets without a flow.

use std::collections::BTreeMap;

use flowloom::packet::EncapsulationCounts;
use flowloom::packet::drop_reason::DropCounts;
use schemars::JsonSchema;
use serde::Serialize;

use super::grouped;

/// Packets by reason; reasons without packets are omitted.
pub(crate) type ByReason = BTreeMap<&'static str, u64>;

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
            let of = if reason.is_loss() { &mut all.dropped } else { &mut all.not_tracked };
            of.insert(reason.name(), packets);
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

    /// Returns a line for each reason.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let first = |reason: &str| {
            let numbers: Vec<String> =
                self.not_tracked_first.get(reason)?.iter().map(ToString::to_string).collect();
            Some(format!("   first: packet {}", numbers.join(", ")))
        };
        let line = |label: &'static str, of: &ByReason| -> Vec<String> {
            of.iter()
                .map(|(reason, packets)| {
                    format!("{label} {reason} {}{}", grouped(*packets), first(reason).unwrap_or_default())
                })
                .collect()
        };
        let dropped = line("Dropped    ", &self.dropped);
        line("Not tracked", &self.not_tracked).into_iter().chain(dropped)
    }

    /// Returns all reasons with their packets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.not_tracked.iter().chain(&self.dropped).map(|(reason, packets)| (*reason, *packets))
    }
}
