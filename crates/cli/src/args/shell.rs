//! `flowloom completions` and `flowloom man`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Man {
    /// Directory for flowloom.1, flowloom-replay.1 and the other pages
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
