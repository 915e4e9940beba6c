//! `cargo xtask corpus`: foreign captures through every layout of `flowloom replay`.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::program::{build_in, exit_code, has_libpcap};

/// Replays all captures below the folders in four ways: on one thread, in shards, in a pipeline,
/// and with tunnels followed. No run may crash or take a second; reports must balance, and the
/// first three digests must be equal. A capture that is refused must be refused in all four ways.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

/// The longest that a run may take.
const RUN_MAX: Duration = Duration::from_secs(1);
/// How a run is called, and its options.
const WAYS: [(&str, &[&str]); 4] = [
    ("inline", &["--layout", "inline"]),
    ("sharded", &["--layout", "sharded", "--workers", "2"]),
    ("pipeline", &["--layout", "pipeline", "--workers", "2"]),
    ("decap", &["--layout", "inline", "--decap"]),
];
const ENDINGS: [&str; 5] = ["pcap", "pcapng", "cap", "gz", "zst"];
/// The statuses of a run with a report: all is well, a check failed, or the input was faulty.
const REPORTED: [i32; 3] = [0, 4, 6];

/// What all runs come to.
#[derive(Debug, Default)]
struct Totals {
    captures: u64,
    refused: u64,
    packets: u64,
    flows: u64,
    slowest: Duration,
    mistakes: Vec<String>,
}

/// Replays the captures.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut captures = Vec::new();
    for folder in &options.folders {
        collect(folder, &mut captures)?;
    }
    captures.sort();
    let mut what = vec!["-p", "flowloom-cli", "--bin", "flowloom"];
    if !has_libpcap() {
        what.push("--no-default-features");
    }
    let program = build_in(root, "dev", &what)?;
    let mut totals = Totals::default();
    for capture in &captures {
        totals.captures += 1;
        if let Err(mistake) = check(&program, capture, &mut totals) {
            println!("{}: {mistake}", capture.display());
            totals.mistakes.push(mistake.to_string());
        }
    }
    let Totals { captures, refused, packets, flows, slowest, mistakes } = totals;
    println!(
        "{captures} captures: {refused} refused, {packets} packets, {flows} flows, slowest run {slowest:.1?}, {} mistakes",
        mistakes.len()
    );
    Ok(exit_code(mistakes.is_empty() && captures > 0))
}

/// Collects the captures below a folder.
pub(crate) fn collect(folder: &Path, captures: &mut Vec<PathBuf>) -> Result<()> {
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, captures)?;
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            captures.push(path);
        }
    }
    Ok(())
}

/// Replays one capture in all ways.
fn check(program: &Path, capture: &Path, totals: &mut Totals) -> Result<()> {
    let mut first: Option<Value> = None;
    let mut refused = None;
    for (i, (way, options)) in WAYS.into_iter().enumerate() {
        let started = Instant::now();
        let output = Command::new(program)
            .args(["replay", "--format", "json", "-q", "--no-pin", "--seed", "1"])
            .args(options)
            .arg(capture)
            .stdin(Stdio::null())
            .output()?;
        let elapsed = started.elapsed();
        totals.slowest = totals.slowest.max(elapsed);
        ensure!(elapsed <= RUN_MAX, "{way}: the run took {elapsed:.1?}");
        let says = String::from_utf8_lossy(&output.stderr);
        let is_reported = output.status.code().is_some_and(|status| REPORTED.contains(&status));
        let document = serde_json::from_slice::<Value>(&output.stdout).ok().filter(|_| is_reported);
        ensure!(*refused.get_or_insert(document.is_none()) == document.is_none(), "{way}: {says}");
        let Some(document) = document else {
            ensure!(output.status.code() == Some(3), "{way}: ended with {}: {says}", output.status);
            continue;
        };
        ensure!(document["balanced"] == true, "{way}: the counts do not add up");
        let Some(inline) = &first else {
            first = Some(document);
            continue;
        };
        for name in ["packets", "bytes_captured"] {
            ensure!(document[name] == inline[name], "{way}: {name} is {}", document[name]);
        }
        if i < 3 {
            for name in ["digest", "not_tracked", "unknown", "encapsulations", "tunnel_not_followed"] {
                if document[name] != inline[name] {
                    bail!("{way}: {name} is {}, inline {}", document[name], inline[name]);
                }
            }
        }
    }
    totals.refused += u64::from(refused == Some(true));
    if let Some(inline) = first {
        totals.packets += inline["packets"].as_u64().unwrap_or_default();
        totals.flows += inline["flows"].as_u64().unwrap_or_default();
    }
    Ok(())
}
