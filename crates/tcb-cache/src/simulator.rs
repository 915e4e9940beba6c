//! The seam of all caches that decide as they go.

use crate::access::Access;
use crate::counts::Counts;

/// A cache that takes accesses in order and counts what becomes of them.
///
/// Called once for many accesses, so that it may be `dyn`. Cost: a few to some hundred nanoseconds an access; nothing
/// is allocated.
pub trait Simulator: core::fmt::Debug + Send {
    /// Takes in accesses, in order.
    fn run(&mut self, accesses: &[Access]);

    /// Returns what was counted since the cache was built.
    fn counts(&self) -> Counts;

    /// Returns the keys that are in the cache, in no particular order; a key in two lines stands there twice.
    fn resident(&self) -> Vec<u64>;
}
