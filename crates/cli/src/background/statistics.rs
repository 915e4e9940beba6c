//! The progress of a run on request.

use std::sync::Arc;
use std::time::Instant;

use flowloom::engine::{Control, Snapshot};

use crate::render::{grouped, scaled};

/// Lines of statistics. Each line has the rate since the previous line.
#[derive(Debug)]
pub(super) struct Statistics {
    control: Arc<Control>,
    before: (Instant, u64),
}

impl Statistics {
    pub(super) fn new(control: Arc<Control>) -> Self {
        let before = (Instant::now(), control.packets());
        Self { control, before }
    }

    /// Returns the line for the present state.
    pub(super) fn line(&mut self) -> String {
        let now = self.control.snapshot();
        let before = std::mem::replace(&mut self.before, (Instant::now(), now.packets));
        let seconds = (self.before.0 - before.0).as_secs_f64().max(1e-9);
        line(&now, now.packets.saturating_sub(before.1) as f64 / seconds)
    }
}

fn line(now: &Snapshot, rate: f64) -> String {
    let not_tracked =
        now.dropped.nonzero().filter(|(reason, _)| !reason.is_loss()).map(|(_, packets)| packets).sum();
    format!(
        "packets {} ({}packets/s)   processed {}   denied {}   not tracked {}   dropped {}   in flight {}",
        grouped(now.packets),
        scaled(rate),
        grouped(now.processed),
        grouped(now.denied),
        grouped(not_tracked),
        grouped(now.dropped.total() - not_tracked),
        grouped(now.in_flight)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_line_has_the_figures() {
        let mut now = Snapshot::default();
        (now.packets, now.processed, now.denied, now.in_flight) = (12_345, 12_000, 7, 345);
        assert_eq!(
            line(&now, 1500.0),
            "packets 12345 (1.50 kpackets/s)   processed 12000   denied 7   not tracked 0   dropped 0   in flight 345"
        );
        let mut statistics = Statistics::new(Arc::default());
        assert!(statistics.line().starts_with("packets 0 (0.0 packets/s)"));
    }
}
