//! `cargo xtask emulate`: runs tests for another processor on this one.
//!
//! 64-bit ARM has its own back ends (NEON), and s390x has the other byte order. QEMU's user mode
//! runs the tests as programs of this machine. It keeps this machine's memory order, so it cannot
//! detect races.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::{is_help, packages, show};

const USAGE: &str = "usage: cargo xtask emulate aarch64|s390x [PACKAGE…] [-- TEST OPTIONS]

  aarch64   64-bit ARM: the NEON back ends
  s390x     the other byte order

  Needs QEMU's user mode, a C compiler and libraries for that processor (Debian: qemu-user gcc-aarch64-linux-gnu
  libc6-dev-arm64-cross, or gcc-s390x-linux-gnu libc6-dev-s390x-cross) and Rust's (rustup target add
  aarch64-unknown-linux-gnu, or s390x-unknown-linux-gnu).
  Without packages: the crates below the engine that depend on byte order or instruction sets.";

/// Packages to test by default.
const PACKAGES: [&str; 7] = [
    "flowloom-cpu",
    "flowloom-flow-key",
    "flowloom-packet",
    "flowloom-flow-table",
    "flowloom-classifier",
    "flowloom-rules",
    "flowloom-dpi",
];

/// Runs the tests for the given processor.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let processor = match arguments.first().map(String::as_str) {
        _ if is_help(arguments) => return Ok(show(USAGE, arguments)),
        Some(name @ ("aarch64" | "s390x")) => name,
        Some(name) if !name.starts_with('-') => {
            bail!("unknown processor '{name}'\n{USAGE}")
        }
        _ => return Ok(show(USAGE, arguments)),
    };
    let target = format!("{processor}-unknown-linux-gnu");
    let variable = |name: &str| format!("CARGO_TARGET_{}_{name}", target.to_uppercase().replace('-', "_"));
    let (packages, options) = packages::split(&arguments[1..], &PACKAGES);
    let mut command = Command::new("cargo");
    command
        .env(variable("LINKER"), format!("{processor}-linux-gnu-gcc"))
        .env(variable("RUNNER"), format!("qemu-{processor} -L /usr/{processor}-linux-gnu"))
        .args([
            "test",
            "--locked",
            "--all-features",
            "--lib",
            "--tests",
            "--no-fail-fast",
            "--target",
            &target,
        ])
        .current_dir(root);
    packages::run(&mut command, &packages, &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_processors_are_refused() {
        let error = run(Path::new("."), &[String::from("vax")]).unwrap_err();
        assert!(error.to_string().contains("unknown processor 'vax'"));
    }
}
