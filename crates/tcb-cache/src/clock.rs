//! Time as the lines see it: the tick of the Lifetime array, and the order of accesses within it.

use crate::lifetime::{ON_TICKS, TICK_MS};

/// The age of an empty line: OFF, and older than all others.
pub(crate) const EMPTY: u64 = 0;

/// The first tick; more than [`ON_TICKS`], so that empty lines are OFF from the start.
const FIRST_TICK: u64 = 8;

/// The time of an access: its tick in the upper 32 bits, and a running number within the tick in
/// the lower 32 bits.
///
/// A single word therefore gives the order of two accesses and whether a line is ON [TCBCACHE
/// §3.3]. Ticks suffice for 34 years; after that, time does not advance. Up to 2³² accesses within
/// one tick keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    now: u64,
}

impl Clock {
    /// Advances to an access at `time_ms`; a time that goes back counts as the present time.
    #[inline(always)]
    pub(crate) fn advance(&mut self, time_ms: u64) {
        let tick = (time_ms / TICK_MS).min(u64::from(u32::MAX) - FIRST_TICK) + FIRST_TICK;
        self.now = if tick > self.now >> 32 { tick << 32 } else { self.now + 1 };
    }

    /// Returns the age of a line that is touched now.
    #[inline(always)]
    pub(crate) fn now(self) -> u64 {
        self.now
    }

    /// Returns whether a line of age `age` is ON.
    #[inline(always)]
    pub(crate) fn is_on(self, age: u64) -> bool {
        (self.now >> 32) - (age >> 32) <= ON_TICKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifetime;

    #[test]
    fn ages_grow_and_give_on_and_off_periods() {
        let times = [0, 0, 100, 249, 250, 200, 999, 1000, 1250, 1_000_000, u64::MAX >> 1];
        let mut clock = Clock::default();
        let mut before: Vec<(u64, u64)> = Vec::new();
        let mut latest = 0;
        for time in times {
            clock.advance(time);
            latest = latest.max(time);
            assert!(before.iter().all(|(age, _)| *age < clock.now()), "at {time}");
            assert!(!clock.is_on(EMPTY));
            for (age, last) in &before {
                if latest < 1 << 40 {
                    assert_eq!(clock.is_on(*age), lifetime::is_on(*last, latest), "{last} at {latest}");
                }
            }
            before.push((clock.now(), latest));
        }
    }
}
