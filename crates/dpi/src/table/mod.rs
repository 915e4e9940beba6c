//! A group of patterns as one table of transitions: one load and one comparison per byte.
//!
//! The number of a state encodes the action on entering it, so that most bytes take one comparison:
//!
//! ```text
//!   0      1     2 ..= settled     ..= special            the others
//!   start  dead  a match, and no   a match, but a better  nothing to do
//!                better possible   one may follow
//! ```
//!
//! States from which nothing can match are merged into the dead state. States after which no better
//! match can follow are merged into one state per pattern. A group therefore stops as soon as
//! further bytes cannot change the answer.
//!
//! A pattern with conditions is a *candidate* after its expression has matched. The state after the
//! last byte identifies all candidates, so they cost nothing per byte. Where further bytes cannot
//! change the candidates, the group stops in a settled state of that set.

mod image;

use std::collections::HashMap;

use regex_automata::util::prefilter::Prefilter;

use crate::determinize::{Step, Subsets};

/// The state of a stream before its first byte.
pub(crate) const START: u16 = 0;
/// The dead state: no pattern can match any more.
pub(crate) const DEAD: u16 = 1;
/// No pattern.
pub(crate) const NONE: u16 = u16::MAX;
/// Maximum number of states in a table.
const STATES_MAX: usize = 65_000;
/// If more bytes than this leave the start state, skipping the others does not pay.
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
    /// The last state with an action.
    special: u16,
    /// The best pattern matched on entering a special state.
    label: Box<[u16]>,
    /// The best pattern matched if the input ends in a state.
    at_end: Box<[u16]>,
    /// The number in `sets` of the candidates if the input ends in a state.
    candidates: Box<[u16]>,
    /// Sets of candidates, in ascending order; the first set is empty.
    sets: Box<[Box<[u16]>]>,
    /// The best pattern of the group.
    pub(crate) first: u16,
    /// Whether matches only begin at the beginning of the input.
    anchored: bool,
    /// How to leave the start state quickly, for unanchored groups.
    leap: Option<Leap>,
    /// The signatures whose literals a leap finds, if the start state is the same after every byte.
    literals_of: Box<[u16]>,
    /// The bytes that leave the start state, if there is no faster way and most bytes do not leave
    /// it.
    leaves: Option<Box<[bool; 256]>>,
}

/// Finds the next place where a match can begin.
#[derive(Clone, Debug)]
struct Leap {
    finder: Prefilter,
    literal_bytes_max: usize,
}

/// The table would have too many states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooManyStates;

impl Table {
    /// Builds the table of an automaton whose best pattern is `first`.
    pub(crate) fn new(found: &Subsets, first: u16, anchored: bool) -> Result<Self, TooManyStates> {
        let mut table = rows(found, &changing(found))?;
        table.first = first;
        table.anchored = anchored;
        table.skip_to_leaves();
        Ok(table)
    }

    /// Makes an unanchored table skip bytes that do not leave the start state, unless most do.
    fn skip_to_leaves(&mut self) {
        if self.anchored {
            return;
        }
        let mut leaves = Box::new([false; 256]);
        for (byte, leaves) in (0..=u8::MAX).zip(leaves.iter_mut()) {
            *leaves = self.step(START, byte) != START;
        }
        self.leaves = (leaves.iter().filter(|&&leaves| leaves).count() <= LEAVES_MAX).then_some(leaves);
    }

    /// Makes the table skip from one beginning of a match to the next, if `finder`, that of the
    /// signatures `literals_of`, finds all of them fast on this processor.
    pub(crate) fn leap_to(&mut self, finder: Option<Prefilter>, literals_of: Vec<u16>) {
        self.literals_of = literals_of.into_boxed_slice();
        if let Some(finder) = finder.filter(Prefilter::is_fast) {
            self.leap = Some(Leap { literal_bytes_max: finder.max_needle_len(), finder });
            self.leaves = None;
        }
    }

    /// Returns the signatures whose literals a leap finds.
    pub(crate) fn literals_of(&self) -> &[u16] {
        &self.literals_of
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let sets: usize = self.sets.iter().map(|set| set.len()).sum();
        2 * (self.next.len() + self.label.len() + self.at_end.len() + self.candidates.len() + sets) + 256
    }

