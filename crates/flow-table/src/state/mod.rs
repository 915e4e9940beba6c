//! What every table shares behind its index.
//!
//! * [`slab`]: the array of states, ids, counters.
//! * [`wheel`]: ageing.

pub mod slab;
pub mod wheel;

pub use slab::States;
pub use wheel::Timeouts;
