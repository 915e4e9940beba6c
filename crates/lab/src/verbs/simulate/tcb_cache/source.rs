//! The source of the accesses: a log, a trace, a capture, or a model.

use std::io;
use std::path::Path;
use std::sync::Arc;

use flowloom::cpu::memory;
use flowloom::engine::Control;
use flowloom::tcb_cache::Access;
use flowloom::tcb_cache::model::{LoggedSessions, Overlap, SessionSource, Surge, SurgeConfig};
use flowloom::tcb_cache::trace::{Format, ReadError, ReadLimits, ReadSummary, read_accesses, read_log};

use crate::args::simulate::tcb_cache::{ModelName, TcbCache};
use crate::decompressed::{open, plain_name};
use crate::exit::Failure;
use crate::render::simulate::tcb_cache::{ReadFigures, TraceFigures};

use super::capture;
use super::loaded::{Loaded, Unloaded};

/// Peak memory per record while reading, in bytes: two copies of a log entry and its request.
const RECORD_BYTES_PEAK: u64 = 96;

/// Loads the trace that the arguments name; if stopped, as far as it was read.
pub(super) fn load(arguments: &TcbCache, control: &Arc<Control>) -> Result<Loaded, Failure> {
    let fault = match load_whole(arguments, control) {
        Ok(loaded) => return Ok(loaded),
        Err(Unloaded::TooLittle(_)) if control.is_stopped() => None,
        Err(Unloaded::Failed(failure)) if control.is_stopped() => Some(failure),
        Err(Unloaded::TooLittle(failure) | Unloaded::Failed(failure)) => return Err(failure),
    };
    let name = arguments.trace.as_ref().map_or(String::new(), |path| path.display().to_string());
    let form = arguments.trace_format.map_or(String::from("unknown"), |format| format.to_string());
    let figures = TraceFigures::new(&name, &form);
    Ok(Loaded { accesses: Vec::new(), figures, skipped: 0, foreign: false, fault })
}

fn load_whole(arguments: &TcbCache, control: &Arc<Control>) -> Result<Loaded, Unloaded> {
    let Some(path) = &arguments.trace else {
        let Some(ModelName::S) = arguments.model else {
            return Err(Failure::Usage(String::from("a TRACE or a --model is needed")).into());
        };
        let config = SurgeConfig { think_factor: arguments.think, ..SurgeConfig::default() };
        let mut figures = TraceFigures::new("model s", "model");
        figures.model = Some(format!("s, think × {}", arguments.think));
        let accesses = overlapped(arguments, &mut Surge::new(config, arguments.seed), &mut figures)?;
        return Ok(Loaded { accesses, figures, skipped: 0, foreign: false, fault: None });
    };
    let name = path.display().to_string();
    let failed = |error: io::Error| {
        let failure = Failure::Input(format!("cannot read {name}: {error}"));
        // A compressed input that ends early ends within a record.
        let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        if is_cut { Unloaded::TooLittle(failure) } else { Unloaded::Failed(failure) }
    };
    let unpacked = open(path, arguments.unpack_max, control).map_err(failed)?;
    if unpacked.head.is_empty() {
        return Err(Unloaded::TooLittle(empty(&name)));
    }
    if arguments.trace_format.is_none() && capture::is_capture(&unpacked.head) {
        no_overlap(arguments, "a capture")?;
        return capture::load(path, arguments, &|| control.is_stopped());
    }
    let format = match arguments.trace_format {
        Some(format) => format,
        None => Format::detect(&plain_name(path), &unpacked.head)
            .ok_or_else(|| Unloaded::TooLittle(unknown_format(path)))?,
    };
    // Records stay in memory, and the list doubles as it grows; the limit keeps it within the free
    // memory.
    let fits = memory::available_bytes().unwrap_or(u64::MAX) / RECORD_BYTES_PEAK;
    let limits =
        ReadLimits { records_max: usize::try_from(arguments.limit.min(fits)).unwrap_or(usize::MAX) };
    let read_failed = |error: ReadError| match error {
        ReadError::Io { error: ref inner, .. } => failed(io::Error::new(inner.kind(), error.to_string())),
        error => Unloaded::TooLittle(Failure::Input(format!(
            "{name} as {format}: {error}\n  set the format with --trace-format: {}",
            formats()
        ))),
    };
    let mut figures = TraceFigures::new(&name, &format.to_string());
    if !format.is_log() {
        no_overlap(arguments, "a trace of accesses")?;
        let (accesses, summary) = read_accesses(unpacked.input, format, limits).map_err(read_failed)?;
        figures.read = Some(read_figures(&summary));
        let foreign = format != Format::Csv;
        return Ok(Loaded { accesses, figures, skipped: summary.skipped_in_all(), foreign, fault: None });
    }
    let (entries, summary) = read_log(unpacked.input, format, limits).map_err(read_failed)?;
    // If a log has only whole seconds, its requests are spread over each second.
    let jitter = entries.iter().all(|entry| entry.time_ms % 1000 == 0).then_some(arguments.seed);
    let sessions = LoggedSessions::cut(entries, jitter);
    figures.read = Some(read_figures(&summary));
    figures.sessions = Some(sessions.len() as u64);
    let accesses = if arguments.overlap.is_some() {
        overlapped(arguments, &mut sessions.drawn(), &mut figures)?
    } else {
        let packets = arguments.packet_model();
        figures.packets = Some(packets.to_string());
        figures.ports = Some(arguments.ports.to_string());
        sessions.as_logged(packets, arguments.ports, arguments.seed)
    };
    Ok(Loaded { accesses, figures, skipped: summary.skipped_in_all(), foreign: false, fault: None })
}

