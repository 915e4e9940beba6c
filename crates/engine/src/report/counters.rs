//! What the stages count. Each stage counts for itself; the report adds up.

use flowloom_packet::DropReason;
use flowloom_packet::reason::DropCounts;

use crate::app::{Outcome, Verdict};
use crate::worker::flows::FlowCounts;

/// The most link types that are counted by name; further ones are only in the total.
pub(crate) const LINKS_MAX: usize = 64;

/// How a ring, or the pool, was full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullCounts {
    /// Packets dropped because it was full.
    pub(crate) refused: u64,
    /// Times it was waited for; where packets are dropped, batches of which some were.
    pub(crate) waits: u64,
}

/// Counted by the input stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputCounters {
    /// Packets taken from the source.
    pub packets: u64,
    /// Bytes they had on the wire, as their records state.
    pub bytes_on_wire: u64,
    /// Bytes of them that are in the capture.
    pub bytes_captured: u64,
    /// Packets with a flow key.
    pub decoded: u64,
    /// Packets dropped before a worker had them.
    pub dropped: DropCounts,
    /// Packets whose time stamp lies before that of an earlier one; their time was clamped.
    pub time_backwards: u64,
    /// How far back the furthest of them lay, in nanoseconds: microseconds of disorder, or a clock that was wrong.
    pub time_backwards_ns_max: u64,
    /// Packets that state more captured bytes than bytes on the wire.
    pub captured_over_wire: u64,
    /// Packets of link types that are not decoded, by type; a short list, as captures have few.
    pub unsupported_links: Vec<(flowloom_packet::LinkType, u64)>,
    /// Time of the first packet, nanoseconds since 1970.
    pub first_ns: u64,
    /// Latest time seen.
    pub last_ns: u64,
}

impl InputCounters {
    /// Adds the counts of the packets that follow.
    pub(crate) fn append(&mut self, later: Self) {
        if self.packets == 0 {
            self.first_ns = later.first_ns;
        }
        if later.packets > 0 {
            self.last_ns = later.last_ns;
        }
        self.packets += later.packets;
        self.bytes_on_wire += later.bytes_on_wire;
        self.bytes_captured += later.bytes_captured;
        self.decoded += later.decoded;
        self.dropped.merge(&later.dropped);
        self.time_backwards += later.time_backwards;
        self.time_backwards_ns_max = self.time_backwards_ns_max.max(later.time_backwards_ns_max);
        self.captured_over_wire += later.captured_over_wire;
        for (link, packets) in later.unsupported_links {
            let links = &mut self.unsupported_links;
            if let Some((_, all)) = links.iter_mut().find(|(known, _)| *known == link) {
                *all += packets;
            } else if links.len() < LINKS_MAX {
                links.push((link, packets));
            }
        }
    }
}

/// Counted by each worker (or by the one thread of the inline layout).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// Packets that an application has seen.
    pub processed: u64,
    /// Packets it refused.
    pub denied: u64,
    /// Packets dropped by the worker.
    pub dropped: DropCounts,
    /// Flows begun.
    pub flows_begun: u64,
    /// Flows ended by their idle timeout.
    pub flows_expired: u64,
    /// Records of ended flows that were not kept, because the limit was reached.
    pub records_forgotten: u64,
}

impl WorkerCounters {
    /// Counts a packet by what became of it.
    #[inline(always)]
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Some(verdict) => {
                self.processed += 1;
                self.denied += u64::from(verdict == Verdict::Deny);
            }
            None => self.dropped.count(DropReason::TableFull),
        }
    }

    /// Returns how many packets have been dealt with.
    pub(crate) fn done(&self) -> u64 {
        self.processed + self.dropped.total()
    }

    /// Adds what a table counted of its flows.
    pub(crate) fn add_flows(&mut self, flows: FlowCounts) {
        self.flows_begun += flows.begun;
        self.flows_expired += flows.expired;
        self.records_forgotten += flows.forgotten;
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        self.processed += other.processed;
        self.denied += other.denied;
        self.dropped.merge(&other.dropped);
        self.flows_begun += other.flows_begun;
        self.flows_expired += other.flows_expired;
        self.records_forgotten += other.records_forgotten;
    }
}
