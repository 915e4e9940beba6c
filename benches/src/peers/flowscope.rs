//! flowscope, a flow tracker in Rust that takes frames, with its bidirectional five-tuple and its
//! tracker, without reassembly and events.

use flowscope::extract::FiveTuple;
use flowscope::{FlowTracker, FlowTrackerConfig, PacketView, Timestamp};

/// A tracker with capacity for all flows.
pub struct Tracker(FlowTracker<FiveTuple>);

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracker").field("flows", &self.0.flow_count()).finish_non_exhaustive()
    }
}

impl Tracker {
    /// Returns a tracker that evicts none of `flows` flows.
    #[must_use]
    pub fn new(flows: usize) -> Self {
        let mut config = FlowTrackerConfig::default();
        config.max_flows = 2 * flows;
        config.initial_capacity = flows;
        let mut tracker = FlowTracker::with_config(FiveTuple::bidirectional(), config);
        tracker.pause_events();
        Self(tracker)
    }

    /// Processes a frame with a time of `second`.
    #[inline]
    pub fn track(&mut self, frame: &[u8], second: u32) {
        self.0.track(PacketView::new(frame, Timestamp::new(second, 0)));
    }

    /// Returns the number of flows and the number of their packets.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.0.flow_count() as u64, self.0.iter_active().map(|flow| flow.stats.total_packets()).sum())
    }
}
