//! One program: policies against an interpreter, the formats and real dumps.

mod dumps;
mod exhaustive;
mod firewall;
mod hard;
#[cfg(feature = "std")]
mod limits;
mod netfilter;
mod real_sets;
mod tracking;
