//! Scheduling policies, which decide which worker processes a packet.
//!
//! A policy has no threads, no clock and no packets. The same object therefore runs in the engine,
//! in a simulator, and in any other loop.
//!
//! | module | contents |
//! | --- | --- |
//! | [`placement`] | push policies: the dispatcher assigns packets to workers |
//! | [`members`] | backends of a load balancer, by name and weight |
//! | [`pull`] | pull policies: workers fetch packets |
//! | [`registry`] | every policy by name |
//! | [`topology`] | the tree of sockets, cores, pipelines and threads |
//! | [`laws`] | checks that a policy keeps what it promises |
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
//!
//! # Features
//!
//! * `simulator`: `sim`, a machine in virtual time that runs policies. Its interface may change in
//!   any version.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    clippy::cast_possible_truncation,
    reason = "constructors limit workers, nodes, slots and jobs far below the maximum of their types"
)]
#![cfg_attr(test, expect(clippy::cast_precision_loss, reason = "counts in tests, far below 2^52"))]

pub mod laws;
pub mod members;
pub mod placement;
pub mod pull;
pub mod registry;
#[cfg(feature = "simulator")]
pub mod sim;
pub mod topology;

pub use flowloom_flow_key::FlowKey;

pub use members::{MaglevTable, Member, MemberId, Members};
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
pub use pull::flow_pull::FlowPull;
pub use pull::last_flow_bundle::LastFlowBundle;
pub use pull::packet_handoff::PacketHandoff;
pub use pull::{FetchCost, Fetched, PullPolicy};
pub use topology::Topology;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
