//! A chunk: consecutive packets that one thread decodes, as lists of descriptors by shard.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use flowloom_flow_key::FlowHash;
use flowloom_packet::{
    Fill, OpenBlock, PacketBatch, PacketSource as _, PacketView, RawPacket, Segment, SharedBlock,
    SourceError,
};

use crate::batch::packet::{PacketDescriptor, PacketRef};
use crate::ingest::decode::{Arrived, Decoder, Losses};
use crate::sync::{AtomicU64, Ordering};

/// An encoded descriptor of a packet. Its number counts from the beginning of the chunk.
pub(crate) type Words = [u64; PacketDescriptor::WORDS];

/// Packets of a chunk that lie in one block.
#[derive(Debug)]
struct Run {
    block: SharedBlock,
    block_number: u64,
    pass: u32,
    packets: Range<usize>,
}

/// Consecutive packets of the input.
#[derive(Default)]
pub(crate) struct Chunk {
    /// The number of the first packet in the run.
    first: u64,
    len: usize,
    /// The packets, if they were read in order or are needed for a sink.
    packets: Vec<RawPacket>,
    /// The captured bytes of the packets.
    pub(crate) bytes: u64,
    runs: Vec<Run>,
    /// The descriptors of each shard's packets, in the order of the input.
    lists: Vec<Vec<Words>>,
    /// Packets without a key. The lock only makes the decoder's notes `Sync`; no thread waits for
    /// it.
    losses: Mutex<Losses>,
    /// A bit for each packet that an application has accepted, if packets go to a sink.
    accepted: Vec<AtomicU64>,
    last_ns: u64,
    /// What the thread that decodes the chunk reads itself, until the reader takes it back.
    segment: Option<Unjoined>,
    /// The time stamps of the packets.
    stamps: Vec<u64>,
    is_of_segment: bool,
}

/// A segment that is read before the packets before it are.
struct Unjoined {
    /// The lock only makes the segment `Sync`; no thread waits for it.
    segment: Mutex<Box<dyn Segment>>,
    arrived: Arrived,
    error: Option<SourceError>,
}

/// How a chunk is decoded.
#[derive(Clone, Copy)]
pub(crate) struct Decoding<'a> {
    pub(crate) decoder: &'a Decoder,
    pub(crate) shards: usize,
    pub(crate) has_sink: bool,
}

impl Chunk {
    /// Returns the number of packets.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes the packets of a segment those of the empty chunk.
    pub(crate) fn take(&mut self, segment: Box<dyn Segment>) {
        let segment = Mutex::new(segment);
        self.segment = Some(Unjoined { segment, arrived: Arrived::default(), error: None });
        self.is_of_segment = true;
    }

    /// Adds packets of a batch that were read in order, and their stamps. The first has number
    /// `first`.
    pub(crate) fn add(&mut self, first: u64, batch: &PacketBatch, range: Range<usize>, stamps: &[u64]) {
        let Some(block) = &batch.block else { return };
        if self.len == 0 {
            self.first = first;
        }
        let packets = &batch.packets[range];
        let bytes = block.bytes();
        let mut ahead = batch.lookahead();
        for _ in packets {
            ahead.request(bytes);
        }
        self.packets.extend_from_slice(packets);
        self.stamps.extend_from_slice(stamps);
        self.bytes += packets.iter().map(|raw| u64::from(raw.captured_bytes)).sum::<u64>();
        self.last_ns = packets.last().map_or(self.last_ns, |raw| raw.time_ns);
        self.add_run(batch, packets.len());
    }

    /// Counts packets of a batch. Returns the index of their run.
    fn add_run(&mut self, batch: &PacketBatch, packets: usize) -> u32 {
        let from = self.len;
        self.len += packets;
        match (&batch.block, self.runs.last_mut()) {
            (_, Some(last)) if (last.block_number, last.pass) == (batch.block_number, batch.pass) => {
                last.packets.end = self.len;
            }
            (Some(block), _) => {
                let (block, block_number) = (SharedBlock::clone(block), batch.block_number);
                self.runs.push(Run { block, block_number, pass: batch.pass, packets: from..self.len });
            }
            (None, _) => {}
        }
        self.runs.len().saturating_sub(1) as u32
    }

