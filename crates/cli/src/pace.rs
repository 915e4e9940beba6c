//! The progress of input over time, sampled from relaxed counters by a separate thread without
//! slowing the run.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};
use flowloom::engine::Control;

/// The first interval between samples; a long run is sampled less often.
const FIRST_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of samples. At twice this number every second sample is dropped and the interval
/// doubles.
const LOOKS: usize = 240;

/// Seconds since the start, and the packets read until then.
pub(crate) type Look = (f64, u64);

/// Samples the packet count of a run until it is stopped.
#[derive(Debug)]
pub(crate) struct Pace {
    end: Sender<()>,
    thread: JoinHandle<Vec<Look>>,
}

impl Pace {
    /// Starts sampling. Returns `None` if no thread can be started, which does not prevent the run.
    pub(crate) fn start(control: Arc<Control>) -> Option<Self> {
        let (end, ended) = unbounded();
        let look = move || {
            let begun = Instant::now();
            let mut looks = Looks::default();
            loop {
                looks.push((begun.elapsed().as_secs_f64(), control.packets()));
                if ended.recv_timeout(looks.interval) != Err(RecvTimeoutError::Timeout) {
                    looks.push((begun.elapsed().as_secs_f64(), control.packets()));
                    return looks.taken;
                }
            }
        };
        let thread = std::thread::Builder::new().name("pace".into()).spawn(look).ok()?;
        Some(Self { end, thread })
    }

    /// Stops sampling and returns the samples.
    pub(crate) fn stop(self) -> Vec<Look> {
        drop(self.end);
        self.thread.join().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Looks {
    taken: Vec<Look>,
    interval: Duration,
}

impl Default for Looks {
    fn default() -> Self {
        Self { taken: Vec::with_capacity(2 * LOOKS + 1), interval: FIRST_INTERVAL }
    }
}

impl Looks {
    fn push(&mut self, look: Look) {
        self.taken.push(look);
        if self.taken.len() > 2 * LOOKS {
            let mut number = 0;
            self.taken.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.interval = self.interval.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_are_sampled_more_rarely_over_their_whole_length() {
        let mut looks = Looks::default();
        for i in 0..4_000_u32 {
            looks.push((f64::from(i), u64::from(i)));
        }
        assert!((LOOKS..=2 * LOOKS).contains(&looks.taken.len()));
        assert!(looks.interval > 100 * FIRST_INTERVAL, "{:?}", looks.interval);
        assert_eq!(looks.taken[0], (0.0, 0));
        assert!(looks.taken.is_sorted_by(|a, b| a.1 < b.1));
    }

    #[test]
    fn shortest_run_is_sampled_twice() {
        let looks = Pace::start(Arc::new(Control::default())).unwrap().stop();
        assert!(looks.len() >= 2 && looks.iter().all(|look| look.1 == 0));
    }
}
