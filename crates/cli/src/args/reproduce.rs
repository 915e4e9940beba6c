//! Arguments of `reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse;

/// Run tables and figures of the papers again, with a verdict on each.
///
/// Two results are kept apart: the verdict on the paper, and a check of our own values against our
/// own bands. Only the second one decides the exit status. An item agrees only if it does not agree
/// with the paper's mechanism switched off just as well.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom reproduce list                      every item, and how its figures come about
  flowloom reproduce list dhash                those of one paper
  flowloom reproduce dhash                     all items of one paper
  flowloom reproduce dhash/table5 --scale full one item, at the paper's sizes
  flowloom reproduce all --ablate              which item notices that its mechanism is missing
  flowloom reproduce lfb --seeds 10 --sweep    with intervals, and over what the slides leave open
  flowloom reproduce all --save report         with report.html, JSON, CSV and SVG in a folder")]
pub(crate) struct Reproduce {
    /// A paper, an item of one, `all`, or `list`: of all or of what else is named
    #[arg(required = true, value_name = "WHAT")]
    pub(crate) what: Vec<String>,

    /// How much work each item does
    #[arg(long, value_enum, default_value_t = ScaleName::Quick, value_name = "SCALE")]
    pub(crate) scale: ScaleName,

    /// The first seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    /// Run each item with this many seeds: medians, intervals, and a verdict on all of them; one to
    /// ten if not given, by what an item costs
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>)]
    pub(crate) seeds: Option<u32>,

    /// Run every item with each of its mechanisms switched off and each fault planted, and print
    /// what it notices
    #[arg(long)]
    pub(crate) ablate: bool,

    /// Run every item over the values of what its paper leaves open, and print where its verdict
    /// holds
    #[arg(long)]
    pub(crate) sweep: bool,

    /// Set something that a paper leaves open; `list` names what each item has
    #[arg(long = "guess", value_name = "NAME=VALUE", value_parser = guess)]
    pub(crate) guesses: Vec<(String, f64)>,

    /// Folder of real captures, rules and logs; `FLOWLOOM_DATA` where it is not given
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Write report.html, result.json, and CSV and SVG of every item into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
}

/// Reads a guess and its value.
fn guess(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("it is written NAME=VALUE")?;
    match value.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok((name.trim().to_owned(), value)),
        _ => Err(format!("'{value}' is not a number of 0 or more")),
    }
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
