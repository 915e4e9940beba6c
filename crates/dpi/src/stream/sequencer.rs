//! Finds the next bytes of the stream in a segment.

use super::window::Window;

/// A TCP segment of the direction.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the header.
    pub sequence: u32,
    /// Whether the segment carries SYN, which occupies one sequence number.
    pub syn: bool,
    /// The segment's data.
    pub payload: &'a [u8],
}

/// A piece of the stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The next bytes.
    Data(&'a [u8]),
    /// This many bytes are missing here, and will not arrive later.
    Gap(u64),
}

/// Counts of all events except data in sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamCounts {
    /// Bytes that arrived again and were ignored.
    pub overlap_bytes: u32,
    /// Bytes that were skipped because later data did not fit into the window.
    pub gap_bytes: u32,
    /// Number of gaps that were skipped.
    pub gaps: u32,
}

/// The state of one direction of a connection: 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequencer {
    next: u32,
    begun: bool,
    delivered: bool,
    counts: StreamCounts,
}

impl Sequencer {
    /// Processes a segment and passes on all data that is now in sequence.
    ///
    /// `window` buffers early data. With `None`, nothing is buffered, and the stream skips every
    /// gap. Pass the same window with every segment of this direction, and clear it when the
    /// direction begins.
    pub fn push(
        &mut self,
        segment: Segment<'_>,
        window: Option<&mut Window>,
        mut to: impl FnMut(Piece<'_>),
    ) {
        let mut sequence = segment.sequence;
        let mut window = window;
        if segment.syn {
            sequence = sequence.wrapping_add(1);
            if !self.delivered {
                if self.begun
                    && self.next != sequence
                    && let Some(window) = &mut window
                {
                    window.clear();
                }
                self.next = sequence;
                self.begun = true;
            }
        }
        if segment.payload.is_empty() {
            return;
        }
        if !self.begun {
            self.next = sequence;
            self.begun = true;
        }
        // The distance as a signed number: sequence numbers wrap, and half of their range lies in
        // the past.
        let ahead = sequence.wrapping_sub(self.next).cast_signed();
        let distance = ahead.unsigned_abs() as usize;
        let (mut payload, mut ahead) = if ahead < 0 {
            let old = distance.min(segment.payload.len());
            self.overlap(old);
            (&segment.payload[old..], 0)
        } else {
            (segment.payload, distance)
        };
        if payload.is_empty() {
            return;
        }
        let Some(window) = window else {
            if ahead > 0 {
                self.gap(ahead, &mut to);
            }
            return self.deliver(payload, &mut to);
        };
        if ahead == 0 && window.held() == 0 {
            return self.deliver(payload, &mut to);
        }
        loop {
            let fitting = window.places().saturating_sub(ahead).min(payload.len());
            let (fits, rest) = payload.split_at(fitting);
            let known = window.insert(ahead.min(window.places() - fitting), fits);
            self.overlap(known);
            let moved = self.drain(window, &mut to);
            payload = rest;
            if payload.is_empty() {
                return;
            }
            ahead = ahead + fitting - moved;
            if ahead >= window.places() {
                // The segment does not fit: continue at the first available byte, which is buffered
                // or in this segment.
                let skipped = window.first_held().unwrap_or(ahead);
                window.move_on(skipped.min(window.places()));
                self.gap(skipped, &mut to);
                ahead -= skipped;
                ahead -= self.drain(window, &mut to);
            }
        }
    }

    /// Returns the counts so far; each saturates.
    #[must_use]
    pub fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// Returns the sequence number of the next byte, after the direction has begun.
    #[must_use]
    pub fn next_sequence(&self) -> Option<u32> {
        self.begun.then_some(self.next)
    }

    /// Returns whether a segment would be delivered immediately if nothing were buffered.
    #[must_use]
    pub fn is_next(&self, segment: &Segment<'_>) -> bool {
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        !self.begun || segment.syn || sequence.wrapping_sub(self.next).cast_signed() <= 0
    }

    fn deliver(&mut self, payload: &[u8], to: &mut impl FnMut(Piece<'_>)) {
        self.advance(payload.len());
        to(Piece::Data(payload));
    }

    fn drain(&mut self, window: &mut Window, to: &mut impl FnMut(Piece<'_>)) -> usize {
        let moved = window.take(|bytes| to(Piece::Data(bytes)));
        if moved > 0 {
            self.advance(moved);
        }
        moved
    }

    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap modulo 2^32")]
    fn advance(&mut self, bytes: usize) {
        self.next = self.next.wrapping_add(bytes as u32);
        self.delivered = true;
    }

    fn gap(&mut self, bytes: usize, to: &mut impl FnMut(Piece<'_>)) {
        self.advance(bytes);
        self.counts.gaps = self.counts.gaps.saturating_add(1);
        self.counts.gap_bytes =
            self.counts.gap_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        to(Piece::Gap(bytes as u64));
    }

    fn overlap(&mut self, bytes: usize) {
        self.counts.overlap_bytes =
            self.counts.overlap_bytes.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}
