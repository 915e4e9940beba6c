//! Caches that know the accesses to come: what no policy can do better, or hardly.

mod greedy;
mod min;
mod next_use;

pub use next_use::{NextUses, TooLong};

pub(crate) use greedy::Greedy;
pub(crate) use min::Min;
