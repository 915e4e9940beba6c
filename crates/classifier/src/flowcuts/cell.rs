//! What is known of the packets that reach a node.

use crate::key::{Key, Span};
use crate::rule_set::Flat;

/// The most dimensions that a key has.
pub(super) const DIMENSIONS_MAX: usize = 11;

/// What is known of one dimension: some bits, and bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Bits that are known.
    pub(super) mask: u32,
    /// Their values; zero elsewhere.
    pub(super) value: u32,
    /// No packet is below.
    pub(super) low: u32,
    /// No packet is above.
    pub(super) high: u32,
    /// Every rule of the list matches whatever a packet has here; the rest is zero.
    pub(super) is_done: bool,
}

impl Known {
    /// Returns what is known of a dimension of that many bits before anything was cut.
    fn nothing(bits: u32) -> Self {
        let high = ((1_u64 << bits) - 1) as u32;
        // Bits that the dimension does not have are known to be zero.
        Self { mask: !high, high, ..Self::default() }
    }

    /// Returns bounds that follow from all that is known.
    pub(super) fn bounds(self) -> Span {
        Span { low: self.low.max(self.value), high: self.high.min(self.value | !self.mask) }
    }

    /// Returns whether every packet lies in the span.
    pub(super) fn is_within(self, span: Span) -> bool {
        let bounds = self.bounds();
        self.is_done || span.low <= bounds.low && bounds.high <= span.high
    }
}

/// What is known of all dimensions.
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

    /// Returns whether a rule matches every packet of the cell, so that no rule behind it wins
    /// there.
    pub(super) fn is_covered_by<K: Key>(&self, rule: &Flat<K>) -> bool {
        !rule.is_conditional
            && (0..K::DIMENSIONS).all(|d| self.known[d].is_within(rule.span(d)))
            && self.knows_protocol_of(rule)
    }

    /// Returns whether the protocol's span says all, or the bits under its mask are known.
    fn knows_protocol_of<K: Key>(&self, rule: &Flat<K>) -> bool {
        let known = self.known[K::DIMENSIONS - 1];
        let mask = u32::from(rule.protocol.mask());
        known.is_done
            || rule.protocol.is_interval()
            || known.mask & mask == mask && (known.value ^ u32::from(rule.protocol.value())) & mask == 0
    }

    /// Returns whether a rule can match a packet of the cell, as far as spans tell.
    pub(super) fn meets<K: Key>(&self, rule: &Flat<K>) -> bool {
        (0..K::DIMENSIONS).all(|d| {
            let (bounds, span) = (self.known[d].bounds(), rule.span(d));
            self.known[d].is_done || bounds.low <= span.high && span.low <= bounds.high
        })
    }

    /// Takes what all rules of a list agree on as known. A packet that does not agree matches none
    /// of them, so it may go anywhere, since leaves compare whole rules. A dimension in which every
    /// rule matches everything is forgotten: cells that differ there only have one tree.
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

/// Sets all bits below the highest that is set.
fn smear(bits: u32) -> u32 {
    u32::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0)
}
