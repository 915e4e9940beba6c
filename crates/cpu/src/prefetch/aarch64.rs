//! PRFM, to read and to write.
#![expect(unsafe_code, reason = "a prefetch instruction; it never faults, whatever the address")]

#[inline(always)]
pub(super) fn read<T>(address: *const T) {
    // SAFETY: PRFM is a hint; it changes no register, no flag and no memory, and it ignores an
    // address that cannot be translated.
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
