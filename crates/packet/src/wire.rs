//! The trait of live wires: frames arrive at a port, the application decides about them, and they
//! leave by a port.
//!
//! A wire lends the frames of one batch where the kernel or the card wrote them, so a forwarded
//! frame is not copied. An appliance owns one wire per worker.

use std::time::Duration;

use crate::drop_reason::DropCounts;
pub use crate::frame::Frame;
use crate::rewrite::Rewrite;
use crate::source::SourceError;
use crate::view::Headers;

/// Maximum number of frames in a batch of a wire.
pub const WIRE_BATCH: usize = 32;

/// The treatment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It leaves by the port opposite the one that received it.
    Pass,
    /// It is dropped.
    Drop,
    /// It leaves by this port.
    To(u16),
    /// It passes, and a copy leaves by this port. If the frame was rewritten, so is the copy.
    Mirror(u16),
}

/// Counts of one port of a wire, in frames. `received = forwarded + dropped`, summed over the ports
/// of a wire; `dropped` counts the frames that the application dropped and those that no port could
/// send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortCounts {
    /// Frames that arrived.
    pub received: u64,
    /// Bytes of these frames.
    pub received_bytes: u64,
    /// Received frames that left by the port, each counted once.
    pub sent: u64,
    /// Bytes of these frames.
    pub sent_bytes: u64,
    /// Copies and answers that left by the port in addition to `sent`.
    pub added: u64,
    /// Frames that the port refused to send: its queue is full, the interface is down, or the frame
    /// exceeds the MTU.
    pub refused: u64,
    /// Copies and answers that were refused for the same reasons.
    pub added_refused: u64,
    /// Frames that the kernel or the card dropped before the wire could receive them.
    pub missed: u64,
}

impl PortCounts {
    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.added += other.added;
        self.refused += other.refused;
        self.added_refused += other.added_refused;
        self.missed += other.missed;
    }
}

/// Ports between which an appliance passes frames.
///
/// The caller repeats: [`receive`](Self::receive), examine each [`frame`](Self::frame),
/// [`settle`](Self::settle). When no frame has arrived, it [waits](Self::wait). At the end it
/// [closes](Self::close) the wire, receives the remaining frames, and [finishes](Self::finish).
///
/// [`MemoryWire`](crate::MemoryWire) is an example.
pub trait Wire {
    /// Takes the next frames, at most [`WIRE_BATCH`]. Returns their number, 0 if none has arrived.
    /// It does not wait.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the wire cannot continue. An interface that is down is not an
    /// error: its frames arrive once it is up again.
    fn receive(&mut self) -> Result<usize, SourceError>;

    /// Returns a frame of the batch that the last [`receive`](Self::receive) took.
    fn frame(&self, index: usize) -> Frame<'_>;

    /// Ends the batch: sends or drops each frame according to its decision. The frames are gone
    /// afterwards.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the wire cannot continue. A frame that a port cannot send at
    /// present is not an error: it counts as refused.
    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError>;

    /// Changes addresses and ports of a frame of the batch, before it is settled. Returns whether
    /// it did. The default does not.
    ///
    /// `headers` is the decoder's result for the frame.
    fn rewrite(&mut self, _index: usize, _rewrite: &Rewrite, _headers: &Headers) -> bool {
        false
    }

    /// Sends a frame of the application's own by a port. Returns whether the port has accepted it.
    fn emit(&mut self, port: u16, bytes: &[u8]) -> bool;

    /// Waits until a frame has arrived, at most for this long. It may return earlier.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the wire cannot continue.
    fn wait(&mut self, at_most: Duration) -> Result<(), SourceError>;

    /// Stops the reception of further frames. [`receive`](Self::receive) then yields the frames
    /// that the wire has already received.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the kernel refuses.
    fn close(&mut self) -> Result<(), SourceError>;

    /// Waits briefly until the frames handed to the ports have been sent.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] when the wire cannot send.
    fn finish(&mut self) -> Result<(), SourceError>;

    /// Returns the counts of each port.
    fn ports(&self) -> Vec<PortCounts>;

    /// Returns the frames that arrived since the last call and that [`receive`](Self::receive) will
    /// never yield, by reason. They count as received and as dropped.
    fn withheld(&mut self) -> DropCounts {
        DropCounts::default()
    }
}

/// Implements [`Wire`] for a pointer to a wire.
macro_rules! forward {
    ($pointer:ty) => {
        impl<W: Wire + ?Sized> Wire for $pointer {
            fn receive(&mut self) -> Result<usize, SourceError> {
                (**self).receive()
            }

            fn frame(&self, index: usize) -> Frame<'_> {
                (**self).frame(index)
            }

            fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
                (**self).settle(decisions)
            }

            fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
                (**self).rewrite(index, rewrite, headers)
            }

            fn emit(&mut self, port: u16, bytes: &[u8]) -> bool {
                (**self).emit(port, bytes)
            }

            fn wait(&mut self, at_most: Duration) -> Result<(), SourceError> {
                (**self).wait(at_most)
            }

            fn close(&mut self) -> Result<(), SourceError> {
                (**self).close()
            }

            fn finish(&mut self) -> Result<(), SourceError> {
                (**self).finish()
            }

            fn ports(&self) -> Vec<PortCounts> {
                (**self).ports()
            }

            fn withheld(&mut self) -> DropCounts {
                (**self).withheld()
            }
        }
    };
}

forward!(Box<W>);
forward!(&mut W);
