//! Compares whole programs on a capture.

mod contender;
mod process;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom::cpu::features::Isa;
use flowloom::engine::Control;
use flowloom_measure::path::input::CaptureFile;
use flowloom_measure::{Elapsed, Host, Lap, RatioRow, Report, ResultRow, Rounds, Samples};
use serde_json::{Value, json};

use self::contender::{Contender, Counts, Ours};
use crate::args::Common;
use crate::args::bench::against::{Against, RivalName};
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::progress::Steps;
use crate::render::bench::BenchResult;
use crate::render::warn;
use crate::signals::stop_on_signals;

const MIB: u64 = 1 << 20;
/// Packets per flow of the generated mixture.
const FLOW_PACKETS: u64 = 20;

/// Runs the command.
pub(crate) fn run(arguments: &Against, common: &Common) -> Result<Status, Failure> {
    if arguments.rounds == 0 {
        return Err(Failure::Usage(String::from("--rounds must be at least 1")));
    }
    let _kept = arguments.save.open()?;
    let flowloom = std::env::current_exe()
        .map_err(|error| Failure::Experiment(format!("the path of this program is unknown: {error}")))?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let capture = open(arguments)?;
    let path = std::path::absolute(capture.path())
        .map_err(|error| Failure::Input(format!("{}: {error}", capture.path().display())))?;
    let all = contenders(arguments, &flowloom, common)?;
    let (contenders, answers) = checked(&all, &path, common)?;
    let Some(packets) = answers.first().and_then(|counts| *counts).map(|counts| counts.packets) else {
        return Err(Failure::Experiment(String::from("flowloom replay reported no packets")));
    };
    if arguments.capture.is_none() && packets != arguments.packets {
        return Err(Failure::Experiment(format!(
            "{} packets were generated, but flowloom replay found {packets}",
            arguments.packets
        )));
    }
    let done = Arc::new(AtomicU64::new(0));
    let runs = (contenders.len() * arguments.rounds) as u64;
    let steps = Steps::start("bench against", runs, Arc::clone(&done), common.quiet > 0);
    let timed = time(&contenders, &path, arguments.rounds, (&control, &done))?;
    drop(steps);
    let mut report = Report::new(tool(), Host::read(Isa::detect().to_string(), &[]));
    report.input = Some(json!({
        "capture": capture.name,
        "packets": packets,
        "capture_bytes": std::fs::metadata(&path).map_or(0, |file| file.len()),
        "answers": contenders.iter().zip(&answers).map(|(contender, counts)| json!({
            "variant": contender.name,
            "packets": counts.map(|counts| counts.packets),
            "tracked": counts.and_then(|counts| counts.tracked),
            "flows": counts.and_then(|counts| counts.flows),
        })).collect::<Vec<Value>>(),
    }));
    report.complete = timed.complete;
    for work in [Work::Cpu, Work::Wall, Work::Memory] {
        report.results.extend(timed.rows(work, packets));
    }
    report.ratios = timed.ratios(&contenders, packets);
    let status = if report.complete { Status::Ok } else { Status::Interrupted };
    BenchResult { title: "bench against", report }.finish(&arguments.save, common)?;
    Ok(status)
}

fn open(arguments: &Against) -> Result<CaptureFile, Failure> {
    match &arguments.capture {
        Some(path) => {
            CaptureFile::open(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
        }
        None => CaptureFile::generate(arguments.packets, (arguments.packets / FLOW_PACKETS).max(1))
            .map_err(|error| Failure::Experiment(format!("the mixture cannot be generated: {error}"))),
    }
}

/// Returns the programs to compare: `flowloom replay` first, then its other modes, then rivals.
fn contenders(arguments: &Against, flowloom: &Path, common: &Common) -> Result<Vec<Contender>, Failure> {
    let all = [RivalName::Nfpcapd, RivalName::Softflowd, RivalName::Tshark, RivalName::Nfstream];
    let asked = &arguments.rivals;
    let mut rivals = Vec::new();
    for name in if asked.is_empty() { &all[..] } else { asked } {
        match Contender::rival(*name, &arguments.python) {
            Ok(rival) => rivals.push(rival),
            Err(_) if *name == RivalName::None => {}
            Err(why) if asked.is_empty() => warn(&format!("no row of {}: {why}", shown(*name)), common),
            Err(why) => return Err(Failure::Usage(format!("--rival {}: {why}", shown(*name)))),
        }
    }
    rivals.extend(Contender::command(&arguments.command));
    let mut ours = vec![Ours::NoRecords, Ours::Ipfix];
    if cfg!(feature = "parquet") {
        ours.push(Ours::Parquet);
    }
    for kind in [Ours::AllFields, Ours::Conversations] {
        if rivals.iter().any(|rival| rival.beside == Some(kind)) {
            ours.push(kind);
        }
    }
    Ok(ours.into_iter().map(|ours| Contender::ours(flowloom, ours)).chain(rivals).collect())
}

fn shown(name: RivalName) -> String {
    clap::ValueEnum::to_possible_value(&name).map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Runs each program once and keeps those that work and count the same packets as Flowloom.
fn checked<'a>(
    all: &'a [Contender],
    capture: &Path,
    common: &Common,
) -> Result<(Vec<&'a Contender>, Vec<Option<Counts>>), Failure> {
    let mut kept = Vec::new();
    let mut answers: Vec<Option<Counts>> = Vec::new();
    for contender in all {
        let counts = match contender.run(capture) {
            Ok((_, counts)) => counts,
            Err(why) if contender.beside.is_none() => {
                return Err(Failure::Experiment(format!("{} failed: {why}", contender.name)));
            }
            Err(why) => {
                warn(&format!("no row of {}: {why}", contender.name), common);
                continue;
            }
        };
        match (counts, answers.first().copied().flatten()) {
            (Some(theirs), Some(ours)) if !theirs.agrees_with(ours) => {
                let text = format!(
                    "no row of {}: it counts {} packets, but flowloom replay counts {}",
                    contender.name, theirs.packets, ours.packets
                );
                if contender.beside.is_none() {
                    return Err(Failure::Experiment(text));
                }
                warn(&text, common);
                continue;
            }
            (None, _) => {
                warn(
                    &format!(
                        "{} reports no number of packets, so its count is not checked",
                        contender.name
                    ),
                    common,
                );
            }
            _ => {}
        }
        kept.push(contender);
        answers.push(counts);
    }
    Ok((kept, answers))
}

/// The quantity that a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Cpu,
    Wall,
    Memory,
}

