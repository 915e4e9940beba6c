//! Expiry with a timer wheel over slots.
//!
//! ```text
//!  spoke   0   1   2   3  …  W-1        spoke s holds the flows to look at in granules s, s+W, …
//!          │       │
//!          7       4 ─ 9 ─ 2            doubly linked through arrays that are indexed by slot
//! ```
//!
//! A packet of a flow does not touch the wheel, which would cost a second and a third line per
//! packet. The flow stays on the spoke of the deadline that it had when it was armed. When that
//! spoke is due, a flow with later packets moves to the spoke of its new deadline. The wheel
//! therefore examines a flow about once per timeout, no matter how many packets it has.
//!
//! Everything is allocated when the table is built: 8 bytes per slot, and nothing if no class has a
//! timeout.

use core::num::NonZeroU64;

use flowloom_cpu::pages::{AllocError, HugePages, LineArray};

use crate::table::{Tick, TimeoutClass};

/// Maximum number of spokes; flows with longer timeouts are examined more than once.
const SPOKES_MAX: u32 = 4096;

/// In a `previous` link: the predecessor is a spoke, not a slot.
const SPOKE: u32 = 1 << 31;

/// Number of slots that a wheel can link; the top bit of a link is [`SPOKE`].
pub(crate) const SLOTS_MAX: u32 = SPOKE - 1;

/// The maximum idle time of flows in each class, in ticks.
///
/// The wheel examines a flow once per timeout. If that is more than 500 times the shortest timeout
/// of all classes, it examines the flow once per 500 of those: with timeouts of a microsecond and a
/// day, two thousand times per second, which counts towards the budgets of
/// [`expire`](crate::FlowTable::expire). Therefore remove flows with very short lives yourself
/// instead of giving them a class.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{Tick, TimeoutClass, Timeouts};
/// let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 300).with(TimeoutClass(1), 5);
/// assert_eq!(timeouts.deadline(TimeoutClass(1), Tick(10)), Some(Tick(15)));
/// assert_eq!(timeouts.deadline(TimeoutClass(2), Tick(10)), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timeouts {
    ticks: [Option<NonZeroU64>; Self::CLASSES],
}

impl Timeouts {
    /// The number of classes; higher ones never time out.
    pub const CLASSES: usize = 16;

    /// No class has a timeout; the table then keeps no wheel.
    pub const NEVER: Self = Self { ticks: [None; Self::CLASSES] };

    /// Returns the same timeouts with one class changed; 0 ticks mean never, as does a class beyond
    /// the last.
    #[must_use]
    pub const fn with(mut self, class: TimeoutClass, ticks: u64) -> Self {
        if (class.0 as usize) < Self::CLASSES {
            self.ticks[class.0 as usize] = NonZeroU64::new(ticks);
        }
        self
    }

    /// Returns the first time at which a flow last seen at `last_seen` may be removed;
    /// [`u64::MAX`], the end of time, if that would be later.
    #[inline]
    pub fn deadline(&self, class: TimeoutClass, last_seen: Tick) -> Option<Tick> {
        let ticks = (*self.ticks.get(usize::from(class.0))?)?;
        Some(Tick(last_seen.0.saturating_add(ticks.get())))
    }

    fn shortest(&self) -> Option<u64> {
        self.ticks.iter().flatten().map(|ticks| ticks.get()).min()
    }

    fn longest(&self) -> u64 {
        self.ticks.iter().flatten().map(|ticks| ticks.get()).max().unwrap_or(0)
    }
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// Ticks per spoke: an eighth of the shortest timeout.
    granule: u64,
    /// The last granule whose flows have all been examined.
    done: u64,
    /// The granule of the latest time that the wheel knows to have come.
    reached: u64,
    spoke_count: u32,
    /// The first slot of each spoke plus one, 0 for none; the length is a power of two.
    spokes: LineArray<u32>,
    /// Per slot: next (slot plus one, 0 for none) and previous (the same, or `SPOKE` and its
    /// number).
    links: LineArray<[u32; 2]>,
    armed: u32,
}

const NEXT: usize = 0;
const PREVIOUS: usize = 1;

