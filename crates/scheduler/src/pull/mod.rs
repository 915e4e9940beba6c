//! Pull policies: workers fetch packets, and the policy decides which worker gets which packet.
//!
//! A policy handles tokens; the caller keeps the packets that they represent. One policy serves all
//! workers, so a machine with threads must protect it with locks. Each fetched token comes with the
//! number of locks and moves that a concurrent implementation would need, as [`FetchCost`].

mod fifo;
pub mod flow_pull;
pub mod last_flow_bundle;
pub mod packet_handoff;

use crate::placement::{OrderGuarantee, WorkItem, WorkerId};

/// The steps of a fetch, for callers that account for their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchCost {
    /// Contended locks taken.
    pub locks: u32,
    /// Packets inspected to find their flow.
    pub inspected: u32,
    /// Packets passed on to the worker that owns their flow.
    pub handed_over: u32,
    /// Fetched packets that another worker had inspected.
    pub moved: u32,
    /// Bundles taken from another worker.
    pub stolen: u32,
}

/// A packet that a worker has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The caller's number of the packet.
    pub token: u32,
    /// The steps of the fetch.
    pub steps: FetchCost,
}

/// A policy from which workers fetch packets.
///
/// The policy must return every packet to some worker that fetches: a run ends only after all
/// packets have been returned.
pub trait PullPolicy: Send {
    /// Adds a packet. Returns the worker that should fetch this packet, if the policy prefers one.
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId>;

    /// Returns the next packet for a worker that has completed all earlier ones, or `None` if there
    /// is none for it now.
    ///
    /// A worker has one packet at a time: a call means that its last packet is completed.
    fn next(&mut self, worker: WorkerId) -> Option<Fetched>;

    /// Returns the number of waiting packets.
    fn waiting(&self) -> usize;

    /// Returns how many packets the last call of [`arrive`](Self::arrive) sorted into their flows,
    /// in the caller's time.
    ///
    /// Zero if workers sort when they fetch; [`FetchCost`] counts that.
    fn sorted(&self) -> u32 {
        0
    }

    /// Returns whether the caller should drop a packet instead of adding it, if `capacity` packets
    /// may wait in total.
    fn refuses(&self, _item: WorkItem, capacity: u64) -> bool {
        self.waiting() as u64 >= capacity
    }

    /// Returns whether an idle worker may now find work that no worker could fetch before.
    ///
    /// `true` is always correct; `false` saves the caller from asking every worker.
    fn has_ready(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns the number of workers that the policy was made for, or `None` if it accepts any
    /// number.
    ///
    /// The engine refuses to run the policy with a different number.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns the order of a flow's packets that the policy guarantees.
    fn order(&self) -> OrderGuarantee;

    /// Returns the policy's short name, as on the command line.
    fn name(&self) -> &'static str;
}
