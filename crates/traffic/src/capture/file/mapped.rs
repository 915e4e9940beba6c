//! Walks a mapped capture in place. Meanwhile, the file may be truncated.
//!
//! The walk trusts the length of the file for a limited number of bytes at a time. The bytes after
//! the new end of a truncated file are zeros, which look like classic records of packets without
//! bytes. The walk removes such packets before it yields the batch, and the capture ends as if it
//! had been truncated before it was opened.

use std::io;
use std::sync::Arc;

use flowloom_packet::PacketBatch;

use crate::capture::map::{Left, Mapping};
#[cfg(target_os = "linux")]
use crate::capture::read_ahead::ReadAhead;
use crate::capture::stop::Stop;
use crate::capture::walk::Walk;

/// Number of bytes that the walk reads before it queries the file's length again.
const TRUSTED_BYTES: usize = 256 << 10;
/// Number of remaining bytes that justify a thread; the kernel itself reads this far ahead.
#[cfg(target_os = "linux")]
const READ_AHEAD_FROM_BYTES: usize = 8 << 20;

/// Step size in bytes of a walk that unmaps what it has read: whole pages, of any page size.
#[cfg(target_os = "linux")]
const RELEASE_BYTES: usize = 32 << 20;
/// Smaller steps at the end: whole pages of the usual size.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 64 << 10;

/// The result of [`Mapped::fill`].
#[derive(Debug)]
pub(crate) enum MappedFill {
    /// The batch holds packets.
    Packets,
    /// No more packets.
    End(Stop),
    /// The reason why bytes of a mapping are lost.
    Error(io::Error),
}

/// Why bytes of a mapping are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The file was cut after it was mapped.
    Cut,
    /// The storage fails to deliver them.
    Unreadable,
}

/// The position of a walk through a mapping.
#[derive(Debug)]
pub(crate) struct Mapped {
    mapping: Mapping,
    at: usize,
    /// The end of the capture: the length of the mapping, or less if the file was truncated.
    end: usize,
    /// The reason why the capture ends before the mapping does.
    loss: Option<Loss>,
    /// The walk skips records that begin here or later.
    limit: usize,
    /// The offset at which the walk asks for the file's length again.
    trusted_to: usize,
    touched: usize,
    is_numbered: bool,
    /// The offset up to which the pages were unmapped, if the walk unmaps them.
    #[cfg(target_os = "linux")]
    released: Option<usize>,
    /// Bytes behind the walk that stay mapped.
    #[cfg(target_os = "linux")]
    kept_bytes: usize,
    #[cfg(target_os = "linux")]
    is_begun: bool,
    #[cfg(target_os = "linux")]
    read_ahead: Option<ReadAhead>,
}

impl Mapped {
    /// Returns a walk whose first record begins at `start`, and whose last record begins before
    /// `limit`.
    pub(crate) fn new(mapping: Mapping, start: usize, limit: usize) -> Self {
        let end = mapping.block().bytes().len();
        Self {
            mapping,
            // The file may have been truncated while it was opened.
            at: start.min(end),
            end,
            loss: (start > end).then_some(Loss::Cut),
            limit,
            // A capture that was mapped earlier may have been truncated since.
            trusted_to: 0,
            touched: start.min(end),
            is_numbered: false,
            #[cfg(target_os = "linux")]
            released: None,
            #[cfg(target_os = "linux")]
            kept_bytes: 0,
            #[cfg(target_os = "linux")]
            is_begun: false,
            #[cfg(target_os = "linux")]
            read_ahead: None,
        }
    }

    /// Makes the walk unmap the pages behind it, except those of the last `kept_bytes`, which other
    /// threads may still read. A file that is read again would need them again.
    pub(crate) fn release_behind(&mut self, kept_bytes: usize) {
        #[cfg(target_os = "linux")]
        if self.released.is_none() {
            self.released = Some(self.at.next_multiple_of(PAGE_BYTES));
            self.kept_bytes = kept_bytes;
        }
    }

    /// Unmaps the pages before the walk's position, if they have at least `bytes` bytes.
    #[cfg(target_os = "linux")]
    fn release(&mut self, bytes: usize) {
        let Some(released) = &mut self.released else { return };
        let end = self.at.saturating_sub(self.kept_bytes) / PAGE_BYTES * PAGE_BYTES;
        if end.saturating_sub(*released) >= bytes {
            self.mapping.release(*released..end);
            *released = end;
        }
    }

