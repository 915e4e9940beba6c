//! Prefetches the lines ahead of a record walk.

use std::ops::Range;

use flowloom_cpu::prefetch::{self, LINE_BYTES};
use flowloom_packet::BATCH_PACKETS;

/// How far ahead of its offset the walk has prefetched: a few records.
const NEAR_BYTES: usize = 1024;
/// How far beyond the next batch lines are prefetched, if the next batch is as long as this one.
const BEYOND_BYTES: usize = 2048;
/// The most bytes prefetched ahead, also with long records: most of a first-level cache.
const WINDOW_BYTES_MAX: usize = 24 << 10;
/// The most bytes prefetched with one record.
const SHARE_BYTES_MAX: usize = 512;

/// Prefetches lines ahead of a walk, each once.
///
/// The walk of this batch prefetches half of the next batch's lines, and its decoding the other
/// half. Each record prefetches as many lines as the one before: a loop of varying length would be
/// mispredicted once a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// Every line before this one was prefetched.
    next: usize,
    /// Bytes prefetched with each record: whole lines, at least one.
    share_bytes: usize,
}

impl Ahead {
    pub(super) fn from(position: usize) -> Self {
        Self { next: position, share_bytes: LINE_BYTES }
    }

    /// Leaves the remaining lines of the next batch to the decoder of a batch, which was walked
    /// from `from` to `to`.
    pub(super) fn leave(&mut self, from: usize, to: usize) -> Range<u64> {
        let span = to - from;
        let records = BATCH_PACKETS;
        self.share_bytes = (span / (2 * records)).clamp(1, SHARE_BYTES_MAX).next_multiple_of(LINE_BYTES);
        let start = self.next.max(to);
        let goal = to + (span + BEYOND_BYTES).min(WINDOW_BYTES_MAX);
        let end = goal.min(start + span / 2 + NEAR_BYTES);
        self.next = self.next.max(end);
        start as u64..end as u64
    }

    /// Prefetches the lines of the next few records if necessary, and this record's share of those
    /// further on.
    #[inline(always)]
    pub(super) fn reach(&mut self, bytes: &[u8], position: usize) {
        if self.next < position + NEAR_BYTES {
            // The lines that a long record skipped are not needed.
            self.next = self.next.max(position.saturating_sub(NEAR_BYTES));
            self.request(bytes, position + NEAR_BYTES);
        }
        if self.next < position + WINDOW_BYTES_MAX {
            self.request(bytes, self.next + self.share_bytes);
        }
    }

    /// Prefetches lines up to `goal`, at least one.
    #[inline(always)]
    fn request(&mut self, bytes: &[u8], goal: usize) {
        loop {
            prefetch::read_at(bytes, self.next);
            self.next += LINE_BYTES;
            if self.next >= goal {
                break;
            }
        }
    }
}
