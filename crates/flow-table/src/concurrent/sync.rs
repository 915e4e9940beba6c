//! The atomics and the lock: the standard ones, or those of loom or shuttle in a model.
//!
//! loom remembers one last access of each atomic. A writer that loads a word before it stores it,
//! as the writers here do, would hide the earlier load of a reader, and loom would not try the
//! other order. In a model, the loads of writers, which own the words that they load, are therefore
//! exchanges.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(super) use loom::sync::{Mutex, MutexGuard};
#[cfg(shuttle)]
pub(super) use shuttle::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(any(loom, shuttle)))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(any(loom, shuttle)))]
pub(super) use std::sync::{Mutex, MutexGuard};

/// Loads a word that only the caller may store.
#[inline(always)]
pub(super) fn load_own(word: &AtomicU64) -> u64 {
    #[cfg(loom)]
    return word.fetch_or(0, Ordering::AcqRel);
    #[cfg(not(loom))]
    word.load(Ordering::Relaxed)
}

/// Loads a pointer that only the caller may store.
#[inline(always)]
pub(super) fn load_own_pointer<T>(pointer: &AtomicPtr<T>) -> *mut T {
    #[cfg(loom)]
    return pointer.fetch_update(Ordering::AcqRel, Ordering::Acquire, Some).unwrap_or_else(|own| own);
    #[cfg(not(loom))]
    pointer.load(Ordering::Acquire)
}
