//! The scanner, which is built once and shared by all workers, and the few bytes of state per
//! stream.

use crate::builtin::IMAGE as BUILTIN_IMAGE;
use crate::compile::{self, Budget, Checked, GROUPS_MAX, PATTERNS_MAX, Spent};
use crate::condition::{HEAD_BYTES, Payload, Truth};
use crate::error::BuildError;
use crate::pattern::{Match, Origin, Pattern, PatternId, Transport};
use crate::signature::{Rule, Signature, signatures};
use crate::table::{NONE, START, Table};

/// The scan state of a stream: one automaton state per group, the first bytes, and the number of
/// bytes so far.
///
/// The default is the state of an empty stream. A state is valid only for the scanner and the
/// transport that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanState {
    groups: [u16; GROUPS_MAX],
    head: [u8; HEAD_BYTES],
    bytes: u32,
}

impl Default for ScanState {
    fn default() -> Self {
        Self { groups: [START; GROUPS_MAX], head: [0; HEAD_BYTES], bytes: 0 }
    }
}

impl ScanState {
    /// Returns the number of bytes of the stream so far; the count saturates.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Counts bytes of the stream and keeps the first ones, without scanning them.
    #[inline]
    pub fn count(&mut self, bytes: &[u8]) {
        let known = self.bytes as usize;
        if known < HEAD_BYTES {
            let more = bytes.len().min(HEAD_BYTES - known);
            self.head[known..known + more].copy_from_slice(&bytes[..more]);
        }
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    }

    fn payload(&self, missing_bytes: u32) -> Payload<'_> {
        let bytes = &self.head[..HEAD_BYTES.min(self.bytes as usize)];
        let total_bytes = u64::from(self.bytes) + u64::from(missing_bytes);
        Payload { bytes, total_bytes, stream: true }
    }
}

/// The result of the pieces of one packet so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchState(u16);

impl Default for MatchState {
    fn default() -> Self {
        Self(NONE)
    }
}

/// The result for a stream after some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This pattern matches, and no pattern of higher priority does.
    Matched(Match),
    /// No pattern matches yet.
    Open,
    /// No pattern matches, and none can match later.
    Closed,
}

/// Searches for all patterns at once, and reads each byte of a stream once.
///
/// A scanner is immutable, and threads can share it. A scan allocates no memory.
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
/// let Outcome::Matched(found) = outcome else { panic!() };
/// assert_eq!(scanner.name(found.pattern), "ssh");
/// # Ok::<(), flowloom_dpi::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Scanner {
    names: Vec<Box<str>>,
    rules: Vec<Rule>,
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
    /// Groups per transport, TCP first.
    pub groups: [usize; 2],
    /// Number of states in all groups.
    pub states: usize,
    /// Size of all tables in bytes.
    pub bytes: usize,
}

impl Scanner {
    /// Builds a scanner within the default budget. The order of the patterns is their priority.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] that names the invalid or too large pattern, or the exceeded limit.
    pub fn new(patterns: &[Pattern]) -> Result<Self, BuildError> {
        Self::with_budget(patterns, Budget::default())
    }

