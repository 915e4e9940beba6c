//! `cargo xtask faults`: stops verbs that write, by random faults at random times, and reads what
//! they leave.
//!
//! ```text
//!  verb × format × fault (signal, two signals, second interrupt, full disk, closed pipe) × time
//!      ─▶ the output is whole records to its end, or absent
//!      ─▶ records in the file = records of the report; written + passed over + lost = ended
//! ```
#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::draw::Draw;
use crate::program::{debug_command, finish};

/// Stops replay, extract, generate, merge and reproduce by signals, a limited file size or a closed
/// pipe at random times, and checks that every output can be read to its end and that lost records
/// are counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of runs: 300 take about a minute, 100000 hours.
    #[arg(long, default_value_t = 300)]
    runs: u64,
    /// Seed of the first run; each run has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How long a run without a fault takes at most, about; faults come before.
const SPAN_US: usize = 120_000;

/// What stops a run.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A signal, and perhaps another one after a pause, in microseconds.
    Signals {
        first_us: usize,
        pause_us: Option<usize>,
    },
    /// A limit of the file size, in units of the shell.
    FullDisk {
        blocks: usize,
    },
    /// The reader of standard output closes it after this many bytes.
    ClosedPipe {
        bytes: usize,
    },
    None,
}

/// A command line, and the file that it writes.
struct Case {
    arguments: Vec<String>,
    output: String,
    /// The output exists whole or as before, never in part.
    is_whole: bool,
}

