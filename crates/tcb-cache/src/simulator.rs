//! The trait of all caches that decide without knowledge of the future.

use crate::access::Access;
use crate::counts::Counts;

/// A cache that processes accesses in order and counts hits and misses.
///
/// One call processes many accesses, so dynamic dispatch costs little. Takes a few to several
/// hundred nanoseconds per access, and does not allocate.
pub trait Simulator: core::fmt::Debug + Send {
    /// Processes accesses, in order.
    fn run(&mut self, accesses: &[Access]);

    /// Returns the counts since the cache was built.
    fn counts(&self) -> Counts;

    /// Returns the keys in the cache, in no particular order; a key in two lines occurs twice.
    fn resident(&self) -> Vec<u64>;
}
