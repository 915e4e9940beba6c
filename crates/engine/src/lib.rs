//! Runs packets from a source through decoder, policy, rings, flow tables, application and sink.
//!
//! ```text
//!  all layouts   source ─ batch ─ decode, key, hash ─┐
//!                ┌───────────────────────────────────┘
//!  inline        ├─ burst ─ flow table ─ app ─ sink                     one thread
//!
//!  sharded       ├─ chunk ─┬─ list of shard 0  flows ─ app ─┐           any thread
//!                │         └─ list of shard 1  flows ─ app ─┴─ sink
//!
//!  push          ├─ placement ─┬─ ring ─ worker 0  flows ─ app ─┐
//!                │             └─ ring ─ worker 1  flows ─ app ─┴─ egress ─ sink
//!
//!  pull          └─ pool ◀─ pull policy ◀─ workers  flows ─ app ── egress ─ sink
//! ```
//!
//! [`run_wires`] runs an appliance instead: each worker takes the frames of its own queues, decides
//! about them, and sends them on.
//!
//! The input thread, each worker and the egress thread run one stage each. No stage blocks.
//! [`run_seeded`] runs the same stages without threads. A flow belongs to one worker if the policy
//! keeps it there; otherwise all workers share the flows, in shards behind locks. With private
//! flows the path from source to report takes no lock. No stage allocates, formats or makes a
//! system call per packet. Two counters per worker provide feedback to the input stage.
//!
//! Tables, policies, packets and keys come from [`flow_table`], [`scheduler`], [`packet`] and
//! [`flow_key`].
//!
//! # Examples
//!
//! An application on two workers, watched while it runs:
//!
//! ```
//! use std::time::Duration;
//!
//! use flowloom_engine::{
//!     App, Control, EngineConfig, FlowState, IdleTimeout, Layout, Verdict, run,
//! };
//! use flowloom_engine::flow_table::{LineHash, TableOptions};
//! use flowloom_engine::packet::PacketView;
//! use flowloom_engine::record::{Column, Kind, Value};
//! use flowloom_engine::scheduler::{DirectHash, WorkerCount};
//! use flowloom_traffic::synth::{Generated, Mix, MixConfig};
//!
//! #[derive(Default)]
//! struct Bytes(u64);
//!
//! impl FlowState for Bytes {
//!     const COLUMNS: &'static [Column] =
//!         &[Column::new("bytes", Kind::Bytes, "Bytes of the flow.")];
//!
//!     fn values(&self, out: &mut Vec<Value>) {
//!         out.push(Value::Number(self.0));
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
//! // `CaptureSet::open` opens captures instead.
//! let mix = MixConfig { flows: 400, packets: 6000, ..MixConfig::default() };
//! let mut source = Generated::new(Mix::new(mix)?);
//! let timeout = IdleTimeout::from_ns(60_000_000_000);
//! let config = EngineConfig {
//!     idle_timeout: Some(timeout),
//!     ..EngineConfig::new(Layout::Pipeline { workers: 2 })
//! };
//! // The policy must be made for as many workers as the run has.
//! let mut policy = DirectHash::new(WorkerCount::new(config.layout.workers())?);
//! let table_config =
//!     TableOptions { timeouts: timeout.for_table(), ..TableOptions::for_flows(100_000) };
//! let table = |_| LineHash::try_new(&table_config);
//! let app = |_| NoDatagrams;
//! let control = Control::default();
//! let report = std::thread::scope(|scope| {
//!     let running =
//!         scope.spawn(|| run(&config, &mut source, &mut policy, table, app, &control));
//!     while !running.is_finished() {
//!         let now = control.snapshot();
//!         eprintln!("{} packets, {} in flight", now.packets, now.in_flight);
//!         std::thread::sleep(Duration::from_millis(10));
//!     }
//!     running.join().expect("a run does not panic")
//! })?;
//! // Faults after the start are in the report, which counts every packet all the same.
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
    "flowloom-engine starts threads and reads a clock, which this target does not have: depend on the \
     crates for packets, flow tables, classifiers and scheduling instead"
);

pub mod app;
mod batch;
mod budget;
pub mod config;
pub mod control;
mod dispatch;
mod egress;
pub mod error;
mod exchange;
mod ingest;
mod parts;
pub mod report;
mod runtime;
mod shard_count;
mod stage;
mod sync;
pub mod time;
mod wire;
mod worker;

pub use flowloom_flow_key as flow_key;
pub use flowloom_flow_table as flow_table;
pub use flowloom_packet as packet;
pub use flowloom_record as record;
pub use flowloom_scheduler as scheduler;

pub use app::{Actions, App, Composed, FlowState, Verdict};
pub use config::{Cores, EngineConfig, Layout, Order, PlacementDigest, WhenFull};
pub use control::{Control, Snapshot, WireSnapshot, WorkerSnapshot};
pub use dispatch::policy::PolicyRef;
pub use egress::prepare::PrepareRecords;
pub use egress::records::RecordSink;
pub use egress::reorder::{PacketSink, Released, SinkCounters};
pub use error::{ConfigError, Fault, SinkError, StartError};
pub use ingest::pace::Pace;
pub use parts::compose::RecordVisitor;
pub use parts::saved::{MergeError, MergedParts, PartRecord, SavedPart, merge_parts};
pub use report::counters;
pub use report::counters::RecordsReport;
pub use report::digest::ResultDigest;
pub use report::results::{EndedBy, FlowRecord, FlowResults, FlowResultsIter};
pub use report::timeline::{Interval, Timeline};
pub use report::{RunReport, ShardedReport, SharedReport, WorkerReport};
pub use runtime::assemble::Endpoints;
pub use runtime::pin::Pinning;
pub use runtime::simulate::{SeededError, run_seeded};
pub use runtime::threads::{run, run_with};
pub use time::{FlowTimeouts, IdleTimeout};
pub use wire::{DecisionCounts, NoFlow, NoFlowPolicy, OnPanic, WireOptions, WireRun, run_wires};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
