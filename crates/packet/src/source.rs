//! The seam between whatever yields packets and the engine's input stage.

use crate::arena::SharedBlock;
use crate::link::LinkType;

/// The most packets a batch holds: one indirect call is shared by that many.
///
/// Thirty-two packets of a usual mix span about 11 KiB, so what the walk prefetched is still in the first-level
/// cache when the decoder comes to it.
pub const BATCH_PACKETS: usize = 32;

/// A record of a capture, by its place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPacket {
    /// Offset of the first byte in the batch's block.
    pub position: u64,
    /// Bytes present.
    pub captured: u32,
    /// Bytes the packet had on the wire, as the record states it: may be less than `captured` in real files.
    pub wire: u32,
    /// Nanoseconds since 1970, as the record states it: may go backwards.
    pub time_ns: u64,
    /// Link type of the interface it was captured on.
    pub link: LinkType,
}

/// A batch of packets that lie in one block.
#[derive(Debug, Default)]
pub struct PacketBatch {
    /// Where the packets lie. `None` only in an empty batch.
    pub block: Option<SharedBlock>,
    /// Changes whenever `block` becomes another block (or the same block with other contents).
    pub block_number: u64,
    /// The round of a looped source, 0 for the first.
    pub pass: u32,
    /// At most [`BATCH_PACKETS`] records, in capture order.
    pub packets: Vec<RawPacket>,
}

impl PacketBatch {
    /// Returns an empty batch with room for [`BATCH_PACKETS`].
    pub fn new() -> Self {
        Self { packets: Vec::with_capacity(BATCH_PACKETS), ..Self::default() }
    }
}

/// What a call to [`PacketSource::next_batch`] left in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// At least one packet.
    Packets,
    /// Nothing, because every block of the source's pool is still held by workers: let them go on, then ask again.
    Starved,
    /// Nothing, and nothing more will come.
    End,
}

/// A source that cannot go on.
#[derive(Debug)]
pub struct SourceError(pub Box<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Something that yields packets in batches: a capture, a generator, a live interface.
pub trait PacketSource {
    /// Replaces the contents of `batch` by the next packets.
    ///
    /// # Errors
    ///
    /// When the source breaks in the middle. Packets yielded before stay valid; the source is not asked again.
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError>;
}
