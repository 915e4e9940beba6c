//! `cargo xtask cuts`: checks that results do not depend on how threads divide an input.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::bench::build;
use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask cuts [--cuts N] [--seed S] [--captures PATH]

  Compares the results of one thread with those of a pipeline and of 2 to 16 workers that exchange chunks of a
  random size in a random schedule, on generated captures and, every second time, on given ones.

  --cuts      minimum number of cuts between two chunks [2000000, about 20 seconds]
  --seed      of the first case; each case has the next one [1]
  --captures  a capture or a directory of captures [$FLOWLOOM_DATA; none if not set]";

/// Builds the check and runs it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let program = build(root, &["-p", "flowloom-benches", "--bin", "cuts"])?;
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("{} cannot be run", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