fn empty(name: &str) -> Failure {
    let named = |is_log: bool| {
        let formats = Format::ALL.into_iter().filter(|format| format.is_log() == is_log);
        formats.map(|format| format.to_string()).collect::<Vec<_>>().join(", ")
    };
    Failure::Input(format!(
        "{name} is empty\n  a trace is a log ({}), a trace of accesses ({}) or a capture, or --model s",
        named(true),
        named(false)
    ))
}

fn unknown_format(path: &Path) -> Failure {
    Failure::Input(format!(
        "{} has an unknown format\n  set the format with --trace-format: {}",
        path.display(),
        formats()
    ))
}

fn formats() -> String {
    Format::ALL.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn no_overlap(arguments: &TcbCache, what: &str) -> Result<(), Failure> {
    if arguments.overlap.is_some() {
        return Err(Failure::Usage(format!(
            "--overlap does not apply to {what}\n  it overlaps the sessions of a log or a model"
        )));
    }
    Ok(())
}

/// Refuses workloads that do not fit into memory.
pub(crate) fn check_memory(accesses: u64) -> Result<(), Failure> {
    let needed = accesses.saturating_mul(Overlap::BYTES_PER_ACCESS);
    match memory::available_bytes() {
        Some(available) if needed > available => Err(Failure::Usage(format!(
            "{accesses} accesses take about {needed} bytes while they are generated, but {available} \
             are free\n  use a smaller --accesses"
        ))),
        _ => Ok(()),
    }
}

fn overlapped(
    arguments: &TcbCache,
    source: &mut dyn SessionSource,
    figures: &mut TraceFigures,
) -> Result<Vec<Access>, Failure> {
    let overlap = Overlap {
        sessions: arguments.overlap.unwrap_or(1),
        accesses: usize::try_from(arguments.accesses).unwrap_or(usize::MAX),
        packets: arguments.packet_model(),
        ports: arguments.ports,
        seed: arguments.seed,
    };
    check_memory(arguments.accesses)?;
    let workload = overlap.make(source).map_err(|error| Failure::Usage(error.to_string()))?;
    figures.overlap = Some(overlap.sessions.into());
    figures.packets = Some(overlap.packets.to_string());
    figures.ports = Some(overlap.ports.to_string());
    figures.connections = Some(workload.connections);
    Ok(workload.accesses)
}

fn read_figures(summary: &ReadSummary) -> ReadFigures {
    ReadFigures {
        records: summary.records,
        used: summary.used,
        skipped: summary.reasons().map(|(reason, count)| (reason.name(), count)).collect(),
        time_backwards: summary.time_backwards,
        limited: summary.limited,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: TcbCache,
    }

    fn loaded(path: &Path, is_stopped: bool) -> Result<Loaded, Failure> {
        let line = Line::try_parse_from([Path::new("tcb-cache"), path]).unwrap();
        let control = Arc::new(Control::default());
        if is_stopped {
            control.stop();
        }
        load(&line.arguments, &control)
    }

    #[test]
    fn unreadable_file_is_reported_even_after_a_stop() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let no_gzip = file("no.gz", &[0x1F, 0x8B, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
        for path in [folder.path().join("none"), no_gzip] {
            let alone = loaded(&path, false).err().expect("it cannot be read");
            let stopped = loaded(&path, true).unwrap();
            assert!(stopped.accesses.is_empty());
            let fault = stopped.fault.expect("it still cannot be read");
            assert_eq!((fault.status(), fault.text()), (alone.status(), alone.text()));
        }
        // A process that ended too early may have ended because of the stop.
        let cut_gzip = file("cut.gz", &[0x1F, 0x8B, 8, 0, 0, 0]);
        for path in [file("empty", b""), file("word", b"10.0.0"), cut_gzip] {
            assert!(loaded(&path, false).is_err());
            assert!(loaded(&path, true).unwrap().fault.is_none(), "{}", path.display());
        }
    }
}
