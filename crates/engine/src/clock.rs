//! The one place of the libraries that reads a clock: when a run begins and ends, and to keep a pace that was asked for.
//! Never once per packet of an unpaced run.

use std::time::Instant;

/// Returns this moment.
pub(crate) fn now() -> Instant {
    Instant::now()
}
