//! A plain file as one block of the arena, without copying a byte.
#![expect(unsafe_code, reason = "mapping a file; the only unsafe room of this crate")]

use std::fs::File;
use std::sync::Arc;

use flowloom_packet::{Block, SharedBlock};
use memmap2::Mmap;

/// Returns a mapping of the whole file as a block.
///
/// Another process that cuts the file short while it is mapped makes reads beyond the new end fault (SIGBUS):
/// nothing in this process can prevent it. Read such files as a stream ([`CaptureOptions::map`](super::CaptureOptions::map)).
///
/// Asking for the pages ahead of the walk (`MADV_POPULATE_READ`) was measured and gains nothing over the kernel's own
/// fault-around.
pub(super) fn map(file: &File) -> std::io::Result<SharedBlock> {
    // SAFETY: the mapping is private and read-only, so nothing in this process writes through it. `Mmap`
    // asks that no other process changes the file; a change of contents is seen as other packet bytes,
    // which every reader here takes for untrusted anyway, and a cut is the documented fault above.
    let map = unsafe { Mmap::map(file)? };
    // Advice is a hint; a kernel without it reads ahead as it likes.
    #[cfg(unix)]
    let _ = map.advise(memmap2::Advice::Sequential);
    Ok(Arc::new(Block::Foreign(Box::new(map))))
}
