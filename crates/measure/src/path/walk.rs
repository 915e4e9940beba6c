//! The packet path up to the hash, and the copy that it is compared with.

use std::hint::black_box;

use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_packet::{
    DecodeOptions, Fill, Headers, LinkType, PacketBatch, PacketSource, SourceError, decode,
};

/// Number of bytes copied at once: a size that fits the second-level cache, and that most readers
/// read at once.
pub const COPY_BYTES: usize = 64 << 10;

/// The results of a round. A step that was not performed has the value 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Captured bytes.
    pub bytes: u64,
    /// Packets with a flow key.
    pub decoded: u64,
    /// A value derived from each packet's result, so that the compiler can omit none.
    pub checksum: u64,
}

impl Tally {
    /// Counts a packet and its captured bytes.
    #[inline(always)]
    pub fn count(&mut self, captured: u32) {
        self.packets += 1;
        self.bytes += u64::from(captured);
    }

    /// Counts a packet with a key, and adds its hash.
    #[inline(always)]
    pub fn hashed(&mut self, hasher: &FlowHasher, key: &FlowKey) {
        let hash = hasher.hash(key);
        self.decoded += 1;
        self.checksum = self.checksum.wrapping_add(hash.table.bits() ^ u64::from(hash.worker));
    }
}

/// Walks all records.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn walk(source: &mut impl PacketSource) -> Result<Tally, SourceError> {
    let mut tally = Tally::default();
    let mut batch = PacketBatch::new();
    while source.next_batch(&mut batch)? == Fill::Packets {
        let Some(block) = &batch.block else { continue };
        let block = block.bytes();
        let mut ahead = batch.lookahead();
        for raw in &batch.packets {
            ahead.request(block);
            tally.count(raw.captured_bytes);
        }
    }
    Ok(tally)
}

/// Walks all records and decodes them.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn walk_parse(source: &mut impl PacketSource) -> Result<Tally, SourceError> {
    each_decoded(source, |tally, headers| {
        tally.decoded += 1;
        let words = headers.key.words();
        tally.checksum = tally.checksum.wrapping_add(words[0] ^ words[4]);
    })
}

/// Walks all records, decodes them, and hashes their keys.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn walk_parse_hash(source: &mut impl PacketSource, hasher: &FlowHasher) -> Result<Tally, SourceError> {
    each_decoded(source, |tally, headers| tally.hashed(hasher, &headers.key))
}

#[inline(always)]
fn each_decoded(
    source: &mut impl PacketSource,
    mut take: impl FnMut(&mut Tally, &Headers),
) -> Result<Tally, SourceError> {
    let mut tally = Tally::default();
    let mut batch = PacketBatch::new();
    while source.next_batch(&mut batch)? == Fill::Packets {
        let Some(block) = &batch.block else { continue };
        let block = block.bytes();
        let mut ahead = batch.lookahead();
        for raw in &batch.packets {
            ahead.request(block);
            tally.count(raw.captured_bytes);
            if let Some(headers) = headers_of(raw.link, raw.bytes_in(block), batch.pass) {
                take(&mut tally, &headers);
            }
        }
    }
    Ok(tally)
}

/// Returns a packet's headers; its key is marked with the pass as in the engine.
#[inline(always)]
pub fn headers_of(link: LinkType, bytes: &[u8], pass: u32) -> Option<Headers> {
    let mut headers = decode(link, bytes, DecodeOptions::default()).ok()?;
    headers.key = headers.key.with_pass(pass);
    Some(headers)
}

/// Copies `bytes` a number of times, block by block, into a buffer that stays in the cache.
pub fn copy(bytes: &[u8], passes: u64, buffer: &mut [u8]) {
    for _ in 0..passes {
        for block in bytes.chunks(buffer.len().max(1)) {
            buffer[..block.len()].copy_from_slice(block);
            black_box(&mut *buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::CaptureFile;
    use super::super::looped::{Looped, mapping};
    use super::*;

    #[test]
    fn every_step_sees_the_same_packets() {
        let capture = CaptureFile::generate(1000, 50).unwrap();
        let open = || Looped::open(capture.path(), 1000).unwrap();
        let walked = walk(&mut open()).unwrap();
        let parsed = walk_parse(&mut open()).unwrap();
        let hashed = walk_parse_hash(&mut open(), &FlowHasher::with_seed(1)).unwrap();
        assert_eq!(walked.packets, 1000);
        assert_eq!((walked.packets, walked.bytes), (parsed.packets, parsed.bytes));
        assert_eq!((parsed.bytes, parsed.decoded), (hashed.bytes, hashed.decoded));
    }

    #[test]
    fn copy_ends_with_the_last_block() {
        let capture = CaptureFile::generate(1000, 50).unwrap();
        let block = mapping(capture.path()).unwrap();
        let bytes = block.bytes();
        let mut buffer = vec![0; COPY_BYTES];
        copy(bytes, 2, &mut buffer);
        let tail = &bytes[bytes.len() / COPY_BYTES * COPY_BYTES..];
        assert_eq!(&buffer[..tail.len()], tail);
    }
}
