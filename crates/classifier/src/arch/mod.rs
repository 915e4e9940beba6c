//! Walking a [`Program`] with many packets at once: the module of this crate with unsafe code.
//!
//! A [`Kernel`] is a loop written once over [`Lanes`], the few operations that differ between
//! instruction sets. [`Backend::run`] enters one function compiled for the instruction set and runs
//! the whole kernel inside it. A `Lanes` value contains the token that proves its features, and a
//! `Program` has been checked. Its operations are therefore safe to call.
#![expect(unsafe_code, reason = "the operations have promises that their callers keep")]

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
mod batch;
mod program;
mod scalar;

use core::mem::MaybeUninit;

use flowloom_cpu::features::Isa;

use crate::key::{Key, Match};

pub(crate) use batch::ClassifyBatch;
pub(crate) use program::{FaultyProgram, Program};
pub(crate) use program::{LEAF, TREES_MAX, Tree, child_index, leaf_blocks, leaf_word, node_word};
pub(crate) use scalar::{match_lanes, scan_block};

use program::{LEAF_BLOCKS, Root};

/// Packets in flight.
const FLIGHT: usize = 128;

/// A value per packet in flight. Values that were not written are uninitialised: writing zeros
/// first would cost more than a small batch.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
struct Column([MaybeUninit<u64>; FLIGHT + 8]);

impl Column {
    const EMPTY: Self = Self([const { MaybeUninit::uninit() }; FLIGHT + 8]);

    #[inline(always)]
    fn set(&mut self, index: usize, value: u64) {
        self.0[index] = MaybeUninit::new(value);
    }

    /// Writes without a bounds check.
    ///
    /// # Safety
    ///
    /// `index` is below [`FLIGHT`].
    #[inline(always)]
    unsafe fn put(&mut self, index: usize, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.get_unchecked_mut(index).write(value) };
    }

    /// Returns the written value.
    ///
    /// # Safety
    ///
    /// Something was written at this index.
    #[inline(always)]
    unsafe fn get(&self, index: usize) -> u64 {
        // SAFETY: what was written is inside, and initialised.
        unsafe { self.0.get_unchecked(index).assume_init() }
    }
}

/// The packets of one flight that entered a tree. A back end may write a group of eight beyond the
/// last packet.
#[derive(Debug)]
struct Flight {
    /// Their keys' words, word by word.
    words: [Column; 5],
    /// The position of each packet in its chunk, as [`Looking`] has it.
    place: Column,
    /// The best match of each packet so far, in the form of a leaf's least rule.
    limit: Column,
    /// First the program word of each packet; finally a [`Looking`] for each leaf that must be
    /// searched. Comparing blocks alternates between two columns, so that loads need not wait for
    /// stores whose position is not known.
    at: [Column; 2],
}

impl Flight {
    const EMPTY: Self = Self {
        words: [Column::EMPTY; 5],
        place: Column::EMPTY,
        limit: Column::EMPTY,
        at: [Column::EMPTY; 2],
    };
}

/// A packet at a leaf, in one word.
///
/// ```text
/// 63‥46    45‥32   31‥0
/// blocks   place   first block
/// ```
#[derive(Clone, Copy)]
struct Looking(u64);

impl Looking {
    /// Number of bits by which a leaf's count of blocks is shifted up.
    const COUNT_UP: u32 = 14;
    /// The position of the place.
    const PLACE: u32 = 32;

    /// Returns the packet at `place`, shifted to its bits, at a leaf.
    #[inline(always)]
    fn new(leaf: u64, place: u64) -> Self {
        Self((leaf & LEAF_BLOCKS) << Self::COUNT_UP | place | u64::from(leaf as u32))
    }

    #[inline(always)]
    fn place(self) -> usize {
        (self.0 >> Self::PLACE) as usize & 0x3fff
    }

    #[inline(always)]
    fn block(self) -> usize {
        self.0 as u32 as usize
    }

    /// Returns the packet one block further.
    #[inline(always)]
    fn next(self) -> Self {
        Self(self.0.wrapping_sub((1 << (32 + Self::COUNT_UP)) - 1))
    }

    /// Returns whether there are blocks left.
    #[inline(always)]
    fn has_blocks(self) -> bool {
        self.0 >= 1 << (32 + Self::COUNT_UP)
    }
}

/// The operations of a back end.
trait Lanes: Copy {
    /// Puts the packets whose match so far is after `least` into the flight; returns their number.
    ///
    /// # Safety
    ///
    /// There are as many matches as keys, [`FLIGHT`] at most.
    unsafe fn enter<K: Key>(
        self,
        program: &Program<K>,
        keys: &[K],
        found: &[Match],
        least: u32,
        flight: &mut Flight,
    ) -> usize;

    /// Walks the first `count` packets from a root to their leaves. Returns how many of these
    /// leaves must be searched, with a [`Looking`] for each at the start; and prefetches their
    /// blocks.
    ///
    /// # Safety
    ///
    /// `root` is a root of this program, and `count` is what [`Lanes::enter`] returned just before.
    unsafe fn descend<K: Key>(
        self,
        program: &Program<K>,
        root: &Root,
        flight: &mut Flight,
        count: usize,
    ) -> usize;

    /// Returns the first rule of the block that matches, or `u32::MAX` if none does.
    ///
    /// # Safety
    ///
    /// The block is one of a program of this family, whose rows are given.
    unsafe fn block<K: Key>(self, rows: &[[u32; 8]], block: usize, key: &K) -> u32;
}

/// A loop over packets. `run` must be `#[inline(always)]`, or it is compiled for the wrong
/// processor.
trait Kernel {
    type Output;

    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// The back end of a classifier, chosen once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Scalar(scalar::Scalar),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx2(avx2::Avx2Lanes),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx512(avx512::Avx512Lanes),
}

impl Backend {
    /// Returns the back end of an instruction set, or `None` if this processor does not support it.
    ///
    /// AVX2 serves AVX-512 without the population count; the compiled scalar code serves SSE4.2 and
    /// Neon.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Scalar => Some(Self::Scalar(scalar::Scalar)),
            Isa::Sse42 | Isa::Neon => isa.is_available().then_some(Self::Scalar(scalar::Scalar)),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx2 => avx2::Avx2Lanes::detect().map(Self::Avx2),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx512 => avx512::Avx512Lanes::detect().map(Self::Avx512).or_else(|| {
                isa.is_available().then(|| avx2::Avx2Lanes::detect().map(Self::Avx2)).flatten()
            }),
            #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
            Isa::Avx2 | Isa::Avx512 => None,
            // An instruction set that `cpu` knows but for which there is no back end yet.
            _ => None,
        }
    }

    /// Runs a kernel, compiled for this back end.
    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Scalar(lanes) => kernel.run(lanes),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Avx2(lanes) => avx2::run(lanes, kernel),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Avx512(lanes) => avx512::run(lanes, kernel),
        }
    }
}
