//! The traits of an input that the sharded layout can read in consecutive parts.

use flowloom_packet::{PacketSource, SourceError};

/// An input that can be read in consecutive parts.
///
/// The beginning of a part may be an assumption. Each part returns at its end what it read. From
/// these the input tells which parts did not begin where the part before ended, and the engine
/// reads these again.
pub trait PartitionedSource: Sync {
    /// The state of the input between two packets: its position, and everything that later packets
    /// depend on.
    type Boundary: Clone + Send + Sync;
    /// What a part has read, without its packets.
    type Read: Send;
    /// One part.
    type Part: PartSource<Read = Self::Read>;

    /// Returns the number of parts, at least one.
    fn parts(&self) -> usize;

    /// Opens a part at its assumed beginning.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the part cannot be opened.
    fn open(&self, part: usize) -> Result<Self::Part, SourceError>;

    /// Opens a part at another boundary.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the part cannot be opened.
    fn open_at(&self, part: usize, begin: Self::Boundary) -> Result<Self::Part, SourceError>;

    /// Returns where a part that was read began.
    fn begin(&self, read: &Self::Read) -> Self::Boundary;

    /// Returns which of the first parts were not read from the state in which the part before them
    /// ended, with the boundary where each must begin. Reading the first of them again makes it
    /// right; the boundaries of the others are the most likely ones.
    fn unconfirmed(&self, reads: &[Self::Read]) -> Vec<(usize, Self::Boundary)>;
}

/// A part of an input, as a source.
pub trait PartSource: PacketSource + Send {
    /// What the part has read.
    type Read;

    /// Returns what the part has read, at its end or when the run stops reading it.
    fn finish(self) -> Self::Read;
}
