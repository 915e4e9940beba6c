//! A mapped capture that is walked in place, and that may be cut short while it is.
//!
//! The walk trusts a length of the file for a stretch of bytes at a time. Behind the new end of a
//! file that was cut lie zeros, which a classic capture reads as packets without bytes: what a
//! batch has from there is taken back before it is yielded, and the capture ends as one that had
//! been cut before it was opened.

use std::io;
use std::sync::Arc;

use flowloom_packet::PacketBatch;

use super::map::Mapping;
#[cfg(target_os = "linux")]
use super::read_ahead::ReadAhead;
use super::walk::{Stop, Walk};

/// Bytes that are walked before the length of the file is asked for again.
const TRUSTED_BYTES: usize = 256 << 10;
/// The rest of a capture that is worth a thread: the kernel reads this much ahead by itself.
#[cfg(target_os = "linux")]
const READ_AHEAD_FROM_BYTES: usize = 8 << 20;

/// What a call to [`Mapped::fill`] did.
#[derive(Debug)]
pub(super) enum MappedFill {
    /// The batch holds packets.
    Packets,
    /// No more packets.
    End(Stop),
    /// The storage failed.
    Error(io::Error),
}

/// Where a walk through a mapping is.
#[derive(Debug)]
pub(super) struct Mapped {
    mapping: Mapping,
    at: usize,
    /// Where the capture ends: the length of the mapping, or less once the file was cut.
    end: usize,
    /// The file was cut after it was mapped.
    is_cut: bool,
    /// What begins here or behind it is not walked.
    limit: usize,
    /// Where the length of the file is asked for again.
    trusted_to: usize,
    touched: usize,
    is_begun: bool,
    is_numbered: bool,
    #[cfg(target_os = "linux")]
    read_ahead: Option<ReadAhead>,
}

impl Mapped {
    /// Returns a walk whose first record begins at `start`, and its last before `limit`.
    pub(super) fn new(mapping: Mapping, start: usize, limit: usize) -> Self {
        let end = mapping.block().bytes().len();
        Self {
            mapping,
            // It may have been cut while it was opened.
            at: start.min(end),
            end,
            is_cut: start > end,
            limit,
            // Also a capture that is mapped already may have been cut since.
            trusted_to: 0,
            touched: start.min(end),
            is_begun: false,
            is_numbered: false,
            #[cfg(target_os = "linux")]
            read_ahead: None,
        }
    }

    /// Returns the mapping, to read it once more.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns the file offset of the first byte that was not walked.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// Fills an empty batch with the next packets.
    pub(super) fn fill(&mut self, walk: &mut Walk, batch: &mut PacketBatch) -> MappedFill {
        if self.at >= self.trusted_to
            && let Err(error) = self.ask_length()
        {
            return MappedFill::Error(error);
        }
        self.read_ahead();
        loop {
            let bytes = &self.mapping.block().bytes()[..self.end];
            touch_ahead(bytes, self.at, &mut self.touched);
            let (next, stop) = walk.step_until(bytes, self.at, self.limit, &mut batch.packets);
            // Any other stop than a full batch comes once a file.
            let is_dubious =
                stop != Stop::Full || is_zero(bytes, next) || self.mapping.is_lost_before(self.end);
            let (before, end) = (self.at, self.end);
            if is_dubious && let Err(error) = self.ask_length() {
                return MappedFill::Error(error);
            }
            self.at = next;
            if self.end < end {
                let bytes = self.mapping.block().bytes();
                let record = walk.take_back(bytes, before, self.end, &mut batch.packets);
                self.at = record.unwrap_or(next).min(self.end);
                if batch.packets.is_empty() {
                    continue;
                }
            }
            if batch.packets.is_empty() {
                return MappedFill::End(match stop {
                    // It was cut where a record ends: there were more.
                    Stop::End if self.is_cut => Stop::Cut { have: 0, need: walk.record_header_bytes() },
                    stop => stop,
                });
            }
            batch.ahead = walk.look_ahead(before, self.at);
            self.yield_block(batch);
            return MappedFill::Packets;
        }
    }

    /// Hands the block out with the batch.
    fn yield_block(&mut self, batch: &mut PacketBatch) {
        if !self.is_numbered {
            self.is_numbered = true;
            batch.block_number += 1;
        }
        let block = self.mapping.block();
        // Mostly the one of the batch before: then its users are not counted anew.
        if !batch.block.as_ref().is_some_and(|known| Arc::ptr_eq(known, block)) {
            batch.block = Some(Arc::clone(block));
        }
    }

    /// Asks how long the file is now.
    fn ask_length(&mut self) -> io::Result<()> {
        let end = self.mapping.bytes_now()?;
        if end < self.end {
            (self.end, self.is_cut) = (end, true);
            self.at = self.at.min(end);
        }
        self.trusted_to = self.at.saturating_add(TRUSTED_BYTES);
        Ok(())
    }

    /// Starts reading ahead with the second batch, so that a capture whose first packet is looked
    /// at starts no thread.
    #[cfg(target_os = "linux")]
    fn read_ahead(&mut self) {
        if let Some(read_ahead) = &self.read_ahead {
            read_ahead.walked_to(self.at);
            return;
        }
        let end = self.end.min(self.limit);
        if self.is_begun && end.saturating_sub(self.at) >= READ_AHEAD_FROM_BYTES {
            // Where no thread can be started the walk reads by itself.
            self.read_ahead = ReadAhead::start(self.mapping.clone(), self.at..end).ok();
        }
        self.is_begun = true;
    }

    #[cfg(not(target_os = "linux"))]
    fn read_ahead(&mut self) {
        self.is_begun = true;
    }
}

/// Says whether the next record begins with zeros, or may not be there.
///
/// A record that was walked although the file ends in it is followed by zeros up to the end of its
/// page, and then by a page that faults. No true record begins so, but for one without a time.
#[inline]
fn is_zero(bytes: &[u8], next: usize) -> bool {
    bytes.get(next..).and_then(|rest| rest.first_chunk::<8>()).is_none_or(|head| *head == [0; 8])
}

/// Makes the pages that the walk comes to next present: a prefetch into a page that is not does
/// nothing.
///
/// The kernel maps a run of pages around each fault; one touch per run, before the walk needs it,
/// costs no further fault.
#[inline]
fn touch_ahead(bytes: &[u8], at: usize, touched: &mut usize) {
    const RUN_BYTES: usize = 64 << 10;
    while *touched < bytes.len() && *touched < at + 2 * RUN_BYTES {
        std::hint::black_box(bytes[*touched]);
        *touched += RUN_BYTES;
    }
}
