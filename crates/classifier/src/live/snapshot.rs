//! The state that lookups see between two changes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::entry::{Entry, Tests, holds, is_conditional};
use super::prefilter::{CHUNK, Prefilter, Sifted};
use super::rule_values::RuleValues;
use super::{LiveMatch, Order};
use crate::classifier::{Classifier, ClassifierBuilder, ClassifierKey};
use crate::error::BuildError;
use crate::firewall::{Assume, Packet};
use crate::key::{Key, KeyV4, KeyV6, Match};
use crate::rule::{Rule, RuleId};
use crate::rule_set::RuleSet;

/// Rules in a classifier, with the order of each.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) classifier: Classifier,
    pub(super) rules: RuleSet,
    orders: Vec<Order>,
    /// The tests of each rule; empty if no rule has any.
    tests: Vec<Tests>,
    values: RuleValues,
}

impl Base {
    /// Builds a classifier of entries in any order.
    pub(super) fn build(entries: &[Entry], builder: ClassifierBuilder) -> Result<Self, BuildError> {
        let mut sorted = entries.to_vec();
        sorted.sort_unstable_by_key(|entry| entry.order);
        let boxed = |entry: &Entry| Rule {
            is_conditional: is_conditional(entry),
            is_certain_with_ports: false,
            ..entry.rule
        };
        let rules = RuleSet::new(sorted.iter().map(boxed).collect()).map_err(|error| {
            BuildError::Memory { needed_bytes: error.rules as u64, limit_bytes: error.rules_max as u64 }
        })?;
        let orders = sorted.iter().map(|entry| entry.order).collect();
        let values = RuleValues::of(sorted.iter().map(|entry| (entry.order as u32, entry.rule.value)));
        let has_tests = sorted.iter().any(|entry| entry.tests.is_some());
        let tests =
            if has_tests { sorted.into_iter().map(|entry| entry.tests).collect() } else { Vec::new() };
        Ok(Self { classifier: builder.build(&rules)?, rules, orders, tests, values })
    }

    /// Returns the first rule that matches a packet completely; `is_out` names rules that do not
    /// count.
    fn find<K: ClassifierKey>(
        &self,
        key: &K,
        packet: &Packet<'_>,
        assume: Assume,
        is_out: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let rules = self.rules.rules();
        let matches = |rank: u32| {
            let rule = &rules[rank as usize];
            let tests = self.tests.get(rank as usize).unwrap_or(&None);
            !is_out(rank) && (!rule.is_conditional || assume.takes(holds(rule, tests, packet)))
        };
        let mut behind = None;
        for RuleId(rank) in self.classifier.candidates(key) {
            if matches(rank) {
                return Some(rank);
            }
            if !rules[rank as usize].is_conditional {
                // The classifier may lack the rules after one that takes all packets of its box.
                behind = Some(rank + 1);
                break;
            }
        }
        (behind?..rules.len() as u32).find(|&rank| rules[rank as usize].matches(key) && matches(rank))
    }

    pub(super) fn has(&self, order: Order) -> bool {
        self.orders.binary_search(&order).is_ok()
    }
}

/// Pending rules, in a separate classifier.
pub(super) type Pending = Base;

impl Pending {
    /// Returns a classifier; `None` if there are no entries.
    pub(super) fn build_some(
        entries: &[Entry],
        builder: ClassifierBuilder,
    ) -> Result<Option<Arc<Self>>, BuildError> {
        if entries.is_empty() {
            return Ok(None);
        }
        let builder = builder.huge_pages(flowloom_cpu::pages::HugePages::No);
        Ok(Some(Arc::new(Self::build(entries, builder)?)))
    }
}

/// The state that lookups see between two changes.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    base: Arc<Base>,
    /// Ranks of removed rules, one bit each; empty if there are none.
    dead: Vec<u64>,
    dead_count: usize,
    /// For a dead rule, the ranks of the later rules that meet it, up to one that covers it.
    substitutes: Arc<BTreeMap<u32, Vec<u32>>>,
    settled: Option<Arc<Pending>>,
    fresh: Prefilter,
}

/// Memory that a lookup writes, kept by the reader: clearing it for each batch would cost as much
/// as sifting the keys.
#[derive(Debug)]
pub(super) struct Scratch {
    ranks: [Match; CHUNK],
    settled: [Match; CHUNK],
    orders: [Order; CHUNK],
    sifted: Sifted,
}

impl Default for Scratch {
    fn default() -> Self {
        let none = [Match::NONE; CHUNK];
        Self { ranks: none, settled: none, orders: [Order::MAX; CHUNK], sifted: Sifted::default() }
    }
}

impl Snapshot {
    pub(super) fn new(base: Arc<Base>) -> Self {
        let substitutes = Arc::new(BTreeMap::new());
        Self {
            base,
            dead: Vec::new(),
            dead_count: 0,
            substitutes,
            settled: None,
            fresh: Prefilter::default(),
        }
    }

    /// Returns the pending rules that are in a tree.
    pub(super) fn settled(&self) -> Option<Arc<Pending>> {
        self.settled.clone()
    }

    /// Returns the pending rules that are in no tree.
    pub(super) fn fresh(&self) -> &Prefilter {
        &self.fresh
    }

    /// Returns the snapshot with other pending rules: those in a tree, and those in none.
    pub(super) fn with_pending(&self, settled: Option<Arc<Pending>>, fresh: Prefilter) -> Self {
        Self { settled, fresh, ..self.clone() }
    }

    pub(super) fn dead_count(&self) -> usize {
        self.dead_count
    }

