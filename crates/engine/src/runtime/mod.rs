//! Runs the stages, on threads or by a seeded schedule, and assembles, pins and ends them.

pub(crate) mod assemble;
pub(crate) mod finish;
#[cfg(all(test, loom))]
mod loom;
pub(crate) mod pin;
pub(crate) mod simulate;
pub(crate) mod threads;
