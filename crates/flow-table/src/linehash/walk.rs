//! Walks over all flows of a [`LineHash`](super::LineHash), line by line.

use core::ops::Range;
use core::slice;

use super::lanes::Empty;
use super::layout::{ALL_LANES, LANES, Line};
use crate::arch::Backend;
use crate::state::slab::{State, Tenants, TenantsMut};
use crate::table::FlowId;

/// The slots that may have a flow, in ascending order: those of taken lanes, and all after them.
///
/// A line is compared once, not once per flow.
#[derive(Clone)]
pub(super) struct TakenSlots<'a> {
    pub(super) lines: slice::Iter<'a, Line>,
    pub(super) backend: Backend,
    /// The taken lanes of the last line that have not come yet.
    pub(super) taken: u32,
    /// The first slot after the last line.
    pub(super) line_end: u32,
    /// The slots after those of lanes.
    pub(super) pool: Range<u32>,
}

impl Iterator for TakenSlots<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        while self.taken == 0 {
            let Some(line) = self.lines.next() else { return self.pool.next() };
            self.taken = !self.backend.run_one(Empty(line)) & ALL_LANES;
            self.line_end += LANES;
        }
        let lane = self.taken.trailing_zeros();
        self.taken &= self.taken - 1;
        Some(self.line_end - LANES + lane)
    }
}

/// All flows.
pub(crate) struct Flows<'a, K, V> {
    pub(super) slots: TakenSlots<'a>,
    pub(super) states: Tenants<'a, K, V>,
}

impl<K, V> Clone for Flows<'_, K, V> {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), ..*self }
    }
}

impl<'a, K: Eq, V> Iterator for Flows<'a, K, V> {
    type Item = (FlowId, &'a State<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let Self { slots, states } = self;
        slots.find_map(|slot| states.state(slot))
    }
}

/// All flows, with mutable values.
pub(crate) struct FlowsMut<'a, K, V> {
    pub(super) slots: TakenSlots<'a>,
    pub(super) states: TenantsMut<'a, K, V>,
}

impl<'a, K, V> Iterator for FlowsMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let Self { slots, states } = self;
        slots.find_map(|slot| states.take(slot))
    }
}
