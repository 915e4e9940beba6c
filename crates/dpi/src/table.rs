//! One group of patterns as one table of transitions: a load and a compare per byte.
//!
//! A state's number says what there is to do on entering it, so that most bytes take one compare:
//!
//! ```text
//!   0      1     2 ..= settled     ..= special            the others
//!   start  dead  a match, and no   a match, but a better  nothing to do
//!                better possible   one may follow
//! ```
//!
//! States from which nothing can match are merged into the dead one, and states after which no better match can come
//! into one per pattern: a group stops as soon as going on cannot change the answer.

use std::collections::HashMap;

use regex_automata::dfa::{Automaton, dense};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, Input};

/// The state of a stream of which nothing was scanned.
pub(crate) const START: u16 = 0;
/// The state in which nothing can match any more.
pub(crate) const DEAD: u16 = 1;
/// No pattern.
pub(crate) const NONE: u16 = u16::MAX;
/// The most states a table can number.
const STATES_MAX: usize = 65_000;
/// With more bytes than this leading out of the start state, passing over the others is not worth asking.
const LEAVES_MAX: usize = 64;

/// A group's transitions.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    classes: Box<[u8; 256]>,
    /// `next[state << shift | class]`.
    next: Box<[u16]>,
    shift: u32,
    /// The last state in which a match is settled.
    settled: u16,
    /// The last state that is not like the others.
    special: u16,
    /// The best pattern matched on entering a special state.
    label: Box<[u16]>,
    /// The best pattern matched if the input ends in a state.
    at_end: Box<[u16]>,
    /// The best pattern that the group knows.
    pub(crate) first: u16,
    /// How to leave the start state quickly, for groups that look everywhere.
    leap: Option<Leap>,
    /// The bytes that lead out of the start state, where there is no faster way and most stay.
    leaves: Option<Box<[bool; 256]>>,
}

/// Finds where the next match may begin.
#[derive(Clone, Debug)]
struct Leap {
    finder: Prefilter,
    literal_bytes_max: usize,
}

/// Why there is no table: too many states, or an automaton that gives up on some byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooManyStates;

/// The automaton as it was found: states in the order of discovery.
struct Found {
    next: Vec<u32>,
    label: Vec<u16>,
    at_end: Vec<u16>,
    classes: Box<[u8; 256]>,
    class_count: usize,
}

impl Table {
    /// Takes a table out of an automaton that was built of the patterns `ids`, in rising order.
    pub(crate) fn new(
        dfa: &dense::DFA<Vec<u32>>,
        ids: &[u16],
        anchored: bool,
        skip_zero: bool,
        finder: Option<Prefilter>,
    ) -> Result<Self, TooManyStates> {
        let found = discover(dfa, ids, anchored, skip_zero)?;
        let reach = found.reachable();
        let mut table = found.number(&reach)?;
        table.first = ids.iter().copied().min().unwrap_or(NONE);
        // A byte of zero inside a literal would be passed over: the finder does not know that. Nor does it know what
        // stood before the place to which it leaps.
        if !skip_zero && !anchored && forgets(dfa) {
            table.leap = finder
                .filter(Prefilter::is_fast)
                .map(|finder| Leap { literal_bytes_max: finder.max_needle_len(), finder });
        }
        if !anchored && table.leap.is_none() {
            let mut leaves = Box::new([false; 256]);
            for (byte, leaves) in (0..=u8::MAX).zip(leaves.iter_mut()) {
                *leaves = table.step(START, byte) != START;
            }
            table.leaves =
                (leaves.iter().filter(|&&leaves| leaves).count() <= LEAVES_MAX).then_some(leaves);
        }
        Ok(table)
    }

