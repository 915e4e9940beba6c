//! Rules that are replaced while workers judge by them.
//!
//! ```text
//!  LiveRules: generation 3 ─▶ rules ◀── worker 0: generation 3, the same rules
//!                                   ◀── worker 1: generation 2, until its next packet
//! ```
//!
//! Unlike [`flowloom_classifier::live::Live`], which changes single rules, the whole set is replaced: what is built
//! beside the running workers is put in place by one exchange, and workers see it at their next packet.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rules::FirewallRules;
use super::tally::VerdictCounts;

/// The rules of a run, shared by its workers and by whoever replaces them.
#[derive(Debug)]
pub struct LiveRules {
    generation: AtomicU32,
    current: Mutex<Arc<FirewallRules>>,
    counts: Mutex<VerdictCounts>,
}

impl LiveRules {
    /// Returns a handle to rules of the first generation.
    #[must_use]
    pub fn new(rules: FirewallRules) -> Self {
        Self {
            generation: AtomicU32::new(1),
            current: Mutex::new(Arc::new(rules)),
            counts: Mutex::new(VerdictCounts::default()),
        }
    }

    /// Puts other rules in place of the present ones. Flows are judged by them from their next packet on.
    pub fn replace(&self, rules: FirewallRules) {
        let mut current = locked(&self.current);
        *current = Arc::new(rules);
        // Inside the lock: whoever sees the new number and asks for the rules gets these or newer ones.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of the present rules: 1 for the first, one more for each replacement.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the present rules and their number.
    pub fn current(&self) -> (u32, Arc<FirewallRules>) {
        let current = locked(&self.current);
        (self.generation(), Arc::clone(&current))
    }

    /// Returns what workers have handed over: those whose application has been dropped, and of the others what they
    /// counted before they took the present rules.
    pub fn counts(&self) -> VerdictCounts {
        locked(&self.counts).clone()
    }

    pub(super) fn add(&self, counts: &VerdictCounts) {
        locked(&self.counts).add(counts);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
