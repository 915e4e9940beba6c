//! Runs the stages, on threads or by a seeded schedule, and assembles, pins and ends them.

pub(crate) mod assemble;
pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod finish;
#[cfg(all(test, loom))]
mod loom;
pub(crate) mod panics;
pub(crate) mod pin;
pub(crate) mod poll;
pub(crate) mod shutdown;
pub(crate) mod simulate;
pub(crate) mod threads;
