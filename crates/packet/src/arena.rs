//! The memory that holds packet bytes.
//!
//! Bytes are loaded once: a mapped file is one large block, and a stream is read into recycled
//! blocks. From then on stages pass positions in a block. Blocks are reference-counted, once per
//! block and worker, never per packet. A source refills a block only when it holds the last
//! reference.

use std::sync::Arc;

/// A run of bytes that holds packets.
///
/// # Examples
///
/// ```
/// use flowloom_packet::Block;
///
/// let block = Block::Owned(vec![1, 2, 3]);
/// assert_eq!(block.bytes(), [1, 2, 3]);
/// ```
#[non_exhaustive]
pub enum Block {
    /// Bytes that the block owns.
    Owned(Vec<u8>),
    /// Bytes that lie elsewhere, such as a mapped file.
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
    /// A single packet that a source joined from fragments, and what they were on the wire.
    Datagram(Vec<u8>, Fragments),
}

/// The fragments of a datagram, as they were on the wire.
///
/// # Examples
///
/// ```
/// use flowloom_packet::{Block, Fragments};
/// let mut fragments = Fragments::default();
/// (fragments.packets, fragments.more_ip_bytes, fragments.first_ns) = (3, 40, 1_000_000);
/// let block = Block::Datagram(vec![0x45; 48], fragments);
/// assert_eq!(block.open().fragments.map(|fragments| fragments.packets), Some(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fragments {
    /// Number of fragments, duplicates included.
    pub packets: u32,
    /// The IP bytes of the fragments beyond those of the datagram. 0 if the datagram's flow is that
    /// of a packet inside it.
    pub more_ip_bytes: u32,
    /// The earliest of their time stamps, in nanoseconds since 1970.
    pub first_ns: u64,
    /// The latest of them.
    pub last_ns: u64,
}

/// The contents of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenBlock<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The fragments of the only packet, if a source joined it.
    pub fragments: Option<&'a Fragments>,
}

/// A block shared by the source and every worker that holds packets in it.
pub type SharedBlock = Arc<Block>;

impl Block {
    /// Returns the bytes. Call this once per batch: a foreign block costs an indirect call.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) | Self::Datagram(bytes, _) => bytes,
            Self::Foreign(bytes) => (**bytes).as_ref(),
        }
    }

    /// Returns the bytes with the fragments that they come from. Call this once per batch, as
    /// [`Self::bytes`].
    #[inline]
    pub fn open(&self) -> OpenBlock<'_> {
        let fragments = if let Self::Datagram(_, fragments) = self { Some(fragments) } else { None };
        OpenBlock { bytes: self.bytes(), fragments }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Owned(_) => "owned",
            Self::Foreign(_) => "foreign",
            Self::Datagram(..) => "datagram",
        };
        write!(f, "Block({kind}, {} bytes)", self.bytes().len())
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

/// Returns `captured` bytes of a block from a position on, or an empty slice if they do not lie in
/// the block.
#[inline(always)]
pub fn bytes_at(block: &[u8], position: u64, count: u32) -> &[u8] {
    // A position that does not fit into `usize` lies in no block.
    let start = usize::try_from(position).unwrap_or(usize::MAX);
    block.get(start..).and_then(|rest| rest.get(..count as usize)).unwrap_or_else(nothing)
}

/// Marks the unlikely path. Without it the compiler computes both paths for each packet.
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
    fn packet_outside_its_block_has_no_bytes() {
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
