//! Writes the packets of some flows to a capture, in two passes over the input.
//!
//! ```text
//!  pass 1  records that match --where and --flow  ──▶ wanted keys, with times
//!          packets that --rules accept            ──▶ their numbers, for --verdict
//!          packets that match --filter            ──▶ wanted keys
//!  pass 2  packets of wanted keys, with the verdict ──▶ pcapng
//! ```

mod indexed;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom::engine::{Control, PacketSink, Released, SinkError, Verdict};
use flowloom::filter::PacketFilter;
use flowloom::flow_key::FlowKey;
use flowloom::packet::drop_reason::DropReason;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource as _, RawPacket, decode};
use flowloom::traffic::capture::{CaptureSet, Input, Notice, SetOptions};

use crate::args::Common;
use crate::args::extract::Extract;
use crate::args::record_input::RecordInput;
use crate::args::replay::{LayoutName, Replay};
use crate::compressed_file::{Compression, check_compression};
use crate::exit::{Failure, Status, check_decodable};
use crate::host::tool;
use crate::output::{OutputFile, is_one_file};
use crate::progress::{Progress, label};
use crate::render::extract::ExtractResult;
use crate::render::{print, say_error, warn, warn_of, warn_of_unchanged};
use crate::signals::stop_on_signals;

use super::replay::{Selected, Selection, capture_sink, look, set_options};

/// Runs the command.
pub(crate) fn run(arguments: &Extract, common: &Common) -> Result<Status, Failure> {
    let input = &arguments.input;
    if arguments.verdict.is_none() {
        input.check(", or --verdict deny for packets")?;
    }
    if let Some(index) = &arguments.index {
        return indexed::run(arguments, index, common);
    }
    check_inputs(input)?;
    let selects_records = input.record_filter.is_some() || !arguments.flow.is_empty();
    // Packets without a flow have neither a record nor a verdict.
    let by_record = selects_records || arguments.verdict.is_some();
    if !by_record && input.filter.is_none() && input.from.is_none() && input.to.is_none() {
        return Err(Failure::Usage(String::from(
            "extract writes the packets of selected flows, or of a time\n  select them with --where, --flow, \
             --filter or --verdict, or the time with --from and --to",
        )));
    }
    let mut replay = input.replay();
    replay.layout = Some(LayoutName::Inline);
    // Records cover all packets of a flow: the filter selects flows, not packets.
    let filter = replay.live.filter.take();
    let mut passes = Passes::new(arguments, &replay)?;
    check_compression("--output", passes.output)?;
    let ending =
        Compression::from_path(passes.output).1.extension().unwrap_or_default().to_ascii_lowercase();
    if ["csv", "json", "jsonl", "parquet", "arrow", "arrows", "txt"].iter().any(|other| ending == *other) {
        return Err(Failure::Usage(format!(
            "--output {}: extract writes packets, as .pcap or .pcapng\n  `flowloom replay --flows` writes records",
            passes.output.display()
        )));
    }
    let file = OutputFile::open(passes.output).map_err(|error| {
        Failure::Output(format!("cannot write packets to {}: {error}", passes.output.display()))
    })?;

    let Some((mut wanted, records, mut notices)) = passes.wanted(&replay, filter, common)? else {
        return Ok(Status::Interrupted);
    };

    let failed = |error: &dyn std::fmt::Display| passes.cannot_write(error, &file);
    let mut sink = capture_sink(file.clone(), passes.output)?;
    if file.has_old_contents() {
        sink = sink.without_empty_capture();
    }
    let (mut written, mut bytes_captured) = (0_u64, 0_u64);
    let mut found = HashSet::new();
    let pass = passes.each(&replay, common, |key, (raw, bytes), number| {
        let is_wanted = match &key {
            Some(key) => wanted.has(key, raw.time_ns) && wanted.has_verdict(number),
            None => !by_record && wanted.matches(raw, bytes)?,
        };
        if !is_wanted {
            return Ok(());
        }
        let packet = Released::new(bytes, raw.wire_bytes, raw.time_ns, raw.link);
        sink.take(&packet).map_err(|error| failed(&error))?;
        found.extend(key);
        written += 1;
        bytes_captured += u64::from(raw.captured_bytes);
        Ok(())
    })?;
    sink.finish().map_err(|error| failed(&error))?;
    warn_if_nothing(written, file.has_old_contents(), passes.output, common);
    if !by_record {
        if let Some(why) = &pass.outside {
            warn(why, common);
        }
        for notice in &pass.notices {
            warn_of(notice, input.strict, common);
        }
        notices = pass.notices.iter().map(ToString::to_string).collect();
    }
    let result = ExtractResult {
        schema: "flowloom/extract/1",
        tool: tool(),
        inputs: input.inputs.iter().map(|path| path.display().to_string()).collect(),
        output: passes.output.display().to_string(),
        records,
        flows: found.len() as u64,
        packets_read: pass.packets,
        packets: written,
        bytes_captured,
        index: None,
        notices,
        interrupted: pass.interrupted,
        fault: pass.fault,
    };
    print(&result, common)?;
    if let Some(fault) = &result.fault {
        say_error(fault, Status::Fault);
        return Ok(Status::Fault);
    }
    if result.interrupted {
        return Ok(Status::Interrupted);
    }
    let is_partial = pass.notices.iter().any(Notice::is_partial_input);
    Ok(if input.strict && is_partial { Status::PartialInput } else { Status::Ok })
}

