//! OR with 0: it asks for the page once, to write.
#![expect(unsafe_code, reason = "an instruction that reads and writes in one go")]

#[inline(always)]
pub(super) fn own(word: &mut u32) {
    // SAFETY: a reference is valid for reading and writing; the word written is the one that is there. The instruction changes flags
    // and nothing else.
    unsafe {
        core::arch::asm!("or dword ptr [{word}], 0", word = in(reg) word, options(nostack));
    }
}
