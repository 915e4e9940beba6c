//! Maps a plain file as one block of the arena, without copying.
#![expect(unsafe_code, reason = "mapping a file")]

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::sync::Arc;

use flowloom_cpu::memory;
use flowloom_packet::{Block, SharedBlock};
use memmap2::Mmap;

#[cfg(target_os = "linux")]
use crate::capture::bus_error::Registration;

/// A mapping of a whole file, with the file's length at that time.
///
/// Another process may truncate the file later. [`Mapping::left`] returns how much is left. A read
/// after the new end finds zeros if
/// [`guard_against_truncation`](crate::capture::guard_against_truncation) was called, and ends the
/// process otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    block: SharedBlock,
    mapped: Arc<MappedFile>,
    /// The file header or section header at the time of mapping, with which later passes begin.
    head: Arc<[u8]>,
}

// Fields are dropped in this order: the registration needs both others.
#[derive(Debug)]
struct MappedFile {
    #[cfg(target_os = "linux")]
    registration: Option<Registration>,
    map: Mmap,
    file: File,
}

/// The part of a mapped file that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Bytes before the first lost one.
    pub(crate) bytes: usize,
    /// Whether the lost bytes lie inside the file: the storage failed.
    pub(crate) is_unreadable: bool,
}

/// The bytes of a mapping in a block.
struct Bytes(Arc<MappedFile>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

/// Makes captures that are truncated while they are mapped end where they were truncated.
///
/// Without it, a read beyond the new end of a mapped file ends the process (SIGBUS). With it, the
/// capture ends with [`Notice::CutRecord`](crate::capture::Notice::CutRecord). Call it once, before
/// captures are opened. It installs a SIGBUS handler for the whole process, which passes on every
/// signal that does not concern a mapped capture. Packets that were yielded before the truncation
/// may read as zeros.
///
/// It works on Linux only and does nothing elsewhere. On other systems, disable
/// [`CaptureOptions::map`](crate::capture::CaptureOptions::map) for files that may be truncated.
///
/// # Errors
///
/// Returns the error of the system when it installs no handler.
///
/// # Examples
///
/// ```
/// flowloom_traffic::capture::guard_against_truncation()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn guard_against_truncation() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    crate::capture::bus_error::install()?;
    Ok(())
}

impl Mapping {
    /// Maps the whole file, which begins with `head`.
    ///
    /// # Errors
    ///
    /// Returns an error when the file system cannot map the file, or when it would take most of the
    /// addresses that the process may still use.
    pub(crate) fn new(file: File, head: &[u8]) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        if memory::unmapped_addresses().is_some_and(|addresses| bytes > addresses / 2) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: the mapping is private and read-only, so nothing in this process writes through
        // it. `Mmap` requires that no other process changes the file. Changed contents appear as
        // different packet bytes, which every reader here treats as untrusted anyway, and a
        // truncation causes a fault as documented above.
        let map = unsafe { Mmap::map(&file)? };
        // The advice is a hint; a kernel that does not support it reads ahead in its usual way.
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

    /// Returns the same mapping with its own block: threads that count references to the same block
    /// would contend.
    pub(crate) fn with_own_block(&self) -> Self {
        let block = Arc::new(Block::Foreign(Box::new(Bytes(Arc::clone(&self.mapped)))));
        Self { block, ..self.clone() }
    }

    /// Returns the block that holds the file.
    pub(crate) fn block(&self) -> &SharedBlock {
        &self.block
    }

    /// Returns the file header or section header.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the file.
    #[cfg(target_os = "linux")]
    pub(crate) fn file(&self) -> &File {
        &self.mapped.file
    }

    /// Simulates a failure of the storage at `offset`.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn fail_at(&self, offset: usize) {
        let registration = self.mapped.registration.as_ref().expect("the handler is installed");
        registration.lose(self.block.bytes()[offset..].as_ptr().addr());
    }

    /// Returns the number of handles of the mapping.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn users(&self) -> usize {
        Arc::strong_count(&self.block)
    }

    /// Returns whether a read has found that bytes before `end` are lost.
    #[inline]
    pub(crate) fn is_lost_before(&self, end: usize) -> bool {
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

    /// Returns the part of the mapping that the file still covers.
    pub(crate) fn left(&self) -> Left {
        let mapped_bytes = self.mapped.map.len();
        // If the file system cannot return the length, reads detect the loss.
        let file_bytes = self.mapped.file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let bytes = file_bytes.min(self.lost_from().unwrap_or(u64::MAX));
        Left {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX).min(mapped_bytes),
            is_unreadable: self.is_unreadable(),
        }
    }

    /// Reads the pages of `range` into memory and maps them. The range must consist of whole pages,
    /// or end with the file.
    ///
    /// # Errors
    ///
    /// Fails if a page lies beyond the end of a truncated file, or if the kernel does not support
    /// this advice.
    #[cfg(target_os = "linux")]
    pub(crate) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let end = range.end.min(self.mapped.map.len());
        if range.start >= end {
            return Ok(());
        }
        self.mapped.map.advise_range(memmap2::Advice::PopulateRead, range.start, end - range.start)
    }
    /// Unmaps the pages of `range`. A later read maps them again. The thread that has walked the
    /// range calls this, because one thread would take long for the whole file.
    #[cfg(target_os = "linux")]
    pub(crate) fn release(&self, range: Range<usize>) {
        let end = range.end.min(self.mapped.map.len());
        if range.start >= end {
            return;
        }
        // SAFETY: the mapping is of a file and read-only, so a later read finds the file's bytes
        // again, as the first one did. No written data is lost.
        let advised = unsafe {
            self.mapped.map.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                range.start,
                end - range.start,
            )
        };
        // Without the advice, the pages remain until the mapping ends.
        let _ = advised;
    }
}
