//! Finding the entry that decides.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::conditions::Truth;
use super::entries::{Outcome, Policy, Possible};
use super::packet::Packet;
use crate::classifier::{Classifier, ClassifierBuilder, ClassifierKey};
use crate::error::BuildError;
use crate::first_match::FirstMatch;
use crate::key::{AnyKey, Key, KeyV4, KeyV6, Match};
use crate::rule::RuleId;

/// How to treat a rule that may match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assume {
    /// It matches.
    Match,
    /// It does not.
    #[default]
    NoMatch,
}

impl Assume {
    /// Returns whether a rule counts as matching.
    #[must_use]
    pub fn takes(self, truth: Truth) -> bool {
        match truth {
            Truth::Yes => true,
            Truth::Maybe => self == Self::Match,
            Truth::No => false,
        }
    }
}

/// How the first box that matches is found.
#[derive(Debug)]
enum Index {
    Classifier(Box<Classifier>),
    Other(Box<dyn FirstMatch>),
}

/// A policy with its classifier.
#[derive(Debug)]
pub struct PolicyMatcher {
    policy: Policy,
    index: Index,
    is_unconditional: bool,
}

impl PolicyMatcher {
    /// Builds the classifier of a policy.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the boxes exceed the builder's limits.
    pub fn build(policy: Policy, builder: ClassifierBuilder) -> Result<Self, BuildError> {
        let classifier = builder.build(policy.set())?;
        Ok(Self::with(policy, Index::Classifier(Box::new(classifier))))
    }

    /// Returns a matcher that searches the policy's boxes with another algorithm, which was built
    /// from [`Policy::set`]. Where the first box that matches has further conditions, and they do
    /// not hold, the matcher tests the later boxes one by one.
    #[must_use]
    pub fn with_index(policy: Policy, index: Box<dyn FirstMatch>) -> Self {
        Self::with(policy, Index::Other(index))
    }

    fn with(policy: Policy, index: Index) -> Self {
        let is_unconditional = policy.is_unconditional();
        Self { policy, index, is_unconditional }
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the classifier of the policy's boxes, or `None` if
    /// [another algorithm](Self::with_index) searches them.
    #[must_use]
    pub fn classifier(&self) -> Option<&Classifier> {
        match &self.index {
            Index::Classifier(classifier) => Some(classifier),
            Index::Other(_) => None,
        }
    }

    /// Returns the algorithm that searches the policy's boxes.
    #[must_use]
    pub fn index(&self) -> &dyn FirstMatch {
        match &self.index {
            Index::Classifier(classifier) => &**classifier,
            Index::Other(index) => &**index,
        }
    }

    /// Returns the rule of the set that decides a packet: the box of the first entry that matches.
    /// Allocates nothing.
    #[must_use]
    pub fn find(&self, packet: &Packet<'_>, assume: Assume) -> Option<RuleId> {
        self.find_or_open(packet, assume).0
    }

    /// Returns what [`find`](Self::find) does, and whether an entry before the decider may match,
    /// or may not, so that another one may decide.
    #[must_use]
    pub fn find_or_open(&self, packet: &Packet<'_>, assume: Assume) -> (Option<RuleId>, bool) {
        if self.policy.reads(packet) {
            return self.policy.first_match_or_open(packet, assume);
        }
        let key = key_of(packet);
        let found = match &self.index {
            Index::Classifier(classifier) => classifier.first_match(&key),
            Index::Other(index) => index.first_match(&key),
        };
        match key {
            AnyKey::V4(key) => self.decide_or_open(&key, found, packet, assume),
            AnyKey::V6(key) => self.decide_or_open(&key, found, packet, assume),
        }
    }

    /// Returns the decider of a packet whose key was looked up. `found` is the result of
    /// [`Classifier::classify_batch`] or [`FirstMatch::first_match`] for its key. If that rule has
    /// no further conditions, it is the answer.
    #[inline]
    #[must_use]
    pub fn decide<K: ClassifierKey>(
        &self,
        key: &K,
        found: Match,
        packet: &Packet<'_>,
        assume: Assume,
    ) -> Match {
        self.decide_or_open(key, found, packet, assume).0.map_or(Match::NONE, Match::from)
    }

    #[inline]
    fn decide_or_open<K: ClassifierKey>(
        &self,
        key: &K,
        found: Match,
        packet: &Packet<'_>,
        assume: Assume,
    ) -> (Option<RuleId>, bool) {
        if self.policy.reads(packet) {
            return self.policy.first_match_or_open(packet, assume);
        }
        let Some(id) = found.rule() else { return (None, false) };
        if self.is_unconditional || !self.policy.set().rules()[id.index()].is_conditional {
            return (Some(id), false);
        }
        match &self.index {
            Index::Classifier(classifier) => pick(&self.policy, classifier.candidates(key), packet, assume),
            Index::Other(_) => {
                let later = (id.0..).map(RuleId).zip(&self.policy.set().rules()[id.index()..]);
                let candidates = later.filter(|(_, rule)| rule.matches(key)).map(|(id, _)| id);
                pick(&self.policy, candidates, packet, assume)
            }
        }
    }

    /// Returns whether no lookup tests anything after the first box that matches.
    #[must_use]
    pub fn is_unconditional(&self) -> bool {
        self.is_unconditional
    }
}

impl Policy {
    /// Returns the rule of the set that decides a packet, by linear search. It defines the result
    /// of every matcher.
    #[must_use]
    pub fn first_match(&self, packet: &Packet<'_>, assume: Assume) -> Option<RuleId> {
        self.first_match_or_open(packet, assume).0
    }

