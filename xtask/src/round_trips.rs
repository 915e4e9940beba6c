//! `cargo xtask round-trips`: records in every format, read by other programs.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cluster::environment;
use crate::corpus::collect;
use crate::program::{debug_command, exit_code, finish, succeeds};

/// Reads records of generated captures, and of all captures below the folders, with pandas,
/// pyarrow, DuckDB, the package netflow, and nfcapd with nfdump: sums and all fields must be the
/// run's own. Then compares flows with NFStream. The packages come from PyPI into
/// target/round-trips, nfdump from Debian; what cannot be had is named and left out.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    folders: Vec<PathBuf>,
    /// Instead of a build in the dev profile.
    #[arg(long)]
    flowloom: Option<PathBuf>,
    /// Makes the virtual environment.
    #[arg(long, default_value = "python3")]
    python: String,
    #[arg(long)]
    no_nfstream: bool,
}

/// What reads records.
const READERS: [&str; 4] = ["pyarrow>=18", "duckdb>=2", "pandas>=2", "netflow>=0.12,<1"];
const NFSTREAM: &str = "nfstream>=6.5,<7";
/// Options of the generated captures.
const GENERATED: [&[&str]; 3] = [
    &["--flows", "300", "--packets", "6000", "--seed", "1", "--rate", "1000"],
    &["--flows", "2k", "--packets", "6000", "--seed", "2", "--v6", "50%", "--vlan", "30%", "--rate", "200"],
    &[
        "--flows", "1k", "--packets", "5000", "--seed", "3", "--zipf", "0", "--syn-flood", "400", "--rate",
        "500",
    ],
];

/// Generates captures, installs the readers, and runs both comparisons.
pub(crate) fn run(root: &Path, options: Options) -> Result<ExitCode> {
    let Options { folders, flowloom: program, python, no_nfstream } = options;
    let with_nfstream = !no_nfstream;
    let mut captures = Vec::new();
    for folder in &folders {
        collect(folder, &mut captures)?;
    }
    captures.sort();
    let program = if let Some(program) = program { program } else { debug_command(root)? };
    let folder = root.join("target/round-trips");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let interpreter = match environment(&folder, &python, &READERS) {
        Ok(interpreter) => interpreter,
        Err(error) => {
            println!("left out: {error:#}\n  Python and {} are necessary", READERS.join(", "));
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut all = Vec::new();
    for (i, options) in GENERATED.iter().enumerate() {
        let path = folder.join(format!("generated{i}.pcap"));
        let mut generate = Command::new(&program);
        generate.args(["generate", "trace", "-q"]).args(*options).arg("-o").arg(&path);
        finish(&mut generate)?;
        all.push(path);
    }
    all.extend(captures);
    let scripts = root.join("crates/cli/tests");
    let mut is_equal = is_equal_in(&interpreter, &scripts.join("round_trips.py"), &program, &all)?;
    if with_nfstream {
        match environment(&folder, &python, &[NFSTREAM]) {
            Ok(_) => {
                is_equal &=
                    is_equal_in(&interpreter, &scripts.join("compare_nfstream.py"), &program, &all)?;
            }
            Err(error) => println!("NFStream is left out: {error:#}"),
        }
    }
    Ok(exit_code(is_equal))
}

/// Runs a script, and returns whether it has found everything equal.
fn is_equal_in(interpreter: &Path, script: &Path, program: &Path, captures: &[PathBuf]) -> Result<bool> {
    let mut command = Command::new(interpreter);
    let words: Vec<OsString> = captures.iter().map(OsString::from).collect();
    command.arg("-I").arg(script).arg(program).args(words);
    succeeds(&mut command)
}