    /// Returns the number of states.
    pub(crate) fn states(&self) -> usize {
        self.at_end.len()
    }

    /// Scans `bytes` from `state`, and sets `best` to the best pattern that matched if it is better
    /// than the old value.
    #[inline]
    pub(crate) fn scan(&self, state: u16, bytes: &[u8], best: &mut u16) -> u16 {
        let mut state = state;
        if self.is_over(state) {
            return state;
        }
        if let Some(leap) = &self.leap {
            // The next place where a literal of the patterns begins.
            return self.scan_skipping(state, bytes, best, |at| {
                match leap.finder.find(bytes, regex_automata::Span { start: at, end: bytes.len() }) {
                    Some(found) => Some(found.start),
                    // No match begins before the last bytes, in which a truncated literal may
                    // begin.
                    None => Some(at.max((bytes.len() + 1).saturating_sub(leap.literal_bytes_max)))
                        .filter(|&at| at < bytes.len()),
                }
            });
        }
        if let Some(leaves) = &self.leaves {
            // The next byte that leaves the start state. Each step through states waits for the
            // previous one; this search has no such dependency.
            return self.scan_skipping(state, bytes, best, |at| {
                let mut rest = bytes[at..].iter();
                rest.position(|&byte| leaves[usize::from(byte)]).map(|stays| at + stays)
            });
        }
        for &byte in bytes {
            state = self.step(state, byte);
            if state <= self.special {
                if state == DEAD {
                    return DEAD;
                }
                *best = (*best).min(self.label[usize::from(state)]);
                if state != START && state <= self.settled {
                    return self.stop(state);
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

    /// Returns the candidates if the input ends here, in ascending order.
    #[inline]
    pub(crate) fn candidates(&self, state: u16) -> &[u16] {
        &self.sets[usize::from(self.candidates[usize::from(state)])]
    }

    /// Returns whether further bytes change nothing.
    #[inline]
    pub(crate) fn is_over(&self, state: u16) -> bool {
        state != START && state <= self.settled
    }

    /// Returns the state that remains after a settled one: the settled state if it has candidates.
    fn stop(&self, state: u16) -> u16 {
        if self.candidates[usize::from(state)] == 0 { DEAD } else { state }
    }

    #[inline(always)]
    fn step(&self, state: u16, byte: u8) -> u16 {
        let class = self.classes[usize::from(byte)];
        self.next[usize::from(state) << self.shift | usize::from(class)]
    }

    /// Like [`scan`](Self::scan), but goes on from the start state where `skip` says.
    #[inline(always)]
    fn scan_skipping(
        &self,
        state: u16,
        bytes: &[u8],
        best: &mut u16,
        skip: impl Fn(usize) -> Option<usize>,
    ) -> u16 {
        let mut state = state;
        let mut at = 0;
        while at < bytes.len() {
            if state == START {
                match skip(at) {
                    Some(found) => at = found,
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
                    return self.stop(state);
                }
            }
        }
        state
    }
}

/// Returns for each state whether the match may change after it was entered: by further bytes, or
/// because the input ends in it.
fn changing(found: &Subsets) -> Vec<bool> {
    let mut changing: Vec<bool> = (0..found.states())
        .map(|state| {
            found.at_end[state] != NONE || found.candidates_at_end[state] != found.candidates[state]
        })
        .collect();
    loop {
        let mut more = false;
        for state in (0..found.states()).rev().filter(|&state| !changing[state]).collect::<Vec<_>>() {
            changing[state] = found.steps(state).iter().any(|step| {
                let next = step.to as usize;
                changing[next]
                    || found.label[next] != NONE
                    || found.candidates[next] != found.candidates[state]
            });
            more |= changing[state];
        }
        if !more {
            return changing;
        }
    }
}

/// Numbers the states by their actions, and writes their rows.
fn rows(found: &Subsets, changing: &[bool]) -> Result<Table, TooManyStates> {
    const UNSEEN: u16 = NONE;
    let matched = |state: usize| found.label[state] != NONE || found.candidates[state] != 0;
    let mut number = vec![UNSEEN; found.states()];
    let mut from = vec![0_usize, usize::MAX]; // Which found state each number stands for.
    number[0] = START;
    let place = |states: &mut Vec<usize>, state: usize| {
        states.push(state);
        u16::try_from(states.len() - 1).ok().filter(|&n| usize::from(n) < STATES_MAX).ok_or(TooManyStates)
    };
    let mut by_match: HashMap<(u16, u16), u16> = HashMap::new();
    for state in (1..found.states()).filter(|&state| matched(state) && !changing[state]) {
        let key = (found.label[state], found.candidates[state]);
        number[state] = if let Some(&known) = by_match.get(&key) {
            known
        } else {
            let fresh = place(&mut from, state)?;
            by_match.insert(key, fresh);
            fresh
        };
    }
    let settled_last = from.len() - 1;
    for state in (1..found.states()).filter(|&state| found.label[state] != NONE && changing[state]) {
        number[state] = place(&mut from, state)?;
    }
    let special_last = from.len() - 1;
    for (state, number) in number.iter_mut().enumerate().skip(1) {
        if !matched(state) && !changing[state] {
            *number = DEAD;
        } else if *number == UNSEEN {
            *number = place(&mut from, state)?;
        }
    }
    let live = || from.iter().enumerate().filter(|&(_, &state)| state != usize::MAX);
    let (classes, class_count) = classes(live().map(|(_, &state)| found.steps(state)), &number);
    let width = class_count.next_power_of_two();
    let mut next = vec![DEAD; from.len() * width];
    let mut at_end = vec![NONE; from.len()];
    let mut candidates = vec![0; from.len()];
    for (row, &state) in live() {
        at_end[row] = found.at_end[state];
        candidates[row] = found.candidates_at_end[state];
        let mut begin = 0;
        for step in found.steps(state) {
            for &class in &classes[begin..=usize::from(step.last)] {
                next[row * width + usize::from(class)] = number[step.to as usize];
            }
            begin = usize::from(step.last) + 1;
        }
    }
    let label = from[..=special_last]
        .iter()
        .map(|&state| if state == usize::MAX { NONE } else { found.label[state] })
        .collect();
    let last = |index: usize| u16::try_from(index).map_err(|_| TooManyStates);
    Ok(Table {
        classes,
        next: next.into_boxed_slice(),
        shift: width.trailing_zeros(),
        settled: last(settled_last)?,
        special: last(special_last)?,
        label,
        at_end: at_end.into_boxed_slice(),
        candidates: candidates.into_boxed_slice(),
        sets: found.sets.iter().map(|set| set.iter().copied().collect()).collect(),
        first: NONE,
        anchored: false,
        leap: None,
        literals_of: Box::default(),
        leaves: None,
    })
}

/// Returns the class of each byte, and the number of classes. Bytes that no state distinguishes
/// form one class.
fn classes<'a>(rows: impl Iterator<Item = &'a [Step]>, number: &[u16]) -> (Box<[u8; 256]>, usize) {
    let mut first_like = [0_u8; 256]; // The first byte of its class so far.
    let mut row = [DEAD; 256];
    for steps in rows {
        let mut begin = 0;
        for step in steps {
            let end = usize::from(step.last);
            row[begin..=end].fill(number[step.to as usize]);
            begin = end + 1;
        }
        if (0..256).any(|byte| row[byte] != row[usize::from(first_like[byte])]) {
            let before = first_like;
            for byte in 0..=u8::MAX {
                let same = |other: u8| {
                    let (byte, other) = (usize::from(byte), usize::from(other));
                    before[byte] == before[other] && row[byte] == row[other]
                };
                first_like[usize::from(byte)] = (0..byte).find(|&other| same(other)).unwrap_or(byte);
            }
        }
    }
    let mut classes = Box::new([0; 256]);
    let firsts = (0..=u8::MAX).filter(|&byte| first_like[usize::from(byte)] == byte);
    for (class, first) in (0..=u8::MAX).zip(firsts) {
        (0..256).filter(|&byte| first_like[byte] == first).for_each(|byte| classes[byte] = class);
    }
    let count = usize::from(classes.iter().copied().max().unwrap_or(0)) + 1;
    (classes, count)
}

#[cfg(test)]
mod tests {
    use regex_automata::MatchKind;
    use regex_automata::nfa::thompson::NFA;

    use super::*;
    use crate::determinize::Shape;

    /// Builds the table of patterns, of which either all or none are anchored, in ascending order.
    fn make(list: &[&str], leap: Option<Prefilter>) -> Result<Table, TooManyStates> {
        let anchored = list[0].starts_with('^');
        let ids: Vec<u16> = (0..).take(list.len()).collect();
        let shape = Shape { anchored, skip_zero: false, states_max: usize::MAX, bytes_max: 1 << 30 };
        let found = Subsets::new(
            &NFA::new_many(list).unwrap(),
            &ids,
            &vec![false; list.len()],
            shape,
            &mut 1_000_000,
        )
        .unwrap();
        let mut table = Table::new(&found, 0, anchored)?;
        if leap.is_some() {
            table.leap_to(leap, ids);
        }
        Ok(table)
    }

    #[test]
    fn states_are_numbered_by_the_work_they_need() {
        // Settled by "^abc" and by "^x"; "^ab" may become better; start, dead and the "a" have no
        // action.
        let table = make(&["^abc", "^ab", "^x"], None).unwrap();
        assert_eq!((table.settled, table.special, table.states()), (3, 4, 6));
        let label: Vec<u16> = table.label.to_vec();
        assert_eq!((&label[..2], label[4]), (&[NONE, NONE][..], 1));
        assert!(label[2..=3].contains(&0) && label[2..=3].contains(&2));
    }

    #[test]
    fn bytes_that_no_state_distinguishes_are_one_class() {
        let table = make(&["^ab[c-f]", "^a[d-h]"], None).unwrap();
        // a, b, c, d to f, g and h, and all others.
        let class = |byte: u8| table.classes[usize::from(byte)];
        assert_eq!(table.classes.iter().max(), Some(&5));
        assert_eq!((class(b'd'), class(b'g'), class(b'z')), (class(b'f'), class(b'h'), class(0)));
        assert_eq!(table.next.len(), 8 * table.states());
    }

    #[test]
    fn reported_size_is_the_sum_of_the_contents() {
        let table = make(&["^abc", "^ab", "^x"], None).unwrap();
        let held = size_of_val(&*table.classes)
            + size_of_val(&*table.next)
            + size_of_val(&*table.label)
            + size_of_val(&*table.at_end)
            + size_of_val(&*table.candidates);
        assert_eq!(table.bytes(), held);
        assert_eq!(table.bytes(), 256 + 2 * (6 * 8 + 5 + 6 + 6));
    }

    #[test]
    fn scan_continues_for_better_matches_and_stops_at_the_best() {
        let list = ["^.*needle", "^.*pin"];
        let anywhere = ["needle", "pin"];
        let finder = Prefilter::new(MatchKind::All, &anywhere);
        // The fast instructions are not available on every processor.
        let leaps = finder.as_ref().is_some_and(Prefilter::is_fast);
        let (plain, skipping, leaping) =
            (make(&list, None).unwrap(), make(&anywhere, None).unwrap(), make(&anywhere, finder).unwrap());
        assert!(plain.leaves.is_none() && plain.leap.is_none());
        assert_eq!((skipping.leaves.is_some(), leaping.leap.is_some()), (true, leaps));
        for table in [plain, skipping, leaping] {
            let scan = |bytes: &[u8]| {
                let mut best = NONE;
                (table.scan(START, bytes, &mut best) == DEAD, best)
            };
            assert_eq!(scan(b"a pin and a nee"), (false, 1));
            assert_eq!(scan(b"a pin and a needle, and more"), (true, 0));
            assert_eq!(scan(b"a needle and a pin"), (true, 0));
        }
    }

    #[test]
    fn state_count_is_limited_by_the_width_of_state_numbers() {
        let states =
            |letters: usize| make(&[&format!("^a{{{letters}}}")], None).map(|table| table.states());
        // One before each letter, the match, and the dead one.
        assert_eq!(states(STATES_MAX - 2).unwrap(), STATES_MAX);
        assert!(states(STATES_MAX - 1).is_err());
    }
}
