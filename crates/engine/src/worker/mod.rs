//! The application stage: looks packets up in a flow table and runs the application on their flows.
//!
//! | module | holds |
//! | --- | --- |
//! | [`process`] | a burst of packets: lookups together, then the application on each; the same in every layout |
//! | [`flows`] | a table of flows, their timeouts, and records of flows that ended |
//! | [`inline`] | run to completion: source, decoder and flows on one thread |
//! | [`private`] | a worker with a ring and a table of its own |
//! | [`shared`] | a worker with a ring of its own, over tables that all workers share |
//! | [`pull`] | a worker that fetches packets from the pool, over shared tables |
//! | [`shards`] | the tables that workers share, in shards behind locks |

pub(crate) mod flows;
pub(crate) mod inline;
pub(crate) mod private;
pub(crate) mod process;
pub(crate) mod pull;
pub(crate) mod shards;
pub(crate) mod shared;

use crate::app::Outcome;
use crate::batch::packet::PacketDescriptor;
use crate::control::Publisher;
use crate::egress::reorder::OutcomeSender;
use crate::report::counters::WorkerCounters;
use crate::stage::poll::Polled;
use crate::worker::flows::FlowsEnd;

/// A worker of any kind. It is called once per chunk.
pub(crate) trait Worker: Send {
    /// Processes one chunk.
    fn poll(&mut self) -> Polled;

    /// Returns the number of the packet that its application is processing, if any.
    fn at(&self) -> Option<u64>;

    /// Returns the worker's counts.
    fn counted(&self) -> WorkerCounted;

    /// Ends the worker: drops its application and its ends of rings. Returns its own flows, if it
    /// has any and has not panicked.
    fn end(self: Box<Self>, has_panicked: bool) -> Option<FlowsEnd>;
}

/// The counts of a worker.
#[derive(Debug)]
pub(crate) struct WorkerCounted {
    pub(crate) counters: WorkerCounters,
    /// Packets that it has fetched from a pool.
    pub(crate) fetched: u64,
    /// Packets that it has processed for each worker, including itself, if it may process other
    /// workers' packets.
    pub(crate) processed_for: Vec<u64>,
    /// Accepted packets that no egress stage took.
    pub(crate) refused: u64,
}

/// The results of a worker.
#[derive(Debug)]
pub(crate) struct WorkerEnd {
    pub(crate) counted: WorkerCounted,
    /// Its own flows, if it has any and has not panicked.
    pub(crate) flows: Option<FlowsEnd>,
}

/// The destinations of the reports of any kind of worker.
pub(crate) struct WorkerOutput<'a> {
    pub(crate) publisher: Publisher<'a>,
    pub(crate) outcomes: Option<OutcomeSender>,
}

impl WorkerOutput<'_> {
    /// Reports the outcome of a packet to the egress stage, if there is one.
    #[inline]
    fn report(&mut self, descriptor: &PacketDescriptor, outcome: Outcome) {
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.send(descriptor.packet, outcome);
        }
    }

    fn refused(&self) -> u64 {
        self.outcomes.as_ref().map_or(0, |done| done.refused)
    }
}
