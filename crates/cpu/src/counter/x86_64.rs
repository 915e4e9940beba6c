//! Reads the time stamp counter with RDTSC.
#![expect(unsafe_code, reason = "an instruction that reads a counter")]

#[inline]
pub(super) fn read() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: RDTSC writes its two output registers and changes no memory, flags or stack. If a
    // system forbids it to a process, the process is terminated, which is not a memory access
    // either.
    unsafe {
        core::arch::asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}
