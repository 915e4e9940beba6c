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
use crate::runtime::poll::Polled;
use crate::worker::flows::FlowsEnd;

/// A worker, whatever its kind. Asked once per chunk.
pub(crate) trait Worker<F>: Send {
    /// Does a little work.
    fn poll(&mut self) -> Polled;

    /// Returns the number of the packet that its application has in hand, if any.
    fn at(&self) -> Option<u64>;

    /// Returns what it has counted.
    fn counted(&self) -> WorkerCounted;

    /// Ends it, and lets go of its application and of its ends of rings; returns its own flows, if it had some and has not panicked.
    fn end(self: Box<Self>, has_panicked: bool) -> Option<FlowsEnd<F>>;
}

/// What a worker has counted.
#[derive(Debug)]
pub(crate) struct WorkerCounted {
    pub(crate) counters: WorkerCounters,
    /// Packets it has fetched, where workers fetch.
    pub(crate) fetched: u64,
    /// Packets processed for each worker, where they may be another's: its own among them.
    pub(crate) processed_for: Vec<u64>,
    /// Accepted packets that no egress stage was there to take.
    pub(crate) refused: u64,
}

/// What a worker leaves.
#[derive(Debug)]
pub(crate) struct WorkerEnd<F> {
    pub(crate) counted: WorkerCounted,
    /// Its own flows, if it had some and has not panicked.
    pub(crate) flows: Option<FlowsEnd<F>>,
}

/// What every kind of worker has.
pub(crate) struct WorkerOutput<'a> {
    pub(crate) publisher: Publisher<'a>,
    pub(crate) outcomes: Option<OutcomeSender>,
}

impl WorkerOutput<'_> {
    /// Tells the egress stage, if there is one, what became of a packet.
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
