//! `cargo xtask soak --churn`: records of very many short flows, whose number must not need memory.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::program::{build, finish};

/// Allowed growth of memory after the warm-up, in bytes.
const GROWTH_BYTES_MAX: u64 = 8 << 20;
/// The longest that a run may last after an interrupt.
const EXIT_MAX: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(100);
/// The fewest measurements that show something.
const LOOKS_MIN: usize = 50;
/// What one pass consists of: flows of two packets on average, that seldom meet within the timeout.
const PASS: [&str; 12] = [
    "--flows", "500k", "--packets", "1M", "--zipf", "0", "--bursts", "1", "--size", "64", "--rate", "100k",
];

/// Writes records of short flows as CSV and as IPFIX, and reads them: no packet may be missing,
/// memory may grow by 8 MiB after the warm-up, and the run must end within 0.2 s of SIGINT.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Instead of a build with optimisation.
    #[arg(long)]
    flowloom: Option<PathBuf>,
    /// Records to write.
    #[arg(long, default_value_t = 100_000_000)]
    records: u64,
    /// Seconds in which memory may grow.
    #[arg(long, default_value_t = 60)]
    warm: u64,
}

/// Builds the command and runs the check.
pub(crate) fn run(root: &Path, options: Options) -> Result<ExitCode> {
    let flowloom = match options.flowloom {
        Some(flowloom) => flowloom,
        None => build(root, &["-p", "flowloom-cli", "--bin", "flowloom"])?,
    };
    let (records, warm) = (options.records, Duration::from_secs(options.warm));
    Churn { flowloom, records, warm, folder: root.join("target/soak") }.run()?;
    Ok(ExitCode::SUCCESS)
}

/// What a churn run shall do.
#[derive(Debug)]
struct Churn {
    flowloom: PathBuf,
    records: u64,
    /// Until when memory may grow.
    warm: Duration,
    /// Where the capture and the pipe are made.
    folder: PathBuf,
}

/// The sums over a run's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    records: u64,
    packets: u64,
}

