//! Runs of tests under other conditions: all interleavings, random schedules, sanitizers, other
//! processors. Each has a target directory of its own, because its flags recompile everything.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::program;

/// Packages, and the arguments that select their models for loom.
const MODELS: [(&str, &[&str]); 4] = [
    ("flowloom-scheduler", &["--test", "loom"]),
    ("flowloom-flow-table", &["--features", "concurrent", "--test", "loom"]),
    ("flowloom-engine", &["--lib", "runtime::loom"]),
    ("flowloom-io", &["--lib", "ring::models"]),
];

/// Tests that are meaningless under a sanitizer: one measures resident memory, which includes the
/// sanitizer's shadow memory; one reads three megabytes byte by byte, which takes a quarter of an
/// hour; and one expects the end of a run within a tenth of a second.
const NOT_SANITIZED: [&str; 3] = [
    "untouched_memory_is_not_resident",
    "a_record_longer_than_the_buffer_is_read_whole",
    "panic_ends_a_run_without_reading_further_input",
];

/// Checks one crate as CI does, and prints how long each step takes.
pub(crate) fn check(root: &Path, name: &str) -> Result<ExitCode> {
    let name = name.strip_prefix("flowloom-").unwrap_or(name);
    // The facade has no prefix.
    let package = if name == "flowloom" { name.to_owned() } else { format!("flowloom-{name}") };
    let lints = ["--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    let steps = [("fmt", vec!["--check"]), ("clippy", lints.to_vec()), ("test", vec!["--locked"])];
    for (command, options) in steps {
        let begun = Instant::now();
        let status = Command::new("cargo")
            .args([command, "--package", &package])
            .args(options)
            .current_dir(root)
            .status()
            .context("cargo cannot be run")?;
        eprintln!("{command}: {:.1} s", begun.elapsed().as_secs_f64());
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sanitizer {
    /// Unsynchronised accesses.
    Thread,
    /// Accesses out of bounds and after free, and leaks.
    Address,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Processor {
    /// 64-bit ARM: the NEON back ends.
    Aarch64,
    /// The other byte order.
    S390x,
}

#[derive(Debug, Args)]
pub(crate) struct Sanitize {
    sanitizer: Sanitizer,
    #[arg(value_name = "PACKAGE", default_values = ["flowloom-engine", "flowloom-traffic",
        "flowloom-classifier", "flowloom-flow-table", "flowloom-cpu"])]
    packages: Vec<String>,
    /// Options of the test programs.
    #[arg(last = true)]
    options: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Emulate {
    processor: Processor,
    #[arg(value_name = "PACKAGE", default_values = ["flowloom-cpu", "flowloom-flow-key", "flowloom-packet",
        "flowloom-flow-table", "flowloom-classifier", "flowloom-rules", "flowloom-dpi"])]
    packages: Vec<String>,
    /// Options of the test programs.
    #[arg(last = true)]
    options: Vec<String>,
}

fn cargo_test(root: &Path, target: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).env("CARGO_TARGET_DIR", root.join("target").join(target));
    command
}

fn succeeds(command: &mut Command) -> Result<ExitCode> {
    eprintln!("{command:?}");
    program::succeeds(command).map(program::exit_code)
}

fn packages(command: &mut Command, packages: &[String], options: &[String]) -> Result<ExitCode> {
    command.args(packages.iter().flat_map(|package| ["-p", package.as_str()]));
    succeeds(command.arg("--").args(options))
}

/// Runs the models of data that threads share, with every interleaving that loom explores.
pub(crate) fn loom(root: &Path) -> Result<ExitCode> {
    for (package, arguments) in MODELS {
        let mut command = cargo_test(root, "loom");
        command.args(["test", "--locked", "--package", package]).args(arguments);
        command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", "3");
        ensure!(succeeds(&mut command)? == ExitCode::SUCCESS, "a model of {package} fails");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs random histories of the table that threads share.
pub(crate) fn shuttle(root: &Path, histories: u32) -> Result<ExitCode> {
    let mut command = cargo_test(root, "shuttle");
    command.args(["test", "--locked", "--package", "flowloom-flow-table", "--features", "concurrent"]);
    command.args(["--test", "shuttle", "--", "--show-output"]).env("RUSTFLAGS", "--cfg shuttle");
    // It warns of atomics whose orderings it makes stronger.
    command.env("SHUTTLE_SILENCE_WARNINGS", "1").env("FLOWLOOM_HISTORIES", histories.max(2).to_string());
    succeeds(&mut command)
}

/// Runs tests under a sanitizer. The standard library is built with it too; otherwise its locks and
/// channels would be reported as races. C code of dependencies is not instrumented.
pub(crate) fn sanitize(root: &Path, arguments: Sanitize) -> Result<ExitCode> {
    let sanitizer = match arguments.sanitizer {
        Sanitizer::Thread => "thread",
        Sanitizer::Address => "address",
    };
    let mut command = cargo_test(root, &format!("sanitize-{sanitizer}"));
    // Removes the toolchain of this program, which cargo would inherit.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").args(["+nightly", "test", "-Zbuild-std"]);
    command.args(["--lib", "--tests", "--no-fail-fast", "--target"]);
    command.arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
    // Sanitizers do not see non-temporal stores; this setting replaces them with plain ones.
    command.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer} --cfg sanitized"));
    // Everything is ten times slower, so each property runs fewer cases.
    command.env("PROPTEST_CASES", "24").env("TSAN_OPTIONS", "halt_on_error=1");
    let mut options = arguments.options;
    options.extend(NOT_SANITIZED.iter().flat_map(|test| [String::from("--skip"), (*test).to_owned()]));
    packages(&mut command, &arguments.packages, &options)
}

/// Runs tests for another processor, by QEMU's user mode. It keeps this machine's memory order, so
/// it cannot detect races.
pub(crate) fn emulate(root: &Path, arguments: &Emulate) -> Result<ExitCode> {
    let processor = match arguments.processor {
        Processor::Aarch64 => "aarch64",
        Processor::S390x => "s390x",
    };
    let target = format!("{processor}-unknown-linux-gnu");
    let variable = |name: &str| format!("CARGO_TARGET_{}_{name}", target.to_uppercase().replace('-', "_"));
    let mut command = Command::new("cargo");
    command.current_dir(root).env(variable("LINKER"), format!("{processor}-linux-gnu-gcc"));
    command.env(variable("RUNNER"), format!("qemu-{processor} -L /usr/{processor}-linux-gnu"));
    command.args(["test", "--locked", "--all-features", "--lib", "--tests", "--no-fail-fast"]);
    packages(command.args(["--target", &target]), &arguments.packages, &arguments.options)
}
