//! Where the last packet of a flow went, and whether it is still there.
//!
//! A worker completes items in the order in which it got them. So a flow needs no counter of
//! packets in flight: it has none when the worker's count of completed items has reached the
//! position of the flow's last packet. One word per flow, which only the dispatcher writes.

use flowloom_cpu::prefetch;

use super::WorkItem;
use super::backlog::Backlog;

/// The bits of a slot that contain the worker; the others contain the position in its queue.
const WORKER_BITS: u32 = 16;
/// The worker of a slot that no flow has used.
const NO_WORKER: u64 = 0xFFFF;

/// The most slots: 128 MiB of them.
pub(crate) const SLOTS_MAX: u64 = 1 << 24;

/// One slot for each of many groups of flows: those whose digests begin with the same bits.
///
/// Flows of one slot are placed together while any of them has packets in flight, which keeps the
/// order of each.
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
    /// All packets are done with; this worker had the last.
    Idle(usize),
    /// Packets are in flight to this worker, and to no other.
    InFlight(usize),
}

impl FlowSlots {
    /// Returns 2^`bits` slots that no flow has used.
    pub(crate) fn new(bits: u32) -> Self {
        Self { slots: vec![NO_WORKER; 1 << bits], shift: 32 - bits }
    }

    /// Prefetches the slots of a batch before the first is read, so that memory accesses overlap.
    #[inline]
    pub(crate) fn request(&self, items: &[WorkItem]) {
        for &item in items {
            prefetch::read_at(&self.slots, self.of(item));
        }
    }

    /// Returns the slot of a flow.
    #[inline]
    pub(crate) fn of(&self, item: WorkItem) -> usize {
        (u64::from(item.digest) >> self.shift) as usize
    }

    /// Returns where the flows of a slot are.
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
        let slot = self.of(item);
        Slot(&mut self.slots[slot])
    }

    /// Notes that the flow's last packet has a place in a worker's queue.
    #[inline]
    pub(crate) fn sent(&mut self, slot: usize, worker: usize, place: u64) {
        self.slots[slot] = (place << WORKER_BITS) | worker as u64;
    }
}

/// One slot.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a mut u64);

impl Slot<'_> {
    /// Returns the worker that had the last packet of its flows, and that packet's place in the
    /// worker's queue.
    #[inline]
    pub(crate) fn last(&self) -> Option<(usize, u64)> {
        let worker = *self.0 & NO_WORKER;
        (worker != NO_WORKER).then_some((worker as usize, *self.0 >> WORKER_BITS))
    }

    /// Notes that the flow's last packet has a place in a worker's queue.
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
        let slot = flows.of(item);
        assert_eq!((slot, flows.find(slot, &backlog)), (5, Whereabouts::Unseen));
        let (place, _) = backlog.assign(1, item);
        flows.sent(slot, 1, place);
        assert_eq!(flows.find(slot, &backlog), Whereabouts::InFlight(1));
        backlog.refresh(&LoadView { sent: &[0, 1], completed: &[0, 1], ..LoadView::idle() });
        assert_eq!(flows.find(slot, &backlog), Whereabouts::Idle(1));
    }
}
