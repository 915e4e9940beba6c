//! Rules that have both prefixes in common, found by their ports where they are many.
//!
//! A range of ports lies in a block: the ports that begin with the bits which its ends have in
//! common. Whatever takes all packets of a rule, or a packet, has blocks that hold the rule's or
//! the packet's: a look for each pair of lengths that there is finds it, as with prefixes. Ranges
//! over the middle are in the block of all ports, but of such ranges few win.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{OutOfSteps, Steps};
use crate::intern::Interner;
use crate::rule::{PortRange, Rule};
use crate::rule_set::RuleSet;

/// So many are compared one by one.
const FEW: usize = 16;
const PORT_BITS: u32 = 16;

/// Rules, rising.
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
    /// From blocks to their place in `ids`.
    places: Interner,
    /// Rules of a pair of blocks, rising.
    ids: Vec<Vec<u32>>,
}

impl ByPorts {
    pub(super) fn new() -> Self {
        Self::Few(Vec::new())
    }

    /// Takes a rule in; ids rise.
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

    /// Calls `look` with lists of rules, until it is true; every rule that matches all of these
    /// ports is in one of them.
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

/// Returns how many leading bits the ends of a range have in common.
fn block_length(ports: PortRange) -> u32 {
    (ports.low() ^ ports.high()).leading_zeros()
}

/// Returns what a pair of blocks is found by.
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
    fn every_rule_that_matches_all_of_some_ports_is_looked_at_once() {
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
                    let of = ports_of(&rules.rules()[*id as usize]);
                    of[0].covers(ports[0]) && of[1].covers(ports[1])
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
