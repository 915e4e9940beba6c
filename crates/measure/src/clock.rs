//! Processor time and wall-clock time.

use std::io;

use flowloom_cpu::counter::TimeStamps;
use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of the calling thread, in nanoseconds.
///
/// It excludes the time of other programs while this thread waits, but not their effect on its
/// caches.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Returns the time of a monotonic clock, in nanoseconds.
pub fn wall_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns the ticks of the processor's time stamp counter per nanosecond, compared with the
/// monotonic clock. Returns `None` without a counter of constant rate, as on processors other than
/// x86-64 and systems other than Linux.
///
/// The nanoseconds of [`thread_cpu_ns`] times this number are the ticks of the thread, without
/// those of other threads. These are ticks of the counter, not of the core, whose clock rate may be
/// higher or lower. Takes 20 ms: the median of five intervals; each end is the fastest of several
/// reads of both clocks.
///
/// # Examples
///
/// ```
/// if let Some(cycles_per_ns) = flowloom_measure::clock::time_stamps_per_ns() {
///     assert!((0.1..10.0).contains(&cycles_per_ns));
/// }
/// ```
pub fn time_stamps_per_ns() -> Option<f64> {
    const SPAN_NS: u64 = 4_000_000;
    let stamps = TimeStamps::detect()?;
    // The monotonic clock, and the counter within this many ticks of it.
    let pair = || {
        (0..16)
            .map(|_| {
                let before = stamps.read();
                let now = wall_ns();
                let after = stamps.read();
                (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), now)
            })
            .min()
            .map_or((0, 0), |(_, cycles, now)| (cycles, now))
    };
    let rates = (0..5).map(|_| {
        let begun = pair();
        while wall_ns().saturating_sub(begun.1) < SPAN_NS {
            std::hint::spin_loop();
        }
        let ended = pair();
        #[expect(clippy::cast_precision_loss, reason = "some milliseconds")]
        let rate = ended.0.wrapping_sub(begun.0) as f64 / ended.1.saturating_sub(begun.1).max(1) as f64;
        rate
    });
    Some(crate::stats::Summary::from_samples(rates).median)
}

/// Returns the processor time, in nanoseconds, of the children that this process has waited for.
///
/// Linux counts this time in ticks, usually of 10 ms: children that run for less than a second
/// should measure their own time.
///
/// # Errors
///
/// Returns an error if `/proc/self/stat` cannot be read, as on systems other than Linux.
pub fn children_cpu_ns() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let ticks = children_ticks(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat has no cutime and cstime")
    })?;
    Ok(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Returns cutime and cstime, fields 16 and 17 of `stat`.
fn children_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in brackets, which may itself contain spaces and
    // brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Time that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Elapsed {
    /// Processor time of the thread that held the stopwatch.
    pub cpu_ns: u64,
    /// Wall-clock time.
    pub wall_ns: u64,
}

/// Measures the processor time of one thread and the wall-clock time.
///
/// # Examples
///
/// ```
/// use flowloom_measure::Stopwatch;
/// let stopwatch = Stopwatch::start();
/// let sum: u64 = (0..1000).sum();
/// let elapsed = stopwatch.elapsed();
/// assert!(sum == 499_500 && elapsed.wall_ns > 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    cpu_ns: u64,
    wall_ns: u64,
}

impl Stopwatch {
    /// Starts.
    pub fn start() -> Self {
        Self { wall_ns: wall_ns(), cpu_ns: thread_cpu_ns() }
    }

    /// Returns the time since the start. Must be called on the thread that started it.
    pub fn elapsed(&self) -> Elapsed {
        let cpu_ns = thread_cpu_ns();
        Elapsed {
            cpu_ns: cpu_ns.saturating_sub(self.cpu_ns),
            wall_ns: wall_ns().saturating_sub(self.wall_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_costs_wall_time_but_no_processor_time() {
        let stopwatch = Stopwatch::start();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let elapsed = stopwatch.elapsed();
        assert!(elapsed.wall_ns >= 20_000_000, "{elapsed:?}");
        assert!(elapsed.cpu_ns < elapsed.wall_ns, "{elapsed:?}");
    }

    #[test]
    fn cycle_counter_ticks_at_a_constant_rate() {
        let rates = [time_stamps_per_ns(), time_stamps_per_ns()];
        let [Some(first), Some(second)] = rates else {
            assert_eq!(rates, [None, None]);
            return;
        };
        assert!((first / second - 1.0).abs() < 0.01, "{rates:?}");
    }

    #[test]
    fn process_names_with_brackets_do_not_shift_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 100 200 30 12 20 0 1 0 5";
        assert_eq!(children_ticks(stat), Some(42));
        assert_eq!(children_ticks("7 (a) S 1"), None);
    }
}
