//! The workshop: `cargo xtask tidy` checks the house rules, `cargo xtask ci` runs what CI runs, `cargo xtask bench`
//! takes the figures that are published.

mod bench;
mod ci;
mod emulate;
mod live;
mod loom;
mod mutants;
mod packages;
mod peers;
mod sanitize;
mod soak;
mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask <verb>

  tidy   check the rules that neither rustc nor clippy knows: floors, unsafe rooms, citations, sizes
  ci     run exactly what CI runs (.ci/run)
  loom   run the models of what threads tell each other
  bench  take the figures that docs/performance.md shows: bench replay [--help]
  peers  compare our parts with those of others: peers flow-table [--help]
  live   send packets through a pair of interfaces to replay --iface, and count them (as root)
  soak   run the engine for a billion packets, counters exact and memory flat: soak [--packets N]
  sanitize thread|address
         run the tests of the rooms with threads and unsafe code under a sanitizer (nightly)
  emulate aarch64|s390x
         run the tests of the lower rooms as another processor would, by QEMU: emulate --help
  mutants CRATE
         change a crate in seeded places and see whether its tests notice: mutants --help";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let root = root();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(&root),
        ["ci"] => ci::run(&root),
        ["live"] => live::run(&root),
        ["soak", ..] => soak::run(&root, &arguments[1..]),
        ["mutants", ..] => mutants::run(&root, &arguments[1..]),
        ["emulate", ..] => emulate::run(&root, &arguments[1..]),
        ["sanitize", ..] => sanitize::run(&root, &arguments[1..]),
        ["loom"] => loom::run(&root),
        ["peers", ..] => peers::run(&root, &arguments[1..]),
        ["bench", ..] => bench::run(&root, &arguments[1..]),
        [] | ["help" | "--help" | "-h"] => {
            eprintln!("{USAGE}");
            Ok(ExitCode::from(u8::from(arguments.is_empty()) * 2))
        }
        _ => bail!("unknown verb '{}'\n{USAGE}", arguments.join(" ")),
    }
}

/// Returns the root of the workspace, from where this package lies in it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