impl Churn {
    /// Runs CSV and IPFIX, and prints a line for each.
    ///
    /// # Errors
    ///
    /// Returns an error if memory grows, packets are missing in the records, or a run does not end
    /// soon after an interrupt.
    pub(crate) fn run(&self) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let capture = self.folder.join("churn.pcap");
        let mut generate = Command::new(&self.flowloom);
        generate.args(["generate", "trace", "-q", "--seed", "1"]).args(PASS).arg("-o").arg(&capture);
        finish(&mut generate)?;
        let mut is_well = true;
        for format in ["csv", "ipfix"] {
            match self.watch(&capture, format) {
                Ok(line) => println!("{line}"),
                Err(fault) => {
                    println!("error: {fault:#}");
                    is_well = false;
                }
            }
        }
        ensure!(is_well, "see above");
        Ok(())
    }

    fn watch(&self, capture: &Path, format: &str) -> Result<String> {
        let pipe = self.folder.join(format!("records.{format}"));
        let _ = std::fs::remove_file(&pipe);
        finish(Command::new("mkfifo").arg(&pipe))?;
        let mut child = Command::new(&self.flowloom)
            .args(["replay", "--app", "accounting", "--timeout", "1", "--loop", "--layout", "inline"])
            .args(["--no-pin", "--seed", "1", "--format", "json", "-q", "--flows"])
            .arg(&pipe)
            .arg(capture)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be run", self.flowloom.display()))?;
        let read = AtomicU64::new(0);
        let outcome = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let input = BufReader::with_capacity(1 << 20, File::open(&pipe)?);
                if format == "csv" { of_csv(input, &read) } else { of_ipfix(input, &read) }
            });
            let watched = self.memory_until_enough(&mut child, &read);
            let interrupted = Instant::now();
            if watched.is_err() {
                // The reader ends with it.
                let _ = child.kill();
            } else {
                Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
            }
            let (mut text, mut stdout) = (String::new(), child.stdout.take().context("no output")?);
            stdout.read_to_string(&mut text)?;
            let status = child.wait()?;
            let exit = interrupted.elapsed();
            let sums = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
            Ok::<_, anyhow::Error>((watched?, exit, status, text, sums))
        });
        std::fs::remove_file(&pipe)?;
        let (memory, exit, status, text, sums) = outcome?;
        ensure!(status.code() == Some(130), "{format}: the interrupted run ended with {status}: {text}");
        let report: Value = serde_json::from_str(&text).context("the report is no JSON")?;
        let line = format!(
            "{format}: {} records of {} packets in {:.0} s; memory {} to {} KiB after {} s, in {} looks; exit {:.3} s \
             after SIGINT",
            sums.records,
            sums.packets,
            report["seconds"].as_f64().unwrap_or_default(),
            memory.iter().min().map_or(0, |bytes| bytes >> 10),
            memory.iter().max().map_or(0, |bytes| bytes >> 10),
            self.warm.as_secs(),
            memory.len(),
            exit.as_secs_f64()
        );
        ensure!(report["balanced"] == true, "{line}\n  the counts do not add up");
        ensure!(report["processed"] == sums.packets, "{line}\n  the run says {}", report["processed"]);
        ensure!(memory.len() >= LOOKS_MIN, "{line}\n  too short to judge memory: increase --churn");
        let growth = memory.iter().max().zip(memory.iter().min()).map_or(0, |(most, least)| most - least);
        ensure!(
            growth <= GROWTH_BYTES_MAX,
            "{line}\n  {growth} bytes of growth; {GROWTH_BYTES_MAX} are allowed"
        );
        ensure!(exit <= EXIT_MAX, "{line}\n  {EXIT_MAX:?} are allowed");
        Ok(line)
    }

    /// Returns the memory after the warm-up, measured until enough records are read.
    fn memory_until_enough(&self, child: &mut Child, read: &AtomicU64) -> Result<Vec<u64>> {
        let begun = Instant::now();
        let mut memory = Vec::new();
        while read.load(Ordering::Relaxed) < self.records {
            std::thread::sleep(LOOK);
            if let Some(status) = child.try_wait()? {
                bail!("the run ended with {status} before enough records");
            }
            if begun.elapsed() >= self.warm {
                memory.push(anonymous_bytes(child.id()).context("/proc has no memory of the run")?);
            }
        }
        Ok(memory)
    }
}

/// Returns the memory of a process that no file backs.
fn anonymous_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// Sums up records in CSV.
fn of_csv(mut input: impl BufRead, read: &AtomicU64) -> Result<Sums> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let names: Vec<&str> = line.trim_end().split(',').collect();
    let column = |name: &str| {
        names.iter().position(|known| *known == name).with_context(|| format!("{name} is no column"))
    };
    let (first, second) = (column("packets")?, column("reverse_packets")?);
    let mut sums = Sums::default();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(sums);
        }
        let mut fields = line.trim_end().split(',');
        let mut number = |skip: usize| fields.nth(skip).and_then(|field| field.parse::<u64>().ok());
        let (Some(there), Some(back)) = (number(first), number(second - first - 1)) else {
            bail!("a line without counts: {line}")
        };
        sums.packets += there + back;
        sums.records += 1;
        read.store(sums.records, Ordering::Relaxed);
    }
}

/// The records of a template: their size, and where their packet counts are.
#[derive(Clone, Debug, Default)]
struct Template {
    bytes: usize,
    packets_at: Vec<usize>,
}

