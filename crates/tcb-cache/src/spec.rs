//! A specification of a cache to be simulated.

use core::fmt;

use flowloom_flow_key::hash::h3::H3Error;

use crate::banked::access_count::AccessCount;
use crate::banked::drrip::Drrip;
use crate::banked::enru::Enru;
use crate::banked::fewer_on::FewerOn;
use crate::banked::fifo::Fifo;
use crate::banked::flow_lru::FlowLru;
use crate::banked::flow_lru_coarse::FlowLruCoarse;
use crate::banked::lru::Lru;
use crate::banked::own::{Own, ReplacementPolicy};
use crate::banked::round_robin::RoundRobin;
use crate::banked::ship::Ship;
use crate::banked::speculative::Speculative;
use crate::banked::srrip::Srrip;
use crate::banked::timestamp::Timestamp;
use crate::banked::zcache::Zcache;
use crate::banked::{Banked, Replacement};
use crate::fully_associative::arc::Arc;
use crate::fully_associative::clock::Clock;
use crate::fully_associative::fifo::FullFifo;
use crate::fully_associative::lirs::Lirs;
use crate::fully_associative::lru::FullLru;
use crate::fully_associative::one_queue::OneQueue;
use crate::fully_associative::s3_fifo::S3Fifo;
use crate::fully_associative::sieve::Sieve;
use crate::fully_associative::two_q::TwoQ;
use crate::fully_associative::w_tiny_lfu::WTinyLfu;
use crate::fully_associative::{Full, FullCache};
use crate::geometry::Geometry;
use crate::index::{IndexFunction, Indexing};
use crate::policy::Policy;
use crate::simulator::Simulator;

/// A cache: its shape, its index functions, its replacement policy.
///
/// # Examples
///
/// ```
/// use flowloom_tcb_cache::{Access, CacheSpec};
/// let mut cache = CacheSpec::PAPER.build()?;
/// let session = Access::session_key(0x0A00_0001, 1024);
/// cache.run(&[Access::new(session, 0), Access::new(session, 10)]);
/// assert_eq!((cache.counts().misses, cache.counts().hits), (1, 1));
/// # Ok::<(), flowloom_tcb_cache::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// Banks, sets and ways.
    pub geometry: Geometry,
    /// The index function, which determines the set of a session.
    pub index: IndexFunction,
    /// The replacement policy.
    pub policy: Policy,
    /// Whether the line of a session that ends is emptied immediately.
    pub drops_closed: bool,
    /// Seed of the matrices and random choices.
    pub seed: u64,
}

/// Why a cache cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// The index function cannot be drawn.
    Index(H3Error),
    /// The policy must know future accesses, which a [`Simulator`] does not.
    NeedsFuture {
        /// The policy.
        policy: Policy,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(error) => error.fmt(f),
            Self::NeedsFuture { policy } => {
                write!(f, "'{policy}' must know future accesses; simulate it over a whole trace")
            }
        }
    }
}

impl core::error::Error for SpecError {}

impl From<H3Error> for SpecError {
    fn from(error: H3Error) -> Self {
        Self::Index(error)
    }
}

impl CacheSpec {
    /// The cache that the paper recommends, TCB(spec).
    pub const PAPER: Self = Self {
        geometry: Geometry::PAPER,
        index: IndexFunction::PAPER,
        policy: Policy::Speculative { tie: crate::Tie::Left },
        drops_closed: false,
        seed: 1,
    };

    /// The paper's baseline, TCB(Mod): one bank of eight ways, low bits, LRU.
    pub const BASELINE: Self = Self {
        geometry: Geometry { banks: 1, ways: 8, ..Geometry::PAPER },
        index: IndexFunction::Modulo,
        policy: Policy::Lru,
        ..Self::PAPER
    };

    /// Returns the baseline with another size: the same sets, all ways in one bank, low bits, LRU.
    #[must_use]
    pub fn baseline(geometry: Geometry) -> Self {
        Self { geometry: geometry.single_bank(), ..Self::BASELINE }
    }

    /// Returns this cache with another policy.
    #[must_use]
    pub const fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Returns whether the cache empties the lines of sessions that end.
    #[must_use]
    pub const fn uses_closing(&self) -> bool {
        self.drops_closed || self.policy.always_drops_closed()
    }

