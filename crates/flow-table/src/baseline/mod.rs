//! The tables that the papers compare against: lists of full entries.
//!
//! * [`Chained`]: buckets that point to lists, as in the network stack that [DHASH §II-A] measures.
//! * [`DirectTable`]: the DirectHash of the paper, with the first entry in the bucket itself and
//!   the others in a list [FLOWNP §4.2].
//!
//! Both compare whole keys and therefore read a line for every flow they pass. They serve
//! measurements, and show the effect of a flood on a list. The length of a list has a cap, as in
//! every table.

pub mod chained;
pub mod direct_table;
mod links;

pub use chained::{Chained, PAPER_BUCKETS};
pub use direct_table::DirectTable;
