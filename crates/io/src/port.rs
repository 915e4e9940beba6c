//! A port whose frames the kernel copies: a source and a sink of frames, for one queue.

use std::os::fd::BorrowedFd;

use crate::error::IoError;

/// The work that the sender of a frame has left to the card, in the form of
/// `struct virtio_net_hdr`: checksums and segmentation. A port that accepts the frame does this
/// work, or passes it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload(pub(crate) [u8; Self::BYTES]);

impl Offload {
    /// Bytes of the header.
    pub const BYTES: usize = 10;
    const FLAGS: usize = 0;
    const SEGMENTS: usize = 1;
    const HEADER_BYTES: usize = 2;
    const CHECKSUM_START: usize = 6;
    const NEEDS_CHECKSUM: u8 = 1;

    /// Returns the header that precedes a frame in memory.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.try_into().unwrap_or_default())
    }

    /// Returns the offset of the transport header whose checksum the card completes, if there is
    /// one.
    pub(crate) fn unfinished(&self) -> Option<usize> {
        let start = [self.0[Self::CHECKSUM_START], self.0[Self::CHECKSUM_START + 1]];
        (self.0[Self::FLAGS] & Self::NEEDS_CHECKSUM != 0).then_some(u16::from_ne_bytes(start).into())
    }

    /// Shifts the offsets within the frame by the size of a tag inserted into its link header.
    pub(crate) fn shift(&mut self, by: u16) {
        let mut add = |at: usize| {
            let place = u16::from_ne_bytes([self.0[at], self.0[at + 1]]).saturating_add(by);
            self.0[at..at + 2].copy_from_slice(&place.to_ne_bytes());
        };
        add(Self::HEADER_BYTES);
        add(Self::CHECKSUM_START);
        if self.0[Self::FLAGS] & Self::NEEDS_CHECKSUM == 0 {
            self.0[Self::CHECKSUM_START..Self::CHECKSUM_START + 2].fill(0);
        }
        if self.0[Self::SEGMENTS] == 0 {
            self.0[Self::HEADER_BYTES..Self::HEADER_BYTES + 2].fill(0);
        }
    }
}

/// A frame at a port.
#[derive(Clone, Copy, Debug)]
pub struct PortFrame<'a> {
    /// The bytes, from the link layer on, VLAN tags included.
    pub bytes: &'a [u8],
    /// Bytes of the frame on the wire.
    pub wire_bytes: u32,
    /// Nanoseconds since 1970; 0 for a frame to send.
    pub time_ns: u64,
    /// The remaining offload work.
    pub offload: Offload,
}

impl<'a> PortFrame<'a> {
    /// Returns a whole frame to send.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let wire_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self { bytes, wire_bytes, time_ns: 0, offload: Offload::default() }
    }
}

/// One queue of a live port.
pub trait Port: Send {
    /// Receives at most `most` waiting frames, and returns their number. It does not wait.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when the port cannot continue. An interface that is down is not an
    /// error.
    fn receive(&mut self, most: usize) -> Result<usize, IoError>;

    /// Returns a frame from the last call of [`receive`](Self::receive).
    fn frame(&self, index: usize) -> PortFrame<'_>;

    /// Returns all frames to the kernel.
    fn release(&mut self);

    /// Sends frames, and sets `taken` for each frame that the kernel accepted.
    fn send(&self, frames: &[PortFrame<'_>], taken: &mut Vec<bool>);

    /// Returns the descriptor on which to wait for frames.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Returns the number of frames that the kernel has dropped since the last call because they
    /// arrived faster than they were received.
    fn missed(&mut self) -> u64;

    /// Stops the reception of further frames. Frames that have arrived can still be received.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when the kernel refuses.
    fn close(&mut self) -> Result<(), IoError>;

    /// Checks a port whose descriptor reports an error. It waits for an interface that is down.
    ///
    /// # Errors
    ///
    /// Returns [`IoError::Gone`] when the interface no longer exists.
    fn recover(&mut self) -> Result<(), IoError>;

    /// Returns the name of the interface.
    fn interface(&self) -> &str;
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn receive(&mut self, most: usize) -> Result<usize, IoError> {
        (**self).receive(most)
    }

    fn frame(&self, index: usize) -> PortFrame<'_> {
        (**self).frame(index)
    }

    fn release(&mut self) {
        (**self).release();
    }

    fn send(&self, frames: &[PortFrame<'_>], taken: &mut Vec<bool>) {
        (**self).send(frames, taken);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        (**self).descriptor()
    }

    fn missed(&mut self) -> u64 {
        (**self).missed()
    }

    fn close(&mut self) -> Result<(), IoError> {
        (**self).close()
    }

    fn recover(&mut self) -> Result<(), IoError> {
        (**self).recover()
    }

    fn interface(&self) -> &str {
        (**self).interface()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_vlan_tag_shifts_only_valid_offsets() {
        let header = |flags, segments| {
            let mut bytes = [0; Offload::BYTES];
            (bytes[0], bytes[1]) = (flags, segments);
            bytes[2..4].copy_from_slice(&(54 * u16::from(segments)).to_ne_bytes());
            bytes[6..8].copy_from_slice(&(34 * u16::from(flags)).to_ne_bytes());
            let mut offload = Offload::from_bytes(&bytes);
            offload.shift(4);
            let place = |at: usize| u16::from_ne_bytes([offload.0[at], offload.0[at + 1]]);
            (place(2), place(6), offload.unfinished())
        };
        assert_eq!(header(0, 0), (0, 0, None));
        assert_eq!(header(1, 0), (0, 38, Some(38)));
        assert_eq!(header(1, 1), (58, 38, Some(38)));
        assert_eq!(Offload::from_bytes(&[1; 3]), Offload::default());
    }
}
