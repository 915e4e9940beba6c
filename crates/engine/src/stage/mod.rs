//! What all stages share: the interface that polls them, the end of a failed run, caught panics,
//! waiting, and the clock.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod panics;
pub(crate) mod poll;
pub(crate) mod shutdown;
