//! The interface of a stage: each poll does a little work and never blocks. A thread polls it in a
//! loop; a simulated schedule picks the next stage to poll.

use std::time::Duration;

/// The result of polling a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// The stage did some work. Poll it again at once.
    Worked,
    /// The stage can do nothing until another stage has done something.
    Idle,
    /// The source has no packets now, and may have some at any time.
    Starved,
    /// The requested pace leaves no work for this long.
    Nap(Duration),
    /// The stage has ended.
    Done,
}

/// Whether a dispatcher can take more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// It can.
    Free,
    /// Another stage must first free capacity.
    Full,
    /// The receiver of the packets has ended.
    Gone,
}
