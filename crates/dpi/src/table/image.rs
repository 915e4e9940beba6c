//! A table in an image.

use super::{DEAD, NONE, STATES_MAX, Table};
use crate::bytes::{Reader, Writer};

/// A table has at most one class per byte.
const SHIFT_MAX: usize = 8;

impl Table {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(usize::from(self.first));
        out.number(self.shift as usize);
        out.number(usize::from(self.settled));
        out.number(usize::from(self.special));
        out.number(self.states());
        out.runs(&self.classes.map(u16::from));
        out.runs(&self.label);
        out.runs(&self.at_end);
        out.number(self.sets.len());
        for set in &self.sets {
            out.ids(set);
        }
        out.runs(&self.candidates);
        out.number(usize::from(self.anchored));
        out.ids(&self.literals_of);
        for row in self.next.chunks(1 << self.shift) {
            out.runs(row);
        }
    }

    /// Reads a table for this many signatures, whose size must not exceed `bytes_max`. Its leap is
    /// not set.
    pub(crate) fn read(input: &mut Reader<'_>, signatures: usize, bytes_max: usize) -> Option<Self> {
        let first = input.below(signatures)?;
        let shift = u32::from(input.below(SHIFT_MAX + 1)?);
        let [settled, special] = [input.below(STATES_MAX)?, input.below(STATES_MAX)?];
        let states = input.up_to(STATES_MAX)?;
        if settled < DEAD
            || settled > special
            || usize::from(special) >= states
            || 2 * (states << shift) > bytes_max
        {
            return None;
        }
        let mut classes = [0; 256];
        input.fill(&mut classes, 1 << shift, None)?;
        let mut label = vec![NONE; usize::from(special) + 1].into_boxed_slice();
        input.fill(&mut label, signatures, Some(NONE))?;
        let mut at_end = vec![NONE; states].into_boxed_slice();
        input.fill(&mut at_end, signatures, Some(NONE))?;
        let sets = (0..input.up_to(usize::from(u16::MAX))?)
            .map(|_| ids(input, signatures))
            .collect::<Option<Box<[_]>>>()?;
        let mut candidates = vec![0; states].into_boxed_slice();
        input.fill(&mut candidates, sets.len(), None)?;
        let anchored = input.up_to(1)? == 1;
        let literals_of = ids(input, signatures)?;
        let mut next = vec![0; states << shift].into_boxed_slice();
        next.chunks_mut(1 << shift).try_for_each(|row| input.fill(row, states, None).ok_or(())).ok()?;
        let mut table = Self {
            classes: Box::new(classes.map(|class| class.to_le_bytes()[0])),
            next,
            shift,
            settled,
            special,
            label,
            at_end,
            candidates,
            sets,
            first,
            anchored,
            leap: None,
            literals_of,
            leaves: None,
        };
        table.skip_to_leaves();
        Some(table)
    }
}

/// Reads a list of signatures.
fn ids(input: &mut Reader<'_>, signatures: usize) -> Option<Box<[u16]>> {
    (0..input.up_to(signatures)?).map(|_| input.below(signatures)).collect()
}
