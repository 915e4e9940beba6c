//! Batches of descriptors. The input stage decodes each batch once, and every worker receives its
//! own part.
//!
//! ```text
//!  input stage ─ decode ─▶ batch: 64 descriptors, block ─┬─ ring ─ (batch, 0b…0110) ─▶ worker 0
//!                                                       └─ ring ─ (batch, 0b…1001) ─▶ worker 1
//! ```
//!
//! The decoder writes a descriptor once, and a ring moves sixteen bytes per batch. Workers do not
//! write to a batch. The input stage refills it once no worker holds it.

use std::collections::VecDeque;
use std::sync::Arc;

use flowloom_cpu::prefetch;
use flowloom_cpu::stream::{self, Writer};
use flowloom_packet::{BATCH_PACKETS, OpenBlock, PacketView, SharedBlock};

use crate::batch::packet::{PacketDescriptor, PacketRef};

/// Number of descriptors in a batch. It holds two batches of the source, because CPUs exchange
/// cache lines once per batch of descriptors.
pub(crate) const BATCH_DESCRIPTORS: usize = 2 * BATCH_PACKETS;

/// Packets that were decoded together, and the block that holds their bytes.
///
/// It starts at a cache line, so that readers of descriptors do not contend with the reference
/// count before it. The decoder writes whole lines with [non-temporal stores](stream), because
/// workers have read each line since its last write.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct DescriptorBatch {
    descriptors: [[u64; PacketDescriptor::WORDS]; BATCH_DESCRIPTORS],
    pub(crate) block: Option<SharedBlock>,
    len: usize,
}

const _: () = assert!(align_of::<DescriptorBatch>() == prefetch::LINE_BYTES, "a batch begins a line");

impl Default for DescriptorBatch {
    fn default() -> Self {
        Self { descriptors: [[0; PacketDescriptor::WORDS]; BATCH_DESCRIPTORS], block: None, len: 0 }
    }
}

impl DescriptorBatch {
    /// Prefetches the lines of descriptor `i`.
    #[inline(always)]
    fn fetch(&self, i: usize) {
        let descriptor = std::ptr::from_ref(&self.descriptors[i]);
        prefetch::read(descriptor);
        prefetch::read(descriptor.wrapping_byte_add(prefetch::LINE_BYTES));
    }

    /// Fills the empty batch with the packets that `work` writes. If `work` panics, the batch stays
    /// empty.
    #[inline(always)]
    pub(crate) fn fill(&mut self, work: impl FnOnce(&mut Writer<'_, { PacketDescriptor::WORDS }>)) {
        self.len = stream::past_caches(&mut self.descriptors, |writer| {
            work(writer);
            writer.written()
        });
    }

    /// Returns descriptor `i`.
    #[inline(always)]
    pub(crate) fn descriptor(&self, i: usize) -> PacketDescriptor {
        PacketDescriptor::of_words(&self.descriptors[i])
    }

    /// Iterates over the descriptors of the batch.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PacketDescriptor> {
        self.descriptors[..self.len].iter().map(PacketDescriptor::of_words)
    }

    /// Returns the block that holds the packets' bytes.
    pub(crate) fn open(&self) -> OpenBlock<'_> {
        self.block.as_ref().map_or_else(OpenBlock::default, |block| block.open())
    }

    /// Sets the sequence number of descriptor `i` in its shard.
    pub(crate) fn set_sequence(&mut self, i: usize, sequence: u32) {
        let tag = &mut self.descriptors[i][PacketDescriptor::TAG];
        *tag = PacketRef::tag_with_sequence(*tag, sequence);
    }
}

/// The packets of a batch that one worker has to process.
#[derive(Debug)]
pub(crate) struct BatchPart {
    pub(crate) batch: Arc<DescriptorBatch>,
    /// Bit `i` represents descriptor `i`. The mask is never 0.
    pub(crate) mask: u64,
}

const _: () = assert!(BATCH_DESCRIPTORS <= u64::BITS as usize, "a bit for each packet of a batch");

/// The input stage's descriptor batches: those that workers hold, and a few free ones.
#[derive(Debug, Default)]
pub(crate) struct BatchPool {
    in_use: VecDeque<Arc<DescriptorBatch>>,
    free: Vec<Arc<DescriptorBatch>>,
}

impl BatchPool {
    /// Returns an empty batch that nothing else holds.
    pub(crate) fn lend(&mut self) -> Arc<DescriptorBatch> {
        // Two checks for each batch lent keep at least half of the batches in `in_use` really in
        // use.
        self.collect(2);
        self.free.pop().unwrap_or_default()
    }

    /// Records a batch whose parts workers hold.
    pub(crate) fn sent(&mut self, batch: Arc<DescriptorBatch>) {
        self.in_use.push_back(batch);
    }

    /// Returns how many batches workers may hold: at most twice the true number, and a few.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.len()
    }

    /// Takes back all batches that no worker holds, so that the input stage can refill their
    /// blocks.
    pub(crate) fn collect_all(&mut self) {
        self.collect(self.in_use.len());
    }

    fn collect(&mut self, looks: usize) {
        for _ in 0..looks {
            // Workers write the reference count, so the line of a later batch is prefetched
            // meanwhile.
            if let Some(later) = self.in_use.get(looks) {
                prefetch::write(Arc::as_ptr(later).wrapping_byte_sub(prefetch::LINE_BYTES));
            }
            let Some(mut batch) = self.in_use.pop_front() else { break };
            match Arc::get_mut(&mut batch) {
                Some(empty) => {
                    empty.block = None;
                    empty.len = 0;
                    self.free.push(batch);
                }
                None => self.in_use.push_back(batch),
            }
        }
    }
}

