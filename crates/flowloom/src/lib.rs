//! Flow-level packet processing: captures and generators in, pinned workers with flow tables and
//! applications behind them, counted and balanced results out.
//!
//! This crate re-exports each library crate of Flowloom under one name, behind a feature of that
//! name where the table lists one.
//!
//! | module | contents | feature |
//! | --- | --- | --- |
//! | `cpu` | what the processor offers: features, prefetch, pages, topology | always |
//! | `flow_key` | the name of a flow, and its keyed hash | always |
//! | `flow_table` | from key to state: `FlowMap`, `LineHash` | always |
//! | `packet` | bytes to headers; sources of packets and their memory | `packet` (default) |
//! | `classifier` | from headers to the first rule that matches | `classifier` (default) |
//! | `rules` | firewall rules in seven formats: load, judge, compare, write | `rules` (default) |
//! | `dpi` | from first bytes to the protocol's name; TCP data in sequence | `dpi` (default) |
//! | `record` | the columns and the values of flow records | `record` (default) |
//! | `scheduler` | which worker or backend gets a packet | `scheduler` (default) |
//! | `traffic` | captures and generators | `capture` (default) |
//! | `filter` | packet filters in the language of pcap-filter(7) | `filter` (default) |
//! | `engine` | input stage, rings, workers, report | `engine` (default) |
//! | `apps` | what a worker does with a packet | `apps` (default) |
//! | `io` | live ports of Linux, to receive and to send | `io` |
//! | `tcb_cache` | simulated caches of connection state | `papers` |
//!
//! # Examples
//!
//! The connections of a capture:
//!
//! ```
//! use flowloom::apps::TcpTracker;
//! use flowloom::engine::{Control, EngineConfig, Layout, run};
//! use flowloom::flow_table::{LineHash, TableOptions};
//! use flowloom::scheduler::{DirectHash, WorkerCount};
//! use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
//!
//! # use flowloom::traffic::synth::{Generate, Sample};
//! # use flowloom::traffic::write::{PcapOptions, PcapWriter};
//! # let path = std::env::temp_dir().join(format!("flowloom-{}.pcap", std::process::id()));
//! # let mut campus = Sample::named("campus").expect("a sample").generator();
//! # let mut frame = Vec::new();
//! # let mut writer = PcapWriter::new(std::fs::File::create(&path)?, PcapOptions::default())?;
//! # while let Some(meta) = campus.next_into(&mut frame) {
//! #     writer.write(meta.time_ns, meta.wire_bytes, &frame)?;
//! # }
//! # writer.finish()?;
//! # let written = path.clone();
//! let mut source = CaptureSet::open(&[Input::Path(path.into())], SetOptions::default())?;
//! // On this thread; Layout::Pipeline { workers } has threads of its own.
//! let config = EngineConfig::new(Layout::Inline);
//! let mut policy = DirectHash::new(WorkerCount::new(config.layout.workers())?);
//! let table = |_| LineHash::try_new(&TableOptions::for_flows(100_000));
//! let control = Control::default();
//! let report = run(&config, &mut source, &mut policy, table, |_| TcpTracker, &control)?;
//!
//! for flow in &report.flows {
//!     println!("{}  {:?}", flow.key, flow.state);
//! }
//! assert_eq!((report.input.packets, report.flows.len()), (6000, 400));
//! # std::fs::remove_file(written)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The programs under `examples/` show more: `appliance` is one in forty lines, `translator`,
//! `load_balancer`, `flow_limiter` and `sensor` bring their own traffic, `rate_limiter` sits
//! between interfaces, `firewall` and `stateful_firewall` have rules that are replaced while
//! packets flow. For other sources of packets, implement `PacketSource`.
//!
//! # What stays
//!
//! Versions follow semantic versioning, for all crates together. Code that follows these rules
//! keeps compiling where types grow:
//!
//! * Results, reports, counters, errors and descriptions are `#[non_exhaustive]`: they get fields
//!   and variants in any version.
//! * Configurations and rules may get fields in any version, with neutral defaults. End a literal
//!   with `..` and the base that the type offers: `..TableOptions::for_flows(n)`,
//!   `..EngineConfig::new(mode)`, `..Rule::ANY`, `..SetOptions::default()`.
//! * `engine::Verdict`, `classifier::Action`, `scheduler::Decision`, `packet::Fill`, and `Kind`,
//!   `Value` and `Group` of [`record`] can be matched exhaustively: another variant would be a
//!   breaking change, since no caller may overlook it.
//! * Traits that are implemented outside get methods only with a body.
//! * Two kinds of code may change in any version: what the feature `papers` adds (`baseline`,
//!   `dhash` and `sighash` of [`flow_table`], `aggrecuts` and `hicuts` of `classifier`,
//!   `scheduler::sim`, `tcb_cache`), and the modules for tests (`laws`, `oracle`, `probe`, and
//!   every `layout`).
//!
//! Rust 1.89 is enough; only a minor version may require a later one.
//!
//! # Features
//!
//! The defaults suffice for captures, rules, policies and applications. Without them
//! (`default-features = false`), enable the features that you need:
//!
//! * `apps`, `capture`, `classifier`, `dpi`, `engine`, `filter`, `io`, `packet`, `record`,
//!   `scheduler`: the libraries of the table above.
//! * `concurrent`: a flow table that many threads read.
//! * `live`: interfaces, through libpcap, a C library.
//! * `papers`: tables, classifiers and simulators for comparisons.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "apps")]
pub use flowloom_apps as apps;
#[cfg(feature = "classifier")]
pub use flowloom_classifier as classifier;
pub use flowloom_cpu as cpu;
#[cfg(feature = "dpi")]
pub use flowloom_dpi as dpi;
#[cfg(feature = "engine")]
pub use flowloom_engine as engine;
#[cfg(feature = "filter")]
pub use flowloom_filter as filter;
pub use flowloom_flow_key as flow_key;
pub use flowloom_flow_table as flow_table;
#[cfg(feature = "io")]
pub use flowloom_io as io;
#[cfg(feature = "packet")]
pub use flowloom_packet as packet;
#[cfg(feature = "record")]
pub use flowloom_record as record;
#[cfg(feature = "rules")]
pub use flowloom_rules as rules;
#[cfg(feature = "scheduler")]
pub use flowloom_scheduler as scheduler;
#[cfg(feature = "papers")]
pub use flowloom_tcb_cache as tcb_cache;
#[cfg(feature = "capture")]
pub use flowloom_traffic as traffic;

#[cfg(all(doctest, feature = "apps"))]
#[doc = include_str!("../README.md")]
struct Readme;
