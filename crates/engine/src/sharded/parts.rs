//! The traits of an input that the sharded layout can read in consecutive parts.

use flowloom_packet::{PacketSource, SourceError};

/// An input that can be read in consecutive parts.
///
/// The start of a part may be an assumption. Each part returns a description of what it read. From
/// these the input determines which parts did not begin where the previous part ended, and the
/// engine reads those again.
pub trait PartitionedSource: Sync {
    /// The state of the input between two packets: its position, and all state on which later
    /// packets depend.
    type Boundary: Clone + Send + Sync;
    /// The description of what a part has read, without its packets.
    type Read: Send;
    /// One part.
    type Part: PartSource<Read = Self::Read>;

    /// Returns the number of parts, at least one.
    fn parts(&self) -> usize;

    /// Opens a part at its assumed beginning.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the part cannot be opened.
    fn open(&self, part: usize) -> Result<Self::Part, SourceError>;

    /// Opens a part at another boundary.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the part cannot be opened.
    fn open_at(&self, part: usize, begin: Self::Boundary) -> Result<Self::Part, SourceError>;

    /// Returns the boundary at which a part began.
    fn begin(&self, read: &Self::Read) -> Self::Boundary;

    /// Returns which parts were not read from the end state of the previous part, each with the
    /// boundary at which it must begin. `reads` describes the parts from the first one on. Reading
    /// the first returned part again corrects it; the boundaries of the others are the most likely
    /// ones.
    fn unconfirmed(&self, reads: &[Self::Read]) -> Vec<(usize, Self::Boundary)>;
}

/// A part of an input, as a source.
pub trait PartSource: PacketSource + Send {
    /// The description of what the part has read.
    type Read;

    /// Returns what the part has read, at its end or when the run stops.
    fn finish(self) -> Self::Read;
}
