//! The array of states: the flow of each slot, its time and its id.
//!
//! ```text
//! cell   | generation u32 | class u32 | last seen u64 | key 48 | value … |
//!          0                4           8               16       64
//! ```
//!
//! The generation is the number of the flow in the table, doubled plus one. It is known before the
//! cell is read, so inserting a flow does not wait for the cell. The low five bits of `class` are
//! the timeout class; the rest is the index's mark on the slot.
//!
//! With a [`FlowKey`](flowloom_flow_key::FlowKey), the fields that a packet needs before its value
//! (identity, time, key) are one cache line; a small value adds a neighbouring line.

use flowloom_cpu::pages::{AllocError, Generation, PageReport, SlotArray, SlotView, SlotWalkMut};

use crate::options::TableOptions;
use crate::state::wheel::{Timeouts, Wheel};
use crate::table::{Cursor, Flow, FlowId, TableStats, Tick, TimeoutClass};

/// Bits of a cell's tag that contain the class; all classes without a timeout are equivalent.
const CLASS_BITS: u32 = 5;

const _: () = assert!(Timeouts::CLASSES < 1 << CLASS_BITS, "one value more, for classes without timeout");

/// Returns a tag with another class.
#[inline]
fn with_class(tag: u32, class: TimeoutClass) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "sixteen classes")]
    let class = u32::from(class.0).min(Timeouts::CLASSES as u32);
    tag >> CLASS_BITS << CLASS_BITS | class
}

/// Returns the class in a tag.
#[inline]
fn class_of(tag: u32) -> TimeoutClass {
    TimeoutClass(tag.to_le_bytes()[0] & ((1 << CLASS_BITS) - 1))
}

/// The record of a flow in a cell.
#[repr(C)]
pub(crate) struct State<K, V> {
    pub(crate) last_seen: Tick,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K, V> State<K, V> {
    #[inline(always)]
    pub(crate) fn flow(&self, id: FlowId) -> Flow<'_, K, V> {
        Flow { id, key: &self.key, value: &self.value, last_seen: self.last_seen }
    }
}

const _: () = assert!(
    SlotArray::<State<flowloom_flow_key::FlowKey, ()>>::CELL_BYTES == 64,
    "identity, time and key of a flow share one cache line"
);

/// The outcome for a flow that the wheel has returned.
pub(crate) enum Verdict<K, V> {
    /// Its deadline has passed, and it was removed.
    Removed(FlowId, K, V),
    /// It was seen since and has been armed again.
    Kept,
}

/// The states of a table, their ids, their times and the table's counters.
///
/// An [`Indexed`](crate::Indexed) table owns one and decides only which slot a key gets.
pub struct States<K, V> {
    slots: SlotArray<State<K, V>>,
    wheel: Wheel,
    timeouts: Timeouts,
    capacity: u32,
    /// Number of flows ever inserted, which gives the next generation.
    came: u64,
    /// Number of flows removed for any reason.
    went: u64,
    evicted: u64,
    expired: u64,
    refused: u64,
}

/// A read-only view of a table's states.
pub(crate) struct Tenants<'a, K, V>(SlotView<'a, State<K, V>>);

impl<K, V> Clone for Tenants<'_, K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Tenants<'_, K, V> {}

impl<'a, K: Eq, V> Tenants<'a, K, V> {
    #[inline(always)]
    pub(crate) fn prefetch_later(self, slot: u32) {
        self.0.prefetch_later(slot);
    }

    /// Returns the flow of a slot, if it has one.
    #[inline(always)]
    pub(crate) fn state(self, slot: u32) -> Option<(FlowId, &'a State<K, V>)> {
        let (generation, state) = self.0.get_live(slot)?;
        Some((FlowId::from_parts(slot, generation), state))
    }

    #[inline(always)]
    pub(crate) fn verify(self, slot: u32, key: &K) -> Option<FlowId> {
        self.verify_value(slot, key).map(|(id, _)| id)
    }

    #[inline(always)]
    pub(crate) fn verify_value(self, slot: u32, key: &K) -> Option<(FlowId, &'a V)> {
        let (generation, state) = self.0.get_live(slot)?;
        if state.key == *key { Some((FlowId::from_parts(slot, generation), &state.value)) } else { None }
    }
}

/// A walk over a table's states, in ascending order of slots.
pub(crate) struct TenantsMut<'a, K, V>(SlotWalkMut<'a, State<K, V>>);

impl<'a, K, V> TenantsMut<'a, K, V> {
    /// Returns the flow of a slot, if it has one.
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: u32) -> Option<(&'a K, &'a mut V)> {
        let state = self.0.take(slot)?;
        Some((&state.key, &mut state.value))
    }

    /// Returns the value of a slot's flow, if it has one, and records that the flow was seen.
    pub(crate) fn take_seen(&mut self, slot: u32, now: Tick) -> Option<&'a mut V> {
        let state = self.0.take(slot)?;
        state.last_seen = now;
        Some(&mut state.value)
    }
}