/// Refuses ends of flows as captures: what a shell leaves of a flow without quotes.
fn check_inputs(input: &RecordInput) -> Result<(), Failure> {
    let is_end = |path: &&PathBuf| {
        let text = path.to_str().unwrap_or_default();
        (text.parse::<SocketAddr>().is_ok() || text.parse::<IpAddr>().is_ok()) && !path.exists()
    };
    if let Some(end) = input.inputs.iter().find(is_end) {
        return Err(Failure::Usage(format!(
            "{} is an end of a flow and not a capture\n  quote the flow, or write commas: --flow \
             tcp,10.0.0.1:40000,192.0.2.1:443",
            end.display()
        )));
    }
    Ok(())
}

/// Says that no packet belongs to a selected flow, and that an existing file is unchanged.
fn warn_if_nothing(packets: u64, had_contents: bool, path: &Path, common: &Common) {
    if packets == 0 {
        if had_contents {
            return warn_of_unchanged("packet", path);
        }
        warn(&format!("no packet was selected: {} is a capture without packets", path.display()), common);
    }
}

/// The flows whose packets are written.
#[derive(Debug, Default)]
struct Wanted {
    /// For each key, the first and last times of its matching records.
    times: Option<HashMap<FlowKey, Vec<(u64, u64)>>>,
    /// The keys of matching packets.
    keys: Option<HashSet<FlowKey>>,
    /// Matches packets without a key.
    filter: Option<PacketFilter>,
    /// The verdict of packets, and those that the rules accept.
    verdict: Option<(Verdict, Accepted)>,
}

/// A bit for each packet of the input, set if rules accept it.
#[derive(Debug, Default)]
struct Accepted(Vec<u64>);

