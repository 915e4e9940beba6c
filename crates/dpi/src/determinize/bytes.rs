//! Sets of bytes.

/// A set of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes([u64; 4]);

impl Bytes {
    pub(super) const NONE: Self = Self([0; 4]);

    pub(super) const fn with(mut self, byte: u8) -> Self {
        self.0[byte as usize / 64] |= 1 << (byte % 64);
        self
    }

    /// Returns how many are less than `byte`.
    pub(super) fn below(self, byte: u8) -> usize {
        let (word, bit) = (usize::from(byte / 64), byte % 64);
        let words: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        (words + (self.0[word] & ((1 << bit) - 1)).count_ones()) as usize
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u8> {
        [0, 64, 128, 192].into_iter().zip(self.0).flat_map(|(first, mut rest)| {
            std::iter::from_fn(move || {
                let bit = u8::try_from(rest.trailing_zeros()).ok()?;
                rest &= rest.checked_sub(1)?;
                Some(first + bit)
            })
        })
    }
}
