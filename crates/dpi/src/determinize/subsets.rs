//! Finds all subsets of states that an automaton can be in at once, step by step, within limits.

use std::collections::HashMap;
use std::rc::Rc;

use regex_automata::nfa::thompson::NFA;

use super::TooLarge;
use super::draft::{self, ByteKind, Draft};
use super::nodes::Nodes;
use super::runs::Runs;
use crate::table::NONE;

/// Bytes of a subset without its nodes and steps: an entry in the list, one in the index, its
/// properties. Lists and index may be half empty.
const SUBSET_BYTES: usize = 160;
/// Bytes of a step; its list may be half empty.
const STEP_BYTES: usize = 2 * size_of::<Step>();

/// Options for building an automaton.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Matches only at the beginning of the input.
    pub(crate) anchored: bool,
    /// Bytes of zero have no effect.
    pub(crate) skip_zero: bool,
    /// Maximum number of states.
    pub(crate) states_max: usize,
    /// Maximum memory while building, in bytes.
    pub(crate) bytes_max: usize,
}

/// The target of the bytes after those of the previous step, up to and including `last`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) last: u8,
    pub(crate) to: u32,
}

/// A deterministic automaton: states in the order of discovery, from its start state.
#[derive(Debug, Default)]
pub(crate) struct Subsets {
    steps: Vec<Step>,
    /// The end of each state's steps.
    ends: Vec<usize>,
    /// The best pattern that matches on entering each state.
    pub(crate) label: Vec<u16>,
    /// The best pattern that matches if the input ends in each state.
    pub(crate) at_end: Vec<u16>,
    /// The number of the set of patterns with conditions whose expressions have matched on entering
    /// each state.
    pub(crate) candidates: Vec<u16>,
    /// The best pattern that matches if the input ends in each state.
    pub(crate) candidates_at_end: Vec<u16>,
    /// The sets, by number; the first one is empty.
    pub(crate) sets: Vec<Rc<[u16]>>,
    /// Whether the start state is the same after every byte.
    pub(crate) forgets: bool,
}

impl Subsets {
    /// Builds one automaton of the patterns `ids`, which are in ascending order; the patterns in
    /// `conditional` have conditions. Subtracts its steps from those that are left, and sets them
    /// to zero if they do not suffice.
    pub(crate) fn new(
        nfa: &NFA,
        ids: &[u16],
        conditional: &[bool],
        shape: Shape,
        steps_left: &mut u64,
    ) -> Result<Self, TooLarge> {
        let nodes = Nodes::new(nfa, ids, conditional);
        let start = if shape.anchored { nfa.start_anchored() } else { nfa.start_unanchored() };
        let mut draft = Draft::new(&nodes);
        let mut begin = |behind| {
            draft.begin(NONE);
            draft.add(start.as_u32(), behind, None);
            draft.finish(behind).to_vec()
        };
        let first = begin(ByteKind::None);
        let forgets = ByteKind::BYTES.iter().all(|&kind| begin(kind) == first);
        let mut found = Self { forgets, ..Self::default() };
        let mut search = Search {
            nodes: &nodes,
            shape,
            order: Order { numbers: HashMap::new(), list: Vec::new(), bytes: 0, shape },
            draft,
            runs: Runs::new(),
            from: Vec::new(),
            steps: Vec::new(),
            steps_left,
            sets: Sets::new(shape.bytes_max),
        };
        let mut at = search.order.number(&first)?;
        while let Some(subset) = search.order.list.get(at as usize).cloned() {
            found.label.push(draft::label(&subset));
            let candidates = search.sets.number(nodes.candidates(draft::nodes(&subset)))?;
            found.candidates.push(candidates);
            let (at_end, candidates) = search.at_end(&subset, candidates)?;
            found.at_end.push(at_end);
            found.candidates_at_end.push(candidates);
            search.step(at, &subset)?;
            found.steps.extend_from_slice(&search.steps);
            found.ends.push(found.steps.len());
            at += 1;
        }
        found.sets = search.sets.list;
        Ok(found)
    }

