//! The division of a cache into banks, sets and ways [TCBCACHE §3.1].

use core::fmt;

/// The shape of a cache: `banks` × `sets` × `ways` lines.
///
/// # Examples
///
/// ```
/// use flowloom_tcb_cache::Geometry;
/// let paper = Geometry::new(32 << 10, 64, 2, 4)?;
/// assert_eq!((paper.sets(), paper.lines()), (64, 512));
/// assert_eq!(Geometry::PAPER, paper);
/// # Ok::<(), flowloom_tcb_cache::GeometryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub(crate) line_bytes: u32,
    pub(crate) banks: u32,
    pub(crate) sets: u32,
    pub(crate) ways: u32,
}

/// The reason why a cache cannot have a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// Size and shape do not result in a power of two of whole sets.
    NoWholeSets {
        /// Requested size in bytes.
        bytes: u64,
        /// Bytes of one set over all banks.
        set_bytes: u64,
        /// The next smaller valid size; 0 if there is none.
        smaller_bytes: u64,
        /// The next larger valid size.
        larger_bytes: u64,
    },
    /// A bank would have more sets than an index can number.
    TooManySets {
        /// Requested number of sets.
        sets: u64,
        /// The largest valid size in bytes.
        bytes_max: u64,
    },
    /// A number of banks, ways or line bytes is out of range.
    OutOfBounds {
        /// The name of the quantity.
        what: &'static str,
        /// The requested value.
        value: u64,
        /// Minimum value.
        least: u64,
        /// Maximum value.
        most: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoWholeSets { bytes, set_bytes, smaller_bytes, larger_bytes } => {
                write!(
                    f,
                    "{bytes} bytes are not a power of two of sets of {set_bytes} bytes; nearest valid \
                     sizes: "
                )?;
                if smaller_bytes > 0 {
                    write!(f, "{smaller_bytes} and ")?;
                }
                write!(f, "{larger_bytes}")
            }
            Self::TooManySets { sets, bytes_max } => write!(
                f,
                "{sets} sets per bank exceed the limit of {}; the largest cache of this shape has \
                 {bytes_max} bytes",
                Geometry::SETS_MAX
            ),
            Self::OutOfBounds { what, value, least, most } => {
                write!(f, "invalid {what} {value}: must be from {least} to {most}")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// Maximum number of sets per bank.
    pub const SETS_MAX: u64 = 1 << 16;
    /// Maximum number of banks.
    pub const BANKS_MAX: u32 = 4;
    /// Maximum number of ways per bank.
    pub const WAYS_MAX: u32 = 64;
    /// Maximum size of a line in bytes.
    pub const LINE_BYTES_MAX: u32 = 4096;

    /// The paper's cache: 32 KiB of 64-byte lines in two banks of four ways [TCBCACHE §3.1, Tab.
    /// 1].
    pub const PAPER: Self = Self { line_bytes: 64, banks: 2, sets: 64, ways: 4 };

    /// Returns the shape of a cache of `bytes` bytes with lines of `line_bytes` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`GeometryError`], with the limits.
    pub fn new(bytes: u64, line_bytes: u32, banks: u32, ways: u32) -> Result<Self, GeometryError> {
        for (what, value, most) in [
            ("bytes a line", line_bytes, Self::LINE_BYTES_MAX),
            ("banks", banks, Self::BANKS_MAX),
            ("ways", ways, Self::WAYS_MAX),
        ] {
            if !(1..=most).contains(&value) {
                let (value, most) = (u64::from(value), u64::from(most));
                return Err(GeometryError::OutOfBounds { what, value, least: 1, most });
            }
        }
        let set_bytes = u64::from(line_bytes) * u64::from(banks) * u64::from(ways);
        let sets = bytes / set_bytes;
        if sets > Self::SETS_MAX {
            return Err(GeometryError::TooManySets { sets, bytes_max: set_bytes * Self::SETS_MAX });
        }
        if !bytes.is_multiple_of(set_bytes) || !sets.is_power_of_two() {
            let below = if sets == 0 { 0 } else { 1 << sets.ilog2() };
            let above = (sets + 1).next_power_of_two().min(Self::SETS_MAX);
            return Err(GeometryError::NoWholeSets {
                bytes,
                set_bytes,
                smaller_bytes: below * set_bytes,
                larger_bytes: above * set_bytes,
            });
        }
        Ok(Self { line_bytes, banks, sets: sets as u32, ways })
    }

    /// Returns a shape with the same lines in one bank, with as many ways as all banks together.
    #[must_use]
    pub fn single_bank(self) -> Self {
        Self { banks: 1, ways: self.ways * self.banks, ..self }
    }

    /// Returns a shape with the same lines but without banks and sets, for policies that treat the
    /// cache as a whole.
    ///
    /// It may have more ways than a cache with banks may have.
    #[must_use]
    pub fn single_set(self) -> Self {
        Self { banks: 1, sets: 1, ways: self.lines(), ..self }
    }

    /// Returns the number of banks.
    #[must_use]
    pub const fn banks(self) -> u32 {
        self.banks
    }

    /// Returns the number of sets per bank, a power of two.
    #[must_use]
    pub const fn sets(self) -> u32 {
        self.sets
    }

    /// Returns the number of ways per bank.
    #[must_use]
    pub const fn ways(self) -> u32 {
        self.ways
    }

    /// Returns log₂ of the number of sets: the number of index bits.
    #[must_use]
    pub const fn index_bits(self) -> u32 {
        self.sets.ilog2()
    }

    /// Returns the number of lines.
    #[must_use]
    pub const fn lines(self) -> u32 {
        self.banks * self.sets * self.ways
    }

    /// Returns the size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.lines() as u64 * self.line_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_next_valid_sizes() {
        let error = Geometry::new(33_000, 64, 2, 4).unwrap_err();
        assert_eq!(
            error,
            GeometryError::NoWholeSets {
                bytes: 33_000,
                set_bytes: 512,
                smaller_bytes: 32_768,
                larger_bytes: 65_536
            }
        );
        assert!(error.to_string().contains("nearest valid sizes: 32768 and 65536"), "{error}");
        let error = Geometry::new(100, 64, 2, 4).unwrap_err();
        assert!(error.to_string().ends_with("nearest valid sizes: 512"), "{error}");
        assert!(Geometry::new(48 << 10, 64, 2, 4).is_err(), "96 sets are no power of two");
        assert!(Geometry::new(48 << 10, 64, 2, 6).is_ok(), "64 sets of six ways are");
    }

    #[test]
    fn numbers_outside_their_bounds_are_refused() {
        for (line, banks, ways) in
            [(0, 2, 4), (64, 0, 4), (64, 5, 4), (64, 2, 0), (64, 2, 65), (5000, 1, 1)]
        {
            let error = Geometry::new(32 << 10, line, banks, ways).unwrap_err();
            assert!(matches!(error, GeometryError::OutOfBounds { .. }), "{error}");
        }
        let error = Geometry::new(u64::MAX, 64, 2, 4).unwrap_err();
        assert!(matches!(error, GeometryError::TooManySets { bytes_max: 33_554_432, .. }), "{error}");
    }

    #[test]
    fn one_bank_keeps_the_number_of_sets_and_lines() {
        let single = Geometry::PAPER.single_bank();
        assert_eq!((single.sets(), single.ways(), single.lines()), (64, 8, 512));
        assert_eq!((single.bytes(), single.index_bits()), (32 << 10, 6));
        let single = Geometry::PAPER.single_set();
        assert_eq!((single.banks(), single.sets(), single.ways(), single.bytes()), (1, 1, 512, 32 << 10));
    }
}
