//! A thread that makes the pages of a mapping present before the walk reads them.
//!
//! A walk that faults waits for the storage and computes nothing during that time. This thread
//! faults first. The kernel then sees sequential faults, reads in the largest requests that the
//! device supports, and keeps the pages in large folios. `posix_fadvise` and `readahead(2)` are no
//! substitute: they fill the page cache with single pages, which take twice the processor time to
//! map. Where the file is cached already, the thread checks one page per piece and leaves the
//! faults to the walk. Mapping all pages at once takes more processor time than the walk's faults,
//! which map a run of pages each.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::io::{ReadWriteFlags, preadv2};

use crate::capture::background;
use crate::capture::map::Mapping;

/// Bytes that are made present at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Maximum number of bytes that the thread is ahead of the walk.
const AHEAD_BYTES: usize = 32 << 20;
/// Bytes after an uncached page that are made present without a check.
const UNCHECKED_MIN: usize = 8 << 20;
const UNCHECKED_MAX: usize = 1 << 30;

/// Reads a range of a mapping ahead of its walk. Dropping it ends the thread and waits for its last
/// piece.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The offset of the walk.
    walked: AtomicUsize,
    /// The offset at which the walk wakes the thread.
    wake_at: AtomicUsize,
    is_stopped: AtomicBool,
}

impl ReadAhead {
    /// Starts to read `range` of `mapping`. The walk is at the start of the range.
    ///
    /// # Errors
    ///
    /// Returns an error when the system cannot start a thread.
    pub(crate) fn start(mapping: Mapping, range: Range<usize>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            walked: AtomicUsize::new(range.start),
            wake_at: AtomicUsize::new(usize::MAX),
            is_stopped: AtomicBool::new(false),
        });
        let thread = background::spawn("capture-ahead", {
            let shared = Arc::clone(&shared);
            move || run(&shared, &mapping, range)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Reports the walk's offset. It costs one load unless it wakes the thread.
    #[inline]
    pub(crate) fn walked_to(&self, offset: usize) {
        // Relaxed: the next report wakes a thread that misses an offset.
        self.shared.walked.store(offset, Ordering::Relaxed);
        if offset >= self.shared.wake_at.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.shared.wake_at.store(usize::MAX, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Relaxed: unparking orders it before the thread's next read.
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread runs no code that panics, and its work is only a hint.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, mapping: &Mapping, range: Range<usize>) {
    // Whole pages: a piece is a multiple of the largest pages.
    let mut at = range.start / PIECE_BYTES * PIECE_BYTES;
    // Touching an uncached page makes the kernel read that page alone, and disturbs its read-ahead.
    // Therefore, after an uncached page, many pieces are made present without a check: the more,
    // the more often checks in a row find none.
    let (mut unchecked_to, mut unchecked_bytes) = (0, UNCHECKED_MIN);
    while at < range.end {
        // The walk has passed these pages and no longer needs them.
        let walked = shared.walked.load(Ordering::Relaxed);
        at = at.max(walked / PIECE_BYTES * PIECE_BYTES);
        while at > shared.walked.load(Ordering::Relaxed) + AHEAD_BYTES {
            if shared.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            // Half of the read-ahead distance is left then.
            let wake_at = at - AHEAD_BYTES / 2;
            shared.wake_at.store(wake_at, Ordering::Relaxed);
            if shared.walked.load(Ordering::Relaxed) < wake_at {
                std::thread::park();
            }
        }
        if shared.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let piece = at..range.end.min(at + PIECE_BYTES);
        at = piece.end;
        if piece.start >= unchecked_to {
            if is_cached(mapping.file(), piece.end - 1) {
                unchecked_bytes = UNCHECKED_MIN;
                continue;
            }
            unchecked_to = piece.end + unchecked_bytes;
            unchecked_bytes = (unchecked_bytes * 2).min(UNCHECKED_MAX);
        }
        if mapping.populate(piece).is_err() {
            // The file was truncated, or the kernel is older than the advice (5.14). The walk
            // continues without it.
            return;
        }
    }
}

/// Returns whether the page at `offset` is in memory. Returns `false` if the file system cannot
/// tell.
fn is_cached(file: &File, offset: usize) -> bool {
    preadv2(file, &mut [IoSliceMut::new(&mut [0])], offset as u64, ReadWriteFlags::NOWAIT).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    /// Returns whether the last page of a piece is in memory.
    fn is_piece_cached(file: &File, number: usize) -> bool {
        is_cached(file, (number + 1) * PIECE_BYTES - 1)
    }

    fn mapped(bytes: usize) -> (Mapping, File) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file.sync_all().unwrap();
        // Evicts the file from the page cache, so that there is something to read. A file system in
        // memory keeps the page.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        (Mapping::new(file.try_clone().unwrap(), &[]).unwrap(), file)
    }

    fn wait_until(what: impl Fn() -> bool) {
        let start = Instant::now();
        while !what() {
            assert!(start.elapsed() < Duration::from_secs(60), "it never comes true");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn pages_ahead_become_present_up_to_the_limit_and_then_as_the_walk_goes_on() {
        const BYTES: usize = 3 * AHEAD_BYTES;
        let (mapping, file) = mapped(BYTES);
        let ahead = ReadAhead::start(mapping, 0..BYTES).unwrap();
        let wake_at = || ahead.shared.wake_at.load(Ordering::Relaxed);
        wait_until(|| wake_at() != usize::MAX);
        assert!((AHEAD_BYTES / 2..=AHEAD_BYTES / 2 + PIECE_BYTES).contains(&wake_at()), "{}", wake_at());
        assert!((0..AHEAD_BYTES / PIECE_BYTES).all(|number| is_piece_cached(&file, number)));
        ahead.walked_to(BYTES - 1);
        wait_until(|| ahead.thread.as_ref().is_some_and(JoinHandle::is_finished));
        assert!(is_piece_cached(&file, BYTES / PIECE_BYTES - 1));
    }

    #[test]
    fn a_thread_that_waits_ends_when_it_is_dropped_and_releases_the_mapping() {
        let (mapping, _file) = mapped(3 * AHEAD_BYTES);
        let ahead = ReadAhead::start(mapping.clone(), PIECE_BYTES..3 * AHEAD_BYTES).unwrap();
        wait_until(|| ahead.shared.wake_at.load(Ordering::Relaxed) != usize::MAX);
        drop(ahead);
        assert_eq!(mapping.users(), 1, "only the one here");
    }

    #[test]
    fn truncated_file_ends_the_read_ahead_thread() {
        let (mapping, file) = mapped(AHEAD_BYTES);
        file.set_len(10).unwrap();
        let ahead = ReadAhead::start(mapping, 0..AHEAD_BYTES).unwrap();
        wait_until(|| ahead.thread.as_ref().is_some_and(JoinHandle::is_finished));
    }
}
