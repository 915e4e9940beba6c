//! Eight rules of a leaf at once; the walk is the scalar one, compiled with its bit instructions.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256,
    _mm256_max_epu16, _mm256_min_epu16, _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_srli_epi32, _mm256_srlv_epi32, _mm256_subs_epu16, _mm256_xor_si256,
};

use flowloom_cpu::features::Avx2;

use super::program::Program;
use super::{Flight, Kernel, Lanes, scalar};
use crate::key::Key;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2Lanes(Avx2);

impl Avx2Lanes {
    pub(crate) fn detect() -> Option<Self> {
        Avx2::detect().map(Self)
    }
}

impl Lanes for Avx2Lanes {
    #[inline(always)]
    unsafe fn descend<K: Key>(self, program: &Program<K>, flight: &mut Flight, count: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe { scalar::descend(program, flight, count) };
    }

    #[inline(always)]
    unsafe fn block<K: Key>(self, program: &Program<K>, block: usize, key: &K) -> u32 {
        // SAFETY: `self` proves AVX2 and the bit instructions; the block is the caller's promise.
        unsafe { scan(program, block, key) }
    }
}

/// Returns the first rule of a block that matches.
///
/// # Safety
///
/// The processor has AVX2 and BMI1, and the block is one of this program's.
#[expect(clippy::cast_ptr_alignment, reason = "rows are loaded as unaligned")]
#[inline(always)]
pub(super) unsafe fn scan<K: Key>(program: &Program<K>, block: usize, key: &K) -> u32 {
    let rows = program.rows();
    let start = block * Program::<K>::BLOCK_ROWS;
    // SAFETY: the caller's promise: all rows of the block lie inside `rows`.
    unsafe {
        let hits = matches(rows.as_ptr().add(start).cast::<__m256i>(), key);
        let rules = rows.get_unchecked(start + Program::<K>::BLOCK_ROWS - 1);
        let rule = rules[hits.trailing_zeros() as usize & 7];
        if hits == 0 { u32::MAX } else { rule }
    }
}

/// Returns the lanes of a block that match.
///
/// # Safety
///
/// The processor has AVX2, and `block` points to the rows of a block.
#[inline(always)]
unsafe fn matches<K: Key>(block: *const __m256i, key: &K) -> u32 {
    let n = K::ADDRESS_DIMENSIONS;
    // SAFETY: the caller's promise; rows are numbered below `BLOCK_ROWS` = 2 n + 4.
    unsafe {
        let set = |value: u32| _mm256_set1_epi32(value.cast_signed());
        let row = |index: usize| _mm256_loadu_si256(block.add(index));
        let lengths = row(2 * n);
        let byte = set(0xff);
        let hosts =
            [_mm256_and_si256(lengths, byte), _mm256_and_si256(_mm256_srli_epi32::<8>(lengths), byte)];
        let protocol = _mm256_xor_si256(lengths, set(u32::from(key.protocol()) << 16));
        let mut differs =
            _mm256_and_si256(_mm256_and_si256(protocol, _mm256_srli_epi32::<8>(lengths)), set(0x00ff_0000));
        for d in 0..2 * n {
            let below = 32 * (n - 1 - d % n) as u32;
            let shift = _mm256_subs_epu16(hosts[d / n], set(below));
            let unlike = _mm256_xor_si256(row(d), set(key.dimension(d)));
            differs = _mm256_or_si256(differs, _mm256_srlv_epi32(unlike, shift));
        }
        let ports = set(key.ports());
        let clamped = _mm256_min_epu16(_mm256_max_epu16(ports, row(2 * n + 1)), row(2 * n + 2));
        let differs = _mm256_or_si256(differs, _mm256_xor_si256(clamped, ports));
        let equal = _mm256_cmpeq_epi32(differs, _mm256_setzero_si256());
        _mm256_movemask_ps(_mm256_castsi256_ps(equal)).cast_unsigned()
    }
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
