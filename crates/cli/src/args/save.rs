//! Where a result is kept, with its pictures.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Failure;
use crate::output::OutputFolder;

/// The folder of a result.
#[derive(Clone, Debug, Args)]
pub(crate) struct Save {
    /// Write report.html with pictures, result.json, and CSV and SVG of each picture into this
    /// folder
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub(crate) save: Option<PathBuf>,
}

impl Save {
    /// Opens the folder before the work whose result it is for.
    ///
    /// # Errors
    ///
    /// [`Failure::Output`] where nothing can be written there.
    pub(crate) fn open(&self) -> Result<Option<OutputFolder>, Failure> {
        self.save.as_deref().map(OutputFolder::open).transpose()
    }
}
