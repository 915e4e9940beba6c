//! Rules that share both prefixes, found by their ports if there are many.
//!
//! A range of ports lies in a block: the ports that begin with the common leading bits of its ends.
//! A rule that takes all packets of another, or a given packet, has blocks that contain the
//! other's. As with prefixes, one lookup per pair of lengths finds it. Ranges across the middle are
//! in the block of all ports, but few such ranges win.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{OutOfSteps, Steps};
use crate::intern::Interner;
use crate::rule::{PortRange, Rule};
use crate::rule_set::RuleSet;

/// Up to this many rules are compared one by one.
const FEW: usize = 16;
const PORT_BITS: u32 = 16;

/// Rules in ascending order.
#[derive(Debug)]
pub(super) enum ByPorts {
    Few(Vec<u32>),
    Many(Box<Blocks>),
}

/// Rules by the blocks of their source and destination ports.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Pairs of lengths that blocks have.
    lengths: Vec<[u32; 2]>,
    /// Maps blocks to their position in `ids`.
    places: Interner,
    /// Rules of a pair of blocks, in ascending order.
    ids: Vec<Vec<u32>>,
}

impl ByPorts {
    pub(super) fn new() -> Self {
        Self::Few(Vec::new())
    }

    /// Adds a rule; ids must increase.
    pub(super) fn add(&mut self, rules: &RuleSet, id: u32) {
        match self {
            Self::Many(blocks) => blocks.add(rules, id),
            Self::Few(ids) if ids.len() < FEW => ids.push(id),
            Self::Few(ids) => {
                let mut blocks =
                    Box::new(Blocks { lengths: Vec::new(), places: Interner::new(), ids: Vec::new() });
                for &id in ids.iter().chain([&id]) {
                    blocks.add(rules, id);
                }
                *self = Self::Many(blocks);
            }
        }
    }

    /// Calls `look` with lists of rules until it returns true. Every rule that matches all of these
    /// ports is in one of the lists.
    pub(super) fn any(
        &self,
        ports: [PortRange; 2],
        steps: &mut Steps,
        mut look: impl FnMut(&[u32], &mut Steps) -> Result<bool, OutOfSteps>,
    ) -> Result<bool, OutOfSteps> {
        let blocks = match self {
            Self::Few(ids) => return look(ids, steps),
            Self::Many(blocks) => blocks,
        };
        let own = ports.map(block_length);
        for &lengths in &blocks.lengths {
            if lengths[0] > own[0] || lengths[1] > own[1] {
                continue;
            }
            steps.take(1)?;
            let Some(place) = blocks.places.get(&words(ports, lengths)) else { continue };
            if look(&blocks.ids[place as usize], steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Blocks {
    fn add(&mut self, rules: &RuleSet, id: u32) {
        let ports = ports_of(&rules.rules()[id as usize]);
        let lengths = ports.map(block_length);
        let words = words(ports, lengths);
        if let Some(place) = self.places.get(&words) {
            self.ids[place as usize].push(id);
            return;
        }
        self.places.insert(&words, self.ids.len() as u64);
        self.ids.push(Vec::from([id]));
        if !self.lengths.contains(&lengths) {
            self.lengths.push(lengths);
        }
    }
}

/// Returns a rule's source and destination ports.
pub(super) fn ports_of(rule: &Rule) -> [PortRange; 2] {
    [rule.source_ports, rule.destination_ports]
}

/// Returns the number of leading bits that the ends of a range share.
fn block_length(ports: PortRange) -> u32 {
    (ports.low() ^ ports.high()).leading_zeros()
}

/// Returns the words by which a pair of blocks is found.
fn words(ports: [PortRange; 2], lengths: [u32; 2]) -> [u32; 2] {
    [0, 1].map(|side| {
        let first = u32::from(ports[side].low()) >> (PORT_BITS - lengths[side]);
        lengths[side] << PORT_BITS | first
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn each_rule_that_matches_all_ports_is_examined_once() {
        let mut random = Random::new(7);
        let mut range = || {
            let (low, bits) = (random.below(1 << 16) as u16, random.below(17));
            let width = random.below(1 << bits) as u16;
            PortRange::new(low, low.saturating_add(width)).unwrap()
        };
        let rules: Vec<Rule> = (0..2000)
            .map(|_| Rule { source_ports: range(), destination_ports: range(), ..Rule::ANY })
            .collect();
        let asked: Vec<[PortRange; 2]> = (0..500).map(|_| [range(), range()]).collect();
        let rules = RuleSet::new(rules).unwrap();
        let mut by_ports = ByPorts::new();
        let (mut looked_at, mut covering) = (0, 0);
        for id in 0..2000 {
            by_ports.add(&rules, id);
            if id as usize != FEW - 1 && id != 1999 {
                continue;
            }
            for &ports in &asked {
                let mut found = Vec::new();
                let ended = by_ports.any(ports, &mut Steps(10_000), |ids, _| {
                    assert!(ids.is_sorted());
                    found.extend_from_slice(ids);
                    Ok(false)
                });
                assert!(!ended.unwrap());
                looked_at += found.len();
                let covers = |id: &u32| {
                    let other = ports_of(&rules.rules()[*id as usize]);
                    other[0].covers(ports[0]) && other[1].covers(ports[1])
                };
                found.retain(covers);
                found.sort_unstable();
                let expected: Vec<u32> = (0..=id).filter(covers).collect();
                assert_eq!(found, expected, "{ports:?}");
                covering += found.len();
            }
        }
        assert!(covering > 100 && looked_at < 500 * (FEW + 1000), "{covering} of {looked_at}");
    }
}
