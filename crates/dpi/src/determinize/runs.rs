//! The runs of bytes that a subset treats alike.

use std::mem;

use super::TooLarge;
use super::bytes::Bytes;
use super::draft::ByteKind;
use super::nodes::{Nodes, Range};

/// Runs of bytes, and the nodes that each run leads to.
#[derive(Debug)]
pub(super) struct Runs {
    /// The last byte of each run.
    last: Bytes,
    /// The end of each run's targets.
    ends: Vec<usize>,
    targets: Vec<u32>,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self { last: Bytes::NONE, ends: Vec::new(), targets: Vec::new() }
    }

    /// Computes the runs from the bytes that these nodes wait for, unless all runs together have
    /// more than `targets_max` targets.
    pub(super) fn fill(
        &mut self,
        nodes: &Nodes,
        list: &[u32],
        skip_zero: bool,
        targets_max: usize,
    ) -> Result<(), TooLarge> {
        let ranges = || list.iter().flat_map(|&at| nodes.ranges(at));
        let mut last = if nodes.asks() { ByteKind::LAST } else { Bytes::NONE }.with(u8::MAX);
        if skip_zero {
            last = last.with(0);
        }
        for range in ranges() {
            last = last.with(range.last);
            if let Some(before) = range.first.checked_sub(1) {
                last = last.with(before);
            }
        }
        self.last = last;
        // First the number of targets per run, then their beginnings, which become their ends as
        // the targets are filled in.
        let runs_of = |range: &Range| last.below(range.first)..=last.below(range.last);
        self.ends.clear();
        self.ends.resize(last.below(u8::MAX) + 1, 0);
        for range in ranges() {
            self.ends[runs_of(range)].iter_mut().for_each(|count| *count += 1);
        }
        let mut sum = 0;
        for end in &mut self.ends {
            sum += mem::replace(end, sum);
        }
        if sum > targets_max {
            return Err(TooLarge);
        }
        self.targets.clear();
        self.targets.resize(sum, 0);
        for range in ranges() {
            for end in &mut self.ends[runs_of(range)] {
                self.targets[*end] = range.to;
                *end += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of targets of all runs.
    pub(super) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Returns the last byte of each run, and the nodes that it leads to.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &[u32])> {
        let mut begin = 0;
        self.last
            .iter()
            .zip(&self.ends)
            .map(move |(last, &end)| (last, &self.targets[mem::replace(&mut begin, end)..end]))
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::nfa::thompson::NFA;

    use super::*;

    #[test]
    fn a_set_of_bytes_counts_and_lists_them_in_order() {
        let list = [0, 1, 63, 64, 127, 200, 255];
        let set = list.iter().fold(Bytes::NONE, |set, &byte| set.with(byte));
        assert_eq!(set.iter().collect::<Vec<_>>(), list);
        for byte in 0..=u8::MAX {
            assert_eq!(set.below(byte), list.iter().filter(|&&other| other < byte).count());
        }
        assert_eq!(Bytes::NONE.iter().count(), 0);
    }
    #[test]
    fn targets_are_counted_before_they_are_made() {
        let nodes = Nodes::new(&NFA::new_many(&["^[a-m]", "^[h-z]"]).unwrap(), &[0, 1], &[false; 2]);
        let list: Vec<u32> = (0..).take(nodes.count()).filter(|&at| !nodes.ranges(at).is_empty()).collect();
        let mut runs = Runs::new();
        // The bytes of only the first pattern, of both, and of only the second: four runs in total.
        assert!(runs.fill(&nodes, &list, false, 4).is_ok());
        let made: Vec<(u8, usize)> = runs.iter().map(|(last, targets)| (last, targets.len())).collect();
        assert_eq!(made, [(b'a' - 1, 0), (b'g', 1), (b'm', 2), (b'z', 1), (u8::MAX, 0)]);
        assert_eq!(runs.fill(&nodes, &list, false, 3).unwrap_err(), TooLarge);
    }
}
