//! The knowledge about the packets that reach a node.

use crate::key::{Key, Span};
use crate::rule_set::Flat;

/// Maximum number of dimensions of a key.
pub(super) const DIMENSIONS_MAX: usize = 11;

/// The knowledge about one dimension: some bits, and bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The known bits.
    pub(super) mask: u32,
    /// Their values; zero elsewhere.
    pub(super) value: u32,
    /// The lower bound of all packets.
    pub(super) low: u32,
    /// The upper bound of all packets.
    pub(super) high: u32,
    /// Every rule of the list matches any value in this dimension; the other fields are zero.
    pub(super) is_done: bool,
}

impl Known {
    /// Returns the knowledge about a dimension of this many bits before any cut.
    fn nothing(bits: u32) -> Self {
        let high = ((1_u64 << bits) - 1) as u32;
        // Bits beyond the dimension are known to be zero.
        Self { mask: !high, high, ..Self::default() }
    }

    /// Returns the bounds that follow from all knowledge.
    pub(super) fn bounds(self) -> Span {
        Span { low: self.low.max(self.value), high: self.high.min(self.value | !self.mask) }
    }

    /// Returns whether every packet lies in the span.
    pub(super) fn is_within(self, span: Span) -> bool {
        let bounds = self.bounds();
        self.is_done || span.low <= bounds.low && bounds.high <= span.high
    }
}

/// The knowledge about all dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) known: [Known; DIMENSIONS_MAX],
}

impl Cell {
    /// Returns the cell of every packet.
    pub(super) fn everything<K: Key>() -> Self {
        let mut known = [Known::default(); DIMENSIONS_MAX];
        for (d, known) in known[..K::DIMENSIONS].iter_mut().enumerate() {
            *known = Known::nothing(K::bits(d));
        }
        Self { known }
    }

    /// Returns whether a rule matches every packet of the cell, so that no later rule wins there.
    pub(super) fn is_covered_by<K: Key>(&self, rule: &Flat<K>) -> bool {
        !rule.is_conditional
            && (0..K::DIMENSIONS).all(|d| self.known[d].is_within(rule.span(d)))
            && self.knows_protocol_of(rule)
    }

    /// Returns whether the protocol's span is exact, or the bits under its mask are known.
    fn knows_protocol_of<K: Key>(&self, rule: &Flat<K>) -> bool {
        let known = self.known[K::DIMENSIONS - 1];
        let mask = u32::from(rule.protocol.mask());
        known.is_done
            || rule.protocol.is_interval()
            || known.mask & mask == mask && (known.value ^ u32::from(rule.protocol.value())) & mask == 0
    }

    /// Returns whether a rule can match a packet of the cell, judging by spans.
    pub(super) fn meets<K: Key>(&self, rule: &Flat<K>) -> bool {
        (0..K::DIMENSIONS).all(|d| {
            let (bounds, span) = (self.known[d].bounds(), rule.span(d));
            self.known[d].is_done || bounds.low <= span.high && span.low <= bounds.high
        })
    }

    /// Assumes what all rules of a list agree on. A packet that does not agree matches none of
    /// them, so it may go anywhere, because leaves compare whole rules. A dimension in which every
    /// rule matches everything is forgotten, so that cells that differ only there share one tree.
    pub(super) fn assume<K: Key>(&mut self, rules: &[Flat<K>], list: &[u32]) {
        for d in 0..K::DIMENSIONS {
            let known = &mut self.known[d];
            let Some(&first) = list.first() else { continue };
            if known.is_done {
                continue;
            }
            let first = rules[first as usize].span(d).low;
            let (mut specified, mut differ, mut wild) = (u32::MAX, 0, true);
            for &rule in list {
                let span = rules[rule as usize].span(d);
                specified &= !smear(span.low ^ span.high);
                differ |= span.low ^ first;
                wild &= known.is_within(span)
                    && (d + 1 < K::DIMENSIONS || rules[rule as usize].protocol.is_interval());
            }
            if wild {
                *known = Known { is_done: true, ..Known::default() };
                continue;
            }
            let agreed = specified & !differ & !known.mask & Known::nothing(K::bits(d)).high;
            known.mask |= agreed;
            known.value |= first & agreed;
        }
    }
}

/// Sets all bits below the highest set bit.
fn smear(bits: u32) -> u32 {
    u32::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0)
}
