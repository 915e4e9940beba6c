//! Shrinks rules to the packets that earlier rules leave to them.
//!
//! Overlapping port ranges cannot be separated by cuts: in a staircase of ranges, one packet lies
//! in thousands of boxes. But a rule wins only where no earlier rule matches, and where one earlier
//! rule covers one side of its box, the rest is a smaller box. After this step, the boxes of a
//! staircase are disjoint. Only ranges of ports shrink, because a leaf stores addresses as
//! prefixes.

use alloc::vec::Vec;

use crate::key::{Key, Span};
use crate::rule_set::Flat;

/// Maximum number of nodes visited for each rule, on average, and in all.
const VISITS: u64 = 2048;
const VISITS_MAX: u64 = 1 << 29;

/// Minimum number of nodes that one search may visit. Its result is then still correct, but may not
/// be minimal. In small sets a search may visit all nodes.
const SEARCH_MIN: u64 = 64;
/// A set of half as many rules has searches of twice as many nodes.
const SEARCH_OF_ALL: u64 = 1 << 24;

/// Maximum number of rules in a leaf.
const LEAF: usize = 8;

/// Maximum number of rounds in which the sides of a rule shrink.
const ROUNDS: usize = 32;

/// A set of rules, with bounds of what they contain.
#[derive(Debug)]
struct Node<K: Key> {
    /// The first of its rules, in matching order.
    least: u32,
    /// In each dimension, the least low end and the greatest high end.
    outer: K::Spans,
    /// Its rules, as a range of `Tree::order`.
    from: usize,
    to: usize,
    /// The second child; the first follows the node. Zero for a leaf.
    second: usize,
}

/// Finds the earlier rule that takes most of a side of a box.
struct Tree<'a, K: Key> {
    rules: &'a [Flat<K>],
    order: Vec<u32>,
    nodes: Vec<Node<K>>,
    visits_left: u64,
    /// Maximum number of nodes that a search may visit.
    search_max: u64,
}

/// A side of a box, in a dimension.
#[derive(Clone, Copy)]
struct Side {
    dimension: usize,
    is_low: bool,
}

/// Returns the rules with the boxes in which they can win, without rules that never win. A lookup
/// of any key finds the same rule as before.
pub(crate) fn shrink<K: Key>(rules: &[Flat<K>]) -> Vec<Flat<K>> {
    shrink_within(rules, SEARCH_MIN.max(SEARCH_OF_ALL / (rules.len() as u64).max(1)))
}

/// Works as [`shrink`] does; a search visits at most so many nodes.
fn shrink_within<K: Key>(rules: &[Flat<K>], search_max: u64) -> Vec<Flat<K>> {
    let mut tree = Tree::new(rules, search_max);
    let mut smaller = Vec::with_capacity(rules.len());
    for (place, rule) in rules.iter().enumerate() {
        if let Some(spans) = tree.shrunk(rule, place as u32) {
            smaller.push(Flat { spans, ..*rule });
        }
    }
    smaller
}

/// Returns whether a box contains packets whose key has no ports.
fn has_portless<K: Key>(rule: &Flat<K>) -> bool {
    let ports = 2 * K::ADDRESS_DIMENSIONS;
    rule.span(ports).low == 0 && rule.span(ports + 1).low == 0
}

impl<'a, K: Key> Tree<'a, K> {
    fn new(rules: &'a [Flat<K>], search_max: u64) -> Self {
        // A mask with holes matches less than its span. A rule with further conditions leaves
        // packets to later rules.
        let is_taking = |rule: &Flat<K>| {
            (!rule.is_conditional || rule.is_certain_with_ports) && rule.protocol.is_interval()
        };
        let order = (0..rules.len() as u32).filter(|&place| is_taking(&rules[place as usize])).collect();
        let visits_left = VISITS.saturating_mul(rules.len() as u64).min(VISITS_MAX);
        let mut tree = Self { rules, order, nodes: Vec::new(), visits_left, search_max };
        let count = tree.order.len();
        if count > 0 {
            tree.add(0, count);
        }
        tree
    }

    /// Adds the node of a range, and the nodes below it. The depth is the logarithm of the length.
    fn add(&mut self, from: usize, to: usize) {
        let rules = self.rules;
        let all = &mut self.order[from..to];
        let first = rules[all[0] as usize].spans;
        // The greatest low end and the least high end tell how far the rules differ.
        let (mut outer, mut inner) = (first, first);
        let mut least = u32::MAX;
        for &place in &*all {
            least = least.min(place);
            let spans = rules[place as usize].spans;
            for (d, span) in spans.as_ref().iter().enumerate() {
                let (outer, inner) = (&mut outer.as_mut()[d], &mut inner.as_mut()[d]);
                *outer = Span { low: outer.low.min(span.low), high: outer.high.max(span.high) };
                *inner = Span { low: inner.low.max(span.low), high: inner.high.min(span.high) };
            }
        }
        let at = self.nodes.len();
        self.nodes.push(Node { least, outer, from, to, second: 0 });
        if all.len() <= LEAF {
            return;
        }
        // The ends that differ most, relative to their field, separate the rules.
        let spread = |d: usize, is_low: bool| {
            let (outer, inner) = (outer.as_ref()[d], inner.as_ref()[d]);
            let wide = if is_low { inner.low - outer.low } else { outer.high - inner.high };
            u64::from(wide) << (32 - K::bits(d))
        };
        let ends = (0..K::DIMENSIONS).flat_map(|d| [(d, true), (d, false)]);
        let (d, is_low) = ends.max_by_key(|&(d, is_low)| spread(d, is_low)).unwrap_or((0, true));
        let middle = all.len() / 2;
        all.select_nth_unstable_by_key(middle, |&place| {
            let span = rules[place as usize].span(d);
            (if is_low { span.low } else { span.high }, place)
        });
        self.add(from, from + middle);
        self.nodes[at].second = self.nodes.len();
        self.add(from + middle, to);
    }

