//! Tests the built command from outside: its output, its files, its exit.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounting;
mod bench;
mod book;
mod bytes;
mod classify;
mod decoding;
mod defrag;
mod errors;
mod extract;
mod fields;
mod firewall;
mod fixtures;
#[cfg(feature = "arrow")]
mod fragments;
mod generate;
mod inspect;
mod interrupt;
mod l7;
mod limits;
mod losses;
mod memory;
mod outputs;
mod parts;
mod plurals;
mod real;
mod replay;
mod reproduce;
mod rules;
mod save;
mod scenarios;
mod schema;
mod select;
mod simulate;
mod standard_output;
mod support;
mod tcb_cache;
mod top;
mod transcripts;
mod truncation;
mod wireshark;
