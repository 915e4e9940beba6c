//! `cargo xtask peers meters`: meters of flows over scenarios with known answers.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Parser;

use crate::cluster::environment;
use crate::program::{debug_command, exit_code, finish, succeeds};

/// Meters from PyPI. scapy is older than its newest, under which cicflowmeter writes nothing.
const PACKAGES: [&str; 4] = ["nfstream==6.6.0", "cicflowmeter==0.2.0", "netflower==1.1.0", "scapy==2.5.0"];

/// Generates scenarios, runs this project, NFStream, cicflowmeter, netflower, nfpcapd, softflowd,
/// argus and tshark over them, and prints the share of right values of each in Markdown. Packages
/// come from PyPI into target/meters, the others from Debian: nfdump, softflowd, argus-server,
/// argus-client, tshark, tcpdump. Programs that are not installed are named.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask peers meters")]
struct Options {
    /// Scenarios of the first seed: those with one dimension, and drawn pairs
    #[arg(long, default_value_t = 1000)]
    count: u32,
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Dimensions that a scenario combines
    #[arg(long, default_value_t = 2)]
    dimensions: u32,
    /// Names of the meters to run, separated by commas; without it, all
    #[arg(long)]
    only: Option<String>,
    /// Further seeds, of whose scenarios only those with one dimension are run
    #[arg(long, default_value_t = 5)]
    more_seeds: u64,
    /// Instead of a build in the dev profile
    #[arg(long)]
    flowloom: Option<PathBuf>,
    /// Makes the virtual environment
    #[arg(long, default_value = "python3")]
    python: String,
    /// Lists the wrong values of each meter
    #[arg(long)]
    wrong: bool,
}

/// Runs the comparison.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let name = std::iter::once("cargo xtask peers meters");
    let words = name.chain(arguments.iter().map(String::as_str));
    let options = match Options::try_parse_from(words) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    let program = options.flowloom.map_or_else(|| debug_command(root), Ok)?;
    let folder = root.join("target/meters");
    let scenarios = folder.join("scenarios");
    if scenarios.exists() {
        std::fs::remove_dir_all(&scenarios)?;
    }
    std::fs::create_dir_all(&scenarios).with_context(|| format!("cannot make {}", scenarios.display()))?;
    let generate = |seed: u64, count: u32| -> Result<PathBuf> {
        let path = scenarios.join(seed.to_string());
        let mut generate = Command::new(&program);
        generate.args(["generate", "scenarios", "-qq"]).arg(&path);
        generate.args(["--count", &count.to_string(), "--seed", &seed.to_string()]);
        generate.args(["--dimensions", &options.dimensions.to_string()]);
        finish(&mut generate)?;
        Ok(path)
    };
    let mut folders = vec![generate(options.seed, options.count)?];
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folders[0].join("manifest.json"))?)?;
    let dimensions = manifest["dimensions"].as_array().context("the manifest has no dimensions")?;
    let alone = u32::try_from(dimensions.len())?;
    for seed in 1..=options.more_seeds {
        folders.push(generate(options.seed + seed, alone)?);
    }
    let interpreter = environment(&folder, &options.python, &PACKAGES).unwrap_or_else(|error| {
        eprintln!("the packages of PyPI are missing: {error:#}");
        options.python.into()
    });
    let mut judge = Command::new(interpreter);
    judge.arg(root.join("integrations/meters/judge.py")).args(folders).arg("--flowloom").arg(&program);
    judge.args(options.only.iter().flat_map(|names| ["--only", names]));
    judge.args(options.wrong.then_some("--wrong"));
    succeeds(&mut judge).map(exit_code)
}
