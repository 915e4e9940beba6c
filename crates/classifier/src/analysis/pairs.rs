//! Rules by their two prefixes. One lookup per pair of lengths finds every rule that takes packets
//! from another; where rules share both prefixes, one lookup per pair of lengths of their [port
//! blocks](super::ports).

use alloc::vec::Vec;
use core::marker::PhantomData;

use super::ports::{ByPorts, ports_of};
use super::{OutOfSteps, Steps};
use crate::intern::Interner;
use crate::key::Key;
use crate::rule::{PortRange, Rule};
use crate::rule_set::RuleSet;

/// Earlier rules of one address family, by source and destination prefix.
#[derive(Debug)]
pub(super) struct Pairs<K> {
    /// Pairs of lengths that rules have.
    lengths: Vec<[u32; 2]>,
    /// Maps prefixes to their position in `rules`.
    places: Interner,
    /// Rules of a pair of prefixes.
    rules: Vec<ByPorts>,
    family: PhantomData<K>,
}

impl<K: Key> Pairs<K> {
    pub(super) fn new() -> Self {
        Self { lengths: Vec::new(), places: Interner::new(), rules: Vec::new(), family: PhantomData }
    }

    /// Adds a rule, if it is of this family; ids must increase.
    pub(super) fn add(&mut self, rules: &RuleSet, id: u32) {
        let Some(bounds) = rules.rules()[id as usize].address_bounds::<K>() else { return };
        let lengths = bounds.map(|(_, _, length)| length);
        let words = words::<K>(bounds.map(|(low, _, _)| low), lengths);
        if let Some(place) = self.places.get(&words) {
            self.rules[place as usize].add(rules, id);
            return;
        }
        self.places.insert(&words, self.rules.len() as u64);
        let mut first = ByPorts::new();
        first.add(rules, id);
        self.rules.push(first);
        if !self.lengths.contains(&lengths) {
            self.lengths.push(lengths);
        }
    }

    /// Returns the first rule that matches all packets of `rule`, if any.
    pub(super) fn cover(
        &self,
        rules: &RuleSet,
        rule: &Rule,
        steps: &mut Steps,
    ) -> Result<Option<u32>, OutOfSteps> {
        let Some(bounds) = rule.address_bounds::<K>() else { return Ok(None) };
        let mut first = None;
        for &lengths in &self.lengths {
            if lengths[0] > bounds[0].2 || lengths[1] > bounds[1].2 {
                continue;
            }
            let Some(earlier) = self.at(bounds.map(|(low, _, _)| low), lengths, steps)? else { continue };
            earlier.any(ports_of(rule), steps, |ids, steps| {
                for &id in ids {
                    if first.is_some_and(|first| first <= id) {
                        break;
                    }
                    steps.take(1)?;
                    if rules.rules()[id as usize].covers(rule) {
                        first = Some(id);
                    }
                }
                Ok(false)
            })?;
        }
        Ok(first)
    }

    /// Returns whether earlier rules match both the lowest and the highest packet of a rule; `true`
    /// for a rule of the other family.
    pub(super) fn meets_corners(
        &self,
        rules: &RuleSet,
        rule: &Rule,
        steps: &mut Steps,
    ) -> Result<bool, OutOfSteps> {
        let Some(bounds) = rule.address_bounds::<K>() else { return Ok(true) };
        let protocols = rule.protocol.span();
        let (first, last) = (ports_of(rule).map(PortRange::low), ports_of(rule).map(PortRange::high));
        let low = K::from_fields(bounds[0].0, bounds[1].0, (first[0], first[1]), protocols.low as u8);
        let high = K::from_fields(bounds[0].1, bounds[1].1, (last[0], last[1]), protocols.high as u8);
        Ok(self.matches(rules, bounds.map(|(low, _, _)| low), first.map(PortRange::exact), &low, steps)?
            && self.matches(
                rules,
                bounds.map(|(_, high, _)| high),
                last.map(PortRange::exact),
                &high,
                steps,
            )?)
    }

    /// Returns whether an earlier rule matches a packet between these addresses and ports.
    fn matches(
        &self,
        rules: &RuleSet,
        addresses: [u128; 2],
        ports: [PortRange; 2],
        packet: &K,
        steps: &mut Steps,
    ) -> Result<bool, OutOfSteps> {
        for &lengths in &self.lengths {
            let Some(earlier) = self.at(addresses, lengths, steps)? else { continue };
            let is_met = earlier.any(ports, steps, |ids, steps| {
                for &id in ids {
                    steps.take(1)?;
                    if rules.rules()[id as usize].matches(packet) {
                        return Ok(true);
                    }
                }
                Ok(false)
            })?;
            if is_met {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the rules that have the prefixes of these addresses in these lengths.
    fn at(
        &self,
        addresses: [u128; 2],
        lengths: [u32; 2],
        steps: &mut Steps,
    ) -> Result<Option<&ByPorts>, OutOfSteps> {
        steps.take(1)?;
        let place = self.places.get(&words::<K>(addresses, lengths));
        Ok(place.map(|place| &self.rules[place as usize]))
    }
}

/// Returns the words by which a pair of prefixes is found.
fn words<K: Key>(addresses: [u128; 2], lengths: [u32; 2]) -> [u32; 9] {
    let mut words = [0; 9];
    for (place, (address, length)) in addresses.into_iter().zip(lengths).enumerate() {
        let host_bits = K::ADDRESS_BITS - length;
        let prefix = address.checked_shr(host_bits).unwrap_or(0);
        for part in 0..K::ADDRESS_DIMENSIONS {
            words[4 * place + part] = (prefix >> (32 * part)) as u32;
        }
    }
    words[8] = lengths[0] << 8 | lengths[1];
    words
}
