//! Memory that the process shares with the kernel.
#![expect(unsafe_code, reason = "the kernel writes to mapped memory, which the compiler cannot know")]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A mapping, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and no thread has a part in its address.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of a socket's ring.
    pub(crate) fn of_socket(fd: BorrowedFd<'_>, bytes: usize, offset: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel picks a free place, so no memory of the process is replaced.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset)?
        };
        Self::new(start.cast(), bytes)
    }

    /// Maps `bytes` bytes of zeroed memory of the process, which begins at a page.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: as above.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        Self::new(start.cast(), bytes)
    }

    fn new(start: *mut u8, bytes: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or_else(|| io::Error::other("the mapping has no address"))?;
        Ok(Self { start, bytes })
    }

    /// Returns the address of the first byte, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Returns a word of the mapping.
    ///
    /// # Panics
    ///
    /// Panics if the word does not lie in the mapping at a multiple of four.
    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at.checked_add(4).is_some_and(|end| end <= self.bytes),
            "no such word"
        );
        // SAFETY: the word lies in the mapping, which lives as long as the reference, and is
        // aligned, as mappings begin at pages. The kernel and this process access it
        // only atomically: this process never reads or writes such a word in another way.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Returns a part of the mapping; an empty slice if it does not lie in the mapping.
    ///
    /// # Safety
    ///
    /// The caller guarantees: until the reference ends, neither the kernel nor this process writes
    /// to the part.
    #[inline(always)]
    pub(crate) unsafe fn bytes(&self, at: usize, bytes: usize) -> &[u8] {
        if at.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return &[];
        }
        // SAFETY: the part lies in the mapping, and by the caller's promise nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), bytes) }
    }

    /// Returns a part of the mapping for writing; an empty slice if it does not lie in the mapping.
    ///
    /// # Safety
    ///
    /// The caller guarantees: until the reference ends, nothing else reads or writes the part.
    #[inline(always)]
    pub(crate) unsafe fn bytes_mut(&mut self, at: usize, bytes: usize) -> &mut [u8] {
        if at.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return &mut [];
        }
        // SAFETY: the part lies in the mapping, and by the caller's promise it is free.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and all references into it have ended.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping ends once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn ranges_outside_the_mapping_are_empty() {
        let mut map = Mapping::anonymous(4096).unwrap();
        map.word(4092).store(7, Ordering::Release);
        // SAFETY: the kernel does not use this mapping.
        unsafe {
            map.bytes_mut(8, 2).copy_from_slice(b"ab");
            assert_eq!(map.bytes(8, 2), b"ab");
            assert_eq!(map.bytes(4090, 7), b"");
            assert_eq!(map.bytes(usize::MAX, 2), b"");
            assert!(map.bytes_mut(4096, 1).is_empty());
        }
        assert!(std::panic::catch_unwind(move || map.word(4093).load(Ordering::Relaxed)).is_err());
    }
}
