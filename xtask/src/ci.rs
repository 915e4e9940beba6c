//! `cargo xtask ci`: runs the script that CI runs.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Runs `.ci/run` at the root and returns its status.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let script = root.join(".ci/run");
    let status = Command::new("bash")
        .arg(&script)
        .current_dir(root)
        .status()
        .with_context(|| format!("bash cannot run {}", script.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
