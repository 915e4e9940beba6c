//! Reads the time stamp counter with RDTSC.
#![expect(unsafe_code, reason = "an instruction that reads a counter")]

#[inline]
pub(super) fn read() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: RDTSC writes the two registers that are named and touches no memory, no flag and no
    // stack. A system may forbid it to a process, which it then ends: that is not an access to
    // memory either.
    unsafe {
        core::arch::asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}