/// Records that a flow was removed, and returns its value.
#[inline(always)]
fn part_from<K, V>(state: State<K, V>, slot: u32, wheel: &mut Wheel, went: &mut u64) -> (K, V) {
    wheel.disarm(slot);
    *went += 1;
    (state.key, state.value)
}

impl<K: Copy, V> States<K, V> {
    /// Returns the bytes that this many slots take, including the wheel.
    pub fn bytes_needed(slots: u64, timeouts: &Timeouts) -> u64 {
        // Refuse more than any machine has; half of the range leaves headroom for additions.
        let states_bytes =
            slots.saturating_mul(SlotArray::<State<K, V>>::CELL_BYTES as u64).min(u64::MAX / 2);
        states_bytes + Wheel::bytes_needed(slots, timeouts)
    }

    /// Returns vacant slots, of which at most the flows of the options will be used.
    ///
    /// # Errors
    ///
    /// Returns [`AllocError`] if the allocator refuses the memory.
    pub fn try_new(slots: u32, options: &TableOptions) -> Result<Self, AllocError> {
        let timeouts = options.timeouts;
        Ok(Self {
            slots: SlotArray::try_new(slots, options.huge_pages)?,
            wheel: Wheel::try_new(slots, &timeouts)?,
            timeouts,
            capacity: options.flows,
            came: 0,
            went: 0,
            evicted: 0,
            expired: 0,
            refused: 0,
        })
    }

    /// Returns the idle timeouts.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Makes states and wheel resident.
    pub fn prefault(&mut self) {
        self.slots.prefault();
        self.wheel.prefault();
    }

