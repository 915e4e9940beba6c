//! Lower bounds: touches only the lines that every lookup must touch.
//!
//! The *two-line bound* hashes the key, reads a line of an index as large as that of a good table,
//! and then reads the state that this line leads to, in a pipeline of 64 keys per stage. It
//! performs no comparison. The *one-line bound* stops after the first line, which is the minimum
//! for detecting that a flow is missing.

use flowloom_flow_key::TableHash;
use std::hint::black_box;

use flowloom_cpu::pages::{CacheLine, HugePages, LineArray};
use flowloom_cpu::prefetch;

use super::{Flows, prefetched};

/// Number of keys in a stage. On a Zen 5 at a million flows, a bound with 16 took twice the time of
/// one with 64, and 128 no less than 64. On a Zen 4 with prefetching into the second-level cache,
/// hits at a million flows take 8.1 ns with 32, 7.2 ns with 64 and 7.3 ns with 128.
const STEP: usize = 64;

/// Flows per line of the index, as in a table of thirty lanes that is three quarters full.
const FLOWS_PER_LINE: f64 = 22.5;

/// Memory that is only read.
#[derive(Debug)]
pub struct LowerBound {
    index: LineArray<CacheLine<[u32; 16]>>,
    states: LineArray<CacheLine<[u64; 8]>>,
    /// The position of the state of each packet's flow.
    places: Vec<u32>,
}

impl LowerBound {
    /// Returns a bound for flows; `spread` is the number of allocated states per used state.
    ///
    /// # Panics
    ///
    /// Panics if there is not enough memory.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "flow numbers are small"
    )]
    pub fn new<const W: usize>(flows: &Flows<W>, spread: f64) -> Self {
        let count = flows.keys.len();
        let array = |wanted: f64| wanted.ceil().max(1.0) as usize;
        let lines = array(count as f64 / FLOWS_PER_LINE);
        let states = array(count as f64 * spread);
        let mut bound = Self {
            index: LineArray::try_new(lines, HugePages::Try).expect("memory for the bound's index"),
            states: LineArray::try_new(states, HugePages::Try).expect("memory for the bound's states"),
            places: Vec::with_capacity(count),
        };
        bound.index.prefault();
        bound.states.prefault();
        for &number in &flows.numbers {
            let place = (f64::from(number) * spread) as u32;
            bound.states[place as usize].0[0] = u64::from(number);
            bound.places.push(place);
        }
        bound
    }

    #[inline(always)]
    fn line_of(&self, hash: TableHash) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer lines than flows")]
        let lines = self.index.len() as u32;
        hash.bucket(lines) as usize
    }

    /// Touches an index line and then a state for each flow, and returns the sum of the flows'
    /// numbers.
    pub fn two_lines<const W: usize>(&self, flows: &Flows<W>) -> u64 {
        let mut sum = 0;
        let (mut lines, mut next_lines) = (&mut [0; STEP], &mut [0; STEP]);
        let (mut found, mut next_found) = (&mut [0; STEP], &mut [0; STEP]);
        // Two stages are filled before the first is emptied.
        let steps = flows.keys.len().div_ceil(STEP);
        for step in 0..steps + 2 {
            let fetched = flows.keys.chunks(STEP).nth(step).unwrap_or_default();
            for (line, key) in next_lines.iter_mut().zip(prefetched(fetched)) {
                *line = self.line_of(flows.hash(key));
                prefetch::read_later_at(&self.index, *line);
            }
            if let Some(compared) = step.checked_sub(1).and_then(|step| self.places.chunks(STEP).nth(step))
            {
                for ((&line, place), found) in lines.iter().zip(compared).zip(next_found.iter_mut()) {
                    // The address of the state depends on the contents of the line, which are zero.
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

    /// Touches an index line for each missing key, and returns the sum of their contents, which is
    /// zero.
    pub fn one_line<const W: usize>(&self, flows: &Flows<W>) -> u64 {
        let mut sum = 0;
        let (mut lines, mut next_lines) = (&mut [0; STEP], &mut [0; STEP]);
        let steps = flows.missing.len().div_ceil(STEP);
        for step in 0..=steps {
            let fetched = flows.missing.chunks(STEP).nth(step).unwrap_or_default();
            for (line, key) in next_lines.iter_mut().zip(prefetched(fetched)) {
                *line = self.line_of(flows.hash(key));
                prefetch::read_later_at(&self.index, *line);
            }
            if let Some(step) = step.checked_sub(1) {
                let count = (flows.missing.len() - step * STEP).min(STEP);
                for &line in &lines[..count] {
                    sum += u64::from(self.index[line].0[0]);
                }
            }
            std::mem::swap(&mut lines, &mut next_lines);
        }
        black_box(sum)
    }
}