    pub(crate) fn states(&self) -> usize {
        self.label.len()
    }

    pub(crate) fn steps(&self, state: usize) -> &[Step] {
        let begin = state.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.steps[begin..self.ends[state]]
    }
}

/// Working data for the transitions between subsets.
#[derive(Debug)]
struct Search<'a> {
    nodes: &'a Nodes,
    shape: Shape,
    order: Order,
    draft: Draft<'a>,
    runs: Runs,
    from: Vec<u32>,
    /// The steps of the present subset.
    steps: Vec<Step>,
    steps_left: &'a mut u64,
    sets: Sets,
}

/// Sets of patterns, each numbered once.
#[derive(Debug)]
struct Sets {
    numbers: HashMap<Rc<[u16]>, u16>,
    list: Vec<Rc<[u16]>>,
    bytes_left: usize,
}

impl Sets {
    fn new(bytes_max: usize) -> Self {
        let empty: Rc<[u16]> = Rc::from([]);
        Self { numbers: HashMap::from([(Rc::clone(&empty), 0)]), list: vec![empty], bytes_left: bytes_max }
    }

    fn number(&mut self, set: Vec<u16>) -> Result<u16, TooLarge> {
        if let Some(&known) = self.numbers.get(&set[..]) {
            return Ok(known);
        }
        let bytes = SUBSET_BYTES + size_of_val(&set[..]);
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(TooLarge)?;
        let fresh = u16::try_from(self.list.len()).map_err(|_| TooLarge)?;
        let set: Rc<[u16]> = Rc::from(set);
        self.list.push(Rc::clone(&set));
        self.numbers.insert(set, fresh);
        Ok(fresh)
    }
}

impl Search<'_> {
    /// Returns the best pattern that matches if the input ends in a subset, and the candidates at
    /// that point, which are `candidates` if the end makes no difference.
    fn at_end(&mut self, subset: &[u32], candidates: u16) -> Result<(u16, u16), TooLarge> {
        if !self.nodes.waits(draft::nodes(subset)) {
            return Ok((NONE, candidates));
        }
        let (label, list) = self.draft.resume(subset, ByteKind::None);
        let mut candidates = self.nodes.candidates(list);
        candidates.retain(|&id| id < label);
        Ok((label, self.sets.number(candidates)?))
    }

    /// Finds the steps of the subset with number `at`.
    fn step(&mut self, at: u32, subset: &[u32]) -> Result<(), TooLarge> {
        self.steps.clear();
        if self.nodes.asks() && self.nodes.waits(draft::nodes(subset)) {
            for ahead in ByteKind::BYTES {
                let (label, list) = self.draft.resume(subset, ahead);
                self.from.clear();
                self.from.extend_from_slice(list);
                self.step_from(at, label, Some(ahead))?;
            }
            self.steps.sort_unstable_by_key(|step| step.last);
        } else {
            // No byte satisfies an assertion about the end.
            self.from.clear();
            self.from.extend_from_slice(draft::nodes(subset));
            self.step_from(at, NONE, None)?;
        }
        self.steps.dedup_by(|next, step| {
            let same = next.to == step.to;
            step.last = if same { next.last } else { step.last };
            same
        });
        self.order.take(STEP_BYTES * self.steps.len())
    }

    /// Finds the steps from the nodes in `from`, over the bytes of kind `ahead` if any assertion
    /// depends on it; `label` has matched.
    fn step_from(&mut self, at: u32, label: u16, ahead: Option<ByteKind>) -> Result<(), TooLarge> {
        let Self { nodes, shape, order, draft, runs, from, steps, steps_left, .. } = self;
        runs.fill(nodes, from, shape.skip_zero, order.remaining() / size_of::<u32>())?;
        spend(steps_left, (from.len() + runs.targets()) as u64)?;
        let mut before: Option<(&[u32], ByteKind, u32)> = None;
        for (last, targets) in runs.iter() {
            let kind = ByteKind::from_byte(last);
            if ahead.is_some_and(|ahead| ahead != kind) {
                continue;
            }
            let to = if shape.skip_zero && last == 0 {
                at
            } else if let Some((_, _, to)) =
                before.filter(|&(same, of, _)| same == targets && (of == kind || !nodes.asks()))
            {
                to
            } else {
                draft.begin(label);
                for &target in targets {
                    draft.add(target, kind, None);
                }
                spend(steps_left, draft.looked_at())?;
                let to = order.number(draft.finish(kind))?;
                before = Some((targets, kind, to));
                to
            };
            steps.push(Step { last, to });
        }
        Ok(())
    }
}

