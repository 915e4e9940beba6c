//! `cargo xtask round-trips`: records in every format, read by other programs.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::cluster::environment;
use crate::corpus::collect;
use crate::program::debug_command;
use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask round-trips [FOLDER…] [--flowloom PROGRAM] [--python PROGRAM] [--no-nfstream]

  Writes records of generated captures, and of all captures below the folders, as CSV, Parquet, IPFIX (file, UDP, TCP) and
  NetFlow v9. pandas, pyarrow, DuckDB, the package netflow, and nfcapd with nfdump read them: sums and all fields must be
  the run's own. Then it compares flows with NFStream: packets, bytes, times, first sizes and statistics.

  The packages come from PyPI into target/round-trips. nfdump is Debian's: apt-get install nfdump. What cannot be had is
  left out, and the command says so.

  --flowloom     instead of a build in the dev profile
  --python       makes the virtual environment [python3]
  --no-nfstream  without NFStream";

/// What reads records.
const READERS: [&str; 4] = ["pyarrow>=18", "duckdb>=2", "pandas>=2", "netflow>=0.12,<1"];
const NFSTREAM: &str = "nfstream>=6.5,<7";
/// Options of the generated captures.
const GENERATED: [&[&str]; 3] = [
    &["--flows", "300", "--packets", "6000", "--seed", "1", "--rate", "1000"],
    &["--flows", "2k", "--packets", "6000", "--seed", "2", "--v6", "50%", "--vlan", "30%", "--rate", "200"],
    &[
        "--flows",
        "1k",
        "--packets",
        "5000",
        "--seed",
        "3",
        "--zipf",
        "0",
        "--syn-flood",
        "400",
        "--rate",
        "500",
    ],
];

/// Generates captures, installs the readers, and runs both comparisons.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let (mut program, mut python, mut with_nfstream) = (None, String::from("python3"), true);
    let mut captures = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--flowloom" => program = Some(words.next().context("--flowloom needs a program")?.into()),
            "--python" => python.clone_from(words.next().context("--python needs a program")?),
            "--no-nfstream" => with_nfstream = false,
            _ if word.starts_with('-') => bail!("unknown option '{word}'\n{USAGE}"),
            folder => {
                ensure!(Path::new(folder).is_dir(), "{folder} is no folder\n{USAGE}");
                collect(Path::new(folder), &mut captures)?;
            }
        }
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
        ensure!(generate.status()?.success(), "{generate:?} failed");
        all.push(path);
    }
    all.extend(captures);
    let scripts = root.join("crates/cli/tests");
    let mut is_equal = finish(&interpreter, &scripts.join("round_trips.py"), &program, &all)?;
    if with_nfstream {
        match environment(&folder, &python, &[NFSTREAM]) {
            Ok(_) => {
                is_equal &= finish(&interpreter, &scripts.join("compare_nfstream.py"), &program, &all)?;
            }
            Err(error) => println!("NFStream is left out: {error:#}"),
        }
    }
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a script, and returns whether it has found everything equal.
fn finish(interpreter: &Path, script: &Path, program: &Path, captures: &[PathBuf]) -> Result<bool> {
    let mut command = Command::new(interpreter);
    let words: Vec<OsString> = captures.iter().map(OsString::from).collect();
    command.arg("-I").arg(script).arg(program).args(words);
    Ok(command.status().with_context(|| format!("{} cannot be run", interpreter.display()))?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_folder_and_no_option_is_refused() {
        let refused = |word: &str| run(Path::new("."), &[String::from(word)]).unwrap_err().to_string();
        assert!(refused("--fast").starts_with("unknown option '--fast'"));
        assert!(refused("no/such/folder").starts_with("no/such/folder is no folder"));
    }
}