    /// Returns the index functions.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError::Index`] if they cannot be drawn.
    pub fn indexing(&self) -> Result<Indexing, SpecError> {
        Ok(Indexing::new(self.index, self.geometry, self.seed)?)
    }

    /// Returns the empty cache. Takes about 100 bytes per line, and the tables of the index
    /// functions.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if the index function cannot be drawn, or the policy must know the
    /// future.
    pub fn build(&self) -> Result<Box<dyn Simulator>, SpecError> {
        let lines = self.geometry.lines() as usize;
        // Separate random streams for matrices and policies.
        let seed = self.seed ^ 0x5EED_C401_CE00_0000;
        match self.policy {
            Policy::Lru => self.banked(Lru),
            Policy::Fifo => self.banked(Fifo),
            Policy::Enru => self.banked(Enru::new(lines, seed)),
            Policy::RoundRobin => self.banked(RoundRobin::default()),
            Policy::AccessCount { counted } => {
                self.banked(AccessCount::new(counted, lines, self.geometry.ways() as usize))
            }
            Policy::Timestamp { bits } => self.banked(Timestamp::new(lines, bits, false)),
            Policy::TimestampDistance { bits } => self.banked(Timestamp::new(lines, bits, true)),
            Policy::NoMigrate { tie } => self.banked(FewerOn::new(tie)),
            Policy::Speculative { tie } => self.banked(Speculative::new(tie, seed)),
            Policy::Srrip => self.banked(Srrip::new(lines)),
            Policy::Drrip => self.banked(Drrip::new(lines)),
            Policy::Ship => self.banked(Ship::new(lines)),
            Policy::Zcache => self.banked(Zcache),
            Policy::FlowLru => self.banked(FlowLru),
            Policy::FlowLruCoarse => self.banked(FlowLruCoarse::new(lines)),
            Policy::FullLru => Ok(self.full(OneQueue::<FullLru>::new(lines))),
            Policy::FullFifo => Ok(self.full(OneQueue::<FullFifo>::new(lines))),
            Policy::Clock => Ok(self.full(OneQueue::<Clock>::new(lines))),
            Policy::Sieve => Ok(self.full(Sieve::new(lines))),
            Policy::S3Fifo => Ok(self.full(S3Fifo::new(lines))),
            Policy::Arc => Ok(self.full(Arc::new(lines))),
            Policy::TwoQ => Ok(self.full(TwoQ::new(lines))),
            Policy::Lirs => Ok(self.full(Lirs::new(lines))),
            Policy::WTinyLfu => Ok(self.full(WTinyLfu::new(lines))),
            policy @ (Policy::Min | Policy::GreedyOpt) => Err(SpecError::NeedsFuture { policy }),
        }
    }

    /// Returns the empty cache with a policy of another crate in place of [`policy`](Self::policy).
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] if the index function cannot be drawn.
    ///
    /// # Panics
    ///
    /// The cache panics if the policy chooses a line that is not a candidate.
    pub fn build_with(
        &self,
        policy: impl ReplacementPolicy + 'static,
    ) -> Result<Box<dyn Simulator>, SpecError> {
        // Whether lines of ended sessions are emptied must not depend on the policy that is
        // replaced.
        let own = Self { policy: Policy::Lru, ..*self };
        own.banked(Own::new(policy))
    }

    fn full<P: Full + 'static>(&self, policy: P) -> Box<dyn Simulator> {
        Box::new(FullCache::new(policy, self.uses_closing()))
    }

    /// Builds a cache with banks; common shapes have specialised loops.
    fn banked<R: Replacement + 'static>(&self, policy: R) -> Result<Box<dyn Simulator>, SpecError> {
        let (geometry, index, drops) = (self.geometry, self.indexing()?, self.uses_closing());
        Ok(match (geometry.banks(), geometry.ways()) {
            (2, 4) => Box::new(Banked::<R, 2, 4>::new(geometry, index, drops, policy)),
            (1, 8) => Box::new(Banked::<R, 1, 8>::new(geometry, index, drops, policy)),
            _ => Box::new(Banked::<R, 0, 0>::new(geometry, index, drops, policy)),
        })
    }
}
