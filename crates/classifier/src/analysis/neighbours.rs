//! Earlier rules whose boxes may meet a rule's: by one of the two addresses, their prefix contains
//! its prefix or lies within it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::marker::PhantomData;

use super::{OutOfSteps, Steps};
use crate::key::Key;
use crate::rule::Rule;

/// Earlier rules of one address family, by the prefix of each of the two addresses.
#[derive(Debug)]
pub(super) struct Neighbours<K> {
    sides: [Side; 2],
    family: PhantomData<K>,
}

/// Rules by the prefix of one address.
#[derive(Debug, Default)]
struct Side {
    /// Rules of a prefix: its lowest address, its length.
    prefixes: BTreeMap<(u128, u32), Vec<u32>>,
    /// The lengths that prefixes have.
    lengths: Vec<u32>,
}

impl<K: Key> Neighbours<K> {
    pub(super) fn new() -> Self {
        Self { sides: Default::default(), family: PhantomData }
    }

    /// Adds a rule, if it is of this family; ids must increase.
    pub(super) fn add(&mut self, rule: &Rule, id: u32) {
        let Some(bounds) = rule.address_bounds::<K>() else { return };
        for (side, (low, _, length)) in self.sides.iter_mut().zip(bounds) {
            side.prefixes.entry((low, length)).or_default().push(id);
            if !side.lengths.contains(&length) {
                side.lengths.push(length);
            }
        }
    }

    /// Returns the rules that meet `rule` in one of the addresses, choosing the address with fewer
    /// rules, in ascending order.
    pub(super) fn near(&self, rule: &Rule, steps: &mut Steps) -> Result<Vec<u32>, OutOfSteps> {
        let Some(bounds) = rule.address_bounds::<K>() else { return Ok(Vec::new()) };
        let [source, destination] = [0, 1].map(|side| self.sides[side].meeting::<K>(bounds[side]));
        let count = |lists: &[&[u32]]| lists.iter().map(|ids| ids.len()).sum::<usize>();
        let fewer = if count(&source) <= count(&destination) { source } else { destination };
        steps.take(count(&fewer))?;
        let mut ids = fewer.concat();
        ids.sort_unstable();
        Ok(ids)
    }
}

impl Side {
    /// Returns the rules of all prefixes that contain one, or lie within it.
    fn meeting<K: Key>(&self, (low, high, length): (u128, u128, u32)) -> Vec<&[u32]> {
        let start = |shorter: u32| {
            let host_bits = K::ADDRESS_BITS - shorter;
            low.checked_shr(host_bits).map_or(0, |prefix| prefix << host_bits)
        };
        let shorter = self.lengths.iter().filter(|&&shorter| shorter < length);
        let holding = shorter
            .map(|&shorter| (start(shorter), shorter))
            // Prefixes that begin at the same address are among those within.
            .filter(|&(first, _)| first != low)
            .filter_map(|prefix| self.prefixes.get(&prefix));
        let within = self.prefixes.range((low, 0)..=(high, u32::MAX)).map(|(_, ids)| ids);
        holding.chain(within).map(Vec::as_slice).collect()
    }
}