/// Times and memory of all rounds, by program.
struct Timed {
    samples: Vec<Samples>,
    resident_bytes: Vec<Vec<u64>>,
    complete: bool,
}

/// Runs the rounds.
fn time(
    contenders: &[&Contender],
    capture: &Path,
    rounds: usize,
    (control, done): (&Control, &AtomicU64),
) -> Result<Timed, Failure> {
    let failed = RefCell::new(None);
    let resident = RefCell::new(vec![Vec::new(); contenders.len()]);
    let mut all = Rounds::new(rounds).warm_up(0);
    for (index, contender) in contenders.iter().enumerate() {
        let (failed, resident) = (&failed, &resident);
        all = all.variant_with_lap(contender.name.clone(), move |lap: &mut Lap| {
            if control.is_stopped() || failed.borrow().is_some() {
                lap.add(Elapsed::default());
                return;
            }
            let (elapsed, bytes) = match contender.run(capture) {
                Ok((usage, _)) => (usage.elapsed, usage.resident_bytes),
                Err(why) => {
                    failed.borrow_mut().get_or_insert(format!("{}: {why}", contender.name));
                    (Elapsed::default(), 0)
                }
            };
            lap.add(elapsed);
            done.fetch_add(1, Ordering::Relaxed);
            resident.borrow_mut()[index].push(bytes);
        });
    }
    let outcome = all.run_while(|| !control.is_stopped() && failed.borrow().is_none());
    let stopped = control.is_stopped();
    if let Some(why) = failed.into_inner().filter(|_| !stopped) {
        return Err(Failure::Experiment(why));
    }
    let mut timed = match outcome {
        Ok(outcome) => Timed {
            samples: outcome.samples,
            resident_bytes: resident.into_inner(),
            complete: outcome.complete && !stopped,
        },
        Err(_) if stopped => Timed { samples: Vec::new(), resident_bytes: Vec::new(), complete: false },
        Err(error) => return Err(Failure::Experiment(error.to_string())),
    };
    if stopped {
        timed.drop_last_round();
    }
    Ok(timed)
}

impl Timed {
    /// Removes the round in which the run was interrupted.
    fn drop_last_round(&mut self) {
        for samples in &mut self.samples {
            samples.cpu_ns.pop();
            samples.wall_ns.pop();
        }
        let rounds = self.samples.first().map_or(0, |samples| samples.cpu_ns.len());
        for bytes in &mut self.resident_bytes {
            bytes.truncate(rounds);
        }
        if rounds == 0 {
            self.samples.clear();
        }
    }

    fn rows(&self, work: Work, packets: u64) -> Vec<ResultRow> {
        let row = |(samples, bytes): (&Samples, &Vec<u64>)| {
            let (name, times, items, unit) = match work {
                Work::Cpu => ("processor time", &samples.cpu_ns, packets, "ns/packet"),
                Work::Wall => ("wall time", &samples.wall_ns, packets, "ns/packet"),
                Work::Memory => ("resident memory", bytes, MIB, "MiB"),
            };
            let mut row = ResultRow::of_times(name, packets, items, &samples.name, times);
            unit.clone_into(&mut row.unit);
            row
        };
        self.samples.iter().zip(&self.resident_bytes).map(row).collect()
    }

    /// Returns the ratio of each rival's time to Flowloom's, and the cost of Flowloom's outputs
    /// relative to no output.
    fn ratios(&self, contenders: &[&Contender], packets: u64) -> Vec<RatioRow> {
        let mut rows = Vec::new();
        for (contender, theirs) in contenders.iter().zip(&self.samples) {
            let ours = match contender.beside {
                Some(ours) => ours.name(),
                None if contender.name == Ours::NoRecords.name() => continue,
                None => Ours::NoRecords.name(),
            };
            let Some(ours) = self.samples.iter().find(|samples| samples.name == ours) else { continue };
            for (clock, ours_ns, theirs_ns) in [
                ("processor time", &ours.cpu_ns, &theirs.cpu_ns),
                ("wall time", &ours.wall_ns, &theirs.wall_ns),
            ] {
                let work = format!("{}, {clock}", ours.name);
                let row = RatioRow::of_times(work, packets, &theirs.name, theirs_ns, ours_ns);
                let row = row.for_repeats(theirs_ns, ours_ns);
                rows.push(row.with_items(packets, theirs_ns, ours_ns));
            }
        }
        rows
    }
}
