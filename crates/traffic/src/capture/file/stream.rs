//! Pipes and compressed files, which are read in pieces and walked in place.
//!
//! The same code walks mapped files and pieces, so both yield the same packets. If a record crosses
//! from one piece to the next, its first part is copied before the second piece. A record that does
//! not fit there is gathered in its own block.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{Block, PacketBatch, SharedBlock};

use crate::capture::RECORD_BYTES_MAX;
use crate::capture::feed::{Fed, Feed, Filling, Piece, is_piece_buffer, new_buffer, new_small_buffer};
use crate::capture::feed_thread::{FeedThread, Taken};
use crate::capture::stop::Stop;
use crate::capture::walk::Walk;

/// Capacity for the longest accepted record, with its header.
const RECORD_AND_HEADER_BYTES_MAX: usize = RECORD_BYTES_MAX + 4096;
/// Buffers of a stream: one is walked, the others are filled ahead or held by workers.
const BUFFERS: usize = 16;
/// Blocks of long records that workers may hold at a time.
const LONG_BLOCKS: usize = 8;

/// The reason why a stream has ended permanently.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// It ended after a record, was truncated, or is corrupt.
    Stop(Stop),
    /// Reading failed.
    Error(io::Error),
}

/// The result of [`Stream::fill`].
#[derive(Debug)]
pub(crate) enum StreamFill {
    /// The batch holds packets.
    Packets,
    /// Workers hold all blocks, or no data arrives.
    Starved,
    /// No more packets.
    End(StreamEnd),
}

/// The thread that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The thread that walks, because a pipe may have no data now.
    Inline,
    /// A separate thread, from the second piece on, because a file always has bytes or ends.
    OwnThread,
    /// The thread that walks, in small pieces, for one of many simultaneously open files.
    Frugal,
}

/// A block of the stream, the part of it that holds file bytes, and the file offset of that part.
#[derive(Debug)]
struct Current {
    block: SharedBlock,
    at: usize,
    end: usize,
    /// File offset of position 0 of the block. It wraps if the free space would lie before the
    /// file.
    base: u64,
}

impl Current {
    fn offset(&self) -> u64 {
        self.base.wrapping_add(self.at as u64)
    }
}

/// A record that is gathered from several pieces.
#[derive(Debug)]
struct Gathered {
    bytes: Vec<u8>,
    /// Bytes the record needs.
    need: usize,
    /// File offset of its first byte.
    offset: u64,
}

/// A capture that is read sequentially.
#[derive(Debug)]
pub(crate) struct Stream {
    source: Source,
    /// The block that is walked; `None` while a record is gathered.
    current: Option<Current>,
    gathered: Option<Gathered>,
    /// The rest of the piece that completed a gathered record.
    pending: Option<Piece>,
    /// Nothing follows the current block and the pending bytes.
    is_ended: bool,
    /// Blocks that were walked, until all workers have released them.
    walked: Vec<SharedBlock>,
    /// The buffer of a long record, kept for the next one.
    spare: Option<Vec<u8>>,
}

impl Stream {
    /// Returns a stream whose first bytes are `prefix`. The first record begins at `start`, inside
    /// the prefix or at its end.
    pub(crate) fn new(
        prefix: Vec<u8>,
        start: usize,
        inner: impl Read + Send + 'static,
        reading: Reading,
    ) -> Self {
        let filling = match reading {
            Reading::Inline => Filling::OneRead,
            Reading::OwnThread | Reading::Frugal => Filling::Whole,
        };
        let end = prefix.len();
        let block = Arc::new(Block::Owned(prefix));
        Self {
            source: Source::new(Feed::new(Box::new(inner), filling), reading),
            current: Some(Current { block, at: start, end, base: 0 }),
            gathered: None,
            pending: None,
            is_ended: false,
            walked: Vec::new(),
            spare: None,
        }
    }

    /// Returns the file offset of the first byte that the walk has not read.
    pub(crate) fn offset(&self) -> u64 {
        match (&self.current, &self.gathered) {
            (Some(current), _) => current.offset(),
            (None, Some(gathered)) => gathered.offset,
            (None, None) => unreachable!("either a block is being walked or a record is being gathered"),
        }
    }

