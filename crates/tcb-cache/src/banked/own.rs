//! A replacement policy from outside this crate, in a cache of banks, sets and ways.

use super::cache::Replacement;
use super::miss::Miss;

/// A line that a miss may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Number of the line in the cache, below [`Geometry::lines`](crate::Geometry::lines).
    pub line: usize,
    /// The bank that the line is in.
    pub bank: usize,
    /// The session in the line; `None` if the line is empty.
    pub key: Option<u64>,
    /// When the session was last used: greater is later, and 0 is an empty line.
    pub last_use: u64,
    /// Whether the session is in its active period [TCBCACHE §3.3].
    pub is_on: bool,
}

/// Chooses the line that a miss fills.
///
/// [`CacheSpec::build_with`](crate::CacheSpec::build_with) puts a policy into a cache.
///
/// # Examples
///
/// ```
/// use flowloom_tcb_cache::{Access, CacheSpec, Candidate, ReplacementPolicy};
///
/// /// Evicts the session that was used last.
/// #[derive(Debug)]
/// struct MostRecent;
///
/// impl ReplacementPolicy for MostRecent {
///     fn choose(&mut self, _key: u64, candidates: &[Candidate]) -> usize {
///         let empty = candidates.iter().position(|candidate| candidate.key.is_none());
///         let newest = || (0..candidates.len()).max_by_key(|&at| candidates[at].last_use);
///         empty.or_else(newest).unwrap_or(0)
///     }
/// }
///
/// let mut cache = CacheSpec::BASELINE.build_with(MostRecent)?;
/// // Eight ways of one set; the ninth session takes the line of the eighth.
/// let accesses: Vec<Access> = (0..9).map(|n| Access::new(n << 16, n)).collect();
/// cache.run(&accesses);
/// assert!(cache.resident().contains(&0) && !cache.resident().contains(&(7 << 16)));
/// # Ok::<(), flowloom_tcb_cache::SpecError>(())
/// ```
pub trait ReplacementPolicy: core::fmt::Debug + Send {
    /// Returns the place, among the candidates, of the line that a session is put into. They are
    /// the ways of one set in each bank, bank by bank, empty ones included.
    fn choose(&mut self, key: u64, candidates: &[Candidate]) -> usize;

    /// Records a hit in a line.
    fn hit(&mut self, _line: usize) {}

    /// Records that a line was emptied because its session ended. It is called only in caches that
    /// set `drops_closed`, which those of Fig. 14 are not.
    fn closed(&mut self, _line: usize) {}
}

/// Makes a policy from outside one of this crate.
#[derive(Debug)]
pub(crate) struct Own<P> {
    policy: P,
    /// Kept to avoid allocations.
    candidates: Vec<Candidate>,
}

impl<P> Own<P> {
    pub(crate) fn new(policy: P) -> Self {
        Self { policy, candidates: Vec::with_capacity(64) }
    }
}

impl<P: ReplacementPolicy> Replacement for Own<P> {
    fn hit(&mut self, line: usize) {
        self.policy.hit(line);
    }

    fn closed(&mut self, line: usize) {
        self.policy.closed(line);
    }

    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        self.candidates.clear();
        for bank in 0..miss.lines.banks() {
            let base = miss.base(bank);
            self.candidates.extend((base..base + miss.lines.ways()).map(|line| Candidate {
                line,
                bank,
                key: (!miss.lines.is_empty(line)).then(|| miss.lines.keys[line]),
                last_use: miss.lines.ages[line],
                is_on: miss.is_on(line),
            }));
        }
        let choice = self.policy.choose(miss.key, &self.candidates);
        let count = self.candidates.len();
        assert!(choice < count, "a policy chose candidate {choice} of {count}");
        self.candidates[choice].line
    }
}
