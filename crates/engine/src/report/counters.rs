//! The counters of the stages. Each stage counts its own work; the report adds the counts up.

use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::{DropReason, EncapsulationCounts};

use crate::app::{Outcome, Verdict};
use crate::report::digest::ResultDigest;
use crate::report::timeline::Timeline;

/// Maximum number of link types that are counted by name. The total includes all others.
pub(crate) const LINKS_MAX: usize = 64;

/// How often a ring, or the pool, was full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullCounts {
    /// Packets dropped because it was full.
    pub(crate) refused: u64,
    /// Waits for capacity; in dropping mode, batches that lost packets.
    pub(crate) waits: u64,
}

/// Counts of flow events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowCounts {
    pub(crate) begun: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    pub(crate) forgotten: u64,
    /// Records that the application ended.
    pub(crate) split: u64,
    /// Flows removed without a record after a panic.
    pub(crate) discarded: u64,
}

/// Counts of the records that a run passed to a sink.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RecordsReport {
    /// Records that the sink took.
    pub written: u64,
    /// Records that the sink did not take, because the queue was full or the sink had failed
    /// before, and records that the sink [has lost](crate::RecordSink::lost).
    pub lost: u64,
    /// The digest of the records in `written` and of records that the sink failed to write or lost.
    pub digest: ResultDigest,
}

/// Counts of the input stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputCounters {
    /// Packets taken from the source.
    pub packets: u64,
    /// Bytes of these packets on the wire, as their records state within
    /// [what can be](flowloom_packet::RawPacket::counted_bytes).
    pub bytes_on_wire: u64,
    /// Captured bytes of these packets.
    pub bytes_captured: u64,
    /// Packets with a flow key.
    pub decoded: u64,
    /// Packets dropped before they reached a worker.
    pub dropped: DropCounts,
    /// Packets whose time stamp is up to a minute before that of an earlier packet. Their time in
    /// the run is that of the earlier packet.
    pub time_backwards: u64,
    /// The largest of these steps back, in nanoseconds.
    pub time_backwards_ns_max: u64,
    /// Packets whose time stamp is further off. They do not move the time of the run.
    pub time_outliers: u64,
    /// Steps to a distant time that several consecutive packets confirm. After a step back, the
    /// time advances by the differences of the stamps.
    pub time_steps: u64,
    /// Packets that state more captured bytes than wire bytes.
    pub captured_over_wire: u64,
    /// Packets of link types that are not decoded, by type. The list has at most 64 types.
    pub unsupported_links: Vec<(flowloom_packet::LinkType, u64)>,
    /// The encapsulations of packets that are not usual, and numbers that the decoder does not
    /// know. Without [`decap`](flowloom_packet::DecodeOptions::decap) tunnels behind UDP ports are
    /// not counted.
    pub encapsulations: EncapsulationCounts,
    /// Time of the first packet, in nanoseconds since 1970.
    pub first_ns: u64,
    /// The latest time, in nanoseconds since 1970.
    pub last_ns: u64,
    /// Packets and bytes on the wire by packet time, if the run [counts
    /// them](crate::EngineConfig::timeline). Packets that the source withholds are not among them.
    pub timeline: Option<Timeline>,
}

impl InputCounters {
    /// Adds the counts of the packets that follow.
    pub(crate) fn append(&mut self, later: Self) {
        // Packets that the source withholds have no number.
        let numbered = self.packets - self.dropped.withheld();
        self.encapsulations.append(&later.encapsulations, numbered);
        if self.packets == 0 {
            self.first_ns = later.first_ns;
        }
        if later.packets > 0 {
            self.last_ns = later.last_ns;
        }
        match (&mut self.timeline, later.timeline) {
            (Some(timeline), Some(later)) => timeline.merge(later),
            (timeline, later) => *timeline = timeline.take().or(later),
        }
        self.packets += later.packets;
        self.bytes_on_wire += later.bytes_on_wire;
        self.bytes_captured += later.bytes_captured;
        self.decoded += later.decoded;
        self.dropped.merge(&later.dropped);
        self.time_backwards += later.time_backwards;
        self.time_backwards_ns_max = self.time_backwards_ns_max.max(later.time_backwards_ns_max);
        self.time_outliers += later.time_outliers;
        self.time_steps += later.time_steps;
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

/// Counts of a worker, or of the one thread of the inline layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerCounters {
    /// Packets that an application has processed.
    pub processed: u64,
    /// Packets that an application has refused; included in `processed`.
    pub denied: u64,
    /// Packets dropped by the worker.
    pub dropped: DropCounts,
    /// Flows begun.
    pub flows_begun: u64,
    /// Flows ended by their idle timeout.
    pub flows_expired: u64,
    /// Flows that a full table evicted for new ones.
    pub flows_evicted: u64,
    /// Records of ended flows that were not kept, because the limit was reached.
    pub records_forgotten: u64,
    /// Flows removed without a record after a panic of the application.
    pub flows_discarded: u64,
}

impl WorkerCounters {
    /// Counts a packet by its outcome.
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

    /// Returns how many packets the worker has processed or dropped.
    pub(crate) fn done(&self) -> u64 {
        self.processed + self.dropped.total()
    }

    /// Adds a table's counts of flows.
    pub(crate) fn add_flows(&mut self, flows: FlowCounts) {
        self.flows_begun += flows.begun;
        self.flows_expired += flows.expired;
        self.flows_evicted += flows.evicted;
        self.records_forgotten += flows.forgotten;
        self.flows_discarded += flows.discarded;
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Self) {
        self.processed += other.processed;
        self.denied += other.denied;
        self.dropped.merge(&other.dropped);
        self.flows_begun += other.flows_begun;
        self.flows_expired += other.flows_expired;
        self.flows_evicted += other.flows_evicted;
        self.records_forgotten += other.records_forgotten;
        self.flows_discarded += other.flows_discarded;
    }
}
