//! Blocks that hold copies of packets from several files. They are reused after all workers have
//! released them.

use std::sync::Arc;

use flowloom_packet::{BATCH_PACKETS, Block, PacketBatch, RawPacket, SharedBlock};

/// Size of a block in bytes. A longer packet is not copied.
const COPY_BYTES: usize = 64 << 10;
/// Number of blocks: one is filled, and workers may hold the others.
const COPIES: usize = 16;

/// The result of copying packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// This many packets were copied.
    Packets(usize),
    /// No packet: the batch or its block is full, or a packet is longer than a block.
    None,
    /// No packet: workers hold all blocks.
    NoBlock,
}

/// Copies packets into blocks.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The block of the batch that is being filled.
    filling: Option<Vec<u8>>,
    free: Vec<Vec<u8>>,
    /// Blocks that workers may hold.
    in_use: Vec<SharedBlock>,
}

impl Copies {
    /// Returns whether a batch is being filled, which has at least one packet.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Appends copies of packets in `block` to a batch: as many as fit, from the first one.
    pub(crate) fn take_in(
        &mut self,
        packets: &[RawPacket],
        block: &[u8],
        batch: &mut PacketBatch,
    ) -> Copied {
        let fits = |used: usize, packet: &RawPacket| used + packet.captured_bytes as usize <= COPY_BYTES;
        if self.filling.is_none() {
            if !packets.first().is_some_and(|packet| fits(0, packet)) {
                return Copied::None;
            }
            self.filling = self.free_buffer();
        }
        let Some(buffer) = &mut self.filling else { return Copied::NoBlock };
        let before = batch.packets.len();
        for packet in packets {
            if batch.packets.len() == BATCH_PACKETS || !fits(buffer.len(), packet) {
                break;
            }
            batch.packets.push(RawPacket { position: buffer.len() as u64, ..*packet });
            buffer.extend_from_slice(packet.bytes_in(block));
        }
        match batch.packets.len() - before {
            0 => Copied::None,
            packets => Copied::Packets(packets),
        }
    }

    /// Attaches the block to a batch that is being filled. Returns whether there is such a batch.
    pub(crate) fn finish(&mut self, batch: &mut PacketBatch) -> bool {
        let Some(buffer) = self.filling.take() else { return false };
        let block = Arc::new(Block::Owned(buffer));
        self.in_use.push(Arc::clone(&block));
        batch.block = Some(block);
        batch.block_number += 1;
        true
    }

    /// Returns an empty buffer, unless workers hold all of them.
    fn free_buffer(&mut self) -> Option<Vec<u8>> {
        if self.free.is_empty() {
            self.in_use.retain_mut(|block| match Arc::get_mut(block) {
                Some(Block::Owned(buffer)) => {
                    buffer.clear();
                    self.free.push(std::mem::take(buffer));
                    false
                }
                _ => true,
            });
        }
        match self.free.pop() {
            None if self.in_use.len() < COPIES => Some(Vec::with_capacity(COPY_BYTES)),
            buffer => buffer,
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_packet::{InterfaceName, LinkType};

    use super::*;

    fn packet(position: u64, captured_bytes: u32) -> RawPacket {
        let (link, interface) = (LinkType::RAW, InterfaceName::UNKNOWN);
        RawPacket { position, captured_bytes, wire_bytes: 9000, time_ns: position, link, interface }
    }

    #[test]
    fn copies_keep_bytes_and_fill_a_block_or_a_batch() {
        let block: Vec<u8> = (0..40_000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
        let (mut copies, mut batch) = (Copies::default(), PacketBatch::new());
        let packets = [packet(10, 30_000), packet(1, 0), packet(0, 30_000), packet(5, 30_000)];
        assert_eq!(copies.take_in(&packets, &block, &mut batch), Copied::Packets(3));
        assert_eq!(copies.take_in(&packets[3..], &block, &mut batch), Copied::None, "its block is full");
        assert!(copies.finish(&mut batch) && !copies.is_filling());
        let copied = batch.block.take().unwrap();
        for (before, after) in packets.iter().zip(&batch.packets) {
            assert_eq!(before.bytes_in(&block), after.bytes_in(copied.bytes()));
            assert_eq!((before.time_ns, before.wire_bytes), (after.time_ns, after.wire_bytes));
        }
        batch.packets.clear();
        let many = [packet(3, 20); 40];
        assert_eq!(copies.take_in(&many, &block, &mut batch), Copied::Packets(BATCH_PACKETS));
        assert_eq!(copies.take_in(&many, &block, &mut batch), Copied::None, "it is full");
        assert!(copies.finish(&mut batch));
        assert_eq!(copies.take_in(&[packet(0, 1 << 20)], &block, &mut PacketBatch::new()), Copied::None);
        assert!(!copies.finish(&mut batch), "nothing was copied");
    }

    #[test]
    fn blocks_are_refilled_once_released() {
        let mut copies = Copies::default();
        let mut held = Vec::new();
        for _ in 0..COPIES {
            let mut batch = PacketBatch::new();
            assert_eq!(copies.take_in(&[packet(0, 4)], &[1; 4], &mut batch), Copied::Packets(1));
            assert!(copies.finish(&mut batch));
            held.push(batch.block.unwrap());
        }
        let mut batch = PacketBatch::new();
        assert_eq!(copies.take_in(&[packet(0, 4)], &[2; 4], &mut batch), Copied::NoBlock);
        held.truncate(3);
        for _ in 3..COPIES {
            batch = PacketBatch::new();
            assert_eq!(copies.take_in(&[packet(0, 4)], &[2; 4], &mut batch), Copied::Packets(1));
            assert!(copies.finish(&mut batch));
            held.push(batch.block.unwrap());
        }
        assert!(held[..3].iter().all(|block| block.bytes() == [1; 4]), "what is held stays as it is");
        assert!(held[3..].iter().all(|block| block.bytes() == [2; 4]));
    }
}
