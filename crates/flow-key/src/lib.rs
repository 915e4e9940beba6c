//! The key of a flow, and the numbers derived from it.
//!
//! A [`FiveTuple`] is the content of one packet: sender and receiver. A [`FlowKey`] is the same for
//! both directions of a flow, with the [`Direction`] kept separately. A [`FlowHasher`] turns a key
//! into a [`FlowHash`] once per packet. Worker, bucket and signature use separate bits of this one
//! digest.
//!
//! ```
//! use flowloom_flow_key::{FiveTuple, FlowHasher};
//!
//! let request = FiveTuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 40_000, 443, 6);
//! let reply = request.reversed();
//! let (key, there) = request.canonical();
//! let (same, back) = reply.canonical();
//! assert_eq!(key, same);
//! assert_ne!(there, back);
//!
//! let hasher = FlowHasher::with_seed(1);
//! assert_eq!(hasher.hash(&key), hasher.hash(&same));
//! ```
//!
//! # Features
//!
//! * `std` (default): `FlowHasher::random` draws a secret from the operating system. Without it the
//!   crate is `no_std` and requires a seed.
//! * `proptest`: exports the strategies in `strategies`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![expect(clippy::cast_possible_truncation, reason = "keys and hashes are cut from wider words on purpose")]

pub mod five_tuple;
pub mod flow_hash;
pub mod flow_key;
pub mod hash;
pub mod keyed;
pub mod protocol;
#[cfg(feature = "proptest")]
pub mod strategies;

pub use five_tuple::FiveTuple;
pub use flow_hash::{FlowHash, FlowHasher, TableHash};
pub use flow_key::{Direction, FlowKey, IpFamily};
pub use keyed::{KeyedHasher, KeyedState};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
