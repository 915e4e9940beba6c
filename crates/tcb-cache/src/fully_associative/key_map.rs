//! Maps keys to places by open addressing, with a power of two of slots, at most half of which are
//! used.

use flowloom_flow_key::hash::fold::fold;

const FREE: u32 = u32::MAX;

/// A map from keys to numbers below 2³² − 1, with a fixed capacity.
#[derive(Clone, Debug)]
pub(crate) struct KeyMap {
    slots: Vec<(u64, u32)>,
    shift: u32,
    len: usize,
    capacity: usize,
}

impl KeyMap {
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = (capacity.max(2) * 2).next_power_of_two();
        Self { slots: vec![(0, FREE); slots], shift: 64 - slots.ilog2(), len: 0, capacity }
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        // Neither key nor multiplier is secret: no attacker chooses the keys of a simulator.
        (fold(key ^ 0x2545_F491_4F6C_DD1D, 0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline(always)]
    fn slot(&self, key: u64) -> (usize, bool) {
        let mut at = self.home(key);
        loop {
            let (resident, value) = self.slots[at];
            if value == FREE {
                return (at, false);
            }
            if resident == key {
                return (at, true);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        let (at, found) = self.slot(key);
        found.then(|| self.slots[at].1)
    }

    /// Adds a key or changes its number.
    #[inline]
    pub(crate) fn set(&mut self, key: u64, value: u32) {
        let (at, found) = self.slot(key);
        self.slots[at] = (key, value);
        self.len += usize::from(!found);
        assert!(self.len <= self.capacity, "the map never contains more keys than it was built for");
    }

    /// Removes a key, and closes the gap so that no search ends early.
    #[inline]
    pub(crate) fn remove(&mut self, key: u64) {
        let (mut gap, found) = self.slot(key);
        if !found {
            return;
        }
        self.len -= 1;
        let mask = self.slots.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let (resident, value) = self.slots[at];
            if value == FREE {
                break;
            }
            // It may move into the gap if its home is not behind the gap.
            if (at.wrapping_sub(self.home(resident)) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
        }
        self.slots[gap].1 = FREE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn key_map_agrees_with_the_standard_map(steps in prop::collection::vec((0_u64..40, any::<bool>(), 0_u32..1000), 1..400)) {
            let mut map = KeyMap::new(40);
            let mut oracle = BTreeMap::new();
            for (key, keep, value) in steps {
                let key = key << 37 | key;
                if keep {
                    map.set(key, value);
                    oracle.insert(key, value);
                } else {
                    map.remove(key);
                    oracle.remove(&key);
                }
                for key in (0..40).map(|key| key << 37 | key) {
                    prop_assert_eq!(map.get(key), oracle.get(&key).copied());
                }
            }
        }
    }
}