impl PacketSink for Accepted {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        let word = usize::try_from(packet.number / 64).map_err(|error| SinkError(error.into()))?;
        self.0.resize(self.0.len().max(word + 1), 0);
        self.0[word] |= 1 << (packet.number % 64);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Wanted {
    fn has(&self, key: &FlowKey, time_ns: u64) -> bool {
        let is_in = |times: &Vec<(u64, u64)>| {
            times.iter().any(|&(first, last)| first <= time_ns && time_ns <= last)
        };
        self.times.as_ref().is_none_or(|times| times.get(key).is_some_and(is_in))
            && self.keys.as_ref().is_none_or(|keys| keys.contains(key))
    }

    /// Returns whether a packet with a key, by its number from 0, has the verdict.
    fn has_verdict(&self, number: u64) -> bool {
        self.verdict.as_ref().is_none_or(|(verdict, Accepted(words))| {
            let word = usize::try_from(number / 64).ok().and_then(|word| words.get(word));
            let is_accepted = word.is_some_and(|word| word >> (number % 64) & 1 != 0);
            is_accepted == (*verdict == Verdict::Accept)
        })
    }

    /// Returns whether the filter matches a packet without a key.
    fn matches(&mut self, raw: &RawPacket, bytes: &[u8]) -> Result<bool, Failure> {
        let matches = |filter: &mut PacketFilter| filter.matches(raw.link, bytes, raw.wire_bytes);
        let matched = self.filter.as_mut().map_or(Ok(true), matches);
        matched.map_err(|error| Failure::Usage(format!("--filter: {error}")))
    }
}

/// The selected flows, the number of matching records if records were examined, and notices about
/// the input.
type SelectedFlows = (Wanted, Option<u64>, Vec<String>);

/// Reads the input several times.
struct Passes<'a> {
    arguments: &'a Extract,
    /// The output path of the packets.
    output: &'a Path,
    inputs: Vec<Input>,
    options: SetOptions,
    decode: DecodeOptions,
    control: Arc<Control>,
}

/// How a pass ended.
struct Pass {
    packets: u64,
    notices: Vec<Notice>,
    /// Why no packet is in the selected time, if none is.
    outside: Option<String>,
    interrupted: bool,
    fault: Option<String>,
}

