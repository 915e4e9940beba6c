//! Compares simulated caches with libCacheSim, on an oracleGeneral file that both read.
//!
//! libCacheSim runs in Python, through its own package. Each round starts an interpreter, which
//! times reading and simulating in its process and prints misses and nanoseconds. Its answers are
//! compared with Flowloom's before any time: LRU, FIFO, CLOCK, SIEVE, S3-FIFO and Belady's MIN over
//! 512 objects must have the same number of misses. W-TinyLFU is a different variant there, and not
//! compared. Flowloom's time includes opening the file, reading all of it and simulating; the start
//! of the interpreter is not counted for libCacheSim.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flowloom::tcb_cache::model::{Overlap, PacketModel, Ports, Surge, SurgeConfig};
use flowloom::tcb_cache::trace::{Format, ReadLimits, oracle_general, read_accesses};
use flowloom::tcb_cache::{Access, CacheSpec, Counts, Policy, Simulated, Trace};
use flowloom_measure::rows::{RatioRow, ResultRow};
use flowloom_measure::{Elapsed, Rounds};

use crate::goal::{Clock, JudgedReport, JudgedResult, JudgedRow};

/// The size of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of rounds.
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
    /// Number of accesses of the generated trace.
    #[arg(long, default_value_t = 4_000_000)]
    pub accesses: usize,
    /// A trace that replaces the generated one.
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// A Python interpreter that has libCacheSim's package.
    #[arg(long, default_value = "python3")]
    pub python: Option<PathBuf>,
}

/// Number of concurrent sessions in the generated trace.
const SESSIONS: u32 = 4000;
const LINES: u32 = 512;

/// Prints misses, and nanoseconds of processor and wall-clock time, of a policy on a file.
const SCRIPT: &str = "\
import sys, time
import libcachesim as lcs
path, policy, lines = sys.argv[1], sys.argv[2], int(sys.argv[3])
reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
cache = getattr(lcs, policy)(lines)
cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
ratio, _ = cache.process_trace(reader)
cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
print(repr(ratio), cpu, wall)
";

