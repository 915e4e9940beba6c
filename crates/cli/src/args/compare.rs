//! Arguments of `compare`.

use std::path::PathBuf;

use clap::Args;

use crate::args::parse;

/// Compare two saved results of `flowloom bench`, what became slower, or of `flowloom reproduce`.
///
/// Rows are matched by variant, work and size. A change is shown only where the intervals of the
/// two medians leave no doubt: two runs are not interleaved, and machines differ from themselves
/// between two minutes.
///
/// Two results of `flowloom reproduce` are compared by verdict and by value; the command ends with
/// status 1 if a verdict differs.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom bench table --save before            then change something, and
  flowloom bench table --save after
  flowloom compare before/result.json after/result.json --fail-above 5")]
pub(crate) struct Compare {
    /// The result to compare with, as JSON: a file, or the folder of --save
    #[arg(value_name = "BASE")]
    pub(crate) base: PathBuf,

    /// The result that is looked at, likewise
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    /// End with status 1 if a median is shown to be slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent)]
    pub(crate) fail_above: Option<f64>,

    /// Compare results of different machines or instruction sets too
    #[arg(long)]
    pub(crate) force: bool,
}
