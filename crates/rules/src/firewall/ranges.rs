//! Sets of numbers as sorted ranges.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// A set of numbers: ascending ranges that do not overlap or touch.
///
/// Addresses, ports, protocols and lengths are such sets; IPv4 addresses use the low 32 bits.
///
/// # Examples
///
/// ```
/// use flowloom_rules::firewall::Ranges;
/// let ports = Ranges::new([(80, 81), (443, 443), (82, 90)]);
/// assert_eq!(ports.as_slice(), [(80, 90), (443, 443)]);
/// assert!(ports.contains(85) && !ports.complement(65_535).contains(85));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// Returns the set of these ranges, which include both ends. A reversed range is empty.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut all: Vec<(u128, u128)> = ranges.into_iter().filter(|(low, high)| low <= high).collect();
        all.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (low, high) in all {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self(merged)
    }

    /// Returns the set of one number.
    #[must_use]
    pub fn exact(value: u128) -> Self {
        Self(Vec::from([(value, value)]))
    }

    /// Returns the set of the numbers from 0 to `max`.
    #[must_use]
    pub fn up_to(max: u128) -> Self {
        Self(Vec::from([(0, max)]))
    }

    /// Returns the ranges in ascending order.
    #[must_use]
    pub fn as_slice(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set contains a number.
    #[must_use]
    pub fn contains(&self, value: u128) -> bool {
        let at = self.0.partition_point(|&(_, high)| high < value);
        self.0.get(at).is_some_and(|&(low, _)| low <= value)
    }

    /// Returns the numbers in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut a, mut b) = (0, 0);
        let mut common = Vec::new();
        while let (Some(x), Some(y)) = (self.0.get(a), other.0.get(b)) {
            let (low, high) = (x.0.max(y.0), x.1.min(y.1));
            if low <= high {
                common.push((low, high));
            }
            if x.1 < y.1 {
                a += 1;
            } else {
                b += 1;
            }
        }
        Self(common)
    }

    /// Returns the numbers in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).copied())
    }

    /// Returns the numbers from 0 to `max` that are not in the set.
    #[must_use]
    pub fn complement(&self, max: u128) -> Self {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(low, high) in &self.0 {
            if let Some(from) = next.filter(|&from| from < low) {
                gaps.push((from, (low - 1).min(max)));
            }
            next = high.checked_add(1);
        }
        if let Some(from) = next.filter(|&from| from <= max) {
            gaps.push((from, max));
        }
        Self::new(gaps)
    }

    /// Returns whether the set contains every number of `other`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.intersection(other) == *other
    }

    /// Returns the smallest range that contains all numbers; `None` for the empty set.
    #[must_use]
    pub(crate) fn hull(&self) -> Option<(u128, u128)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// Returns the smallest set of prefixes with the same numbers, each with its lowest number and
    /// its length out of `bits`.
    ///
    /// # Panics
    ///
    /// Panics if `bits` is not from 1 to 128, or a number does not fit.
    #[must_use]
    pub fn prefixes(&self, bits: u32) -> Vec<(u128, u32)> {
        assert!((1..=128).contains(&bits), "an address has 1 to 128 bits");
        let mut prefixes = Vec::new();
        for &(low, high) in &self.0 {
            let mut at = low;
            loop {
                // The largest block that begins here and does not end after the range.
                let aligned = if at == 0 { bits } else { at.trailing_zeros().min(bits) };
                let size = (0..=aligned).rev().find(|&size| {
                    let last = at | 1_u128.checked_shl(size).map_or(u128::MAX, |block| block - 1);
                    last <= high
                });
                let size = size.unwrap_or(0);
                prefixes.push((at, bits - size));
                let last = at | 1_u128.checked_shl(size).map_or(u128::MAX, |block| block - 1);
                match last.checked_add(1) {
                    Some(next) if next <= high => at = next,
                    _ => break,
                }
            }
        }
        prefixes
    }

    /// Returns the numbers whose bits under `mask` equal those of `value`; `None` if that takes
    /// more than `ranges_max` ranges.
    #[must_use]
    pub(crate) fn under_mask(value: u128, mask: u128, bits: u32, ranges_max: usize) -> Option<Self> {
        let all = u128::MAX >> (128 - bits);
        let (mask, value) = (mask & all, value & mask & all);
        // The free bits at the bottom form one range; each free bit above doubles the number of
        // ranges.
        let low_free = if mask == 0 { bits } else { mask.trailing_zeros() };
        let span = if low_free >= 128 { u128::MAX } else { (1_u128 << low_free) - 1 };
        let free: Vec<u32> = (low_free..bits).filter(|bit| mask >> bit & 1 == 0).collect();
        if free.len() >= usize::BITS as usize - 1 || 1_usize << free.len() > ranges_max {
            return None;
        }
        let each = |choice: usize| {
            let set = free.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1);
            let low = set.fold(value, |low, (_, bit)| low | 1 << bit);
            (low, low | span)
        };
        Some(Self::new((0..1_usize << free.len()).map(each)))
    }
}

