//! Extraction with an index: reads only the parts of a capture that contain packets of the flows.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use flowloom::apps::Accounting;
use flowloom::apps::accounting::{Accounted, AccountingRecord, EndedBy, community_id};
use flowloom::engine::{App as _, Control, PacketSink as _, Released};
use flowloom::flow_key::FlowKey;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource as _, PacketView, decode};
use flowloom::record::CommunityId;
use flowloom::traffic::capture::{CaptureParts, Input, PartRead, PlanError, SetOptions};

use crate::args::Common;
use crate::args::extract::Extract;
use crate::capture_index::{Binding, CaptureIndex};
use crate::exit::{Failure, Status};
use crate::flow_name::FlowName;
use crate::host::tool;
use crate::output::{OutputFile, is_one_file, write_whole};
use crate::render::extract::{ExtractResult, IndexFigures};
use crate::render::{counted, print, say};
use crate::signals::stop_on_signals;

use super::super::replay::{Selected, Selection, capture_sink, set_options};
use super::warn_if_nothing;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Runs the command with `--index`.
pub(super) fn run(arguments: &Extract, path: &Path, common: &Common) -> Result<Status, Failure> {
    let input = &arguments.input;
    let option = if input.record_filter.is_some() {
        "--where"
    } else if input.filter.is_some() {
        "--filter"
    } else {
        ""
    };
    if !option.is_empty() {
        return Err(Failure::Usage(format!(
            "--index finds the flows of --flow; {option} needs every packet\n  omit one of them"
        )));
    }
    if arguments.flow.is_empty() && !arguments.make_index {
        return Err(Failure::Usage(String::from(
            "--index finds the flows of --flow\n  add --flow, or --make-index to make only the index",
        )));
    }
    if arguments.flow.is_empty() != arguments.output.is_none() {
        return Err(Failure::Usage(String::from(if arguments.flow.is_empty() {
            "--output needs flows\n  add --flow, or omit --output"
        } else {
            "--flow needs an output file\n  add --output, or omit --flow"
        })));
    }
    let [capture] = &input.inputs[..] else {
        return Err(Failure::Usage(String::from("--index is for one capture\n  name one file")));
    };
    if !capture.is_file() {
        return Err(Failure::Usage(format!(
            "--index needs a capture file: {} is not a file\n  name a file, or omit --index",
            capture.display()
        )));
    }
    let outputs = [Some(path), arguments.output.as_deref()].into_iter().flatten();
    if let Some(output) = outputs.clone().find(|output| is_one_file(capture, output)) {
        return Err(Failure::Usage(format!(
            "{} is the input of this run\n  name another file",
            output.display()
        )));
    }
    if arguments.output.as_deref().is_some_and(|output| output == path || is_one_file(output, path)) {
        return Err(Failure::Usage(String::from("--index and --output are one file\n  name two")));
    }
    let wanted = arguments.flow.iter().map(key_of).collect::<Result<Vec<u64>, _>>()?;
    let replay = input.replay();
    let scan = Scan {
        inputs: vec![Input::Path(capture.clone())],
        options: set_options(&replay),
        decode: input.decoding.options()?,
        control: Arc::new(Control::default()),
    };
    stop_on_signals(&scan.control);
    let binding = Binding::from_capture(capture, input.decoding.words())
        .map_err(|error| Failure::Input(format!("cannot read {}: {error}", capture.display())))?;
    let (index, made) = if path.exists() && !arguments.make_index {
        (read(path, &binding)?, false)
    } else {
        let Some(index) = scan.index(capture, binding)? else { return Ok(Status::Interrupted) };
        write(path, &index)?;
        (index, true)
    };
    let Some(output) = &arguments.output else {
        if common.quiet < 2 {
            let parts = counted(index.parts.len() as u64, "part");
            say(&format!("{}: {parts} indexed", path.display()));
        }
        return Ok(Status::Ok);
    };
    let selection = Selection::from_arguments(&replay, &[capture])?;
    let had_contents = std::fs::metadata(output).is_ok_and(|metadata| metadata.is_file());
    let figures = scan.extract(&index, &wanted, arguments, output, selection.as_ref())?;
    warn_if_nothing(figures.packets, had_contents, output, common);
    let result = ExtractResult {
        schema: "flowloom/extract/1",
        tool: tool(),
        inputs: vec![capture.display().to_string()],
        output: output.display().to_string(),
        records: None,
        flows: figures.flows,
        packets_read: figures.packets_read,
        packets: figures.packets,
        bytes_captured: figures.bytes_captured,
        index: Some(IndexFigures {
            path: path.display().to_string(),
            made,
            parts: index.parts.len() as u64,
            parts_read: figures.parts_read,
        }),
        notices: Vec::new(),
        interrupted: scan.control.is_stopped(),
        fault: None,
    };
    print(&result, common)?;
    Ok(if result.interrupted { Status::Interrupted } else { Status::Ok })
}

