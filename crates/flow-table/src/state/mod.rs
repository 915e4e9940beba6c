//! The part of a table that all tables share in addition to their index.
//!
//! The array of states with ids and counters is in [`slab`], ageing in [`wheel`].

pub mod slab;
pub mod wheel;

pub use slab::States;
pub use wheel::Timeouts;
