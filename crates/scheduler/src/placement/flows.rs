//! Stores which worker got the last packet of a flow, and determines whether it is still in flight.
//!
//! A worker completes items in the order in which it got them. A flow therefore needs no counter of
//! packets in flight: it has none when the worker's count of completed items has reached the
//! position of the flow's last packet. This takes one word per flow, which only the dispatcher
//! writes.

use flowloom_cpu::prefetch;

use super::WorkItem;
use super::backlog::Backlog;

/// Bits of a slot that contain the worker; the others contain the position in its queue.
const WORKER_BITS: u32 = 16;
/// The worker in a slot that no flow has used.
const NO_WORKER: u64 = 0xFFFF;

/// Maximum number of slots, which take 128 MiB.
pub(crate) const SLOTS_MAX: u64 = 1 << 24;

/// An array of slots, each for the group of flows whose digests begin with the same bits.
///
/// The flows of a slot are placed together while any of them has packets in flight, which preserves
/// the order within each flow.
#[derive(Clone)]
pub(crate) struct FlowSlots {
    slots: Vec<u64>,
    shift: u32,
}

impl core::fmt::Debug for FlowSlots {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlowSlots").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// No packet of the flow has been seen.
    Unseen,
    /// All packets are completed; this worker had the last one.
    Idle(usize),
    /// Packets are in flight to this worker, and to no other.
    InFlight(usize),
}

impl FlowSlots {
    /// Returns 2^`bits` unused slots.
    pub(crate) fn new(bits: u32) -> Self {
        Self { slots: vec![NO_WORKER; 1 << bits], shift: 32 - bits }
    }

    /// Prefetches the slots of a batch before the first is read, so that memory accesses overlap.
    #[inline]
    pub(crate) fn request(&self, items: &[WorkItem]) {
        for &item in items {
            prefetch::read_at(&self.slots, self.slot(item));
        }
    }

    /// Returns the slot of a flow.
    #[inline]
    pub(crate) fn slot(&self, item: WorkItem) -> usize {
        (u64::from(item.digest) >> self.shift) as usize
    }

    /// Returns the location of the flows of a slot.
    #[inline]
    pub(crate) fn find(&self, slot: usize, backlog: &Backlog) -> Whereabouts {
        let word = self.slots[slot];
        let worker = word & NO_WORKER;
        if worker == NO_WORKER {
            return Whereabouts::Unseen;
        }
        let worker = worker as usize;
        if backlog.is_done(worker, word >> WORKER_BITS) {
            Whereabouts::Idle(worker)
        } else {
            Whereabouts::InFlight(worker)
        }
    }

    /// Returns the slot of a flow, to be read and written.
    #[inline]
    pub(crate) fn entry(&mut self, item: WorkItem) -> Slot<'_> {
        let slot = self.slot(item);
        Slot(&mut self.slots[slot])
    }

    /// Stores the position of the flow's last packet in a worker's queue.
    #[inline]
    pub(crate) fn sent(&mut self, slot: usize, worker: usize, place: u64) {
        self.slots[slot] = (place << WORKER_BITS) | worker as u64;
    }
}

/// One slot.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a mut u64);

impl Slot<'_> {
    /// Returns the worker that had the last packet of the slot's flows, and that packet's position
    /// in the worker's queue.
    #[inline]
    pub(crate) fn last(&self) -> Option<(usize, u64)> {
        let worker = *self.0 & NO_WORKER;
        (worker != NO_WORKER).then_some((worker as usize, *self.0 >> WORKER_BITS))
    }

    /// Stores the position of the flow's last packet in a worker's queue.
    #[inline]
    pub(crate) fn set(self, worker: usize, place: u64) {
        *self.0 = (place << WORKER_BITS) | worker as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadView;

    #[test]
    fn a_flow_is_idle_once_its_last_packet_is_completed() {
        let mut backlog = Backlog::new(&"2".parse().unwrap());
        let mut flows = FlowSlots::new(4);
        let item = WorkItem { digest: 0x5FFF_FFFF, bytes: 60 };
        let slot = flows.slot(item);
        assert_eq!((slot, flows.find(slot, &backlog)), (5, Whereabouts::Unseen));
        let (place, _) = backlog.assign(1, item);
        flows.sent(slot, 1, place);
        assert_eq!(flows.find(slot, &backlog), Whereabouts::InFlight(1));
        backlog.refresh(&LoadView { sent: &[0, 1], completed: &[0, 1], ..LoadView::idle() });
        assert_eq!(flows.find(slot, &backlog), Whereabouts::Idle(1));
    }
}
