//! What a worker does with a packet of a known flow.
//!
//! | application | keeps per flow | for |
//! | --- | --- | --- |
//! | [`Null`] | nothing | the cost of everything else |
//! | [`TcpTracker`] | packets, bytes, times, flags per direction, TCP state | flow accounting, connection tracking |
//! | [`Firewall`] | the verdict, the rule that gave it, packets and bytes accepted and denied | first-match rules, replaced while packets flow |
//! | [`Accounting`] | times, packets, bytes, flags per direction, in records that end by timeouts | NetFlow-like accounting |
//! | [`L7Filter`] | the protocol's name, or how far its first packets were scanned | what the traffic is |
//! | [`CacheProbe`] | how far a session's end has come, and what the application within keeps | a simulated cache beside a run |
//!
//! Where accepted packets go: [`CaptureSink`] writes them to a capture file. Runs, rules and patterns are those of [`engine`],
//! [`classifier`] and [`dpi`].
//!
//! # Examples
//!
//! The connections of generated traffic, in this thread:
//!
//! ```
//! use flowloom_apps::engine::flow_table::{LineHash, LineHashConfig};
//! use flowloom_apps::engine::scheduler::{DirectHash, WorkerCount};
//! use flowloom_apps::engine::{Control, EngineConfig, Layout, run};
//! use flowloom_apps::{TcpState, TcpTracker};
//! use flowloom_traffic::synth::{Generated, Mix, MixConfig};
//!
//! // Of a capture it would be CaptureSet::open.
//! let mut source = Generated::new(Mix::new(MixConfig { flows: 400, packets: 6000, ..MixConfig::default() })?);
//! let config = EngineConfig::new(Layout::Inline);
//! let mut policy = DirectHash::new(WorkerCount::new(1)?);
//! let table = |_| LineHash::try_new(&LineHashConfig::for_flows(10_000));
//! let report = run(&config, &mut source, &mut policy, table, |_| TcpTracker, &Control::default())?;
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
pub mod cache_probe;
pub mod capture_sink;
pub mod firewall;
pub mod l7_filter;
pub mod null;
pub mod save_state;
pub mod source_way;
pub mod tcp_tracker;

pub use flowloom_classifier as classifier;
pub use flowloom_dpi as dpi;
pub use flowloom_engine as engine;
pub use flowloom_flow_key as flow_key;
pub use flowloom_tcb_cache as tcb_cache;

pub use accounting::Accounting;
pub use cache_probe::{CacheProbe, ProbeCounts, Probed};
pub use capture_sink::CaptureSink;
pub use firewall::Firewall;
pub use l7_filter::{L7Error, L7Filter, L7Flow, L7Options, L7Plan, L7State, L7Totals};
pub use null::{NoState, Null};
pub use save_state::SaveState;
pub use source_way::SourceWay;
pub use tcp_tracker::{TcpFlow, TcpState, TcpTracker};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
