//! `cargo xtask soak`: a very long run, watched.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::bench::build;

/// Builds the soak and hands over.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let program = build(root, &["-p", "flowloom-benches", "--bin", "soak"])?;
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("{} cannot be run", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
