//! Eight rules of a leaf at once; the walk is the scalar one, compiled with bit instructions.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256,
    _mm256_max_epu16, _mm256_min_epu16, _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_srli_epi32, _mm256_subs_epu16, _mm256_xor_si256,
};
use core::ptr;

use flowloom_cpu::features::Avx2;

use super::program::{Program, Root};
use super::{Flight, Kernel, Lanes, scalar};
use crate::key::{Key, Match};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2Lanes(Avx2);

impl Avx2Lanes {
    pub(crate) fn detect() -> Option<Self> {
        Avx2::detect().map(Self)
    }
}

impl Lanes for Avx2Lanes {
    #[inline(always)]
    unsafe fn enter<K: Key>(
        self,
        program: &Program<K>,
        keys: &[K],
        found: &[Match],
        least: u32,
        flight: &mut Flight,
    ) -> usize {
        scalar::enter(program, keys, found, least, flight)
    }

    #[inline(always)]
    unsafe fn descend<K: Key>(
        self,
        program: &Program<K>,
        root: &Root,
        flight: &mut Flight,
        count: usize,
    ) -> usize {
        // SAFETY: the caller's promise is the same.
        unsafe { scalar::descend(program, root, flight, count) }
    }

    #[inline(always)]
    unsafe fn block<K: Key>(self, rows: &[[u32; 8]], block: usize, key: &K) -> u32 {
        // SAFETY: `self` proves AVX2 and the bit instructions; the block is the caller's promise.
        unsafe { scan(rows, block, key) }
    }
}

/// Returns the first rule of a block that matches.
///
/// # Safety
///
/// The caller guarantees: the processor has AVX2 and BMI1, and the block belongs to a program of
/// this family, whose rows are given.
#[inline(always)]
unsafe fn scan<K: Key>(rows: &[[u32; 8]], block: usize, key: &K) -> u32 {
    // SAFETY: the caller's promise: all rows of the block lie inside `rows`. The place of the first
    // of eight bits that is set, or of none, is below eight under the mask.
    unsafe {
        let equal = _mm256_cmpeq_epi32(differences(rows, block, key), _mm256_setzero_si256());
        let hits = _mm256_movemask_ps(_mm256_castsi256_ps(equal)).cast_unsigned();
        let rules = rows.get_unchecked((block + 1) * Program::<K>::BLOCK_ROWS - 1);
        let rule = *rules.get_unchecked(hits.trailing_zeros() as usize & 7);
        if hits == 0 { u32::MAX } else { rule }
    }
}

/// Returns zero in the lanes of a block that match.
///
/// # Safety
///
/// The caller guarantees: the processor has AVX2, and the block belongs to a program of this
/// family, whose rows are given.
#[expect(clippy::cast_ptr_alignment, reason = "rows are loaded as unaligned")]
#[inline(always)]
pub(super) unsafe fn differences<K: Key>(rows: &[[u32; 8]], block: usize, key: &K) -> __m256i {
    let n = K::ADDRESS_DIMENSIONS;
    // SAFETY: the caller's promise; rows are numbered below `BLOCK_ROWS` = 2 n + 4. A key is its
    // words and nothing else, and the four bytes from `byte` on lie in them: in a word's half, or,
    // for the protocol, from its second byte on.
    unsafe {
        let block = rows.as_ptr().add(block * Program::<K>::BLOCK_ROWS).cast::<__m256i>();
        let set = |value: u32| _mm256_set1_epi32(value.cast_signed());
        let row = |index: usize| _mm256_loadu_si256(block.add(index));
        let bytes = |byte: usize| {
            _mm256_set1_epi32(ptr::from_ref(key).cast::<u8>().add(byte).cast::<i32>().read_unaligned())
        };
        let lengths = row(2 * n);
        let low_byte = set(0xff);
        let above = _mm256_srli_epi32::<8>(lengths);
        let hosts = [_mm256_and_si256(lengths, low_byte), _mm256_and_si256(above, low_byte)];
        // The protocol follows the ports: read two bytes early, it is at the same offset as the
        // lengths.
        let protocol = bytes(8 * K::WORDS - 6);
        let protocol = _mm256_and_si256(_mm256_xor_si256(lengths, protocol), above);
        let ports = bytes(8 * K::WORDS - 8);
        let clamped = _mm256_min_epu16(_mm256_max_epu16(ports, row(2 * n + 1)), row(2 * n + 2));
        let mut differs =
            _mm256_or_si256(_mm256_and_si256(protocol, set(0x00ff_0000)), _mm256_xor_si256(clamped, ports));
        for d in 0..2 * n {
            let below = 32 * (n - 1 - d % n) as u32;
            let shift = _mm256_subs_epu16(hosts[d / n], set(below));
            let unlike = _mm256_xor_si256(row(d), bytes(4 * (d ^ 1)));
            differs = _mm256_or_si256(differs, shifted(unlike, shift));
        }
        differs
    }
}

/// Shifts each lane right by a separate count; counts above 31 give zero.
///
/// Use the instruction itself: the compiler knows only the meaning of the intrinsic and would test
/// the counts once more.
#[inline]
#[target_feature(enable = "avx2")]
fn shifted(lanes: __m256i, counts: __m256i) -> __m256i {
    let shifted: __m256i;
    // SAFETY: the instruction is of AVX2, and touches nothing but the named registers.
    unsafe {
        asm!(
            "vpsrlvd {shifted}, {lanes}, {counts}",
            shifted = lateout(ymm_reg) shifted,
            lanes = in(ymm_reg) lanes,
            counts = in(ymm_reg) counts,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    shifted
}

#[inline(always)]
pub(crate) fn run<K: Kernel>(lanes: Avx2Lanes, kernel: K) -> K::Output {
    // SAFETY: `lanes` proves these features.
    unsafe { compiled(lanes, kernel) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn compiled<K: Kernel>(lanes: Avx2Lanes, kernel: K) -> K::Output {
    kernel.run(lanes)
}