impl<'a> Passes<'a> {
    /// Checks that the input can be read twice and is not the output.
    fn new(arguments: &'a Extract, replay: &Replay) -> Result<Self, Failure> {
        let paths = &arguments.input.inputs;
        let inputs: Vec<Input> = paths.iter().map(|path| Input::from_argument(path)).collect();
        let read_once = inputs.iter().any(|input| match input {
            Input::Stdin => true,
            Input::Path(path) => std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()),
        });
        if read_once {
            return Err(Failure::Usage(String::from(
                "extract reads the input twice, but a pipe can be read only once\n  save it to a file \
                 first",
            )));
        }
        let Some(output) = arguments.output.as_deref() else {
            return Err(Failure::Usage(String::from("extract needs an output file\n  add --output")));
        };
        if output.as_os_str() == "-" {
            return Err(Failure::Usage(String::from(
                "--output needs a file: standard output carries the report",
            )));
        }
        let options = set_options(replay);
        let set = CaptureSet::open(&inputs, options)?;
        if set.paths().any(|path| is_one_file(path, output)) {
            return Err(Failure::Usage(format!(
                "--output {} would overwrite an input of this run\n  name another file",
                output.display()
            )));
        }
        let decode = arguments.input.decoding.options()?;
        let control = Arc::new(Control::default());
        stop_on_signals(&control);
        Ok(Self { arguments, output, inputs, options, decode, control })
    }

    /// Finds the flows to write; returns `None` if a signal ended the search.
    fn wanted(
        &mut self,
        replay: &Replay,
        filter: Option<String>,
        common: &Common,
    ) -> Result<Option<SelectedFlows>, Failure> {
        let Extract { flow: flows, flows_max, verdict, .. } = self.arguments;
        let (mut wanted, mut records, mut notices) = (Wanted::default(), None, Vec::new());
        let selects_records = replay.record_filter.is_some() || !flows.is_empty();
        if selects_records || verdict.is_some() {
            let (mut times, mut matched) = (HashMap::<FlowKey, Vec<(u64, u64)>>::new(), 0_u64);
            wanted.verdict = verdict.map(|name| (name.verdict(), Accepted::default()));
            let accepted = wanted.verdict.as_mut().map(|(_, accepted)| accepted as _);
            let looked = look(replay, common, "extract", accepted, &mut |record, _| {
                if !selects_records || !flows.is_empty() && !flows.iter().any(|flow| flow.is_of(record)) {
                    return;
                }
                matched += 1;
                if matched <= *flows_max {
                    times.entry(record.key).or_default().push((record.start_ns, record.end_ns));
                }
            })?;
            // The packets to write are those of the same flows.
            self.decode = self.decode.with_errors_by_flow(looked.errors_by_flow);
            if looked.interrupted {
                return Ok(None);
            }
            if let Some(fault) = looked.fault {
                return Err(Failure::Input(format!("no packets were written: {fault}")));
            }
            if matched > *flows_max {
                return Err(self.too_many());
            }
            if verdict.is_some() && looked.no_result.not_tracked.contains_key(DropReason::TableFull.name())
            {
                return Err(Failure::Usage(String::from(
                    "no packets were written: those for which the flow table was too full have no verdict\n  \
                     end flows earlier with --timeout, or allow more memory",
                )));
            }
            notices = looked.notices;
            (records, wanted.times) = selects_records.then_some((matched, times)).unzip();
        }
        if let Some(filter) = filter {
            let parsed = PacketFilter::parse(&filter);
            wanted.filter = Some(parsed.map_err(|error| Failure::Usage(format!("--filter: {error}")))?);
            let mut filtered = replay.clone();
            filtered.live.filter = Some(filter);
            let mut keys = HashSet::new();
            let pass = self.each(&filtered, common, |key, _, _| {
                if let Some(key) = key
                    && (keys.len() as u64) <= *flows_max
                {
                    keys.insert(key);
                }
                Ok(())
            })?;
            if pass.interrupted {
                return Ok(None);
            }
            if let Some(fault) = pass.fault {
                return Err(Failure::Input(format!("no packets were written: {fault}")));
            }
            if keys.len() as u64 > *flows_max {
                return Err(self.too_many());
            }
            wanted.keys = Some(keys);
        }
        Ok(Some((wanted, records, notices)))
    }

    fn cannot_write(&self, error: &dyn std::fmt::Display, file: &OutputFile) -> Failure {
        let (path, remains) = (self.output.display(), file.remains());
        Failure::Output(format!("cannot write packets to {path}: {error}\n  {remains}"))
    }

    fn too_many(&self) -> Failure {
        let flows_max = self.arguments.flows_max;
        Failure::Usage(format!(
            "more than {flows_max} flows match\n  narrow --where or --filter, or use a larger \
             --flows-max"
        ))
    }

    /// Passes each selected packet to `take`, with its number, from 0, and with its key, if it has
    /// one.
    fn each(
        &self,
        replay: &Replay,
        common: &Common,
        mut take: impl FnMut(Option<FlowKey>, (&RawPacket, &[u8]), u64) -> Result<(), Failure>,
    ) -> Result<Pass, Failure> {
        let mut source = CaptureSet::open(&self.inputs, self.options)?;
        let control = Arc::clone(&self.control);
        source.stop_when({
            let control = Arc::clone(&control);
            move || control.is_stopped()
        });
        let selection = Selection::from_arguments(replay, &source.paths().collect::<Vec<_>>())?;
        let title = format!("extract  {}", label(&replay.inputs));
        let progress = Progress::start(title, source.progress(), Arc::clone(&control), common.quiet > 0);
        let mut source = Selected::new(source, selection);
        let mut batch = PacketBatch::new();
        let mut pass =
            Pass { packets: 0, notices: Vec::new(), outside: None, interrupted: false, fault: None };
        while !control.is_stopped() {
            match source.next_batch(&mut batch) {
                Ok(Fill::Packets) => {}
                Ok(Fill::Starved) => continue,
                Ok(Fill::End) => break,
                Err(error) => {
                    check_decodable(pass.packets, &error)?;
                    pass.fault = Some(error.to_string());
                    break;
                }
            }
            let Some(block) = &batch.block else { continue };
            for raw in &batch.packets {
                let bytes = raw.bytes_in(block.bytes());
                let key = decode(raw.link, bytes, self.decode).ok().map(|headers| headers.key);
                take(key, (raw, bytes), pass.packets)?;
                pass.packets += 1;
            }
        }
        drop(progress);
        pass.outside = source.outside();
        pass.interrupted = control.is_stopped();
        pass.notices = source.source.notices().to_vec();
        Ok(pass)
    }
}
