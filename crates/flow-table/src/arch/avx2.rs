//! Two 32-byte compares.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi16, _mm256_load_si256, _mm256_movemask_epi8, _mm256_packs_epi16,
    _mm256_permute4x64_epi64, _mm256_set1_epi16,
};
use core::hint::black_box;
use core::ptr;

use flowloom_cpu::features::Avx2;

use super::{Kernel, Lanes};
#[cfg(feature = "papers")]
use crate::dhash::layout::Bucket;
use crate::linehash::layout::{ALL_LANES, Line};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2Lanes(Avx2);

impl Avx2Lanes {
    pub(crate) fn detect() -> Option<Self> {
        Avx2::detect().map(Self)
    }
}

impl Lanes for Avx2Lanes {
    #[cfg(feature = "papers")]
    #[inline(always)]
    fn equal(self, bucket: &Bucket, word: u32) -> u32 {
        use core::arch::x86_64::{
            _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_movemask_ps, _mm256_set1_epi32,
        };

        let line: *const __m256i = ptr::from_ref(bucket).cast();
        // SAFETY: a bucket is 64 bytes and 64-aligned (asserted in `layout.rs`), so it is two
        // aligned 32-byte halves; `self` proves AVX2.
        unsafe {
            let wanted = _mm256_set1_epi32(word.cast_signed());
            let low = _mm256_cmpeq_epi32(_mm256_load_si256(line), wanted);
            let high = _mm256_cmpeq_epi32(_mm256_load_si256(line.add(1)), wanted);
            let low = _mm256_movemask_ps(_mm256_castsi256_ps(low));
            let high = _mm256_movemask_ps(_mm256_castsi256_ps(high));
            (low | (high << 8)).cast_unsigned()
        }
    }

    #[inline(always)]
    fn equal_lanes(self, line: &Line, signature: u16) -> u32 {
        let halves: *const __m256i = ptr::from_ref(line).cast();
        // SAFETY: a line is 64 bytes and 64-aligned (asserted in `layout.rs`), so it is two aligned
        // 32-byte halves; `self` proves AVX2.
        unsafe {
            let wanted = _mm256_set1_epi16(signature.cast_signed());
            let low = _mm256_cmpeq_epi16(_mm256_load_si256(halves), wanted);
            let high = _mm256_cmpeq_epi16(_mm256_load_si256(halves.add(1)), wanted);
            // Packing works on 16-byte lanes, so a permutation restores the order of their
            // quarters.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
            _mm256_movemask_epi8(packed).cast_unsigned() & ALL_LANES
        }
    }

    #[inline(always)]
    fn top_bits(self, line: &Line) -> u32 {
        let halves: *const __m256i = ptr::from_ref(line).cast();
        // SAFETY: as in `equal_lanes`.
        unsafe {
            // Packing saturates and therefore keeps the sign; the permutation is as above.
            let packed = _mm256_packs_epi16(_mm256_load_si256(halves), _mm256_load_si256(halves.add(1)));
            _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed)).cast_unsigned()
        }
    }

    #[inline(always)]
    fn apart<K: Kernel>(self, kernel: K) -> K::Output {
        let call: unsafe fn(Avx2Lanes, K) -> K::Output = black_box(compiled::<K>);
        // SAFETY: `self` proves these features.
        unsafe { call(self, kernel) }
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
