//! Joins fragments into datagrams before any other stage sees them.
//!
//! ```text
//!  any source ─ batch ─┬─ no fragment: passed on unchanged, in its own block
//!                      └─ otherwise ─┬─ runs of whole packets, in the batch's block
//!                                    └─ fragments ─▶ pool ─▶ datagram in a block of its own,
//!                                         │                  in place of its last fragment
//!                                         └─▶ counted: joined, duplicate, overlap, too old, …
//! ```
//!
//! Fragments are recognised at the decoder's IP offset: after VLAN tags, MPLS labels, PPPoE and
//! every link type that is decoded. With [`DecodeOptions::decap`] the outermost and the innermost
//! IP header are checked, in this order; headers between the two are not. A fragment that the
//! decoder rejects is passed on, and the decoder counts it.
//!
//! A datagram has the link layer and the IP header of its fragment at offset 0, with the length,
//! checksum and fragment fields of an unfragmented packet. Other length fields before that header
//! remain unchanged. It has the time of the fragment that completed it, and the sum of the
//! fragments' bytes on the wire. Its block states the [`Fragments`](flowloom_packet::Fragments).
//!
//! **Overlaps.** A fragment whose bytes are all known and equal is a duplicate, and only the
//! duplicate is dropped. Any other overlap ends the datagram with all its fragments, including
//! later ones, as RFC 5722 requires for IPv6 and as Linux does for IPv4 too: it is unknown which
//! version the receiver used. No datagram mixes two versions of a byte.
//!
//! etherparse's `IpDefragBuf` assembles the bytes. The library's `IpDefragPool` has no limit,
//! cannot abandon a single datagram, and discards the headers, so this module has its own pool.
//!
//! An unfragmented packet costs one check of a header that the decoder reads anyway. With `decap`,
//! a UDP packet costs one additional decoding.

mod fragment;
mod pool;

use std::sync::Arc;

use flowloom_packet::{
    Block, DecodeOptions, DropCounts, Fill, PacketBatch, PacketSource, RawPacket, SharedBlock, SourceError,
};

pub use pool::DefragLimits;
use pool::{Datagram, Pool, WireSum};

/// Maximum number of blocks of datagrams that workers may hold: about 4 MiB if all datagrams have
/// the largest size.
const BLOCKS_MAX: usize = 64;

/// The location of a batch's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketLocation {
    /// A block of the source, by its number.
    Source(u64),
    /// A block of this module, by the index of its datagram.
    Datagram(u64),
}

/// A source that joins the fragments of another one.
///
/// # Examples
///
/// ```no_run
/// use flowloom_packet::{DecodeOptions, Fill, PacketBatch, PacketSource};
/// use flowloom_traffic::capture::{CaptureSet, Input, SetOptions};
/// use flowloom_traffic::defrag::{Defrag, DefragLimits};
///
/// let set = CaptureSet::open(&[Input::Path("edge.pcap".into())], SetOptions::default())?;
/// let mut source = Defrag::new(set, DecodeOptions::default(), DefragLimits::default());
/// let mut batch = PacketBatch::new();
/// let (mut whole, mut withheld) = (0, 0);
/// loop {
///     let fill = source.next_batch(&mut batch)?;
///     whole += batch.packets.len() as u64;
///     withheld += source.withheld().total();
///     if fill == Fill::End {
///         break;
///     }
/// }
/// println!("{} packets came in", whole + withheld + source.withheld().total());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Defrag<S> {
    inner: S,
    decode: DecodeOptions,
    pool: Pool,
    /// A batch with fragments, and how far it was processed.
    split: PacketBatch,
    at: usize,
    /// A datagram that waits for a block, with the pass of its last fragment.
    ready: Option<(Datagram, u32)>,
    blocks: Vec<SharedBlock>,
    datagrams: u64,
    place: Option<PacketLocation>,
    number: u64,
    /// Whether nothing was read from the source since the last call of `withheld`.
    asked: bool,
}

impl<S: PacketSource> Defrag<S> {
    /// Returns a source that yields the packets of `inner`, with datagrams in place of fragments.
    pub fn new(inner: S, decode: DecodeOptions, limits: DefragLimits) -> Self {
        Self {
            inner,
            decode,
            pool: Pool::new(limits),
            split: PacketBatch::new(),
            at: 0,
            ready: None,
            blocks: Vec::new(),
            datagrams: 0,
            place: None,
            number: 0,
            asked: true,
        }
    }

    /// Returns the inner source.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the number of incomplete datagrams, and the bytes that they hold.
    pub fn held(&self) -> (usize, usize) {
        (self.pool.datagrams(), self.pool.bytes())
    }

    /// Sets the block number of a batch according to the location of its packets: a new location
    /// gets a new number.
    fn number(&mut self, batch: &mut PacketBatch, place: PacketLocation) {
        if self.place != Some(place) {
            self.place = Some(place);
            self.number += 1;
        }
        batch.block_number = self.number;
    }

    /// Puts the completed datagram into a block. Without a free block, the datagram waits.
    fn yield_ready(&mut self, batch: &mut PacketBatch) -> Option<Fill> {
        let (datagram, pass) = self.ready.take()?;
        let Some(mut block) = self.free_block() else {
            self.ready = Some((datagram, pass));
            return Some(Fill::Starved);
        };
        batch.pass = pass;
        batch.packets.push(RawPacket {
            position: 0,
            // A datagram and its headers have at most 64 KiB and a few hundred bytes.
            captured_bytes: u32::try_from(datagram.bytes.len()).unwrap_or(u32::MAX),
            wire_bytes: datagram.sum.wire_bytes(),
            time_ns: datagram.sum.last_ns,
            link: datagram.link,
            interface: datagram.interface,
        });
        if let Some(place) = Arc::get_mut(&mut block) {
            *place = Block::Datagram(datagram.bytes, datagram.sum.fragments());
        }
        batch.block = Some(Arc::clone(&block));
        self.blocks.push(block);
        self.datagrams += 1;
        self.number(batch, PacketLocation::Datagram(self.datagrams));
        Some(Fill::Packets)
    }

