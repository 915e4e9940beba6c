//! A plain file as one block of the arena, without copying a byte.
#![expect(unsafe_code, reason = "mapping a file")]

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{Block, SharedBlock};
use memmap2::Mmap;

#[cfg(target_os = "linux")]
use super::bus_error::Registration;

/// A mapping of a whole file, as long as the file was when it was mapped.
///
/// Another process may cut the file short meanwhile. [`Mapping::left`] says how much is left;
/// reads behind it find zeros where [`guard_against_truncation`](super::guard_against_truncation)
/// was called, and end the process otherwise.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    block: SharedBlock,
    mapped: Arc<MappedFile>,
    /// The file header or section header, as it was when the file was mapped: later passes begin
    /// with it.
    head: Arc<[u8]>,
}

// The order of the fields is the order in which they are dropped: the registration needs both
// others.
#[derive(Debug)]
struct MappedFile {
    #[cfg(target_os = "linux")]
    registration: Option<Registration>,
    map: Mmap,
    file: File,
}

/// What is left of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Bytes up to the first one that is lost.
    pub(super) bytes: usize,
    /// What is lost lies within the file: the storage failed.
    pub(super) is_unreadable: bool,
}

/// The bytes of a mapping, as a block keeps them.
struct Bytes(Arc<MappedFile>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

/// Lets captures that are cut short while they are mapped end where they were cut.
///
/// Without it a read beyond the new end of a mapped file ends the process (SIGBUS). With it the
/// capture ends with [`Notice::CutRecord`](super::Notice::CutRecord). Call it once, before captures
/// are opened: it installs a handler of SIGBUS for the whole process, which passes on every signal
/// that is not about a mapped capture. Packets that were yielded before the file was cut may read
/// as zeros.
///
/// Only Linux has it; elsewhere this does nothing, and files that may be cut are read with
/// [`CaptureOptions::map`](super::CaptureOptions::map) off.
///
/// # Errors
///
/// Why the system installs no handler.
///
/// # Examples
///
/// ```
/// flowloom_traffic::capture::guard_against_truncation()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn guard_against_truncation() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    super::bus_error::install()?;
    Ok(())
}

impl Mapping {
    /// Maps the whole file, which begins with `head`.
    ///
    /// # Errors
    ///
    /// Where the file system cannot map.
    pub(super) fn new(file: File, head: &[u8]) -> io::Result<Self> {
        // SAFETY: the mapping is private and read-only, so nothing in this process writes through
        // it. `Mmap` asks that no other process changes the file; a change of contents is seen as
        // other packet bytes, which every reader here takes for untrusted anyway, and a cut is a
        // fault as documented above.
        let map = unsafe { Mmap::map(&file)? };
        // Advice is a hint; a kernel without it reads ahead as it likes.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Sequential);
        let mapped = Arc::new(MappedFile {
            #[cfg(target_os = "linux")]
            registration: Registration::new(&file, &map),
            map,
            file,
        });
        let block = Arc::new(Block::Foreign(Box::new(Bytes(Arc::clone(&mapped)))));
        Ok(Self { block, mapped, head: head.into() })
    }

    /// Returns the same mapping with a block of its own: threads that count users of one block would wait for each other.
    pub(super) fn with_own_block(&self) -> Self {
        let block = Arc::new(Block::Foreign(Box::new(Bytes(Arc::clone(&self.mapped)))));
        Self { block, ..self.clone() }
    }

    /// Returns the block that the file is.
    pub(super) fn block(&self) -> &SharedBlock {
        &self.block
    }

    /// Returns the file header or section header.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the file.
    #[cfg(target_os = "linux")]
    pub(super) fn file(&self) -> &File {
        &self.mapped.file
    }

    /// Behaves as if the storage had failed at `offset`.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn fail_at(&self, offset: usize) {
        let registration = self.mapped.registration.as_ref().expect("the handler is installed");
        registration.lose(self.block.bytes()[offset..].as_ptr().addr());
    }

    /// Returns how many handles of the mapping there are.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn users(&self) -> usize {
        Arc::strong_count(&self.block)
    }

    /// Says whether a read has found that bytes before `end` are lost.
    #[inline]
    pub(super) fn is_lost_before(&self, end: usize) -> bool {
        self.lost_from().is_some_and(|offset| offset < end as u64)
    }

    #[inline]
    fn lost_from(&self) -> Option<u64> {
        #[cfg(target_os = "linux")]
        return self.mapped.registration.as_ref().and_then(Registration::lost_from);
        #[cfg(not(target_os = "linux"))]
        None
    }

    fn is_unreadable(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.mapped.registration.as_ref().is_some_and(Registration::is_unreadable);
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Returns what of the mapping is still that of the file.
    pub(super) fn left(&self) -> Left {
        let mapped_bytes = self.mapped.map.len();
        // A file system that cannot tell the length leaves it to the reads to find out.
        let file_bytes = self.mapped.file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let bytes = file_bytes.min(self.lost_from().unwrap_or(u64::MAX));
        Left {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX).min(mapped_bytes),
            is_unreadable: self.is_unreadable(),
        }
    }

    /// Reads the pages of `range` into memory and maps them. A range of whole pages, or one that
    /// ends with the file.
    ///
    /// # Errors
    ///
    /// Where a page is beyond the end of a file that was cut, or the kernel does not know this
    /// advice.
    #[cfg(target_os = "linux")]
    pub(super) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let end = range.end.min(self.mapped.map.len());
        if range.start >= end {
            return Ok(());
        }
        self.mapped.map.advise_range(memmap2::Advice::PopulateRead, range.start, end - range.start)
    }
}
