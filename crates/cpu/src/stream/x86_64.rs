//! MOVNTI and SFENCE.
#![expect(unsafe_code, reason = "instructions that bypass the caches")]

use core::arch::x86_64::{_mm_sfence, _mm_stream_si64};

/// Writes the words; no code may read or write them before [`settle`] on this thread.
#[inline(always)]
pub(super) fn write<const N: usize>(to: &mut [u64; N], group: [u64; N]) {
    for (to, word) in to.iter_mut().zip(group) {
        // SAFETY: `to` is an exclusively borrowed word, and MOVNTI needs no alignment; it is part
        // of x86-64. The only caller is a `Writer`, which stays on its thread, writes each word
        // once and reads none; the words remain borrowed until `past_caches` has called `settle`.
        unsafe { _mm_stream_si64(core::ptr::from_mut(to).cast(), word.cast_signed()) };
    }
}

/// Waits until all stores of this thread are visible to every other thread.
#[inline(always)]
pub(super) fn settle() {
    // SAFETY: SFENCE has no conditions, and is part of x86-64.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
mod tests {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicU64, Ordering};

    use crate::stream::past_caches;

    /// Groups that one thread owns up to one of these numbers, and the other thread up to the next.
    struct Handed {
        groups: UnsafeCell<[[u64; 5]; 3]>,
        written: AtomicU64,
        read: AtomicU64,
    }

    // SAFETY: a thread that has seen the other's number owns the groups.
    unsafe impl Sync for Handed {}

    impl Handed {
        fn groups(&self) -> *mut [[u64; 5]; 3] {
            self.groups.get()
        }
    }

    /// Only the fence waits here: a lock would also wait, and conceal a missing fence. Without it,
    /// some of a hundred rounds read too early, because the last line is incomplete.
    #[test]
    fn another_thread_that_sees_a_plain_store_sees_all_words() {
        const ROUNDS: u64 = 10_000;
        let handed = Handed { groups: UnsafeCell::default(), written: 0.into(), read: 0.into() };
        let wait = |number: &AtomicU64, round| {
            let mut looks = 0_u32;
            while number.load(Ordering::Acquire) != round {
                looks += 1;
                if looks.is_multiple_of(1000) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    wait(&handed.read, round - 1);
                    // SAFETY: the reader has finished the previous round.
                    let groups = unsafe { &mut *handed.groups() };
                    past_caches(groups, |writer| (0..3).for_each(|_| writer.push([round; 5])));
                    handed.written.store(round, Ordering::Release);
                }
            });
            let mut late = 0;
            for round in 1..=ROUNDS {
                wait(&handed.written, round);
                // SAFETY: the writer waits for the end of this round.
                let groups = unsafe { *handed.groups() };
                late += u64::from(groups.as_flattened().iter().any(|&word| word != round));
                handed.read.store(round, Ordering::Release);
            }
            assert_eq!(late, 0, "of {ROUNDS}");
        });
    }
}
