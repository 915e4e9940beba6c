//! A frame of a live port.
#![expect(clippy::cast_possible_truncation, reason = "no frame has 4 GiB")]

use crate::link::LinkType;

/// A frame that a wire has received.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// The bytes, from the link layer on.
    pub bytes: &'a [u8],
    /// Bytes of the frame on the wire.
    pub wire_bytes: u32,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// The link type of `bytes`.
    pub link: LinkType,
    /// The port that received it, counted from 0.
    pub port: u16,
    /// The queue of that port.
    pub queue: u16,
    /// A number that the wire assigns to frames for the application; 0 if it assigns none.
    pub tag: u64,
}

impl<'a> Frame<'a> {
    /// Returns an Ethernet frame that `port` received completely at `time_ns` nanoseconds since
    /// 1970, on queue 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::wire::Frame;
    /// let frame = Frame::ethernet(&[0; 60], 1, 7).on_queue(3).with_tag(9);
    /// assert_eq!((frame.port, frame.queue, frame.tag, frame.wire_bytes), (1, 3, 9, 60));
    /// ```
    #[inline]
    #[must_use]
    pub const fn ethernet(bytes: &'a [u8], port: u16, time_ns: u64) -> Self {
        let wire_bytes = bytes.len() as u32;
        Self { bytes, wire_bytes, time_ns, link: LinkType::ETHERNET, port, queue: 0, tag: 0 }
    }

    /// Returns the frame on another queue.
    #[inline]
    #[must_use]
    pub const fn on_queue(self, queue: u16) -> Self {
        Self { queue, ..self }
    }

    /// Returns the frame with a tag.
    #[inline]
    #[must_use]
    pub const fn with_tag(self, tag: u64) -> Self {
        Self { tag, ..self }
    }
}
