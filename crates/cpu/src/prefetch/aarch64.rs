//! PRFM, for reading and writing.
#![expect(unsafe_code, reason = "a prefetch instruction never faults")]

#[inline(always)]
pub(super) fn read<T>(address: *const T) {
    // SAFETY: PRFM is a hint; it changes no register, flag or memory, and ignores an address that
    // cannot be translated.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[inline(always)]
pub(super) fn read_later<T>(address: *const T) {
    // SAFETY: as `read`.
    unsafe {
        core::arch::asm!(
            "prfm pldl2keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[inline(always)]
pub(super) fn write<T>(address: *const T) {
    // SAFETY: as `read`.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}
