//! `cargo xtask soak`: runs the engine for a very long time and monitors its memory.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::bench::build;
use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask soak [--packets N] [--flows N] [--round N]

  --packets   packets of the whole run [1000000000]
  --flows     flows of the generated mixture [20000]
  --round     packets of the mixture, which the run repeats [400000]";

/// Builds the soak test and runs it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let program = build(root, &["-p", "flowloom-benches", "--bin", "soak"])?;
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("{} cannot be run", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
