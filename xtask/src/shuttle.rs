//! `cargo xtask shuttle`: random histories of the table that threads share, in random orders.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask shuttle [--histories N]

  Runs N histories (default 10,000) of the concurrent flow table. shuttle draws the operations and the order
  of all their steps, and each history is checked against a sequential model. A million take some minutes.";

/// Runs the histories in a separate target directory, because the flag recompiles everything.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let histories = match arguments {
        [] => 10_000,
        [option, number] if option == "--histories" => {
            let number: u32 =
                number.parse().with_context(|| format!("--histories takes a number, not '{number}'"))?;
            number.max(2)
        }
        _ => bail!("shuttle does not take '{}'\n{USAGE}", arguments.join(" ")),
    };
    let mut command = Command::new("cargo");
    command
        .args(["test", "--locked", "--package", "flowloom-flow-table", "--features", "concurrent"])
        .args(["--test", "shuttle"])
        .env("RUSTFLAGS", "--cfg shuttle")
        // It warns of atomics whose orderings it makes stronger.
        .env("SHUTTLE_SILENCE_WARNINGS", "1")
        .env("FLOWLOOM_HISTORIES", histories.to_string())
        .env("CARGO_TARGET_DIR", root.join("target/shuttle"))
        .current_dir(root);
    let status = command.args(["--", "--show-output"]).status().context("cannot run cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_refused() {
        let words = ["--histories", "many"].map(str::to_owned);
        let error = run(Path::new("."), &words).unwrap_err();
        assert_eq!(error.to_string(), "--histories takes a number, not 'many'");
    }
}
