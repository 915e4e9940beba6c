//! One 64-byte compare.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::x86_64::{
    _mm512_cmpeq_epi16_mask, _mm512_load_si512, _mm512_movepi16_mask, _mm512_set1_epi16,
};
use core::hint::black_box;
use core::ptr;

use flowloom_cpu::features::Avx512;

use super::{Kernel, Lanes};
#[cfg(feature = "papers")]
use crate::dhash::layout::Bucket;
use crate::linehash::layout::{ALL_LANES, Line};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Lanes(Avx512);

impl Avx512Lanes {
    pub(crate) fn detect() -> Option<Self> {
        Avx512::detect().map(Self)
    }
}

impl Lanes for Avx512Lanes {
    #[cfg(feature = "papers")]
    #[inline(always)]
    fn equal(self, bucket: &Bucket, word: u32) -> u32 {
        use core::arch::x86_64::{_mm512_cmpeq_epi32_mask, _mm512_set1_epi32};

        // SAFETY: a bucket is 64 bytes and 64-aligned (asserted in `layout.rs`); `self` proves
        // AVX-512F.
        unsafe {
            let line = _mm512_load_si512(ptr::from_ref(bucket).cast());
            u32::from(_mm512_cmpeq_epi32_mask(line, _mm512_set1_epi32(word.cast_signed())))
        }
    }

    #[inline(always)]
    fn equal_lanes(self, line: &Line, signature: u16) -> u32 {
        // SAFETY: a line is 64 bytes and 64-aligned (asserted in `layout.rs`); `self` proves
        // AVX-512BW.
        unsafe {
            let line = _mm512_load_si512(ptr::from_ref(line).cast());
            _mm512_cmpeq_epi16_mask(line, _mm512_set1_epi16(signature.cast_signed())) & ALL_LANES
        }
    }

    #[inline(always)]
    fn top_bits(self, line: &Line) -> u32 {
        // SAFETY: a line is 64 bytes and 64-aligned (asserted in `layout.rs`); `self` proves
        // AVX-512BW.
        unsafe { _mm512_movepi16_mask(_mm512_load_si512(ptr::from_ref(line).cast())) }
    }

    #[inline(always)]
    fn apart<K: Kernel>(self, kernel: K) -> K::Output {
        let call: unsafe fn(Avx512Lanes, K) -> K::Output = black_box(compiled::<K>);
        // SAFETY: `self` proves these features.
        unsafe { call(self, kernel) }
    }
}

#[inline(always)]
pub(crate) fn run<K: Kernel>(lanes: Avx512Lanes, kernel: K) -> K::Output {
    // SAFETY: `lanes` proves these features.
    unsafe { compiled(lanes, kernel) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
fn compiled<K: Kernel>(lanes: Avx512Lanes, kernel: K) -> K::Output {
    kernel.run(lanes)
}