    /// Fills an empty batch with the next packets.
    pub(crate) fn fill(&mut self, walk: &mut Walk, batch: &mut PacketBatch) -> StreamFill {
        loop {
            let mut need = 0;
            if let Some(current) = &mut self.current {
                let last = self.is_ended && self.pending.is_none();
                let bytes = &current.block.bytes()[..current.end];
                let (next, stop) = walk.step(bytes, current.at, last, &mut batch.packets);
                let from = std::mem::replace(&mut current.at, next);
                if !batch.packets.is_empty() {
                    batch.ahead = walk.look_ahead(from, next);
                    batch.block = Some(Arc::clone(&current.block));
                    return StreamFill::Packets;
                }
                match stop {
                    Stop::Full => unreachable!("a full batch has packets"),
                    Stop::More { need: bytes } if bytes > RECORD_AND_HEADER_BYTES_MAX => {
                        let why = format!(
                            "a record needs a buffer of {bytes} bytes; the limit is \
                             {RECORD_AND_HEADER_BYTES_MAX}"
                        );
                        return StreamFill::End(StreamEnd::Stop(Stop::Corrupt(why)));
                    }
                    Stop::More { need: bytes } => need = bytes,
                    stop => return StreamFill::End(StreamEnd::Stop(stop)),
                }
            }
            // Return `Starved` before any change, so that polling again repeats nothing.
            let piece = match self.next_piece() {
                Taken::Piece(piece) => piece,
                Taken::NoBuffer => return StreamFill::Starved,
                Taken::Error(error) => return StreamFill::End(StreamEnd::Error(error)),
                Taken::End => {
                    self.is_ended = true;
                    if let Some(gathered) = self.gathered.take() {
                        self.walk_gathered(gathered, walk, batch);
                    }
                    continue;
                }
            };
            if let Some(gathered) = self.gathered.take() {
                self.gather(gathered, piece, walk, batch);
            } else {
                self.follow(piece, need, walk, batch);
            }
        }
    }

    /// Returns what follows the current block.
    fn next_piece(&mut self) -> Taken {
        if let Some(piece) = self.pending.take() {
            return Taken::Piece(piece);
        }
        if self.is_ended {
            return Taken::End;
        }
        self.reclaim();
        let long = self.walked.iter().filter(|block| !is_piece_buffer(block.bytes())).count();
        if long >= LONG_BLOCKS {
            return Taken::NoBuffer;
        }
        self.source.take()
    }

    /// Moves from the current block, whose rest is part of a record of `need` bytes, to `piece`.
    fn follow(&mut self, mut piece: Piece, need: usize, walk: &mut Walk, batch: &mut PacketBatch) {
        let before = self.current.take().expect("no record is gathered, so a block is walked");
        let rest = &before.block.bytes()[before.at..before.end];
        let offset = before.offset();
        let fits = rest.len() <= piece.start && rest.len() + piece.end - piece.start >= need;
        if fits {
            let at = piece.start - rest.len();
            piece.buffer[at..piece.start].copy_from_slice(rest);
            let base = offset.wrapping_sub(at as u64);
            let end = piece.end;
            self.walk_next(piece.buffer, at..end, base, walk, batch);
        } else {
            let mut bytes = self.spare.take().unwrap_or_default();
            bytes.clear();
            bytes.reserve_exact(need.max(rest.len()));
            bytes.extend_from_slice(rest);
            self.gather(Gathered { bytes, need, offset }, piece, walk, batch);
        }
        self.walked.push(before.block);
    }

    /// Adds the bytes of `piece` to the record.
    fn gather(
        &mut self,
        mut gathered: Gathered,
        mut piece: Piece,
        walk: &mut Walk,
        batch: &mut PacketBatch,
    ) {
        let missing = gathered.need.saturating_sub(gathered.bytes.len());
        let end = piece.end.min(piece.start + missing);
        gathered.bytes.extend_from_slice(&piece.buffer[piece.start..end]);
        piece.start = end;
        if piece.start < piece.end {
            self.pending = Some(piece);
        } else {
            self.source.give_back(piece.buffer);
        }
        if gathered.bytes.len() < gathered.need {
            self.gathered = Some(gathered);
        } else {
            self.walk_gathered(gathered, walk, batch);
        }
    }

    fn walk_gathered(&mut self, gathered: Gathered, walk: &mut Walk, batch: &mut PacketBatch) {
        let Gathered { bytes, offset, need: _ } = gathered;
        let range = 0..bytes.len();
        self.walk_next(bytes, range, offset, walk, batch);
    }

    fn walk_next(
        &mut self,
        buffer: Vec<u8>,
        range: Range<usize>,
        base: u64,
        walk: &mut Walk,
        batch: &mut PacketBatch,
    ) {
        walk.moved(base, range.start);
        batch.block_number += 1;
        let block = Arc::new(Block::Owned(buffer));
        self.current = Some(Current { block, at: range.start, end: range.end, base });
    }

