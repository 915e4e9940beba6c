//! Linked slots: lists of flows, and the list of free slots.
//!
//! The link to the next slot of a list is in the state's own line (its mark), so a walk reads one
//! line per flow. Only removal needs the link to the previous slot, which is stored here.

use flowloom_cpu::pages::{AllocError, HugePages, LineArray};

use crate::error::{BuildError, check_size};
use crate::options::TableOptions;

/// In a `before` link: the previous element is the head of the list with this number, not a slot.
const HEAD: u32 = 1 << 31;

/// Maximum number of slots that links can name: a state's mark is the number of the next slot plus
/// one.
pub(super) const LINKED_MAX: u32 = (1 << 27) - 1;

/// The maximum number of lists.
pub(super) const LISTS_MAX: u32 = HEAD;

/// Returns the number of states of a table whose lists link this many slots, if the numbers are
/// consistent and within the limit.
pub(super) fn check_linked(
    options: &TableOptions,
    places: u64,
    needed_bytes: u64,
) -> Result<u32, BuildError> {
    if places > u64::from(LINKED_MAX) {
        return Err(BuildError::TooManyLinks { places, places_max: LINKED_MAX.into() });
    }
    check_size(options, places, needed_bytes)
}

/// The element before a slot of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Head(u32),
    Slot(u32),
}

/// The slots `0 … slots`: free slots form a chain, used slots have a link to their predecessor.
#[derive(Debug)]
pub(super) struct Links {
    before: LineArray<u32>,
    slots: u32,
    /// Slots below this number were used at least once.
    fresh: u32,
    /// The first freed slot plus one.
    free: u32,
}

impl Links {
    pub(super) fn bytes_needed(slots: u64) -> u64 {
        slots * 4
    }

    pub(super) fn try_new(slots: u32) -> Result<Self, AllocError> {
        Ok(Self { before: LineArray::try_new(slots as usize, HugePages::No)?, slots, fresh: 0, free: 0 })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.before.pages().bytes
    }

    pub(super) fn prefault(&mut self) {
        self.before.prefault();
    }

    /// Returns how many slots were ever used: those below this number.
    pub(super) fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Returns a free slot.
    pub(super) fn vacancy(&self) -> Option<u32> {
        self.free.checked_sub(1).or((self.fresh < self.slots).then_some(self.fresh))
    }

    /// Takes the slot that [`Links::vacancy`] returned.
    pub(super) fn take(&mut self, slot: u32, before: Before) {
        if self.free == slot + 1 {
            self.free = self.before[slot as usize];
        } else {
            self.fresh = slot + 1;
        }
        self.set_before(slot, before);
    }

    pub(super) fn set_before(&mut self, slot: u32, before: Before) {
        self.before[slot as usize] = match before {
            Before::Head(list) => HEAD | list,
            Before::Slot(slot) => slot,
        };
    }

    pub(super) fn before(&self, slot: u32) -> Before {
        let before = self.before[slot as usize];
        if before & HEAD != 0 { Before::Head(before & !HEAD) } else { Before::Slot(before) }
    }

    /// Returns a slot to the free list.
    pub(super) fn give_back(&mut self, slot: u32) {
        self.before[slot as usize] = self.free;
        self.free = slot + 1;
    }
}
