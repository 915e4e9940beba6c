//! Walks over all flows of a [`LineHash`](super::LineHash), line by line.

use super::lanes::Empty;
use super::layout::{ALL_LANES, Line, place_of, state_of};
use crate::arch::Backend;
use crate::state::slab::TenantsMut;

/// The lanes that contain a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenLanes<'a> {
    pub(super) lines: &'a [Line],
    pub(super) backend: Backend,
    pub(super) pool_start: u32,
}

impl TakenLanes<'_> {
    /// Returns the first slot from `slot` on that may have a flow. All states after those of lanes
    /// may have one.
    pub(super) fn next(self, slot: u32) -> u32 {
        let mut slot = slot;
        while slot < self.pool_start {
            let (line, lane) = place_of(slot);
            let empty = self.backend.run_one(Empty(&self.lines[line as usize]));
            let taken = !empty & ALL_LANES & (u32::MAX << lane);
            if taken != 0 {
                return state_of(line, taken.trailing_zeros());
            }
            slot = state_of(line + 1, 0);
        }
        slot
    }
}

/// All flows, with mutable values.
pub(crate) struct FlowsMut<'a, K, V> {
    pub(super) taken: TakenLanes<'a>,
    pub(super) states: TenantsMut<'a, K, V>,
    pub(super) slot: u32,
    pub(super) slots: u32,
}

impl<'a, K, V> Iterator for FlowsMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let slot = self.taken.next(self.slot);
            if slot >= self.slots {
                return None;
            }
            self.slot = slot + 1;
            if let Some(flow) = self.states.take(slot) {
                return Some(flow);
            }
        }
    }
}
