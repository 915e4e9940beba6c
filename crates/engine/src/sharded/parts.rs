//! What the sharded layout needs of an input: consecutive parts, and how to tell that they join.

use flowloom_packet::{PacketSource, SourceError};

/// An input in consecutive parts.
pub trait CutSource: Sync {
    /// The state of the input between two packets: where it is, and whatever later packets depend on.
    type Boundary: Clone + PartialEq + Send + Sync;
    /// One part.
    type Part: PartSource<Boundary = Self::Boundary>;

    /// Returns the number of parts, at least one.
    fn parts(&self) -> usize;

    /// Opens a part where it is assumed to begin.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    fn open(&self, part: usize) -> Result<Self::Part, SourceError>;

    /// Opens a part where the part before really ended.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    fn open_at(&self, part: usize, boundary: &Self::Boundary) -> Result<Self::Part, SourceError>;
}

/// A part of an input.
pub trait PartSource: PacketSource + Send {
    /// The state of the input between two packets.
    type Boundary;

    /// Returns the state it begins in.
    fn begin(&self) -> Self::Boundary;

    /// Returns the state it ended in, once it has ended: where the next part begins.
    fn end(&self) -> Self::Boundary;
}
