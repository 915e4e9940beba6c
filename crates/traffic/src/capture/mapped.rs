//! A mapped capture that is walked in place, and that may be cut short while it is.
//!
//! The walk trusts a length of the file for a stretch of bytes at a time. Behind the new end of a
//! file that was cut lie zeros, which a classic capture reads as packets without bytes: what a
//! batch has from there is taken back before it is yielded, and the capture ends as one that had
//! been cut before it was opened.

use std::io;
use std::sync::Arc;

use flowloom_packet::PacketBatch;

use super::map::{Left, Mapping};
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

/// Why bytes of a mapping are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The file was cut after it was mapped.
    Cut,
    /// The storage fails to deliver them.
    Unreadable,
}

/// Where a walk through a mapping is.
#[derive(Debug)]
pub(super) struct Mapped {
    mapping: Mapping,
    at: usize,
    /// Where the capture ends: the length of the mapping, or less once the file was cut.
    end: usize,
    /// Why the capture ends before the mapping does.
    loss: Option<Loss>,
    /// What begins here or behind it is not walked.
    limit: usize,
    /// Where the length of the file is asked for again.
    trusted_to: usize,
    touched: usize,
    is_numbered: bool,
    #[cfg(target_os = "linux")]
    is_begun: bool,
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
            loss: (start > end).then_some(Loss::Cut),
            limit,
            // Also a capture that is mapped already may have been cut since.
            trusted_to: 0,
            touched: start.min(end),
            is_numbered: false,
            #[cfg(target_os = "linux")]
            is_begun: false,
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
        if self.at >= self.trusted_to {
            self.ask_length();
        }
        #[cfg(target_os = "linux")]
        self.read_ahead();
        loop {
            let bytes = &self.mapping.block().bytes()[..self.end];
            touch_ahead(bytes, self.at, &mut self.touched);
            let (next, stop) = walk.step_until(bytes, self.at, self.limit, &mut batch.packets);
            // Any other stop than a full batch comes once a file.
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
                return match (stop, self.loss) {
                    (_, Some(Loss::Unreadable)) => {
                        let why = format!("the storage does not deliver byte {} of the file", self.end);
                        MappedFill::Error(io::Error::other(why))
                    }
                    // It was cut where a record ends: there were more.
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
    fn ask_length(&mut self) {
        let Left { bytes, is_unreadable } = self.mapping.left();
        if bytes < self.end {
            self.end = bytes;
            self.loss = Some(if is_unreadable { Loss::Unreadable } else { Loss::Cut });
            self.at = self.at.min(bytes);
        }
        self.trusted_to = self.at.saturating_add(TRUSTED_BYTES);
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use flowloom_packet::LinkType;

    use super::*;
    use crate::capture::format::Format;
    use crate::capture::guard_against_truncation;
    use crate::write::{PcapOptions, PcapWriter};

    #[test]
    fn packets_before_a_failure_of_the_storage_are_yielded_and_then_it_is_an_error() {
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
        let format = Format::of(&bytes).unwrap();
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
