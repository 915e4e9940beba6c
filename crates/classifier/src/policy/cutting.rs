//! The entries of a policy as regions, and what is left of each behind the entries before it.

use alloc::vec::Vec;

use super::entries::{Outcome, Policy};
use super::overlap::OverlapIndex;
use super::region::{Names, Region, TooMuch, Variables, regions, without};

/// A policy as regions.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) entries: Vec<Part>,
    index: OverlapIndex,
    /// Entries that skip others, ascending.
    skips: Vec<usize>,
    /// Entries that take too many regions to express, ascending.
    pub(super) without_regions: Vec<usize>,
    steps: u64,
}

/// An entry.
#[derive(Debug)]
pub(super) struct Part {
    /// Packets that meet its conditions; `None` where that takes too many pieces.
    pub(super) regions: Option<Vec<Region>>,
    pub(super) outcome: Outcome,
}

impl Part {
    /// Returns the regions; none where they are too many to express.
    fn regions(&self) -> &[Region] {
        self.regions.as_deref().unwrap_or_default()
    }
}

/// What is left of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Packets that reach it.
    Reached(Vec<Region>),
    /// No packet reaches it: one entry takes all it asks for.
    TakenBy(usize),
    /// No packet reaches it: so many entries take all it asks for together.
    TakenByAll(u32),
    /// The work reached its limit.
    Undecided,
}

impl Cutting {
    pub(super) fn new(policy: &Policy, names: &Names, variables: &mut Variables, steps: u64) -> Self {
        variables.restart();
        let entries: Vec<Part> = policy
            .entries()
            .map(|entry| Part {
                regions: regions(&entry.conditions, names, variables).ok(),
                outcome: entry.outcome,
            })
            .collect();
        let index = OverlapIndex::new(entries.iter().map(Part::regions));
        let is_skip = |part: &Part| matches!(part.outcome, Outcome::Skip { .. });
        let skips = (0..entries.len()).filter(|&entry| is_skip(&entries[entry])).collect();
        let without_regions =
            (0..entries.len()).filter(|&entry| entries[entry].regions.is_none()).collect();
        Self { entries, index, skips, without_regions, steps }
    }

    /// Returns the entries whose regions may meet some regions, ascending. An entry whose regions
    /// are too many to express is not among them.
    pub(super) fn near(&self, regions: &[Region]) -> Vec<usize> {
        self.index.near(regions)
    }

    /// Spends steps; `false` where too few are left.
    fn spend(&mut self, steps: usize) -> bool {
        let left = self.steps.checked_sub(steps as u64);
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns the regions of packets that an entry takes where it is reached: not those that a
    /// skip before it passes over it.
    fn taken(&self, index: usize) -> Result<Vec<Region>, TooMuch> {
        let mut taken = self.entries[index].regions.clone().ok_or(TooMuch)?;
        for &skip in self.skips.iter().take_while(|&&skip| skip < index) {
            let part = &self.entries[skip];
            if let Outcome::Skip { to } = part.outcome
                && to as usize > index
            {
                taken = without(taken, part.regions.as_ref().ok_or(TooMuch)?)?;
            }
        }
        Ok(taken)
    }

    /// Returns what is left of each entry. `watch` is told how many were looked at.
    pub(super) fn left(&mut self, mut watch: impl FnMut(u32)) -> Vec<Left> {
        // What each entry takes where it is reached.
        let mut taken: Vec<Option<Vec<Region>>> = Vec::with_capacity(self.entries.len());
        let mut all = Vec::with_capacity(self.entries.len());
        for index in 0..self.entries.len() {
            let own = self.taken(index).ok();
            let left = match &own {
                Some(own) => self.left_of(own.clone(), &taken),
                None => Left::Undecided,
            };
            // What is never reached takes nothing from those behind it.
            let takes = matches!(self.entries[index].outcome, Outcome::Decide { .. })
                && matches!(left, Left::Reached(_) | Left::Undecided);
            taken.push(own.filter(|_| takes));
            all.push(left);
            watch(index as u32 + 1);
        }
        all
    }

    fn left_of(&mut self, own: Vec<Region>, taken: &[Option<Vec<Region>>]) -> Left {
        if own.is_empty() {
            return Left::TakenByAll(0);
        }
        let mut near: Vec<usize> = Vec::new();
        for index in self.index.near(&own) {
            let Some(Some(regions)) = taken.get(index) else { continue };
            if !self.spend(own.len() * regions.len()) {
                return Left::Undecided;
            }
            if regions.iter().any(|region| own.iter().any(|piece| piece.meets(region))) {
                near.push(index);
            }
        }
        for &index in &near {
            let regions = taken[index].as_deref().unwrap_or_default();
            let covers = |piece: &Region| regions.iter().any(|region| region.covers(piece));
            if own.iter().all(covers) {
                return Left::TakenBy(index);
            }
        }
        let mut pieces = own;
        for &index in &near {
            let regions = taken[index].as_deref().unwrap_or_default();
            if !self.spend(pieces.len() * regions.len()) {
                return Left::Undecided;
            }
            pieces = match without(pieces, regions) {
                Ok(pieces) => pieces,
                Err(TooMuch) => return Left::Undecided,
            };
            if pieces.is_empty() {
                return Left::TakenByAll(near.len() as u32);
            }
        }
        Left::Reached(pieces)
    }

    /// Returns whether two entries ask for the same packets, as far as single regions tell.
    pub(super) fn are_alike(&self, a: usize, b: usize) -> bool {
        self.entries[a].regions.is_some() && self.entries[a].regions == self.entries[b].regions
    }
}
