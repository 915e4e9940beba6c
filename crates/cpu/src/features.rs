//! The instruction sets of this processor.
//!
//! Only `detect` returns a token ([`Avx512`], [`Avx512Popcount`], [`Avx2`], [`Sse42`], [`Neon`]),
//! so a token proves that a call of a function compiled for those features is sound. Tokens are
//! zero-sized: passing one costs nothing.
//!
//! Back ends are written for 64-bit programs. A 32-bit program has none of these sets, even if its
//! processor does.

use core::fmt;
use core::str::FromStr;

/// Determines whether all named features of x86-64 are present. Detects them at run time with
/// `std`, otherwise at compile time.
macro_rules! has {
    ($($feature:tt),+) => {{
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        let present = $(std::arch::is_x86_feature_detected!($feature))&&+;
        #[cfg(not(all(feature = "std", target_arch = "x86_64")))]
        let present = cfg!(target_arch = "x86_64") $(&& cfg!(target_feature = $feature))+;
        present
    }};
}

macro_rules! token {
    ($(#[$doc:meta])* $name:ident, $present:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// Returns the proof, if this processor has the features.
            #[inline]
            pub fn detect() -> Option<Self> {
                let present: bool = $present;
                present.then_some(Self(()))
            }
        }
    };
}

token!(
    /// Proof of `avx512f`, `avx512bw`, `avx512vl`, and of `bmi1`, `bmi2` and `popcnt`, which every
    /// such processor has.
    Avx512,
    has!("avx512f", "avx512bw", "avx512vl", "bmi1", "bmi2", "popcnt")
);
token!(
    /// Token for the features of [`Avx512`] and `avx512vpopcntdq`.
    Avx512Popcount,
    has!("avx512f", "avx512bw", "avx512vl", "avx512vpopcntdq", "bmi1", "bmi2", "popcnt")
);
token!(
    /// Token for `avx2`, `bmi1`, `bmi2` and `popcnt`, which always occur together.
    Avx2,
    has!("avx2", "bmi1", "bmi2", "popcnt")
);
token!(
    /// Proof of `sse4.2`, which brings the CRC-32C instruction.
    Sse42,
    has!("sse4.2")
);
token!(
    /// Token for `neon`, which every known 64-bit ARM processor has.
    Neon,
    cfg!(all(target_arch = "aarch64", target_feature = "neon"))
);

/// An instruction set of a back end, as a value for selection and output.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::features::Isa;
/// assert!(Isa::available().any(|isa| isa == Isa::Scalar));
/// assert_eq!("avx2".parse(), Ok(Isa::Avx2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Isa {
    /// No vector instructions; defines the results of the others.
    Scalar,
    /// SSE4.2.
    Sse42,
    /// AVX2.
    Avx2,
    /// AVX-512 with byte, word and short-vector instructions.
    Avx512,
    /// ARM's Advanced SIMD.
    Neon,
}

impl Isa {
    /// All instruction sets, from the simplest to the widest.
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Sse42, Self::Neon, Self::Avx2, Self::Avx512];

    /// Returns the widest instruction set of this processor.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::Scalar)
    }

    /// Returns the instruction sets of this processor, from the simplest to the widest.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Returns whether this processor has the instruction set.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Sse42 => Sse42::detect().is_some(),
            Self::Avx2 => Avx2::detect().is_some(),
            Self::Avx512 => Avx512::detect().is_some(),
            Self::Neon => Neon::detect().is_some(),
        }
    }

    /// Returns the name that [`Isa::from_str`] reads.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Sse42 => "sse4.2",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownIsa;

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown instruction set; the sets are scalar, sse4.2, avx2, avx512 and neon")
    }
}

impl core::error::Error for UnknownIsa {}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Self, UnknownIsa> {
        Self::ALL.into_iter().find(|isa| isa.name() == text).ok_or(UnknownIsa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        assert_eq!("mmx".parse::<Isa>(), Err(UnknownIsa));
        assert_eq!(alloc::format!("{:<8}|", Isa::Sse42), "sse4.2  |");
        for isa in Isa::ALL {
            assert!(alloc::format!("{UnknownIsa}").contains(isa.name()), "{isa} is known");
        }
    }

    #[test]
    fn detected_instruction_set_is_available() {
        assert!(Isa::detect().is_available());
        assert!(Isa::Scalar.is_available());
        assert_eq!(Isa::available().next(), Some(Isa::Scalar), "from the plainest on");
        assert!(!(Isa::Sse42.is_available() && Isa::Neon.is_available()), "no processor is of two kinds");
    }

    #[cfg(target_pointer_width = "32")]
    #[test]
    fn programs_of_32_bits_have_no_back_ends() {
        assert_eq!(Isa::detect(), Isa::Scalar);
    }
}
