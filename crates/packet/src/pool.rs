//! The blocks of a source that copies packets as they arrive.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::arena::{Block, SharedBlock};
use crate::source::{BATCH_PACKETS, PacketBatch, RawPacket};

/// Maximum number of packets per block.
const BLOCK_PACKETS: usize = 256;
/// Size in bytes at which a block accepts no further packet.
const BLOCK_BYTES: usize = 128 << 10;
/// Maximum number of blocks: 16 MiB for usual packets, plus up to one packet per block.
const BLOCKS_MAX: usize = 128;

/// At most 128 blocks of at most 256 packets, for a source that copies packets as they arrive. A
/// block is filled again after every worker has released it.
///
/// # Examples
///
/// ```
/// use flowloom_packet::{BlockPool, InterfaceName, LinkType, PacketBatch, RawPacket};
///
/// let mut arrived = vec![vec![0; 60], vec![1; 90]].into_iter();
/// let mut pool = BlockPool::new();
/// let is_filled = pool.refill(|bytes, packets| {
///     let Some(frame) = arrived.next() else { return false };
///     packets.push(RawPacket {
///         position: bytes.len() as u64,
///         captured_bytes: frame.len() as u32,
///         wire_bytes: frame.len() as u32,
///         time_ns: 0,
///         link: LinkType::ETHERNET,
///         interface: InterfaceName::UNKNOWN,
///     });
///     bytes.extend(frame);
///     true
/// });
/// let mut batch = PacketBatch::new();
/// assert_eq!((is_filled, pool.pass_to(&mut batch)), (true, 2));
/// assert!(pool.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct BlockPool {
    /// The one filled last is at the end.
    blocks: VecDeque<SharedBlock>,
    /// The packets in the last block, and how many of them were passed on.
    packets: Vec<RawPacket>,
    at: usize,
}

impl BlockPool {
    /// Returns a pool without blocks, which allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether all packets were passed on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.packets.len()
    }

    /// Fills a block that no other holder has. Returns whether there is such a block; if not, the
    /// source is starved.
    ///
    /// `next` appends a packet to the block and its record to the list, and returns whether it may
    /// be called again. Packets that were not passed on are lost.
    pub fn refill(&mut self, mut next: impl FnMut(&mut Vec<u8>, &mut Vec<RawPacket>) -> bool) -> bool {
        let free = self.blocks.iter_mut().position(|block| Arc::get_mut(block).is_some());
        let mut block = match free.and_then(|at| self.blocks.remove(at)) {
            Some(block) => block,
            None if self.blocks.len() < BLOCKS_MAX => {
                Arc::new(Block::Owned(Vec::with_capacity(BLOCK_BYTES)))
            }
            None => return false,
        };
        self.packets.clear();
        self.at = 0;
        if let Some(Block::Owned(bytes)) = Arc::get_mut(&mut block) {
            bytes.clear();
            while self.packets.len() < BLOCK_PACKETS
                && bytes.len() < BLOCK_BYTES
                && next(bytes, &mut self.packets)
            {}
        }
        self.blocks.push_back(block);
        true
    }

    /// Appends the next packets to an empty batch, at most [`BATCH_PACKETS`], and returns their
    /// number.
    pub fn pass_to(&mut self, batch: &mut PacketBatch) -> usize {
        if self.at == 0 {
            batch.block_number += 1;
        }
        let end = self.packets.len().min(self.at + BATCH_PACKETS);
        let passed = &self.packets[self.at..end];
        batch.packets.extend_from_slice(passed);
        batch.block = self.blocks.back().map(Arc::clone);
        self.at = end;
        passed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InterfaceName, LinkType};

    /// Fills a block with `count` packets of four bytes that hold their numbers, from `first` on.
    fn fill(pool: &mut BlockPool, first: u32, count: u32) -> bool {
        let mut numbers = first..first + count;
        pool.refill(|bytes, packets| {
            let Some(number) = numbers.next() else { return false };
            packets.push(RawPacket {
                position: bytes.len() as u64,
                captured_bytes: 4,
                wire_bytes: 4,
                time_ns: u64::from(number),
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
            bytes.extend(number.to_be_bytes());
            true
        })
    }

    #[test]
    fn packets_stay_unchanged_while_their_block_is_held() {
        let mut pool = BlockPool::new();
        let mut held = Vec::new();
        let first_numbers = (0..).step_by(100);
        for first in first_numbers.clone().take(BLOCKS_MAX) {
            assert!(fill(&mut pool, first, 40));
            let mut batch = PacketBatch::new();
            assert_eq!(pool.pass_to(&mut batch), BATCH_PACKETS);
            held.push(batch);
            let mut rest = PacketBatch::new();
            assert_eq!((pool.pass_to(&mut rest), pool.is_empty()), (40 - BATCH_PACKETS, true));
        }
        assert!(!fill(&mut pool, 0, 1), "a block that is held was filled");
        for (first, batch) in first_numbers.zip(&held) {
            let block = batch.block.as_ref().unwrap().bytes();
            for (number, packet) in (first..).zip(&batch.packets) {
                assert_eq!(packet.bytes_in(block), u32::to_be_bytes(number));
            }
        }
        held.remove(5);
        assert!(fill(&mut pool, 7, 1));
    }

    #[test]
    fn a_block_has_a_bounded_number_of_packets_and_a_number_of_its_own() {
        let (mut pool, mut batch) = (BlockPool::new(), PacketBatch::new());
        for number in 1..4 {
            assert!(fill(&mut pool, 0, 1000));
            let mut passed = 0;
            while !pool.is_empty() {
                batch.packets.clear();
                passed += pool.pass_to(&mut batch);
            }
            assert_eq!((passed, batch.block_number), (BLOCK_PACKETS, number));
        }
    }
}
