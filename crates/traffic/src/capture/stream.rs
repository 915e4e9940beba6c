//! Pipes and compressed files: read into a pool of blocks that are refilled once every worker let go of them.
//!
//! The library's streaming reader does the buffering; what it holds is copied into a block in one piece and walked
//! there by the same code that walks a mapped file, so both ways yield the same packets.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_packet::{Block, PacketBatch, SharedBlock};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapError, PcapNGReader};

use super::format::Format;
use super::walk::{Stop, Walk};
use super::{RECORD_BYTES_MAX, pcap};

/// Bytes buffered to begin with; grown when a record is longer, up to [`BUFFER_BYTES_MAX`].
const BUFFER_BYTES: usize = 256 << 10;
/// Room for the largest record that is believed, with its header.
const BUFFER_BYTES_MAX: usize = RECORD_BYTES_MAX + 4096;
/// Blocks in the pool: one being walked, the others waiting for workers to let go.
const POOL_BLOCKS: usize = 8;

/// What stopped a stream for good.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// It ended where a record ends, or was cut, or is corrupt.
    Stop(Stop),
    /// Reading failed.
    Error(io::Error),
}

/// What a call to [`Stream::fill`] did.
#[derive(Debug)]
pub(super) enum StreamFill {
    /// The batch holds packets.
    Packets,
    /// All blocks are held by workers, or nothing comes.
    Starved,
    /// No more packets.
    End(StreamEnd),
}

/// Bytes already read, then the rest; keeps the error that the library's reader would forget.
struct Remembering<R> {
    prefix: io::Cursor<Vec<u8>>,
    inner: R,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl<R: Read> Read for Remembering<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.prefix.read(buffer)?;
        if bytes > 0 {
            return Ok(bytes);
        }
        loop {
            match self.inner.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return Err(kind.into());
                }
                Ok(bytes) => return Ok(bytes),
            }
        }
    }
}

/// A capture that is read from front to back.
pub(super) struct Stream {
    reader: Box<dyn PcapReaderIterator + Send>,
    error: Arc<Mutex<Option<io::Error>>>,
    pool: Vec<SharedBlock>,
    /// The block being walked, and how far.
    current: Option<(SharedBlock, usize)>,
    capacity: usize,
    /// Bytes that the next record has: a long one would be copied and looked at anew for each piece of it that comes.
    wanted: usize,
    /// Unpacked bytes before the current block.
    base: u64,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream(at byte {})", self.base)
    }
}

impl Stream {
    /// Returns a stream whose first bytes are `prefix`; they hold the whole file header or section header.
    pub(super) fn new(
        format: Format,
        mut prefix: Vec<u8>,
        start: usize,
        inner: impl Read + Send + 'static,
    ) -> Result<Self, String> {
        let error = Arc::new(Mutex::new(None));
        if let (Format::Pcap { big_endian: true, .. }, Some(magic)) = (format, prefix.get_mut(..4)) {
            // The library does not know the modified variant in this byte order. Here it only buffers.
            magic.copy_from_slice(&0xA1B2_C3D4_u32.to_be_bytes());
        }
        let capacity = BUFFER_BYTES.max(prefix.len());
        let remembering = Remembering { prefix: io::Cursor::new(prefix), inner, error: Arc::clone(&error) };
        let broken = |error: PcapError<&[u8]>| format!("broken header: {error:?}");
        let mut reader: Box<dyn PcapReaderIterator + Send> = match format {
            Format::Pcap { .. } => Box::new(LegacyPcapReader::new(capacity, remembering).map_err(broken)?),
            Format::Pcapng => Box::new(PcapNGReader::new(capacity, remembering).map_err(broken)?),
        };
        debug_assert!(
            start <= pcap::FILE_HEADER_BYTES,
            "only a pcap file header precedes the first record"
        );
        reader.consume(start);
        Ok(Self { reader, error, pool: Vec::new(), current: None, capacity, wanted: 0, base: start as u64 })
    }

    /// Returns the offset in the unpacked file of position `at` in the current block.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.current.as_ref().map_or(0, |(_, at)| *at as u64)
    }

    /// Fills an empty batch with the next packets.
    pub(super) fn fill(&mut self, walk: &mut Walk, batch: &mut PacketBatch) -> StreamFill {
        loop {
            if let Some((block, at)) = &mut self.current {
                let (next, stop) =
                    walk.step(block.bytes(), *at, self.reader.reader_exhausted(), &mut batch.packets);
                *at = next;
                if !batch.packets.is_empty() {
                    batch.block = Some(Arc::clone(block));
                    return StreamFill::Packets;
                }
                match stop {
                    Stop::Full => unreachable!("a full batch has packets"),
                    Stop::More { need } => {
                        if need > self.capacity && !self.grow(need) {
                            let why = format!(
                                "a record needs {need} bytes of buffer, the cap is {BUFFER_BYTES_MAX}"
                            );
                            return StreamFill::End(StreamEnd::Stop(Stop::Corrupt(why)));
                        }
                        self.wanted = need;
                    }
                    stop => return StreamFill::End(StreamEnd::Stop(stop)),
                }
            }
            // Starved is answered before anything is consumed, so that asking again repeats nothing.
            let Some(mut block) = self.free_block() else { return StreamFill::Starved };
            if let Some((walked, at)) = self.current.take() {
                self.reader.consume(at);
                self.base += at as u64;
                self.pool.push(walked);
            }
            loop {
                if self.reader.refill().is_err() {
                    let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let error = error.unwrap_or_else(|| io::Error::other("reading failed"));
                    if error.kind() == io::ErrorKind::WouldBlock {
                        // What came of a record stays with the reader.
                        self.pool.push(block);
                        return StreamFill::Starved;
                    }
                    return StreamFill::End(StreamEnd::Error(error));
                }
                if self.reader.data().len() >= self.wanted || self.reader.reader_exhausted() {
                    break;
                }
            }
            self.wanted = 0;
            if let Some(Block::Owned(bytes)) = Arc::get_mut(&mut block) {
                bytes.clear();
                bytes.extend_from_slice(self.reader.data());
            }
            walk.moved(self.base);
            batch.block_number += 1;
            self.current = Some((block, 0));
        }
    }

    fn grow(&mut self, need: usize) -> bool {
        let capacity = need.saturating_mul(2).min(BUFFER_BYTES_MAX);
        if need > BUFFER_BYTES_MAX {
            return false;
        }
        self.reader.grow(capacity);
        self.capacity = capacity;
        true
    }

    /// Takes a block that nobody else holds out of the pool, or adds one while the pool may grow.
    fn free_block(&mut self) -> Option<SharedBlock> {
        if let Some(free) = self.pool.iter_mut().position(|block| Arc::get_mut(block).is_some()) {
            return Some(self.pool.swap_remove(free));
        }
        let held = self.pool.len() + usize::from(self.current.is_some());
        (held < POOL_BLOCKS).then(|| Arc::new(Block::Owned(Vec::with_capacity(self.capacity))))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flowloom_packet::{Fill, LinkType};

    use super::*;
    use crate::capture::{Capture, CaptureOptions};
    use crate::write::{PcapOptions, PcapWriter};

    /// Gives a few bytes at a time.
    struct Trickle(io::Cursor<Vec<u8>>);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let room = buffer.len().min(256);
            self.0.read(&mut buffer[..room])
        }
    }

    #[test]
    fn a_long_record_that_comes_in_small_pieces_is_put_together_once() {
        // Were all that has come of it copied at each piece, it would be 10^12 bytes.
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
