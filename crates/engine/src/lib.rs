//! Composes source, key, policy, rings, tables, application and sink, and runs them.
//!
//! ```text
//!  inline      source ─ batch ─ decode, key, hash ─ burst ─ flow table ─ app ─ sink                   one thread
//!  push        source ─ batch ─ decode, key, hash ─ placement ─┬─ ring ─ worker 0  flows ─ app ─┐
//!                                                              └─ ring ─ worker 1  flows ─ app ─┴─ egress ─ sink
//!  pull        source ─ batch ─ decode, key, hash ─ pool ◀─ intake ─ workers       flows ─ app ─── egress ─ sink
//! ```
//!
//! Each box that has a thread is a stage that never waits ([`seeded`] runs them without threads); the input stage may do without one
//! ([`InputThread`]). Flows belong to a worker where
//! the policy leaves them there, else to all, in shards behind locks. With private flows there is no lock between source and
//! report, and nowhere an allocation, a system call or formatting per packet. What flows back is one counter per worker.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "positions and counts of what lies in this machine's memory"
)]

mod actor;
pub mod app;
mod clock;
pub mod config;
pub mod control;
pub mod counters;
mod crew;
mod descriptor;
pub mod digest;
pub mod discipline;
mod dispatch;
mod drive;
pub mod egress;
pub mod error;
mod flows;
mod halt;
mod handing_out;
mod inline;
mod input;
mod lot;
#[cfg(all(test, loom))]
mod models;
pub mod pace;
pub mod pin;
mod pool;
mod progress;
pub mod report;
pub mod results;
mod ring;
mod run;
pub mod seeded;
mod shared;
mod stage;
mod sync;
mod tickets;
pub mod time;
mod tray;
mod turn;
mod turns_at_input;
mod wait;
mod worker;

pub use app::{App, FlowState, FlowValue, Verdict};
pub use config::{Cores, EngineConfig, InputThread, Mode, Order, PlacementDigest, WhenFull};
pub use control::{Control, Snapshot, WorkerSnapshot};
pub use crew::Parts;
pub use digest::ResultDigest;
pub use discipline::Discipline;
pub use egress::{PacketSink, Released, SinkCounters};
pub use error::{ConfigError, Fault, SinkError, StartError};
pub use pace::Pace;
pub use report::{RunReport, SharedReport, WorkerReport};
pub use results::{FlowRecord, FlowResults};
pub use run::{run, run_parts};
pub use seeded::{SeededError, run_seeded};
pub use time::IdleTimeout;
