//! Packet time, and the coarser time that tables age by.

use flowloom_flow_table::{Tick, TimeoutClass, Timeouts};

/// Nanoseconds in a tick, as a power of two: about a millisecond.
const TICK_SHIFT: u32 = 20;

/// Returns the tick that a packet's time lies in.
#[inline(always)]
#[must_use]
pub fn tick_of(time_ns: u64) -> Tick {
    Tick(time_ns >> TICK_SHIFT)
}

/// An idle timeout, in whole ticks.
///
/// A flow has ended when the ticks of two of its packets are further apart than this. Only the flow's own times
/// matter, so where a flow is cut depends neither on the number of workers nor on when a wheel turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeout {
    ticks: u64,
}

impl IdleTimeout {
    /// Returns the timeout of so many nanoseconds, at least one tick.
    #[must_use]
    pub fn from_ns(ns: u64) -> Self {
        Self { ticks: (ns >> TICK_SHIFT).max(1) }
    }

    /// Says whether a flow last seen at one tick has ended at another.
    #[inline(always)]
    #[must_use]
    pub fn is_over(self, last_seen: Tick, now: Tick) -> bool {
        now.0.saturating_sub(last_seen.0) > self.ticks
    }

    /// Returns the timeouts to build a table with: it may remove a flow once [`IdleTimeout::is_over`], not before.
    #[must_use]
    pub fn for_table(self) -> Timeouts {
        Timeouts::NEVER.with(TimeoutClass(0), self.ticks + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_packet_path_agree_on_the_end() {
        let timeout = IdleTimeout::from_ns(10 << TICK_SHIFT);
        assert!(!timeout.is_over(Tick(5), Tick(15)));
        assert!(timeout.is_over(Tick(5), Tick(16)));
        assert_eq!(timeout.for_table().deadline(TimeoutClass(0), Tick(5)), Some(Tick(16)));
        assert!(!timeout.is_over(Tick(5), Tick(1)));
    }
}
