//! Data that arrived early: a ring of bytes, and one bit per byte that is present.

/// Maximum size of a window in bytes.
pub const WINDOW_BYTES_MAX: usize = 1 << 24;

/// Buffers the data of one direction after the delivered part.
///
/// Place 0 is the next byte to deliver. Costs one step per byte of an out-of-order segment. Where a
/// gap is skipped while data is buffered, it costs one step per 64 places of the gap. Nothing is
/// allocated after construction.
#[derive(Clone)]
pub struct Window {
    bytes: Box<[u8]>,
    there: Box<[u64]>,
    /// The position of place 0 in the ring.
    begin: usize,
    held: usize,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("begin", &self.begin)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl Window {
    /// Returns an empty window of at least `bytes` bytes, a power of two between 64 and
    /// [`WINDOW_BYTES_MAX`].
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.clamp(64, WINDOW_BYTES_MAX).next_power_of_two();
        Self {
            bytes: vec![0; bytes].into_boxed_slice(),
            there: vec![0; bytes / 64].into_boxed_slice(),
            begin: 0,
            held: 0,
        }
    }

    /// Returns the number of places.
    #[must_use]
    pub fn places(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of buffered bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Discards all buffered data.
    pub fn clear(&mut self) {
        if self.held > 0 {
            self.there.fill(0);
        }
        self.begin = 0;
        self.held = 0;
    }

    fn ring(&self, place: usize) -> usize {
        (self.begin + place) & (self.bytes.len() - 1)
    }

    fn has(&self, place: usize) -> bool {
        let at = self.ring(place);
        self.there[at / 64] >> (at % 64) & 1 == 1
    }

    /// Inserts bytes at `place` and the following places. They must fit. Returns how many were
    /// present already; these remain unchanged.
    pub(super) fn insert(&mut self, place: usize, bytes: &[u8]) -> usize {
        debug_assert!(place + bytes.len() <= self.places());
        let mut known = 0;
        for (i, &byte) in bytes.iter().enumerate() {
            let at = self.ring(place + i);
            let (word, bit) = (&mut self.there[at / 64], 1 << (at % 64));
            if *word & bit == 0 {
                *word |= bit;
                self.bytes[at] = byte;
                self.held += 1;
            } else {
                known += 1;
            }
        }
        known
    }

    /// Returns the place of the first buffered byte.
    pub(super) fn first_held(&self) -> Option<usize> {
        if self.held == 0 {
            return None;
        }
        let mut place = 0;
        while place < self.places() {
            let at = self.ring(place);
            let rest = self.there[at / 64] >> (at % 64);
            if rest != 0 {
                return Some(place + rest.trailing_zeros() as usize);
            }
            place += 64 - at % 64;
        }
        None
    }

    /// Delivers the contiguous bytes that are buffered from place 0, in one or two pieces, and
    /// advances past them. Returns the number of delivered bytes.
    pub(super) fn take(&mut self, mut to: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < self.held && self.has(count) {
            count += 1;
        }
        let until = (self.begin + count).min(self.bytes.len());
        if count > 0 {
            to(&self.bytes[self.begin..until]);
            let rest = self.begin + count - until;
            if rest > 0 {
                to(&self.bytes[..rest]);
            }
        }
        self.move_on(count);
        count
    }

    /// Advances place 0, and drops the data before it.
    pub(super) fn move_on(&mut self, places: usize) {
        let end = places.min(self.places());
        let mut place = 0;
        while place < end && self.held > 0 {
            let at = self.ring(place);
            let count = (64 - at % 64).min(end - place);
            let gone = u64::MAX >> (64 - count) << (at % 64);
            let word = &mut self.there[at / 64];
            self.held -= (*word & gone).count_ones() as usize;
            *word &= !gone;
            place += count;
        }
        self.begin = self.ring(places);
    }
}