    /// Takes back the buffers that all workers have released.
    fn reclaim(&mut self) {
        let mut index = 0;
        while let Some(block) = self.walked.get_mut(index) {
            let Some(Block::Owned(buffer)) = Arc::get_mut(block) else {
                index += 1;
                continue;
            };
            let buffer = std::mem::take(buffer);
            self.walked.swap_remove(index);
            if is_piece_buffer(&buffer) {
                self.source.give_back(buffer);
            } else {
                self.spare = Some(buffer);
            }
        }
    }
}

/// The source of pieces.
#[derive(Debug)]
enum Source {
    Inline {
        feed: Feed,
        free: Vec<Vec<u8>>,
        unallocated: usize,
        new_buffer: fn() -> Vec<u8>,
        is_for_thread: bool,
    },
    Thread(FeedThread),
    /// The feed is being moved to a thread.
    Moving,
}

impl Source {
    fn new(feed: Feed, reading: Reading) -> Self {
        let is_for_thread = reading == Reading::OwnThread;
        let new_buffer = if reading == Reading::Frugal { new_small_buffer } else { new_buffer };
        Self::Inline { feed, free: Vec::new(), unallocated: BUFFERS, new_buffer, is_for_thread }
    }

    fn take(&mut self) -> Taken {
        match self {
            Self::Thread(thread) => thread.take(),
            Self::Inline { is_for_thread: true, unallocated, .. } if *unallocated < BUFFERS => {
                self.move_to_thread();
                self.take()
            }
            Self::Inline { feed, free, unallocated, new_buffer, .. } => {
                let buffer = match free.pop() {
                    Some(buffer) => buffer,
                    None if *unallocated == 0 => return Taken::NoBuffer,
                    None => {
                        *unallocated -= 1;
                        new_buffer()
                    }
                };
                match feed.fill(buffer) {
                    Fed::Piece(piece) => Taken::Piece(piece),
                    Fed::Silent(buffer) => {
                        free.push(buffer);
                        Taken::NoBuffer
                    }
                    Fed::End => Taken::End,
                    Fed::Error(error) => Taken::Error(error),
                }
            }
            Self::Moving => unreachable!("a feed is moved within one call"),
        }
    }

    /// Moves the feed to a thread. If no thread starts, the feed stays.
    fn move_to_thread(&mut self) {
        let Self::Inline { feed, free, unallocated, .. } = std::mem::replace(self, Self::Moving) else {
            unreachable!("only an inline feed is moved");
        };
        *self = match FeedThread::start(feed, free, unallocated) {
            Ok(thread) => Self::Thread(thread),
            Err((feed, free)) => Self::Inline { feed, free, unallocated, new_buffer, is_for_thread: false },
        };
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        match self {
            Self::Inline { free, .. } => free.push(buffer),
            Self::Thread(thread) => thread.give_back(buffer),
            Self::Moving => unreachable!("a feed is moved within one call"),
        }
    }
}
#[cfg(test)]
mod tests {
    use std::path::Path;

    use flowloom_packet::{Fill, LinkType};

    use super::*;
    use crate::capture::{Capture, CaptureOptions};
    use crate::write::{PcapOptions, PcapWriter};

    /// Returns a few bytes at a time.
    struct Trickle(io::Cursor<Vec<u8>>);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(256);
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn a_long_record_that_comes_in_small_pieces_is_put_together_once() {
        // Copying all earlier bytes with each piece would be 10^12 bytes.
        let long = vec![7; RECORD_BYTES_MAX];
        let options =
            PcapOptions { link: LinkType::RAW, snaplen_bytes: u32::MAX, ..PcapOptions::default() };
        let mut writer = PcapWriter::new(Vec::new(), options).unwrap();
        for second in 0..4 {
            writer.write(second * 1_000_000_000, 9000, &long).unwrap();
        }
        let pipe = Trickle(io::Cursor::new(writer.finish().unwrap()));
        let mut capture = Capture::read_from(Path::new("pipe"), pipe, CaptureOptions::default()).unwrap();
        let mut batch = PacketBatch::new();
        for _ in 0..4 {
            assert_eq!(capture.next_batch(&mut batch).unwrap(), Fill::Packets);
            let block = batch.block.as_ref().unwrap();
            assert!(batch.packets.iter().all(|packet| packet.bytes_in(block.bytes()) == long));
        }
        assert_eq!(capture.next_batch(&mut batch).unwrap(), Fill::End);
        assert_eq!((capture.packets(), capture.notice()), (4, None));
    }
}
