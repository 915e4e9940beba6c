//! The one place of the libraries that reads a clock: when a run and its threads begin and end, and to keep a pace that
//! was asked for.
//! Never once per packet of an unpaced run.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns this moment.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the processor time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
