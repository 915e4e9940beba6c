//! `cargo xtask ci`: exactly what CI runs, because it is what CI runs.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Runs `.ci/run` at the root and passes its success on.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let script = root.join(".ci/run");
    let status = Command::new("bash")
        .arg(&script)
        .current_dir(root)
        .status()
        .with_context(|| format!("bash cannot run {}", script.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