/// Returns the key of a flow in an index.
fn key_of(flow: &FlowName) -> Result<u64, Failure> {
    if let Some(id) = flow.community_id() {
        return first_bytes(id).ok_or_else(|| {
            Failure::Usage(format!("--flow {id}: a Community ID is `1:` followed by base64"))
        });
    }
    let ([one, other], protocol) = flow.tuple().ok_or_else(|| {
        Failure::Usage(String::from(
            "--flow: with --index, name one flow by protocol and both ends, and an ICMP flow by its \
             Community ID\n  `replay --columns community_id` prints it; without --index any name does",
        ))
    })?;
    Ok(short(&community_id(one, other, protocol, None)))
}

fn short(id: &CommunityId) -> u64 {
    let (first, _) = id.digest().split_first_chunk().expect("a digest has twenty bytes");
    u64::from_be_bytes(*first)
}

/// Returns the first eight bytes of a Community ID in text form.
fn first_bytes(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("1:")?.as_bytes().get(..11)?;
    let bits = digits.iter().try_fold(0_u128, |bits, digit| {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        Some(bits << 6 | u128::from(value))
    })?;
    // Eleven digits hold 66 bits.
    u64::try_from(bits >> 2).ok()
}

fn read(path: &Path, binding: &Binding) -> Result<CaptureIndex, Failure> {
    let index = CaptureIndex::read(path)
        .map_err(|why| Failure::Input(format!("cannot use the index {}: {why}", path.display())))?;
    match binding.difference(&index.binding) {
        None => Ok(index),
        Some(why) => Err(Failure::Input(format!(
            "the index {} does not belong to the capture: {why}\n  rebuild it with --make-index",
            path.display()
        ))),
    }
}

fn write(path: &Path, index: &CaptureIndex) -> Result<(), Failure> {
    let failed = |error| Failure::Output(format!("cannot write the index to {}: {error}", path.display()));
    write_whole(path, &index.to_bytes()).map_err(failed)
}

/// The counts of an extraction.
#[derive(Debug, Default)]
struct Extracted {
    flows: u64,
    packets_read: u64,
    packets: u64,
    bytes_captured: u64,
    parts_read: u64,
}

/// Reads a capture in parts.
struct Scan {
    inputs: Vec<Input>,
    options: SetOptions,
    decode: DecodeOptions,
    control: Arc<Control>,
}

impl Scan {
    fn plan(&self, offsets: &[u64]) -> Result<CaptureParts, Failure> {
        CaptureParts::plan_at(&self.inputs, self.options, offsets).map_err(|error| match error {
            PlanError::Capture(error) => error.into(),
            error => Failure::Input(format!("the capture cannot be indexed: {error}\n  omit --index")),
        })
    }

    /// Builds an index; returns `None` if a signal ended the run.
    fn index(&self, capture: &Path, binding: Binding) -> Result<Option<CaptureIndex>, Failure> {
        let plan = self.plan(&binding.cuts())?;
        let mut index = CaptureIndex::new(binding);
        let mut reads: Vec<PartRead> = Vec::new();
        for part in 0..plan.len() {
            let (mut keys, mut known) = (BTreeSet::new(), HashSet::new());
            let read = self.part(&plan, part, None, |view, _| {
                let key = view.headers.key;
                // The two directions of an ICMP flow may have different IDs.
                if known.insert(key) || matches!(key.protocol(), ICMP | ICMPV6) {
                    keys.insert(short(&record_of(view).community_id()));
                }
                Ok(())
            })?;
            if self.control.is_stopped() {
                return Ok(None);
            }
            index.push(plan.begin(part).offset(), read.packets(), keys);
            reads.push(read);
        }
        if !plan.unconfirmed(&reads).is_empty() {
            return Err(Failure::Input(format!(
                "{} cannot be indexed: the format of its records changes in the middle of the file\n  \
                 omit --index",
                capture.display()
            )));
        }
        plan.summary(&reads).check_decodable()?;
        Ok(Some(index))
    }

