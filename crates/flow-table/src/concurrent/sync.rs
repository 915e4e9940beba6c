//! The atomics and the lock: the standard ones, or loom's in a model.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::{Mutex, MutexGuard};
