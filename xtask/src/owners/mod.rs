//! `cargo xtask owners`: records compared with what the owners of formats expect of their captures.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

mod suricata;
mod tshark;
mod zeek;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::program::{debug_command, exit_code};

/// Compares records with the baselines of their owners, and prints the share of equal values of
/// each column, and every difference with its reason. The kind of a folder follows from its files:
/// expected.jsonl has filters of Suricata's tests on flow events; NAME.conn.tsv has rows of Zeek's
/// conn.log of the capture NAME without its last part: state, history and bytes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(required_unless_present = "analysed")]
    folders: Vec<PathBuf>,
    /// A folder of captures, or one: compares with tcp.analysis of tshark by direction; repeatable.
    #[arg(long = "tshark", value_name = "FOLDER")]
    analysed: Vec<PathBuf>,
    /// Instead of a build in the dev profile.
    #[arg(long)]
    flowloom: Option<PathBuf>,
}

/// Runs the comparison that fits each folder. Fails if a share is below its goal.
pub(crate) fn run(root: &Path, options: Options) -> Result<ExitCode> {
    let Options { folders, analysed, flowloom: program } = options;
    let program = program.map_or_else(|| debug_command(root), Ok)?;
    let mut has_failed = false;
    for folder in &folders {
        if folder.join(suricata::EXPECTED).is_file() {
            let [filters, equal] = suricata::compare(&program, folder)?;
            println!("{}: {equal} of {filters} filters hold (goal 98 %)", folder.display());
            has_failed |= filters * 98 > equal * 100;
            continue;
        }
        let scores = zeek::compare(&program, folder)?;
        ensure!(scores.rows > 0, "{} has no baselines", folder.display());
        has_failed |= !scores.print(folder);
    }
    for folder in &analysed {
        let scores = tshark::compare(&program, folder)?;
        ensure!(scores.rows > 0, "{} has no directions of TCP", folder.display());
        has_failed |= !scores.print(folder);
    }
    Ok(exit_code(!has_failed))
}

/// How many values of each column equal those of the baselines.
#[derive(Debug, Default)]
struct Scores {
    /// Rows of the baselines that were compared.
    rows: u32,
    /// Columns with their goals in per cent, in the order of the output.
    columns: Vec<(&'static str, f64)>,
    equal: BTreeMap<&'static str, u32>,
    /// Rows without a record, and values that differ, by reason.
    differences: BTreeMap<&'static str, Vec<String>>,
}

impl Scores {
    fn differ(&mut self, reason: &'static str, what: String) {
        self.differences.entry(reason).or_default().push(what);
    }

    /// Prints the shares and the differences. Returns whether every share reaches its goal.
    fn print(&self, folder: &Path) -> bool {
        println!("{}: {} rows", folder.display(), self.rows);
        let mut is_enough = true;
        for &(column, goal) in &self.columns {
            let equal = self.equal.get(column).copied().unwrap_or(0);
            let share = 100.0 * f64::from(equal) / f64::from(self.rows);
            is_enough &= share >= goal;
            println!("  {column:<14} {equal} of {} ({share:.1} %, goal {goal} %)", self.rows);
        }
        for (reason, all) in &self.differences {
            println!("  {reason}: {}", all.len());
            for one in all {
                println!("    {one}");
            }
        }
        is_enough
    }
}

/// Runs the program on a capture, and returns what it writes to its standard output.
fn output_of(program: &Path, capture: &Path, arguments: &[&str]) -> Result<String> {
    let run = Command::new(program).arg("replay").arg(capture).args(arguments).output();
    let run = run.with_context(|| format!("cannot start {}", program.display()))?;
    let is_read = run.status.success();
    ensure!(is_read, "{}: {}", capture.display(), String::from_utf8_lossy(&run.stderr).trim());
    Ok(String::from_utf8(run.stdout)?)
}