/// Runs the check.
pub(crate) fn run(root: &Path, &Options { runs, seed }: &Options) -> Result<ExitCode> {
    let program = debug_command(root)?;
    let folder = root.join("target/faults");
    fs::create_dir_all(&folder)?;
    let input = folder.join("input.pcap");
    let mix = ["--packets", "40000", "--flows", "4000", "--seed", "7"];
    finish(Command::new(&program).args(["generate", "trace", "-q", "-o"]).arg(&input).args(mix))?;
    let part = folder.join("input.part");
    finish(Command::new(&program).args(["replay", "-q", "--save-part"]).arg(&part).arg(&input))?;
    let mut ends: [u64; 5] = [0; 5];
    for number in seed..seed.saturating_add(runs) {
        let end = check(&program, &folder, (&input, &part), number)
            .with_context(|| format!("repeat with: cargo xtask faults --runs 1 --seed {number}"))?;
        ends[end] += 1;
        if number % 1000 == 0 {
            println!("{number} runs");
        }
    }
    let [complete, interrupted, abandoned, failed, closed] = ends;
    println!(
        "faults: {runs} runs from seed {seed}: {complete} complete, {interrupted} interrupted, {abandoned} \
         abandoned, {failed} with a full disk, {closed} with a closed pipe; all outputs whole, all records counted"
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the command lines that write, for an output in this folder.
fn case(folder: &Path, (input, part): (&Path, &Path), draws: &mut Draw) -> Case {
    const RECORDS: [&str; 10] = [
        "f.csv", "f.jsonl", "f.log", "f.eve", "f.ipfix", "f.nf9", "f.parquet", "f.arrows", "f.csv.gz",
        "f.jsonl.zst",
    ];
    let text = |path: &Path| path.display().to_string();
    let named = |name: &str| text(&folder.join(name));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (input, part) = (text(input), text(part));
    let (output, is_whole, arguments) = match draws.below(14) {
        0..=6 => {
            let name = draws.pick(&RECORDS);
            let output = named(name);
            let mut all = words(&["replay", &input, "--format", "json", "--flows", &output]);
            if draws.below(2) == 0 {
                all.extend(words(&["--timeout", "0.05"]));
            }
            if draws.below(4) == 0 {
                all.extend(words(&["--workers", "2"]));
            }
            if draws.below(4) == 0 {
                all.extend(words(&["--where", "packets > 2"]));
            }
            (output, name == "f.parquet", all)
        }
        7 => {
            let output = named("w.pcapng");
            let all = words(&["replay", &input, "--format", "json", "--write", &output]);
            (output, false, all)
        }
        8 => {
            let output = named("x.pcapng");
            let mut all = words(&["extract", &input, "--filter", "tcp", "-o", &output]);
            if draws.below(2) == 0 {
                all.extend(words(&["--where", "packets > 1"]));
            }
            (output, false, all)
        }
        9 => {
            let output = named("g.pcap");
            (output.clone(), true, words(&["generate", "trace", "--packets", "60000", "-o", &output]))
        }
        10 => {
            let output = named("g.csv");
            (output.clone(), true, words(&["generate", "weblog", "--accesses", "20000", "-o", &output]))
        }
        11 => {
            let output = named("s.part");
            (output.clone(), true, words(&["replay", &input, "--save-part", &output]))
        }
        12 => {
            let output = named("m.csv");
            (output.clone(), false, words(&["merge", &part, "--format", "json", "--flows", &output]))
        }
        _ => {
            let output = String::from("-");
            (output, false, words(&["replay", &input, "--flows", "-"]))
        }
    };
    Case { arguments, output, is_whole }
}

/// Runs one case. Returns how it ended: an index into the counts.
fn check(program: &Path, folder: &Path, inputs: (&Path, &Path), seed: u64) -> Result<usize> {
    let mut draws = Draw::new(seed);
    let folder = folder.join(format!("run-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let Case { arguments, output, is_whole } = case(&folder, inputs, &mut draws);
    let has_old = draws.below(2) == 0 && output != "-";
    if has_old {
        fs::write(&output, "what stood there\n")?;
    }
    let fault = match draws.below(8) {
        0..=2 if output != "-" => Fault::FullDisk { blocks: draws.below(2000) },
        7 if output == "-" => Fault::None,
        // Its output is not read until the signals were sent, so the run cannot end between them.
        6 if output == "-" => Fault::Signals { first_us: draws.below(SPAN_US), pause_us: Some(550_000) },
        _ if output == "-" => Fault::ClosedPipe { bytes: draws.below(300_000) },
        3 => Fault::None,
        kind => {
            let pause_us = match kind {
                4 => None,
                5 => Some(draws.below(2000)),
                _ => Some(500_000 + draws.below(100_000)),
            };
            Fault::Signals { first_us: draws.below(SPAN_US), pause_us }
        }
    };
    let outcome = outcome_of(program, &arguments, fault)?;
    let about = || {
        let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
        format!("flowloom {}\n{fault:?}, {}\n{stderr}", arguments.join(" "), outcome.status)
    };
    let status = outcome.status.code();
    let end = match (fault, status) {
        (_, Some(0)) => 0,
        (Fault::Signals { .. }, Some(130)) if about().contains("second time") => 2,
        // Before the process handles signals, they end it, and it has written nothing.
        (Fault::Signals { .. }, Some(130) | None) => 1,
        (Fault::FullDisk { .. }, Some(5)) => 3,
        (Fault::ClosedPipe { .. }, Some(5)) => 4,
        _ => bail!("unexpected end: {}", about()),
    };
    if matches!(fault, Fault::FullDisk { .. }) && end == 3 {
        ensure!(about().contains("cannot"), "the error does not name the file: {}", about());
    }
    if output != "-" {
        let found = fs::read(&output).ok();
        let is_old = found.as_deref() == Some(b"what stood there\n");
        if is_whole && end != 0 && !is_complete(&arguments, &outcome) {
            let is_as_before = if has_old { is_old } else { found.is_none() };
            let is_readable =
                found.as_deref().is_some_and(|bytes| records_in(Path::new(&output), bytes).is_ok());
            ensure!(is_as_before || is_readable, "the output is cut: {}", about());
        } else if let Some(bytes) = found.filter(|_| !is_old) {
            let count = records_in(Path::new(&output), &bytes)
                .with_context(|| format!("{} cannot be read: {}", output, about()))?;
            check_records(&outcome, count).with_context(about)?;
        }
        let mut names =
            fs::read_dir(&folder)?.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
        ensure!(
            !names.any(|name| name.to_string_lossy().contains(".partial-")) || status.is_none(),
            "a partial file is left: {}",
            about()
        );
    }
    fs::remove_dir_all(&folder)?;
    Ok(end)
}

/// Returns whether an interrupted run has finished its output nevertheless.
fn is_complete(arguments: &[String], outcome: &Output) -> bool {
    arguments.iter().any(|word| word == "--flows")
        && serde_json::from_slice::<Value>(&outcome.stdout).is_ok()
}

/// Checks the records of a report against those in the file.
fn check_records(outcome: &Output, in_file: Option<u64>) -> Result<()> {
    let Ok(report) = serde_json::from_slice::<Value>(&outcome.stdout) else { return Ok(()) };
    if report["balanced"] == false {
        bail!("the report is not balanced");
    }
    let records = &report["records"];
    let Some(ended) = records["ended"].as_u64() else { return Ok(()) };
    let count = |name: &str| records[name].as_u64().unwrap_or(u64::MAX);
    ensure!(
        ended == count("written") + count("passed_over") + count("lost"),
        "records do not add up: {records}"
    );
    if let Some(in_file) = in_file {
        ensure!(in_file == count("written"), "{in_file} records are in the file: {records}");
    }
    Ok(())
}

fn outcome_of(program: &Path, arguments: &[String], fault: Fault) -> Result<Output> {
    let mut command = match fault {
        Fault::FullDisk { blocks } => {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh"]).arg(program);
            command
        }
        _ => Command::new(program),
    };
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("flowloom cannot be run")?;
    match fault {
        Fault::Signals { first_us, pause_us } => {
            let pid = Pid::from_child(&child);
            std::thread::sleep(Duration::from_micros(first_us as u64));
            // A process that has ended cannot be signalled.
            let _ = kill_process(pid, Signal::INT);
            if let Some(pause_us) = pause_us {
                std::thread::sleep(Duration::from_micros(pause_us as u64));
                let _ = kill_process(pid, Signal::INT);
            }
        }
        Fault::ClosedPipe { bytes } => {
            let stdout = child.stdout.take().context("standard output is a pipe")?;
            let mut taken = Vec::new();
            stdout.take(bytes as u64).read_to_end(&mut taken)?;
        }
        Fault::FullDisk { .. } | Fault::None => {}
    }
    child.wait_with_output().context("flowloom cannot be waited for")
}

/// Reads an output to its end by its format. Returns the number of its records where the format
/// shows it.
fn records_in(path: &Path, bytes: &[u8]) -> Result<Option<u64>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (name, unpacked) = if let Some(inner) = name.strip_suffix(".gz") {
        (inner.to_owned(), unpack("gzip", path)?)
    } else if let Some(inner) = name.strip_suffix(".zst") {
        (inner.to_owned(), unpack("zstd", path)?)
    } else {
        (name, bytes.to_vec())
    };
    let lines = || -> Result<Vec<String>> {
        let text = String::from_utf8(unpacked.clone())?;
        ensure!(text.is_empty() || text.ends_with('\n'), "the last line is cut");
        Ok(text.lines().map(str::to_owned).collect())
    };
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "csv" => {
            let lines = lines()?;
            let columns = |line: &String| line.matches(',').count();
            let first = lines.first().map_or(0, columns);
            ensure!(lines.iter().all(|line| columns(line) == first), "a line has other columns");
            Ok(Some((lines.len() as u64).saturating_sub(1)))
        }
        "jsonl" | "eve" => {
            let lines = lines()?;
            for line in &lines {
                serde_json::from_str::<Value>(line)?;
            }
            Ok(Some(lines.len() as u64))
        }
        "log" => Ok(Some(lines()?.iter().filter(|line| !line.starts_with('#')).count() as u64)),
        "ipfix" => {
            let mut rest = &unpacked[..];
            while let Some(header) = rest.get(..16) {
                let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
                rest = rest.get(length.max(16)..).context("a message is cut")?;
            }
            ensure!(rest.is_empty(), "a header is cut");
            Ok(None)
        }
        "parquet" => {
            ensure!(unpacked.starts_with(b"PAR1") && unpacked.ends_with(b"PAR1"), "there is no footer");
            Ok(None)
        }
        "pcap" | "pcapng" => {
            whole_capture(&unpacked)?;
            Ok(None)
        }
        // NetFlow v9 has no lengths of packets, and the end of an Arrow stream is optional.
        _ => Ok(None),
    }
}

/// Walks the records of a capture, which must end with the file.
fn whole_capture(bytes: &[u8]) -> Result<()> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).unwrap_or(usize::MAX))
    };
    if bytes.is_empty() {
        return Ok(());
    }
    let is_pcapng = bytes.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]);
    let mut at = if is_pcapng { 0 } else { 24 };
    while at < bytes.len() {
        let length = if is_pcapng { word(at + 4) } else { word(at + 8).map(|length| length + 16) };
        at +=
            length.filter(|length| *length >= 12).with_context(|| format!("byte {at}: a header is cut"))?;
    }
    ensure!(at == bytes.len(), "the last record is cut");
    Ok(())
}

fn unpack(tool: &str, path: &Path) -> Result<Vec<u8>> {
    if fs::metadata(path)?.len() == 0 {
        return Ok(Vec::new());
    }
    let output =
        Command::new(tool).args(["-dc"]).arg(path).output().with_context(|| format!("no {tool}"))?;
    ensure!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}
