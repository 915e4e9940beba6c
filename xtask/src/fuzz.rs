//! `cargo xtask fuzz`: builds a fuzz target with nightly Rust alone, and runs it.
//!
//! The compiler inserts the coverage counters, and `libfuzzer-sys` brings the fuzzer, so cargo-fuzz
//! is not necessary.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask fuzz TARGET [--plain] [-- LIBFUZZER OPTIONS]

  TARGET    a file of fuzz/fuzz_targets without its ending, such as decode
  --plain   without AddressSanitizer: twice as fast, and enough for code without unsafe

  The corpus is target/fuzz/corpus/TARGET, and an input that fails is kept in target/fuzz/failed.
  Without options the fuzzer runs until it is interrupted; -max_total_time=60 ends it after a minute.";

/// The coverage instrumentation that libFuzzer reads.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cdebug-assertions=on \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Builds and runs a target.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) || arguments.is_empty() {
        return Ok(show(USAGE, arguments));
    }
    let (mine, options) = match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    let (name, plain) = match mine {
        [name] => (name, false),
        [name, plain] if plain == "--plain" => (name, true),
        _ => bail!("name one target\n{USAGE}"),
    };
    if !root.join("fuzz/fuzz_targets").join(name).with_extension("rs").is_file() {
        bail!("unknown target '{name}'\n  fuzz/fuzz_targets has one file for each");
    }
    // With an explicit target the flags do not apply to build scripts.
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = root.join("target/fuzz");
    let built = folder.join(if plain { "plain" } else { "address" });
    let sanitizer = if plain { "" } else { " -Zsanitizer=address" };
    let status = Command::new("cargo")
        // Removes the toolchain of this program, which cargo would inherit.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .args(["+nightly", "build", "--release", "--locked", "--bin", name, "--target", &triple])
        .arg("--target-dir")
        .arg(&built)
        .env("RUSTFLAGS", format!("{COVERAGE}{sanitizer}"))
        .current_dir(root.join("fuzz"))
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    let (corpus, failed) = (folder.join("corpus").join(name), folder.join("failed"));
    for folder in [&corpus, &failed] {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let program = built.join(&triple).join("release").join(name);
    let status = Command::new(&program)
        .arg(format!("-artifact_prefix={}/{name}-", failed.display()))
        .args(options)
        .arg(&corpus)
        .status()
        .with_context(|| format!("{} cannot be run", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_targets_and_options_are_refused() {
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            run(&crate::root(), &words).unwrap_err().to_string()
        };
        assert!(refused(&["weather"]).contains("unknown target 'weather'"));
        assert!(refused(&["decode", "--fast"]).contains("name one target"));
        assert!(refused(&["--", "-runs=1"]).contains("name one target"));
    }
}
