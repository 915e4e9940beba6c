//! Four 16-byte compares, available on every x86-64 processor.
//!
//! For single operations, where entering a function compiled for a better processor costs more than
//! its compare saves.
#![expect(unsafe_code, reason = "SIMD loads")]

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16,
    _mm_set1_epi16, _mm_setr_epi16,
};
use core::ptr;

use super::Lanes;
#[cfg(feature = "papers")]
use crate::dhash::layout::Bucket;
use crate::linehash::layout::Line;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sse2Lanes;

/// Returns the quarters of 64 aligned bytes.
#[inline(always)]
fn quarters<T>(line: &T) -> [__m128i; 4] {
    const { assert!(size_of::<T>() == 64 && align_of::<T>() == 64, "one cache line") }
    let start: *const __m128i = ptr::from_ref(line).cast();
    // SAFETY: 64 bytes, 64-aligned, as asserted: four aligned loads inside them; SSE2 is part of
    // x86-64.
    unsafe { [0, 1, 2, 3].map(|quarter| _mm_load_si128(start.add(quarter))) }
}

impl Lanes for Sse2Lanes {
    #[cfg(feature = "papers")]
    #[inline(always)]
    fn equal(self, bucket: &Bucket, word: u32) -> u32 {
        use core::arch::x86_64::{_mm_cmpeq_epi32, _mm_packs_epi32, _mm_set1_epi32};

        let [a, b, c, d] = quarters(bucket);
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let wanted = _mm_set1_epi32(word.cast_signed());
            let low = _mm_packs_epi32(_mm_cmpeq_epi32(a, wanted), _mm_cmpeq_epi32(b, wanted));
            let high = _mm_packs_epi32(_mm_cmpeq_epi32(c, wanted), _mm_cmpeq_epi32(d, wanted));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)).cast_unsigned()
        }
    }

    #[inline(always)]
    fn equal_lanes(self, line: &Line, signature: u16) -> u32 {
        let [a, b, c, d] = quarters(line);
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let wanted = _mm_set1_epi16(signature.cast_signed());
            // Mask out the filter's halves here and not in the result: with integers this needs no
            // additional register.
            let lanes = _mm_setr_epi16(-1, -1, -1, -1, -1, -1, 0, 0);
            let low = _mm_packs_epi16(_mm_cmpeq_epi16(a, wanted), _mm_cmpeq_epi16(b, wanted));
            let last = _mm_and_si128(_mm_cmpeq_epi16(d, wanted), lanes);
            let high = _mm_packs_epi16(_mm_cmpeq_epi16(c, wanted), last);
            let (low, high) =
                (_mm_movemask_epi8(low).cast_unsigned(), _mm_movemask_epi8(high).cast_unsigned());
            low | high << 16
        }
    }

    #[inline(always)]
    fn top_bits(self, line: &Line) -> u32 {
        let [a, b, c, d] = quarters(line);
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            // Packing saturates and therefore keeps the sign.
            let low = _mm_movemask_epi8(_mm_packs_epi16(a, b)).cast_unsigned();
            let high = _mm_movemask_epi8(_mm_packs_epi16(c, d)).cast_unsigned();
            low | high << 16
        }
    }
}
