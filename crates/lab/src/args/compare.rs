//! Arguments of `compare`.

use std::path::PathBuf;

use clap::Args;

use crate::args::parse;
use crate::args::save::Save;

/// Compare two saved results of `flowloom bench`, to find what became slower, or of
/// `flowloom reproduce`.
///
/// Rows are matched by variant, work and size. A change appears only if the intervals of the two
/// medians do not overlap: the two runs are not interleaved, and the speed of a machine varies over
/// minutes.
///
/// Two results of `flowloom reproduce` are compared by verdict and by value. The exit status is 1
/// if a verdict differs.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom bench table --save before            then change something, and
  flowloom bench table --save after
  flowloom compare before/result.json after/result.json --fail-above 5
  flowloom compare before after --save changes        with report.html and a chart")]
pub struct Compare {
    /// The baseline result as JSON: a file, or a folder written by --save
    #[arg(value_name = "BASE")]
    pub base: PathBuf,

    /// The new result, likewise
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    /// Exit with 1 if a median is slower by more than this percentage
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent)]
    pub fail_above: Option<f64>,

    /// Also compare results of different machines or instruction sets
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub save: Save,
}
