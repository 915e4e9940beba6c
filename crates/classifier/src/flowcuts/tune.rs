//! Choosing a plan: try, measure, keep the best.

use alloc::vec::Vec;

use flowloom_cpu::pages::HugePages;

use super::plan::{Plan, Split, cost};
use super::tree::Allowance;
use crate::arch::{Program, Tree, leaf_word};
use crate::error::BuildError;
use crate::headers::{Traffic, sample};
use crate::key::Key;
use crate::leaf_block::{LANES, push_blocks};
use crate::rule_set::Flat;

/// Limits of a build with all its plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum size of the classifier's arrays, in bytes. Arrays of an abandoned plan stay below it
    /// too.
    pub(crate) memory_bytes_max: usize,
    /// Maximum number of steps over all plans; a step examines a rule and takes several
    /// nanoseconds. `None` means 12 million and 4,000 per rule.
    pub(crate) steps_max: Option<u64>,
}

impl Limits {
    pub(crate) fn steps(&self, rules: usize) -> u64 {
        self.steps_max.unwrap_or(12_000_000 + 4_000 * rules as u64)
    }
}

impl Default for Limits {
    /// 1 GiB, and steps for about ten microseconds per rule.
    fn default() -> Self {
        Self { memory_bytes_max: 1 << 30, steps_max: None }
    }
}

/// Leaf length above which other plans are tried.
const LONG_LEAF: usize = 256;

/// Number of rules above which plans are ranked with a part of the rules.
const RANKED_MIN: usize = 1 << 17;

/// Number of rules with which plans of larger sets are ranked.
const RANKED: usize = 1 << 14;

/// Steps per rule that the best plan of a large set may take before the next one is tried.
const STEPS_PER_RULE: u64 = 600;

/// Number of headers with which a plan is tried.
const SAMPLE: usize = 2048;

/// The finished program, and its plan.
#[derive(Debug)]
pub(crate) struct Tuned<K: Key> {
    pub(crate) program: Program<K>,
    pub(crate) plan: Option<Plan>,
    pub(crate) tried: u32,
    pub(crate) steps: u64,
    pub(crate) expected_cost: f64,
}

/// Tries plans within the limits and returns the one with the lowest estimated cost.
pub(crate) fn tune<K: Key>(
    rules: &[Flat<K>],
    limits: Limits,
    huge: HugePages,
) -> Result<Tuned<K>, BuildError> {
    let steps_max = limits.steps(rules.len());
    let mut trial = Trial {
        rules,
        keys: sample(rules, Traffic { random_permille: 150, zipf_flows: None }, SAMPLE, 0x0074_756e_6572),
        memory_bytes_max: limits.memory_bytes_max,
        steps_left: steps_max,
        huge,
        tried: 0,
        best: None,
        best_steps: 0,
        results: Vec::new(),
    };
    let linear = linear::<K>(rules, limits.memory_bytes_max, huge);
    let linear_error = match linear {
        Ok(program) => {
            let expected =
                cost(&program, &trial.keys[..SAMPLE.min(64 + 65_536 / rules.len().max(1)).min(SAMPLE)]);
            trial.best = Some((expected, None, program));
            None
        }
        Err(error) => Some(error),
    };
    if rules.len() > RANKED_MIN {
        trial.run_ranked();
    } else if rules.len() > LANES {
        trial.run();
        trial.unfold();
    }
    let steps = steps_max - trial.steps_left;
    match trial.best {
        Some((expected_cost, plan, program)) => {
            Ok(Tuned { program, plan, tried: trial.tried, steps, expected_cost })
        }
        None => Err(linear_error.unwrap_or(BuildError::Work { limit_steps: steps_max })),
    }
}

/// Returns the cost of a program for packets of these rules.
pub(crate) fn cost_for<K: Key>(program: &Program<K>, rules: &[Flat<K>]) -> f64 {
    let traffic = Traffic { random_permille: 150, zipf_flows: None };
    cost(program, &sample(rules, traffic, SAMPLE / 4, 0x7368_7269_6e6b))
}

