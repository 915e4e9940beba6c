//! Readers of logs and traces. They read from any [`Read`](std::io::Read); the caller decompresses
//! the input.
//!
//! | format | file | a record is |
//! | --- | --- | --- |
//! | Common and combined log | [`clf`] | a request |
//! | TSV with host, time, bytes | [`tsv`] | a request |
//! | W3C extended log, of IIS and others | [`w3c`] | a request |
//! | Boston University's client traces | [`bu`] | a request |
//! | CSV with time, key, end | [`csv`] | an access |
//! | `oracleGeneral` of libCacheSim | [`oracle_general`] | an access |
//! | VSCSI, versions 1 and 2 | [`vscsi`] | an access |
//!
//! Logs contain errors. A reader skips unusable records and counts each under a [`Skip`]. It trusts
//! no value, limits all buffers, and fails only on errors of its input.

mod accesses;
pub mod bu;
mod calendar;
pub mod clf;
pub mod csv;
mod entry;
mod format;
mod lines;
mod log;
pub(crate) mod number;
pub mod oracle_general;
mod summary;
pub mod tsv;
pub mod vscsi;
pub mod w3c;

pub use accesses::{AccessTrace, read_accesses};
pub use entry::Entry;
pub use format::{Format, UnknownFormat};
pub use lines::LINE_BYTES_MAX;
pub use log::read_log;
pub use summary::{ReadError, ReadLimits, ReadSummary, Skip};
