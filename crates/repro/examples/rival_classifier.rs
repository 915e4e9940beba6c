//! Runs a custom classifier in the items that compare trees.
//!
//! Tuple space search (Srinivasan, Suri and Varghese, 1999) keeps one map per combination of prefix
//! lengths. It asks each map for the rules with the key's prefixes.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::BTreeMap;

use flowloom::classifier::rule::Addresses;
use flowloom::classifier::{AnyKey, FirstMatch, Key, KeyV4, Match, RuleId, RuleSet};
use flowloom_repro::rivals::{RivalClassifier, Rivals};
use flowloom_repro::{Context, ItemError, Scale, select};

#[derive(Debug)]
struct TupleSpace {
    rules: RuleSet,
    /// By the lengths of both prefixes: from the prefixes to the rules in their order.
    tuples: BTreeMap<[u32; 2], BTreeMap<[u128; 2], Vec<u32>>>,
}

fn masked(key: &KeyV4, lengths: [u32; 2]) -> [u128; 2] {
    let mask = |length: u32| u32::MAX.checked_shl(32 - length).unwrap_or(0);
    [0, 1].map(|at| u128::from(key.dimension(at) & mask(lengths[at])))
}

impl TupleSpace {
    fn new(rules: &RuleSet) -> Self {
        let mut tuples: BTreeMap<_, BTreeMap<_, Vec<u32>>> = BTreeMap::new();
        for (rule, id) in rules.rules().iter().zip(0_u32..) {
            let (lengths, prefixes) = match rule.addresses {
                Addresses::Any => ([0; 2], [0; 2]),
                Addresses::V4 { source, destination } => {
                    ([source.length(), destination.length()], [source.low(), destination.low()])
                }
                Addresses::V6 { .. } => continue,
            };
            tuples.entry(lengths).or_default().entry(prefixes).or_default().push(id);
        }
        Self { rules: rules.clone(), tuples }
    }
}

impl FirstMatch for TupleSpace {
    fn first_match(&self, key: &AnyKey) -> Match {
        let key = match key {
            AnyKey::V4(key) => key,
            AnyKey::V6(key) => return self.rules.first_match(key),
        };
        let rules = self.rules.rules();
        let candidates = self.tuples.iter().filter_map(|(lengths, map)| {
            let list = map.get(&masked(key, *lengths))?;
            list.iter().copied().find(|&id| rules[id as usize].matches(key))
        });
        candidates.min().map_or(Match::NONE, |id| Match::from(RuleId(id)))
    }

    fn bytes(&self) -> usize {
        let entries: usize = self.tuples.values().map(BTreeMap::len).sum();
        size_of_val(self.rules.rules()) + entries * 32 + self.rules.len() * 4
    }
}

fn main() -> Result<(), ItemError> {
    let space = RivalClassifier::new("tuple space", |rules| Ok(Box::new(TupleSpace::new(rules))));
    let rivals = Rivals { classifiers: &[space], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    for name in ["flownp/fig7_accesses", "flownp/fig8_memory", "flownp/fig9_throughput"] {
        let item = select(name)[0];
        let outcome = (item.run)(&context)?;
        for value in outcome.values.iter().filter(|value| value.name.contains("tuple space")) {
            println!("{}  {}: {:.3} {}", item.id, value.name, value.ours, value.unit);
        }
    }
    Ok(())
}
