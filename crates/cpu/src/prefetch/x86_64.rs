//! PREFETCHT0.
#![expect(unsafe_code, reason = "a prefetch instruction; it never faults, whatever the address")]

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

#[inline(always)]
pub(super) fn read<T>(address: *const T) {
    // SAFETY: `_mm_prefetch` is a hint without architectural effect; SSE is part of x86-64.
    unsafe { _mm_prefetch::<{ _MM_HINT_T0 }>(address.cast()) };
}
