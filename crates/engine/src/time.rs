//! Packet time, and the coarser ticks with which tables expire flows.

use flowloom_flow_table::{Tick, TimeoutClass, Timeouts};

/// The length of a tick as a power of two of nanoseconds: about a millisecond.
const TICK_SHIFT: u32 = 20;

/// Returns the tick of a packet's time, in nanoseconds since 1970.
#[inline(always)]
#[must_use]
pub fn tick_of(time_ns: u64) -> Tick {
    Tick(time_ns >> TICK_SHIFT)
}

/// An idle timeout in whole ticks of about a millisecond.
///
/// A flow has ended when the ticks of two consecutive packets are further apart than the timeout.
/// The rule depends only on the flow's own times, so the records depend neither on the number of
/// workers nor on the expiry wheel. A flow that was idle for the timeout or less never ends; a flow
/// that was idle for two ticks more always does.
///
/// # Examples
///
/// ```
/// use flowloom_engine::IdleTimeout;
/// use flowloom_engine::time::tick_of;
///
/// let minute_ns = 60_000_000_000;
/// let timeout = IdleTimeout::from_ns(minute_ns);
/// assert!(!timeout.is_over(tick_of(0), tick_of(minute_ns)));
/// assert!(timeout.is_over(tick_of(0), tick_of(minute_ns + 3_000_000)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimeout {
    ticks: u64,
}

impl IdleTimeout {
    /// Returns the timeout of `ns` nanoseconds, rounded up to whole ticks, at least one.
    #[must_use]
    pub fn from_ns(ns: u64) -> Self {
        Self { ticks: ns.div_ceil(1 << TICK_SHIFT).max(1) }
    }

    /// Returns whether a flow whose last packet came at `last_seen` has ended at `now`.
    #[inline(always)]
    #[must_use]
    pub fn is_over(self, last_seen: Tick, now: Tick) -> bool {
        now.0.saturating_sub(last_seen.0) > self.ticks
    }

    /// Returns the timeouts to build a table with. The table may remove a flow once
    /// [`IdleTimeout::is_over`] holds, not before.
    #[must_use]
    pub fn for_table(self) -> Timeouts {
        FlowTimeouts { idle: Some(self), closed: None }.for_table()
    }
}

/// The class of flows that are open, in tables.
const OPEN: TimeoutClass = TimeoutClass(0);
/// The class of flows that are [closed](crate::FlowState::is_closed), in tables.
const CLOSED: TimeoutClass = TimeoutClass(1);

/// The idle timeouts of a run's flows.
///
/// # Examples
///
/// ```
/// use flowloom_engine::{FlowTimeouts, IdleTimeout};
///
/// let seconds = |seconds: u64| Some(IdleTimeout::from_ns(seconds * 1_000_000_000));
/// let timeouts = FlowTimeouts { idle: seconds(60), closed: seconds(5) };
/// assert_eq!(timeouts.timeout(false), seconds(60));
/// assert_eq!(timeouts.timeout(true), seconds(5));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTimeouts {
    /// The timeout of every flow.
    pub idle: Option<IdleTimeout>,
    /// The timeout of flows whose connection is closed. A value longer than `idle` has no effect.
    pub closed: Option<IdleTimeout>,
}

impl FlowTimeouts {
    /// Returns the timeout of a flow.
    #[inline(always)]
    #[must_use]
    pub fn timeout(self, is_closed: bool) -> Option<IdleTimeout> {
        match (self.idle, self.closed) {
            (Some(idle), Some(closed)) if is_closed => {
                Some(if closed.ticks < idle.ticks { closed } else { idle })
            }
            (None, closed) if is_closed => closed,
            (idle, _) => idle,
        }
    }

    /// Returns whether any timeout ends flows.
    #[inline(always)]
    #[must_use]
    pub fn is_set(self) -> bool {
        self.idle.is_some() || self.closed.is_some()
    }

    /// Returns the timeouts to build a table with. The table may remove a flow once
    /// [`IdleTimeout::is_over`] holds, not before.
    #[must_use]
    pub fn for_table(self) -> Timeouts {
        let classes = [(OPEN, self.timeout(false)), (CLOSED, self.timeout(true))];
        classes.into_iter().fold(Timeouts::NEVER, |timeouts, (class, timeout)| {
            timeout.map_or(timeouts, |timeout| timeouts.with(class, timeout.ticks + 1))
        })
    }

    pub(crate) fn class(is_closed: bool) -> TimeoutClass {
        if is_closed { CLOSED } else { OPEN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_at_the_timeout_continues_the_flow() {
        let second = 1_000_000_000;
        let timeout = IdleTimeout::from_ns(second);
        for first in (0..100).map(|i| i * 123_456_789) {
            let is_over = |gap| timeout.is_over(tick_of(first), tick_of(first + gap));
            assert!(!is_over(second), "first at {first}");
            assert!(is_over(second + (2 << TICK_SHIFT)), "first at {first}");
        }
    }

    #[test]
    fn the_table_and_the_packet_path_agree_on_the_end() {
        let timeout = IdleTimeout::from_ns(10 << TICK_SHIFT);
        assert!(!timeout.is_over(Tick(5), Tick(15)));
        assert!(timeout.is_over(Tick(5), Tick(16)));
        assert_eq!(timeout.for_table().deadline(TimeoutClass(0), Tick(5)), Some(Tick(16)));
        assert!(!timeout.is_over(Tick(5), Tick(1)));
    }
}
