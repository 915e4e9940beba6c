//! The application stage: one thread per worker. It takes parcels, reads the packets where they lie, and runs the
//! application on their flows.
//!
//! | worker | packets come | flows are |
//! | --- | --- | --- |
//! | [`private`] | through a ring of its own | its own |
//! | [`shared`] | through a ring of its own | everybody's, entered by turns where the policy keeps no order |
//! | [`pull`] | from the pool, one at a time | everybody's |

pub(crate) mod private;
pub(crate) mod pull;
pub(crate) mod shared;

use crate::actor::Polled;
use crate::control::Publisher;
use crate::counters::WorkerCounters;
use crate::descriptor::Parcel;
use crate::egress::DoneWith;
use crate::flows::FlowsEnd;
use crate::stage::Outcome;

/// A worker, whatever its kind. Asked once per chunk.
pub(crate) trait Worker<F>: Send {
    /// Does a little work.
    fn poll(&mut self) -> Polled;

    /// Says whether so little waits for it that somebody should look after the input.
    fn is_short(&self) -> bool;

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
    /// Accepted packets that nobody was there to take.
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
pub(crate) struct Desk<'a> {
    pub(crate) publisher: Publisher<'a>,
    pub(crate) done_with: Option<DoneWith>,
}

impl Desk<'_> {
    /// Tells the egress stage, if there is one, what became of a packet.
    #[inline]
    fn tell(&mut self, parcel: &Parcel, outcome: Outcome) {
        if let Some(done_with) = &mut self.done_with {
            done_with.tell(parcel.packet, outcome);
        }
    }

    fn refused(&self) -> u64 {
        self.done_with.as_ref().map_or(0, |done| done.refused)
    }
}
