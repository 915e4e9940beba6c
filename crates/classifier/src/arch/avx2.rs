//! Eight rules of a leaf at once; the walk is the scalar one, compiled with its bit instructions.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256,
    _mm256_max_epu16, _mm256_min_epu16, _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_srli_epi32, _mm256_srlv_epi32, _mm256_subs_epu16, _mm256_xor_si256,
};

use flowloom_cpu::features::Avx2;

use super::program::{Program, leaf_blocks};
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
    fn descend<K: Key>(self, program: &Program<K>, root: u64, flight: &mut Flight, count: usize) {
        scalar::descend(program, root, flight, count);
    }

    #[inline(always)]
    fn leaf<K: Key>(self, program: &Program<K>, leaf: u64, key: &K) -> u32 {
        // SAFETY: `self` proves AVX2 and the bit instructions; the leaf comes from this program.
        unsafe { scan(program, leaf, key) }
    }
}

/// Returns the first rule of a leaf that matches.
///
/// # Safety
///
/// The processor has AVX2 and BMI1, and the leaf is one of this program's.
#[expect(clippy::cast_ptr_alignment, reason = "rows are loaded as unaligned")]
#[inline(always)]
pub(super) unsafe fn scan<K: Key>(program: &Program<K>, leaf: u64, key: &K) -> u32 {
    let (first, count) = leaf_blocks(leaf);
    let rows = program.rows();
    let mut start = first * Program::<K>::BLOCK_ROWS;
    let end = start + count * Program::<K>::BLOCK_ROWS;
    while start < end {
        // SAFETY: `Program::new` holds `first + count` blocks inside the rows; the caller vouches for the rest.
        unsafe {
            let block = rows.as_ptr().add(start).cast::<__m256i>();
            let hits = matches(block, key);
            if hits != 0 {
                let lane = hits.trailing_zeros() as usize;
                return *rows.get_unchecked(start + Program::<K>::BLOCK_ROWS - 1).get_unchecked(lane & 7);
            }
        }
        start += Program::<K>::BLOCK_ROWS;
    }
    u32::MAX
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
