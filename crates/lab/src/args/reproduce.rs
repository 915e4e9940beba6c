//! Arguments of `reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse;

/// Reproduce tables and figures of the papers, with a verdict on each.
///
/// The verdict on the paper is separate from the check of our own values against their bands. Only
/// the check determines the exit status. An item agrees only if it stops agreeing once the paper's
/// mechanism is switched off.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom reproduce list                      all items and the origin of their figures
  flowloom reproduce list dhash                the items of one paper
  flowloom reproduce dhash                     all items of one paper
  flowloom reproduce dhash/table5 --scale full one item, at the paper's sizes
  flowloom reproduce all --ablate              show which items notice a missing mechanism
  flowloom reproduce lfb --seeds 10 --sweep    with intervals, and over the open parameters
  flowloom reproduce all --save report         with report.html, JSON, CSV and SVG in a folder")]
pub struct Reproduce {
    /// A paper such as dhash, an item of a paper, or `all`; `list`, alone or with a paper, names
    /// items
    #[arg(required = true, value_name = "WHAT")]
    pub what: Vec<String>,

    /// Amount of work per item
    #[arg(long, value_enum, default_value_t = ScaleName::Quick, value_name = "SCALE")]
    pub scale: ScaleName,

    /// First of the random seeds
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse::whole::<u64>)]
    pub seed: u64,

    /// Run each item with this many seeds, for medians, intervals and a verdict over all of them
    /// [default: one to ten, by the cost of an item]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>)]
    pub seeds: Option<u32>,

    /// Run each item with each mechanism switched off and each fault planted, and list detected
    /// faults; an item with which some seeds agree runs without its mechanisms in any case
    #[arg(long)]
    pub ablate: bool,

    /// Run each item over the values of its paper's open parameters, and print where its verdict
    /// holds
    #[arg(long)]
    pub sweep: bool,

    /// Set a parameter that a paper leaves open; `list PAPER` shows the parameters of each item
    #[arg(long = "guess", value_name = "NAME=VALUE", value_parser = guess)]
    pub guesses: Vec<(String, f64)>,

    /// Folder with real captures, rules and logs [default: that of `FLOWLOOM_DATA`]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Write report.html, result.json, and CSV and SVG of every item into this folder
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
}

/// Reads an assumed parameter and its value.
fn guess(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    match value.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((name.trim().to_owned(), value)),
        _ => Err(format!("'{value}' is not a number")),
    }
}

/// Amount of work per item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScaleName {
    /// About a second per item: checks that it runs
    Smoke,
    /// Seconds per item: shows the shape
    Quick,
    /// The paper's sizes: takes minutes
    Full,
}
