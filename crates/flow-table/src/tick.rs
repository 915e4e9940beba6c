//! Times and timeout classes of flows.

/// A moment, in the caller's unit; only differences between ticks matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Tick(pub u64);

/// The timeout of the table that applies to a flow; see [`Timeouts`](crate::state::Timeouts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TimeoutClass(pub u8);
