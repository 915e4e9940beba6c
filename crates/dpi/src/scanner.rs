//! The scanner: built once, shared by all workers, and a few bytes of state for each stream.

use crate::compile::{self, Budget, Checked, GROUPS_MAX, PATTERNS_MAX, Spent};
use crate::error::BuildError;
use crate::pattern::{Pattern, PatternId, Transport};
use crate::table::{DEAD, NONE, START, Table};

/// The scan state of a stream: one automaton state per group.
///
/// The default is the state of an empty stream. A state belongs to the scanner and the transport
/// that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanState([u16; GROUPS_MAX]);

impl Default for ScanState {
    fn default() -> Self {
        Self([START; GROUPS_MAX])
    }
}

impl ScanState {
    /// The state of a stream that no pattern can match any more.
    pub const OVER: Self = Self([DEAD; GROUPS_MAX]);
}

/// The result of the pieces of one packet so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(u16);

impl Default for Found {
    fn default() -> Self {
        Self(NONE)
    }
}

/// The result for a stream after some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This pattern matches, and none of higher priority does.
    Matched(PatternId),
    /// None matches yet.
    Open,
    /// None matches, and none can, whatever follows.
    Closed,
}

/// Looks for all patterns at once, each byte of a stream once.
///
/// A scanner is immutable and threads can share it; a scan allocates nothing.
///
/// # Examples
///
/// ```
/// use flowloom_dpi::{Outcome, ScanState, Scanner, Transport, builtin};
///
/// let scanner = Scanner::new(&builtin())?;
/// let mut state = ScanState::default();
/// // A request cut in the middle of its first word.
/// assert_eq!(scanner.scan(Transport::Tcp, &mut state, b"SSH-2."), Outcome::Open);
/// let outcome = scanner.scan(Transport::Tcp, &mut state, b"0-client\r\n");
/// let Outcome::Matched(id) = outcome else { panic!() };
/// assert_eq!(scanner.name(id), "ssh");
/// # Ok::<(), flowloom_dpi::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Scanner {
    names: Vec<Box<str>>,
    groups: [Vec<Table>; 2],
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner")
            .field("patterns", &self.names.len())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

/// The size of a scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Size {
    /// Groups of each transport, TCP first.
    pub groups: [usize; 2],
    /// States of all groups.
    pub states: usize,
    /// Bytes of all tables.
    pub bytes: usize,
}

impl Scanner {
    /// Builds a scanner within the default budget; the patterns' order is their priority.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the pattern that is invalid or too large, or the limit that the whole
    /// exceeds.
    pub fn new(patterns: &[Pattern]) -> Result<Self, BuildError> {
        Self::with_budget(patterns, Budget::default())
    }

    /// Builds a scanner within a budget.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_budget(patterns: &[Pattern], budget: Budget) -> Result<Self, BuildError> {
        if patterns.is_empty() {
            return Err(BuildError::NoPatterns);
        }
        if patterns.len() > PATTERNS_MAX {
            return Err(BuildError::TooManyPatterns {
                patterns: patterns.len(),
                patterns_max: PATTERNS_MAX,
            });
        }
        let mut spent = Spent::nothing_of(budget);
        let checked: Vec<Checked<'_>> = (0..)
            .zip(patterns)
            .map(|(id, pattern)| compile::check(id, pattern, &mut spent))
            .collect::<Result<_, _>>()?;
        let mut groups = [Vec::new(), Vec::new()];
        for transport in Transport::ALL {
            let tables = &mut groups[transport as usize];
            let (mut rest, mut kinds): (Vec<Checked<'_>>, Vec<Vec<Checked<'_>>>) = (Vec::new(), Vec::new());
            rest.extend(
                checked
                    .iter()
                    .filter(|checked| checked.pattern.transports.has(transport))
                    .map(|checked| Checked { ..*checked }),
            );
            while let Some(first) = rest.first() {
                let kind = (first.anchored, first.skips_zero());
                let (same, others) =
                    rest.into_iter().partition(|other| (other.anchored, other.skips_zero()) == kind);
                kinds.push(same);
                rest = others;
            }
            for kind in &kinds {
                compile::tables(kind, &mut spent, tables)?;
            }
            // The best patterns first: a match there may spare the other groups the packet.
            tables.sort_by_key(|table| table.first);
        }
        let names = patterns.iter().map(|pattern| pattern.name.clone().into_boxed_str()).collect();
        Ok(Self { names, groups })
    }

    /// Scans the bytes of a stream that follow those that `state` has seen.
    ///
    /// The answer concerns all bytes so far and takes the end of `bytes` for the end of the input,
    /// as a search of the whole would. Once a pattern has matched, the stream is decided: results
    /// of later calls for it are meaningless.
    ///
    /// # Panics
    ///
    /// If the state is out of range, which a state of another scanner may be; if it is in range,
    /// the answer is meaningless.
    #[inline]
    pub fn scan(&self, transport: Transport, state: &mut ScanState, bytes: &[u8]) -> Outcome {
        let mut found = Found::default();
        self.feed(transport, state, &mut found, bytes);
        self.outcome(transport, state, found)
    }

    /// Scans one of several pieces that arrive together; [`outcome`](Self::outcome) returns the
    /// result after the last.
    ///
    /// # Panics
    ///
    /// As [`scan`](Self::scan).
    #[inline]
    pub fn feed(&self, transport: Transport, state: &mut ScanState, found: &mut Found, bytes: &[u8]) {
        for (table, at) in self.groups[transport as usize].iter().zip(&mut state.0) {
            if table.first < found.0 {
                *at = table.scan(*at, bytes, &mut found.0);
            }
        }
    }

    /// Returns the result if the input ends here, after the pieces that left `found`.
    ///
    /// # Panics
    ///
    /// As [`scan`](Self::scan).
    #[inline]
    pub fn outcome(&self, transport: Transport, state: &ScanState, found: Found) -> Outcome {
        let mut best = found.0;
        let mut open = false;
        for (table, &at) in self.groups[transport as usize].iter().zip(&state.0) {
            best = best.min(table.at_end(at));
            open |= at != DEAD;
        }
        match best {
            NONE if open => Outcome::Open,
            NONE => Outcome::Closed,
            id => Outcome::Matched(PatternId(id)),
        }
    }

    /// Scans a datagram, which has no earlier bytes.
    #[inline]
    pub fn scan_whole(&self, transport: Transport, bytes: &[u8]) -> Option<PatternId> {
        let mut best = NONE;
        for table in &self.groups[transport as usize] {
            if table.first < best {
                let at = table.scan(START, bytes, &mut best);
                best = best.min(table.at_end(at));
            }
        }
        (best != NONE).then_some(PatternId(best))
    }

    /// Returns a pattern's name.
    ///
    /// # Panics
    ///
    /// If the id is another scanner's and out of range.
    #[must_use]
    pub fn name(&self, id: PatternId) -> &str {
        let Some(name) = self.names.get(id.index()) else {
            panic!("{id} is of another scanner: this one has {}", self.names.len());
        };
        name
    }

    /// Returns all names, in the order of priority.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Returns how large it came out.
    #[must_use]
    pub fn size(&self) -> Size {
        let all = || self.groups.iter().flatten();
        Size {
            groups: [self.groups[0].len(), self.groups[1].len()],
            states: all().map(Table::states).sum(),
            bytes: all().map(Table::bytes).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "pattern 7 is of another scanner: this one has 1")]
    fn the_name_of_another_scanners_pattern_is_refused_in_words() {
        let _ = Scanner::new(&[Pattern::new("one", "^1")]).unwrap().name(PatternId(7));
    }
}
