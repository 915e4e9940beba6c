//! The class H₃ of universal hash functions: a random linear map over bits [TCBCACHE §3.2].
//!
//! ```text
//! b = Q · a      bit i of b is the parity of (a & row i of Q)
//! ```
//!
//! Drawn at random from the class, two keys collide with probability 2⁻ʳ. In hardware an output bit
//! takes as many AND gates as the key has selected bits, and one XOR gate less. It is linear: do
//! not use it for keys chosen by an attacker who can learn the matrix.

use core::fmt;

use super::fold::split_mix;

/// Maximum number of output bits.
pub const BITS_MAX: u32 = 32;

/// Number of draws of a row after which drawing fails; a failure has a probability below 2⁻⁶⁴.
const DRAWS_MAX: u32 = 4096;

/// The reason why a function cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum H3Error {
    /// There are more than [`BITS_MAX`] output bits.
    TooManyBits {
        /// The requested number.
        bits: u32,
    },
    /// Fewer key bits are selected than there must be independent rows, or none.
    TooFewKeyBits {
        /// Number of key bits that the function uses.
        key_bits: u32,
        /// The minimum.
        needed: u32,
    },
}

impl fmt::Display for H3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBits { bits } => {
                write!(f, "an H3 function of {bits} bits was requested; the maximum is {BITS_MAX}")
            }
            Self::TooFewKeyBits { key_bits, needed } => write!(
                f,
                "an H3 function over {key_bits} bits of the key was requested; select at least {needed}"
            ),
        }
    }
}

impl core::error::Error for H3Error {}

/// A function of the class.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::hash::h3::H3;
/// let h = H3::draw(&mut 7, 6, 0xFFFF)?;
/// assert_eq!(h.hash(0x1234) ^ h.hash(0x00FF), h.hash(0x1234 ^ 0x00FF)); // linear
/// assert_eq!(h.hash(0xAB_0000), 0); // bits that are not selected do not count
/// # Ok::<(), flowloom_flow_key::hash::h3::H3Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct H3 {
    rows: [u64; BITS_MAX as usize],
    bits: u32,
}

impl H3 {
    /// Returns a function with `bits` output bits over the key bits in `selected`, and advances
    /// `state`.
    ///
    /// Rows are uniform among the non-zero rows.
    ///
    /// # Errors
    ///
    /// Returns [`H3Error`] if there are more than 32 output bits, or if no key bit is selected.
    pub fn draw(state: &mut u64, bits: u32, selected: u64) -> Result<Self, H3Error> {
        if bits > BITS_MAX {
            return Err(H3Error::TooManyBits { bits });
        }
        if selected == 0 && bits > 0 {
            return Err(H3Error::TooFewKeyBits { key_bits: 0, needed: 1 });
        }
        let mut rows = [0; BITS_MAX as usize];
        for row in rows.iter_mut().take(bits as usize) {
            let mut draws = 0;
            while *row == 0 && draws < DRAWS_MAX {
                *row = split_mix(state) & selected;
                draws += 1;
            }
            if *row == 0 {
                *row = selected; // Practically unreachable: it takes thousands of empty draws in a row.
            }
        }
        Ok(Self { rows, bits })
    }

    /// Returns such a function whose rows are linearly independent, so that every value occurs.
    ///
    /// With 16 key bits and 6 output bits, about one random matrix in a thousand is not of full
    /// rank, which halves the cache. With fewer key bits it is more: with ten varying bits of the
    /// 16, one in sixteen.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`H3::draw`], and if fewer key bits are selected than output bits
    /// requested.
    pub fn draw_full_rank(state: &mut u64, bits: u32, selected: u64) -> Result<Self, H3Error> {
        if selected.count_ones() < bits {
            return Err(H3Error::TooFewKeyBits { key_bits: selected.count_ones(), needed: bits });
        }
        for _ in 0..DRAWS_MAX {
            let drawn = Self::draw(state, bits, selected)?;
            if drawn.rank() == bits {
                return Ok(drawn);
            }
        }
        // A random square matrix over bits has full rank with probability 0.29, so 4,096 failures
        // do not occur. One selected bit per row has full rank in any case.
        let mut rows = [0; BITS_MAX as usize];
        let mut rest = selected;
        for row in rows.iter_mut().take(bits as usize) {
            *row = rest & rest.wrapping_neg();
            rest &= rest - 1;
        }
        Ok(Self { rows, bits })
    }

