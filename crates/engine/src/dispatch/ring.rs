//! The way from the input stage to one worker: a ring of batch parts.
//!
//! The ring is [`rtrb`]'s. Each part stands for one packet or more, and no more packets are on the way than the ring has slots: so it
//! never fills, and nothing is held back on this side. Neither end ever waits: who finds no room, or nothing, says so.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::batch::pool::{BATCH_DESCRIPTORS, BatchPart, DescriptorBatch, Received};
use crate::dispatch::progress::Progress;
use crate::runtime::poll::Polled;

/// What a worker has completed.
pub(crate) type Completed = Arc<CachePadded<Progress>>;

/// The input stage's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// `None` says that nothing follows.
    ring: Producer<Option<BatchPart>>,
    completed: Completed,
    slots: u64,
    /// The worker's packets of the current batch.
    mask: u64,
    /// Packets sent so far, those of the current batch included.
    pub(crate) sent: u64,
    /// Bytes on the wire of those.
    pub(crate) sent_bytes: u64,
    /// Packets that were dropped because it was full.
    pub(crate) refused: u64,
    /// Batches that waited for it, or of which it refused some.
    pub(crate) full_waits: u64,
    /// It has refused a packet of the current batch.
    has_refused: bool,
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    ring: Consumer<Option<BatchPart>>,
    completed: Completed,
    is_over: bool,
}

/// Returns the two ends of a way to a worker, for so many packets at a time.
pub(crate) fn connect(slots: usize) -> (Outbox, Inbox) {
    // And one for the message that nothing follows.
    let (producer, consumer) = RingBuffer::new(slots + 1);
    let completed = Completed::default();
    let outbox = Outbox {
        ring: producer,
        completed: Arc::clone(&completed),
        slots: slots as u64,
        mask: 0,
        sent: 0,
        sent_bytes: 0,
        refused: 0,
        full_waits: 0,
        has_refused: false,
    };
    (outbox, Inbox { ring: consumer, completed, is_over: false })
}

impl Inbox {
    /// Publishes how many packets are completed, and how many bytes they had.
    pub(crate) fn publish(&self, packets: u64, bytes: u64) {
        self.completed.publish(packets, bytes);
    }

    /// Takes what waits, as far as it fits. `Done` when nothing will ever follow and the received is empty.
    pub(crate) fn take(&mut self, received: &mut Received) -> Polled {
        while let Ok(part) = self.ring.peek() {
            if part.as_ref().is_some_and(|part| !received.fits(part)) {
                break;
            }
            match self.ring.pop() {
                Ok(Some(part)) => received.add(part),
                Ok(None) => self.is_over = true,
                Err(_) => break,
            }
        }
        if received.len() > 0 {
            Polled::Worked
        } else if self.is_over || (self.ring.is_abandoned() && self.ring.is_empty()) {
            Polled::Done // Or the input stage is gone without a word: what it sent is done.
        } else {
            Polled::Idle
        }
    }
}

impl Outbox {
    /// Returns the worker's counters, for those that complete its packets.
    pub(crate) fn progress(&self) -> Completed {
        Arc::clone(&self.completed)
    }

    /// Returns how many packets the worker has completed.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.packets()
    }

    /// Returns their bytes; a batch more may be counted already.
    pub(crate) fn completed_bytes(&self) -> u64 {
        self.completed.bytes()
    }

    /// Says whether the worker is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Says whether so many packets more may be on the way.
    ///
    /// While batches are scarce, no more than a sixteenth of what else may be, or a batch: a packet that waits keeps a whole batch of descriptors, so
    /// a worker behind the others, with few packets of each, would keep very many.
    pub(crate) fn has_capacity(&self, packets: usize, are_batches_scarce: bool) -> bool {
        let most =
            if are_batches_scarce { (self.slots / 16).max(BATCH_DESCRIPTORS as u64) } else { self.slots };
        self.sent + packets as u64 - self.completed() <= most
    }

    /// Adds a packet of the current batch, with its bytes on the wire, to the worker's part.
    #[inline]
    pub(crate) fn add(&mut self, place: usize, bytes: u32) {
        self.mask |= 1 << place;
        self.sent += 1;
        self.sent_bytes += u64::from(bytes);
    }

    /// Counts a packet that is dropped because there is no room.
    #[cold]
    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
        self.has_refused = true;
    }

    /// Sends the worker's part of the batch, if it has one.
    #[inline]
    pub(crate) fn send(&mut self, batch: &Arc<DescriptorBatch>) {
        self.full_waits += u64::from(std::mem::take(&mut self.has_refused));
        let mask = std::mem::take(&mut self.mask);
        if mask != 0 {
            self.push(Some(BatchPart { batch: Arc::clone(batch), mask }));
        }
    }

    /// Says that nothing follows.
    pub(crate) fn end(&mut self) {
        self.push(None);
    }

    fn push(&mut self, part: Option<BatchPart>) {
        // There is a slot for each packet on the way. What a worker that is gone would have had is counted as its loss.
        let pushed = self.ring.push(part);
        debug_assert!(pushed.is_ok(), "a ring has room for all that may be on the way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_behind_has_less_room_while_batches_are_scarce() {
        let (mut outbox, inbox) = connect(1024);
        for _ in 0..60 {
            outbox.add(0, 60);
            outbox.send(&Arc::default());
        }
        assert!(outbox.has_capacity(4, true) && !outbox.has_capacity(5, true));
        assert!(outbox.has_capacity(964, false) && !outbox.has_capacity(965, false));
        inbox.publish(60, 0);
        assert!(outbox.has_capacity(64, true));
        let (outbox, _inbox) = connect(64);
        assert!(outbox.has_capacity(BATCH_DESCRIPTORS, true), "an idle worker has room for a batch");
    }
}
