//! Many keys at once, as a pipeline.
//!
//! A batch of any length runs through a pipeline of [`STEP`] keys a stage: while the states of one step are compared with
//! its keys, the lines of the next are compared with its signatures, and the lines after that are on their way. The few
//! flows that live in an alternate leave the pipeline for a list of their own, so that nobody waits for their
//! second line.

use flowloom_cpu::prefetch;

use super::layout::{ALL_LANES, Control, Place, state_of};
use super::table::LineHash;
use crate::arch::{Kernel, Lanes};
use crate::table::{FlowId, TableKey};

/// Keys in a stage of the pipeline.
const STEP: usize = 16;

/// Many keys, through the pipeline.
pub(super) struct FindBatch<'a, K, V> {
    pub(super) table: &'a LineHash<K, V>,
    pub(super) keys: &'a [K],
    pub(super) hashes: &'a [u64],
    pub(super) ids: &'a mut [Option<FlowId>],
}

/// Keys that may live outside their home line; their lines are on their way.
struct Strays {
    numbers: [u32; Self::ROOM],
    count: usize,
}

impl Strays {
    const ROOM: usize = 2 * STEP;
}

/// A lane that matched none of a line's.
const NONE: u32 = u32::MAX;

/// What is known of the keys of a step.
#[derive(Clone, Copy)]
struct Stage {
    homes: [u32; STEP],
    /// The state whose signature matched, or [`NONE`].
    slots: [u32; STEP],
}

impl<K: TableKey, V> FindBatch<'_, K, V> {
    /// Asks for the home lines of a step.
    #[inline(always)]
    fn fetch(table: &LineHash<K, V>, hashes: &[u64], stage: &mut Stage) {
        for (&hash, home) in hashes.iter().zip(&mut stage.homes) {
            *home = table.place_of_hash(hash).home;
            prefetch::read_at(&table.lines, *home as usize);
        }
    }

    /// Compares home lines with signatures and asks for the states of those that match. Where none does there is no flow,
    /// or one that lives elsewhere.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "no batch has 2³² keys")]
    fn compare<L: Lanes>(
        &mut self,
        lanes: L,
        start: usize,
        hashes: &[u64],
        stage: &mut Stage,
        strays: &mut Strays,
    ) {
        let table = self.table;
        let ids = &mut self.ids[start..start + hashes.len()];
        let step = hashes.iter().zip(ids).zip(stage.homes.iter().zip(&mut stage.slots));
        for (offset, ((&hash, id), (&home, slot))) in step.enumerate() {
            let Some(line) = table.lines.get(home as usize) else { continue };
            let matching = lanes.equal_halves(line, Place::signature_of(hash)) & ALL_LANES;
            if matching != 0 {
                *slot = state_of(home, matching.trailing_zeros());
                table.states.prefetch(*slot);
                continue;
            }
            *slot = NONE;
            *id = None;
            if !line.is_plain() && table.prefetch_ways(hash) {
                strays.numbers[strays.count % Strays::ROOM] = (start + offset) as u32;
                strays.count += 1;
            }
        }
    }

    /// Compares the keys of a step with the states that matched.
    #[inline(always)]
    fn verify(&mut self, start: usize, count: usize, stage: &Stage) {
        let table = self.table;
        let range = start..start + count;
        let step = self.keys[range.clone()].iter().zip(&mut self.ids[range]).zip(&stage.slots);
        for (offset, ((key, id), &slot)) in step.enumerate() {
            if slot == NONE {
                continue;
            }
            *id = table.states.verify(slot, key);
            if id.is_none() {
                *id = table.find_after_false_match(key, self.hashes[start + offset]);
            }
        }
    }

    /// Finishes the strays: their lines have come, their states are asked for, then compared.
    #[inline(always)]
    fn settle<L: Lanes>(&mut self, lanes: L, strays: &mut Strays) {
        let numbers = &strays.numbers[..strays.count];
        for &number in numbers {
            self.table.prefetch_states_elsewhere(lanes, self.hashes[number as usize]);
        }
        for &number in numbers {
            let number = number as usize;
            self.ids[number] = self.table.find_elsewhere(lanes, &self.keys[number], self.hashes[number]);
        }
        strays.count = 0;
    }
}

impl<K: TableKey, V> Kernel for FindBatch<'_, K, V> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let table = self.table;
        let mut strays = Strays { numbers: [0; Strays::ROOM], count: 0 };
        let mut stages = [Stage { homes: [0; STEP], slots: [NONE; STEP] }; 3];
        // Chunks of a fixed length: the compiler sees it and unrolls the stages.
        let (steps, rest) = self.hashes.as_chunks::<STEP>();
        let step = |number: usize| steps.get(number).map_or(rest, |step| step);
        Self::fetch(table, step(0), &mut stages[0]);
        if !steps.is_empty() {
            Self::fetch(table, step(1), &mut stages[1]);
        }
        self.compare(lanes, 0, step(0), &mut stages[0], &mut strays);
        for number in 0..steps.len() {
            let [current, next, after] = &mut stages;
            match steps.get(number + 2) {
                Some(hashes) => Self::fetch(table, hashes, after),
                None if number + 2 == steps.len() => Self::fetch(table, rest, after),
                None => {}
            }
            let start = (number + 1) * STEP;
            match steps.get(number + 1) {
                Some(hashes) => self.compare(lanes, start, hashes, next, &mut strays),
                None => self.compare(lanes, start, rest, next, &mut strays),
            }
            self.verify(number * STEP, STEP, current);
            if strays.count > Strays::ROOM - STEP {
                self.settle(lanes, &mut strays);
            }
            stages.rotate_left(1);
        }
        self.verify(steps.len() * STEP, rest.len(), &stages[0]);
        self.settle(lanes, &mut strays);
    }
}
