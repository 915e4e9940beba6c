//! Shows the contents of a capture, and the purposes that it suits.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flowloom::cpu::topology::Topology;
use flowloom::engine::Control;
use flowloom::packet::{DropReason, EncapsulationCounts, Fill, PacketBatch, PacketSource, decode};
use flowloom::traffic::capture::{CaptureOptions, CaptureSet, Input, SetOptions, UnpackLimits};
use flowloom::traffic::dedup::Dedup;
use sha2::{Digest, Sha256};

use crate::args::Common;
use crate::args::inspect::Inspect;
use crate::exit::{Failure, Status, check_decodable};
use crate::profile::{OddTime, Profiler};
use crate::progress::{Progress, label};
use crate::render::inspect::{FileFigures, InspectResult};
use crate::render::losses::LossFigures;
use crate::render::{date, print, say_error, warn, warn_of};
use crate::signals::stop_on_signals;

/// Runs the command.
pub(crate) fn run(arguments: &Inspect, common: &Common) -> Result<Status, Failure> {
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    let limits = UnpackLimits {
        bytes_max: arguments.unpack_max,
        ratio_max: arguments.unpack_ratio_max,
        ..UnpackLimits::default()
    };
    let capture = CaptureOptions { map: !arguments.no_mmap, limits, ..CaptureOptions::default() };
    let mut source = CaptureSet::open(&inputs, SetOptions { capture, ..SetOptions::default() })?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    source.stop_when({
        let control = Arc::clone(&control);
        move || control.is_stopped()
    });
    let title = format!("inspect  {}", label(&arguments.inputs));
    let progress = Progress::start(title, source.progress(), Arc::clone(&control), common.quiet > 0);
    let mut profiler = Profiler::new(arguments.timeout);
    let options = arguments.decoding.options()?;
    let mut counts = EncapsulationCounts::default();
    let mut batch = PacketBatch::new();
    let mut deduplicated;
    let reader: &mut dyn PacketSource = match arguments.dedup {
        Some(window) => {
            deduplicated = Dedup::new(&mut source, window);
            &mut deduplicated
        }
        None => &mut source,
    };
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut number = 0;
    let mut fault = None;
    while left > 0 && !control.is_stopped() {
        match reader.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => break,
            Err(error) => {
                check_decodable(arguments.limit.unwrap_or(u64::MAX) - left, &error)?;
                fault = Some(error.to_string());
                break;
            }
        }
        let Some(block) = &batch.block else { continue };
        let packets = batch.packets.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        for raw in &batch.packets[..packets] {
            left -= 1;
            let bytes = raw.bytes_in(block.bytes());
            let decoded = decode(raw.link, bytes, options);
            number += 1;
            counts.look(number, raw.link, bytes, options, decoded.as_ref());
            let wire = match &decoded {
                Ok(headers) => counts.look_at_length(number, headers, bytes, raw.wire_bytes),
                Err(_) => counts.look_at_length_without_key(number, bytes, raw.wire_bytes),
            };
            profiler.add(raw, bytes, decoded.as_ref().map_err(|&reason| reason), wire);
        }
    }
    drop(progress);
    let duplicates = arguments.dedup.map(|_| reader.withheld().get(DropReason::Duplicate));
    if left == 0 {
        source.check_decodable()?;
    }
    let files = source
        .files()
        .iter()
        .map(|file| FileFigures {
            path: file.path.display().to_string(),
            format: file.format.clone(),
            sections: file.sections,
            interfaces: file.interfaces,
            losses: LossFigures::list(&file.losses),
            link_types: file.links.iter().map(ToString::to_string).collect(),
            bytes: std::fs::metadata(&file.path).map_or(0, |metadata| metadata.len()),
            sha256: sha256(&file.path, &control),
        })
        .collect();
    let interrupted = control.is_stopped();
    let caches = Topology::read().map_or(0, |topology| topology.caches.level3_bytes);
    let profile = profiler.finish(arguments.top);
    let mut result =
        InspectResult::new(files, &profile, &counts, arguments, caches, interrupted, fault.clone());
    result.duplicates = duplicates;
    let mut partial = false;
    for notice in source.notices() {
        partial |= notice.is_partial_input();
        result.notices.push(notice.to_string());
        warn_of(notice, arguments.strict, common);
    }
    if let Some(odd) = &profile.odd_time {
        warn(&of_time(odd), common);
    }
    print(&result, common)?;
    if let Some(fault) = fault {
        say_error(&fault, Status::Fault);
        return Ok(Status::Fault);
    }
    if interrupted {
        return Ok(Status::Interrupted);
    }
    Ok(if arguments.strict && partial { Status::PartialInput } else { Status::Ok })
}

/// Returns the warning of a time that is probably wrong.
fn of_time(OddTime { packet, time_ns, before_ns, why }: &OddTime) -> String {
    let before = before_ns
        .map_or(String::new(), |before| format!(" that of the packet before it, {}", date(before)));
    format!(
        "the time of packet {packet}, {}, is {why}{before}\n  the clock was wrong, or captures were \
         joined: editcap -t shifts times, mergecap sorts packets",
        date(*time_ns)
    )
}

/// Returns the digest of a regular file, or `None` once the run is to stop.
fn sha256(path: &Path, control: &Control) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        if control.is_stopped() {
            return None;
        }
        match file.read(&mut buffer).ok()? {
            0 => break,
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
    let bytes: Vec<String> = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(bytes.concat())
}
