//! PREFETCHT0, PREFETCHT1 and PREFETCHW.
#![expect(unsafe_code, reason = "a prefetch instruction never faults")]

use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};

#[inline(always)]
pub(super) fn read<T>(address: *const T) {
    // SAFETY: `_mm_prefetch` is a hint without architectural effect; SSE is part of x86-64.
    unsafe { _mm_prefetch::<{ _MM_HINT_T0 }>(address.cast()) };
}

#[inline(always)]
pub(super) fn read_later<T>(address: *const T) {
    // SAFETY: as `read`.
    unsafe { _mm_prefetch::<{ _MM_HINT_T1 }>(address.cast()) };
}

#[cfg(not(miri))]
#[inline(always)]
pub(super) fn write<T>(address: *const T) {
    // SAFETY: PREFETCHW is a hint; it changes no register, flag or memory, and ignores an address
    // that cannot be translated. x86-64 processors without it execute it as a no-operation of the
    // same length.
    unsafe {
        core::arch::asm!(
            "prefetchw [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}
