//! A plain file as one block of the arena, without copying a byte.
#![expect(unsafe_code, reason = "mapping a file; the only unsafe room of this crate")]

use std::fs::File;
use std::sync::Arc;

use flowloom_packet::{Block, SharedBlock};
use memmap2::{Advice, Mmap};

/// Bytes whose pages are asked for at once.
///
/// A walk that meets an absent page pays a fault for every sixteen, and a prefetch into an absent page does nothing:
/// asking ahead took a fifth off the first pass over a cached file.
const WINDOW_BYTES: usize = 4 << 20;

/// A mapped file, and how far its pages were asked for.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    map: Arc<Mmap>,
    block: SharedBlock,
    present: usize,
}

/// The mapping as the arena sees it.
struct Shared(Arc<Mmap>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Mapping {
    /// Maps the whole file.
    ///
    /// Another process that cuts the file short while it is mapped makes reads beyond the new end fault (SIGBUS):
    /// nothing in this process can prevent it. Read such files as a stream (`--no-mmap`).
    pub(super) fn of(file: &File) -> std::io::Result<Self> {
        // SAFETY: the mapping is private and read-only, so nothing in this process writes through it. `Mmap`
        // asks that no other process changes the file; a change of contents is seen as other packet bytes,
        // which every reader here takes for untrusted anyway, and a cut is the documented fault above.
        let map = Arc::new(unsafe { Mmap::map(file)? });
        // Advice is a hint; a kernel without it reads ahead as it likes.
        let _ = map.advise(Advice::Sequential);
        let block = Arc::new(Block::Foreign(Box::new(Shared(Arc::clone(&map)))));
        Ok(Self { map, block, present: 0 })
    }

    /// Returns the mapping as a block.
    pub(super) fn block(&self) -> &SharedBlock {
        &self.block
    }

    /// Asks for the pages of the next windows, so that a walk at `position` does not fault on them.
    #[inline]
    pub(super) fn ahead_of(&mut self, position: usize) {
        if position + WINDOW_BYTES / 2 >= self.present && self.present < self.map.len() {
            self.next_window();
        }
    }

    #[cold]
    fn next_window(&mut self) {
        let length = WINDOW_BYTES.min(self.map.len() - self.present);
        // A kernel without this advice faults the pages in one by one, as it would have anyway.
        #[cfg(target_os = "linux")]
        let _ = self.map.advise_range(Advice::PopulateRead, self.present, length);
        self.present += length;
    }
}
