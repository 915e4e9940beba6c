//! What the sharded layout needs of an input: consecutive parts, and which of them were read from the true state.

use flowloom_packet::{PacketSource, SourceError};

/// An input in consecutive parts.
///
/// Where a part begins may be assumed. Each part says at its end what it read, and from that the input tells which parts
/// did not begin where the one before them ended: these are read again.
pub trait PartitionedSource: Sync {
    /// The state of the input between two packets: where it is, and what later packets depend on.
    type Boundary: Clone + Send + Sync;
    /// What a part read, without its packets.
    type Read: Send;
    /// One part.
    type Part: PartSource<Read = Self::Read>;

    /// Returns the number of parts, at least one.
    fn parts(&self) -> usize;

    /// Opens a part where it is assumed to begin.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    fn open(&self, part: usize) -> Result<Self::Part, SourceError>;

    /// Opens a part at another boundary.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    fn open_at(&self, part: usize, begin: Self::Boundary) -> Result<Self::Part, SourceError>;

    /// Returns where a part that was read began.
    fn begin(&self, read: &Self::Read) -> Self::Boundary;

    /// Returns which of the first parts were not read from the state that the part before them ended in, and where each
    /// is to begin. The first one returned is right once it is read again; the others should begin where they probably do.
    fn unconfirmed(&self, reads: &[Self::Read]) -> Vec<(usize, Self::Boundary)>;
}

/// A part of an input, as a source.
pub trait PartSource: PacketSource + Send {
    /// What it read.
    type Read;

    /// Returns what it read, once it has ended or is left.
    fn finish(self) -> Self::Read;
}
