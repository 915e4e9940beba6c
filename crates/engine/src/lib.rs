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
//! report, and nowhere an allocation, a system call or formatting per packet. What flows back is two counters per worker.
//!
//! Tables, policies, packets and keys are those of [`flow_table`], [`scheduler`], [`packet`] and [`flow_key`].
//!
//! # Examples
//!
//! An application of one's own on two workers, watched while it runs:
//!
//! ```
//! use std::time::Duration;
//!
//! use flowloom_engine::{App, Control, EngineConfig, FlowState, FlowValue, IdleTimeout, Mode, Verdict, run};
//! use flowloom_engine::flow_table::{LineHash, LineHashConfig};
//! use flowloom_engine::packet::PacketView;
//! use flowloom_engine::scheduler::{DirectHash, WorkerCount};
//! use flowloom_traffic::synth::{Generated, Mix, MixConfig};
//!
//! #[derive(Default)]
//! struct Bytes(u64);
//!
//! impl FlowState for Bytes {
//!     const COLUMNS: &'static [&'static str] = &["bytes"];
//!
//!     fn values(&self, out: &mut Vec<FlowValue>) {
//!         out.push(FlowValue::Count(self.0));
//!     }
//!
//!     fn merge(&mut self, later: Self) {
//!         self.0 += later.0;
//!     }
//! }
//!
//! struct NoDatagrams;
//!
//! impl App for NoDatagrams {
//!     type Flow = Bytes;
//!
//!     fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Bytes) -> Verdict {
//!         flow.0 += u64::from(packet.wire_bytes);
//!         if packet.headers.key.protocol() == 17 { Verdict::Deny } else { Verdict::Accept }
//!     }
//! }
//!
//! // Of a capture it would be CaptureSet::open.
//! let mut source = Generated::new(Mix::new(MixConfig { flows: 400, packets: 6000, ..MixConfig::default() })?);
//! let timeout = IdleTimeout::from_ns(60_000_000_000);
//! let config = EngineConfig {
//!     idle_timeout: Some(timeout),
//!     ..EngineConfig::new(Mode::Pipeline { workers: 2 })
//! };
//! // The policy is for as many workers as the run has.
//! let mut policy = DirectHash::new(WorkerCount::new(config.mode.workers())?);
//! let table_config = LineHashConfig { timeouts: timeout.for_table(), ..LineHashConfig::for_flows(100_000) };
//! let table = |_| LineHash::try_new(&table_config);
//! let control = Control::default();
//! let report = std::thread::scope(|scope| {
//!     let running = scope.spawn(|| run(&config, &mut source, &mut policy, table, |_| NoDatagrams, &control));
//!     while !running.is_finished() {
//!         let now = control.snapshot();
//!         eprintln!("{} packets, {} denied, {} on their way", now.packets, now.denied, now.in_flight);
//!         std::thread::sleep(Duration::from_millis(10));
//!     }
//!     running.join().expect("a run does not panic")
//! })?;
//! // What went wrong after the start is in the report, which counts every packet all the same.
//! if let Some(fault) = &report.fault {
//!     eprintln!("{fault}");
//! }
//! assert!(report.fault.is_none() && report.is_balanced());
//! assert_eq!(report.input.packets, report.processed() + report.dropped().total());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "positions and counts of what lies in this machine's memory"
)]

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
compile_error!(
    "flowloom-engine starts threads and reads a clock, which this target does not have: take the crates for packets, flow tables, \
     classifiers and scheduling by themselves"
);

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

pub use flowloom_flow_key as flow_key;
pub use flowloom_flow_table as flow_table;
pub use flowloom_packet as packet;
pub use flowloom_scheduler as scheduler;

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
pub use results::{FlowRecord, FlowResults, FlowResultsIter};
pub use run::{run, run_parts};
pub use seeded::{SeededError, run_seeded};
pub use time::IdleTimeout;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
