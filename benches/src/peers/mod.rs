//! Rivals that implement the traits of the comparison, in one file each. None of them is ever in a
//! user's dependency tree.

pub mod allocated;
#[cfg(has_flat_maps)]
pub mod flat_maps;
pub mod flowscope;
pub mod maps;
#[cfg(has_dpdk)]
pub mod rte_acl;
#[cfg(has_dpdk)]
pub mod rte_hash;
pub mod shared;
#[cfg(has_vectorscan)]
pub mod vectorscan;
