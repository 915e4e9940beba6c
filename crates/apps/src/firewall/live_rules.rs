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

#[derive(Debug)]
struct Generations {
    current: Arc<FirewallRules>,
    /// Rules that some worker may still judge by. Kept, so that no worker is the last to hold them: giving back a large
    /// classifier's memory takes longer than a packet may.
    retired: Vec<Arc<FirewallRules>>,
}

/// The rules of a run, shared by its workers and by whoever replaces them.
#[derive(Debug)]
pub struct LiveRules {
    generation: AtomicU32,
    rules: Mutex<Generations>,
    counts: Mutex<VerdictCounts>,
}

impl LiveRules {
    /// Returns a handle to rules of the first generation.
    #[must_use]
    pub fn new(rules: FirewallRules) -> Self {
        Self {
            generation: AtomicU32::new(1),
            rules: Mutex::new(Generations { current: Arc::new(rules), retired: Vec::new() }),
            counts: Mutex::new(VerdictCounts::default()),
        }
    }

    /// Puts other rules in place of the present ones. Flows are judged by them from their next packet on.
    ///
    /// The memory of rules that nobody judges by any more is given back here, the next time: at most those of one set a
    /// worker and one more wait.
    pub fn replace(&self, rules: FirewallRules) {
        let rules = Arc::new(rules);
        let mut place = locked(&self.rules);
        let retired = std::mem::take(&mut place.retired);
        let (unused, mut in_use): (Vec<_>, Vec<_>) =
            retired.into_iter().partition(|rules| Arc::strong_count(rules) == 1);
        in_use.push(std::mem::replace(&mut place.current, rules));
        place.retired = in_use;
        // Inside the lock: whoever sees the new number and asks for the rules gets these or newer ones.
        self.generation.fetch_add(1, Ordering::Release);
        drop(place);
        drop(unused);
    }

    /// Returns the number of the present rules: 1 for the first, one more for each replacement.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the present rules and their number.
    pub fn current(&self) -> (u32, Arc<FirewallRules>) {
        let place = locked(&self.rules);
        (self.generation(), Arc::clone(&place.current))
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

#[cfg(test)]
mod tests {
    use flowloom_classifier::RuleSet;

    use super::super::rules::Defaults;
    use super::*;

    #[test]
    fn rules_are_freed_by_whoever_replaces_them_and_not_while_they_are_in_use() {
        let empty = || FirewallRules::scanning(RuleSet::default(), Defaults::default());
        let live = LiveRules::new(empty());
        let (_, held) = live.current();
        let weak: Vec<_> = (0..4)
            .map(|_| {
                live.replace(empty());
                Arc::downgrade(&live.current().1)
            })
            .collect();
        assert_eq!((live.generation(), Arc::strong_count(&held)), (5, 2), "kept for its worker");
        let alive: Vec<bool> = weak.iter().map(|rules| rules.strong_count() > 0).collect();
        assert_eq!(alive, [false, false, true, true], "the last one waits for the next replacement");
        drop(held);
        live.replace(empty());
        assert_eq!(locked(&live.rules).retired.len(), 1);
    }
}
