//! Captures in parts, as the engine processes them.

use flowloom::engine::{PartSource, PartitionedSource};
use flowloom::packet::{Fill, PacketBatch, PacketSource, SourceError};
use flowloom::traffic::capture::{Boundary, CapturePart, CaptureParts, PartRead};

/// Captures divided into parts.
pub(super) struct Cut<'a>(pub(super) &'a CaptureParts);

/// One of the parts.
pub(super) struct Part(CapturePart);

impl PacketSource for Part {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.0.next_batch(batch)
    }
}

impl PartSource for Part {
    type Read = PartRead;

    fn finish(self) -> PartRead {
        self.0.finish()
    }
}

impl PartitionedSource for Cut<'_> {
    type Boundary = Boundary;
    type Read = PartRead;
    type Part = Part;

    fn parts(&self) -> usize {
        self.0.len()
    }

    fn open(&self, part: usize) -> Result<Part, SourceError> {
        self.0.open(part).map(Part).map_err(|error| SourceError(Box::new(error)))
    }

    fn open_at(&self, part: usize, begin: Boundary) -> Result<Part, SourceError> {
        self.0.open_at(part, begin).map(Part).map_err(|error| SourceError(Box::new(error)))
    }

    fn begin(&self, read: &PartRead) -> Boundary {
        read.begin().clone()
    }

    fn unconfirmed(&self, reads: &[PartRead]) -> Vec<(usize, Boundary)> {
        self.0.unconfirmed(reads)
    }
}
