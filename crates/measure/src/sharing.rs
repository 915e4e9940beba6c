//! Measures whether two CPUs are threads of one core, independent of what the system reports.
//!
//! A virtual machine sees each of its CPUs as a core, but its host may run two of them on the
//! threads of one core. A cache line then moves quickly ([`cpu_distance`](crate::cpu_distance)),
//! but this is also the case between the cores of a fast machine. Threads of a core share its
//! multiplier, so simultaneous multiplications on both take twice as long as on one alone; on two
//! cores, they take no longer.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::thread_cpu_ns;
use crate::cpu_distance::{OTHERS, may_run_on, pin};
use crate::stats::Summary;

/// Number of steps per round; a round takes several tenths of a millisecond.
const STEPS: u64 = 1 << 16;
/// Number of steps after which the other CPU publishes its progress.
const STRIDE: u64 = 1 << 10;
/// Number of rounds, and the minimum number of them that must coincide with work of the other CPU.
const ROUNDS: usize = 21;
const ROUNDS_MIN: usize = 7;

/// Returns the largest slow-down of the first CPU's arithmetic while any one of the others works.
/// Returns `None` if there is no other CPU, or none could be measured.
pub fn most_slowed(cpus: &[u32]) -> Option<f64> {
    let (&first, others) = cpus.split_first()?;
    let slowed = others.iter().take(OTHERS).filter_map(|&other| slowed(first, other));
    slowed.max_by(f64::total_cmp)
}

/// Returns the slow-down of a CPU's arithmetic while another CPU works: 1 between cores, 2 between
/// threads of one core. It is the median of pairs of rounds, in processor time. Returns `None` if
/// threads cannot be pinned, or the two CPUs seldom run at the same time. Takes about ten
/// milliseconds.
pub fn slowed(one: u32, other: u32) -> Option<f64> {
    if one == other || ![one, other].into_iter().all(may_run_on) {
        return None;
    }
    let ask = || {
        let ratios: Vec<f64> = (0..ROUNDS).filter_map(|_| round(other)).collect();
        (ratios.len() >= ROUNDS_MIN).then(|| Summary::from_samples(ratios).median)
    };
    std::thread::scope(|scope| scope.spawn(|| pin(one).then(ask).flatten()).join().ok().flatten())
}

/// Works alone and then together with the other CPU. Returns the second time divided by the first.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round are far below 2^53")]
fn round(other: u32) -> Option<f64> {
    let alone = timed();
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (together, others) = std::thread::scope(|scope| {
        let works = scope.spawn(|| {
            let is_pinned = pin(other);
            while is_pinned && !is_over.load(Ordering::Relaxed) {
                black_box(multiply(black_box(STRIDE)));
                done.fetch_add(STRIDE, Ordering::Relaxed);
            }
        });
        while done.load(Ordering::Relaxed) == 0 && !works.is_finished() {
            std::thread::yield_now();
        }
        let before = done.load(Ordering::Relaxed);
        let together = timed();
        let others = done.load(Ordering::Relaxed) - before;
        is_over.store(true, Ordering::Relaxed);
        (together, others)
    });
    // The other thread may have been descheduled, and then slowed nothing.
    let is_together = others >= STEPS / 2 && alone > 0;
    is_together.then(|| together as f64 / alone as f64)
}

fn timed() -> u64 {
    let begun = thread_cpu_ns();
    black_box(multiply(black_box(STEPS)));
    thread_cpu_ns().saturating_sub(begun)
}

/// Keeps the multiplier busy with chains that do not depend on each other.
fn multiply(steps: u64) -> u64 {
    let mut chains: [u64; 8] = std::array::from_fn(|i| i as u64 | 1);
    for n in 0..steps {
        for chain in &mut chains {
            *chain = (*chain ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
    chains.into_iter().fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use flowloom_cpu::topology::allowed_cpus;

    use super::*;

    #[test]
    fn absent_cpu_slows_no_other_and_no_cpu_slows_itself() {
        for (one, other) in [(0, 100_000), (100_000, 0), (0, 0)] {
            assert_eq!(slowed(one, other), None);
        }
        assert_eq!((most_slowed(&[]), most_slowed(&[0])), (None, None));
    }

    #[test]
    fn another_cpu_makes_one_slower_by_a_factor_if_at_all() {
        let Ok(cpus) = allowed_cpus() else { return };
        let [first, second, ..] = cpus[..] else { return };
        // A busy machine may not run two threads at the same time for a while.
        let found = (0..100).find_map(|_| most_slowed(&[first, second]));
        assert!(found.is_some_and(|times| (0.3..6.0).contains(&times)), "{found:?}");
    }
}
