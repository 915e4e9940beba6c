//! `cargo xtask sanitize`: runs the tests of crates with threads or unsafe code under a sanitizer.
//!
//! It needs nightly with `rust-src`, because the standard library must be built with the sanitizer
//! too; otherwise its locks and channels would be reported as races. C code of dependencies (zstd
//! in `traffic`) is not instrumented.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{is_help, packages, show};

const USAGE: &str = "usage: cargo xtask sanitize thread|address [PACKAGE…] [-- TEST OPTIONS]

  thread    ThreadSanitizer: unsynchronised accesses
  address   AddressSanitizer, with leaks: accesses out of bounds and after free

  Without packages: flowloom-engine, flowloom-traffic, flowloom-classifier, flowloom-flow-table, flowloom-cpu.";

/// Packages to test by default.
const PACKAGES: [&str; 5] =
    ["flowloom-engine", "flowloom-traffic", "flowloom-classifier", "flowloom-flow-table", "flowloom-cpu"];

/// Tests that are meaningless under a sanitizer: one measures resident memory, which includes the
/// sanitizer's shadow memory; one reads three megabytes byte by byte, which takes a quarter of an
/// hour; and one expects the end of a run within a tenth of a second.
const SKIPPED: [&str; 3] = [
    "untouched_memory_is_not_resident",
    "a_record_longer_than_the_buffer_is_read_whole",
    "a_panic_ends_a_run_at_once_whatever_is_still_to_come",
];

/// The target triple for which the standard library is built; a sanitizer needs an explicit one.
const TARGETS: [(&str, &str); 2] =
    [("x86_64", "x86_64-unknown-linux-gnu"), ("aarch64", "aarch64-unknown-linux-gnu")];

/// Runs the tests under the sanitizer with the given name.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let sanitizer = match arguments.first().map(String::as_str) {
        _ if is_help(arguments) => return Ok(show(USAGE, arguments)),
        Some(name @ ("thread" | "address")) => name,
        Some(name) if !name.starts_with('-') => {
            bail!("unknown sanitizer '{name}'\n{USAGE}")
        }
        _ => return Ok(show(USAGE, arguments)),
    };
    let target = TARGETS
        .iter()
        .find(|(arch, _)| *arch == std::env::consts::ARCH)
        .map(|(_, target)| *target)
        .context("sanitizers run only on x86-64 and 64-bit ARM Linux")?;
    let (packages, mut options) = packages::split(&arguments[1..], &PACKAGES);
    let mut command = Command::new("cargo");
    command
        // Removes the toolchain of this program, which cargo would inherit.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .arg("+nightly")
        .args(["test", "-Zbuild-std", "--target", target, "--lib", "--tests", "--no-fail-fast"])
        .arg("--target-dir")
        .arg(root.join("target").join(format!("sanitize-{sanitizer}")))
        // Sanitizers do not see non-temporal stores; this setting replaces them with plain ones.
        .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer} --cfg sanitized"))
        // Everything is ten times slower, so each property runs fewer cases.
        .env("PROPTEST_CASES", "24")
        .env("TSAN_OPTIONS", "halt_on_error=1")
        .current_dir(root);
    options.extend(SKIPPED.iter().flat_map(|test| ["--skip", test]));
    packages::run(&mut command, &packages, &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_sanitizers_are_refused() {
        let error = run(Path::new("."), &[String::from("memory")]).unwrap_err();
        assert!(error.to_string().contains("unknown sanitizer 'memory'"));
    }
}
