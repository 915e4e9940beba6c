//! Compares whole programs on one capture in each layout with the machine's limit: two programs on
//! the halves of the capture.
//!
//! | variant | what a round does |
//! | --- | --- |
//! | `inline` | `flowloom replay --layout inline` on the whole capture |
//! | `two programs` | two of these at the same time, each on a half and a CPU of its own: they share nothing |
//! | `sharded N` | `--layout sharded --workers N` on the whole capture |
//! | `pipeline 2` | `--layout pipeline --workers 2`, which has an input thread besides |

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flowloom::traffic::synth::{Generate, Mix, MixConfig};
use flowloom::traffic::write::{PcapOptions, PcapWriter};
use flowloom_measure::{Elapsed, RatioRow, ResultRow, Rounds, Samples, clock};
use serde_json::Value;
use tempfile::TempDir;

use crate::answers::Answers;
use crate::goal::{Clock, JudgedResult, JudgedRow};

/// What a program does with the capture: its name, its arguments, and the extension of the file of
/// records, if it writes one.
type Work = (&'static str, &'static [&'static str], Option<&'static str>);

const ACCOUNTING: &[&str] = &["--app", "accounting"];
const WORKS: [Work; 9] = [
    ("tcp-tracker", &["--app", "tcp-tracker"], None),
    ("accounting, CSV", ACCOUNTING, Some("csv")),
    ("accounting, IPFIX", ACCOUNTING, Some("ipfix")),
    ("accounting, Parquet", ACCOUNTING, Some("parquet")),
    ("timeouts, CSV", &["--app", "accounting", "--timeout", "5", "--active-timeout", "10"], Some("csv")),
    ("TCP fields, CSV", &["--app", "accounting", "--fields", "tcp"], Some("csv")),
    ("all fields, CSV", &["--app", "accounting", "--fields", "all"], Some("csv")),
    ("l7", &["--app", "l7"], None),
    ("1,000 rules", &["--rules", RULES], None),
];
/// The file of rules, in the folder of the captures.
const RULES: &str = "fw.rules";
/// The seed of the rules.
const RULES_SEED: u64 = 1;
/// Number of packets per flow in the generated capture.
const FLOW_PACKETS: u64 = 20;
/// The share of the speed of two independent programs that two workers must reach.
const OF_TWO_PROGRAMS: f64 = 0.90;
/// Maximum processor time of two workers, as a multiple of one thread's.
const CPU_MAX: f64 = 1.12;
/// The layout with goals.
const JUDGED: &str = "sharded 2";

/// The capture and its halves, which are deleted on drop.
#[derive(Debug)]
pub struct Halves {
    whole: PathBuf,
    parts: [PathBuf; 2],
    packets: u64,
    folder: TempDir,
}

impl Halves {
    /// Generates a mixture and writes it as a whole and in two halves, divided by time.
    ///
    /// # Errors
    ///
    /// Returns an error if the temporary files cannot be written: they take about 700 bytes per
    /// packet.
    pub fn generate(packets: u64) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let flows = (packets / FLOW_PACKETS).max(1);
        let mut mix =
            Mix::new(MixConfig { flows, packets, ..MixConfig::default() }).map_err(io::Error::other)?;
        let paths = ["whole.pcap", "first.pcap", "second.pcap"].map(|name| folder.path().join(name));
        let open = |path: &PathBuf| {
            PcapWriter::new(BufWriter::with_capacity(1 << 20, File::create(path)?), PcapOptions::default())
        };
        let [mut whole, mut first, mut second] = [open(&paths[0])?, open(&paths[1])?, open(&paths[2])?];
        let mut frame = Vec::new();
        for number in 0..packets {
            let Some(meta) = mix.next_into(&mut frame) else { break };
            let half = if number < packets / 2 { &mut first } else { &mut second };
            for writer in [&mut whole, half] {
                writer.write(meta.time_ns, meta.wire_bytes, &frame)?;
            }
        }
        for writer in [whole, first, second] {
            writer.finish()?;
        }
        let [whole, first, second] = paths;
        Ok(Self { whole, parts: [first, second], packets, folder })
    }
}

/// A method to process the whole capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Inline,
    TwoPrograms,
    Sharded(usize),
    Pipeline,
}

impl Variant {
    fn name(self) -> String {
        match self {
            Self::Inline => String::from("inline"),
            Self::TwoPrograms => String::from("two programs"),
            Self::Sharded(workers) => format!("sharded {workers}"),
            Self::Pipeline => String::from("pipeline 2"),
        }
    }
}

/// The measured variants.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The flowloom command.
    pub flowloom: &'a Path,
    /// The input.
    pub capture: &'a Halves,
    /// Number of rounds of each work, after one warm-up round.
    pub rounds: usize,
    /// Numbers of workers in the sharded layout; two is always included.
    pub workers: &'a [usize],
    /// Two CPUs for two programs; if there are fewer, the system chooses.
    pub cpus: &'a [u32],
}