    /// Returns the smaller box of a rule; `None` if earlier rules leave nothing of it.
    fn shrunk(&mut self, rule: &Flat<K>, place: u32) -> Option<K::Spans> {
        let mut spans = rule.spans;
        // Packets without ports meet no rule that asks for them, so they come to later rules.
        let needs_portless = has_portless(rule) && !rule.is_certain_with_ports;
        for _ in 0..ROUNDS {
            let before = spans;
            for dimension in [2 * K::ADDRESS_DIMENSIONS, 2 * K::ADDRESS_DIMENSIONS + 1] {
                for is_low in [true, false] {
                    let side = Side { dimension, is_low };
                    let Some(end) = self.taken(&spans, side, place, needs_portless) else { continue };
                    let span = &mut spans.as_mut()[dimension];
                    if is_low {
                        if end >= span.high {
                            return None;
                        }
                        span.low = end + 1;
                    } else {
                        if end <= span.low {
                            return None;
                        }
                        span.high = end - 1;
                    }
                }
            }
            if spans == before {
                break;
            }
        }
        Some(spans)
    }

    /// Returns how far one earlier rule takes a side of a box: the last value that it matches for
    /// all packets of the box.
    fn taken(&mut self, spans: &K::Spans, side: Side, place: u32, needs_portless: bool) -> Option<u32> {
        let Side { dimension, is_low } = side;
        let target = spans.as_ref()[dimension];
        let edge = if is_low { target.low } else { target.high };
        let mut best: Option<u32> = None;
        let covers = |outer: &[Span]| {
            outer.iter().zip(spans.as_ref()).enumerate().all(|(d, (outer, span))| {
                if d == dimension {
                    outer.contains(edge)
                } else {
                    outer.low <= span.low && span.high <= outer.high
                }
            })
        };
        let is_further = |best: Option<u32>, span: Span| match best {
            None => true,
            Some(best) => {
                if is_low {
                    span.high > best
                } else {
                    span.low < best
                }
            }
        };
        let mut left = self.search_max.min(self.visits_left);
        self.visits_left -= left;
        // One entry for each level, so the stack stays short.
        let mut stack = Vec::from([0_usize]);
        while let Some(at) = stack.pop() {
            let Some(node) = self.nodes.get(at) else { break };
            if left == 0 {
                break;
            }
            left -= 1;
            if node.least >= place
                || !is_further(best, node.outer.as_ref()[dimension])
                || !covers(node.outer.as_ref())
            {
                continue;
            }
            if node.second > 0 {
                // The child that reaches further is searched first.
                let reach = |node: &Node<K>| {
                    let span = node.outer.as_ref()[dimension];
                    if is_low { span.high } else { u32::MAX - span.low }
                };
                let (first, second) = (at + 1, node.second);
                if reach(&self.nodes[first]) < reach(&self.nodes[second]) {
                    stack.extend([first, second]);
                } else {
                    stack.extend([second, first]);
                }
                continue;
            }
            for &other in &self.order[node.from..node.to] {
                let rule = &self.rules[other as usize];
                if other < place
                    && (!needs_portless || !rule.is_certain_with_ports)
                    && is_further(best, rule.span(dimension))
                    && covers(rule.spans.as_ref())
                {
                    let span = rule.span(dimension);
                    best = Some(if is_low { span.high } else { span.low });
                }
            }
        }
        self.visits_left += left;
        best
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::classifier::ClassifierBuilder;
    use crate::key::{KeyV4, KeyV6, Match};
    use crate::random::Random;
    use crate::rule::{PortRange, Prefix, ProtocolMatch, Rule, RuleId};
    use crate::rule_set::RuleSet;

    fn ports(low: u16, high: u16) -> PortRange {
        PortRange::new(low.min(high), low.max(high)).unwrap()
    }

    /// Rules on few values, so that they overlap often.
    fn rule() -> impl Strategy<Value = Rule> {
        let range = || (0..6_u16, 0..6_u16).prop_map(|(a, b)| ports(a, b));
        let prefix = || (0..4_u32, prop::sample::select(Vec::from([0, 30, 31, 32])));
        let protocol = prop::sample::select(Vec::from([
            ProtocolMatch::ANY,
            ProtocolMatch::exact(6),
            ProtocolMatch::new(2, 0b1010),
        ]));
        (prefix(), range(), range(), protocol, 0..4_u8, any::<bool>()).prop_map(
            |((address, length), source_ports, destination_ports, protocol, kind, is_any)| {
                let source = Prefix::new(u128::from(address), length).unwrap();
                let rule = if is_any { Rule::ANY } else { Rule::v4(source, Prefix::ANY) };
                let rule = Rule { source_ports, destination_ports, protocol, ..rule };
                let both = [rule.source_ports, rule.destination_ports];
                let needs_ports = both.iter().all(|range| range.low() == 0)
                    && both.iter().any(|range| *range != PortRange::ANY);
                let is_certain_with_ports = needs_ports && kind > 0;
                Rule { is_conditional: kind == 0 || needs_ports, is_certain_with_ports, ..rule }
            },
        )
    }

    /// Returns the first rule that decides: `holds` says of conditional rules whether they match.
    fn decider(rules: &[Rule], boxes: &[Flat<KeyV4>], key: &KeyV4, has_ports: bool, holds: u32) -> u32 {
        let found = boxes.iter().find(|flat| {
            let rule = &rules[flat.id as usize];
            let is_in = (0..KeyV4::DIMENSIONS).all(|d| flat.span(d).contains(key.dimension(d)))
                && flat.protocol.contains(key.protocol());
            let is_met =
                if rule.is_certain_with_ports { has_ports } else { holds >> (flat.id % 32) & 1 == 1 };
            is_in && (!rule.is_conditional || is_met)
        });
        found.map_or(u32::MAX, |flat| flat.id)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 5 } else { 10_000 }))]
        #[test]
        fn shrunk_rule_set_gives_the_same_answers(
            rules in prop::collection::vec(rule(), 1..24),
            holds in any::<u32>(),
            // Searches of small sets end early too.
            search_max in prop_oneof![Just(u64::MAX), 0..12_u64],
        ) {
            let set = RuleSet::new(rules).unwrap();
            let flat = set.flatten::<KeyV4>();
            let smaller = shrink_within(&flat, search_max);
            for (source, from, to, protocol) in
                keys(0..4, 0..7, 0..7)
            {
                let key = KeyV4::new(source, 1, (from, to), protocol);
                for has_ports in [true, false] {
                    if !has_ports && (from, to) != (0, 0) {
                        continue;
                    }
                    let rules = set.rules();
                    prop_assert_eq!(
                        decider(rules, &flat, &key, has_ports, holds),
                        decider(rules, &smaller, &key, has_ports, holds),
                        "{:?}", key
                    );
                }
            }
        }
    }

    fn keys(
        sources: core::ops::Range<u32>,
        from: core::ops::Range<u16>,
        to: core::ops::Range<u16>,
    ) -> Vec<(u32, u16, u16, u8)> {
        let mut all = Vec::new();
        for source in sources {
            for from in from.clone() {
                for to in to.clone() {
                    all.extend([6, 17].map(|protocol| (source, from, to, protocol)));
                }
            }
        }
        all
    }

    /// A staircase in random order: each rule takes packets from all others.
    fn staircase(count: u32) -> Vec<Rule> {
        let mut rules: Vec<Rule> = (0..count)
            .map(|step| {
                let wide = u16::MAX / count as u16 * step as u16;
                Rule {
                    source_ports: ports(0, wide),
                    destination_ports: ports(0, u16::MAX - wide),
                    protocol: ProtocolMatch::exact(6),
                    is_conditional: true,
                    is_certain_with_ports: true,
                    ..Rule::ANY
                }
            })
            .collect();
        let mut random = Random::new(4);
        for last in (1..rules.len()).rev() {
            rules.swap(last, random.below(last as u64 + 1) as usize);
        }
        rules
    }

    #[test]
    #[cfg_attr(miri, ignore = "too slow")]
    fn staircase_rules_become_disjoint_and_take_few_reads() {
        let set = RuleSet::new(staircase(4096)).unwrap();
        let smaller = shrink(&set.flatten::<KeyV4>());
        let classifier = ClassifierBuilder::new().build(&set).unwrap();
        let mut random = Random::new(1);
        let mut words = 0;
        for _ in 0..2000 {
            let (from, to) = (random.below(1 << 16) as u16, random.below(1 << 16) as u16);
            let key = KeyV4::new(1, 2, (from, to), 6);
            let inside =
                smaller.iter().filter(|flat| (0..4).all(|d| flat.span(d).contains(key.dimension(d))));
            assert!(inside.count() <= 1);
            let (found, reads) = classifier.classify_counting(&key);
            assert_eq!(found, set.first_match(&key));
            words += reads.words;
        }
        assert!(words / 2000 < 250, "{words} words");
        assert!(shrink(&set.flatten::<KeyV6>()).len() == smaller.len());
        assert_eq!(classifier.classify_key(&KeyV4::new(1, 2, (1, 1), 17)), Match::NONE);
        assert!(set.get(RuleId(0)).is_some());
    }
}
