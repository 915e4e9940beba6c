//! Rules that are not in the classifier yet.

use alloc::sync::Arc;

use super::{LiveMatch, Order};
use crate::firewall::{Packet, Test, TestKind, Truth, names_ports, needs_ports};
use crate::rule::Rule;

/// A rule and its position.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) order: Order,
    pub(super) rule: Rule,
    /// Its tests beyond its box and its flags column.
    pub(super) tests: Tests,
}

impl Entry {
    /// Returns its lookup result.
    pub(super) fn result(&self) -> LiveMatch {
        LiveMatch::of(self.order as u32, self.rule.value)
    }
}

/// The tests of a rule; `None` if it has none.
pub(super) type Tests = Option<Arc<[Test]>>;

/// Returns whether a packet in the box of a rule meets the rule's other conditions.
pub(super) fn holds(rule: &Rule, tests: &Tests, packet: &Packet<'_>) -> Truth {
    if !packet.has_ports && names_ports(rule) {
        return Truth::No;
    }
    let column = rule.flags.filter(|column| column.mask != 0);
    let mut truth = column.map_or(Truth::Yes, |column| Test::from(TestKind::Column(column)).holds(packet));
    for test in tests.iter().flat_map(|tests| tests.iter()) {
        truth = truth.and(test.holds(packet));
    }
    truth
}

/// Returns whether a packet in the box of an entry may fail to match it.
pub(super) fn is_conditional(entry: &Entry) -> bool {
    let rule = &entry.rule;
    let asks_flags = rule.flags.is_some_and(|column| column.mask != 0);
    rule.is_conditional || entry.tests.is_some() || asks_flags || needs_ports(rule)
}
