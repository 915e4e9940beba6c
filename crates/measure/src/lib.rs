//! Compares variants of a program, and reports the results without bias.
//!
//! Two runs of a program on one machine give different times from one minute to the next. Therefore
//! variants run in turn, round by round ([`Rounds`]); their answers are compared before their
//! times; times are processor times of the thread if possible ([`clock`]); and the result is the
//! ratio within a round, with an interval that makes no assumptions about the noise ([`stats`]). If
//! the interval contains 1, the text states that no difference was shown.
//!
//! ```
//! use flowloom_measure::{Rounds, rows::RatioRow};
//!
//! let outcome = Rounds::new(9)
//!     .variant("ours", || (1..=1000_u64).sum::<u64>())
//!     .variant("loop", || (1..=1000_u64).fold(0, |sum, n| std::hint::black_box(sum + n)))
//!     .run()?;
//! let row = RatioRow::new("sum", 1000, &outcome.samples[1], &outcome.samples[0]);
//! assert_eq!((row.rival.as_str(), row.rounds), ("loop", 9));
//! # Ok::<(), flowloom_measure::RoundsError>(())
//! ```

#[cfg(not(unix))]
compile_error!(
    "flowloom-measure needs the processor times of Unix systems: flowloom-measure, flowloom-repro and \
     the flowloom command build on Linux, macOS and the BSDs"
);

pub mod change;
pub mod chart;
pub mod clock;
pub mod cpu_distance;
pub mod distances;
pub mod host;
pub mod lookup;
pub mod page;
pub mod path;
pub mod rounds;
pub mod rows;
pub mod sharing;
pub mod stats;
pub mod text;

pub use flowloom_engine as engine;
pub use flowloom_traffic as traffic;

pub use clock::{Elapsed, Stopwatch};
pub use host::Host;
pub use rounds::{Lap, Outcome, Rounds, RoundsError, Samples};
pub use rows::{LatencyRow, RatioRow, Report, ResultRow};
pub use stats::{ChangeVerdict, Ratio, Summary};
