//! `cargo xtask loom`: the models of what threads tell each other, under every interleaving that loom finds.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// What is modelled: package, and the arguments that pick its models.
const MODELS: [(&str, &[&str]); 2] =
    [("flowloom-scheduler", &["--test", "loom"]), ("flowloom-engine", &["--lib", "runtime::loom"])];

/// Runs the models, in a folder of their own: the flag makes everything compile anew.
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
            .context("cargo cannot be run")?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
