//! A first touch that writes.
//!
//! A page that is read before it is written is backed twice: by the kernel's page of zeros for the read, and by one of its own for the
//! write. Taking the first back interrupts every CPU that runs a thread of this process, for some microseconds each; in a table that
//! fills while several threads work, that is once a page.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

/// Makes the page of a word resident for writing, whatever is read of it next; on processors without such an instruction it does
/// nothing. The word stays what it is.
#[inline(always)]
pub(super) fn own(word: &mut u32) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    x86_64::own(word);
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
