//! Distance between CPUs: the round-trip time of a cache line.
//!
//! The cost of communication between threads depends on it. On an AMD EPYC (Zen 4), it is 50 to 65
//! ns if the CPUs share a cache and 305 to 340 ns if they do not. A hypervisor may move the CPUs of
//! a virtual machine from one second to the next, and no other interface reports it.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use flowloom_cpu::topology::{PINNABLE_CPUS, Topology, allowed_cpus};

use crate::stats::Summary;

/// Number of round trips that are timed together, and number of repetitions.
const TRIPS: u32 = 20;
const TIMES: usize = 101;
/// Maximum duration of a measurement between two CPUs if one of them has other work.
const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum number of other CPUs to measure.
pub(crate) const OTHERS: usize = 15;
/// Number of attempts for two CPUs that have other work.
const TRIES: usize = 5;
/// The number that ends the measurement.
const OVER: u64 = u64::MAX;

/// Returns the shortest and the longest round-trip time of a line between the first allowed CPU and
/// others, one CPU per core. Returns `None` if there is no other CPU, or threads cannot be pinned.
pub fn line_round_trips_ns() -> Option<[f64; 2]> {
    let cpus = Topology::read().ok()?.one_per_core();
    let (&first, others) = cpus.split_first()?;
    let trips = others.iter().take(OTHERS).filter_map(|&other| trip_ns(first, other));
    trips.fold(None, |found, ns| match found {
        None => Some([ns; 2]),
        Some([least, most]) => Some([least.min(ns), most.max(ns)]),
    })
}

/// Returns the round-trip time of a line from the first CPU to the furthest of the others. Returns
/// `None` if there is no other CPU, or one does not answer after several attempts.
pub fn furthest_round_trip_ns(cpus: &[u32]) -> Option<f64> {
    let (&first, others) = cpus.split_first()?;
    let trips: Option<Vec<f64>> = others.iter().take(OTHERS).map(|&other| trip_ns(first, other)).collect();
    trips?.into_iter().max_by(f64::total_cmp)
}

/// Makes several attempts.
fn trip_ns(one: u32, other: u32) -> Option<f64> {
    (0..TRIES).find_map(|_| line_round_trip_ns(one, other))
}

/// Returns the median round-trip time of a line between two CPUs. Returns `None` if threads cannot
/// be pinned to them, or other work keeps them busy. Takes about a millisecond, and at most a
/// twentieth of a second.
pub fn line_round_trip_ns(one: u32, other: u32) -> Option<f64> {
    if one == other || ![one, other].into_iter().all(may_run_on) {
        return None;
    }
    let line = Line(AtomicU64::new(0));
    let end = Instant::now() + PATIENCE;
    std::thread::scope(|scope| {
        scope.spawn(|| pin(other).then(|| answer(&line.0, end)));
        scope.spawn(|| pin(one).then(|| ask(&line.0, end)).flatten()).join().ok().flatten()
    })
}

/// Formats the shortest and the longest time: as one number if they are similar.
pub fn range_text([least, most]: [f64; 2]) -> String {
    if most < 1.25 * least { format!("{most:.0} ns") } else { format!("{least:.0} to {most:.0} ns") }
}

/// A number on its own cache lines.
#[repr(align(128))]
struct Line(AtomicU64);

/// Returns whether a thread can be pinned to a CPU.
pub(crate) fn may_run_on(cpu: u32) -> bool {
    cpu < PINNABLE_CPUS && allowed_cpus().is_ok_and(|allowed| allowed.contains(&cpu))
}

pub(crate) fn pin(cpu: u32) -> bool {
    core_affinity::set_for_current(CoreId { id: cpu as usize })
}

/// Waits until the number has the expected value; returns whether it has, or `false` at the
/// deadline.
fn wait(number: &AtomicU64, end: Instant, is_so: impl Fn(u64) -> bool) -> Option<u64> {
    loop {
        for _ in 0..256 {
            let now = number.load(Ordering::Acquire);
            if is_so(now) {
                return Some(now);
            }
            spin_loop();
        }
        if Instant::now() > end {
            return None;
        }
    }
}

/// Increments every odd number.
fn answer(number: &AtomicU64, end: Instant) {
    while let Some(now) = wait(number, end, |now| now % 2 == 1) {
        if now == OVER {
            return;
        }
        number.store(now + 1, Ordering::Release);
    }
}

/// Increments every even number, and measures the time.
fn ask(number: &AtomicU64, end: Instant) -> Option<f64> {
    let mut next = 1;
    let mut trip = || {
        number.store(next, Ordering::Release);
        next += 2;
        wait(number, end, |now| now == next - 1)
    };
    // The other thread must start first.
    trip()?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        for _ in 0..TRIPS {
            trip()?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(TRIPS));
    }
    number.store(OVER, Ordering::Release);
    Some(Summary::from_samples(times).median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_run_only_on_allowed_cpus() {
        let allowed = allowed_cpus().unwrap();
        for cpu in (0..9).chain([63, PINNABLE_CPUS]) {
            assert_eq!(may_run_on(cpu), cpu < PINNABLE_CPUS && allowed.contains(&cpu), "{cpu}");
        }
    }

    #[test]
    fn cache_line_transfer_between_cpus_takes_time() {
        let Ok(topology) = Topology::read() else { return };
        let cpus = topology.one_per_core();
        // A busy machine may not run two threads at the same time for a while.
        let found = (0..100).find_map(|_| (cpus.len() > 1).then(line_round_trips_ns).flatten());
        let Some([least, most]) = found else { return assert!(cpus.len() < 2, "none of {cpus:?} answers") };
        // From a few nanoseconds between two threads of a core to a few microseconds if the system
        // has other work.
        assert!(2.0 < least && least <= most && most < 1e6, "{least} … {most}");
    }

    #[test]
    fn similar_transfer_times_are_shown_once() {
        assert_eq!(range_text([50.0, 60.0]), "60 ns");
        assert_eq!(range_text([50.0, 320.4]), "50 to 320 ns");
    }

    #[test]
    fn furthest_cpu_is_known_only_if_all_were_measured() {
        assert_eq!(furthest_round_trip_ns(&[]), None);
        let Ok(cpus) = allowed_cpus() else { return };
        assert_eq!(furthest_round_trip_ns(&cpus[..1]), None, "there is no other");
        assert_eq!(furthest_round_trip_ns(&[cpus[0], 100_000]), None);
        if let [first, second, ..] = cpus[..] {
            let found = (0..20).find_map(|_| furthest_round_trip_ns(&[first, second]));
            assert!(found.is_some_and(|ns| ns > 2.0), "{found:?}");
        }
    }

    #[test]
    fn absent_cpu_has_no_distance_and_neither_has_a_cpu_to_itself() {
        for (one, other) in [(0, 100_000), (100_000, 0), (0, 0)] {
            assert_eq!(line_round_trip_ns(one, other), None);
        }
    }
}
