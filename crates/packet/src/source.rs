//! The trait of packet sources, and the batches that they yield to the engine's input stage.

use std::any::Any;
use std::ops::Range;

use flowloom_cpu::prefetch::{self, LINE_BYTES};

use crate::arena::{SharedBlock, bytes_at};
use crate::decode::{DecodeOptions, decode};
use crate::drop_reason::DropCounts;
use crate::interface::InterfaceName;
use crate::link::LinkType;
use crate::view::TRAILER_BYTES_MAX;

/// Maximum number of packets in a batch. They share one indirect call.
///
/// Thirty-two packets of a usual mix span about 11 KiB, so the lines that the source prefetched are
/// still in the first-level cache when the decoder reads them.
pub const BATCH_PACKETS: usize = 32;

/// A record of a capture, as its position in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPacket {
    /// Offset of the first byte in the batch's block.
    pub position: u64,
    /// Captured bytes of the packet.
    pub captured_bytes: u32,
    /// Bytes of the packet on the wire, as the record states it. In real files it may be less than
    /// `captured_bytes`.
    pub wire_bytes: u32,
    /// Nanoseconds since 1970, as the record states it. It may go backwards.
    pub time_ns: u64,
    /// The link type of the interface that captured it.
    pub link: LinkType,
    /// The name of that interface.
    pub interface: InterfaceName,
}

const _: () = assert!(size_of::<RawPacket>() == 32, "sources and stages copy many");

impl RawPacket {
    /// Returns the packet's bytes, or an empty slice if they do not lie in `block`, which must be
    /// the batch's.
    #[inline(always)]
    pub fn bytes_in<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        bytes_at(block, self.position, self.captured_bytes)
    }

    /// Returns the bytes on the wire that sums count: those that the record states, unless no frame
    /// of the packet can be that long, as
    /// [`Headers::fit_to_wire`](crate::Headers::fit_to_wire) decides. A packet without a flow key
    /// can be 128 KiB longer than the captured bytes; otherwise only these count. The function of
    /// the captured bytes is called only if they decide.
    #[inline(always)]
    pub fn counted_bytes<'a>(&self, bytes: impl FnOnce() -> &'a [u8], options: DecodeOptions) -> u32 {
        let is_usual = self.wire_bytes.saturating_sub(self.captured_bytes) <= TRAILER_BYTES_MAX;
        if is_usual { self.wire_bytes } else { self.fitted_bytes(bytes(), options) }
    }

    #[cold]
    fn fitted_bytes(&self, bytes: &[u8], options: DecodeOptions) -> u32 {
        match decode(self.link, bytes, options) {
            Ok(mut headers) => headers.fit_to_wire(bytes, self.wire_bytes),
            Err(_) => self.captured_bytes,
        }
    }
}

/// Maximum number of bytes requested with one packet, in case a source states too much in `ahead`;
/// it exceeds a first-level cache.
const SHARE_BYTES_MAX: usize = 64 << 10;

/// A batch of packets that lie in one block.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PacketBatch {
    /// The block that holds the packets. `None` only in an empty batch.
    pub block: Option<SharedBlock>,
    /// Changes whenever `block` becomes another block, or the same block with other contents. Later
    /// stages identify a block by it.
    pub block_number: u64,
    /// The round of a looped source, 0 for the first.
    pub pass: u32,
    /// At most [`BATCH_PACKETS`] records, in capture order.
    pub packets: Vec<RawPacket>,
    /// Bytes of the block that the source will read next and that nothing has prefetched yet.
    pub ahead: Range<u64>,
    /// The time, as packets are stamped, before which a live source has yielded every packet. With
    /// [`Fill::Starved`] it lets time pass, so that flows end though no packet arrives. `None`, as
    /// it stays with captures, lets time pass with packets only. [`LiveTime`](crate::LiveTime)
    /// computes it.
    pub yielded_until_ns: Option<u64>,
}

impl PacketBatch {
    /// Returns an empty batch with capacity for [`BATCH_PACKETS`] packets.
    pub fn new() -> Self {
        Self { packets: Vec::with_capacity(BATCH_PACKETS), ..Self::default() }
    }

    /// Returns a prefetcher of the lines that the source will need next. It prefetches some lines
    /// with each packet.
    ///
    /// This way memory accesses overlap with decoding. If all lines were requested at once, the
    /// source would wait for memory, and memory for the decoder.
    #[inline]
    pub fn lookahead(&self) -> Lookahead {
        // Positions in a block in memory fit into `usize`.
        let [next, end] = [self.ahead.start, self.ahead.end]
            .map(|at| usize::try_from(at).unwrap_or(usize::MAX).min(isize::MAX as usize));
        let share = (end.saturating_sub(next) / self.packets.len().max(1)).min(SHARE_BYTES_MAX);
        Lookahead { next, end, share: share.next_multiple_of(LINE_BYTES) }
    }
}

