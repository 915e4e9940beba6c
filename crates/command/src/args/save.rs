//! Saving a result with its charts.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Failure;
use crate::output_folder::OutputFolder;

/// The folder of a result.
#[derive(Clone, Debug, Args)]
pub struct Save {
    /// Write report.html with charts, result.json, and a CSV and an SVG file per chart into this
    /// folder
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub save: Option<PathBuf>,
}

impl Save {
    /// Opens the folder before the run, so that errors appear early.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::Output`] if the folder cannot be written.
    pub fn open(&self) -> Result<Option<OutputFolder>, Failure> {
        self.save.as_deref().map(OutputFolder::open).transpose()
    }
}
