//! MOVNTI and SFENCE.
#![expect(unsafe_code, reason = "instructions that write past the caches")]

use core::arch::x86_64::{_mm_sfence, _mm_stream_si64};

/// Writes the words; nobody may read or write them before [`settle`], on this thread.
#[inline(always)]
pub(super) fn write<const N: usize>(to: &mut [u64; N], group: [u64; N]) {
    for (to, word) in to.iter_mut().zip(group) {
        // SAFETY: `to` is a word that nobody else has, and MOVNTI asks for no alignment; it is part of x86-64. The only way here is a
        // `Writer`, which goes to no other thread, comes to each word once and reads none; the words are its own until `past_caches`
        // has called `settle`.
        unsafe { _mm_stream_si64(core::ptr::from_mut(to).cast(), word.cast_signed()) };
    }
}

/// Waits until all that this thread has written is there for everybody.
#[inline(always)]
pub(super) fn settle() {
    // SAFETY: SFENCE has no conditions, and is part of x86-64.
    unsafe { _mm_sfence() };
}