    /// Returns the bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        2 * (self.next.len() + self.label.len() + self.at_end.len()) + 256
    }

    /// Returns the number of states.
    pub(crate) fn states(&self) -> usize {
        self.at_end.len()
    }

    /// Scans on from `state`; `best` becomes the best pattern that matched, if it is better than it was.
    #[inline]
    pub(crate) fn scan(&self, state: u16, bytes: &[u8], best: &mut u16) -> u16 {
        let mut state = state;
        if state == DEAD {
            return DEAD;
        }
        if let Some(leap) = &self.leap {
            return self.scan_leaping(leap, state, bytes, best);
        }
        if let Some(leaves) = &self.leaves {
            return self.scan_skipping(leaves, state, bytes, best);
        }
        for &byte in bytes {
            state = self.step(state, byte);
            if state <= self.special {
                if state == DEAD {
                    return DEAD;
                }
                *best = (*best).min(self.label[usize::from(state)]);
                if state != START && state <= self.settled {
                    return DEAD;
                }
            }
        }
        state
    }

    /// Returns the best pattern that matches if the input ends here.
    #[inline]
    pub(crate) fn at_end(&self, state: u16) -> u16 {
        self.at_end[usize::from(state)]
    }

    #[inline(always)]
    fn step(&self, state: u16, byte: u8) -> u16 {
        let class = self.classes[usize::from(byte)];
        self.next[usize::from(state) << self.shift | usize::from(class)]
    }

    /// Like [`scan`](Self::scan), but passes over bytes that keep the start state: unlike a walk through states, looking for
    /// the next that does not has no step that waits for the one before.
    fn scan_skipping(&self, leaves: &[bool; 256], state: u16, bytes: &[u8], best: &mut u16) -> u16 {
        let mut state = state;
        let mut at = 0;
        while at < bytes.len() {
            if state == START {
                match bytes[at..].iter().position(|&byte| leaves[usize::from(byte)]) {
                    Some(stays) => at += stays,
                    None => break,
                }
            }
            state = self.step(state, bytes[at]);
            at += 1;
            if state <= self.special && state != START {
                if state == DEAD {
                    return DEAD;
                }
                *best = (*best).min(self.label[usize::from(state)]);
                if state <= self.settled {
                    return DEAD;
                }
            }
        }
        state
    }

    /// Like [`scan`](Self::scan), but from the start state to the next place where a literal of the patterns begins.
    fn scan_leaping(&self, leap: &Leap, state: u16, bytes: &[u8], best: &mut u16) -> u16 {
        let mut state = state;
        let mut at = 0;
        while at < bytes.len() {
            if state == START {
                match leap.finder.find(bytes, regex_automata::Span { start: at, end: bytes.len() }) {
                    Some(found) => at = found.start,
                    // No match begins before the last bytes, in which a literal may have begun and is cut.
                    None => at = at.max((bytes.len() + 1).saturating_sub(leap.literal_bytes_max)),
                }
                if at == bytes.len() {
                    break;
                }
            }
            state = self.step(state, bytes[at]);
            at += 1;
            if state <= self.special && state != START {
                if state == DEAD {
                    return DEAD;
                }
                *best = (*best).min(self.label[usize::from(state)]);
                if state <= self.settled {
                    return DEAD;
                }
            }
        }
        state
    }
}

/// Says whether an unanchored automaton begins in the same state wherever it begins.
fn forgets(dfa: &dense::DFA<Vec<u32>>) -> bool {
    let begin = |before: Option<u8>| {
        dfa.start_state(&start::Config::new().anchored(Anchored::No).look_behind(before)).ok()
    };
    let first = begin(None);
    first.is_some() && (0..=u8::MAX).all(|byte| begin(Some(byte)) == first)
}

/// Walks the automaton from its start state.
fn discover(
    dfa: &dense::DFA<Vec<u32>>,
    ids: &[u16],
    anchored: bool,
    skip_zero: bool,
) -> Result<Found, TooManyStates> {
    let mode = if anchored { Anchored::Yes } else { Anchored::No };
    let start = dfa.start_state_forward(&Input::new(&[]).anchored(mode)).map_err(|_| TooManyStates)?;
    let (classes, mut examples) = byte_classes(dfa, skip_zero);
    examples.truncate(256);
    let best_of = |id: StateID| {
        if dfa.is_match_state(id) {
            (0..dfa.match_len(id)).map(|at| ids[dfa.match_pattern(id, at).as_usize()]).min().unwrap_or(NONE)
        } else {
            NONE
        }
    };
    let mut numbers = HashMap::from([(start, 0_u32)]);
    let mut order = vec![start];
    let mut found = Found {
        next: Vec::new(),
        label: Vec::new(),
        at_end: Vec::new(),
        classes,
        class_count: examples.len(),
    };
    let mut at = 0;
    while at < order.len() {
        let id = order[at];
        at += 1;
        if dfa.is_quit_state(id) {
            return Err(TooManyStates);
        }
        found.label.push(best_of(id));
        found.at_end.push(best_of(dfa.next_eoi_state(id)));
        for &byte in &examples {
            let next = if skip_zero && byte == 0 { id } else { dfa.next_state(id, byte) };
            let fresh = u32::try_from(order.len()).map_err(|_| TooManyStates)?;
            let number = *numbers.entry(next).or_insert(fresh);
            if number == fresh {
                order.push(next);
            }
            found.next.push(number);
        }
    }
    Ok(found)
}

