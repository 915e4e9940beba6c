//! Packets in memory, as a source of the engine.

use std::sync::Arc;

use flowloom_packet::{
    BATCH_PACKETS, Block, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, RawPacket, SharedBlock,
    SourceError,
};

/// Packets in one block.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) block: SharedBlock,
    pub(crate) packets: Vec<RawPacket>,
    at: usize,
}

impl Memory {
    /// Returns Ethernet frames with their times. Up to `snap_bytes` of each are captured.
    pub(crate) fn of_frames(frames: impl Iterator<Item = (u64, Vec<u8>)>, snap_bytes: usize) -> Self {
        let (mut bytes, mut packets) = (Vec::new(), Vec::new());
        for (time_ns, frame) in frames {
            let captured = &frame[..frame.len().min(snap_bytes)];
            packets.push(RawPacket {
                position: bytes.len() as u64,
                captured_bytes: u32::try_from(captured.len()).unwrap(),
                wire_bytes: u32::try_from(frame.len()).unwrap(),
                time_ns,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
            bytes.extend_from_slice(captured);
        }
        Self { block: Arc::new(Block::Owned(bytes)), packets, at: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns the packets from one number on up to another.
    pub(crate) fn between(&self, begin: usize, end: usize) -> Self {
        let packets = self.packets[..end.max(begin)].to_vec();
        Self { block: Arc::clone(&self.block), packets, at: begin }
    }
}

impl PacketSource for Memory {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        let rest = &self.packets[self.at..];
        if rest.is_empty() {
            return Ok(Fill::End);
        }
        batch.packets.extend(rest.iter().take(BATCH_PACKETS));
        batch.block = Some(Arc::clone(&self.block));
        batch.block_number = 1;
        self.at += batch.packets.len();
        Ok(Fill::Packets)
    }
}
