//! One program: tables against their laws, models and oracles.

#[cfg(feature = "concurrent")]
mod concurrent;
#[cfg(feature = "std")]
mod defaults;
#[cfg(feature = "concurrent")]
mod drop_orders;
mod growth;
#[cfg(feature = "std")]
mod laws;
#[cfg(feature = "std")]
mod map;
mod misuse;
#[cfg(feature = "concurrent")]
mod model;
mod pressure;
mod reports;
mod shapes;
mod victims;
