//! The nondeterministic automaton, in arrays for fast access.

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

use crate::table::NONE;

/// A state of the automaton.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// Waits for a byte: one of these entries of `ranges`.
    Bytes { begin: usize, end: usize },
    /// Continues without a byte, with these entries of `splits`.
    Split { begin: usize, end: usize },
    /// Continues if the assertion holds.
    Look { look: Look, to: u32 },
    /// The pattern has matched.
    Match(u16),
    /// The expression of a pattern with conditions has matched. It remains matched after any byte:
    /// this entry of `ranges` leads back here.
    Candidate { id: u16, range: usize },
}

/// Bytes, and the state that they lead to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) first: u8,
    pub(super) last: u8,
    pub(super) to: u32,
}

/// All states, by number.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    list: Vec<Node>,
    ranges: Vec<Range>,
    splits: Vec<u32>,
    /// The best pattern that each state can lead to.
    best: Vec<u16>,
    /// Whether any assertion depends on more than the beginning and end of the input.
    asks: bool,
}

impl Nodes {
    /// Copies the states of an automaton of the patterns `ids`, which are in ascending order; the
    /// patterns in `conditional` have conditions.
    pub(super) fn new(nfa: &NFA, ids: &[u16], conditional: &[bool]) -> Self {
        let mut nodes = Self::default();
        for state in nfa.states() {
            let node = nodes.node(state, ids, conditional);
            nodes.asks |=
                matches!(node, Node::Look { look, .. } if look != Look::Start && look != Look::End);
            nodes.list.push(node);
        }
        nodes.best = vec![NONE; nodes.list.len()];
        let mut stack = Vec::new();
        for (pattern, &id) in nfa.patterns().zip(ids) {
            stack.extend(nfa.start_pattern(pattern).map(|start| start.as_u32()));
            while let Some(at) = stack.pop() {
                if nodes.best[at as usize] == NONE {
                    nodes.best[at as usize] = id;
                    nodes.leads_to(at, &mut stack);
                }
            }
        }
        // The common prefix of all patterns leads to each of them.
        let first = ids.first().copied().unwrap_or(NONE);
        nodes.best.iter_mut().filter(|best| **best == NONE).for_each(|best| *best = first);
        nodes
    }

    fn node(&mut self, state: &State, ids: &[u16], conditional: &[bool]) -> Node {
        match state {
            State::ByteRange { trans } => self.bytes([(trans.start, trans.end, trans.next)]),
            State::Sparse(sparse) => {
                self.bytes(sparse.transitions.iter().map(|trans| (trans.start, trans.end, trans.next)))
            }
            State::Dense(dense) => self.bytes(
                (0..=u8::MAX).filter_map(|byte| dense.matches_byte(byte).map(|next| (byte, byte, next))),
            ),
            State::Union { alternates } => self.split(alternates.iter().copied()),
            State::BinaryUnion { alt1, alt2 } => self.split([*alt1, *alt2]),
            State::Capture { next, .. } => self.split([*next]),
            State::Fail => self.split([]),
            State::Look { look, next } => Node::Look { look: *look, to: next.as_u32() },
            State::Match { pattern_id } => {
                let id = ids[pattern_id.as_usize()];
                if conditional[pattern_id.as_usize()] { self.candidate(id) } else { Node::Match(id) }
            }
        }
    }

    fn bytes(&mut self, list: impl IntoIterator<Item = (u8, u8, StateID)>) -> Node {
        let begin = self.ranges.len();
        let ranges = list.into_iter().map(|(first, last, next)| Range { first, last, to: next.as_u32() });
        self.ranges.extend(ranges);
        Node::Bytes { begin, end: self.ranges.len() }
    }

    fn split(&mut self, list: impl IntoIterator<Item = StateID>) -> Node {
        let begin = self.splits.len();
        self.splits.extend(list.into_iter().map(|next| next.as_u32()));
        Node::Split { begin, end: self.splits.len() }
    }

    fn candidate(&mut self, id: u16) -> Node {
        // The automaton's state numbers have 31 bits.
        let to = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.ranges.push(Range { first: 0, last: u8::MAX, to });
        Node::Candidate { id, range: self.ranges.len() - 1 }
    }

    fn leads_to(&self, at: u32, out: &mut Vec<u32>) {
        match self.get(at) {
            Node::Bytes { begin, end } => out.extend(self.ranges[begin..end].iter().map(|range| range.to)),
            Node::Split { begin, end } => out.extend(self.splits(begin, end)),
            Node::Look { to, .. } => out.push(to),
            Node::Match(_) | Node::Candidate { .. } => {}
        }
    }

    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, at: u32) -> Node {
        self.list[at as usize]
    }

    pub(super) fn splits(&self, begin: usize, end: usize) -> &[u32] {
        &self.splits[begin..end]
    }

    /// Returns the bytes that a state waits for.
    pub(super) fn ranges(&self, at: u32) -> &[Range] {
        match self.get(at) {
            Node::Bytes { begin, end } => &self.ranges[begin..end],
            Node::Candidate { range, .. } => &self.ranges[range..=range],
            _ => &[],
        }
    }

    /// Returns the best pattern that a state can lead to.
    pub(super) fn best(&self, at: u32) -> u16 {
        self.best[at as usize]
    }

    /// Returns whether any assertion depends on more than the beginning and end of the input.
    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// Returns the patterns with conditions whose expressions have matched in these nodes, in
    /// ascending order.
    pub(super) fn candidates(&self, list: &[u32]) -> Vec<u16> {
        let node = |&at: &u32| match self.get(at) {
            Node::Candidate { id, .. } => Some(id),
            _ => None,
        };
        let mut ids: Vec<u16> = list.iter().filter_map(node).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns whether any of these nodes is an assertion.
    pub(super) fn waits(&self, list: &[u32]) -> bool {
        list.iter().any(|&at| matches!(self.get(at), Node::Look { .. }))
    }
}