    /// Decodes the packets into lists, one for each shard. It reads them first if they are those of
    /// a segment.
    pub(crate) fn decode(&mut self, how: Decoding<'_>) {
        self.lists.resize_with(how.shards, Vec::new);
        if self.segment.is_some() {
            self.decode_segment(how);
        } else {
            let Self { packets, stamps, runs, lists, losses, .. } = self;
            let losses = losses.get_mut().unwrap_or_else(PoisonError::into_inner);
            for (index, run) in (0..).zip(&*runs) {
                let block = run.block.bytes();
                let mut into = Lists { by_shard: lists, losses, index };
                let these = run.packets.clone();
                for (number, (raw, &stamp)) in
                    (these.start as u64..).zip(packets[these.clone()].iter_mut().zip(&stamps[these]))
                {
                    into.admit(how.decoder, (number, raw, stamp), block, run.pass);
                }
            }
        }
        if how.has_sink {
            self.accepted.resize_with(self.len.div_ceil(64), AtomicU64::default);
        }
    }

    fn decode_segment(&mut self, how: Decoding<'_>) {
        let Some(mut unjoined) = self.segment.take() else { return };
        let segment = unjoined.segment.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut batch = PacketBatch::new();
        loop {
            match segment.next_batch(&mut batch) {
                Ok(Fill::Packets) => {}
                // A segment lies in memory; a source may only have selected none of many packets.
                Ok(Fill::Starved) => continue,
                Ok(Fill::End) => break,
                Err(error) => {
                    unjoined.error = Some(error);
                    break;
                }
            }
            let Some(block) = batch.block.clone() else { break };
            let open = block.bytes();
            let from = self.len as u64;
            let index = self.add_run(&batch, batch.packets.len());
            unjoined.arrived.add(&batch.packets, open, how.decoder.options());
            let mut ahead = batch.lookahead();
            let losses = self.losses.get_mut().unwrap_or_else(PoisonError::into_inner);
            let mut into = Lists { by_shard: &mut self.lists, losses, index };
            for (number, raw) in (from..).zip(&mut batch.packets) {
                ahead.request(open);
                self.stamps.push(raw.time_ns);
                let stamp = raw.time_ns;
                into.admit(how.decoder, (number, raw, stamp), open, batch.pass);
            }
            if how.has_sink {
                self.packets.extend_from_slice(&batch.packets);
            }
        }
        self.last_ns = self.stamps.last().copied().unwrap_or_default();
        self.segment = Some(unjoined);
    }

    /// Returns whether the packets are those of a segment.
    pub(crate) fn is_of_segment(&self) -> bool {
        self.is_of_segment
    }

    /// Takes the segment and its decoded packets out. A panic may have dropped it.
    pub(crate) fn untake(&mut self) -> Option<(Box<dyn Segment>, Arrived, Option<SourceError>)> {
        let Unjoined { segment, arrived, error } = self.segment.take()?;
        Some((segment.into_inner().unwrap_or_else(PoisonError::into_inner), arrived, error))
    }

    /// Returns the time stamps of a segment's packets.
    pub(crate) fn stamps(&mut self) -> &mut [u64] {
        &mut self.stamps
    }

    /// Sets the number of the first packet of a segment, and if `has_changed` the times of all.
    pub(crate) fn number(&mut self, first: u64, has_changed: bool) {
        self.first = first;
        if has_changed {
            for words in self.lists.iter_mut().flatten() {
                let at = PacketDescriptor::of_words(words).packet.number() as usize;
                words[PacketDescriptor::TIME] = self.stamps[at];
            }
            for (raw, &time_ns) in self.packets.iter_mut().zip(&self.stamps) {
                raw.time_ns = time_ns;
            }
            self.last_ns = self.stamps.last().copied().unwrap_or_default();
        }
    }

