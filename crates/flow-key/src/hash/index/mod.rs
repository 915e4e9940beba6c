//! Functions that map a key to a set of a cache [TCBCACHE §2.3].
//!
//! | function | rule | sets |
//! | --- | --- | --- |
//! | [`modulo`] | key mod sets | powers of two |
//! | [`xor_fold`] | (key ⊕ key ≫ r) mod sets | powers of two |
//! | [`skew_xor`] | index ⊕ rotated tag slice, another rotation a bank | powers of two |
//! | [`prime_modulo`] | key mod the largest prime that fits | any |
//! | [`prime_displacement`] | (key + prime · tag) mod sets | powers of two |
//! | [`crc_slice`] | r bits of the CRC-32 of the six bytes | powers of two |
//!
//! A key is `address << 16 | port`, 48 bits; r is log₂ of the number of sets, and the tag is key ≫
//! r. The H₃ class is in [`h3`](super::h3). None is keyed. They model hardware and serve simulated
//! caches only.

pub mod crc_slice;
pub mod modulo;
pub mod prime_displacement;
pub mod prime_modulo;
pub mod skew_xor;
pub mod xor_fold;
