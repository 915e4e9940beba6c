//! What can decide a packet of which not everything is known.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::entries::{Outcome, Policy};
use super::matcher::key_of;
use super::packet::Packet;
use super::test::Truth;
use crate::key::AnyKey;
use crate::rule::RuleId;

/// An entry that decides a packet, or may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible {
    /// The rule of the set.
    pub rule: RuleId,
    /// Whether it does.
    pub truth: Truth,
}

/// What can decide a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PossibleOutcome {
    /// Entries that decide, in order: those that may, and at most one at the end that does if none
    /// of them did.
    pub deciders: Vec<Possible>,
    /// Rules of the set that match and pass on, as RETURN does, in order.
    pub passed: Vec<Possible>,
    /// Whether no entry decides.
    pub unmatched: Option<Truth>,
}

impl PossibleOutcome {
    /// Returns the rule of the set that decides whatever is not known; `None` where that bears on
    /// the answer, or none does.
    #[must_use]
    pub fn decided(&self) -> Option<RuleId> {
        match self.deciders[..] {
            [Possible { rule, truth: Truth::Yes }] => Some(rule),
            _ => None,
        }
    }
}

impl Policy {
    /// Returns all that can decide a packet, both outcomes of each rule that may match.
    #[must_use]
    pub fn outcomes(&self, packet: &Packet<'_>) -> PossibleOutcome {
        match key_of(packet) {
            AnyKey::V4(key) => self.explore(self.set().all_matches(&key), packet),
            AnyKey::V6(key) => self.explore(self.set().all_matches(&key), packet),
        }
    }

    fn explore(&self, candidates: impl Iterator<Item = RuleId>, packet: &Packet<'_>) -> PossibleOutcome {
        let mut outcome = PossibleOutcome::default();
        // Whether the next entry is asked, and how else entries further on come to be asked.
        let mut alive = Truth::Yes;
        let mut pending: BTreeMap<usize, Truth> = BTreeMap::new();
        let mut last = None;
        for id in candidates {
            let entry = self.entry_of(id);
            // Boxes of one entry may overlap where they are larger than the entry.
            if last == Some(entry) {
                continue;
            }
            while let Some((&to, &truth)) = pending.first_key_value().filter(|&(&to, _)| to <= entry) {
                alive = alive.or(truth);
                pending.remove(&to);
            }
            // Where nothing was decided and no way leads elsewhere, every way has led here.
            if outcome.deciders.is_empty() && pending.is_empty() {
                alive = Truth::Yes;
            }
            if alive == Truth::No {
                continue;
            }
            let truth = self.holds(id, packet);
            if truth == Truth::No {
                continue;
            }
            last = Some(entry);
            let reached = alive.and(truth);
            alive = alive.and(truth.negated());
            match self.outcome(id) {
                Outcome::Decide { .. } => {
                    let is_certain = truth == Truth::Yes && pending.is_empty();
                    outcome.deciders.push(Possible { rule: id, truth: reached });
                    if is_certain {
                        outcome.unmatched = None;
                        return outcome;
                    }
                }
                Outcome::Skip { to } => {
                    outcome.passed.push(Possible { rule: id, truth: reached });
                    let way = pending.entry(to as usize).or_insert(Truth::No);
                    *way = way.or(reached);
                }
            }
        }
        let left = pending.values().fold(alive, |truth, &way| truth.or(way));
        outcome.unmatched = match left {
            Truth::No => None,
            _ if outcome.deciders.is_empty() => Some(Truth::Yes),
            _ => Some(Truth::Maybe),
        };
        outcome
    }
}
