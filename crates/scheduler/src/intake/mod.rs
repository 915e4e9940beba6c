//! The other seam: workers fetch their work, and a policy says which worker may have what.
//!
//! A packet is a token here: whoever calls keeps what it stands for. One policy serves all workers, so in a machine
//! with threads it stands behind locks; what a call would lock and move is told with each token, as [`Steps`].

mod fifo;
pub mod flow_pull;
pub mod last_flow_bundle;
pub mod packet_handoff;

use crate::placement::{OrderGuarantee, WorkItem, WorkerId};

/// What had to be done to fetch a packet, for whoever charges for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steps {
    /// Locks taken that other workers take too.
    pub locks: u32,
    /// Packets looked at, to find their flow.
    pub inspected: u32,
    /// Packets handed over to the worker that owns their flow.
    pub handed_over: u32,
    /// Packets fetched that another worker had looked at.
    pub moved: u32,
    /// Bundles taken from another worker.
    pub stolen: u32,
}

/// A packet that a worker has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The caller's number of it.
    pub token: u32,
    /// What fetching it took.
    pub steps: Steps,
}

/// A policy that workers fetch from.
///
/// Each packet that arrives is given out once, sooner or later, to some worker that asks: a run waits for all of them, and one that a policy
/// keeps for ever it waits for for ever.
pub trait Intake: Send {
    /// Takes in a packet; returns the worker that would like it best, if any.
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId>;

    /// Returns the next packet for a worker that is done with all it had before, or none if there is none for it now.
    ///
    /// A worker has one packet at a time: asking again says that the one before is completed.
    fn next(&mut self, worker: WorkerId) -> Option<Fetched>;

    /// Returns how many packets wait.
    fn waiting(&self) -> usize;

    /// Returns how many packets the last [`arrive`](Self::arrive) sorted into their flows: work of whoever calls it.
    ///
    /// None where workers do that when they fetch, and tell of it in [`Steps`].
    fn sorted(&self) -> u32 {
        0
    }

    /// Says whether a packet should be dropped instead of taken in, where `room` packets may wait in all.
    fn refuses(&self, _item: WorkItem, room: u64) -> bool {
        self.waiting() as u64 >= room
    }

    /// Says whether some worker without work may now find what no worker could have before.
    ///
    /// True is always correct; false spares the caller from asking all of them.
    fn has_ready(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns how many workers the policy was made for, where it was made for a number of them.
    ///
    /// No run of another number begins. A policy that says none is believed to do for any.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns what the policy promises about order.
    fn order(&self) -> OrderGuarantee;

    /// Returns the policy's short name, as on the command line.
    fn name(&self) -> &'static str;
}
