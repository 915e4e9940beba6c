//! How a set is split and cut, and the estimated cost of a lookup.

use alloc::vec::Vec;

use super::tree::{Allowance, Forest, Shape};
use crate::arch::Program;
use crate::error::BuildError;
use crate::key::Key;
use crate::lookup::classify_counting;
use crate::rule_set::Flat;

/// The division of rules among trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One tree.
    Whole,
    /// At most four trees: rules whose source prefix is, or is not, longer than this many bits, and
    /// the same for the destination prefix.
    Lengths {
        /// Source bits.
        source: u8,
        /// Destination bits.
        destination: u8,
    },
}

/// A way to split and cut a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The division of rules among trees.
    pub split: Split,
    /// Maximum number of rules in a leaf.
    pub leaf_rules: usize,
    /// Maximum number of leaf entries in a tree per rule.
    pub growth_max: f64,
}

impl Plan {
    /// Returns the lists of rules, one per tree, none empty. A list shorter than a leaf joins the
    /// list of the rules that are shortest in both, or the largest list: every tree costs time for
    /// every packet, however small the tree is.
    pub(super) fn lists<K: Key>(&self, rules: &[Flat<K>]) -> Vec<Vec<u32>> {
        let Split::Lengths { source, destination } = self.split else {
            let all: Vec<u32> = (0..rules.len() as u32).collect();
            return if all.is_empty() { Vec::new() } else { Vec::from([all]) };
        };
        let mut lists: [Vec<u32>; 4] = Default::default();
        for (i, rule) in rules.iter().enumerate() {
            let class =
                usize::from(rule.lengths[0] > source) << 1 | usize::from(rule.lengths[1] > destination);
            lists[class].push(i as u32);
        }
        let few = (rules.len() / 64).clamp(4, 16);
        let largest = (0..4).max_by_key(|&class| lists[class].len()).unwrap_or(0);
        let home = if lists[0].len() > few { 0 } else { largest };
        for class in 0..4 {
            if class != home && lists[class].len() <= few {
                let moved = core::mem::take(&mut lists[class]);
                lists[home].extend(moved);
            }
        }
        lists[home].sort_unstable();
        lists.into_iter().filter(|list| !list.is_empty()).collect()
    }

    /// Builds the trees. Returns them with the steps taken.
    pub(super) fn build<K: Key>(
        &self,
        rules: &[Flat<K>],
        allowance: Allowance,
        huge: flowloom_cpu::pages::HugePages,
    ) -> (Result<Program<K>, BuildError>, u64) {
        let shape = Shape { leaf_rules: self.leaf_rules, growth_max: self.growth_max };
        let mut forest = Forest::new(rules, shape, allowance);
        for list in self.lists(rules) {
            if let Err(error) = forest.add_tree(&list) {
                return (Err(error), forest.steps());
            }
        }
        let steps = forest.steps();
        let (words, rows, trees) = forest.finish();
        (Program::new(&words, &rows, trees, huge).map_err(BuildError::from), steps)
    }
}

/// Returns the average cost of a packet of the sample, in units of about a processor cycle.
///
/// The constants are those of one kind of machine, fitted to generated sets of all profiles with
/// several seeds and sizes and random plans; only their proportions matter. A node costs a handful
/// of instructions and a load, a block three lines and a compare; both become more expensive as the
/// arrays outgrow a cache. Packets walk in groups, and are compared in rounds, that wait for their
/// last packet; both therefore include a share of the worst case.
pub(super) fn cost<K: Key>(program: &Program<K>, sample: &[K]) -> f64 {
    let (mut trees, mut nodes, mut blocks) = (0_u64, 0_u64, 0_u64);
    for key in sample {
        let (_, reads) = classify_counting(program, key);
        trees += u64::from(reads.trees);
        nodes += u64::from(reads.nodes);
        blocks += u64::from(reads.blocks);
    }
    let (packet, tree, node, block) = match program.bytes() {
        0..0x4_0000 => (0.0, 4.0, 2.2, 9.2),
        0x4_0000..0x8_0000 => (3.0, 5.4, 1.9, 10.1),
        0x8_0000..0x10_0000 => (6.0, 7.5, 1.5, 10.2),
        0x10_0000..0x20_0000 => (8.0, 6.0, 4.0, 11.0),
        0x20_0000..0x80_0000 => (8.0, 6.0, 3.8, 17.0),
        _ => (12.0, 6.0, 6.0, 28.0),
    };
    let [tail, rounds] = program.worst().iter().fold([0.0, 0.0], |[tail, rounds], worst| {
        [tail + f64::from(worst.nodes), rounds + f64::from(worst.blocks)]
    });
    let total = trees as f64 * tree + nodes as f64 * node + blocks as f64 * block;
    packet + 0.8 * tail + 0.5 * rounds + total / sample.len().max(1) as f64
}