/// Consumes some of the remaining steps.
fn spend(left: &mut u64, steps: u64) -> Result<(), TooLarge> {
    *left = left.saturating_sub(steps);
    if *left == 0 { Err(TooLarge) } else { Ok(()) }
}

/// The subsets found so far.
#[derive(Debug)]
struct Order {
    numbers: HashMap<Rc<[u32]>, u32>,
    list: Vec<Rc<[u32]>>,
    /// Their size in bytes.
    bytes: usize,
    shape: Shape,
}

impl Order {
    /// Returns the number of a subset; a new subset gets the next number.
    fn number(&mut self, subset: &[u32]) -> Result<u32, TooLarge> {
        if let Some(&known) = self.numbers.get(subset) {
            return Ok(known);
        }
        if self.list.len() >= self.shape.states_max {
            return Err(TooLarge);
        }
        self.take(size_of_val(subset) + SUBSET_BYTES)?;
        let fresh = u32::try_from(self.list.len()).map_err(|_| TooLarge)?;
        let subset: Rc<[u32]> = Rc::from(subset);
        self.list.push(Rc::clone(&subset));
        self.numbers.insert(subset, fresh);
        Ok(fresh)
    }

    fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        if bytes > self.remaining() {
            return Err(TooLarge);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Returns the remaining bytes.
    fn remaining(&self) -> usize {
        self.shape.bytes_max - self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { anchored: true, skip_zero: false, states_max: 1000, bytes_max: 1 << 20 };

    fn make(list: &[&str], shape: Shape) -> Result<Subsets, TooLarge> {
        let ids: Vec<u16> = (0..).take(list.len()).collect();
        Subsets::new(&NFA::new_many(list).unwrap(), &ids, &vec![false; list.len()], shape, &mut 1_000_000)
    }

    #[test]
    fn states_that_cannot_lead_to_a_better_match_are_dropped() {
        let better_first = make(&["^a", "^ab{50}"], SHAPE).unwrap();
        // The start, the match, and the dead state.
        assert_eq!(better_first.states(), 3);
        let better_last = make(&["^ab{50}", "^a"], SHAPE).unwrap();
        assert_eq!(better_last.states(), 53);
        // Patterns that can only be equal are not kept, and neither is a worse one while a third
        // one would be better.
        assert_eq!(make(&["^ab{0,50}"], SHAPE).unwrap().states(), 3);
        assert_eq!(make(&["^x", "^a", "^ab{50}"], SHAPE).unwrap().states(), 4);
    }

    #[test]
    fn lookbehind_splits_states_only_where_a_pattern_needs_it() {
        let states = |regex: &str| make(&[regex], SHAPE).unwrap().states();
        // The assertion matches one byte later, or it requires the end, or a beginning that has
        // passed.
        assert_eq!(states(r"^[a-]x(?-u:\b)"), states(r"^ax(?-u:\b)"));
        assert_eq!(states("^[a-]$"), states("^a$"));
        assert_eq!(states("^(?:a|c(?:^d)?)b"), states("^(?:a|c)b"));
        assert_eq!(states(r"^[a-](?-u:\b)-"), states(r"^a(?-u:\b)-") + 1);
    }

    #[test]
    fn a_match_is_known_at_once_unless_it_asks_what_follows() {
        let label = |list: &[&str]| make(list, SHAPE).unwrap().label;
        assert_eq!(label(&["^a"]).iter().filter(|&&label| label == 0).count(), 1);
        let at_end = make(&["^a$"], SHAPE).unwrap();
        assert!(at_end.label.iter().all(|&label| label == NONE) && at_end.at_end.contains(&0));
        // One byte after the word is seen, and either this byte or the end decides.
        let word = make(&[r"^a(?-u:\b)"], SHAPE).unwrap();
        assert!(word.label.contains(&0) && word.at_end.contains(&0));
    }

    #[test]
    fn a_step_goes_over_all_bytes_that_lead_to_one_state() {
        let found = make(&["^[a-z]"], SHAPE).unwrap();
        let last: Vec<u8> = found.steps(0).iter().map(|step| step.last).collect();
        assert_eq!(last, [b'a' - 1, b'z', u8::MAX]);
    }

    #[test]
    fn limits_are_enforced() {
        let list = ["^abcdefgh"];
        let states = make(&list, SHAPE).unwrap().states();
        assert!(make(&list, Shape { states_max: states, ..SHAPE }).is_ok());
        assert_eq!(make(&list, Shape { states_max: states - 1, ..SHAPE }).unwrap_err(), TooLarge);
        assert_eq!(make(&list, Shape { bytes_max: 1000, ..SHAPE }).unwrap_err(), TooLarge);
    }

    #[test]
    fn exact_memory_limit_suffices_and_one_byte_less_fails() {
        // The start, the second letter, the match, and the dead state: with nodes for two of them,
        // and one word each.
        let subsets = 4 * SUBSET_BYTES + 4 * (2 + 2 + 1 + 1);
        // Around each letter there are three steps, and one step over all bytes from the other two;
        // twice eight bytes each.
        let steps = 16 * (3 + 3 + 1 + 1);
        let make = |bytes_max| make(&["^ab"], Shape { bytes_max, ..SHAPE });
        assert_eq!(make(subsets + steps).unwrap().states(), 4);
        assert_eq!(make(subsets + steps - 1).unwrap_err(), TooLarge);
    }

    #[test]
    fn steps_are_as_many_as_nodes_that_are_looked_at() {
        let taken = |regex: &str| {
            let mut left = 1_000_000;
            Subsets::new(&NFA::new(regex).unwrap(), &[0], &[false], SHAPE, &mut left).unwrap();
            1_000_000 - left
        };
        // Its start and the assertion, at the beginning and elsewhere, and the letter; then the
        // letter, its successor, and there the end of the capture and the match.
        assert_eq!(taken("^a"), 5 + 1 + 1 + 2);
        assert_eq!(taken("^ab"), taken("^a") + 3, "a letter more");
        assert_eq!(taken("^[a-]"), 5 + 1 + 2 + 2 * 2, "two runs that lead there");
        // Bytes of two kinds that lead to one state form one step, because no assertion depends on
        // them.
        assert_eq!(taken("^(?:[+-/]|x*[0-9])*!"), taken("^(?:[a-f]|x*[g-i])*!"));
    }

    #[test]
    fn memory_of_one_step_is_bounded() {
        // Each of thirteen letters leads to a hundred nodes: 5200 bytes, of which 404 are kept.
        let list = ["^[acegikmoqsuwy]1"; 100];
        assert_eq!(make(&list, Shape { bytes_max: 4000, ..SHAPE }).unwrap_err(), TooLarge);
        assert!(make(&list, Shape { bytes_max: 8000, ..SHAPE }).is_ok());
    }

    #[test]
    fn it_forgets_unless_the_beginning_or_the_byte_before_matters() {
        let anywhere = Shape { anchored: false, ..SHAPE };
        let forgets = |regex| make(&[regex], anywhere).unwrap().forgets;
        assert!(forgets("ab"));
        assert!(!forgets("(?:^|c)ab"));
        assert!(!forgets(r"(?-u:\b)ab"));
    }
}
