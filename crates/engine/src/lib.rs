//! Composes source, key, placement, ring, table and application, and runs them.
//!
//! ```text
//!  inline      source ─ batch ─ decode, key, hash ─ burst ─ flow table ─ app        one thread
//!  pipeline    source ─ batch ─ decode, key, hash ─ placement ─┬─ ring ─ worker 0   flow table ─ app
//!                                                              └─ ring ─ worker 1   flow table ─ app
//! ```
//!
//! Between source and report there is no lock, no allocation, no system call and no formatting per packet. What flows
//! back is one counter per worker.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "positions and counts of what lies in this machine's memory"
)]

pub mod app;
mod clock;
pub mod config;
pub mod control;
pub mod counters;
mod descriptor;
pub mod digest;
mod dispatch;
mod drive;
pub mod error;
mod inline;
mod input;
pub mod pace;
pub mod pin;
pub mod report;
pub mod results;
mod ring;
mod run;
mod stage;
pub mod time;
mod wait;
mod worker;

pub use app::{App, FlowState, FlowValue, Verdict};
pub use config::{Cores, EngineConfig, Mode, WhenFull};
pub use control::Control;
pub use digest::ResultDigest;
pub use error::{ConfigError, Fault, StartError};
pub use pace::Pace;
pub use report::{RunReport, WorkerReport};
pub use results::{FlowRecord, FlowResults};
pub use run::run;
pub use time::IdleTimeout;
