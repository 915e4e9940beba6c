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
use super::tally::{Tally, VerdictCounts};

#[derive(Debug)]
struct Generations {
    current: Arc<FirewallRules>,
    /// Rules that some worker may still judge by. Kept, so that no worker is the last to hold them: giving back a large
    /// classifier's memory takes longer than a packet may.
    retired: Vec<Arc<FirewallRules>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Of workers that are done, or that have taken other rules since.
    ended: VerdictCounts,
    /// What workers are counting.
    tallies: Vec<Arc<Tally>>,
}

/// The rules of a run, shared by its workers and by whoever replaces them.
#[derive(Debug)]
pub struct LiveRules {
    generation: AtomicU32,
    rules: Mutex<Generations>,
    counts: Mutex<Counts>,
}

impl LiveRules {
    /// Returns a handle to rules of the first generation.
    #[must_use]
    pub fn new(rules: FirewallRules) -> Self {
        Self {
            generation: AtomicU32::new(1),
            rules: Mutex::new(Generations { current: Arc::new(rules), retired: Vec::new() }),
            counts: Mutex::default(),
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

    /// Returns what all workers have counted up to now, each number by itself: a packet that is just being judged may be in one and
    /// not yet in another. Once the applications have been dropped all agree.
    ///
    /// Costs time and memory by the number of rules, and no worker any time while it judges by the rules it has.
    pub fn counts(&self) -> VerdictCounts {
        let (mut counts, tallies) = {
            let place = locked(&self.counts);
            (place.ended.clone(), place.tallies.clone())
        };
        for tally in &tallies {
            counts.add(&tally.counts());
        }
        counts
    }

    /// Returns what a worker counts in from now on, and the present rules with it.
    pub(super) fn begin(&self) -> Arc<Tally> {
        let (generation, rules) = self.current();
        let tally = Arc::new(Tally::new(generation, rules));
        locked(&self.counts).tallies.push(Arc::clone(&tally));
        tally
    }

    /// Ends what a worker has counted in.
    pub(super) fn end(&self, tally: &Arc<Tally>) {
        let counts = tally.counts();
        let mut place = locked(&self.counts);
        place.ended.add(&counts);
        place.tallies.retain(|other| !Arc::ptr_eq(other, tally));
    }

    /// Takes back what a worker has counted.
    pub(super) fn forget(&self, tally: &Arc<Tally>) {
        locked(&self.counts).tallies.retain(|other| !Arc::ptr_eq(other, tally));
    }

    /// Takes back what a worker has counted, and as much of what others have.
    pub(super) fn subtract(&self, tally: &Arc<Tally>) {
        let counts = tally.counts();
        let mut place = locked(&self.counts);
        place.ended.subtract(&counts);
        place.tallies.retain(|other| !Arc::ptr_eq(other, tally));
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
    fn what_workers_count_is_told_while_they_do_and_once() {
        let empty = || FirewallRules::scanning(RuleSet::default(), Defaults::default());
        let live = LiveRules::new(empty());
        let [first, second] = [live.begin(), live.begin()];
        let denied =
            || (live.counts().denied.packets, live.counts().by_rule[0].packets, live.counts().generation);
        first.rule(0).packet(60);
        second.rule(0).packet(60);
        second.begin(flowloom_engine::Verdict::Deny);
        assert_eq!(denied(), (2, 2, 1));
        live.replace(empty());
        live.end(&first);
        assert_eq!(denied(), (2, 2, 1), "one has ended");
        let third = live.begin();
        assert_eq!(denied(), (2, 0, 2), "the newest rules have decided nothing");
        third.rule(0).packet(60);
        second.rule(0).packet(60);
        assert_eq!(denied(), (4, 1, 2));
        live.end(&second);
        live.end(&third);
        assert_eq!(denied(), (4, 1, 2));
        assert_eq!((live.counts().denied.bytes, live.counts().denied.flows), (240, 1));
        assert!(locked(&live.counts).tallies.is_empty());
    }

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