    /// Takes a block that no other holder has, or a new one within the limit.
    fn free_block(&mut self) -> Option<SharedBlock> {
        if let Some(free) = self.blocks.iter_mut().position(|block| Arc::get_mut(block).is_some()) {
            return Some(self.blocks.swap_remove(free));
        }
        (self.blocks.len() < BLOCKS_MAX).then(SharedBlock::default)
    }

    /// Continues with a batch that has fragments: moves a run of whole packets into `batch`, or
    /// processes fragments until one completes a datagram.
    fn take_apart(&mut self, batch: &mut PacketBatch) {
        let Some(block) = &self.split.block else {
            self.at = self.split.packets.len();
            return;
        };
        let bytes = block.bytes();
        while let Some(raw) = self.split.packets.get(self.at) {
            let packet = raw.bytes_in(bytes);
            let Some(fragment) = fragment::find(raw, packet, self.split.pass, self.decode) else {
                batch.packets.push(*raw);
                self.at += 1;
                continue;
            };
            if !batch.packets.is_empty() {
                break;
            }
            self.at += 1;
            let sum = WireSum::of_packet(raw, fragment.ip_bytes());
            if let Some(datagram) = self.pool.add(&fragment, (raw.link, raw.interface), packet, sum) {
                self.ready = join_inner(&mut self.pool, datagram, self.split.pass, self.decode);
                if self.ready.is_some() {
                    break;
                }
            }
        }
        if !batch.packets.is_empty() {
            batch.block = Some(Arc::clone(block));
            batch.pass = self.split.pass;
            let place = PacketLocation::Source(self.split.block_number);
            self.number(batch, place);
        }
        if self.at == self.split.packets.len() {
            // Releases the block early, because the source may want to refill it.
            self.split.block = None;
        }
    }

    fn has_fragments(&self, batch: &PacketBatch) -> bool {
        let Some(block) = &batch.block else { return false };
        let bytes = block.bytes();
        batch
            .packets
            .iter()
            .any(|raw| fragment::find(raw, raw.bytes_in(bytes), batch.pass, self.decode).is_some())
    }
}

/// Passes on a datagram. A datagram that is itself a fragment, inside a tunnel, is added to the
/// pool again.
fn join_inner(
    pool: &mut Pool,
    mut outer: Datagram,
    pass: u32,
    decode: DecodeOptions,
) -> Option<(Datagram, u32)> {
    let raw = RawPacket {
        position: 0,
        captured_bytes: u32::try_from(outer.bytes.len()).unwrap_or(u32::MAX),
        wire_bytes: outer.sum.wire_bytes(),
        time_ns: outer.sum.last_ns,
        link: outer.link,
        interface: outer.interface,
    };
    let Some(fragment) = fragment::find(&raw, &outer.bytes, pass, decode) else {
        let headers = flowloom_packet::decode(outer.link, &outer.bytes, decode);
        if headers.is_ok_and(|headers| headers.network_offset as usize != outer.network_offset) {
            // The flow is that of an inner packet, whose only IP header is in the datagram.
            outer.sum.more_ip_bytes = 0;
        }
        return Some((outer, pass));
    };
    // The result is complete: neither its outermost nor its innermost header belongs to a fragment.
    let sum = outer.sum.inside(fragment.ip_bytes());
    pool.add(&fragment, (outer.link, outer.interface), &outer.bytes, sum).map(|datagram| (datagram, pass))
}

impl<S: PacketSource> PacketSource for Defrag<S> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.asked = false;
        loop {
            batch.packets.clear();
            batch.block = None;
            batch.ahead = 0..0;
            // While packets wait here, those before any time are not all yielded.
            batch.yielded_until_ns = None;
            if let Some(fill) = self.yield_ready(batch) {
                return Ok(fill);
            }
            if self.at < self.split.packets.len() {
                self.take_apart(batch);
                if !batch.packets.is_empty() {
                    return Ok(Fill::Packets);
                }
                continue;
            }
            // The source continues from the block number that it finds in the batch.
            batch.block_number = self.split.block_number;
            let fill = self.inner.next_batch(batch);
            match fill {
                Ok(Fill::Packets) => {}
                Ok(Fill::Starved) => return Ok(Fill::Starved),
                Ok(Fill::End) => {
                    self.pool.finish();
                    return Ok(Fill::End);
                }
                Err(error) => {
                    self.pool.finish();
                    return Err(error);
                }
            }
            self.split.block_number = batch.block_number;
            if !self.has_fragments(batch) {
                let place = PacketLocation::Source(batch.block_number);
                self.number(batch, place);
                return Ok(Fill::Packets);
            }
            std::mem::swap(batch, &mut self.split);
            self.at = 0;
        }
    }

    fn withheld(&mut self) -> DropCounts {
        if self.asked {
            // No packet was read in between, so the run is over, and incomplete datagrams end with
            // it.
            self.pool.finish();
        }
        self.asked = true;
        let mut withheld = std::mem::take(&mut self.pool.ended);
        withheld.merge(&self.inner.withheld());
        withheld
    }
}
