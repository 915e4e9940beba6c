//! The way from the input stage to one worker: a ring of descriptors, and a channel for the blocks they lie in.
//!
//! The ring is [`rtrb`]'s, used by chunks: pushing or popping one at a time costs several times as much. Blocks change a few
//! hundred times a second at most and go through a crossbeam channel; the descriptor `NextBlock` says when to take one.
//! Neither end ever waits: who finds no room, or nothing, says so.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use crossbeam_utils::CachePadded;
use flowloom_packet::{BATCH_PACKETS, SharedBlock};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::actor::Room;
use crate::descriptor::{Control, Descriptor};
use crate::progress::Progress;

/// Blocks on the way to one worker at most.
const BLOCKS_IN_FLIGHT: usize = 64;

type Completed = Arc<CachePadded<Progress>>;

/// The input stage's end.
#[derive(Debug)]
pub(crate) struct Outbox {
    ring: Producer<Descriptor>,
    blocks: Sender<(SharedBlock, u32)>,
    staged: Vec<Descriptor>,
    /// How many of those are packets, not messages.
    staged_packets: u64,
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
        staged: Vec::with_capacity(3 * BATCH_PACKETS),
        staged_packets: 0,
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
        self.completed.publish(packets, bytes);
    }

    /// Returns the block that a message announces: it was sent before the message.
    pub(crate) fn next_block(&self) -> Option<(SharedBlock, u32)> {
        self.blocks.try_recv().ok()
    }
}

impl Outbox {
    /// Returns how many packets the worker has completed.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.packets()
    }

    /// Returns their bytes; a batch more may be counted already.
    pub(crate) fn completed_bytes(&self) -> u64 {
        self.completed.bytes()
    }

    /// Returns how many packets are staged and not yet in the ring.
    pub(crate) fn staged(&self) -> u64 {
        self.staged_packets
    }

    /// Says whether enough is staged to be put into the ring at once.
    pub(crate) fn is_stage_full(&self) -> bool {
        self.staged.len() >= BATCH_PACKETS
    }

    /// Says whether the ring has room for what is staged and one packet more. It never shrinks: only this side fills it.
    pub(crate) fn has_room(&self) -> bool {
        self.ring.slots() > self.staged.len()
    }

    /// Says whether another block may be announced.
    pub(crate) fn has_block_room(&self) -> bool {
        !self.blocks.is_full()
    }

    /// Stages a packet.
    #[inline]
    pub(crate) fn stage(&mut self, packet: Descriptor) {
        self.staged.push(packet);
        self.staged_packets += 1;
        self.taken_bytes += u64::from(packet.wire);
    }

    /// Puts what is staged into the ring, as far as there is room.
    pub(crate) fn flush(&mut self) -> Room {
        if self.staged.is_empty() {
            return Room::Free;
        }
        let room = self.ring.slots().min(self.staged.len());
        if room > 0 {
            let Ok(chunk) = self.ring.write_chunk_uninit(room) else {
                unreachable!("the ring has room for the chunk: only this thread fills it")
            };
            let mut messages = 0;
            chunk.fill_from_iter(
                self.staged
                    .drain(..room)
                    .inspect(|descriptor| messages += u64::from(descriptor.as_control().is_some())),
            );
            let packets = room as u64 - messages;
            self.sent += packets;
            self.staged_packets -= packets;
        }
        if self.staged.is_empty() {
            Room::Free
        } else if self.ring.is_abandoned() {
            Room::Gone
        } else {
            self.full_waits += 1;
            Room::Full
        }
    }

    /// Announces that the packets that follow lie in `block`. A worker that is gone needs no telling.
    pub(crate) fn next_block(&mut self, block: &SharedBlock, pass: u32) {
        if self.blocks.try_send((Arc::clone(block), pass)).is_ok() {
            self.staged.push(Descriptor::control(Control::NextBlock));
        }
    }

    /// Announces that nothing follows.
    pub(crate) fn end(&mut self) {
        self.staged.push(Descriptor::control(Control::End));
    }

    /// Forgets the packets that are staged, not the messages; tells each.
    pub(crate) fn discard(&mut self, mut on_packet: impl FnMut(Descriptor)) -> u64 {
        let mut bytes = 0;
        self.staged.retain(|descriptor| {
            let is_packet = descriptor.as_control().is_none();
            if is_packet {
                bytes += u64::from(descriptor.wire);
                on_packet(*descriptor);
            }
            !is_packet
        });
        self.taken_bytes -= bytes;
        std::mem::take(&mut self.staged_packets)
    }
}
