//! A simulated cache of connection state that runs in parallel with a replay.

use flowloom::apps::{CacheProbe, ProbeCounts};
use flowloom::engine::App;
use flowloom::tcb_cache::{CacheSpec, Geometry, Policy};

use crate::exit::Failure;
use crate::render::replay::TcbCacheFigures;

/// The cache of each worker, and the destination of its counts.
#[derive(Clone)]
pub(super) struct Probe {
    spec: CacheSpec,
    counts: ProbeCounts,
}

impl Probe {
    /// Returns a probe with this size and policy, and the shape of the paper's cache.
    pub(super) fn new(bytes: u64, policy: Policy) -> Result<Self, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("--tcb-cache: {error}"));
        let paper = Geometry::PAPER;
        let geometry =
            Geometry::new(bytes, 64, paper.banks(), paper.ways()).map_err(|error| usage(&error))?;
        let spec = CacheSpec { geometry, ..CacheSpec::PAPER.with_policy(policy) };
        spec.build().map_err(|error| usage(&error))?;
        Ok(Self { spec, counts: ProbeCounts::default() })
    }

    /// Combines an application with a simulated cache.
    pub(super) fn beside<A: App>(&self, inner: A) -> CacheProbe<A> {
        let cache = self.spec.build().expect("the constructor has built one like it");
        CacheProbe::new(inner, cache, self.counts.clone())
    }

    /// Returns the counts of the caches so far.
    pub(super) fn figures(&self) -> TcbCacheFigures {
        let (counts, caches) = self.counts.total();
        TcbCacheFigures {
            bytes: self.spec.geometry.bytes(),
            policy: self.spec.policy.to_string(),
            hash: self.spec.index.to_string(),
            caches: caches as u64,
            accesses: counts.accesses,
            hits: counts.hits,
            auxiliary_hits: counts.auxiliary_hits,
            misses: counts.misses,
            miss_ratio: counts.miss_ratio(),
            evictions: counts.evictions,
            moves: counts.moves,
            closed: counts.closed,
        }
    }
}