/// A packet that arrived before an earlier packet of its shard was processed.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) batch: Arc<DescriptorBatch>,
    /// The index of the packet in the batch.
    pub(crate) at: u8,
    /// The worker that the input stage sent it to.
    pub(crate) worker: u16,
}

/// The packets that a worker has taken from its ring at a time.
#[derive(Debug)]
pub(crate) struct Received {
    parts: Vec<BatchPart>,
    /// The index of the part, and the index in its batch, of each packet in arrival order.
    picks: Vec<(u8, u8)>,
    packets_max: usize,
}

impl Received {
    /// Returns an empty set of at most `packets_max` packets, from one batch to 255.
    pub(crate) fn new(packets_max: usize) -> Self {
        assert!((BATCH_DESCRIPTORS..=255).contains(&packets_max), "a part fits, and a place is a byte");
        Self { parts: Vec::with_capacity(packets_max), picks: Vec::with_capacity(packets_max), packets_max }
    }

    /// Returns whether the packets of a part still fit.
    pub(crate) fn fits(&self, part: &BatchPart) -> bool {
        self.picks.len() + part.mask.count_ones() as usize <= self.packets_max
    }

    /// Adds the packets of a part.
    #[inline]
    pub(crate) fn add(&mut self, part: BatchPart) {
        let number = self.parts.len() as u8;
        let mut mask = part.mask;
        while mask != 0 {
            let place = mask.trailing_zeros() as u8;
            part.batch.fetch(usize::from(place));
            self.picks.push((number, place));
            mask &= mask - 1;
        }
        self.parts.push(part);
    }

    /// Removes all packets.
    pub(crate) fn clear(&mut self) {
        self.picks.clear();
        self.parts.clear();
    }

    /// Returns the number of packets.
    pub(crate) fn len(&self) -> usize {
        self.picks.len()
    }

    /// Returns the sum of the packets' bytes on the wire.
    pub(crate) fn wire_bytes(&self) -> u64 {
        (0..self.len()).map(|i| u64::from(self.descriptor(i).packet.wire)).sum()
    }

    /// Returns the descriptor of packet `i`.
    #[inline(always)]
    pub(crate) fn descriptor(&self, i: usize) -> PacketDescriptor {
        let (part, place) = self.picks[i];
        self.parts[usize::from(part)].batch.descriptor(usize::from(place))
    }

    /// Returns packet `i`, which was sent to `worker`, in the form that a sequencer keeps.
    pub(crate) fn parked(&self, i: usize, worker: u16) -> Parked {
        let (part, at) = self.picks[i];
        Parked { batch: Arc::clone(&self.parts[usize::from(part)].batch), at, worker }
    }

    /// Opens the blocks that hold the packets: once for each part, not for each packet.
    #[inline]
    pub(crate) fn open<const PARTS: usize>(&self) -> Open<'_, PARTS> {
        let mut blocks = [OpenBlock::default(); PARTS];
        for (block, part) in blocks.iter_mut().zip(&self.parts) {
            *block = part.batch.open();
        }
        Open { received: self, blocks }
    }
}

/// Received packets with the blocks that hold their bytes, in at most `PARTS` parts.
pub(crate) struct Open<'a, const PARTS: usize> {
    received: &'a Received,
    blocks: [OpenBlock<'a>; PARTS],
}

impl<'a, const PARTS: usize> Open<'a, PARTS> {
    /// Returns the number of packet `i` and the packet as applications see it.
    #[inline(always)]
    pub(crate) fn view(&self, i: usize) -> (u64, PacketView<'a>) {
        self.received.descriptor(i).view(self.block(i))
    }

    /// Prefetches the lines of packet `i` that an application may read first.
    #[inline(always)]
    pub(crate) fn request(&self, i: usize) {
        self.received.descriptor(i).request(self.block(i).bytes);
    }

    #[inline(always)]
    fn block(&self, i: usize) -> OpenBlock<'a> {
        self.blocks[usize::from(self.received.picks[i].0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_used_again_only_when_no_worker_holds_it() {
        let mut pool = BatchPool::default();
        let batch = pool.lend();
        let part = BatchPart { batch: Arc::clone(&batch), mask: 1 };
        let first = Arc::as_ptr(&batch);
        pool.sent(batch);
        let second = pool.lend();
        assert_ne!(Arc::as_ptr(&second), first, "a worker has the first");
        pool.sent(second);
        drop(part);
        pool.collect_all();
        assert_eq!((pool.in_use.len(), pool.free.len()), (0, 2));
    }

    #[test]
    fn one_slow_worker_does_not_keep_the_pool_of_the_others() {
        let mut pool = BatchPool::default();
        let slow = pool.lend();
        let held = BatchPart { batch: Arc::clone(&slow), mask: 1 };
        pool.sent(slow);
        for _ in 0..1000 {
            let batch = pool.lend();
            pool.sent(batch);
        }
        assert!(pool.in_use.len() + pool.free.len() <= 4, "{pool:?}");
        drop(held);
    }
}
