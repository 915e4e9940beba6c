//! Writing for another CPU: past the caches of this one.
//!
//! Before a line is written that another CPU has read, it is taken from that CPU's caches. Between CPUs that share no cache this takes
//! 25 to 30 ns of the writer for each line (AMD EPYC, Zen 4), and asking for the lines early does not help: what is scarce is not time but
//! how many can be taken at once. A line that is written whole and past the caches is not fetched, and need not be taken. Who reads it finds it in
//! memory: worth it for what is written by one CPU, read once by others, and written again before long.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

/// Groups of words that are being written, in any order and as often as one likes; they can be read when
/// [`past_caches`] returns.
#[derive(Debug)]
pub struct Writer<'a, const N: usize> {
    groups: &'a mut [[u64; N]],
}

impl<const N: usize> Writer<'_, N> {
    /// Writes group `index`. Groups that lie side by side, written one after the other, fill whole lines, which is what costs least.
    ///
    /// # Panics
    ///
    /// Where there is no such group.
    #[inline(always)]
    pub fn put(&mut self, index: usize, group: [u64; N]) {
        write(&mut self.groups[index], group);
    }
}

/// Lets `work` write groups of words, and returns what it returns.
///
/// When this returns, or unwinds, all is written for every thread that hears of it afterwards. That costs a wait for what is under way, so
/// write many groups at a time. On processors other than x86-64 the words are written like any others.
///
/// # Examples
///
/// ```
/// let mut groups = [[0; 4]; 3];
/// let written = flowloom_cpu::stream::past_caches(&mut groups, |writer| {
///     writer.put(1, [1, 2, 3, 4]);
///     1
/// });
/// assert_eq!((written, groups[1]), (1, [1, 2, 3, 4]));
/// ```
#[inline(always)]
pub fn past_caches<const N: usize, R>(
    groups: &mut [[u64; N]],
    work: impl FnOnce(&mut Writer<'_, N>) -> R,
) -> R {
    // Dropped here, whatever happens, and before anybody else can look at the groups.
    let _settled = Settled;
    work(&mut Writer { groups })
}

/// Waits when it is dropped.
struct Settled;

impl Drop for Settled {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        x86_64::settle();
    }
}

#[inline(always)]
fn write<const N: usize>(to: &mut [u64; N], group: [u64; N]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    x86_64::write(to, group);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        *to = group;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_is_written_can_be_read_and_the_rest_is_as_it_was() {
        let mut groups = vec![[7; 3]; 5];
        past_caches(&mut groups, |writer| {
            writer.put(3, [1, 2, 3]);
            writer.put(0, [4, 5, 6]);
            writer.put(3, [8, 9, 10]);
        });
        assert_eq!(groups, [[4, 5, 6], [7; 3], [7; 3], [8, 9, 10], [7; 3]]);
    }

    #[test]
    fn what_was_written_before_a_panic_is_there() {
        let mut groups = [[0; 2]; 2];
        let writing = AssertUnwindSafe(|| {
            past_caches(&mut groups, |writer| {
                writer.put(1, [1, 2]);
                writer.put(2, [3, 4]);
            });
        });
        assert!(catch_unwind(writing).is_err(), "there is no third group");
        assert_eq!(groups, [[0, 0], [1, 2]]);
    }

    #[test]
    fn another_thread_that_is_told_sees_all_of_it() {
        let rounds = if cfg!(miri) { 3 } else { 2000 };
        let mut groups = vec![[0_u64; 14]; 32];
        for round in 1..=rounds {
            let is_there = AtomicBool::new(false);
            let (told, shared) = (&is_there, std::sync::Mutex::new(Some(&mut groups)));
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    while !told.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    let groups = shared.lock().unwrap().take().unwrap();
                    groups.iter().flatten().all(|&word| word == round)
                });
                let groups = shared.lock().unwrap().take().unwrap();
                past_caches(groups, |writer| (0..32).for_each(|i| writer.put(i, [round; 14])));
                *shared.lock().unwrap() = Some(groups);
                told.store(true, Ordering::Release);
                assert!(reader.join().unwrap(), "round {round}");
            });
        }
    }
}
