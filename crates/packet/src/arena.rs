//! Where packet bytes lie.
//!
//! Bytes are loaded once: a mapped file is one large block, a stream is read into recycled blocks. What
//! travels afterwards is a position in a block. A block is shared by counting references, once per
//! block and worker, never per packet; it is refilled only when its source holds the last reference.

use std::sync::Arc;

/// A run of bytes that packets lie in.
#[non_exhaustive]
pub enum Block {
    /// Bytes that the source owns and may refill once nobody else holds the block.
    Owned(Vec<u8>),
    /// Bytes that lie elsewhere, such as a mapped file.
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
}

/// A block held by the source and by every worker that still has packets in it.
pub type SharedBlock = Arc<Block>;

impl Block {
    /// Returns the bytes. Take the slice once per batch: a foreign block costs an indirect call.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Foreign(bytes) => (**bytes).as_ref(),
        }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Owned(_) => "owned",
            Self::Foreign(_) => "foreign",
        };
        write!(f, "Block({kind}, {} bytes)", self.bytes().len())
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

/// Returns so many bytes of a block; none where they do not lie in it.
#[inline(always)]
pub fn bytes_at(block: &[u8], position: u64, count: u32) -> &[u8] {
    // A position that does not fit this machine lies in no block.
    let start = usize::try_from(position).unwrap_or(usize::MAX);
    block.get(start..).and_then(|rest| rest.get(..count as usize)).unwrap_or_else(nothing)
}

/// Marks what is not to be expected: without it both ways are computed for each packet.
#[cold]
fn nothing<'a>() -> &'a [u8] {
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_shows_its_kind_and_length_and_not_its_bytes() {
        let foreign: Box<dyn AsRef<[u8]> + Send + Sync> = Box::new([1, 2]);
        for (block, bytes, shown) in [
            (Block::Owned(vec![1, 2, 3]), &[1, 2, 3][..], "Block(owned, 3 bytes)"),
            (Block::Foreign(foreign), &[1, 2], "Block(foreign, 2 bytes)"),
            (Block::default(), &[], "Block(owned, 0 bytes)"),
        ] {
            assert_eq!((block.bytes(), format!("{block:?}").as_str()), (bytes, shown));
        }
    }

    #[test]
    fn what_does_not_lie_in_a_block_has_no_bytes() {
        let block = [1, 2, 3];
        for (position, count, bytes) in [
            (0, 3, &[1, 2, 3][..]),
            (1, 1, &[2]),
            (3, 0, &[]),
            (0, 4, &[]),
            (2, 2, &[]),
            (4, 0, &[]),
            (u64::MAX, 1, &[]),
            (u64::MAX - 2, u32::MAX, &[]),
        ] {
            assert_eq!(bytes_at(&block, position, count), bytes, "{position} {count}");
        }
    }
}
