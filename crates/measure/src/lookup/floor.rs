//! What no table can beat: the lines that every lookup must touch, and nothing else.
//!
//! The *two-line floor* hashes the key, reads a line of an index as large as a good table's, and then the state that this line
//! leads to, in a pipeline of 64 keys a stage. It compares nothing and decides nothing. The *one-line floor* stops
//! after the first line: what a lookup must do to find that a flow is not there.

use std::hint::black_box;

use flowloom_cpu::pages::{CacheLine, HugePages, LineArray};
use flowloom_cpu::prefetch;
use flowloom_flow_key::FlowHash;

use super::{Flows, asked_ahead};

/// Keys in a stage. A floor with 16 took twice the time of one with 64 on a Zen 5 at a million flows, and 128 no less than 64. Asked for
/// into the second level, on a Zen 4, hits of a million take 8.1 ns with 32, 7.2 with 64 and 7.3 with 128.
const STEP: usize = 64;

/// Flows for each line of the index, as in a table of thirty lanes three quarters full.
const FLOWS_PER_LINE: f64 = 22.5;

/// Memory that is only read.
#[derive(Debug)]
pub struct Floor {
    index: LineArray<CacheLine<[u32; 16]>>,
    states: LineArray<CacheLine<[u64; 8]>>,
    /// Where the state of each packet's flow is.
    places: Vec<u32>,
}

impl Floor {
    /// Returns a floor for flows; `spread` is the share of states that are allocated for one that is used.
    ///
    /// # Panics
    ///
    /// If there is no memory for it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "numbers of flows"
    )]
    pub fn new<const W: usize>(flows: &Flows<W>, spread: f64) -> Self {
        let count = flows.keys.len();
        let array = |wanted: f64| wanted.ceil().max(1.0) as usize;
        let lines = array(count as f64 / FLOWS_PER_LINE);
        let states = array(count as f64 * spread);
        let mut floor = Self {
            index: LineArray::try_new(lines, HugePages::Try).expect("memory for a floor's index"),
            states: LineArray::try_new(states, HugePages::Try).expect("memory for a floor's states"),
            places: Vec::with_capacity(count),
        };
        floor.index.prefault();
        floor.states.prefault();
        for &number in &flows.numbers {
            let place = (f64::from(number) * spread) as u32;
            floor.states[place as usize].0[0] = u64::from(number);
            floor.places.push(place);
        }
        floor
    }

    #[inline(always)]
    fn line_of(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "lines are fewer than flows")]
        let lines = self.index.len() as u32;
        FlowHash::bucket_of(hash, lines) as usize
    }

    /// Touches an index line and then a state for each flow, and returns the sum of the flows' numbers.
    pub fn two_lines<const W: usize>(&self, flows: &Flows<W>) -> u64 {
        let mut sum = 0;
        let (mut lines, mut next_lines) = (&mut [0; STEP], &mut [0; STEP]);
        let (mut found, mut next_found) = (&mut [0; STEP], &mut [0; STEP]);
        // Two stages are filled before the first is emptied.
        let steps = flows.keys.len().div_ceil(STEP);
        for step in 0..steps + 2 {
            let fetched = flows.keys.chunks(STEP).nth(step).unwrap_or_default();
            for (line, key) in next_lines.iter_mut().zip(asked_ahead(fetched)) {
                *line = self.line_of(flows.hash(key));
                prefetch::read_later_at(&self.index, *line);
            }
            if let Some(compared) = step.checked_sub(1).and_then(|step| self.places.chunks(STEP).nth(step))
            {
                for ((&line, place), found) in lines.iter().zip(compared).zip(next_found.iter_mut()) {
                    // The state's place depends on what the line holds, which is nothing.
                    *found = (*place + self.index[line].0[0]) as usize;
                    prefetch::read_later_at(&self.states, *found);
                }
            }
            if let Some(step) = step.checked_sub(2) {
                let count = (flows.keys.len() - step * STEP).min(STEP);
                for &place in &found[..count] {
                    sum += self.states[place].0[0];
                }
            }
            std::mem::swap(&mut lines, &mut next_lines);
            std::mem::swap(&mut found, &mut next_found);
        }
        sum
    }

    /// Touches an index line for each stranger, and returns what they hold: nothing.
    pub fn one_line<const W: usize>(&self, flows: &Flows<W>) -> u64 {
        let mut sum = 0;
        let (mut lines, mut next_lines) = (&mut [0; STEP], &mut [0; STEP]);
        let steps = flows.strangers.len().div_ceil(STEP);
        for step in 0..=steps {
            let fetched = flows.strangers.chunks(STEP).nth(step).unwrap_or_default();
            for (line, key) in next_lines.iter_mut().zip(asked_ahead(fetched)) {
                *line = self.line_of(flows.hash(key));
                prefetch::read_later_at(&self.index, *line);
            }
            if let Some(step) = step.checked_sub(1) {
                let count = (flows.strangers.len() - step * STEP).min(STEP);
                for &line in &lines[..count] {
                    sum += u64::from(self.index[line].0[0]);
                }
            }
            std::mem::swap(&mut lines, &mut next_lines);
        }
        black_box(sum)
    }
}
