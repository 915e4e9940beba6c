//! Flow-level packet processing: captures and generators in, pinned workers with flow tables and
//! applications behind them, counted and balanced results out.
//!
//! This crate re-exports the rooms of the house under one name each. A firewall that only needs a table takes
//! `flowloom-flow-table` by itself.
//!
//! | room | holds |
//! | --- | --- |
//! | [`cpu`] | what the processor offers: features, prefetch, pages, topology |
//! | [`flow_key`] | the name of a flow, and its keyed hash |
//! | [`packet`] | bytes to headers; the arena; the `PacketSource` seam |
//! | [`flow_table`] | from key to state: LineHash, and the tables of the papers |
//! | [`classifier`] | from headers to the first rule that matches |
//! | [`dpi`] | from first bytes to the protocol's name; TCP data in sequence |
//! | [`scheduler`] | which worker gets a packet |
//! | [`tcb_cache`] | simulated caches of connection state |
//! | [`traffic`] | captures and generators |
//! | [`engine`] | input stage, rings, workers, report |
//! | [`apps`] | what a worker does with a packet |
//!
//! The examples show them together: `appliance` is one in forty lines, `firewall` has rules that are replaced while packets flow, `dpdk`
//! and `af_xdp` take packets from elsewhere.
//!
//! # Features
//!
//! * `live`: interfaces, through libpcap, a C library.

pub use flowloom_apps as apps;
pub use flowloom_classifier as classifier;
pub use flowloom_cpu as cpu;
pub use flowloom_dpi as dpi;
pub use flowloom_engine as engine;
pub use flowloom_flow_key as flow_key;
pub use flowloom_flow_table as flow_table;
pub use flowloom_packet as packet;
pub use flowloom_scheduler as scheduler;
pub use flowloom_tcb_cache as tcb_cache;
pub use flowloom_traffic as traffic;
