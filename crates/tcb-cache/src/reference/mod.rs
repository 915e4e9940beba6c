//! Simple versions of the simulated caches, for comparison with the fast ones: slow, but easy to
//! verify.

mod banked;
mod full;
mod future;

pub use banked::ReferenceCache;
pub use future::misses_of_min;

use crate::fully_associative::FullCache;
use crate::policy::Policy;
use crate::simulator::Simulator;
use crate::spec::{CacheSpec, SpecError};

/// Returns the simple version of [`CacheSpec::build`]'s cache.
///
/// # Errors
///
/// Returns the same errors as [`CacheSpec::build`].
pub fn build(spec: &CacheSpec) -> Result<Box<dyn Simulator>, SpecError> {
    let lines = spec.geometry.lines() as usize;
    let ends = spec.uses_closing();
    Ok(match spec.policy {
        Policy::FullLru => Box::new(FullCache::new(full::Lru::new(lines), ends)),
        Policy::FullFifo => Box::new(FullCache::new(full::Fifo::new(lines), ends)),
        Policy::Clock => Box::new(FullCache::new(full::Clock::new(lines), ends)),
        Policy::Sieve => Box::new(FullCache::new(full::Sieve::new(lines), ends)),
        Policy::S3Fifo => Box::new(FullCache::new(full::S3Fifo::new(lines), ends)),
        Policy::Arc => Box::new(FullCache::new(full::Arc::new(lines), ends)),
        Policy::TwoQ => Box::new(FullCache::new(full::TwoQ::new(lines), ends)),
        Policy::Lirs => Box::new(FullCache::new(full::Lirs::new(lines), ends)),
        Policy::WTinyLfu => Box::new(FullCache::new(full::WTinyLfu::new(lines), ends)),
        _ => Box::new(ReferenceCache::new(spec)?),
    })
}
