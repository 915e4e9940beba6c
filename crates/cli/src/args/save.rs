//! Where a result is kept, with its pictures.

use std::path::PathBuf;

use clap::Args;

/// The folder of a result.
#[derive(Clone, Debug, Args)]
pub(crate) struct Save {
    /// Write report.html with pictures, result.json, and CSV and SVG of each picture into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub(crate) save: Option<PathBuf>,
}