/// Returns whether a lookup may search a list longer than leaves should be.
pub(crate) fn searches_long_lists<K: Key>(program: &Program<K>) -> bool {
    program.worst().iter().any(|worst| worst.blocks as usize * LANES > LONG_LEAF)
}

/// Builds one plan.
pub(crate) fn build_one<K: Key>(
    rules: &[Flat<K>],
    plan: Plan,
    limits: Limits,
    huge: HugePages,
) -> Result<Tuned<K>, BuildError> {
    let allowance = Allowance { bytes: limits.memory_bytes_max, steps: limits.steps(rules.len()) };
    let (program, steps) = plan.build(rules, allowance, huge);
    let program = program?;
    let keys = sample(rules, Traffic { random_permille: 150, zipf_flows: None }, SAMPLE, 0x0074_756e_6572);
    let expected_cost = cost(&program, &keys);
    Ok(Tuned { program, plan: Some(plan), tried: 1, steps, expected_cost })
}

struct Trial<'a, K: Key> {
    rules: &'a [Flat<K>],
    keys: Vec<K>,
    memory_bytes_max: usize,
    steps_left: u64,
    huge: HugePages,
    tried: u32,
    best: Option<(f64, Option<Plan>, Program<K>)>,
    /// Steps of the best plan.
    best_steps: u64,
    /// Costs of the plans that were finished.
    results: Vec<(f64, Plan)>,
}

