//! Pull policies: workers fetch packets, and the policy decides which worker may have which.
//!
//! A policy handles tokens; the caller keeps the packets that they stand for. One policy serves all
//! workers, so a machine with threads puts it behind locks. Each fetched token comes with the locks
//! and moves that a concurrent implementation would need, as [`FetchCost`].

mod fifo;
pub mod flow_pull;
pub mod last_flow_bundle;
pub mod packet_handoff;

use crate::placement::{OrderGuarantee, WorkItem, WorkerId};

/// The steps of a fetch, for callers that charge for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchCost {
    /// Contended locks taken.
    pub locks: u32,
    /// Packets inspected to find their flow.
    pub inspected: u32,
    /// Packets passed on to the worker that owns their flow.
    pub handed_over: u32,
    /// Packets fetched that another worker had inspected.
    pub moved: u32,
    /// Bundles taken from another worker.
    pub stolen: u32,
}

/// A packet that a worker has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The caller's number of the packet.
    pub token: u32,
    /// The steps it took.
    pub steps: FetchCost,
}

/// A policy from which workers fetch packets.
///
/// The policy must return every packet to some worker that asks: a run ends only when all have been
/// returned.
pub trait PullPolicy: Send {
    /// Adds a packet; returns the worker that should fetch it, if the policy prefers one.
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId>;

    /// Returns the next packet for a worker that has completed all earlier ones, or `None` if there
    /// is none for it now.
    ///
    /// A worker has one packet at a time: a call means that its last packet is completed.
    fn next(&mut self, worker: WorkerId) -> Option<Fetched>;

    /// Returns the number of waiting packets.
    fn waiting(&self) -> usize;

    /// Returns how many packets the last [`arrive`](Self::arrive) sorted into their flows, on the
    /// caller's time.
    ///
    /// Zero where workers sort when they fetch; [`FetchCost`] counts that.
    fn sorted(&self) -> u32 {
        0
    }

    /// Returns whether the caller should drop a packet instead of adding it, where `capacity`
    /// packets may wait in all.
    fn refuses(&self, _item: WorkItem, capacity: u64) -> bool {
        self.waiting() as u64 >= capacity
    }

    /// Returns whether an idle worker may now find work that no worker could fetch before.
    ///
    /// `true` is always correct; `false` saves the caller from asking every worker.
    fn has_ready(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns the number of workers that the policy was made for, if it depends on one.
    ///
    /// The engine refuses to run the policy with another number. A policy that returns `None` must
    /// accept any number.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns which order of a flow's packets the policy guarantees.
    fn order(&self) -> OrderGuarantee;

    /// Returns the policy's short name, as on the command line.
    fn name(&self) -> &'static str;
}
