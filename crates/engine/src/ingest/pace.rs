//! The speed at which a run takes packets from the source: unlimited, in proportion to packet
//! times, or at a fixed rate.

use std::time::{Duration, Instant};

use crate::stage::clock;

/// The speed at which a run takes packets. A number must be above zero.
///
/// # Examples
///
/// ```
/// use flowloom_engine::{EngineConfig, Layout, Pace};
///
/// let config = |pace| EngineConfig { pace, ..EngineConfig::new(Layout::Inline) };
/// assert!(config(Pace::Times(2.0)).check().is_ok());
/// assert!(config(Pace::PerSecond(0.0)).check().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Pace {
    /// As fast as the engine can process them.
    Max,
    /// At this multiple of the speed that the packets' times give.
    Times(f64),
    /// This many packets per second.
    PerSecond(f64),
}

/// Maximum duration of a single sleep. It bounds the delay of a stop.
const NAP: Duration = Duration::from_millis(20);
/// Shorter waits are skipped, because a sleep would take longer.
const GRAIN: Duration = Duration::from_micros(50);

/// Computes the wait before each packet. Delays do not accumulate, because every packet has a due
/// time.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    start: Instant,
    first_ns: Option<u64>,
    packets: u64,
}

impl Pacer {
    /// Returns a pacer, or `None` for a pace without waits.
    pub(crate) fn new(pace: Pace) -> Option<Self> {
        match pace {
            Pace::Max => None,
            pace => Some(Self { pace, start: clock::now(), first_ns: None, packets: 0 }),
        }
    }

    /// Returns the wait before a packet of this time, at most [`NAP`]. Call it again after that
    /// wait.
    pub(crate) fn wait(&mut self, time_ns: u64) -> Option<Duration> {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let seconds = match self.pace {
            Pace::Max => return None,
            Pace::Times(factor) => time_ns.saturating_sub(first_ns) as f64 / 1e9 / factor,
            Pace::PerSecond(rate) => self.packets as f64 / rate,
        };
        let intended = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let wait = intended.saturating_sub(self.start.elapsed());
        (wait > GRAIN).then_some(wait.min(NAP))
    }

    /// Counts a packet as taken.
    pub(crate) fn took(&mut self) {
        self.packets += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_packet_never_waits_and_later_ones_do() {
        let mut pacer = Pacer::new(Pace::Times(1.0)).unwrap();
        assert_eq!(pacer.wait(5_000_000_000), None);
        assert_eq!(pacer.wait(65_000_000_000), Some(NAP));
        assert!(Pacer::new(Pace::Max).is_none());
    }

    #[test]
    fn an_absurd_pace_waits_in_naps() {
        let mut pacer = Pacer::new(Pace::PerSecond(1e-300)).unwrap();
        assert_eq!(pacer.wait(0), None);
        pacer.took();
        assert_eq!(pacer.wait(0), Some(NAP));
    }
}