    /// Returns the mapping, for another pass.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns whether the walk skips records before the end of the file.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit != usize::MAX
    }

    /// Returns the file offset of the first byte that the walk has not read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Fills an empty batch with the next packets.
    pub(crate) fn fill(&mut self, walk: &mut Walk, batch: &mut PacketBatch) -> MappedFill {
        if self.at >= self.trusted_to {
            self.ask_length();
        }
        #[cfg(target_os = "linux")]
        {
            self.read_ahead();
            // The batches before this one have been processed.
            self.release(RELEASE_BYTES);
        }
        loop {
            let bytes = &self.mapping.block().bytes()[..self.end];
            touch_ahead(bytes, self.at, &mut self.touched);
            let (next, stop) = walk.step_until(bytes, self.at, self.limit, &mut batch.packets);
            // Any stop other than a full batch happens once per file.
            let is_dubious =
                stop != Stop::Full || is_zero(bytes, next) || self.mapping.is_lost_before(self.end);
            let (before, end) = (self.at, self.end);
            if is_dubious {
                self.ask_length();
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
                #[cfg(target_os = "linux")]
                self.release(PAGE_BYTES);
                return match (stop, self.loss) {
                    (_, Some(Loss::Unreadable)) => {
                        let why = format!("the storage does not deliver byte {} of the file", self.end);
                        MappedFill::Error(io::Error::other(why))
                    }
                    // The file was truncated at the end of a record, so there were more records.
                    (Stop::End, Some(Loss::Cut)) => {
                        MappedFill::End(Stop::Cut { have: 0, need: walk.record_header_bytes() })
                    }
                    (stop, _) => MappedFill::End(stop),
                };
            }
            batch.ahead = walk.look_ahead(before, self.at);
            self.yield_block(batch);
            return MappedFill::Packets;
        }
    }

    /// Passes the block on with the batch.
    fn yield_block(&mut self, batch: &mut PacketBatch) {
        if !self.is_numbered {
            self.is_numbered = true;
            batch.block_number += 1;
        }
        let block = self.mapping.block();
        // Usually this is the block of the previous batch, so the reference count does not change.
        if !batch.block.as_ref().is_some_and(|known| Arc::ptr_eq(known, block)) {
            batch.block = Some(Arc::clone(block));
        }
    }

    /// Reads the current length of the file.
    fn ask_length(&mut self) {
        let Left { bytes, is_unreadable } = self.mapping.left();
        if bytes < self.end {
            self.end = bytes;
            self.loss = Some(if is_unreadable { Loss::Unreadable } else { Loss::Cut });
            self.at = self.at.min(bytes);
        }
        self.trusted_to = self.at.saturating_add(TRUSTED_BYTES);
    }

    /// Starts reading ahead with the second batch, so that reading only the first packet starts no
    /// thread.
    #[cfg(target_os = "linux")]
    fn read_ahead(&mut self) {
        if let Some(read_ahead) = &self.read_ahead {
            read_ahead.walked_to(self.at);
            return;
        }
        let end = self.end.min(self.limit);
        if self.is_begun && end.saturating_sub(self.at) >= READ_AHEAD_FROM_BYTES {
            // If no thread starts, the walk reads without it.
            self.read_ahead = ReadAhead::start(self.mapping.clone(), self.at..end).ok();
        }
        self.is_begun = true;
    }
}

/// Returns whether the next record begins with zeros, or may be lost.
///
/// If the file ends inside a record that was read, it is followed by zeros up to the end of its
/// page, and then by a page that faults. No real record begins with zeros, except one without a
/// time.
#[inline]
fn is_zero(bytes: &[u8], next: usize) -> bool {
    bytes.get(next..).and_then(|rest| rest.first_chunk::<8>()).is_none_or(|head| *head == [0; 8])
}

/// Makes the next pages of the walk present, because a prefetch into a page that is not present has
/// no effect.
///
/// The kernel maps a run of pages around each fault. One touch per run, before the walk needs it,
/// causes no additional fault.
#[inline]
fn touch_ahead(bytes: &[u8], at: usize, touched: &mut usize) {
    const RUN_BYTES: usize = 64 << 10;
    while *touched < bytes.len() && *touched < at + 2 * RUN_BYTES {
        std::hint::black_box(bytes[*touched]);
        *touched += RUN_BYTES;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use flowloom_packet::LinkType;

    use super::*;
    use crate::capture::format::Format;
    use crate::capture::guard_against_truncation;
    use crate::write::{PcapOptions, PcapWriter};

    #[test]
    fn packets_before_a_storage_failure_are_yielded() {
        guard_against_truncation().unwrap();
        let options = PcapOptions { link: LinkType::RAW, ..PcapOptions::default() };
        let mut writer = PcapWriter::new(Vec::new(), options).unwrap();
        for second in 0..1000 {
            writer.write(second * 1_000_000_000, 84, &[1; 84]).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let mapping = Mapping::new(file, &bytes[..24]).unwrap();
        let format = Format::detect(&bytes).unwrap();
        let (mut walk, start) = Walk::begin(format, &bytes).unwrap();
        let mut mapped = Mapped::new(mapping.clone(), start, usize::MAX);
        let mut batch = PacketBatch::new();
        assert!(matches!(mapped.fill(&mut walk, &mut batch), MappedFill::Packets));
        let mut packets = batch.packets.len();
        let lost_from = 40_960;
        mapping.fail_at(lost_from + 5000);
        mapping.fail_at(lost_from);
        let error = loop {
            batch.packets.clear();
            match mapped.fill(&mut walk, &mut batch) {
                MappedFill::Packets => packets += batch.packets.len(),
                MappedFill::Error(error) => break error.to_string(),
                MappedFill::End(stop) => panic!("{stop:?}"),
            }
        };
        assert_eq!((packets, walk.packets()), ((lost_from - 24) / 100, packets as u64));
        assert!(error.contains("byte 40960"), "{error}");
    }
}