/// Runs libCacheSim once. Returns its miss ratio and the time that it took.
fn libcachesim(python: &Path, trace: &Path, policy: &str) -> Result<(f64, Elapsed)> {
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(trace)
        .args([policy, &LINES.to_string()])
        .output()
        .with_context(|| format!("{} cannot be run", python.display()))?;
    if !output.status.success() {
        bail!("libCacheSim failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace();
    let mut word = || words.next().context("libCacheSim's script printed too little");
    let ratio = word()?.parse().context("no miss ratio")?;
    let (cpu_ns, wall_ns) = (word()?.parse().context("no time")?, word()?.parse().context("no time")?);
    Ok((ratio, Elapsed { cpu_ns, wall_ns }))
}

fn read(path: &Path) -> Result<Vec<Access>> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Ok(read_accesses(file, Format::OracleGeneral, ReadLimits::default())?.0)
}

fn measured(trace: &Trace, spec: &CacheSpec) -> Result<Counts> {
    match trace.simulate(spec, None, &|| false)? {
        Simulated::Finished(counts) => Ok(counts),
        Simulated::Stopped => bail!("the run was not stopped"),
    }
}

/// Simulates the trace; this is timed. Returns how many accesses were processed, or 0 on failure.
fn simulate(trace: &Trace, spec: &CacheSpec) -> u64 {
    measured(trace, spec).map_or(0, |counts| std::hint::black_box(counts).accesses)
}

/// Writes the generated trace.
fn generate(path: &Path, accesses: usize) -> Result<()> {
    let (packets, ports) = (PacketModel::default(), Ports::PAPER_LIKE);
    let overlap = Overlap { sessions: SESSIONS, accesses, packets, ports, seed: 1 };
    let trace = Trace::new(overlap.make(&mut Surge::new(SurgeConfig::default(), 1))?.accesses, 0);
    let uses = trace.next_uses(false)?;
    let mut out = std::io::BufWriter::new(File::create(path)?);
    for (position, access) in trace.accesses().iter().enumerate() {
        let next = uses.after(position);
        let next = (next != u32::MAX).then_some(u64::from(next));
        out.write_all(&oracle_general::record(*access, 64, next))?;
    }
    Ok(out.flush()?)
}

/// Adds the rows to a report. Returns the missing ones.
///
/// # Errors
///
/// Returns an error if the trace cannot be read, or libCacheSim's answer differs.
pub fn run(options: &Options, report: &mut JudgedReport) -> Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let generated = folder.path().join("trace.oracleGeneral.bin");
    let path = if let Some(path) = &options.trace {
        path
    } else {
        generate(&generated, options.accesses)?;
        &generated
    };
    let trace = Trace::new(read(path)?, 0);
    let accesses = trace.accesses().len() as u64;
    let spec = |policy| CacheSpec::PAPER.with_policy(policy);
    let mut missing = Vec::new();
    let mut python = options.python.as_deref();
    if let Some(found) = python
        && let Err(error) = libcachesim(found, path, "LRU")
    {
        missing.push(format!("libCacheSim: {error:#}"));
        python = None;
    } else if python.is_none() {
        missing.push(String::from("libCacheSim: no Python was named that has its package"));
    }
    if let Some(python) = python {
        for (name, policy) in [
            ("LRU", Policy::FullLru),
            ("FIFO", Policy::FullFifo),
            ("Clock", Policy::Clock),
            ("Sieve", Policy::Sieve),
            ("S3FIFO", Policy::S3Fifo),
            ("Belady", Policy::Min),
        ] {
            let theirs = libcachesim(python, path, name)?.0;
            let ours = measured(&trace, &spec(policy))?.miss_ratio();
            if (theirs - ours).abs() > 1e-9 {
                bail!("{name} of {LINES} objects misses {ours} of accesses here, {theirs} in libCacheSim");
            }
        }
    }
    // Policies differ in their misses, but all must agree on the number of accesses.
    let from_file = |policy| {
        move || -> u64 {
            let trace = Trace::new(read(path).unwrap_or_default(), 0);
            simulate(&trace, &spec(policy))
        }
    };
    let in_memory = |policy| {
        let trace = &trace;
        move || -> u64 { simulate(trace, &spec(policy)) }
    };
    let mut rounds = Rounds::new(options.rounds)
        .variant("two-bank LRU, from file", from_file(Policy::Lru))
        .variant("full LRU, from file", from_file(Policy::FullLru))
        .variant("two-bank LRU", in_memory(Policy::Lru))
        .variant("spec", in_memory(CacheSpec::PAPER.policy))
        .variant("FlowLRU", in_memory(Policy::FlowLru))
        .variant("zcache", in_memory(Policy::Zcache));
    if let Some(python) = python {
        rounds = rounds.variant_with_lap("libCacheSim LRU", move |lap| {
            libcachesim(python, path, "LRU").map_or(0, |(_, elapsed)| {
                lap.add(elapsed);
                accesses
            })
        });
    }
    let outcome = rounds.run()?;
    for sample in &outcome.samples {
        report
            .results
            .push(JudgedResult::new(ResultRow::new("simulate", accesses, accesses, sample), None));
    }
    let [file, full, lru, spec, flow_lru, zcache, rest @ ..] = &outcome.samples[..] else {
        bail!("a variant has no samples")
    };
    let mut compare = |ours: &flowloom_measure::Samples, rival: &flowloom_measure::Samples, goal| {
        let row = RatioRow::new(&ours.name, accesses, rival, ours);
        let row = row.with_items(accesses, &rival.cpu_ns, &ours.cpu_ns);
        report.ratios.push(JudgedRow::new(row, Clock::Cpu, goal));
    };
    if let [libcachesim] = rest {
        compare(file, libcachesim, Some(2.0));
        compare(full, libcachesim, None);
    }
    compare(spec, lru, Some(0.7));
    compare(flow_lru, lru, Some(0.5));
    compare(zcache, lru, None);
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use flowloom_measure::Host;
    use flowloom_measure::rows::Tool;

    use super::*;

    #[test]
    fn rows_are_printed_without_libcachesim() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        let options = Options { rounds: 1, accesses: 120_000, trace: None, python: None };
        let missing = run(&options, &mut report).unwrap();
        assert_eq!(missing.len(), 1);
        assert_eq!((report.results.len(), report.ratios.len()), (6, 3));
    }
}
