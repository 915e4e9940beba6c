//! Whole runs of the engine: every packet is accounted for, and the results do not depend on the
//! layout.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers that a seed has drawn")]

mod common;
mod counts;
mod digests;
mod dry;
mod ends;
mod evicting;
mod faults;
mod hooks;
mod layouts;
mod load;
mod named;
mod order;
mod records;
mod sharded;
mod silent;
mod window;
mod wire_faults;
mod wires;
