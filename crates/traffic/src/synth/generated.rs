//! A generator as a source.

use std::fmt;
use std::sync::Arc;

use flowloom_packet::{
    BATCH_PACKETS, Block, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, RawPacket, SourceError,
};

use super::Generate;

/// Makes the packets of a generator available as a source, for an engine without a file.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::packet::{Fill, PacketBatch, PacketSource};
/// use flowloom_traffic::synth::{Generated, Mix, MixConfig};
/// let mix = MixConfig { flows: 10, packets: 100, ..MixConfig::default() };
/// let mut source = Generated::new(Mix::new(mix)?);
/// let (mut batch, mut packets) = (PacketBatch::new(), 0);
/// while source.next_batch(&mut batch)? != Fill::End {
///     packets += batch.packets.len();
/// }
/// assert_eq!(packets, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Generated<G> {
    generator: G,
    frame: Vec<u8>,
}

impl<G: Generate> Generated<G> {
    /// Returns a source of all remaining packets of `generator`. Each batch has its own block.
    pub fn new(generator: G) -> Self {
        Self { generator, frame: Vec::new() }
    }
}

impl<G: fmt::Debug> fmt::Debug for Generated<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generated").field("generator", &self.generator).finish_non_exhaustive()
    }
}

impl<G: Generate> PacketSource for Generated<G> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        let mut bytes = Vec::new();
        while batch.packets.len() < BATCH_PACKETS
            && let Some(meta) = self.generator.next_into(&mut self.frame)
        {
            batch.packets.push(RawPacket {
                position: bytes.len() as u64,
                captured_bytes: self.frame.len() as u32,
                wire_bytes: meta.wire_bytes,
                time_ns: meta.time_ns,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
            bytes.extend_from_slice(&self.frame);
        }
        if batch.packets.is_empty() {
            return Ok(Fill::End);
        }
        // A stage that still reads the previous block keeps it alive.
        batch.block = Some(Arc::new(Block::Owned(bytes)));
        batch.block_number += 1;
        Ok(Fill::Packets)
    }
}
