//! Slot ranges, one per open segment, with generations for their reuse.
//!
//! ```text
//!  slots   0 ……………… │ ……… │ ………………………… │ ……………………
//!          open       given back         open
//!                     └───── one ──────┘  neighbours that were given back are one place
//! ```

use alloc::vec::Vec;

use crate::table::FlowId;

/// The slots of a segment, and the offset that distinguishes its ids from those of earlier segments
/// with the same slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) base: u32,
    pub(super) slots: u32,
    /// Added to generations; even.
    salt: u32,
}

impl Names {
    /// No slots.
    pub(super) const NONE: Self = Self { base: 0, slots: 0, salt: 0 };

    /// Converts an id of this segment to an id of the whole table.
    #[inline(always)]
    pub(super) fn outer(self, id: FlowId) -> FlowId {
        if self.are_own() {
            return id;
        }
        FlowId::new(self.base + id.slot(), id.generation().wrapping_add(self.salt))
            .expect("an odd generation and an even salt")
    }

    /// Converts an id of the whole table to an id of this segment.
    #[inline(always)]
    pub(super) fn inner(self, id: FlowId) -> Option<FlowId> {
        if self.are_own() {
            return Some(id);
        }
        FlowId::new(id.slot().wrapping_sub(self.base), id.generation().wrapping_sub(self.salt))
    }

    #[inline(always)]
    pub(super) fn holds(self, id: FlowId) -> bool {
        id.slot().wrapping_sub(self.base) < self.slots
    }

    /// Returns whether ids of the segment and of the whole table are equal.
    #[inline(always)]
    pub(super) fn are_own(self) -> bool {
        self.base == 0 && self.salt == 0
    }
}

/// A range of slots.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: u32,
    slots: u32,
    /// Flows of the largest segment that was freed in this range.
    flows: u32,
    /// Upper bound of the number of tenants that any slot of the range had.
    came: u64,
    open: bool,
}

/// All slots by number, without gaps; no two neighbouring ranges are both free.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Returns the upper bound of all slot numbers ever used.
    pub(super) fn slot_count(&self) -> u32 {
        self.0.last().map_or(0, |place| place.base + place.slots)
    }

    /// Returns the numbers of flows of freed segments, largest first.
    pub(super) fn given_back(&self) -> Vec<u32> {
        let mut flows: Vec<u32> = self
            .0
            .iter()
            .filter(|place| !place.open && place.flows != 0)
            .map(|place| place.flows)
            .collect();
        flows.sort_unstable_by(|a, b| b.cmp(a));
        flows
    }

    /// Reserves a range of slots: the smallest free range that is large enough, or a new one at the
    /// end. Returns `None` if slots cannot be numbered that far.
    pub(super) fn take(&mut self, slots: u32) -> Option<Names> {
        let fitting = self.0.iter().enumerate().filter(|(_, place)| !place.open && place.slots >= slots);
        let number = if let Some((number, &place)) = fitting.min_by_key(|(_, place)| place.slots) {
            if place.slots > slots {
                let rest =
                    Place { base: place.base + slots, slots: place.slots - slots, flows: 0, ..place };
                self.0.insert(number + 1, rest);
            }
            number
        } else {
            if self.0.last().is_none_or(|last| last.open) {
                let base = self.slot_count();
                self.0.push(Place { base, slots: 0, flows: 0, came: 0, open: false });
            }
            self.0.len() - 1
        };
        let place = &mut self.0[number];
        place.base.checked_add(slots)?;
        (place.slots, place.open) = (slots, true);
        #[expect(clippy::cast_possible_truncation, reason = "generations repeat")]
        let salt = (place.came as u32).wrapping_mul(2);
        Some(Names { base: place.base, slots, salt })
    }

    /// Frees the range of a segment that was built for `flows` flows.
    pub(super) fn give_back(&mut self, names: Names, flows: u32, came: u64) {
        let Some(number) = self.0.iter().position(|place| place.base == names.base && place.open) else {
            return;
        };
        let place = &mut self.0[number];
        (place.flows, place.open) = (flows, false);
        place.came += came;
        for first in [number, number.wrapping_sub(1)] {
            let (Some(&a), Some(&b)) = (self.0.get(first), self.0.get(first.wrapping_add(1))) else {
                continue;
            };
            if !a.open && !b.open {
                let (flows, came) = (a.flows.max(b.flows), a.came.max(b.came));
                self.0[first] = Place { slots: a.slots + b.slots, flows, came, ..a };
                self.0.remove(first + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use flowloom_flow_key::hash::fold::split_mix;

    #[test]
    fn slot_range_belongs_to_one_segment_and_ids_are_never_reused() {
        let (mut places, mut state) = (Places::default(), 1);
        let mut open: Vec<Names> = Vec::new();
        let mut last = vec![0; 2000];
        for _ in 0..if cfg!(miri) { 100 } else { 3000 } {
            let number = split_mix(&mut state);
            if open.len() < 8 && number & 1 == 0 {
                let slots = u32::try_from((number >> 8) % 100).unwrap() + 1;
                let names = places.take(slots).unwrap();
                assert!(names.slots == slots && names.base + slots <= places.slot_count());
                assert!(
                    open.iter().all(|other| {
                        names.base >= other.base + other.slots || other.base >= names.base + slots
                    }),
                    "{names:?} among {open:?}"
                );
                open.push(names);
            } else if !open.is_empty() {
                // Twice as many flows were inserted as there are slots, all of them into any one.
                let names = open.swap_remove(usize::try_from(number >> 8).unwrap() % open.len());
                for slot in 0..names.slots {
                    let ids = [1, names.slots * 4 - 1].map(|tenant| FlowId::new(slot, tenant).unwrap());
                    let [first, end] = ids.map(|id| names.outer(id));
                    assert_eq!(names.inner(first), Some(ids[0]));
                    assert!(
                        names.holds(first)
                            && !names.holds(FlowId::new(names.base + names.slots, 1).unwrap())
                    );
                    let last = &mut last[first.slot() as usize];
                    assert!(first.generation() > *last, "{first:?} again");
                    *last = end.generation();
                }
                places.give_back(names, names.slots, u64::from(names.slots) * 2);
            }
            assert!(places.0.windows(2).all(|two| two[0].base + two[0].slots == two[1].base));
            assert!(places.0.windows(2).all(|two| two[0].open || two[1].open), "{places:?}");
        }
        assert!(places.slot_count() < 1500, "{} slots for eight times a hundred", places.slot_count());
    }

    #[test]
    fn slots_beyond_the_numbering_are_refused() {
        let mut places = Places::default();
        let first = places.take(3 << 30).unwrap();
        assert!(places.take(1 << 30).is_none());
        assert_eq!(places.take((1 << 30) - 1).map(|names| names.base), Some(3 << 30));
        places.give_back(first, 5, 1);
        assert_eq!((places.given_back(), places.slot_count()), (vec![5], u32::MAX));
        let names = places.take(2).unwrap();
        assert_eq!((names.base, names.outer(FlowId::new(1, 1).unwrap()).generation()), (0, 3));
        assert_eq!(places.given_back(), [], "what is left is of no size that was asked for");
    }
}
