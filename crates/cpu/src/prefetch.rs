//! A hint that a cache line will be read.
#![expect(unsafe_code, reason = "prefetch instructions; they never fault, whatever the address")]

/// Bytes in a cache line.
pub const LINE_BYTES: usize = 64;

/// Hints that the line holding `address` will be read soon. Any address will do: a prefetch never faults.
#[inline(always)]
pub fn read<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: `_mm_prefetch` is a hint without architectural effect; SSE is part of x86-64.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: PRFM is a hint; it changes no register, no flag and no memory, and an address that
        // cannot be translated is ignored.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{address}]",
                address = in(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    {
        let _ = address;
    }
}

/// Hints that element `index` of `slice` will be read soon. An index past the end is harmless.
#[inline(always)]
pub fn read_at<T>(slice: &[T], index: usize) {
    read(slice.as_ptr().wrapping_add(index));
}
