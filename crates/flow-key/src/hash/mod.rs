//! All hash functions of the project.
//!
//! | function | keyed | for |
//! | --- | --- | --- |
//! | [`fold`] | yes | whatever meets traffic: the default |
//! | [`crc32`] | no | the CRC unit of a network processor [FLOWNP §4.1]; files |
//! | [`crc32c`] | no | the SSE4.2 instruction [DHASH §III-B] |
//! | [`fnv1a`], [`jenkins`] | no | what [FLOWNP §4.1] compares with the CRC |
//! | [`hrw`] | no | the weight of a worker for a flow [HRWTREE §3.1] |
//! | [`h3`] | drawn | the banks of a simulated cache [TCBCACHE §3.2] |
//! | [`index`] | no | the sets of simulated caches [TCBCACHE §2.3] |
//!
//! CRCs are linear: an attacker can build any number of keys with the same CRC, for any seed. They
//! serve the papers' modes.

pub mod crc32;
pub mod crc32c;
pub mod fnv1a;
pub mod fold;
pub mod h3;
pub mod hrw;
pub mod index;
pub mod jenkins;
