//! The ring from the input stage to one worker. It carries the parts of batches for that worker.
//!
//! The ring is that of [`rtrb`]. Each part has at least one packet, and at most as many packets are
//! in flight as the ring has slots. The ring therefore never fills, and the input stage buffers
//! nothing here. Neither end blocks: both return at once if the ring is full or empty.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::batch::pool::{BATCH_DESCRIPTORS, BatchPart, DescriptorBatch, Received};
use crate::dispatch::progress::Progress;
use crate::stage::poll::Polled;

/// The counts of what a worker has completed.
pub(crate) type Completed = Arc<CachePadded<Progress>>;

/// The input stage's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// `None` marks the end of the packets.
    ring: Producer<Option<BatchPart>>,
    completed: Completed,
    slots: u64,
    /// The worker's packets of the current batch, as a mask.
    mask: u64,
    /// Packets sent so far, including those of the current batch.
    pub(crate) sent: u64,
    /// Bytes on the wire of the packets sent.
    pub(crate) sent_bytes: u64,
    /// Packets that were dropped because the ring was full.
    pub(crate) refused: u64,
    /// Batches that waited for the ring, or lost packets because it was full.
    pub(crate) full_waits: u64,
    /// The ring has refused a packet of the current batch.
    has_refused: bool,
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    ring: Consumer<Option<BatchPart>>,
    completed: Completed,
    is_over: bool,
}

/// Returns the two ends of a ring for at most `slots` packets in flight.
pub(crate) fn connect(slots: usize) -> (Outbox, Inbox) {
    // One more slot for the end mark.
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
    /// Publishes the number of completed packets and their bytes.
    pub(crate) fn publish(&self, packets: u64, bytes: u64) {
        self.completed.publish(packets, bytes);
    }

    /// Takes the waiting parts that fit into `received`. Returns `Done` when nothing will follow
    /// and `received` is empty.
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
            Polled::Done // The input stage is gone without an end mark; all that it sent is processed.
        } else {
            Polled::Idle
        }
    }
}

impl Outbox {
    /// Returns the worker's counters, for the workers that complete its packets.
    pub(crate) fn progress(&self) -> Completed {
        Arc::clone(&self.completed)
    }

    /// Returns how many packets the worker has completed.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.packets()
    }

    /// Returns the bytes of the completed packets. They may include one batch more than
    /// [`completed`](Self::completed).
    pub(crate) fn completed_bytes(&self) -> u64 {
        self.completed.bytes()
    }

    /// Returns whether the worker has ended.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Returns whether `packets` more may be in flight.
    ///
    /// While batches are scarce the limit is a sixteenth of the slots, or a batch if that is more.
    /// A waiting packet keeps a whole batch of descriptors in use. A worker that lags behind and
    /// gets few packets of each batch would therefore keep very many batches.
    pub(crate) fn has_capacity(&self, packets: usize, are_batches_scarce: bool) -> bool {
        let most =
            if are_batches_scarce { (self.slots / 16).max(BATCH_DESCRIPTORS as u64) } else { self.slots };
        self.sent + packets as u64 - self.completed() <= most
    }

    /// Adds packet `place` of the current batch to the worker's part. `bytes` is its length on the
    /// wire.
    #[inline]
    pub(crate) fn add(&mut self, place: usize, bytes: u32) {
        self.mask |= 1 << place;
        self.sent += 1;
        self.sent_bytes += u64::from(bytes);
    }

    /// Counts a packet that is dropped because the ring is full.
    #[cold]
    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
        self.has_refused = true;
    }

    /// Sends the worker's part of the batch, if it is not empty.
    #[inline]
    pub(crate) fn send(&mut self, batch: &Arc<DescriptorBatch>) {
        self.full_waits += u64::from(std::mem::take(&mut self.has_refused));
        let mask = std::mem::take(&mut self.mask);
        if mask != 0 {
            self.push(Some(BatchPart { batch: Arc::clone(batch), mask }));
        }
    }

    /// Marks the end of the packets.
    pub(crate) fn end(&mut self) {
        self.push(None);
    }

    fn push(&mut self, part: Option<BatchPart>) {
        // The ring has a slot for each packet in flight. The report counts the packets of an ended
        // worker as lost.
        let pushed = self.ring.push(part);
        debug_assert!(pushed.is_ok(), "a ring has a slot for each packet in flight");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_behind_may_have_fewer_packets_in_flight_while_batches_are_scarce() {
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
        assert!(outbox.has_capacity(BATCH_DESCRIPTORS, true), "an idle worker takes a batch");
    }
}
