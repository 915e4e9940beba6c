//! Prefetches the lines ahead of a record walk.

use std::ops::Range;

use flowloom_cpu::prefetch::{self, LINE_BYTES};
use flowloom_packet::BATCH_PACKETS;

/// Number of bytes from the walk's offset to which lines have been prefetched: a few records.
const NEAR_BYTES: usize = 1024;
/// Number of bytes beyond the next batch to which lines are prefetched, if the next batch is as
/// long as this one.
const BEYOND_BYTES: usize = 2048;
/// Maximum number of bytes prefetched ahead, even with long records: most of a first-level cache.
const WINDOW_BYTES_MAX: usize = 24 << 10;
/// Maximum number of bytes prefetched with one record.
const SHARE_BYTES_MAX: usize = 512;

/// Prefetches the lines ahead of a walk, each line once.
///
/// The walk of this batch prefetches half of the next batch's lines, and the decoding of this batch
/// the other half. Each record prefetches as many lines as the previous one: a loop of varying
/// length would be mispredicted once per record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Every line before this one was prefetched.
    next: usize,
    /// Bytes prefetched with each record: whole lines, at least one.
    share_bytes: usize,
}

impl Ahead {
    pub(crate) fn from(position: usize) -> Self {
        Self { next: position, share_bytes: LINE_BYTES }
    }

    /// Leaves the remaining lines of the next batch to the decoder of a batch that was walked from
    /// `from` to `to`.
    pub(crate) fn leave(&mut self, from: usize, to: usize) -> Range<u64> {
        let span = to - from;
        let records = BATCH_PACKETS;
        self.share_bytes = (span / (2 * records)).clamp(1, SHARE_BYTES_MAX).next_multiple_of(LINE_BYTES);
        let start = self.next.max(to);
        let goal = to + (span + BEYOND_BYTES).min(WINDOW_BYTES_MAX);
        let end = goal.min(start + span / 2 + NEAR_BYTES);
        self.next = self.next.max(end);
        start as u64..end as u64
    }

    /// Prefetches the lines of the next few records if necessary, and this record's share of later
    /// lines.
    #[inline(always)]
    pub(crate) fn reach(&mut self, bytes: &[u8], position: usize) {
        if self.next < position + NEAR_BYTES {
            // Lines skipped by a long record are not needed.
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