/// Returns the class of each byte, and one byte of each class.
fn byte_classes(dfa: &dense::DFA<Vec<u32>>, skip_zero: bool) -> (Box<[u8; 256]>, Vec<u8>) {
    let theirs = dfa.byte_classes();
    let mut classes = Box::new([0_u8; 256]);
    let mut examples = Vec::new();
    let mut known: HashMap<(u8, bool), u8> = HashMap::new();
    for byte in 0..=u8::MAX {
        let key = (theirs.get(byte), skip_zero && byte == 0);
        let fresh = u8::try_from(known.len()).unwrap_or(u8::MAX);
        classes[usize::from(byte)] = *known.entry(key).or_insert_with(|| {
            examples.push(byte);
            fresh
        });
    }
    (classes, examples)
}

impl Found {
    fn states(&self) -> usize {
        self.label.len()
    }

    fn successors(&self, state: usize) -> &[u32] {
        &self.next[state * self.class_count..(state + 1) * self.class_count]
    }

    /// Returns for each state the best pattern that may match after it was entered, or when the input ends in it.
    fn reachable(&self) -> Vec<u16> {
        let mut reach = self.at_end.clone();
        loop {
            let mut changed = false;
            for state in (0..self.states()).rev() {
                let mut best = reach[state];
                for &next in self.successors(state) {
                    let next = next as usize;
                    best = best.min(reach[next]).min(self.label[next]);
                }
                changed |= best < reach[state];
                reach[state] = best;
            }
            if !changed {
                return reach;
            }
        }
    }

    /// Numbers the states by what there is to do in them.
    fn number(self, reach: &[u16]) -> Result<Table, TooManyStates> {
        const UNSEEN: u16 = NONE;
        let dead = |state: usize| self.label[state] == NONE && reach[state] == NONE;
        let settled = |state: usize| self.label[state] != NONE && reach[state] >= self.label[state];
        let mut number = vec![UNSEEN; self.states()];
        let mut from = vec![0_usize, usize::MAX]; // Which found state each number stands for.
        number[0] = START;
        let place = |states: &mut Vec<usize>, state: usize| {
            states.push(state);
            u16::try_from(states.len() - 1)
                .ok()
                .filter(|&n| usize::from(n) < STATES_MAX)
                .ok_or(TooManyStates)
        };
        let mut by_label: HashMap<u16, u16> = HashMap::new();
        for state in (1..self.states()).filter(|&state| settled(state)) {
            number[state] = if let Some(&known) = by_label.get(&self.label[state]) {
                known
            } else {
                let fresh = place(&mut from, state)?;
                by_label.insert(self.label[state], fresh);
                fresh
            };
        }
        let settled_last = from.len() - 1;
        for state in (1..self.states()).filter(|&state| self.label[state] != NONE && !settled(state)) {
            number[state] = place(&mut from, state)?;
        }
        let special_last = from.len() - 1;
        for (state, number) in number.iter_mut().enumerate().skip(1) {
            if dead(state) {
                *number = DEAD;
            } else if *number == UNSEEN {
                *number = place(&mut from, state)?;
            }
        }
        let width = self.class_count.next_power_of_two();
        let shift = width.trailing_zeros();
        let mut next = vec![DEAD; from.len() * width];
        let mut at_end = vec![NONE; from.len()];
        for (row, &state) in from.iter().enumerate().filter(|&(_, &state)| state != usize::MAX) {
            at_end[row] = self.at_end[state];
            for (class, &to) in self.successors(state).iter().enumerate() {
                next[row * width + class] = number[to as usize];
            }
        }
        let label = from[..=special_last]
            .iter()
            .map(|&state| if state == usize::MAX { NONE } else { self.label[state] })
            .collect();
        let last = |index: usize| u16::try_from(index).map_err(|_| TooManyStates);
        Ok(Table {
            classes: self.classes,
            next: next.into_boxed_slice(),
            shift,
            settled: last(settled_last)?,
            special: last(special_last)?,
            label,
            at_end: at_end.into_boxed_slice(),
            first: NONE,
            leap: None,
            leaves: None,
        })
    }
}