    /// Builds a scanner within a budget.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    pub fn with_budget(patterns: &[Pattern], budget: Budget) -> Result<Self, BuildError> {
        // The tables of the builtin patterns were made with the default budget.
        if budget == Budget::default()
            && let Ok(scanner) = Self::from_image(patterns, BUILTIN_IMAGE)
        {
            return Ok(scanner);
        }
        Self::compile(patterns, budget)
    }

    pub(crate) fn groups(&self) -> &[Vec<Table>; 2] {
        &self.groups
    }

    /// Compiles patterns within a budget.
    pub(crate) fn compile(patterns: &[Pattern], budget: Budget) -> Result<Self, BuildError> {
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
        let signatures = signatures(patterns)?;
        let checked: Vec<Checked<'_>> = (0..)
            .zip(&signatures)
            .map(|(id, signature)| compile::check(id, signature, &mut spent))
            .collect::<Result<_, _>>()?;
        let mut groups = [Vec::new(), Vec::new()];
        for transport in Transport::ALL {
            let tables = &mut groups[transport as usize];
            let (mut rest, mut kinds): (Vec<Checked<'_>>, Vec<Vec<Checked<'_>>>) = (Vec::new(), Vec::new());
            rest.extend(
                checked
                    .iter()
                    .filter(|checked| checked.signature.transports.has(transport))
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
            // The best patterns first: after a match, the other groups may not need to scan the
            // packet.
            tables.sort_by_key(|table| table.first);
        }
        Ok(Self::from_tables(patterns, signatures, groups))
    }

    pub(crate) fn from_tables(
        patterns: &[Pattern],
        signatures: Vec<Signature>,
        groups: [Vec<Table>; 2],
    ) -> Self {
        let names = patterns.iter().map(|pattern| pattern.name.clone().into_boxed_str()).collect();
        let rules = signatures.into_iter().map(|signature| signature.rule).collect();
        Self { names, rules, groups }
    }

    /// Scans the next bytes of a stream, after those that `state` has seen. Either end may have
    /// sent them. Conditions are evaluated as for a stream; for a datagram, use
    /// [`scan_datagram`](Self::scan_datagram).
    ///
    /// The answer concerns all bytes so far and treats the end of `bytes` as the end of the input,
    /// like a search of the whole. After a match, the stream is decided, and the results of later
    /// calls for it are meaningless.
    ///
    /// # Panics
    ///
    /// Panics if the state is out of range, which can happen with a state of another scanner. If
    /// such a state is in range, the answer is meaningless.
    #[inline]
    pub fn scan(&self, transport: Transport, state: &mut ScanState, bytes: &[u8]) -> Outcome {
        let mut found = MatchState::default();
        self.feed(transport, state, &mut found, bytes);
        self.outcome(transport, state, found, Origin::UNKNOWN, 0)
    }

    /// Scans one of several pieces that arrive together; after the last one,
    /// [`outcome`](Self::outcome) returns the result.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`scan`](Self::scan).
    #[inline]
    pub fn feed(&self, transport: Transport, state: &mut ScanState, found: &mut MatchState, bytes: &[u8]) {
        state.count(bytes);
        for (table, at) in self.groups[transport as usize].iter().zip(&mut state.groups) {
            if table.first < found.0 {
                *at = table.scan(*at, bytes, &mut found.0);
            }
        }
    }

    /// Returns the result, of the pieces that led to `found` and of a known origin, if the input
    /// ends here. The capture has truncated `missing_bytes` bytes after the pieces. These count
    /// towards the sizes of records.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`scan`](Self::scan).
    #[inline]
    pub fn outcome(
        &self,
        transport: Transport,
        state: &ScanState,
        found: MatchState,
        origin: Origin,
        missing_bytes: u32,
    ) -> Outcome {
        let mut best = found.0;
        let mut open = false;
        let mut asks = false;
        let tables = &self.groups[transport as usize];
        for (table, &at) in tables.iter().zip(&state.groups) {
            best = best.min(table.at_end(at));
            asks |= !table.candidates(at).is_empty();
            open |= !table.is_over(at);
        }
        if asks {
            let candidates = tables.iter().zip(&state.groups).map(|(table, &at)| table.candidates(at));
            let (checked, waits) = self.check(candidates, best, &state.payload(missing_bytes), origin);
            best = checked;
            open |= waits;
        }
        match self.rules.get(usize::from(best)) {
            Some(rule) => Outcome::Matched(rule.found),
            None if open => Outcome::Open,
            None => Outcome::Closed,
        }
    }

    /// Checks conditions. Returns the best pattern, and whether a condition of a better one waits
    /// for bytes.
    #[cold]
    fn check<'a>(
        &self,
        candidates: impl Iterator<Item = &'a [u16]>,
        best: u16,
        payload: &Payload<'_>,
        origin: Origin,
    ) -> (u16, bool) {
        let (mut best, mut waits) = (best, false);
        for list in candidates {
            for &id in list.iter().take_while(|&&id| id < best) {
                match self.rules[usize::from(id)].check(payload, origin) {
                    Truth::Holds => {
                        best = id;
                        break;
                    }
                    Truth::Fails => {}
                    Truth::Unknown => waits = true,
                }
            }
        }
        (best, waits)
    }

    /// Scans a buffer without earlier bytes: the beginning of a stream, or a datagram. Either end
    /// may have sent it.
    #[inline]
    pub fn scan_whole(&self, transport: Transport, bytes: &[u8]) -> Option<Match> {
        let head = &bytes[..bytes.len().min(HEAD_BYTES)];
        let total_bytes = bytes.len() as u64;
        let payload = match transport {
            Transport::Tcp => Payload { bytes: head, total_bytes, stream: true },
            Transport::Udp => Payload { bytes, total_bytes, stream: false },
        };
        self.whole(transport, bytes, &payload, Origin::UNKNOWN)
    }

    /// Scans a datagram of a known origin, which the capture may have truncated from `wire_bytes`
    /// bytes.
    #[inline]
    pub fn scan_datagram(&self, bytes: &[u8], wire_bytes: usize, origin: Origin) -> Option<Match> {
        let payload = Payload { bytes, total_bytes: wire_bytes as u64, stream: false };
        self.whole(Transport::Udp, bytes, &payload, origin)
    }

    #[inline]
    fn whole(
        &self,
        transport: Transport,
        bytes: &[u8],
        payload: &Payload<'_>,
        origin: Origin,
    ) -> Option<Match> {
        let mut best = NONE;
        for table in &self.groups[transport as usize] {
            if table.first < best {
                let at = table.scan(START, bytes, &mut best);
                best = best.min(table.at_end(at));
                let candidates = table.candidates(at);
                if !candidates.is_empty() {
                    best = self.check([candidates].into_iter(), best, payload, origin).0;
                }
            }
        }
        self.rules.get(usize::from(best)).map(|rule| rule.found)
    }

    /// Returns a pattern's name.
    ///
    /// # Panics
    ///
    /// Panics if the id belongs to another scanner and is out of range.
    #[must_use]
    pub fn name(&self, id: PatternId) -> &str {
        let Some(name) = self.names.get(id.index()) else {
            panic!("{id} belongs to another scanner: this one has {} patterns", self.names.len());
        };
        name
    }

    /// Returns all names, in order of priority.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Returns the size of the scanner.
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
    #[should_panic(expected = "pattern 7 belongs to another scanner: this one has 1 patterns")]
    fn pattern_of_another_scanner_panics_with_a_message() {
        let _ = Scanner::new(&[Pattern::new("one", "^1")]).unwrap().name(PatternId(7));
    }
}
