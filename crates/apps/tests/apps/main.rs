//! Compares applications with simple ones, over generated packets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounting;
mod firewall;
mod layouts;
mod matrix;
#[path = "../memory/mod.rs"]
mod memory;
mod merge;
mod support;
mod traffic;