    /// Returns the snapshot without one more rule of the base.
    pub(super) fn with_dead(&self, order: Order) -> Self {
        let mut next = self.clone();
        if let Ok(rank) = self.base.orders.binary_search(&order) {
            next.dead.resize(self.base.orders.len().div_ceil(64), 0);
            next.dead[rank / 64] |= 1 << (rank % 64);
            next.dead_count += 1;
        }
        next
    }

    /// Returns the snapshot with the substitutes of all dead rules.
    pub(super) fn with_substitutes(&self) -> Self {
        let mut substitutes = (*self.substitutes).clone();
        let rules = self.base.rules.rules();
        for rank in (0..rules.len() as u32).filter(|&rank| self.is_dead(rank)) {
            substitutes.entry(rank).or_insert_with(|| substitutes_of(rules, rank));
        }
        Self { substitutes: Arc::new(substitutes), ..self.clone() }
    }

    #[inline]
    fn is_dead(&self, rank: u32) -> bool {
        self.dead.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }

    /// Looks up keys; there is a place for the result of each.
    pub(super) fn classify<K: ClassifierKey>(
        &self,
        keys: &[K],
        out: &mut [LiveMatch],
        scratch: &mut Scratch,
    ) {
        for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            let ranks = &mut scratch.ranks[..keys.len()];
            self.base.classifier.classify_batch(keys, ranks);
            if self.dead_count > 0 {
                for (key, rank) in keys.iter().zip(&mut *ranks) {
                    if *rank != Match::NONE && self.is_dead(rank.0) {
                        *rank = self.instead(rank.0, key);
                    }
                }
            }
            self.base.values.tell(ranks, out);
            self.overlay(keys, out, scratch);
        }
    }

    /// Returns the first rule that matches a packet completely.
    pub(super) fn find<K: ClassifierKey>(&self, key: &K, packet: &Packet<'_>, assume: Assume) -> LiveMatch {
        let base = self.base.find(key, packet, assume, |rank| self.is_dead(rank));
        let mut first =
            base.map(|rank| (self.base.orders[rank as usize], self.base.values.one(Match(rank))));
        if let Some(settled) = &self.settled
            && let Some(rank) = settled.find(key, packet, assume, |_| false)
        {
            let found = (settled.orders[rank as usize], settled.values.one(Match(rank)));
            if first.is_none_or(|(order, _)| found.0 < order) {
                first = Some(found);
            }
        }
        for entry in self.fresh.entries() {
            if first.is_none_or(|(order, _)| entry.order < order)
                && entry.rule.matches(key)
                && assume.takes(holds(&entry.rule, &entry.tests, packet))
            {
                first = Some((entry.order, entry.result()));
            }
        }
        first.map_or(LiveMatch::default(), |(_, found)| found)
    }

    /// Puts pending rules before those of the base that they win against.
    #[inline]
    fn overlay<K: ClassifierKey>(&self, keys: &[K], out: &mut [LiveMatch], scratch: &mut Scratch) {
        let Scratch { ranks, settled: found, orders, sifted } = scratch;
        // Orders of the base's rules are read only for packets that match a pending rule.
        let base = |i: usize| ranks[i].rule().map_or(Order::MAX, |rule| self.base.orders[rule.index()]);
        // A key that may be reported more than once stores the order of its first rule so far.
        let once = self.settled.is_none() && self.fresh.words() <= 1;
        if !once {
            orders.fill(Order::MAX);
        }
        if let Some(settled) = &self.settled {
            let found = &mut found[..keys.len()];
            settled.classifier.classify_batch(keys, found);
            for (i, found) in found.iter().enumerate() {
                let Some(rule) = found.rule() else { continue };
                let order = settled.orders[rule.index()];
                if order < base(i) {
                    orders[i] = order;
                    out[i] = settled.values.one(*found);
                }
            }
        }
        self.fresh.each_first(self.base.classifier.backend(), keys, sifted, |i, order, found| {
            if order < base(i) && (once || order < orders[i]) {
                orders[i] = order;
                out[i] = found;
            }
        });
    }

    /// Returns the first live rule after a dead one that matches.
    #[cold]
    fn instead<K: Key>(&self, dead: u32, key: &K) -> Match {
        let rules = self.base.rules.rules();
        let fits = |&rank: &u32| !self.is_dead(rank) && rules[rank as usize].matches(key);
        let found = match self.substitutes.get(&dead) {
            // The list ends with a rule that covers the dead one; if that rule is dead too, the
            // search continues after it.
            Some(list) => list.iter().copied().find(|rank| fits(rank)).or_else(|| {
                let last = list.last().copied().filter(|&last| self.is_dead(last))?;
                (last + 1..rules.len() as u32).find(|rank| fits(rank))
            }),
            None => (dead + 1..rules.len() as u32).find(|rank| fits(rank)),
        };
        found.map_or(Match::NONE, Match)
    }
}

/// Returns the later rules that meet one, up to the first that covers it.
fn substitutes_of(rules: &[Rule], dead: u32) -> Vec<u32> {
    let rule = &rules[dead as usize];
    let mut list = vec![];
    for (rank, other) in (dead + 1..).zip(&rules[dead as usize + 1..]) {
        if meets::<KeyV4>(rule, other) || meets::<KeyV6>(rule, other) {
            list.push(rank);
            if other.covers(rule) {
                break;
            }
        }
    }
    list
}

fn meets<K: Key>(a: &Rule, b: &Rule) -> bool {
    match (a.spans::<K>(), b.spans::<K>()) {
        (Some(a), Some(b)) => {
            a.as_ref().iter().zip(b.as_ref()).all(|(a, b)| a.low <= b.high && b.low <= a.high)
        }
        _ => false,
    }
}
