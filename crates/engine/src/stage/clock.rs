//! The only place in this crate that reads a clock: at the start and end of a run and its
//! threads, and to keep a pace. An unpaced run never reads it per packet.

use std::time::{Duration, Instant};

/// Returns the current instant.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the processor time of the calling thread, or `None` on systems without such a clock.
#[cfg_attr(all(unix, not(miri)), expect(clippy::unnecessary_wraps, reason = "elsewhere there is none"))]
pub(crate) fn thread_cpu() -> Option<Duration> {
    #[cfg(all(unix, not(miri)))]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Some(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
    }
    #[cfg(not(all(unix, not(miri))))]
    None
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn processor_time_goes_on_while_a_thread_works() {
        let begun = thread_cpu().expect("this system has such a clock");
        let end = now() + Duration::from_secs(20);
        while thread_cpu() == Some(begun) {
            assert!(now() < end, "the clock stands at {begun:?}");
        }
        assert!(thread_cpu() > Some(begun));
    }
}
