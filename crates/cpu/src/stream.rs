//! Non-temporal stores: writes for another CPU that bypass this CPU's caches.
//!
//! Before a CPU writes a line that another CPU has read, it must take the line from that CPU's
//! caches. Between CPUs that share no cache, this takes the writer about 30 ns per line (AMD EPYC,
//! Zen 4), and 20 to 25 ns with an early prefetch: the bottleneck is the number of lines in flight.
//! A line that is written completely and bypasses the caches is not fetched, and need not be taken.
//! The reader finds it in memory. This pays for data that one CPU writes, others read once, and the
//! writer soon overwrites.

use core::fmt;
use core::marker::PhantomData;

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, sanitized)))))]
mod plain;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, sanitized))))]
mod x86_64;

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, sanitized)))))]
use plain::{settle, write};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(any(miri, sanitized))))]
use x86_64::{settle, write};

/// Groups of words that are being written one after another. They can be read when [`past_caches`]
/// returns.
///
/// Each word is written once, no word is read in the meantime, and the thread that writes also
/// waits for completion:
///
/// ```compile_fail,E0277
/// flowloom_cpu::stream::past_caches(&mut [[0; 4]], |writer| {
///     std::thread::scope(|scope| scope.spawn(|| writer.push([1; 4])).join()).unwrap();
/// });
/// ```
pub struct Writer<'a, const N: usize> {
    groups: &'a mut [[u64; N]],
    written: usize,
    stays: PhantomData<*const ()>,
}

// Does not print the groups: words in flight must not be read.
impl<const N: usize> fmt::Debug for Writer<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<const N: usize> Writer<'_, N> {
    /// Writes the next group.
    ///
    /// # Panics
    ///
    /// Without non-temporal stores.
    #[inline(always)]
    pub fn push(&mut self, group: [u64; N]) {
        write(&mut self.groups[self.written], group);
        self.written += 1;
    }

    /// Returns the number of groups written.
    #[inline(always)]
    #[must_use]
    pub fn written(&self) -> usize {
        self.written
    }
}

/// Lets `work` write groups of words, starting with the first one, and returns its result.
///
/// When this returns, or unwinds, all words are visible to every thread that synchronises with this
/// one afterwards. This costs a wait for the words in flight, so write many groups at a time. On
/// processors other than x86-64, and under Miri or a sanitizer (`--cfg sanitized`), the words are
/// written with ordinary stores.
///
/// # Examples
///
/// ```
/// let mut groups = [[0; 4]; 3];
/// let written = flowloom_cpu::stream::past_caches(&mut groups, |writer| {
///     writer.push([1, 2, 3, 4]);
///     writer.written()
/// });
/// assert_eq!((written, groups[0]), (1, [1, 2, 3, 4]));
/// ```
#[inline(always)]
pub fn past_caches<const N: usize, R>(
    groups: &mut [[u64; N]],
    work: impl FnOnce(&mut Writer<'_, N>) -> R,
) -> R {
    // Dropped here in any case, before other code can read the groups.
    let _settled = Settled;
    work(&mut Writer { groups, written: 0, stays: PhantomData })
}

/// Waits when it is dropped.
struct Settled;

impl Drop for Settled {
    #[inline(always)]
    fn drop(&mut self) {
        settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn written_groups_are_read_back_and_others_keep_their_values() {
        let mut groups = vec![[7; 3]; 5];
        let written = past_caches(&mut groups, |writer| {
            writer.push([1, 2, 3]);
            writer.push([4, 5, 6]);
            writer.written()
        });
        assert_eq!((written, &groups[..]), (2, &[[1, 2, 3], [4, 5, 6], [7; 3], [7; 3], [7; 3]][..]));
    }

    #[test]
    fn groups_written_before_a_panic_remain() {
        let mut groups = [[0; 2]; 2];
        let writing = AssertUnwindSafe(|| {
            past_caches(&mut groups, |writer| (1..=3).for_each(|i| writer.push([i, i])));
        });
        assert!(catch_unwind(writing).is_err(), "there is no third group");
        assert_eq!(groups, [[1, 1], [2, 2]]);
    }

    #[test]
    fn debug_output_hides_the_data() {
        let shown = past_caches(&mut [[0; 2]; 2], |writer| {
            writer.push([77, 77]);
            std::format!("{writer:?}")
        });
        assert_eq!(shown, "Writer { written: 1, .. }");
    }
}
