//! Rules that are replaced while workers judge packets by them.
//!
//! ```text
//!  LiveRules: generation 3 ─▶ rules ◀── worker 0: generation 3, the same rules
//!                                   ◀── worker 1: generation 2, until its next packet
//! ```
//!
//! A change replaces the whole set. The caller builds the new rules while the workers run, one
//! exchange installs them, and each worker uses them from its next packet on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rules::{FirewallRules, Judgement};
use super::tally::{Tally, VerdictCounts};

#[derive(Debug)]
struct Generations {
    current: Arc<FirewallRules>,
    /// Rules that some worker may still use. They are kept here so that no worker drops the last
    /// reference: freeing a large classifier takes longer than a packet may.
    retired: Vec<Arc<FirewallRules>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// The counts of workers that have ended, or have switched to newer rules.
    ended: VerdictCounts,
    /// The counters in use by workers.
    tallies: Vec<Arc<Tally>>,
    /// The last counters of each of the two newest generations that workers have used and left.
    latest: Vec<Arc<Tally>>,
}

/// The rules of a run, shared by its workers and by the threads that replace them.
#[derive(Debug)]
pub struct LiveRules {
    generation: AtomicU32,
    rules: Mutex<Generations>,
    counts: Mutex<Counts>,
}

impl LiveRules {
    /// Returns a handle with rules of generation 1.
    #[must_use]
    pub fn new(rules: FirewallRules) -> Self {
        Self {
            generation: AtomicU32::new(1),
            rules: Mutex::new(Generations { current: Arc::new(rules), retired: Vec::new() }),
            counts: Mutex::default(),
        }
    }

    /// Replaces the rules. The new rules judge each flow from its next packet on.
    ///
    /// This call frees earlier rules that no worker uses any more. At most one set per worker and
    /// three more wait to be freed.
    pub fn replace(&self, rules: FirewallRules) {
        let rules = Arc::new(rules);
        let mut place = locked(&self.rules);
        let retired = std::mem::take(&mut place.retired);
        let (unused, mut in_use): (Vec<_>, Vec<_>) =
            retired.into_iter().partition(|rules| Arc::strong_count(rules) == 1);
        in_use.push(std::mem::replace(&mut place.current, rules));
        place.retired = in_use;
        // Keep this inside the lock, so that a thread that sees the new number gets these or newer
        // rules.
        self.generation.fetch_add(1, Ordering::Release);
        drop(place);
        drop(unused);
    }

    /// Returns the generation of the current rules: 1 for the first, and one more for each
    /// replacement.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the generation of the current rules, and the rules.
    pub fn current(&self) -> (u32, Arc<FirewallRules>) {
        let place = locked(&self.rules);
        (self.generation(), Arc::clone(&place.current))
    }

    /// Returns the rules of a generation, if they are the current ones or those of
    /// [`VerdictCounts::generation`] or [`VerdictCounts::previous_generation`]. While no packet
    /// comes, workers keep the rules that they used last, however often these are replaced.
    pub fn rules(&self, generation: u32) -> Option<Arc<FirewallRules>> {
        let (current, rules) = self.current();
        if generation == current {
            return Some(rules);
        }
        let place = locked(&self.counts);
        let used = place.tallies.iter().chain(&place.latest);
        used.filter(|tally| tally.generation() == generation).map(|tally| tally.shared_rules()).next()
    }

    /// Returns the counts of all workers so far: of each [`Firewall`](super::Firewall) and
    /// [`WorkerRules`]. Each number is read separately, so a packet in
    /// process may be included in one number and not yet in another. All numbers agree once the
    /// applications have been dropped.
    ///
    /// The call takes time and memory in proportion to the number of rules. It does not slow down
    /// workers.
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

    /// Returns the counters for a worker to use from now on, and the current rules.
    fn begin(&self) -> Arc<Tally> {
        let (generation, rules) = self.current();
        let tally = Arc::new(Tally::new(generation, rules));
        locked(&self.counts).tallies.push(Arc::clone(&tally));
        tally
    }

    /// Ends a worker's use of its counters.
    fn end(&self, tally: &Arc<Tally>) {
        let counts = tally.counts();
        let mut place = locked(&self.counts);
        place.ended.add(&counts);
        place.tallies.retain(|other| !Arc::ptr_eq(other, tally));
        place.latest.retain(|other| other.generation() != tally.generation());
        place.latest.push(Arc::clone(tally));
        place.latest.sort_by_key(|other| std::cmp::Reverse(other.generation()));
        // No rules are freed here: the handle has them until the next replacement.
        place.latest.truncate(2);
    }
}

