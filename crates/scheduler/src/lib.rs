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

#![expect(
    clippy::cast_possible_truncation,
    reason = "workers, nodes, slots and jobs are bounded far below their types by the constructors"
)]
#![cfg_attr(test, expect(clippy::cast_precision_loss, reason = "counts of tests, far below 2^52"))]

pub mod intake;
pub mod laws;
pub mod placement;
pub mod sim;
pub mod topology;

pub use flowloom_flow_key::FlowKey;

pub use intake::flow_pull::FlowPull;
pub use intake::last_flow_bundle::LastFlowBundle;
pub use intake::packet_handoff::PacketHandoff;
pub use intake::{Fetched, Intake};
pub use placement::adaptive::Adaptive;
pub use placement::cached::Cached;
pub use placement::direct_hash::DirectHash;
pub use placement::fixed::Fixed;
pub use placement::flow_burst::FlowBurst;
pub use placement::flow_pin::FlowPin;
pub use placement::hrw_2009::HrwTree2009;
pub use placement::hrw_flat::HrwFlat;
pub use placement::hrw_tree::HrwTree;
pub use placement::indirection::Indirection;
pub use placement::min_load::MinLoad;
pub use placement::modulo::Modulo;
pub use placement::round_robin::RoundRobin;
pub use placement::two_choices::TwoChoices;
pub use placement::{
    ByDigest, Decision, LoadView, OrderGuarantee, Placement, SetupError, WORKERS_MAX, WorkItem,
    WorkerCount, WorkerId,
};
pub use topology::Topology;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
