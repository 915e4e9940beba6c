//! A simulator of small caches of connection state.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "sets, ways and lanes are cut from wider words on purpose; ratios are for people"
)]

pub mod access;
mod banked;
pub mod bounds;
mod clock;
pub mod counts;
mod fully;
pub mod geometry;
pub mod index;
pub mod lifetime;
pub mod policy;
pub mod random;
pub mod reference;
pub mod simulate;
pub mod simulator;
pub mod spec;

pub use access::Access;
pub use banked::fewer_on::Tie;
pub use counts::Counts;
pub use geometry::{Geometry, GeometryError};
pub use index::{IndexFunction, Indexing};
pub use policy::{Policy, UnknownPolicy};
pub use simulate::{SimulateError, Simulated, Trace};
pub use simulator::Simulator;
pub use spec::{CacheSpec, SpecError};
