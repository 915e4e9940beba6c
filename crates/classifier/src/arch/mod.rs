//! Walking a [`Program`] with many packets at once; the unsafe room of this crate.
//!
//! A [`Kernel`] is a loop written once over [`Lanes`], the few operations that differ between instruction sets.
//! [`Backend::run`] enters one function compiled for the instruction set and runs the whole kernel in it. A `Lanes` value
//! holds the token that proves its features, and a `Program` has been checked: that is why its operations are safe to call.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod program;
mod scalar;

use flowloom_cpu::features::Isa;

use crate::key::Key;

pub(crate) use program::{FaultyProgram, Program};
pub(crate) use program::{LEAF, Tree, child_index, leaf_blocks, leaf_word, node_word};
pub(crate) use scalar::scan_block;

/// Packets in flight.
pub(crate) const FLIGHT: usize = 64;

/// The packets of one flight that still walk: their key's words, word by word.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) words: [[u64; FLIGHT]; 5],
    /// Where each packet stands: a word of the program.
    pub(crate) at: [u64; FLIGHT],
}

impl Flight {
    pub(crate) fn new() -> Self {
        Self { words: [[0; FLIGHT]; 5], at: [LEAF; FLIGHT] }
    }
}

/// What a back end computes.
pub(crate) trait Lanes: Copy {
    /// Moves the first `count` packets from the root to their leaves, and hints that these will be read.
    fn descend<K: Key>(self, program: &Program<K>, root: u64, flight: &mut Flight, count: usize);

    /// Returns the first rule of a leaf that matches, `u32::MAX` if none does.
    fn leaf<K: Key>(self, program: &Program<K>, leaf: u64, key: &K) -> u32;
}

/// A loop over packets. `run` must be `#[inline(always)]`, or it is compiled for the wrong processor.
pub(crate) trait Kernel {
    type Output;

    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// The back end that a classifier uses, chosen once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Scalar(scalar::Scalar),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2Lanes),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512Lanes),
}

impl Backend {
    /// Returns the back end of an instruction set, `None` if this processor does not have it.
    ///
    /// AVX-512 without its population count is served by AVX2, SSE4.2 and Neon by what the compiler makes of the scalar one.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Scalar => Some(Self::Scalar(scalar::Scalar)),
            Isa::Sse42 | Isa::Neon => isa.is_available().then_some(Self::Scalar(scalar::Scalar)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::Avx2Lanes::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::Avx512Lanes::detect().map(Self::Avx512).or_else(|| {
                isa.is_available().then(|| avx2::Avx2Lanes::detect().map(Self::Avx2)).flatten()
            }),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }

    /// Runs a kernel, compiled for this back end.
    #[inline(always)]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Scalar(lanes) => kernel.run(lanes),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lanes) => avx2::run(lanes, kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(lanes) => avx512::run(lanes, kernel),
        }
    }
}
