//! What the papers compare against: lists of full entries.
//!
//! * [`Chained`]: buckets that point to lists, as in the network stack that [DHASH §II-A] measures.
//! * [`DirectTable`]: the DirectHash of the paper, the first entry in the bucket itself, the others in a list behind it [FLOWNP §4.2].
//!
//! Both compare whole keys and so read a line for every flow they pass. They are here to be measured, and to show what a
//! flood does to a list; the length of a list has a cap like everywhere else.

pub mod chained;
pub mod direct_table;
mod links;

pub use chained::{Chained, ChainedConfig};
pub use direct_table::{DirectTable, DirectTableConfig};
