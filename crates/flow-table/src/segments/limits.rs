//! Limits of a [`Growing`](super::Growing) table, and the builder of its segments.

use super::SEGMENTS_MAX;
use crate::error::BuildError;

/// Minimum growth factor from one segment to the next; larger if twelve segments would not suffice.
const GROWTH: u32 = 4;

/// Limits of a [`Growing`](super::Growing) table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthLimits {
    /// Flows of the first segment; [`flows_max`](Self::flows_max) if that is less.
    pub first_flows: u32,
    /// Maximum number of flows in all segments together.
    pub flows_max: u32,
    /// Maximum size of all segments together, in bytes.
    pub memory_max_bytes: u64,
}

impl GrowthLimits {
    /// Returns the smallest growth factor, from [`GROWTH`] on, with which twelve segments can hold
    /// all flows.
    pub(super) fn growth(&self) -> u32 {
        let reach = |growth: &u32| {
            let flows =
                |place| u64::from(self.first_flows.max(1)).saturating_mul(u64::from(*growth).pow(place));
            (0_u32..).take(SEGMENTS_MAX).fold(0_u64, |sum, place| sum.saturating_add(flows(place)))
        };
        // 32 to the power of eleven exceeds any number of flows.
        (GROWTH..32).find(|growth| reach(growth) >= u64::from(self.flows_max)).unwrap_or(32)
    }
}

/// Builds a segment of a [`Growing`](super::Growing) table for a number of flows; any function of
/// that form does.
pub trait BuildSegment<T> {
    /// Returns a segment for a number of flows.
    ///
    /// # Errors
    ///
    /// Returns the error of building the table.
    fn build(&mut self, flows: u32) -> Result<T, BuildError>;
}

impl<T, F: FnMut(u32) -> Result<T, BuildError>> BuildSegment<T> for F {
    fn build(&mut self, flows: u32) -> Result<T, BuildError> {
        self(flows)
    }
}
