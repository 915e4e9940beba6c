//! What the processor offers. Knows the machine and nothing of networks.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod crc32c;
pub mod prefetch;
