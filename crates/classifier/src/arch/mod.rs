//! Walking a [`Program`] with many packets at once; the unsafe room of this crate.
//!
//! A [`Kernel`] is a loop written once over [`Lanes`], the few operations that differ between instruction sets.
//! [`Backend::run`] enters one function compiled for the instruction set and runs the whole kernel in it. A `Lanes` value
//! holds the token that proves its features, and a `Program` has been checked: that is why its operations are safe to call.
#![expect(unsafe_code, reason = "the operations have promises that their callers keep")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batch;
mod program;
mod scalar;

use flowloom_cpu::features::Isa;

use crate::key::Key;

pub(crate) use batch::ClassifyBatch;
pub(crate) use program::{FaultyProgram, Program};
pub(crate) use program::{LEAF, Tree, child_index, leaf_blocks, leaf_word, node_word};
pub(crate) use scalar::scan_block;

/// Packets in flight.
const FLIGHT: usize = 64;

/// The packets of one flight that still walk: their key's words, word by word.
#[repr(C, align(64))]
#[derive(Debug)]
struct Flight {
    words: [[u64; FLIGHT]; 5],
    /// Where each packet stands: a word of the program.
    at: [u64; FLIGHT],
}

impl Flight {
    fn new() -> Self {
        Self { words: [[0; FLIGHT]; 5], at: [LEAF; FLIGHT] }
    }
}

/// What a back end computes.
trait Lanes: Copy {
    /// Moves the first `count` packets from where they stand to their leaves, and hints that these will be read.
    ///
    /// # Safety
    ///
    /// Each of them stands at a word of this program: a root, or a word that was read from it. `count` is at most
    /// [`FLIGHT`].
    unsafe fn descend<K: Key>(self, program: &Program<K>, flight: &mut Flight, count: usize);

    /// Returns the first rule of the block that matches, `u32::MAX` if none does.
    ///
    /// # Safety
    ///
    /// The block is one of this program's.
    unsafe fn block<K: Key>(self, program: &Program<K>, block: usize, key: &K) -> u32;
}

/// A loop over packets. `run` must be `#[inline(always)]`, or it is compiled for the wrong processor.
trait Kernel {
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
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Scalar(lanes) => kernel.run(lanes),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lanes) => avx2::run(lanes, kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(lanes) => avx512::run(lanes, kernel),
        }
    }
}
