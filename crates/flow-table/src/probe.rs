//! Counting, as a type parameter: [`NoProbe`] compiles to nothing.

/// Receives the steps of a lookup. Every method does nothing by default.
pub trait Probe {
    /// A stored signature was compared with the wanted one.
    #[inline(always)]
    fn comparison(&mut self) {}

    /// Signatures were equal but keys were not.
    #[inline(always)]
    fn false_match(&mut self) {}

    /// A cache line was read: a bucket, a state or a list element.
    #[inline(always)]
    fn line(&mut self) {}

    /// An element of a conflict list was visited.
    #[inline(always)]
    fn list_step(&mut self) {}

    /// The first slot that the lookup compared contained the flow.
    #[inline(always)]
    fn first_hit(&mut self) {}

    /// The lookup ended.
    #[inline(always)]
    fn done(&mut self, found: bool) {
        let _ = found;
    }
}

/// Counts nothing, at no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NoProbe;

impl Probe for NoProbe {}

/// Sums over lookups: the measures of [DHASH Tab. IV] and [DHASH Tab. V].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Lookups that found a flow.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Signatures compared.
    pub comparisons: u64,
    /// Equal signatures with different keys.
    pub false_matches: u64,
    /// Cache lines read.
    pub lines: u64,
    /// Elements of conflict lists visited.
    pub list_steps: u64,
    /// Hits at the first slot compared.
    pub first_hits: u64,
}

impl Counts {
    /// Returns the sums of two counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            comparisons: self.comparisons + other.comparisons,
            false_matches: self.false_matches + other.false_matches,
            lines: self.lines + other.lines,
            list_steps: self.list_steps + other.list_steps,
            first_hits: self.first_hits + other.first_hits,
        }
    }
}

impl Probe for Counts {
    fn comparison(&mut self) {
        self.comparisons += 1;
    }

    fn false_match(&mut self) {
        self.false_matches += 1;
    }

    fn line(&mut self) {
        self.lines += 1;
    }

    fn list_step(&mut self) {
        self.list_steps += 1;
    }

    fn first_hit(&mut self) {
        self.first_hits += 1;
    }

    fn done(&mut self, found: bool) {
        if found {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }
}