/// The rules that a worker uses, and its counts of what they decide, which
/// [`LiveRules::counts`] includes at once.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use flowloom_apps::firewall::{Defaults, FirewallRules, LiveRules, WorkerRules};
/// use flowloom_classifier::{ClassifierBuilder, RuleSet};
/// use flowloom_flow_key::FiveTuple;
/// use flowloom_rules::firewall::Packet;
/// let builder = ClassifierBuilder::new();
/// let rules = || FirewallRules::build(RuleSet::default(), Defaults::default(), builder.clone());
/// let live = Arc::new(LiveRules::new(rules()?));
/// let mut worker = WorkerRules::new(Arc::clone(&live));
/// live.replace(rules()?);
/// // Once per packet:
/// worker.refresh();
/// let tuple = FiveTuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 1, 2, 6);
/// let judgement = worker.rules().judge_packet(Packet::new(tuple));
/// worker.count(judgement, 60);
/// assert_eq!((live.counts().denied.packets, live.counts().generation), (1, 2));
/// # Ok::<(), flowloom_classifier::BuildError>(())
/// ```
#[derive(Debug)]
pub struct WorkerRules {
    live: Arc<LiveRules>,
    pub(super) tally: Arc<Tally>,
}

impl WorkerRules {
    /// Returns the current rules of `live`.
    #[must_use]
    pub fn new(live: Arc<LiveRules>) -> Self {
        let tally = live.begin();
        Self { live, tally }
    }

    /// Takes the newest rules. It costs one load unless they have changed.
    #[inline]
    pub fn refresh(&mut self) {
        if self.live.generation() != self.tally.generation() {
            self.replace();
        }
    }

    #[cold]
    #[inline(never)]
    fn replace(&mut self) {
        self.live.end(&self.tally);
        self.tally = self.live.begin();
    }

    /// Returns the rules.
    #[inline]
    pub fn rules(&self) -> &FirewallRules {
        self.tally.rules()
    }

    /// Returns their generation.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.tally.generation()
    }

    /// Counts a packet that these rules have judged.
    #[inline]
    pub fn count(&self, judgement: Judgement, wire_bytes: u32) {
        self.tally.of(judgement).packet(wire_bytes);
    }

    /// Counts a flow by the judgement of its first packet.
    #[inline]
    pub fn count_flow(&self, judgement: Judgement) {
        self.tally.of(judgement).flow();
        self.tally.begin(judgement.verdict);
    }
}

impl Drop for WorkerRules {
    fn drop(&mut self) {
        self.live.end(&self.tally);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use flowloom_classifier::RuleSet;

    use super::super::rules::Defaults;
    use super::super::tally::Hits;
    use super::*;

    #[test]
    fn counts_are_read_while_workers_count_and_add_up_once() {
        let empty = || FirewallRules::scanning(RuleSet::default(), Defaults::default());
        let live = LiveRules::new(empty());
        let [first, second] = [live.begin(), live.begin()];
        let denied = || {
            let counts = live.counts();
            let previous = counts.previous.first().map_or(0, |hits| hits.packets);
            (counts.denied.packets, counts.by_rule[0].packets, previous, counts.generation)
        };
        first.rule(0).packet(60);
        second.rule(0).packet(60);
        second.begin(flowloom_engine::Verdict::Deny);
        assert_eq!(denied(), (2, 2, 0, 1));
        live.replace(empty());
        live.end(&first);
        assert_eq!(denied(), (2, 2, 0, 1), "one has ended");
        let third = live.begin();
        assert_eq!(denied(), (2, 0, 2, 2), "the newest rules have decided nothing");
        third.rule(0).packet(60);
        second.rule(0).packet(60);
        assert_eq!(denied(), (4, 1, 3, 2));
        live.end(&second);
        live.end(&third);
        assert_eq!(denied(), (4, 1, 3, 2));
        assert_eq!((live.counts().denied.bytes, live.counts().denied.flows), (240, 1));
        assert!(locked(&live.counts).tallies.is_empty());
    }

    #[test]
    fn rules_are_known_for_each_generation_that_has_counts() {
        let empty = || FirewallRules::scanning(RuleSet::default(), Defaults::default());
        let live = Arc::new(LiveRules::new(empty()));
        let mut workers = [WorkerRules::new(Arc::clone(&live)), WorkerRules::new(Arc::clone(&live))];
        let denied = |worker: &WorkerRules| worker.tally.rule(0).packet(60);
        let generations = || {
            let counts = live.counts();
            let packets = |hits: &[Hits]| hits.first().map_or(0, |hits| hits.packets);
            [
                (counts.generation, packets(&counts.by_rule), live.rules(counts.generation).is_some()),
                (
                    counts.previous_generation,
                    packets(&counts.previous),
                    live.rules(counts.previous_generation).is_some(),
                ),
            ]
        };
        denied(&workers[0]);
        for _ in 0..3 {
            live.replace(empty());
        }
        assert_eq!(
            (live.generation(), generations()),
            (4, [(1, 1, true), (0, 0, false)]),
            "no packet came"
        );
        workers[1].refresh();
        denied(&workers[1]);
        assert_eq!(generations(), [(4, 1, true), (1, 1, true)]);
        live.replace(empty());
        workers[0].refresh();
        denied(&workers[0]);
        assert_eq!(generations(), [(5, 1, true), (4, 1, true)]);
        drop(workers);
        assert_eq!(generations(), [(5, 1, true), (4, 1, true)]);
        assert_eq!(live.counts().denied.packets, 3);
    }

    #[test]
    fn a_replacement_frees_earlier_rules_that_no_worker_uses() {
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
