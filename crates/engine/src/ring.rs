//! The way from the input stage to one worker: a ring of descriptors, and a channel for the blocks they lie in.
//!
//! The ring is [`rtrb`]'s, used by chunks: pushing or popping one at a time costs several times as much. Blocks change a few
//! hundred times a second at most and go through a crossbeam channel; the descriptor `NextBlock` says when to take one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use crossbeam_utils::CachePadded;
use flowloom_packet::{BATCH_PACKETS, SharedBlock};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::descriptor::{Control, Descriptor};
use crate::wait::Wait;

/// Blocks on the way to one worker at most.
const BLOCKS_IN_FLIGHT: usize = 64;

/// What a worker has completed; written by it once a batch, read by the input stage.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    packets: AtomicU64,
    bytes: AtomicU64,
}

type Completed = Arc<CachePadded<Progress>>;

/// The worker is gone: its thread has ended before its input did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// The input stage's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    ring: Producer<Descriptor>,
    blocks: Sender<(SharedBlock, u32)>,
    staged: Vec<Descriptor>,
    completed: Completed,
    /// Packets put into the ring so far.
    pub(crate) sent: u64,
    /// Bytes on the wire of those, and of what is staged.
    pub(crate) taken_bytes: u64,
    pub(crate) full_waits: u64,
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) ring: Consumer<Descriptor>,
    pub(crate) blocks: Receiver<(SharedBlock, u32)>,
    completed: Completed,
}

/// Returns the two ends of a way to a worker.
pub(crate) fn connect(slots: usize) -> (Outbox, Inbox) {
    let (producer, consumer) = RingBuffer::new(slots);
    let (sender, receiver) = crossbeam_channel::bounded(BLOCKS_IN_FLIGHT);
    let completed = Completed::default();
    let outbox = Outbox {
        ring: producer,
        blocks: sender,
        staged: Vec::with_capacity(BATCH_PACKETS),
        completed: Arc::clone(&completed),
        sent: 0,
        taken_bytes: 0,
        full_waits: 0,
    };
    (outbox, Inbox { ring: consumer, blocks: receiver, completed })
}

impl Inbox {
    /// Publishes how many packets are completed, and how many bytes they had.
    pub(crate) fn publish(&self, packets: u64, bytes: u64) {
        self.completed.bytes.store(bytes, Ordering::Relaxed);
        // Release pairs with the Acquire in `Outbox::completed`: who sees the count sees what the packets did.
        self.completed.packets.store(packets, Ordering::Release);
    }
}

impl Outbox {
    /// Returns how many packets the worker has completed.
    pub(crate) fn completed(&self) -> u64 {
        // Acquire pairs with the Release in `Inbox::publish`.
        self.completed.packets.load(Ordering::Acquire)
    }

    /// Returns their bytes; a batch more may be counted already.
    pub(crate) fn completed_bytes(&self) -> u64 {
        self.completed.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many packets are staged and not yet in the ring.
    pub(crate) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Stages a packet; a full stage is published, waiting while the ring is full.
    ///
    /// Returns how many packets were dropped because the ring was full and `drop_when_full` is set.
    #[inline]
    pub(crate) fn push(&mut self, packet: Descriptor, drop_when_full: bool) -> Result<u64, Gone> {
        self.staged.push(packet);
        self.taken_bytes += u64::from(packet.wire);
        if self.staged.len() == BATCH_PACKETS { self.flush(drop_when_full) } else { Ok(0) }
    }

    /// Publishes what is staged.
    pub(crate) fn flush(&mut self, drop_when_full: bool) -> Result<u64, Gone> {
        let wait = Wait::default();
        while !self.staged.is_empty() {
            let room = self.ring.slots().min(self.staged.len());
            if room == 0 {
                if self.ring.is_abandoned() {
                    return Err(Gone); // What is staged stays, to be counted by `discard`.
                }
                if drop_when_full {
                    return Ok(self.discard());
                }
                self.full_waits += 1;
                wait.snooze();
                continue;
            }
            let Ok(chunk) = self.ring.write_chunk_uninit(room) else {
                unreachable!("the ring has room for the chunk: only this thread fills it")
            };
            chunk.fill_from_iter(self.staged.drain(..room));
            self.sent += room as u64;
            wait.reset();
        }
        Ok(0)
    }

    /// Sends a message behind everything staged. Messages are never dropped.
    fn message(&mut self, control: Control) -> Result<(), Gone> {
        let wait = Wait::default();
        loop {
            match self.ring.push(Descriptor::control(control)) {
                Ok(()) => return Ok(()),
                Err(_) if self.ring.is_abandoned() => return Err(Gone),
                Err(_) => wait.snooze(),
            }
        }
    }

    /// Says that the packets that follow lie in `block`.
    pub(crate) fn next_block(&mut self, block: &SharedBlock, pass: u32) -> Result<(), Gone> {
        self.blocks.send((Arc::clone(block), pass)).map_err(|_| Gone)?;
        self.message(Control::NextBlock)
    }

    /// Says that nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), Gone> {
        self.message(Control::End)
    }

    /// Forgets what is staged; returns how many packets that were.
    pub(crate) fn discard(&mut self) -> u64 {
        let staged = self.staged.len() as u64;
        self.taken_bytes -= self.staged.iter().map(|packet| u64::from(packet.wire)).sum::<u64>();
        self.staged.clear();
        staged
    }
}
