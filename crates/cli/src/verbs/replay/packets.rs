//! Writes the packets of an input as rows, without an application.

use std::collections::HashSet;
use std::path::Path;

use flowloom::flow_key::FlowKey;
use flowloom::packet::clock::PacketClock;
use flowloom::packet::{Fill, Headers, PacketBatch, PacketSource, decode};
use flowloom::traffic::capture::Input;
use flowloom_export::{ArrowPacketWriter, PacketHeaders, PacketRow};

use super::conflicts;
use super::layout::{self, Planned};
use super::select::{Selected, Selection};
use super::setup::set_options;
use crate::args::replay::Replay;
use crate::exit::{Failure, Status};
use crate::flow_file::{Destination, Opened};
use crate::part_file::{KEY_BYTES, key_bytes, load_key};
use crate::record_format::Format;

/// Protocols with ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Writes a row for each packet, or with keys for each of their packets.
pub(super) fn run(arguments: &Replay, to: &Path) -> Result<Status, Failure> {
    conflicts::check(arguments)?;
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    let Planned { source, .. } = layout::plan(arguments, &inputs, set_options(arguments))?;
    let selection = Selection::from_arguments(arguments, &source.paths())?;
    let failed = |error: std::io::Error| {
        Failure::Output(format!("cannot write packets to {}: {error}", to.display()))
    };
    let keys = arguments.packets_of.as_deref().map(read_keys).transpose()?;
    let destination = Destination::parse(to, Some(Format::Arrow)).map_err(Failure::Usage)?;
    let (stream, file) = destination.open_whole().and_then(Opened::into_stream).map_err(failed)?;
    let mut out = ArrowPacketWriter::new(stream).map_err(failed)?;
    let mut source = Selected::new(source, selection);
    let options = arguments.decoding.options()?;
    let (mut batch, mut clock) = (PacketBatch::new(), PacketClock::default());
    loop {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => break,
            Err(error) => return Err(Failure::Input(error.to_string())),
        }
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            // Every packet moves the clock, also those that are not written.
            let time_ns = clock.tick(raw.time_ns);
            let bytes = raw.bytes_in(block.bytes());
            let headers = decode(raw.link, bytes, options).ok();
            let is_wanted = |keys: &HashSet<FlowKey>| {
                headers.as_ref().is_some_and(|headers| keys.contains(&headers.key))
            };
            if !keys.as_ref().is_none_or(is_wanted) {
                continue;
            }
            if keys.is_some() && time_ns != raw.time_ns {
                // An empty frame brings the clock of a run over these packets alone to this time.
                let link_type = raw.link.0.into();
                out.write(&PacketRow { time_ns, link_type, frame: Some(&[]), ..PacketRow::default() })
                    .map_err(failed)?;
            }
            let key = headers.as_ref().map(|headers| key_bytes(&headers.key));
            let row = PacketRow {
                time_ns: raw.time_ns,
                wire_bytes: raw.wire_bytes,
                captured_bytes: raw.captured_bytes,
                link_type: raw.link.0.into(),
                headers: headers.as_ref().zip(key.as_ref()).map(|(headers, key)| row_of(headers, key)),
                frame: keys.is_some().then_some(bytes),
            };
            out.write(&row).map_err(failed)?;
        }
    }
    out.finish().map_err(failed)?;
    file.map_or(Ok(()), |file| file.finish()).map_err(failed)?;
    Ok(Status::Ok)
}

fn row_of<'a>(headers: &Headers, key: &'a [u8]) -> PacketHeaders<'a> {
    let tuple = headers.key.tuple(headers.direction);
    let has_ports = WITH_PORTS.contains(&tuple.protocol) && !headers.later_fragment;
    PacketHeaders {
        source: tuple.source,
        destination: tuple.destination,
        ports: has_ports.then_some([tuple.source_port, tuple.destination_port]),
        protocol: tuple.protocol,
        tcp_flags: headers.tcp_flags,
        payload_bytes: headers.payload_bytes,
        flow_key: key,
    }
}

/// Reads concatenated keys in the format of the column `flow_key`.
fn read_keys(path: &Path) -> Result<HashSet<FlowKey>, Failure> {
    let failed = |why: String| Failure::Input(format!("cannot read the keys {}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let keys = bytes.chunks_exact(KEY_BYTES);
    if !keys.remainder().is_empty() {
        return Err(failed(format!(
            "{} bytes are not a multiple of the key size, {KEY_BYTES} bytes",
            bytes.len()
        )));
    }
    keys.map(|key| load_key(key).map_err(failed)).collect()
}
