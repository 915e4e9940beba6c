//! A first touch that writes.
//!
//! A page that is read before it is written is backed twice: by the kernel's page of zeros for the read, and by one of its own for the
//! write. Taking the first back interrupts every CPU that runs a thread of this process, for some microseconds each; in a table that
//! fills while several threads work, that is once a page.
#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "an instruction that reads and writes in one go")
)]

/// Makes the page of a word resident for writing, whatever is read of it next. The word stays what it is.
#[inline(always)]
pub(super) fn own(word: &mut u32) {
    // OR with 0: the processor asks for the page once, to write.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a reference is valid for reading and writing; the word written is the one that is there. The instruction changes flags
    // and nothing else.
    unsafe {
        core::arch::asm!("or dword ptr [{word}], 0", word = in(reg) word, options(nostack));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = word;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_stays_what_it_is() {
        for word in [0, 1, u32::MAX] {
            let mut owned = word;
            own(&mut owned);
            assert_eq!(owned, word);
        }
    }
}
