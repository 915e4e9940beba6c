//! Generates captures and logs.

mod scenarios;
mod weblog;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flowloom::engine::Control;
use flowloom::traffic::synth::sample::Recipe;
use flowloom::traffic::synth::{Generate as Generator, Mix, MixConfig, PaperTrace, Sample};
use flowloom::traffic::write::{Interface, PcapOptions, PcapWriter, PcapngWriter, TimeUnit};

use crate::args::Common;
use crate::args::generate::{Generate, TimeUnitName, Trace};
use crate::compressed_file::check_compression;
use crate::exit::{Failure, Status, stdout_failure};
use crate::output::OutputFile;
use crate::progress::Steps;
use crate::render::generate::GenerateResult;
use crate::render::{counted, print};
use crate::signals::stop_on_signals;
use crate::verbs::generate_rules;

/// Runs the command.
pub fn run(arguments: &Generate, common: &Common) -> Result<Status, Failure> {
    match arguments {
        Generate::Trace(trace) => capture(trace, common),
        Generate::Rules(profile) => generate_rules::rules(profile, common),
        Generate::Headers(headers) => generate_rules::headers(headers, common),
        Generate::Weblog(weblog) => weblog::run(weblog, common),
        Generate::Scenarios(scenarios) => scenarios::run(scenarios, common),
    }
}

fn capture(trace: &Trace, common: &Common) -> Result<Status, Failure> {
    let begun = Instant::now();
    check_compression("--output", &trace.output)?;
    if trace.time_unit == TimeUnitName::Us && is_pcapng(&trace.output) {
        return Err(Failure::Usage(String::from(
            "--time-unit us is for pcap: pcapng is written in nanoseconds\n  omit it, or name a file .pcap",
        )));
    }
    let Planned { mut generator, what, snaplen, seed } = plan(trace)?;
    let snaplen = trace.snaplen.unwrap_or(snaplen);
    let to_stdout = trace.output.as_os_str() == "-";
    let failed = |error: io::Error| -> Failure {
        if to_stdout {
            stdout_failure(&error)
        } else {
            Failure::Output(format!("cannot write {}: {error}", trace.output.display()))
        }
    };
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let done = Arc::new(AtomicU64::new(0));
    let steps = Steps::start("generate", generator.packets(), Arc::clone(&done), common.quiet > 0);
    let generator = &mut *generator;
    let counts = if to_stdout {
        write(io::stdout().lock(), trace, snaplen, (generator, &done, &control))
    } else {
        // Half a capture is not the one that was asked for.
        OutputFile::open_whole(&trace.output).and_then(|file| {
            let counts = write(file.clone(), trace, snaplen, (generator, &done, &control))?;
            if !control.is_stopped() {
                file.finish()?;
            }
            Ok(counts)
        })
    };
    drop(steps);
    let counts = counts.map_err(failed)?;
    if control.is_stopped() {
        let packets = counted(counts.packets, "packet");
        return Err(Failure::Interrupted(if to_stdout {
            format!("interrupted after {packets}")
        } else {
            format!("interrupted after {packets}: {} was not written", trace.output.display())
        }));
    }
    let result = GenerateResult {
        schema: "flowloom/generate/1",
        path: trace.output.display().to_string(),
        what,
        seed,
        packets: counts.packets,
        bytes_on_wire: counts.bytes_on_wire,
        bytes_captured: counts.bytes_captured,
        seconds: begun.elapsed().as_secs_f64(),
    };
    // With the capture on standard output, no report may appear there.
    if !to_stdout {
        print(&result, common)?;
    }
    Ok(Status::Ok)
}

/// A selected generator.
struct Planned {
    generator: Box<dyn Generator>,
    /// A description of its output.
    what: String,
    snaplen: u32,
    /// The seed of its bytes; a sample has a fixed seed.
    seed: u64,
}

