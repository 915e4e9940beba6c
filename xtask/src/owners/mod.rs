//! `cargo xtask owners`: records compared with what the owners of formats expect of their captures.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

mod suricata;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::bench::debug_command;
use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask owners FOLDER… [--flowloom PROGRAM]

  Compares records with the baselines of their owners. The kind of a folder follows from its files:

  expected.jsonl    filters of Suricata's tests on flow events

  --flowloom   instead of a build in the dev profile";

/// Runs the comparison that fits each folder. Fails if a difference has no reason.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let (mut program, mut folders) = (None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--flowloom" => {
                program = Some(PathBuf::from(words.next().context("--flowloom needs a program")?));
            }
            option if option.starts_with('-') => bail!("unknown option {option}\n{USAGE}"),
            folder => folders.push(PathBuf::from(folder)),
        }
    }
    if folders.is_empty() {
        return Ok(show(USAGE, arguments));
    }
    let program = match program {
        Some(program) => program,
        None => debug_command(root)?,
    };
    let mut is_good = true;
    for folder in folders {
        ensure!(folder.join(suricata::EXPECTED).is_file(), "{}: no baselines", folder.display());
        let [filters, equal, explained] = suricata::compare(&program, &folder)?;
        println!(
            "{}: {filters} filters: {equal} hold, {explained} do not for the reasons above",
            folder.display()
        );
        is_good &= (filters - explained) * 98 <= equal * 100;
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
