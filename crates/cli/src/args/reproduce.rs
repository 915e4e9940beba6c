//! Arguments of `reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse;

/// Run tables and figures of the papers again, with a verdict on each.
///
/// Two results are kept apart: the verdict on the paper (agrees, differs, cannot run), and a check
/// of our own values against our own bands. Only the second one decides the exit status.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom reproduce list                      every item, and how its figures come about
  flowloom reproduce list dhash                those of one paper
  flowloom reproduce dhash                     all items of one paper
  flowloom reproduce dhash/table5 --scale full one item, at the paper's sizes
  flowloom reproduce all --save report         with report.html, JSON, CSV and SVG in a folder")]
pub(crate) struct Reproduce {
    /// A paper, an item of one, `all`, or `list`: of all or of what else is named
    #[arg(required = true, value_name = "WHAT")]
    pub(crate) what: Vec<String>,

    /// How much work each item does
    #[arg(long, value_enum, default_value_t = ScaleName::Quick, value_name = "SCALE")]
    pub(crate) scale: ScaleName,

    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    /// Folder of real captures, rules and logs; `FLOWLOOM_DATA` where it is not given
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Write report.html, result.json, and CSV and SVG of every item into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
}

/// How much work each item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScaleName {
    /// A second an item: does it run
    Smoke,
    /// Seconds an item: the shape
    Quick,
    /// The paper's sizes: minutes
    Full,
}
