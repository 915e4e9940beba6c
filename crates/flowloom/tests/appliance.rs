//! An application written with this crate only: the same flows in every layout.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flowloom::engine::{App, Control, EngineConfig, FlowState, Layout, RunReport, Verdict, run};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, PacketView, decode};
use flowloom::record::{Column, Kind, Value};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom::traffic::synth::{Generate, Mix, MixConfig};
use flowloom::traffic::write::{PcapOptions, PcapWriter};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Talk {
    packets: u64,
    bytes: u64,
}

impl FlowState for Talk {
    const COLUMNS: &'static [Column] = &[
        Column::new("packets", Kind::Packets, "Packets of the flow."),
        Column::new("bytes", Kind::Bytes, "Their bytes on the wire."),
    ];

    fn values(&self, out: &mut Vec<Value>) {
        out.extend([Value::Number(self.packets), Value::Number(self.bytes)]);
    }
}

/// Counts the bytes that each flow sends.
struct TopTalkers;

impl App for TopTalkers {
    type Flow = Talk;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Talk) -> Verdict {
        flow.packets += 1;
        flow.bytes += u64::from(packet.wire_bytes);
        Verdict::Accept
    }
}

fn write_trace(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let config = MixConfig { flows: 500, packets: 8000, ..MixConfig::default() };
    let mut mix = Mix::new(config).unwrap();
    let file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut writer = PcapWriter::new(file, PcapOptions::default()).unwrap();
    let mut frame = Vec::new();
    while let Some(meta) = mix.next_into(&mut frame) {
        writer.write(meta.time_ns, meta.wire_bytes, &frame).unwrap();
    }
    std::io::Write::flush(&mut writer.finish().unwrap()).unwrap();
    path
}

fn open(path: &Path) -> CaptureSet {
    CaptureSet::open(&[Input::Path(path.to_path_buf())], SetOptions::default()).unwrap()
}

fn report(path: &Path, mode: Layout) -> RunReport<Talk> {
    let mut placement = DirectHash::new(WorkerCount::new(mode.workers()).unwrap());
    let table = |_| LineHash::try_new(&TableOptions::for_flows(10_000));
    let mut config = EngineConfig::new(mode);
    config.cores = flowloom::engine::Cores::Unpinned;
    let control = Control::default();
    run(&config, &mut open(path), &mut placement, table, |_| TopTalkers, &control).unwrap()
}

/// The expected result, computed with a map, packet by packet.
fn expected(path: &Path) -> HashMap<FlowKey, Talk> {
    let mut source = open(path);
    let mut batch = PacketBatch::new();
    let mut flows: HashMap<FlowKey, Talk> = HashMap::new();
    while source.next_batch(&mut batch).unwrap() == Fill::Packets {
        let block = batch.block.as_ref().unwrap();
        for raw in &batch.packets {
            let bytes = raw.bytes_in(block.bytes());
            if let Ok(headers) = decode(raw.link, bytes, DecodeOptions::default()) {
                let flow = flows.entry(headers.key).or_default();
                flow.packets += 1;
                flow.bytes += u64::from(raw.wire_bytes);
            }
        }
    }
    flows
}

#[test]
fn custom_application_sees_every_packet_once_in_every_layout() {
    let path = write_trace("appliance.pcap");
    let expected = expected(&path);
    assert!(expected.len() >= 500);
    let modes = [Layout::Inline, Layout::Pipeline { workers: 1 }, Layout::Pipeline { workers: 3 }];
    let mut digests = Vec::new();
    for mode in modes {
        let report = report(&path, mode);
        assert!(report.is_balanced(), "{mode:?}");
        assert!(report.fault.is_none(), "{mode:?}");
        assert_eq!(report.input.packets, 8000, "{mode:?}");
        let found: HashMap<FlowKey, Talk> =
            report.flows.iter().map(|record| (record.key, record.state)).collect();
        assert_eq!(found, expected, "{mode:?}");
        digests.push(report.digest());
    }
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
}
