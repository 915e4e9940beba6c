//! Access to processor features. The crate is independent of networking.
//!
//! | module | what |
//! | --- | --- |
//! | [`features`] | instruction sets, detected once; a value of [`features::Avx512`] is proof |
//! | [`prefetch`] | a hint that a line will be read |
//! | [`stream`] | memory that is written for another CPU, past the caches of this one |
//! | [`mod@crc32c`] | the CRC-32C of a byte string, by instruction or by table |
//! | [`pages`] | zeroed memory that costs nothing until it is touched, huge pages |
//! | `counter` | the time stamp counter of x86-64, where it ticks at one rate |
//! | `topology` | which CPUs this process may use, and how they are related |
//! | `memory` | how many bytes the machine still has |
//! | `exhaustion` | an exit status for a process whose memory is exhausted |
//!
//! # Features
//!
//! * `std` (default): detection at run time, huge pages, `counter`, `topology`, `memory` and
//!   `exhaustion`. Without it, the crate is `no_std` with `alloc`, and uses the features that it
//!   was compiled for.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "std", test)), no_std)]

extern crate alloc;

#[cfg(feature = "std")]
pub mod counter;
pub mod crc32c;
#[cfg(all(feature = "std", unix))]
pub mod exhaustion;
pub mod features;
#[cfg(feature = "std")]
pub mod memory;
pub mod pages;
pub mod prefetch;
pub mod stream;
#[cfg(all(test, feature = "std", not(miri)))]
mod system_files;
#[cfg(feature = "std")]
pub mod topology;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
