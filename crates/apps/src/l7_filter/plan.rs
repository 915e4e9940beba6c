//! What all workers share: the scanner, the names, the limits; and what they counted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_dpi::reference::Rescanner;
use flowloom_dpi::{Budget, BuildError, Pattern, Scanner};

use super::L7Filter;
use super::names::intern;

/// How a connection is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L7Options {
    /// Data packets of a connection that are looked at, both directions together.
    pub packets_max: u32,
    /// Bytes of a direction, or of a datagram, that are looked at.
    pub bytes_max: usize,
    /// Search the whole buffer again for every pattern at every packet, as the paper does.
    pub rescan: bool,
    /// How far ahead data may come, in bytes; a power of two.
    pub window_bytes: usize,
    /// Windows of one worker.
    pub windows_max: usize,
    /// Buffers of one worker when it rescans.
    pub buffers_max: usize,
    /// What building the scanner may take.
    pub budget: Budget,
}

impl Default for L7Options {
    fn default() -> Self {
        Self {
            packets_max: 8,
            bytes_max: 16 << 10,
            rescan: false,
            window_bytes: 16 << 10,
            windows_max: 512,
            buffers_max: 4096,
            budget: Budget::default(),
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum L7Error {
    /// The patterns make no scanner.
    Build(BuildError),
    /// This program has seen too many names of patterns.
    TooManyNames {
        /// How many it keeps.
        names_max: usize,
    },
}

impl From<BuildError> for L7Error {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl fmt::Display for L7Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::TooManyNames { names_max } => write!(
                f,
                "this program has loaded {names_max} different names of patterns, and keeps each until it ends\n  start it anew"
            ),
        }
    }
}

impl std::error::Error for L7Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            Self::TooManyNames { .. } => None,
        }
    }
}

/// What the workers counted, beside what stands in the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L7Totals {
    /// Bytes that the scanner, or each rescan, was given.
    pub scanned_bytes: u64,
    /// Windows and buffers taken back because all were taken, the one that was taken first.
    pub taken_back: u64,
    /// Directions that came back to a window or buffer that they had lost, and stay unnamed.
    pub lost: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scanner: Scanner,
    pub(super) rescanner: Option<Rescanner>,
    pub(super) names: Vec<&'static str>,
    pub(super) options: L7Options,
    totals: Mutex<L7Totals>,
}

impl Shared {
    pub(super) fn add(&self, more: L7Totals) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.scanned_bytes += more.scanned_bytes;
        totals.taken_back += more.taken_back;
        totals.lost += more.lost;
    }
}

/// The patterns and limits of a run, built once; every worker's application comes from it.
///
/// # Examples
///
/// ```
/// use flowloom_apps::{L7Options, L7Plan};
/// use flowloom_dpi::Pattern;
///
/// let plan = L7Plan::new(&[Pattern::new("ssh", "^SSH-2")], L7Options::default())?;
/// let _worker = plan.app();
/// # Ok::<(), flowloom_apps::L7Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct L7Plan(Arc<Shared>);

impl L7Plan {
    /// Builds the scanner, and the expressions one by one when it is to rescan.
    ///
    /// # Errors
    ///
    /// [`L7Error`] when the patterns make no scanner.
    pub fn new(patterns: &[Pattern], options: L7Options) -> Result<Self, L7Error> {
        let scanner = Scanner::with_budget(patterns, options.budget)?;
        let rescanner = if options.rescan { Some(Rescanner::new(patterns)?) } else { None };
        let names = patterns.iter().map(|pattern| intern(&pattern.name)).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Shared { scanner, rescanner, names, options, totals: Mutex::default() })))
    }

    /// Returns an application for one worker.
    #[must_use]
    pub fn app(&self) -> L7Filter {
        L7Filter::new(Arc::clone(&self.0))
    }

    /// Returns the scanner.
    #[must_use]
    pub fn scanner(&self) -> &Scanner {
        &self.0.scanner
    }

    /// Returns the sum over all applications that have been dropped.
    #[must_use]
    pub fn totals(&self) -> L7Totals {
        *self.0.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
