//! The Lifetime array, which determines the lines that are ON [TCBCACHE §3.3, Fig. 10].
//!
//! The paper gives each line a three-bit counter. An access sets it to 7, and a global tick every
//! quarter of a second decrements it down to 0. The line is ON while the upper bit is set, from 7
//! to 4. The life of a line is therefore 0.75 to 1 s, depending on the time of the access between
//! two ticks.
//!
//! The sweeps can be avoided. With tick(t) = ⌊t / 250 ms⌋,
//!
//! ```text
//! ON(line, now)  ⇔  tick(now) − tick(last access) ≤ 3
//! ```
//!
//! The paper calls the tick "8 Hz". This implementation uses 4 Hz, which follows from the paper's N
//! = FREQ·T/4.

/// Milliseconds between ticks.
pub const TICK_MS: u64 = 250;

/// The counter's value after an access.
pub const FRESH: u8 = 7;

/// A line is ON while its counter is at least this.
pub const ON_FROM: u8 = 4;

/// Number of ticks for which a line stays ON after the tick of its last access.
pub const ON_TICKS: u64 = (FRESH - ON_FROM) as u64;

/// Returns whether a line that was last accessed at `last_ms` is ON at `now_ms`.
#[inline]
#[must_use]
pub const fn is_on(last_ms: u64, now_ms: u64) -> bool {
    (now_ms / TICK_MS).saturating_sub(last_ms / TICK_MS) <= ON_TICKS
}

/// The array as described in the paper, with counters that a sweep decrements. It is the reference
/// for [`is_on`].
#[derive(Clone, Debug)]
pub struct LifetimeArray {
    counters: Vec<u8>,
    tick: u64,
}

impl LifetimeArray {
    /// Returns the array of a cache with empty lines.
    #[must_use]
    pub fn new(lines: usize) -> Self {
        Self { counters: vec![0; lines], tick: 0 }
    }

    /// Advances time: sweeps the array once per tick since the last call. Costs one pass per tick,
    /// at most seven.
    pub fn advance(&mut self, now_ms: u64) {
        let tick = now_ms / TICK_MS;
        // After seven sweeps every counter is 0, and additional sweeps change nothing.
        for _ in 0..tick.saturating_sub(self.tick).min(u64::from(FRESH)) {
            for counter in &mut self.counters {
                *counter = counter.saturating_sub(1);
            }
        }
        self.tick = self.tick.max(tick);
    }

    /// Marks an access to a line.
    pub fn touch(&mut self, line: usize) {
        self.counters[line] = FRESH;
    }

    /// Marks a line as empty.
    pub fn clear(&mut self, line: usize) {
        self.counters[line] = 0;
    }

    /// Copies a counter with its line.
    pub fn copy(&mut self, from: usize, to: usize) {
        self.counters[to] = self.counters[from];
    }

    /// Returns whether a line is ON.
    #[must_use]
    pub fn is_on(&self, line: usize) -> bool {
        self.counters[line] >= ON_FROM
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entry_lives_between_three_quarters_and_one_lifetime() {
        assert!(is_on(0, 999) && !is_on(0, 1000), "touched right after a tick");
        assert!(is_on(249, 999) && !is_on(249, 1000), "touched right before one");
        assert!(is_on(500, 100), "time that goes back stands still");
    }

    proptest! {
        #[test]
        fn lazy_and_eager_expiry_agree(steps in prop::collection::vec((0_u64..700, 0_usize..6), 1..300)) {
            let mut eager = LifetimeArray::new(6);
            let mut last = [None; 6];
            let mut now = 0;
            for (gap, line) in steps {
                now += gap;
                eager.advance(now);
                for (line, last) in last.iter().enumerate() {
                    let lazy = last.is_some_and(|last| is_on(last, now));
                    prop_assert_eq!(eager.is_on(line), lazy, "line {} at {} ms", line, now);
                }
                eager.touch(line);
                last[line] = Some(now);
            }
        }
    }
}
