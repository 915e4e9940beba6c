//! `cargo xtask loom`: runs the models of data that threads share, with every interleaving that
//! loom explores.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Packages with models, and the arguments that select their models.
const MODELS: [(&str, &[&str]); 4] = [
    ("flowloom-scheduler", &["--test", "loom"]),
    ("flowloom-flow-table", &["--features", "concurrent", "--test", "loom"]),
    ("flowloom-engine", &["--lib", "runtime::loom"]),
    ("flowloom-io", &["--lib", "ring::models"]),
];

/// Runs the models in a separate target directory, because the flag recompiles everything.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    for (package, arguments) in MODELS {
        let status = Command::new("cargo")
            .args(["test", "--locked", "--package", package])
            .args(arguments)
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", "3")
            .env("CARGO_TARGET_DIR", root.join("target/loom"))
            .current_dir(root)
            .status()
            .context("cannot run cargo")?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
