//! Applications for `flowloom-engine`: what a worker does with a packet of a known flow.
//!
//! | application | state per flow | purpose |
//! | --- | --- | --- |
//! | [`Null`] | nothing | measures the cost of the engine |
//! | [`TcpTracker`] | packets, bytes, times, flags per direction, TCP state | flow accounting, connection tracking |
//! | [`Firewall`] | the verdict, the rule that gave it, packets and bytes accepted and denied | first-match rules, replaced while packets flow |
//! | [`Accounting`] | times, packets, bytes, flags per direction, in records that end by timeouts | NetFlow-like accounting |
//! | [`L7Filter`] | the protocol's name, or how far its first packets were scanned | identifying protocols |
//! | [`Meter`] | accounting, and what its modules keep | accounting with fields, labels and verdicts in one record |
//! | [`CacheProbe`] | how far a session has ended, and the wrapped application's state | simulating a cache during a run |
//!
//! [`CaptureSink`] writes accepted packets to a capture file. Runs, rules and patterns come from
//! [`engine`], [`classifier`] and [`dpi`].
//!
//! # Features
//!
//! All are in the default: `firewall` ([`Firewall`]), `l7-filter` ([`L7Filter`]), and with both
//! [`Meter`] and [`Guard`]; `capture-sink` ([`CaptureSink`]), `cache-probe` ([`CacheProbe`]).
//! Without them the crate has accounting, connection tracking and [`Null`].
//!
//! # Examples
//!
//! Example: the TCP connections of generated traffic, on this thread.
//!
//! ```
//! use flowloom_apps::engine::flow_table::{LineHash, TableOptions};
//! use flowloom_apps::engine::scheduler::{DirectHash, WorkerCount};
//! use flowloom_apps::engine::{Control, EngineConfig, Layout, run};
//! use flowloom_apps::{TcpState, TcpTracker};
//! use flowloom_traffic::synth::{Generated, Mix, MixConfig};
//!
//! // `CaptureSet::open` opens captures instead.
//! let mix = MixConfig { flows: 400, packets: 6000, ..MixConfig::default() };
//! let mut source = Generated::new(Mix::new(mix)?);
//! let config = EngineConfig::new(Layout::Inline);
//! let mut policy = DirectHash::new(WorkerCount::new(1)?);
//! let table = |_| LineHash::try_new(&TableOptions::for_flows(10_000));
//! let (app, control) = (|_| TcpTracker, Control::default());
//! let report = run(&config, &mut source, &mut policy, table, app, &control)?;
//! let mut connections = 0;
//! for record in &report.flows {
//!     if record.state.state() != TcpState::NotTcp {
//!         println!("{}  {}", record.key, record.state.state().name());
//!         connections += 1;
//!     }
//! }
//! assert!(connections > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod accounting;
pub mod any_app;
#[cfg(feature = "cache-probe")]
pub mod cache_probe;
#[cfg(feature = "capture-sink")]
pub mod capture_sink;
#[cfg(feature = "firewall")]
pub mod firewall;
#[cfg(all(feature = "firewall", feature = "l7-filter"))]
pub mod guard;
#[cfg(feature = "l7-filter")]
pub mod l7_filter;
#[cfg(all(feature = "firewall", feature = "l7-filter"))]
pub mod meter;
pub mod null;
mod record_columns;
pub mod record_state;
#[cfg(all(test, feature = "firewall", feature = "l7-filter"))]
mod reference;
pub mod save_state;
pub mod tcp_tracker;

#[cfg(feature = "firewall")]
pub use flowloom_classifier as classifier;
pub use flowloom_dpi as dpi;
pub use flowloom_engine as engine;
pub use flowloom_flow_key as flow_key;
pub use flowloom_record as record;
#[cfg(feature = "firewall")]
pub use flowloom_rules as rules;
#[cfg(feature = "cache-probe")]
pub use flowloom_tcb_cache as tcb_cache;

pub use accounting::Accounting;
pub use any_app::{AnyApp, AnyFlow, any_app};
#[cfg(feature = "cache-probe")]
pub use cache_probe::{CacheProbe, ProbeCounts, Probed};
#[cfg(feature = "capture-sink")]
pub use capture_sink::CaptureSink;
#[cfg(feature = "firewall")]
pub use firewall::Firewall;
#[cfg(all(feature = "firewall", feature = "l7-filter"))]
pub use guard::{Guard, GuardedFlow, GuardedProtocols, ProtocolCounts};
#[cfg(feature = "l7-filter")]
pub use l7_filter::{Confidence, L7Error, L7Filter, L7Flow, L7Options, L7Plan, L7State, L7Totals};
#[cfg(all(feature = "firewall", feature = "l7-filter"))]
pub use meter::{Meter, MeterFlow};
pub use null::{NoState, Null};
pub use record_state::{EndedFlow, RecordState};
pub use save_state::SaveState;
pub use tcp_tracker::{TcpFlow, TcpState, TcpTracker};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
