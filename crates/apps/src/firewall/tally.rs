//! How often each rule decided.

use flowloom_engine::Verdict;

use super::rules::FirewallRules;

/// What a rule, or a verdict, was given for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Flows that were judged: at their first packet, and again when the rules had changed.
    pub flows: u64,
}

impl Hits {
    #[inline]
    pub(super) fn packet(&mut self, wire_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(wire_bytes);
    }

    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.flows += other.flows;
    }
}

/// The verdicts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerdictCounts {
    /// What passed. A flow counts by the verdict of its first packet, once.
    pub accepted: Hits,
    /// What was refused, likewise.
    pub denied: Hits,
    /// What no rule matched.
    pub unmatched: Hits,
    /// What was refused because no SYN had opened its connection; in [`VerdictCounts::denied`] too.
    pub not_opened: Hits,
    /// Generation of the rules that `by_rule` counts for.
    pub generation: u32,
    /// By a rule's number, of the newest rules alone; the head is of packets that no rule matched.
    pub by_rule: Vec<Hits>,
}

impl VerdictCounts {
    /// Adds what was counted elsewhere. Counts of single rules are kept of the newest generation only: numbers of an
    /// older one mean other rules.
    pub fn add(&mut self, other: &Self) {
        self.accepted.add(other.accepted);
        self.denied.add(other.denied);
        self.unmatched.add(other.unmatched);
        self.not_opened.add(other.not_opened);
        if other.generation > self.generation {
            self.generation = other.generation;
            self.by_rule.clone_from(&other.by_rule);
        } else if other.generation == self.generation {
            for (hits, more) in self.by_rule.iter_mut().zip(&other.by_rule) {
                hits.add(*more);
            }
        }
    }
}

/// What one worker counts under one generation of rules.
#[derive(Debug)]
pub(super) struct Tally {
    /// By the number of the rule, 0 for none.
    by_rule: Vec<Hits>,
    not_opened: Hits,
    /// Flows begun, by their first verdict: accepted, denied.
    begun: [u64; 2],
}

impl Tally {
    pub(super) fn new(rules: &FirewallRules) -> Self {
        let by_rule = vec![Hits::default(); rules.set().len() + 1];
        Self { by_rule, not_opened: Hits::default(), begun: [0; 2] }
    }

    /// Returns the hits of a rule, by a number of the generation that this was made for.
    #[inline]
    pub(super) fn rule(&mut self, number: u32) -> &mut Hits {
        &mut self.by_rule[number as usize]
    }

    #[inline]
    pub(super) fn not_opened(&mut self) -> &mut Hits {
        &mut self.not_opened
    }

    #[inline]
    pub(super) fn begin(&mut self, verdict: Verdict) {
        self.begun[usize::from(verdict == Verdict::Deny)] += 1;
    }

    /// Returns what was counted, and counts from zero again.
    pub(super) fn take(&mut self, rules: &FirewallRules, generation: u32) -> VerdictCounts {
        let fresh = Self::new(rules);
        let Self { by_rule, not_opened, begun } = std::mem::replace(self, fresh);
        let mut counts = VerdictCounts { not_opened, generation, ..VerdictCounts::default() };
        counts.denied.add(not_opened);
        for (number, hits) in (0..).zip(&by_rule) {
            match rules.verdict(number) {
                Verdict::Accept => counts.accepted.add(*hits),
                Verdict::Deny => counts.denied.add(*hits),
            }
        }
        counts.accepted.flows = begun[0];
        counts.denied.flows = begun[1];
        counts.unmatched = by_rule.first().copied().unwrap_or_default();
        counts.by_rule = by_rule;
        counts
    }
}
