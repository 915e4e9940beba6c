//! Who gets the packet. No threads, no clock, no packets: the same policy objects run in the engine, in a
//! simulator, and inside somebody else's loop.
//!
//! ```
//! use flowloom_scheduler::{Decision, DirectHash, LoadView, Placement, WorkItem, WorkerCount};
//!
//! let mut policy = DirectHash::new(WorkerCount::new(4)?);
//! let items = [WorkItem { digest: 0x4000_0001, bytes: 64 }, WorkItem { digest: 0, bytes: 1500 }];
//! let mut decisions = [Decision::Drop; 2];
//! policy.place(&items, &LoadView::idle(), &mut decisions);
//! assert_eq!(decisions, [Decision::To(1.into()), Decision::To(0.into())]);
//! # Ok::<(), flowloom_scheduler::SetupError>(())
//! ```

pub mod laws;
pub mod placement;

pub use placement::direct_hash::DirectHash;
pub use placement::hrw_flat::HrwFlat;
pub use placement::{
    Decision, LoadView, OrderGuarantee, Placement, SetupError, WORKERS_MAX, WorkItem, WorkerCount, WorkerId,
};