fn plan(trace: &Trace) -> Result<Planned, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let whole = PcapOptions::default().snaplen_bytes;
    if let Some(name) = &trace.sample {
        let Some(sample) = Sample::named(name) else {
            let names: Vec<&str> = Sample::all().iter().map(|sample| sample.name).collect();
            return Err(Failure::Usage(format!(
                "there is no sample '{name}'\n  samples: {}",
                names.join(", ")
            )));
        };
        let seed = match &sample.recipe {
            Recipe::Mix(config) => config.seed,
            Recipe::Paper { seed, .. } => *seed,
            _ => trace.seed,
        };
        let what = format!("sample {name}: {}", sample.about);
        return Ok(Planned { generator: sample.generator(), what, snaplen: sample.snaplen_bytes, seed });
    }
    let paper = match (trace.paper_file, trace.sessions) {
        (Some(number), _) => Some(PaperTrace::file(number, trace.seed)),
        (None, Some(sessions)) => Some(PaperTrace::with_sessions(sessions, trace.seed)),
        (None, None) => None,
    };
    if let Some(paper) = paper {
        let paper = paper.map_err(|error| usage(&error))?;
        let what = format!(
            "{} of 20 packets, reuse distance one less than that",
            counted(paper.sessions(), "session")
        );
        return Ok(Planned { generator: Box::new(paper), what, snaplen: whole, seed: trace.seed });
    }
    let config = MixConfig {
        flows: trace.flows,
        packets: trace.packets,
        zipf: trace.zipf,
        size: trace.size,
        v6_permille: trace.v6,
        vlan_permille: trace.vlan,
        fragment_permille: trace.fragments,
        other_permille: trace.other,
        burst_packets: trace.bursts,
        syn_flood: trace.syn_flood,
        rate_pps: trace.rate,
        seed: trace.seed,
        ..MixConfig::default()
    };
    let what = format!("a mixture of {}", counted(trace.flows, "flow"));
    let mix = Mix::new(config).map_err(|error| usage(&error))?;
    Ok(Planned { generator: Box::new(mix), what, snaplen: whole, seed: trace.seed })
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    bytes_on_wire: u64,
    bytes_captured: u64,
}

/// Writes everything with the compression that the extension of the path selects.
fn write(
    out: impl Write,
    trace: &Trace,
    snaplen: u32,
    generator: (&mut dyn Generator, &AtomicU64, &Control),
) -> io::Result<Counts> {
    let out = BufWriter::with_capacity(1 << 20, out);
    match trace.output.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => {
            let packed = zstd::Encoder::new(out, 3)?;
            let (counts, packed) = records(packed, trace, snaplen, generator)?;
            packed.finish()?.flush()?;
            Ok(counts)
        }
        Some("gz") => {
            let packed = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            let (counts, packed) = records(packed, trace, snaplen, generator)?;
            packed.finish()?.flush()?;
            Ok(counts)
        }
        _ => {
            let (counts, mut out) = records(out, trace, snaplen, generator)?;
            out.flush()?;
            Ok(counts)
        }
    }
}

/// Writes all packets until it is stopped, and keeps the count of those written in `done`.
fn records<W: Write>(
    out: W,
    trace: &Trace,
    snaplen: u32,
    (generator, done, control): (&mut dyn Generator, &AtomicU64, &Control),
) -> io::Result<(Counts, W)> {
    let mut counts = Counts::default();
    let mut frame = Vec::new();
    let mut count = |wire: u32, frame: &[u8]| {
        counts.packets += 1;
        done.store(counts.packets, Ordering::Relaxed);
        counts.bytes_on_wire += u64::from(wire);
        counts.bytes_captured += (frame.len() as u64).min(u64::from(snaplen));
    };
    let mut next = |frame: &mut Vec<u8>| generator.next_into(frame).filter(|_| !control.is_stopped());
    let out = if is_pcapng(&trace.output) {
        let interface = Interface { snaplen_bytes: snaplen, ..Interface::default() };
        let mut writer = PcapngWriter::new(out, vec![interface])?;
        while let Some(meta) = next(&mut frame) {
            writer.write(0, meta.time_ns, meta.wire_bytes, &frame)?;
            count(meta.wire_bytes, &frame);
        }
        writer.finish()?
    } else {
        let time_unit = match trace.time_unit {
            TimeUnitName::Us => TimeUnit::Micro,
            TimeUnitName::Ns => TimeUnit::Nano,
        };
        let options = PcapOptions { time_unit, snaplen_bytes: snaplen, ..PcapOptions::default() };
        let mut writer = PcapWriter::new(out, options)?;
        while let Some(meta) = next(&mut frame) {
            writer.write(meta.time_ns, meta.wire_bytes, &frame)?;
            count(meta.wire_bytes, &frame);
        }
        writer.finish()?
    };
    Ok((counts, out))
}

/// Returns whether the extension of a path selects pcapng, compressed or not.
fn is_pcapng(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".gz")).unwrap_or(&name);
    Path::new(name).extension().is_some_and(|extension| extension == "pcapng")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extension_selects_the_format() {
        assert!(is_pcapng(Path::new("a/b.pcapng")));
        assert!(is_pcapng(Path::new("b.PCAPNG.zst")));
        assert!(!is_pcapng(Path::new("b.pcap.gz")));
        assert!(!is_pcapng(Path::new("-")));
    }
}
