//! Tests the built command from outside: its output, its files, its exit.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounting;
mod analyst_files;
mod analyst_names;
mod analyst_selection;
mod bench;
mod book;
mod bytes;
mod copies;
mod extract;
mod fields;
mod firewall;
mod fixtures;
#[cfg(feature = "arrow")]
mod fragments;
mod inspect;
mod interrupt;
mod limits;
mod memory;
mod outputs;
mod parts;
mod real;
mod replay;
mod save;
mod scenarios;
mod schema;
mod support;
mod tcb_cache;
mod top;
mod transcripts;
mod truncation;
mod wireshark;
