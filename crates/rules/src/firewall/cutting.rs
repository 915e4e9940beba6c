//! The entries of a policy as regions, and what the earlier entries leave of each.

use alloc::vec::Vec;

use super::entries::{Outcome, Policy};
use super::overlap::OverlapIndex;
use super::region::{Names, Region, TooMuch, Variables, regions, without};
use super::witness_search::{Fate, Layer, first_not_covered};

/// A policy as regions.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) entries: Vec<Part>,
    index: OverlapIndex,
    /// Entries that skip others, in ascending order.
    skips: Vec<usize>,
    /// Entries that take too many regions to express, in ascending order.
    pub(super) without_regions: Vec<usize>,
    /// What each entry takes from later ones, if it is reached.
    taken: Vec<Option<Vec<Region>>>,
    steps: u64,
}

/// An entry.
#[derive(Debug)]
pub(super) struct Part {
    /// Packets that meet its conditions; `None` if that takes too many pieces.
    pub(super) regions: Option<Vec<Region>>,
    pub(super) outcome: Outcome,
}

impl Part {
    /// Returns the regions; none if they are too many to express.
    pub(super) fn regions(&self) -> &[Region] {
        self.regions.as_deref().unwrap_or_default()
    }
}

/// The packets of an entry that no earlier entry decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Some packet reaches it.
    Reached,
    /// No packet reaches it, because one entry takes everything that it asks for.
    TakenBy(usize),
    /// No packet reaches it, because this many entries together take everything that it asks for.
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
        Self { entries, index, skips, without_regions, taken: Vec::new(), steps }
    }

    /// Returns the entries whose regions may meet some regions, in ascending order. It omits
    /// entries whose regions are too many to express.
    pub(super) fn near(&self, regions: &[Region]) -> Vec<usize> {
        self.index.near(regions)
    }

    /// Returns the regions of packets that an entry takes if it is reached: everything that it asks
    /// for, except packets that skip it.
    fn without_skipped(&self, index: usize) -> Result<Vec<Region>, TooMuch> {
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

    /// Returns the remaining packets of each entry. `watch` receives the number of examined
    /// entries.
    pub(super) fn left(&mut self, mut watch: impl FnMut(u32)) -> Vec<Left> {
        self.taken = Vec::with_capacity(self.entries.len());
        let mut all = Vec::with_capacity(self.entries.len());
        for index in 0..self.entries.len() {
            let own = self.without_skipped(index).ok();
            let left = match &own {
                Some(own) => {
                    let mut steps = self.steps;
                    let left = self.left_of(own, &mut steps);
                    self.steps = steps;
                    left
                }
                None => Left::Undecided,
            };
            // An entry that is never reached takes nothing from later ones.
            let takes = matches!(self.entries[index].outcome, Outcome::Decide { .. })
                && matches!(left, Left::Reached | Left::Undecided);
            self.taken.push(own.filter(|_| takes));
            all.push(left);
            watch(index as u32 + 1);
        }
        all
    }

    /// Returns the regions that an entry takes from later ones, once [`Self::left`] has examined
    /// it.
    pub(super) fn taken(&self, index: usize) -> &[Region] {
        self.taken.get(index).and_then(Option::as_deref).unwrap_or_default()
    }

    fn left_of(&self, own: &[Region], steps: &mut u64) -> Left {
        if own.is_empty() {
            return Left::TakenByAll(0);
        }
        let mut near: Vec<usize> = Vec::new();
        let mut layers = Vec::new();
        for index in self.index.near(own) {
            let before = layers.len();
            let regions = self.taken(index);
            let Some(left) = steps.checked_sub((own.len() * regions.len()) as u64) else {
                *steps = 0;
                return Left::Undecided;
            };
            *steps = left;
            let meeting = regions.iter().filter(|region| own.iter().any(|piece| piece.meets(region)));
            layers.extend(meeting.map(|region| Layer { region, fate: Fate::Covered }));
            if layers.len() > before {
                near.push(index);
                let covers = |piece: &Region| layers[before..].iter().any(|l| l.region.covers(piece));
                if own.iter().all(covers) {
                    return Left::TakenBy(index);
                }
            }
        }
        for piece in own {
            match first_not_covered(piece.clone(), layers.clone(), Fate::Free, steps) {
                Ok(None) => {}
                Ok(Some(_)) => return Left::Reached,
                Err(TooMuch) => return Left::Undecided,
            }
        }
        Left::TakenByAll(near.len() as u32)
    }

    /// Returns whether two entries ask for the same packets, judging by single regions.
    pub(super) fn are_alike(&self, a: usize, b: usize) -> bool {
        self.entries[a].regions.is_some() && self.entries[a].regions == self.entries[b].regions
    }
}
