//! A simulator of small caches of connection state.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "lanes are cut from wider words, and times from draws, on purpose; ratios are for people"
)]

pub mod access;
mod banked;
pub mod bounds;
mod clock;
pub mod cost;
pub mod counts;
mod fully;
pub mod geometry;
pub mod index;
pub mod lifetime;
pub mod model;
pub mod policy;
pub mod random;
pub mod reference;
pub mod simulate;
pub mod simulator;
pub mod spec;
pub mod trace;
pub mod wire;

pub use access::Access;
pub use banked::access_count::Counted;
pub use banked::fewer_on::Tie;
pub use counts::Counts;
pub use geometry::{Geometry, GeometryError};
pub use index::{IndexFunction, Indexing};
pub use policy::{Policy, UnknownPolicy};
pub use simulate::{SimulateError, Simulated, Trace};
pub use simulator::Simulator;
pub use spec::{CacheSpec, SpecError};
