//! Counts how often each rule decided.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_engine::Verdict;

use super::rules::{FirewallRules, Judgement};

/// The counts of a rule or of a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Flows judged: at their first packet, and again after a change of rules.
    pub flows: u64,
}

impl Hits {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.flows += other.flows;
    }
}

/// The counts of verdicts in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerdictCounts {
    /// Accepted packets. A flow counts once, by the verdict of its first packet.
    pub accepted: Hits,
    /// Denied packets. Flows count in the same way.
    pub denied: Hits,
    /// Packets that no rule matched.
    pub unmatched: Hits,
    /// Those of [`VerdictCounts::unmatched`] whose address family is not that of the rules, which
    /// all have the other one. Flows do not count.
    pub of_other_family: Hits,
    /// Packets denied because no SYN had opened their connection. [`VerdictCounts::denied`]
    /// includes them.
    pub not_opened: Hits,
    /// Packets denied because the rules ask for what they lack. [`VerdictCounts::denied`] includes
    /// them.
    pub undecided: Hits,
    /// The generation of the rules that `by_rule` counts: of the newest rules that a worker has
    /// used. [`LiveRules::rules`](super::LiveRules::rules) returns the rules.
    pub generation: u32,
    /// Counts by rule number, of these rules only. The first entry is for packets that no rule
    /// matched. Packets that count as [`undecided`](Self::undecided) or
    /// [`not_opened`](Self::not_opened) count for no rule.
    pub by_rule: Vec<Hits>,
    /// The generation of the rules that `previous` counts: of the newest earlier rules that a
    /// worker has used; 0 if there are none.
    pub previous_generation: u32,
    /// The same of these rules: all packets that they judged, once each worker has used newer ones.
    pub previous: Vec<Hits>,
}

impl VerdictCounts {
    /// Adds other counts. It keeps the counts of single rules only for the two newest generations,
    /// because numbers of an older one refer to other rules.
    pub fn add(&mut self, other: &Self) {
        self.accepted.add(other.accepted);
        self.denied.add(other.denied);
        self.unmatched.add(other.unmatched);
        self.of_other_family.add(other.of_other_family);
        self.not_opened.add(other.not_opened);
        self.undecided.add(other.undecided);
        self.add_rules(other.generation, &other.by_rule);
        self.add_rules(other.previous_generation, &other.previous);
    }

    /// Adds the counts of a generation's rules.
    fn add_rules(&mut self, generation: u32, more: &[Hits]) {
        if generation > self.generation {
            (self.previous_generation, self.previous) =
                (self.generation, std::mem::take(&mut self.by_rule));
            self.generation = generation;
        } else if generation > self.previous_generation && generation < self.generation {
            (self.previous_generation, self.previous) = (generation, Vec::new());
        }
        let hits = if generation == self.generation {
            &mut self.by_rule
        } else if generation == self.previous_generation {
            &mut self.previous
        } else {
            return;
        };
        if hits.len() < more.len() {
            hits.resize(more.len(), Hits::default());
        }
        hits.iter_mut().zip(more).for_each(|(hits, more)| hits.add(*more));
    }
}

/// Counters that one worker writes while any thread may read them. Each number is read separately.
#[derive(Default)]
pub(super) struct LiveHits {
    packets: AtomicU64,
    bytes: AtomicU64,
    flows: AtomicU64,
}

impl LiveHits {
    #[inline]
    pub(super) fn packet(&self, wire_bytes: u32) {
        add(&self.packets, 1);
        add(&self.bytes, u64::from(wire_bytes));
    }

    #[inline]
    pub(super) fn flow(&self) {
        add(&self.flows, 1);
    }

    fn get(&self) -> Hits {
        let [packets, bytes, flows] =
            [&self.packets, &self.bytes, &self.flows].map(|counter| counter.load(Ordering::Relaxed));
        Hits { packets, bytes, flows }
    }
}

/// Adds to a counter that no other thread writes, with a load and a store.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// The counters of one worker under one generation of rules. No other thread writes them.
pub(super) struct Tally {
    rules: Arc<FirewallRules>,
    generation: u32,
    /// Counts by rule number; 0 means no rule.
    by_rule: Box<[LiveHits]>,
    of_other_family: LiveHits,
    not_opened: LiveHits,
    undecided: LiveHits,
    /// Flows begun by their first verdict: accepted, denied.
    begun: [AtomicU64; 2],
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally")
            .field("rules", &self.rules)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Tally {
    pub(super) fn new(generation: u32, rules: Arc<FirewallRules>) -> Self {
        let by_rule = (0..=rules.count()).map(|_| LiveHits::default()).collect();
        let [of_other_family, not_opened, undecided] = Default::default();
        Self {
            rules,
            generation,
            by_rule,
            of_other_family,
            not_opened,
            undecided,
            begun: Default::default(),
        }
    }

    /// Returns the rules that these counters belong to.
    #[inline]
    pub(super) fn rules(&self) -> &FirewallRules {
        &self.rules
    }

    /// Returns these rules, to keep.
    pub(super) fn shared_rules(&self) -> Arc<FirewallRules> {
        Arc::clone(&self.rules)
    }

    /// Returns their generation.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the counts of a rule, by its number in the generation of these counters.
    #[inline]
    pub(super) fn rule(&self, number: u32) -> &LiveHits {
        &self.by_rule[number as usize]
    }

    /// Returns the counts of packets whose address family is not that of the rules.
    #[cold]
    pub(super) fn of_other_family(&self) -> &LiveHits {
        &self.of_other_family
    }

    /// Returns the counts to which a judgement belongs.
    #[inline]
    pub(super) fn of(&self, judgement: Judgement) -> &LiveHits {
        if judgement.is_undecided { &self.undecided } else { self.rule(judgement.number) }
    }

    #[inline]
    pub(super) fn not_opened(&self) -> &LiveHits {
        &self.not_opened
    }

    #[inline]
    pub(super) fn begin(&self, verdict: Verdict) {
        add(&self.begun[usize::from(verdict == Verdict::Deny)], 1);
    }

    /// Returns the counts so far.
    pub(super) fn counts(&self) -> VerdictCounts {
        let by_rule: Vec<Hits> = self.by_rule.iter().map(LiveHits::get).collect();
        let all = [&self.not_opened, &self.of_other_family, &self.undecided];
        let [not_opened, of_other_family, undecided] = all.map(LiveHits::get);
        let generation = self.generation;
        let mut counts = VerdictCounts {
            of_other_family,
            not_opened,
            undecided,
            generation,
            ..VerdictCounts::default()
        };
        counts.denied.add(not_opened);
        counts.denied.add(undecided);
        for (number, hits) in (0..).zip(&by_rule) {
            match self.rules.verdict(number) {
                Verdict::Accept => counts.accepted.add(*hits),
                Verdict::Deny => counts.denied.add(*hits),
            }
        }
        let [accepted, denied] = self.begun.each_ref().map(|begun| begun.load(Ordering::Relaxed));
        (counts.accepted.flows, counts.denied.flows) = (accepted, denied);
        counts.unmatched = by_rule.first().copied().unwrap_or_default();
        counts.by_rule = by_rule;
        counts
    }
}
