//! The data that all workers share: the scanner, the names, the limits, and the totals.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_dpi::reference::Rescanner;
use flowloom_dpi::stream::Window;
use flowloom_dpi::{Budget, BuildError, Pattern, PatternId, Scanner};

use super::L7Filter;
use super::names::{NAMES_MAX, Name, intern};
use super::pool::Pool;

/// How the filter scans a connection.
///
/// Any version may add fields, so end a literal with `..L7Options::default()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L7Options {
    /// Maximum number of data packets scanned per connection, both directions together.
    pub packets_max: u32,
    /// Maximum number of bytes scanned per direction or datagram.
    pub bytes_max: usize,
    /// Search the whole buffer again for every pattern at every packet, as the paper does.
    pub rescan: bool,
    /// Maximum distance of data ahead of a gap, in bytes; a power of two.
    pub window_bytes: usize,
    /// Maximum number of windows of all workers together.
    pub windows_max: usize,
    /// Maximum number of buffers of all workers together, for rescans.
    pub buffers_max: usize,
    /// Limits of building the scanner.
    pub budget: Budget,
}

impl Default for L7Options {
    fn default() -> Self {
        Self {
            packets_max: 8,
            bytes_max: 16 << 10,
            rescan: false,
            window_bytes: 16 << 10,
            windows_max: 2048,
            buffers_max: 16 << 10,
            budget: Budget::default(),
        }
    }
}

/// The reason why a plan cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum L7Error {
    /// The patterns cannot be compiled into a scanner.
    Build(BuildError),
    /// The program has loaded too many different names of patterns.
    TooManyNames {
        /// The maximum number of names.
        names_max: usize,
    },
    /// The pattern's `answer` names a pattern outside the set.
    UnknownAnswer {
        /// The pattern's name.
        name: String,
        /// The other's name.
        answer: String,
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
                "this program has loaded {names_max} different names of patterns, the maximum for its \
                 lifetime\n  restart it"
            ),
            Self::UnknownAnswer { name, answer } => write!(
                f,
                "'answer = {answer}' of the pattern {name} names a pattern that is not loaded\n  load \
                 its file too, or remove the name"
            ),
        }
    }
}

impl std::error::Error for L7Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            Self::TooManyNames { .. } | Self::UnknownAnswer { .. } => None,
        }
    }
}

/// The workers' counts that do not belong to flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct L7Totals {
    /// Bytes passed to the scanner or to rescans.
    pub scanned_bytes: u64,
    /// Windows and buffers reclaimed from the oldest holder because all were in use.
    pub reclaimed: u64,
    /// Directions that returned to a window or buffer that they had lost. They stay unidentified.
    pub lost: u64,
}

/// The pools that all workers share.
#[derive(Debug)]
pub(super) struct Loans {
    pub(super) windows: Pool<Window>,
    pub(super) buffers: Pool<Vec<u8>>,
}

/// The properties of a pattern that a label needs.
#[derive(Debug)]
pub(super) struct Protocol {
    pub(super) name: Name,
    pub(super) ports: Box<[u16]>,
    pub(super) strict: bool,
    /// The names of the other patterns that are valid answers to it.
    answers: Box<[Name]>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scanner: Scanner,
    pub(super) rescanner: Option<Rescanner>,
    protocols: Vec<Protocol>,
    pub(super) options: L7Options,
    totals: Mutex<L7Totals>,
    loans: Mutex<Loans>,
}

impl Shared {
    pub(super) fn loans(&self) -> MutexGuard<'_, Loans> {
        // After a panic a window may contain half a segment. The run is ending.
        self.loans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the properties of a pattern that a label needs.
    pub(super) fn protocol(&self, id: PatternId) -> &Protocol {
        &self.protocols[id.index()]
    }

    /// Returns whether one pattern is a valid answer to another.
    pub(super) fn is_in_kind(&self, asked: PatternId, answered: PatternId) -> bool {
        let (asked, answered) = (self.protocol(asked), self.protocol(answered));
        let is = |name: &Name| std::ptr::eq(*name, answered.name);
        is(&asked.name) || asked.answers.iter().any(is)
    }

    pub(super) fn add(&self, more: L7Totals) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.scanned_bytes += more.scanned_bytes;
        totals.lost += more.lost;
    }
}

fn protocols(patterns: &[Pattern]) -> Result<Vec<Protocol>, L7Error> {
    let known = |name: &str| intern(name).ok_or(L7Error::TooManyNames { names_max: NAMES_MAX });
    let names: BTreeSet<&str> = patterns.iter().map(|pattern| pattern.name.as_str()).collect();
    let signature = |pattern: &Pattern| {
        let answers = pattern.answers.iter().map(|answer| {
            if !names.contains(answer.as_str()) {
                let (name, answer) = (pattern.name.clone(), answer.clone());
                return Err(L7Error::UnknownAnswer { name, answer });
            }
            known(answer)
        });
        Ok(Protocol {
            name: known(&pattern.name)?,
            ports: pattern.ports.clone().into_boxed_slice(),
            strict: pattern.strict,
            answers: answers.collect::<Result<_, _>>()?,
        })
    };
    patterns.iter().map(signature).collect()
}

/// The patterns and limits of a run. Build it once and create each worker's application from it.
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
    /// Builds the scanner, and one expression per pattern if the plan is to rescan.
    ///
    /// # Errors
    ///
    /// Returns [`L7Error`] when the patterns cannot be compiled.
    pub fn new(patterns: &[Pattern], options: L7Options) -> Result<Self, L7Error> {
        let scanner = Scanner::with_budget(patterns, options.budget)?;
        let rescanner = if options.rescan { Some(Rescanner::new(patterns)?) } else { None };
        let protocols = protocols(patterns)?;
        let loans = Mutex::new(Loans {
            windows: Pool::new(options.windows_max),
            buffers: Pool::new(if options.rescan { options.buffers_max } else { 0 }),
        });
        Ok(Self(Arc::new(Shared {
            scanner,
            rescanner,
            protocols,
            options,
            totals: Mutex::default(),
            loans,
        })))
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

    /// Returns the largest memory of the scanner, the windows and the buffers, in bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let options = &self.0.options;
        let buffers =
            if options.rescan { options.buffers_max.saturating_mul(options.bytes_max) } else { 0 };
        self.0.scanner.size().bytes
            + options.windows_max.saturating_mul(options.window_bytes * 9 / 8)
            + buffers
    }

    /// Returns the sum over all applications that have been dropped.
    #[must_use]
    pub fn totals(&self) -> L7Totals {
        let totals = *self.0.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let loans = self.0.loans();
        L7Totals { reclaimed: loans.windows.reclaimed() + loans.buffers.reclaimed(), ..totals }
    }
}
