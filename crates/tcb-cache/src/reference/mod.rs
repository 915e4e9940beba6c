//! Plain versions of the simulated caches, to compare the quick ones with: slow, and obviously right.

mod banked;

pub use banked::ReferenceCache;
