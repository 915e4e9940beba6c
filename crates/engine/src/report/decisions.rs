//! Counts of the decisions about the frames of a wire.

use flowloom_packet::wire::Decision;

/// Counts of the frames that a wire received, by decision. A frame that passes is sent by a port,
/// or the port refuses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionCounts {
    /// Frames that the application lets pass.
    pub passed: u64,
    /// Frames without a flow that pass.
    pub passed_without_flow: u64,
    /// Frames that pass because the table is full.
    pub passed_at_full_table: u64,
    /// Frames that the application drops.
    pub denied: u64,
    /// Frames among the denied ones whose sender got an answer.
    pub answered: u64,
    /// Frames without a flow that are dropped.
    pub dropped_without_flow: u64,
    /// Frames dropped because the table is full.
    pub dropped_at_full_table: u64,
    /// Frames at which the application panicked, and that pass.
    pub passed_at_panic: u64,
    /// Frames at which the application panicked, and that are dropped.
    pub dropped_at_panic: u64,
    /// Frames that the application accepted with changes that could not be applied.
    pub not_rewritten: u64,
    /// Frames of the application's own that a port has sent, answers not included.
    pub emitted: u64,
    /// Frames that were lost because the run ended with a fault.
    pub lost: u64,
}

impl DecisionCounts {
    /// Counts a frame at which the application panicked, and returns what happens to it.
    #[cold]
    pub(crate) fn at_panic(&mut self, passes: bool) -> Decision {
        if passes {
            self.passed_at_panic += 1;
            Decision::Pass
        } else {
            self.dropped_at_panic += 1;
            Decision::Drop
        }
    }

    /// Counts a frame without a flow by its decision, and returns that.
    pub(crate) fn without_flow(&mut self, decision: Decision) -> Decision {
        match decision {
            Decision::Drop => self.dropped_without_flow += 1,
            _ => self.passed_without_flow += 1,
        }
        decision
    }

    /// Returns how many frames do not pass.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.denied
            + self.dropped_without_flow
            + self.dropped_at_full_table
            + self.dropped_at_panic
            + self.not_rewritten
            + self.lost
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.passed += other.passed;
        self.passed_without_flow += other.passed_without_flow;
        self.passed_at_full_table += other.passed_at_full_table;
        self.denied += other.denied;
        self.answered += other.answered;
        self.dropped_without_flow += other.dropped_without_flow;
        self.dropped_at_full_table += other.dropped_at_full_table;
        self.passed_at_panic += other.passed_at_panic;
        self.dropped_at_panic += other.dropped_at_panic;
        self.not_rewritten += other.not_rewritten;
        self.emitted += other.emitted;
        self.lost += other.lost;
    }
}