    /// Writes the packets of the selected flows.
    fn extract(
        &self,
        index: &CaptureIndex,
        wanted: &[u64],
        arguments: &Extract,
        output: &Path,
        selection: Option<&Selection>,
    ) -> Result<Extracted, Failure> {
        let offsets: Vec<u64> = index.parts.iter().map(|part| part.offset).skip(1).collect();
        let plan = self.plan(&offsets)?;
        let begins = |part: usize| plan.begin(part).offset() == index.parts[part].offset;
        if plan.len() != index.parts.len() || !(0..plan.len()).all(begins) {
            return Err(Failure::Input(String::from(
                "the index does not belong to the capture: its parts begin at other offsets\n  rebuild \
                 it with --make-index",
            )));
        }
        let cannot_write = |error: &dyn std::fmt::Display, remains: &str| {
            Failure::Output(format!("cannot write packets to {}: {error}{remains}", output.display()))
        };
        let file = OutputFile::open(output).map_err(|error| cannot_write(&error, ""))?;
        let failed =
            |error: &dyn std::fmt::Display| cannot_write(error, &format!("\n  {}", file.remains()));
        let mut sink = capture_sink(file.clone(), output)?;
        if file.has_old_contents() {
            sink = sink.without_empty_capture();
        }
        let mut figures = Extracted::default();
        let mut found: HashSet<FlowKey> = HashSet::new();
        for part in (0..plan.len()).filter(|&part| index.has(part, wanted)) {
            let read = self.part(&plan, part, selection.cloned(), |view, packet| {
                let key = view.headers.key;
                let is_wanted = found.contains(&key) && !matches!(key.protocol(), ICMP | ICMPV6)
                    || arguments.flow.iter().any(|flow| flow.is_of(&record_of(view)));
                if !is_wanted {
                    return Ok(());
                }
                found.insert(key);
                figures.packets += 1;
                figures.bytes_captured += view.bytes.len() as u64;
                sink.take(packet).map_err(|error| failed(&error))
            })?;
            figures.packets_read += read.packets();
            figures.parts_read += 1;
            if self.control.is_stopped() {
                break;
            }
        }
        sink.finish().map_err(|error| failed(&error))?;
        figures.flows = found.len() as u64;
        Ok(figures)
    }

    /// Passes each decodable packet of a part to `take`.
    fn part(
        &self,
        plan: &CaptureParts,
        part: usize,
        selection: Option<Selection>,
        mut take: impl FnMut(&PacketView<'_>, &Released<'_>) -> Result<(), Failure>,
    ) -> Result<PartRead, Failure> {
        let mut source = Selected::new(plan.open(part)?, selection);
        let mut batch = PacketBatch::new();
        while !self.control.is_stopped() {
            match source.next_batch(&mut batch) {
                Ok(Fill::Packets) => {}
                Ok(Fill::Starved) => continue,
                Ok(Fill::End) => break,
                Err(error) => return Err(Failure::Input(error.to_string())),
            }
            let Some(block) = &batch.block else { continue };
            for raw in &batch.packets {
                let bytes = raw.bytes_in(block.bytes());
                if let Ok(mut headers) = decode(raw.link, bytes, self.decode) {
                    let wire = headers.fit_to_wire(bytes, raw.wire_bytes);
                    let view = PacketView::new(bytes, headers, raw.time_ns, wire);
                    take(&view, &Released::new(bytes, wire, raw.time_ns, raw.link))?;
                }
            }
        }
        Ok(source.source.finish())
    }
}

/// Returns the record of a flow that has only this packet.
fn record_of(view: &PacketView<'_>) -> AccountingRecord {
    let mut flow = Accounted::default();
    Accounting::default().on_packet(view, &mut flow);
    AccountingRecord::new(&view.headers.key, &flow, EndedBy::EndOfInput)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_id_is_that_of_its_text() {
        let ends = |text: &str| text.parse::<FlowName>().unwrap();
        let by_ends = key_of(&ends("tcp 128.232.110.120:34855 66.35.250.204:80")).unwrap();
        let by_id = key_of(&ends("1:LQU9qZlK+B5F3KDmev6m5PMibrg=")).unwrap();
        assert_eq!((by_ends, by_id), (0x2D05_3DA9_994A_F81E, 0x2D05_3DA9_994A_F81E));
        for several in ["1 10.0.0.1:0 10.0.0.2:0", "10.0.0.1 10.0.0.2", "tcp 10.0.0.1 10.0.0.2", "tcp/80"] {
            assert!(key_of(&ends(several)).is_err(), "{several}");
        }
        assert!(key_of(&ends("gre 10.0.0.1 10.0.0.2 vlan 5")).is_ok());
    }
}
