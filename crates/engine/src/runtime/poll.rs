//! A stage as something that does a little at a time and never waits: what a thread repeats, and what a schedule in
//! virtual time picks from.

use std::time::Duration;

/// What came of a little work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// Something was done; ask again at once.
    Worked,
    /// Nothing can be done until another stage has done something.
    Idle,
    /// The source has nothing now, and may have something at any time.
    Starved,
    /// Nothing is to be done for so long, by the pace that was asked for.
    Nap(Duration),
    /// Nothing will ever be done again.
    Done,
}

/// Whether a stage that hands packets on may take more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// It may.
    Free,
    /// Somebody must make room first.
    Full,
    /// Whoever would take them is gone.
    Gone,
}