impl<K: Key> Trial<'_, K> {
    /// Ranks plans with evenly chosen rules, and builds the first that finishes. To build a large
    /// set with every plan would take minutes.
    fn run_ranked(&mut self) {
        let part: Vec<Flat<K>> = self.rules.iter().step_by(self.rules.len() / RANKED).copied().collect();
        let limits = Limits { memory_bytes_max: self.memory_bytes_max, steps_max: None };
        let mut trial = Trial {
            rules: &part,
            keys: sample(
                &part,
                Traffic { random_permille: 150, zipf_flows: None },
                SAMPLE,
                0x0074_756e_6572,
            ),
            memory_bytes_max: self.memory_bytes_max,
            steps_left: limits.steps(part.len()).min(self.steps_left / 4),
            huge: self.huge,
            tried: 0,
            best: None,
            best_steps: 0,
            results: Vec::new(),
        };
        let steps = trial.steps_left;
        trial.run();
        self.steps_left -= steps - trial.steps_left;
        self.tried += trial.tried;
        let mut ranked = trial.results;
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let patience = STEPS_PER_RULE * self.rules.len() as u64;
        if !ranked.iter().any(|&(_, plan)| self.attempt(plan, patience).is_some()) {
            self.run();
            self.unfold();
        }
    }

    /// First decide how to split, then how to cut. A plan that takes many times the steps of the
    /// best one so far is rarely better, and never by much, so it is abandoned.
    fn run(&mut self) {
        let bits = K::ADDRESS_BITS as u8;
        let lengths = |source: u8, destination: u8| Split::Lengths { source, destination };
        let (half, quarter) = (bits / 2 - 1, bits / 4);
        let shorter = [lengths(bits, quarter), lengths(quarter, bits), lengths(quarter, quarter)];
        let longer = [lengths(bits, half), lengths(half, bits), lengths(half, half)];
        // The first quarter of an IPv6 address belongs to the provider; rules differ further down.
        let (first, last) = if K::IS_V6 { (longer, shorter) } else { (shorter, longer) };
        let splits = first.into_iter().chain([Split::Whole]).chain(last);
        // One tree contains many rules, so it is tried with leaves that are reached early.
        let plan = |split| Plan {
            split,
            leaf_rules: if split == Split::Whole { 32 } else { 16 },
            growth_max: 16.0,
        };
        let mut distinct: Vec<(Split, Vec<usize>)> = Vec::new();
        for split in splits {
            let sizes = plan(split).lists(self.rules).iter().map(Vec::len).collect();
            if distinct.iter().all(|(_, other)| *other != sizes) {
                distinct.push((split, sizes));
            }
        }
        let share = self.steps_left / (distinct.len().min(5) as u64 + 3);
        let last_resort = self.steps_left / 3;
        // A tree with few cuts makes few copies.
        let sparing = |split| Plan { split, leaf_rules: 32, growth_max: 4.0 };
        let mut results: Vec<(f64, Plan)> = Vec::new();
        for &(split, _) in &distinct {
            if results.is_empty() && self.steps_left < last_resort {
                break;
            }
            let mut tried = plan(split);
            let mut cost = self.attempt(tried, self.patience(400_000, 8, share));
            if cost.is_none() && results.is_empty() {
                tried = sparing(split);
                cost = self.attempt(tried, share);
            }
            results.extend(cost.map(|cost| (cost, tried)));
        }
        if results.is_empty() {
            let tried = sparing(lengths(half, half));
            results.extend(self.attempt(tried, self.steps_left).map(|cost| (cost, tried)));
        }
        results.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least = results.first().map_or(0.0, |&(cost, _)| cost);
        for &(cost, tried) in results.iter().take(2) {
            for (leaf_rules, growth_max) in [(32, 64.0), (16, 64.0), (8, 16.0), (24, 32.0)] {
                // A split that is far behind with one leaf size is so with every size.
                if cost < 1.15 * least {
                    self.attempt(
                        Plan { leaf_rules, growth_max, ..tried },
                        self.patience(200_000, 4, 2 * share),
                    );
                }
            }
        }
    }

    /// Tries plans that copy rules many times, if the best one so far searches long lists. Ranges
    /// that overlap in two fields separate only after both are cut, and until then every cut copies
    /// them.
    fn unfold(&mut self) {
        for (leaf_rules, growth_max) in [(16, 256.0), (16, 2048.0), (16, 16_384.0)] {
            let is_dear = self.best.as_ref().is_none_or(|(_, _, program)| searches_long_lists(program));
            if !is_dear || self.steps_left == 0 {
                return;
            }
            let plan = Plan { split: Split::Whole, leaf_rules, growth_max };
            self.attempt(plan, self.steps_left);
        }
    }

    /// Returns the number of steps to spend on a plan, given those of the best one so far.
    fn patience(&self, least: u64, times: u64, most: u64) -> u64 {
        if self.best_steps == 0 { most } else { most.min(least + times * self.best_steps) }
    }

    /// Tries a plan with this many of the remaining steps; returns its cost if it was finished.
    fn attempt(&mut self, plan: Plan, steps_max: u64) -> Option<f64> {
        let allowance = Allowance { bytes: self.memory_bytes_max, steps: self.steps_left.min(steps_max) };
        let (built, steps) = plan.build(self.rules, allowance, self.huge);
        self.steps_left = self.steps_left.saturating_sub(steps);
        self.tried += 1;
        let program = built.ok()?;
        let expected = cost(&program, &self.keys);
        self.results.push((expected, plan));
        if self.best.as_ref().is_none_or(|&(best, ..)| expected < best) {
            self.best = Some((expected, Some(plan), program));
            self.best_steps = steps;
        }
        Some(expected)
    }
}

/// Returns the program that compares a packet with one block after another.
pub(crate) fn linear<K: Key>(
    rules: &[Flat<K>],
    memory_bytes_max: usize,
    huge: HugePages,
) -> Result<Program<K>, BuildError> {
    let blocks = rules.len().div_ceil(LANES);
    let needed = blocks * Program::<K>::BLOCK_ROWS * 32;
    if needed > memory_bytes_max {
        return Err(BuildError::Memory {
            needed_bytes: needed as u64,
            limit_bytes: memory_bytes_max as u64,
        });
    }
    let mut rows = Vec::new();
    if !rules.is_empty() {
        push_blocks(&mut rows, rules.iter());
    }
    // A leaf counts up to 2¹⁸ − 1 blocks; larger sets take several leaves.
    let trees = (0..blocks)
        .step_by(LEAF_BLOCKS_MAX)
        .map(|first| Tree {
            root: leaf_word(first as u32, (blocks - first).min(LEAF_BLOCKS_MAX) as u32),
            least: rules[first * LANES].id,
        })
        .collect();
    Ok(Program::new(&[], &rows, trees, huge)?)
}

/// Maximum number of blocks that one leaf can name.
const LEAF_BLOCKS_MAX: usize = (1 << 18) - 1;
