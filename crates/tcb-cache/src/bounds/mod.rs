//! Caches that know the future: exact or near bounds for every policy.

mod greedy;
mod min;
mod next_use;

pub use next_use::{NextUses, TooLong};

pub(crate) use greedy::Greedy;
pub(crate) use min::Min;