    /// Returns the number of the first packet and the counts of packets without a key, whose
    /// numbers count from there.
    pub(crate) fn losses(&mut self) -> (u64, &mut Losses) {
        (self.first, self.losses.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the descriptors of a shard's packets.
    pub(crate) fn list(&self, shard: usize) -> &[Words] {
        self.lists.get(shard).map_or(&[], Vec::as_slice)
    }

    /// Returns the time of the last packet.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Opens the blocks of the packets.
    pub(crate) fn open(&self) -> OpenChunk<'_> {
        let block = self.runs.first().map_or_else(OpenBlock::default, |run| run.block.open());
        OpenChunk { chunk: self, latest: Cell::new((0, block)) }
    }

    /// Marks a packet as accepted.
    pub(crate) fn accept(&self, packet: PacketRef) {
        let at = packet.number() as usize;
        if let Some(bits) = self.accepted.get(at / 64) {
            // Relaxed: the board hands the chunk over.
            bits.fetch_or(1 << (at % 64), Ordering::Relaxed);
        }
    }

    /// Passes the accepted packets to `to`, each with its number and its bytes.
    pub(crate) fn for_each_accepted(&self, mut to: impl FnMut(u64, &RawPacket, &[u8])) {
        for run in &self.runs {
            let block = run.block.bytes();
            for at in run.packets.clone() {
                let bits = self.accepted.get(at / 64).map_or(0, |bits| bits.load(Ordering::Relaxed));
                if bits >> (at % 64) & 1 != 0 {
                    let raw = &self.packets[at];
                    to(self.first + at as u64, raw, raw.bytes_in(block));
                }
            }
        }
    }

    /// Discards the decoded packets after a panic. Returns the number of packets that the reader
    /// has counted.
    pub(crate) fn lose(&mut self) -> u64 {
        self.lists.iter_mut().for_each(Vec::clear);
        *self.losses().1 = Losses::default();
        if self.is_of_segment { 0 } else { self.len as u64 }
    }

    /// Empties the chunk, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.packets.clear();
        self.bytes = 0;
        self.runs.clear();
        self.lists.iter_mut().for_each(Vec::clear);
        *self.losses().1 = Losses::default();
        self.accepted.clear();
        self.segment = None;
        self.stamps.clear();
        self.is_of_segment = false;
    }
}

/// The lists into which the packets of a run are sorted.
struct Lists<'a> {
    by_shard: &'a mut [Vec<Words>],
    losses: &'a mut Losses,
    index: u32,
}

impl Lists<'_> {
    /// A packet with an impossible length on the wire gets a possible one.
    #[inline(always)]
    fn admit(
        &mut self,
        decoder: &Decoder,
        (number, raw, stamped_ns): (u64, &mut RawPacket, u64),
        block: &[u8],
        pass: u32,
    ) {
        let Self { by_shard, losses, index } = self;
        let (mut wire, link) = (raw.wire_bytes, raw.link);
        let packet = (number, &*raw, stamped_ns);
        let admitted = decoder.admit(packet, block, pass, &mut losses.census, |headers, hash, place| {
            wire = place.wire;
            let packet = PacketRef::packet(hash.table, place, link).in_run(*index);
            let shard = shard_of(hash, by_shard.len());
            by_shard[shard].push(PacketDescriptor::words(packet, place.stamped_ns, headers));
        });
        raw.wire_bytes = wire;
        if let Err(reason) = admitted {
            losses.refuse(reason, link);
        }
    }
}

/// Returns the shard of a flow. Tables use another half of the hash.
#[inline(always)]
fn shard_of(hash: FlowHash, shards: usize) -> usize {
    ((u64::from(hash.worker) * shards as u64) >> 32) as usize
}

/// A chunk with the block that was read last.
pub(crate) struct OpenChunk<'a> {
    chunk: &'a Chunk,
    latest: Cell<(u32, OpenBlock<'a>)>,
}

impl<'a> OpenChunk<'a> {
    /// Returns the block of a packet.
    #[inline(always)]
    pub(crate) fn block(&self, packet: PacketRef) -> OpenBlock<'a> {
        let (run, block) = self.latest.get();
        if packet.sequence() == run { block } else { self.another(packet.sequence()) }
    }

    #[cold]
    fn another(&self, run: u32) -> OpenBlock<'a> {
        let block =
            self.chunk.runs.get(run as usize).map_or_else(OpenBlock::default, |run| run.block.open());
        self.latest.set((run, block));
        block
    }

    /// Returns the number of a packet in the run, and the packet as applications see it.
    #[inline(always)]
    pub(crate) fn view(&self, descriptor: &PacketDescriptor) -> (u64, PacketView<'a>) {
        let (number, view) = descriptor.view(self.block(descriptor.packet));
        (self.chunk.first + number, view)
    }
}