/// Sums up records in IPFIX, whose sequence numbers must count them.
fn of_ipfix(mut input: impl Read, read: &AtomicU64) -> Result<Sums> {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let mut templates: [Template; 2] = Default::default();
    let mut sums = Sums::default();
    let mut message = Vec::new();
    loop {
        let mut header = [0; 16];
        match input.read(&mut header[..1])? {
            0 => return Ok(sums),
            _ => input.read_exact(&mut header[1..])?,
        }
        ensure!(number(&header[8..12]) == sums.records & u64::from(u32::MAX), "a sequence number is wrong");
        message.resize(usize::from(u16::from_be_bytes([header[2], header[3]])).saturating_sub(16), 0);
        input.read_exact(&mut message)?;
        let mut rest = &message[..];
        while let [high, low, length_high, length_low, ..] = *rest {
            let length = usize::from(u16::from_be_bytes([length_high, length_low]));
            ensure!(length > 4 && length <= rest.len(), "a set has {length} bytes");
            let (set, behind) = rest.split_at(length);
            rest = behind;
            let id = u16::from_be_bytes([high, low]);
            if id == 2 {
                templates = templates_of(&set[4..])?;
                continue;
            }
            let template = id.checked_sub(256).and_then(|at| templates.get(usize::from(at)));
            let template =
                template.filter(|template| template.bytes > 0).context("a set without template")?;
            for record in set[4..].chunks_exact(template.bytes) {
                sums.packets +=
                    template.packets_at.iter().map(|at| number(&record[*at..at + 8])).sum::<u64>();
                sums.records += 1;
            }
        }
        read.store(sums.records, Ordering::Relaxed);
    }
}

/// Returns the templates 256 and 257.
fn templates_of(mut set: &[u8]) -> Result<[Template; 2]> {
    let mut templates: [Template; 2] = Default::default();
    let mut word = || -> Result<u16> {
        let (two, rest) = set.split_first_chunk::<2>().context("a template is cut")?;
        set = rest;
        Ok(u16::from_be_bytes(*two))
    };
    for template in &mut templates {
        let (_, fields) = (word()?, word()?);
        for _ in 0..fields {
            let (element, bytes) = (word()?, usize::from(word()?));
            if element & 0x8000 != 0 {
                let _enterprise = (word()?, word()?);
            }
            // packetDeltaCount, and its reverse.
            if element & 0x7FFF == 2 {
                template.packets_at.push(template.bytes);
            }
            template.bytes += bytes;
        }
    }
    Ok(templates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_is_summed_up_by_the_names_of_columns() {
        let read = AtomicU64::new(0);
        let text = "source,packets,bytes,reverse_packets\na,2,60,1\nb,3,90,0\n";
        assert_eq!(of_csv(text.as_bytes(), &read).unwrap(), Sums { records: 2, packets: 6 });
        assert_eq!(read.load(Ordering::Relaxed), 2);
        assert!(of_csv(&b"packets,reverse_packets\n1,x\n"[..], &read).is_err());
        assert!(of_csv(&b"bytes\n1\n"[..], &read).is_err());
    }

    #[test]
    fn ipfix_is_summed_up_by_its_templates() {
        let message = |sequence: u32, sets: &[u8]| {
            let length = u16::try_from(16 + sets.len()).unwrap();
            let header = [&[0, 10][..], &length.to_be_bytes(), &[0; 4], &sequence.to_be_bytes(), &[0; 4]];
            [&header.concat()[..], sets].concat()
        };
        // Both templates: protocol, packets, packets of the reverse direction.
        let fields = [0, 3, 0, 4, 0, 1, 0, 2, 0, 8, 0x80, 2, 0, 8, 0, 0, 0x72, 0x79];
        let template = [&[0, 2, 0, 44, 1, 0][..], &fields, &[1, 1], &fields].concat();
        let record = |there: u8, back: u8| {
            [&[6, 0, 0, 0, 0, 0, 0, 0][..], &[there, 0, 0, 0, 0, 0, 0, 0], &[back]].concat()
        };
        let two = [&[1, 0, 0, 38][..], &record(2, 1), &record(3, 0)].concat();
        let one = [&[1, 1, 0, 21][..], &record(9, 9)].concat();
        let file = [message(0, &[template, two].concat()), message(2, &one)].concat();
        let read = AtomicU64::new(0);
        assert_eq!(of_ipfix(&file[..], &read).unwrap(), Sums { records: 3, packets: 24 });
        let wrong = [file, message(7, &one)].concat();
        assert!(of_ipfix(&wrong[..], &read).unwrap_err().to_string().contains("sequence"));
    }
}