    /// Returns what [`PolicyMatcher::find_or_open`] does, by linear search.
    #[must_use]
    pub fn first_match_or_open(&self, packet: &Packet<'_>, assume: Assume) -> (Option<RuleId>, bool) {
        pick(self, self.candidates(packet).into_iter(), packet, assume)
    }

    /// Returns whether rules read the payload of this packet, a later fragment. Its key has no
    /// ports, so that no index finds them.
    pub(super) fn reads(&self, packet: &Packet<'_>) -> bool {
        self.reads_later() && packet.fragment.is_later()
    }

    /// Returns the boxes that may contain a packet.
    pub(super) fn candidates(&self, packet: &Packet<'_>) -> Vec<RuleId> {
        if self.reads(packet) {
            return (0..self.set().len() as u32).map(RuleId).collect();
        }
        match key_of(packet) {
            AnyKey::V4(key) => self.set().all_matches(&key).collect(),
            AnyKey::V6(key) => self.set().all_matches(&key).collect(),
        }
    }
}

impl Policy {
    /// Returns the first box of every entry that matches a packet, or may match it, in order,
    /// regardless of earlier entries.
    #[must_use]
    pub fn all_matches(&self, packet: &Packet<'_>) -> Vec<Possible> {
        let mut found: Vec<Possible> = Vec::new();
        for rule in self.candidates(packet) {
            let is_known = found.last().is_some_and(|last| self.entry_of(last.rule) == self.entry_of(rule));
            let truth = self.holds(rule, packet);
            if !is_known && truth != Truth::No {
                found.push(Possible { rule, truth });
            }
        }
        found
    }
}

impl Packet<'_> {
    /// Returns the key for the lookup of the packet.
    #[must_use]
    pub fn key(&self) -> AnyKey {
        key_of(self)
    }
}

/// Returns the key for the lookup of a packet.
pub(super) fn key_of(packet: &Packet<'_>) -> AnyKey {
    let key = AnyKey::from(&packet.tuple);
    if packet.has_ports {
        return key;
    }
    match key {
        AnyKey::V4(key) => {
            AnyKey::V4(KeyV4::new(key.dimension(0), key.dimension(1), (0, 0), key.protocol()))
        }
        AnyKey::V6(key) => {
            let address = |word: usize| u128::from(key.word(word)) << 64 | u128::from(key.word(word + 1));
            AnyKey::V6(KeyV6::new(address(0), address(2), (0, 0), key.protocol()))
        }
    }
}

/// Returns the first candidate that matches completely, and whether one that may match was met
/// before; candidates are ascending.
fn pick(
    policy: &Policy,
    candidates: impl Iterator<Item = RuleId>,
    packet: &Packet<'_>,
    assume: Assume,
) -> (Option<RuleId>, bool) {
    let rules = policy.set().rules();
    let (mut from, mut is_open) = (0, false);
    for id in candidates {
        if policy.entry_of(id) < from {
            continue;
        }
        let is_asked = rules[id.index()].is_conditional || policy.reads(packet);
        if is_asked {
            let truth = policy.holds(id, packet);
            is_open |= truth == Truth::Maybe;
            if !assume.takes(truth) {
                continue;
            }
        }
        match policy.outcome(id) {
            Outcome::Decide { .. } => return (Some(id), is_open),
            Outcome::Skip { to } => from = to as usize,
        }
    }
    (None, is_open)
}