impl Bench<'_> {
    /// Measures everything: the times of each variant, and the comparisons.
    ///
    /// # Errors
    ///
    /// Returns an error if a program fails or two variants disagree; then no times are reported.
    pub fn run(&self) -> Result<(Vec<JudgedResult>, Vec<JudgedRow>), String> {
        let mut workers = self.workers.to_vec();
        workers.push(2);
        workers.sort_unstable();
        workers.dedup();
        let variants: Vec<Variant> = [Variant::Inline, Variant::TwoPrograms, Variant::Pipeline]
            .into_iter()
            .chain(workers.into_iter().map(Variant::Sharded))
            .collect();
        let (mut results, mut ratios) = (Vec::new(), Vec::new());
        self.write_rules()?;
        for work in WORKS {
            let (app, ..) = work;
            let digests = Answers::default();
            let mut rounds = Rounds::new(self.rounds);
            for &variant in &variants {
                let digests = &digests;
                rounds = rounds.variant_with_lap(variant.name(), move |lap| {
                    let ran = self.go(variant, work, digests);
                    // A lap without a time would conceal the error.
                    lap.add(ran.as_ref().copied().unwrap_or_default());
                    ran.map(|_| ())
                });
            }
            let outcome = rounds.run().map_err(|error| format!("{app}: {error}"))?;
            outcome.answer.map_err(|error| format!("{app}: {error}"))?;
            results.extend(outcome.samples.iter().flat_map(|samples| times(app, samples)));
            ratios.extend(comparisons(app, self.capture.packets, &outcome.samples));
        }
        Ok((results, ratios))
    }

    /// Writes the rules of the firewall.
    fn write_rules(&self) -> Result<(), String> {
        let mut command = Command::new(self.flowloom);
        command.args(["generate", "rules", "--rules", "1000", "--seed", &RULES_SEED.to_string(), "-o"]);
        let output = command.arg(self.capture.folder.path().join(RULES)).output();
        let output = output.map_err(|error| format!("cannot run {}: {error}", self.flowloom.display()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
    }

    /// Runs a variant, and checks its results.
    fn go(&self, variant: Variant, work: Work, digests: &Answers) -> Result<Elapsed, String> {
        let text = |error: io::Error| error.to_string();
        let [first, second] = &self.capture.parts;
        let whole = &self.capture.whole;
        let mut commands = match variant {
            Variant::Inline => vec![self.command(work, "inline", None, (whole, 0))],
            Variant::Sharded(workers) => vec![self.command(work, "sharded", Some(workers), (whole, 0))],
            Variant::Pipeline => vec![self.command(work, "pipeline", Some(2), (whole, 0))],
            Variant::TwoPrograms => [(first, 0), (second, 1)]
                .map(|(half, number)| self.command(work, "inline", None, (half.as_path(), number)))
                .into(),
        };
        if variant == Variant::TwoPrograms {
            // Otherwise each program would use the first CPU.
            for (at, command) in commands.iter_mut().enumerate() {
                match self.cpus {
                    [one, other, ..] => command.args(["--cores", &[one, other][at].to_string()]),
                    _ => command.arg("--no-pin"),
                };
            }
        }
        let before = clock::children_cpu_ns().map_err(text)?;
        let begun = clock::wall_ns();
        let spawn = |command: &mut Command| {
            let started = command.spawn();
            started.map_err(|error| format!("cannot run {}: {error}", self.flowloom.display()))
        };
        let children: Vec<Child> = commands.iter_mut().map(spawn).collect::<Result<_, _>>()?;
        let outputs: Vec<_> = children.into_iter().map(Child::wait_with_output).collect();
        let wall_ns = clock::wall_ns() - begun;
        let cpu_ns = clock::children_cpu_ns().map_err(text)? - before;
        let mut packets = 0;
        for (command, output) in commands.iter().zip(outputs) {
            let output = output.map_err(text)?;
            let answer = Answer::from_json(&output.stdout).filter(|_| output.status.success());
            let answer = answer.ok_or_else(|| {
                let output_text = String::from_utf8_lossy(&output.stderr);
                format!("{command:?}: {}: {}", output.status, output_text.trim_end())
            })?;
            packets += answer.packets;
            if variant != Variant::TwoPrograms {
                let halves =
                    [("as a half of the digest", answer.digest[0]), ("as the other", answer.digest[1])];
                digests.check(&variant.name(), &halves)?;
            }
        }
        if packets != self.capture.packets {
            return Err(format!("{} found {packets} packets of {}", variant.name(), self.capture.packets));
        }
        Ok(Elapsed { cpu_ns, wall_ns })
    }

    fn command(
        &self,
        (_, arguments, records): Work,
        layout: &str,
        workers: Option<usize>,
        (capture, number): (&Path, usize),
    ) -> Command {
        let mut command = Command::new(self.flowloom);
        let folder = self.capture.folder.path();
        command
            .current_dir(folder)
            .args(["replay", "-q", "--format", "json", "--layout", layout])
            .args(arguments);
        if let Some(extension) = records {
            command.arg("--flows").arg(folder.join(format!("records-{number}.{extension}")));
        }
        if let Some(workers) = workers {
            command.args(["--workers", &workers.to_string()]);
        }
        command.arg(capture).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The results that a program prints.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    packets: u64,
    digest: [u64; 2],
}

impl Answer {
    fn from_json(json: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(json).ok()?;
        let digest = value.get("digest")?.as_str()?;
        let half = |digits| u64::from_str_radix(digest.get(digits)?, 16).ok();
        let packets = value.get("packets")?.as_u64()?;
        Some(Self { packets, digest: [half(0..16)?, half(16..32)?] })
    }
}

/// Returns a variant's times: wall-clock time, and the time of all processors.
fn times(app: &str, samples: &Samples) -> [JudgedResult; 2] {
    [("wall", &samples.wall_ns), ("cpu", &samples.cpu_ns)].map(|(clock, times)| {
        let mut row = ResultRow::of_times(format!("{app} {clock}"), 1, 1_000_000, &samples.name, times);
        row.unit = String::from("ms");
        JudgedResult::new(row, None)
    })
}

/// Returns the comparisons of an application. A ratio is the rival's time divided by Flowloom's.
fn comparisons(app: &str, packets: u64, samples: &[Samples]) -> Vec<JudgedRow> {
    let ratio = |ours: &str, rival: &str, clock| {
        let samples_of = |name: &str| samples.iter().find(|samples| samples.name == name);
        let (ours, rival) = (samples_of(ours)?, samples_of(rival)?);
        let of_clock = |samples: &Samples| match clock {
            Clock::Cpu => samples.cpu_ns.clone(),
            Clock::Wall => samples.wall_ns.clone(),
        };
        let work = format!("{app} {}", ours.name);
        Some(RatioRow::of_times(work, packets, &rival.name, &of_clock(rival), &of_clock(ours)))
    };
    let of_programs = ratio("two programs", "inline", Clock::Wall);
    let mut rows: Vec<JudgedRow> = Vec::new();
    let mut add = |row: Option<RatioRow>, clock, goal| {
        rows.extend(row.map(|row| JudgedRow::new(row, clock, goal)));
    };
    add(of_programs, Clock::Wall, None);
    add(ratio(JUDGED, "two programs", Clock::Wall), Clock::Wall, Some(OF_TWO_PROGRAMS));
    add(ratio(JUDGED, "inline", Clock::Cpu), Clock::Cpu, Some(1.0 / CPU_MAX));
    for Samples { name, .. } in samples.iter().filter(|samples| samples.name.starts_with("sharded")) {
        add(ratio(name, "inline", Clock::Wall), Clock::Wall, None);
    }
    add(ratio("pipeline 2", "inline", Clock::Wall), Clock::Wall, None);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_the_packets_of_the_whole_in_order() {
        let halves = Halves::generate(101).unwrap();
        let records = |path: &Path| std::fs::read(path).unwrap()[24..].to_vec();
        let [first, second] = &halves.parts;
        assert_eq!([records(first), records(second)].concat(), records(&halves.whole));
        assert!(!records(first).is_empty() && !records(second).is_empty());
    }

    #[test]
    fn the_output_of_a_program_is_parsed() {
        let json = br#"{"packets": 7, "digest": "0000000000000001000000000000000f"}"#;
        assert_eq!(Answer::from_json(json), Some(Answer { packets: 7, digest: [1, 15] }));
        assert_eq!(Answer::from_json(br#"{"packets": 7}"#), None);
        assert_eq!(Answer::from_json(b"error"), None);
    }

    #[test]
    fn two_workers_are_judged_by_two_programs_and_by_the_processor_time_of_one_thread() {
        let samples = |name: &str, wall: u64, cpu: u64| Samples {
            name: name.to_owned(),
            wall_ns: vec![wall; 8],
            cpu_ns: vec![cpu; 8],
        };
        let judged = |two_programs: u64, cpu: u64| {
            let all = [
                samples("inline", 100, 100),
                samples("two programs", two_programs, 100),
                samples("sharded 2", 60, cpu),
                samples("sharded 4", 30, 120),
            ];
            comparisons("l7", 5, &all).iter().map(|judged| judged.met).collect::<Vec<_>>()
        };
        assert_eq!(judged(55, 111), [None, Some(true), Some(true), None, None]);
        assert_eq!(judged(50, 115), [None, Some(false), Some(false), None, None]);
    }
}