    /// Returns the hash of a key, below 2^bits. Cost: a population count per output bit.
    #[must_use]
    pub fn hash(&self, key: u64) -> u32 {
        let mut hash = 0;
        for (i, row) in self.rows().iter().enumerate() {
            hash |= ((key & row).count_ones() & 1) << i;
        }
        hash
    }

    /// Returns the rows of the matrix, starting with that of bit 0.
    pub fn rows(&self) -> &[u64] {
        &self.rows[..self.bits as usize]
    }

    /// Returns the number of output bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the rank of the matrix; the function takes 2^rank values.
    #[must_use]
    pub fn rank(&self) -> u32 {
        let mut rows = self.rows;
        let mut rank = 0;
        for bit in 0..64 {
            let mask = 1 << bit;
            let Some(pivot) = (rank..self.bits as usize).find(|&i| rows[i] & mask != 0) else { continue };
            rows.swap(rank, pivot);
            let row = rows[rank];
            for (i, other) in rows.iter_mut().enumerate().take(self.bits as usize) {
                if i != rank && *other & mask != 0 {
                    *other ^= row;
                }
            }
            rank += 1;
        }
        rank as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stay_within_the_selected_bits_and_are_not_empty() {
        let mut state = 1;
        for selected in [1_u64, 0x8000_0000_0000_0000, 0x00FF_00FF, u64::MAX] {
            let h = H3::draw(&mut state, 32, selected).unwrap();
            assert!(h.rows().iter().all(|row| *row != 0 && row & !selected == 0));
        }
    }

    #[test]
    fn a_function_of_full_rank_reaches_every_value_equally_often() {
        let mut state = 3;
        let h = H3::draw_full_rank(&mut state, 6, 0xFFFF).unwrap();
        let mut counts = [0; 64];
        for key in 0..65_536 {
            counts[h.hash(key) as usize] += 1;
        }
        assert_eq!(counts, [1024; 64]);
        assert_eq!(h.rank(), 6);
    }

    #[test]
    fn one_matrix_in_a_thousand_lacks_full_rank() {
        let mut state = 11;
        let lacking =
            (0..20_000).filter(|_| H3::draw(&mut state, 6, 0x00FF_00FF).unwrap().rank() < 6).count();
        // The sum of 2^(i-16) for i below 6 is 63/65536; the share is slightly less, because rows
        // are never zero.
        assert!((2..60).contains(&lacking), "{lacking} of 20000");
        let lacking =
            (0..20_000).filter(|_| H3::draw(&mut state, 6, 0x00FF_0003).unwrap().rank() < 6).count();
        assert!((900..1400).contains(&lacking), "10 bits give 6: {lacking} of 20000");
        let lacking = (0..2000).filter(|_| H3::draw(&mut state, 6, 0xFF).unwrap().rank() < 6).count();
        assert!((300..700).contains(&lacking), "8 bits give 6: {lacking} of 2000");
    }

    #[test]
    fn rank_determines_the_number_of_values() {
        let mut state = 5;
        let mut ranks = [0; 6];
        for _ in 0..300 {
            let h = H3::draw(&mut state, 5, 0b11_0110).unwrap();
            let values: std::collections::BTreeSet<u32> = (0..64).map(|key| h.hash(key)).collect();
            assert_eq!(values.len(), 1 << h.rank(), "{:?}", h.rows());
            ranks[h.rank() as usize] += 1;
        }
        assert_eq!((h_bits(7), h_bits(0)), (7, 0));
        assert!(ranks[3] > 0 && ranks[4] > 0, "{ranks:?}");
    }

    fn h_bits(bits: u32) -> u32 {
        H3::draw(&mut 1, bits, u64::MAX).unwrap().bits()
    }

    #[test]
    fn impossible_hash_is_an_error() {
        assert_eq!(H3::draw(&mut 1, 33, 1), Err(H3Error::TooManyBits { bits: 33 }));
        assert_eq!(H3::draw(&mut 1, 1, 0), Err(H3Error::TooFewKeyBits { key_bits: 0, needed: 1 }));
        assert!(
            H3::draw(&mut 1, 0, 0).is_ok()
                && H3::draw(&mut 1, 32, 1).is_ok()
                && H3::draw_full_rank(&mut 1, 3, 0b111).is_ok()
        );
        let error = H3::draw_full_rank(&mut 1, 6, 0b111).unwrap_err();
        assert_eq!(error, H3Error::TooFewKeyBits { key_bits: 3, needed: 6 });
        assert!(error.to_string().contains("at least 6"));
    }
}
