//! A simulator of small caches of connection state: the TCB cache of [TCBCACHE §3], competing
//! policies, and the best possible policy.
//!
//! ```text
//!  trace::read_log ──▶ model::LoggedSessions ─┐
//!  model::Surge ──────────────────────────────┴▶ model::Overlap ─▶ accesses
//!                                               accesses ─▶ Trace::simulate(CacheSpec) ─▶ Counts
//!  trace::read_accesses ───────────────────────────────────────────▲
//! ```
//!
//! An [`Access`] consists of a session's key, a time, and whether the session ends. A [`CacheSpec`]
//! describes a cache by values: [`Geometry`], [`IndexFunction`], [`Policy`]. A [`Simulator`] is a
//! cache that processes accesses one by one. All results are reproducible from their seeds, on
//! every machine. The crate uses no threads, clocks or files.
//!
//! ```
//! use flowloom_tcb_cache::model::{Overlap, PacketModel, Ports, Surge, SurgeConfig};
//! use flowloom_tcb_cache::{CacheSpec, Policy, Simulated, Trace};
//!
//! let overlap =
//!     Overlap {
//!         sessions: 400,
//!         accesses: 40_000,
//!         packets: PacketModel::default(),
//!         ports: Ports::PAPER_LIKE,
//!         seed: 1,
//!     };
//! let workload = overlap.make(&mut Surge::new(SurgeConfig::default(), 1))?;
//! let trace = Trace::new(workload.accesses, 10_000);
//! let misses = |spec: CacheSpec| match trace.simulate(&spec, None, &|| false) {
//!     Ok(Simulated::Finished(counts)) => counts.misses,
//!     other => panic!("{other:?}"),
//! };
//! assert!(misses(CacheSpec::PAPER.with_policy(Policy::FlowLru)) <= misses(CacheSpec::PAPER));
//! assert!(misses(CacheSpec::PAPER) < misses(CacheSpec::BASELINE));
//! # Ok::<(), flowloom_tcb_cache::model::OverlapError>(())
//! ```
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "lanes are deliberately truncated from wider words, and times from draws; ratios are for \
        display"
)]

pub mod access;
mod banked;
pub mod bounds;
mod clock;
pub mod cost;
pub mod counts;
pub mod from_packets;
mod fully_associative;
pub mod geometry;
pub mod index;
pub mod lifetime;
pub mod model;
pub mod policy;
pub mod random;
pub mod reference;
pub mod simulate;
pub mod simulator;
pub mod spec;
pub mod trace;

pub use flowloom_flow_key::hash::h3::{H3, H3Error};
pub use flowloom_flow_key::{Direction, FlowKey};

pub use access::Access;
pub use banked::access_count::Counted;
pub use banked::fewer_on::Tie;
pub use banked::own::{Candidate, ReplacementPolicy};
pub use counts::Counts;
pub use geometry::{Geometry, GeometryError};
pub use index::{IndexFunction, Indexing, UnknownIndex};
pub use policy::{Policy, UnknownPolicy};
pub use simulate::{SimulateError, Simulated, Trace};
pub use simulator::Simulator;
pub use spec::{CacheSpec, SpecError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
