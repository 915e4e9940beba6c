//! Whole runs of the engine: whatever happens, every packet is accounted for, and the results do not depend on the layout.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod layouts;
mod order;