    /// Prefetches a slot's state, which will be read soon.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32) {
        self.slots.prefetch(slot);
    }

    /// Prefetches a slot's state, which will be read after those of many others.
    #[inline(always)]
    pub fn prefetch_later(&self, slot: u32) {
        self.slots.prefetch_later(slot);
    }

    /// Returns the tenant of a slot if it has this key: the last step of every successful lookup.
    #[inline(always)]
    pub fn verify(&self, slot: u32, key: &K) -> Option<FlowId>
    where
        K: Eq,
    {
        self.tenants().verify(slot, key)
    }

    /// Returns a view of the states, for loops.
    #[inline(always)]
    pub(crate) fn tenants(&self) -> Tenants<'_, K, V> {
        Tenants(self.slots.view())
    }

    /// Returns whether a slot has a tenant.
    #[inline]
    pub fn is_live(&self, slot: u32) -> bool {
        self.slots.get_live(slot).is_some()
    }

    /// Returns the index's mark on a slot; 0 if none was set.
    #[inline]
    pub fn mark(&self, slot: u32) -> u32 {
        self.slots.tag(slot) >> CLASS_BITS
    }

    /// Sets the index's mark on a slot: 27 bits, which stay when the slot's flow is removed.
    #[inline]
    pub fn set_mark(&mut self, slot: u32, mark: u32) {
        let class = self.slots.tag(slot) & ((1 << CLASS_BITS) - 1);
        self.slots.set_tag(slot, mark << CLASS_BITS | class);
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the number of flows is at most `capacity`")]
    pub(crate) fn len(&self) -> u32 {
        (self.came - self.went) as u32
    }

    /// Returns whether there is space for one more flow.
    #[inline(always)]
    pub(crate) fn has_space(&self) -> bool {
        self.len() < self.capacity
    }

    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn flow(&self, id: FlowId) -> Option<Flow<'_, K, V>> {
        self.slots.get(id.slot(), id.tenant()).map(|state| state.flow(id))
    }

    #[inline]
    pub(crate) fn get(&self, id: FlowId) -> Option<&V> {
        self.slots.get(id.slot(), id.tenant()).map(|state| &state.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut V> {
        self.slots.get_mut(id.slot(), id.tenant()).map(|state| &mut state.value)
    }

    #[inline(always)]
    pub(crate) fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut V, Tick)> {
        let state = self.slots.get_mut(id.slot(), id.tenant())?;
        let previous = core::mem::replace(&mut state.last_seen, now);
        Some((&mut state.value, previous))
    }

    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Moves a flow into a vacant slot. The mark of the slot stays if the index `keeps_marks` on
    /// vacant slots; otherwise nothing of the slot is read.
    #[inline(always)]
    pub(crate) fn occupy(
        &mut self,
        slot: u32,
        keeps_marks: bool,
        (key, value): (K, V),
        class: TimeoutClass,
        now: Tick,
    ) -> FlowId {
        let state = State { last_seen: now, key, value };
        let generation = Generation::after(self.came);
        let tag = |tag| with_class(if keeps_marks { tag } else { 0 }, class);
        self.slots.occupy(slot, generation, tag, state).ok().expect("an index offers only its own slots");
        self.came += 1;
        if let Some(deadline) = self.timeouts.deadline(class, now) {
            self.wheel.arm(slot, deadline, now);
        }
        FlowId::from_parts(slot, generation)
    }

    pub(crate) fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        self.slots.get(id.slot(), id.tenant())?;
        Some(class_of(self.slots.tag(id.slot())))
    }

    pub(crate) fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        let Some(last_seen) = self.flow(id).map(|flow| flow.last_seen) else { return false };
        self.slots.set_tag(id.slot(), with_class(self.slots.tag(id.slot()), class));
        self.wheel.disarm(id.slot());
        if let Some(deadline) = self.timeouts.deadline(class, last_seen) {
            self.wheel.arm(id.slot(), deadline, last_seen);
        }
        true
    }

    /// Moves a flow out.
    #[inline]
    pub(crate) fn vacate(&mut self, id: FlowId) -> Option<(K, V)> {
        let Self { slots, wheel, went, .. } = self;
        let state = slots.vacate_tenant(id.slot(), id.tenant())?;
        Some(part_from(state, id.slot(), wheel, went))
    }

    /// Removes a slot's flow if it has this key: [`verify`](States::verify) and
    /// [`vacate`](States::vacate) in one step.
    #[inline(always)]
    pub(crate) fn vacate_key(&mut self, slot: u32, key: &K) -> Option<(K, V)>
    where
        K: Eq,
    {
        let Self { slots, wheel, went, .. } = self;
        slots.vacate_if(slot, |state| state.key == *key, |state| part_from(state, slot, wheel, went))
    }

    /// Removes a flow to free its slot.
    pub(crate) fn evict(&mut self, id: FlowId) -> Option<(K, V)> {
        let flow = self.vacate(id)?;
        self.evicted += 1;
        Some(flow)
    }

    /// Returns the eviction policy's view of a slot's flow.
    pub(crate) fn candidate(&self, slot: u32) -> Option<Flow<'_, K, V>> {
        let (generation, state) = self.slots.get_live(slot)?;
        Some(state.flow(FlowId::from_parts(slot, generation)))
    }

    /// Returns the next flow that may be due; `None` if there is none up to `now`.
    pub(crate) fn age_next(&mut self, now: Tick) -> Option<Verdict<K, V>> {
        let (slot, next) = self.wheel.pop(now)?;
        if let Some(next) = next {
            self.slots.prefetch(next);
        }
        let Some((generation, state)) = self.slots.get_live(slot) else { return Some(Verdict::Kept) };
        let class = class_of(self.slots.tag(slot));
        match self.timeouts.deadline(class, state.last_seen) {
            Some(deadline) if deadline > now => self.wheel.arm(slot, deadline, now),
            Some(_) => {
                if let Some(state) = self.slots.vacate(slot) {
                    self.expired += 1;
                    self.went += 1;
                    return Some(Verdict::Removed(
                        FlowId::from_parts(slot, generation),
                        state.key,
                        state.value,
                    ));
                }
            }
            None => {}
        }
        Some(Verdict::Kept)
    }

    /// Returns a walk over flows with mutable values.
    pub(crate) fn walk_mut(&mut self) -> TenantsMut<'_, K, V> {
        TenantsMut(self.slots.walk_mut())
    }

    /// Returns the first live slot from `slot` on.
    pub(crate) fn next_live(&self, slot: u32) -> Option<(FlowId, Cursor)> {
        let (generation, _) = self.slots.get_live(slot)?;
        Some((FlowId::from_parts(slot, generation), Cursor(slot + 1)))
    }

    pub(crate) fn stats(&self) -> TableStats {
        TableStats {
            len: self.len(),
            inserted: self.came,
            removed: self.went - self.evicted - self.expired,
            evicted: self.evicted,
            expired: self.expired,
            refused: self.refused,
            segments: 1,
            granule_ticks: self.wheel.granule_ticks(),
            ..TableStats::default()
        }
    }

    pub(crate) fn state_bytes(&self) -> u64 {
        self.slots.pages().bytes
    }

    pub(crate) fn wheel_bytes(&self) -> u64 {
        self.wheel.bytes()
    }

    pub(crate) fn pages(&self, look: bool) -> PageReport {
        if look { self.slots.pages_obtained() } else { self.slots.pages() }
    }
}

impl<K, V> core::fmt::Debug for States<K, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("States")
            .field("slots", &self.slots)
            .field("came", &self.came)
            .field("went", &self.went)
            .finish_non_exhaustive()
    }
}