/// Prefetches the lines that a source will need next, spread over the packets of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Lookahead {
    next: usize,
    end: usize,
    share: usize,
}

impl Lookahead {
    /// Prefetches one packet's share of the lines. `block` must be the batch's.
    #[inline(always)]
    pub fn request(&mut self, block: &[u8]) {
        let goal = self.end.min(self.next + self.share);
        while self.next < goal {
            prefetch::read_at(block, self.next);
            self.next += LINE_BYTES;
        }
    }
}

/// The result of a call to [`PacketSource::next_batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// At least one packet.
    Packets,
    /// No packets at present, because workers still hold every block of the source's pool, or
    /// because an interface or a pipe has delivered nothing. Ask again after the workers have run.
    ///
    /// Stages may keep the block of the latest batch until the next batch, so a pool needs at least
    /// two blocks.
    Starved,
    /// No packets, and none will follow.
    End,
}

/// The error of a source that cannot continue.
///
/// # Examples
///
/// ```
/// use flowloom_packet::SourceError;
/// let error = SourceError("the cable was pulled".into());
/// assert_eq!(error.to_string(), "the cable was pulled");
/// let error = SourceError::from(std::io::Error::other("no carrier"));
/// assert!(error.0.is::<std::io::Error>());
/// ```
#[derive(Debug)]
pub struct SourceError(pub Box<dyn std::error::Error + Send + Sync>);

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<std::io::Error> for SourceError {
    fn from(error: std::io::Error) -> Self {
        Self(error.into())
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// A source of packets in batches: a capture, a generator, or a live interface.
///
/// # Examples
///
/// Example: frames from a channel, with each batch in its own block.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use flowloom_packet::{
///     BATCH_PACKETS, Block, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, RawPacket,
///     SourceError,
/// };
///
/// struct Frames(mpsc::Receiver<(u64, Vec<u8>)>);
///
/// impl PacketSource for Frames {
///     fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
///         batch.packets.clear();
///         let mut bytes = Vec::new();
///         let mut is_over = false;
///         while batch.packets.len() < BATCH_PACKETS {
///             match self.0.try_recv() {
///                 Ok((time_ns, frame)) => {
///                     batch.packets.push(RawPacket {
///                         position: bytes.len() as u64,
///                         captured_bytes: frame.len() as u32,
///                         wire_bytes: frame.len() as u32,
///                         time_ns,
///                         link: LinkType::ETHERNET,
///                         interface: InterfaceName::UNKNOWN,
///                     });
///                     bytes.extend(frame);
///                 }
///                 Err(mpsc::TryRecvError::Empty) => break,
///                 Err(mpsc::TryRecvError::Disconnected) => {
///                     is_over = true;
///                     break;
///                 }
///             }
///         }
///         if batch.packets.is_empty() {
///             return Ok(if is_over { Fill::End } else { Fill::Starved });
///         }
///         // A stage that still reads the previous block keeps it alive.
///         batch.block = Some(Arc::new(Block::Owned(bytes)));
///         batch.block_number += 1;
///         Ok(Fill::Packets)
///     }
/// }
///
/// let (sender, receiver) = mpsc::channel();
/// let (mut source, mut batch) = (Frames(receiver), PacketBatch::new());
/// assert_eq!(source.next_batch(&mut batch)?, Fill::Starved);
/// sender.send((1, vec![0; 60])).unwrap();
/// drop(sender);
/// assert_eq!((source.next_batch(&mut batch)?, batch.packets.len()), (Fill::Packets, 1));
/// assert_eq!(source.next_batch(&mut batch)?, Fill::End);
/// # Ok::<(), SourceError>(())
/// ```
pub trait PacketSource {
    /// Replaces the contents of `batch` by the next packets.
    ///
    /// The source sets `packets`, `block` and `block_number` at each call that yields packets. It
    /// sets `pass` if it loops, `ahead` if it reads ahead, and `yielded_until_ns` at each call if
    /// it is live. The caller passes the same batch at each call.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the source fails. Packets yielded before stay valid, and the
    /// engine does not call the source again.
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError>;

    /// Returns the packets that the source read since the last call and will never yield, by
    /// reason: fragments joined into a datagram, packets that an interface dropped. They count as
    /// read and as dropped.
    ///
    /// The engine calls it after each batch, and once more at the end of a run. A source that is
    /// called twice in a row also counts the packets that it still holds.
    fn withheld(&mut self) -> DropCounts {
        DropCounts::default()
    }

    /// Splits off the next packets, about `bytes` bytes of the input, for another thread to read.
    /// The source goes on behind them. Returns `None` if it cannot be split here.
    ///
    /// A source may assume where a segment ends, and verify it in [`rejoin`](Self::rejoin). The
    /// caller does not call [`next_batch`](Self::next_batch) before it has taken back every
    /// segment.
    fn split(&mut self, _bytes: u64) -> Option<Box<dyn Segment>> {
        None
    }

    /// Takes back a segment that has been read to its end or to an error. The caller takes them
    /// back in the order in which they were split off.
    ///
    /// Returns whether the packets of the segment are those that come next in the source. If not,
    /// the source goes on behind the last segment that was right. The packets of this one, and of
    /// all that were split off later, do not count; the caller drops those.
    fn rejoin(&mut self, _segment: Box<dyn Segment>) -> bool {
        false
    }
}

/// Consecutive packets of a source, which another thread reads: see [`PacketSource::split`]. They
/// lie in memory: after [`Fill::Starved`] the next call goes on at once.
pub trait Segment: PacketSource + Send {
    /// Returns the segment itself, for the source that knows its type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

macro_rules! forward {
    ($pointer:ty) => {
        impl<S: PacketSource + ?Sized> PacketSource for $pointer {
            fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
                (**self).next_batch(batch)
            }

            fn withheld(&mut self) -> DropCounts {
                (**self).withheld()
            }

            fn split(&mut self, bytes: u64) -> Option<Box<dyn Segment>> {
                (**self).split(bytes)
            }

            fn rejoin(&mut self, segment: Box<dyn Segment>) -> bool {
                (**self).rejoin(segment)
            }
        }
    };
}

forward!(&mut S);
forward!(Box<S>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drop_reason::DropReason;

    struct Fragments(u64);

    impl PacketSource for Fragments {
        fn next_batch(&mut self, _: &mut PacketBatch) -> Result<Fill, SourceError> {
            self.0 += 1;
            Ok(Fill::End)
        }

        fn withheld(&mut self) -> DropCounts {
            let mut withheld = DropCounts::default();
            withheld.add(DropReason::Reassembled, self.0);
            withheld
        }
    }

    #[test]
    fn borrowed_source_yields_the_same_packets() {
        let mut source = Fragments(6);
        let mut lent = &mut source;
        assert!(matches!(PacketSource::next_batch(&mut lent, &mut PacketBatch::new()), Ok(Fill::End)));
        assert_eq!(PacketSource::withheld(&mut lent).get(DropReason::Reassembled), 7);
        let mut boxed: Box<dyn PacketSource> = Box::new(source);
        assert!(matches!(PacketSource::next_batch(&mut boxed, &mut PacketBatch::new()), Ok(Fill::End)));
        assert_eq!(PacketSource::withheld(&mut boxed).get(DropReason::Reassembled), 8);
    }

    #[test]
    fn packet_bytes_are_read_at_its_position() {
        let packet = RawPacket {
            position: 2,
            captured_bytes: 3,
            wire_bytes: 9,
            time_ns: 0,
            link: LinkType::RAW,
            interface: InterfaceName::UNKNOWN,
        };
        assert_eq!(packet.bytes_in(b"abcdef"), b"cde");
        assert_eq!(packet.bytes_in(b"abcd"), b"", "it does not lie there");
    }

    #[test]
    fn prefetches_are_spread_over_the_packets_of_a_batch() {
        let packet = RawPacket {
            position: 0,
            captured_bytes: 0,
            wire_bytes: 0,
            time_ns: 0,
            link: LinkType::RAW,
            interface: InterfaceName::UNKNOWN,
        };
        let block = vec![0; 4096];
        for (packets, ahead, places) in [
            (4, 128..1128, [384, 640, 896, 1152]), // A share of 250 bytes is four lines.
            (4, 0..1024, [256, 512, 768, 1024]),
            (1, 0..300, [320, 320, 320, 320]),
            (0, 0..300, [320, 320, 320, 320]),
            (4, 0..0, [0; 4]),
            // More than any batch contains.
            (1, 0..u64::MAX, [1 << 16, 2 << 16, 3 << 16, 4 << 16]),
            (2, 64..u64::MAX, [64 + (1 << 16), 64 + (2 << 16), 64 + (3 << 16), 64 + (4 << 16)]),
            (1, u64::MAX - 3..u64::MAX, [isize::MAX as usize; 4]),
        ] {
            let batch = PacketBatch { packets: vec![packet; packets], ahead, ..PacketBatch::new() };
            let mut lookahead = batch.lookahead();
            for place in places {
                lookahead.request(&block);
                assert_eq!(lookahead.next, place, "{batch:?}");
            }
        }
    }

    #[test]
    fn error_displays_its_cause() {
        #[derive(Debug)]
        struct Torn(std::fmt::Error);

        impl std::fmt::Display for Torn {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the file is torn")
            }
        }

        impl std::error::Error for Torn {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }

        let error = SourceError(Box::new(Torn(std::fmt::Error)));
        assert_eq!(error.to_string(), "the file is torn");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source, Some(std::fmt::Error.to_string()));
    }
}