impl Wheel {
    /// Returns the bytes that a wheel over this many slots takes.
    pub(crate) fn bytes_needed(slots: u64, timeouts: &Timeouts) -> u64 {
        if timeouts.shortest().is_none() {
            0
        } else {
            slots.saturating_mul(8).min(u64::MAX / 4) + u64::from(Self::spoke_count(timeouts)) * 4
        }
    }

    fn granule(timeouts: &Timeouts) -> u64 {
        (timeouts.shortest().unwrap_or(0) / 8).max(1)
    }

    fn spoke_count(timeouts: &Timeouts) -> u32 {
        let wanted = timeouts.longest() / Self::granule(timeouts);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).min(SPOKES_MAX - 2) + 2;
        wanted.next_power_of_two().max(64)
    }

    pub(crate) fn try_new(slots: u32, timeouts: &Timeouts) -> Result<Self, AllocError> {
        let used = timeouts.shortest().is_some() && slots != 0;
        let spokes = if used { Self::spoke_count(timeouts) } else { 0 };
        let slots = if used { slots as usize } else { 0 };
        Ok(Self {
            granule: Self::granule(timeouts),
            spoke_count: spokes,
            done: 0,
            reached: 0,
            spokes: LineArray::try_new(spokes as usize, HugePages::No)?,
            links: LineArray::try_new(slots, HugePages::No)?,
            armed: 0,
        })
    }

    pub(crate) fn prefault(&mut self) {
        self.spokes.prefault();
        self.links.prefault();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.spokes.pages().bytes + self.links.pages().bytes
    }

    pub(crate) fn granule_ticks(&self) -> u64 {
        self.granule
    }

    /// Puts an unlinked slot onto the spoke of its deadline, or onto the next spoke to examine if
    /// that deadline is past.
    pub(crate) fn arm(&mut self, slot: u32, deadline: Tick, now: Tick) {
        if self.armed == 0 {
            // Nothing is due before `now`, so the wheel starts here, regardless of where the clock
            // began.
            self.done = now.0 / self.granule;
            self.reached = self.done;
        }
        let granule = deadline.0.div_ceil(self.granule);
        if granule <= self.done && self.done == self.reached && deadline.0 != u64::MAX {
            // The flow is due at once, so the granule that has come is examined again. Its spoke is
            // empty, because flows lie at most one spoke less than a round ahead. Nothing is due
            // before the end of time is over.
            self.done = self.done.saturating_sub(1);
        }
        let last = self.done.saturating_add(u64::from(self.spoke_count) - 1);
        let granule = granule.clamp(self.done.saturating_add(1).min(last), last);
        let spoke = self.spoke_of(granule);
        let next = core::mem::replace(&mut self.spokes[spoke as usize], slot + 1);
        if next != 0 {
            self.links[next as usize - 1][PREVIOUS] = slot + 1;
        }
        self.links[slot as usize] = [next, SPOKE | spoke];
        self.armed += 1;
    }

    /// Takes a slot off its spoke, if it is on one.
    #[inline]
    pub(crate) fn disarm(&mut self, slot: u32) {
        if self.armed != 0 {
            self.take_off(slot);
        }
    }

    fn take_off(&mut self, slot: u32) {
        let Some(&[next, previous]) = self.links.get(slot as usize) else { return };
        if previous == 0 {
            return;
        }
        if previous & SPOKE != 0 {
            self.spokes[(previous & !SPOKE) as usize] = next;
        } else {
            self.links[previous as usize - 1][NEXT] = next;
        }
        if next != 0 {
            self.links[next as usize - 1][PREVIOUS] = previous;
        }
        self.links[slot as usize] = [0, 0];
        self.armed -= 1;
    }

    /// Takes the next slot to examine off its spoke; `None` once all granules up to `now` are done.
    ///
    /// Also returns the slot after it, for a prefetch.
    pub(crate) fn pop(&mut self, now: Tick) -> Option<(u32, Option<u32>)> {
        let current = now.0 / self.granule;
        if self.armed == 0 {
            return None;
        }
        self.reached = self.reached.max(current);
        // After a long pause one round visits every spoke; further rounds would visit them again.
        self.done = self.done.max(current.saturating_sub(u64::from(self.spoke_count)));
        while self.done < current {
            let spoke = self.spoke_of(self.done + 1);
            if let Some(slot) = self.spokes[spoke as usize].checked_sub(1) {
                let next = self.links[slot as usize][NEXT].checked_sub(1);
                self.disarm(slot);
                return Some((slot, next));
            }
            self.done += 1;
        }
        None
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked below 4096")]
    fn spoke_of(&self, granule: u64) -> u32 {
        (granule as u32) & (self.spoke_count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_beyond_the_last_timeout_never_times_out() {
        let timeouts = Timeouts::NEVER.with(TimeoutClass(15), 5).with(TimeoutClass(16), 5);
        assert_eq!(timeouts, Timeouts::NEVER.with(TimeoutClass(15), 5));
        let deadlines = [15, 16].map(|class| timeouts.deadline(TimeoutClass(class), Tick(1)));
        assert_eq!(deadlines, [Some(Tick(6)), None]);
    }
    use alloc::vec::Vec;

    const CLASS: TimeoutClass = TimeoutClass(0);

    fn wheel(timeouts: &Timeouts) -> Wheel {
        Wheel::try_new(32, timeouts).unwrap()
    }

    fn popped(wheel: &mut Wheel, now: u64) -> Vec<u32> {
        core::iter::from_fn(|| wheel.pop(Tick(now)).map(|(slot, _)| slot)).collect()
    }

    #[test]
    fn wheel_without_timeouts_needs_no_memory() {
        assert_eq!(wheel(&Timeouts::NEVER).bytes(), 0);
        assert_eq!(Wheel::bytes_needed(1 << 30, &Timeouts::NEVER), 0);
    }

    #[test]
    fn excessive_slot_count_exceeds_any_memory_limit() {
        let timeouts = Timeouts::NEVER.with(CLASS, 80);
        assert!(Wheel::bytes_needed(u64::MAX, &timeouts) > 1 << 60);
    }

    #[test]
    fn slots_expire_at_their_deadline_and_not_before() {
        let timeouts = Timeouts::NEVER.with(CLASS, 80);
        let mut wheel = wheel(&timeouts);
        assert_eq!(wheel.granule_ticks(), 10);
        assert_eq!(wheel.bytes(), Wheel::bytes_needed(32, &timeouts));
        for (slot, deadline) in [(1, 100), (2, 105), (3, 110)] {
            wheel.arm(slot, Tick(deadline), Tick(20));
        }
        assert_eq!(popped(&mut wheel, 99), []);
        assert_eq!(popped(&mut wheel, 100), [1]);
        assert_eq!(popped(&mut wheel, 109), []);
        assert_eq!(popped(&mut wheel, 110), [3, 2]);
    }

    #[test]
    fn slot_can_be_removed_from_anywhere() {
        let mut wheel = wheel(&Timeouts::NEVER.with(CLASS, 8));
        for slot in 0..5 {
            wheel.arm(slot, Tick(8), Tick(0));
        }
        for slot in [2, 4, 0, 0] {
            wheel.disarm(slot);
        }
        assert_eq!(popped(&mut wheel, 8), [3, 1]);
        assert_eq!(wheel.armed, 0);
    }

    #[test]
    fn far_deadlines_and_long_pauses_lose_no_flow() {
        let mut wheel = wheel(&Timeouts::NEVER.with(CLASS, 8));
        wheel.arm(0, Tick(u64::MAX), Tick(0));
        wheel.arm(1, Tick(3), Tick(0));
        let mut found = popped(&mut wheel, 1 << 40);
        found.sort_unstable();
        assert_eq!(found, [0, 1]);
        wheel.arm(7, Tick(u64::MAX), Tick(u64::MAX));
        assert_eq!(popped(&mut wheel, u64::MAX), []);
        wheel.disarm(7);
        // A clock that runs backwards delays expiry but loses no flow.
        wheel.arm(9, Tick(100), Tick(50));
        wheel.arm(8, Tick(5), Tick(1));
        assert_eq!(popped(&mut wheel, 60), [8]);
        assert_eq!(popped(&mut wheel, 100), [9]);
    }
}
