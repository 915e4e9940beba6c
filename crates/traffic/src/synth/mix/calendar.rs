//! The next sending time of each flow.
//!
//! Time is divided into slots of about eight packets. A slot is a linked list of the flows that
//! send in it, so inserting and removing cost the same with a thousand waiting flows as with a
//! million. A flow that has sent in a slot is due in a later one, so its packets keep their order.

const NO_FLOW: u32 = u32::MAX;
const PACKETS_PER_SLOT: u64 = 8;
const SLOTS_MAX: u64 = 1 << 22;

/// Flows by the slot in which they are due.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Calendar {
    /// Returns an empty calendar for `flows` flows, with slots for `packets` packets.
    pub(super) fn new(flows: usize, packets: u64) -> Self {
        let slots = (packets / PACKETS_PER_SLOT).clamp(1, SLOTS_MAX) as usize;
        Self { heads: vec![NO_FLOW; slots], next: vec![NO_FLOW; flows] }
    }

    /// Returns the number of slots, at least one.
    pub(super) fn slots(&self) -> u64 {
        self.heads.len() as u64
    }

    /// Puts a flow into a slot. The flow must not be in another slot.
    #[inline]
    pub(super) fn enter(&mut self, flow: u32, slot: u64) {
        let head = &mut self.heads[slot as usize];
        self.next[flow as usize] = *head;
        *head = flow;
    }

    /// Takes all flows out of a slot.
    #[inline]
    pub(super) fn take(&mut self, slot: u64, mut each: impl FnMut(u32)) {
        let mut flow = std::mem::replace(&mut self.heads[slot as usize], NO_FLOW);
        while flow != NO_FLOW {
            each(flow);
            flow = self.next[flow as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_leave_the_calendar_slot_they_entered() {
        let mut calendar = Calendar::new(4, 80);
        assert_eq!(calendar.slots(), 10);
        for (flow, slot) in [(0, 3), (1, 9), (2, 3), (3, 0)] {
            calendar.enter(flow, slot);
        }
        let mut taken = Vec::new();
        for slot in 0..10 {
            calendar.take(slot, |flow| taken.push((slot, flow)));
        }
        assert_eq!(taken, [(0, 3), (3, 2), (3, 0), (9, 1)]);
        calendar.take(3, |flow| panic!("flow {flow} was taken before"));
    }

    #[test]
    fn even_one_packet_has_a_slot() {
        assert_eq!(Calendar::new(1, 1).slots(), 1);
    }
}