/// Returns the text form of an address of a family.
pub(crate) fn address_text(value: u128, is_v6: bool) -> String {
    if is_v6 {
        alloc::format!("{}", Ipv6Addr::from_bits(value))
    } else {
        alloc::format!("{}", Ipv4Addr::from_bits(value as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_sets_agree_with_a_truth_table() {
        let mut random = flowloom_classifier::random::Random::new(7);
        for _ in 0..500 {
            let mut draw = || {
                let count = random.below(4);
                let ranges: Vec<(u128, u128)> = (0..count)
                    .map(|_| (u128::from(random.below(16)), u128::from(random.below(16))))
                    .collect();
                Ranges::new(ranges)
            };
            let (a, b) = (draw(), draw());
            for value in 0..16 {
                let (x, y) = (a.contains(value), b.contains(value));
                assert_eq!(a.intersection(&b).contains(value), x && y);
                assert_eq!(a.union(&b).contains(value), x || y);
                assert_eq!(a.complement(15).contains(value), !x);
                let inside = |&(low, length): &(u128, u32)| value >> (4 - length) == low >> (4 - length);
                assert_eq!(a.prefixes(4).iter().filter(|prefix| inside(prefix)).count(), usize::from(x));
            }
            assert_eq!(a.covers(&b), (0..16).all(|value| a.contains(value) || !b.contains(value)));
        }
    }

    #[test]
    fn range_sets_include_the_smallest_and_largest_number() {
        let all = Ranges::up_to(u128::MAX);
        assert_eq!(all.prefixes(128), [(0, 0)]);
        assert!(all.complement(u128::MAX).is_empty());
        assert_eq!(Ranges::exact(u128::MAX).complement(u128::MAX).as_slice(), [(0, u128::MAX - 1)]);
        assert_eq!(Ranges::exact(u128::MAX).prefixes(128), [(u128::MAX, 128)]);
        assert_eq!(Ranges::new([(1, u128::MAX)]).prefixes(128).len(), 128);
    }

    #[test]
    fn a_mask_with_holes_is_several_ranges() {
        // 10.0.0.1 with the wildcard mask 0.255.255.0 of Cisco: 65,536 single addresses.
        let ranges = Ranges::under_mask(0x0a00_0001, 0xff00_00ff, 32, 1 << 16).unwrap();
        assert_eq!(ranges.len(), 1 << 16);
        assert!(ranges.contains(0x0a4d_0301) && !ranges.contains(0x0a4d_0302));
        assert_eq!(Ranges::under_mask(0x0a00_0001, 0xff00_00ff, 32, 100), None);
        assert_eq!(Ranges::under_mask(5, 0, 32, 1).unwrap(), Ranges::up_to(0xffff_ffff));
        assert_eq!(Ranges::under_mask(6, !1, 128, 1).unwrap().as_slice(), [(6, 7)]);
    }
}
