//! Generated packets in memory, and runs of the engine over them.

use std::sync::Arc;

use flowloom_engine::{
    App, Control, Cores, EngineConfig, FlowState, FlowValue, IdleTimeout, Mode, RunReport, run,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{DHash, DHashConfig, Timeouts};
use flowloom_packet::{
    BATCH_PACKETS, Block, DecodeOptions, Fill, LinkType, PacketBatch, PacketSource, PacketView, RawPacket,
    SharedBlock, SourceError, decode,
};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::{Generate, Mix, MixConfig};

/// Packets in one block.
#[derive(Clone)]
pub(crate) struct Memory {
    block: SharedBlock,
    packets: Vec<RawPacket>,
    at: usize,
}

impl Memory {
    pub(crate) fn of(config: MixConfig) -> Self {
        let mut mix = Mix::new(config).unwrap();
        let (mut bytes, mut packets, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(meta) = mix.next_into(&mut frame) {
            packets.push(RawPacket {
                position: bytes.len() as u64,
                captured_bytes: u32::try_from(frame.len()).unwrap(),
                wire_bytes: meta.wire_bytes,
                time_ns: meta.time_ns,
                link: LinkType::ETHERNET,
            });
            bytes.extend_from_slice(&frame);
        }
        Self { block: Arc::new(Block::Owned(bytes)), packets, at: 0 }
    }

    /// Calls `each` with every packet that has a key, in order.
    pub(crate) fn walk(&self, mut each: impl FnMut(&PacketView<'_>)) {
        for raw in &self.packets {
            let bytes = raw.bytes_in(self.block.bytes());
            if let Ok(headers) = decode(raw.link, bytes, DecodeOptions::default()) {
                each(&PacketView::new(bytes, headers, raw.time_ns, raw.wire_bytes));
            }
        }
    }
}

impl PacketSource for Memory {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        let rest = &self.packets[self.at..];
        if rest.is_empty() {
            return Ok(Fill::End);
        }
        batch.packets.extend(rest.iter().take(BATCH_PACKETS));
        batch.block = Some(Arc::clone(&self.block));
        batch.block_number = 1;
        self.at += batch.packets.len();
        Ok(Fill::Packets)
    }
}

/// Layouts whose results must be the same.
pub(crate) const LAYOUTS: [Mode; 4] = [
    Mode::Inline,
    Mode::Pipeline { workers: 1 },
    Mode::Pipeline { workers: 2 },
    Mode::Pipeline { workers: 5 },
];

/// Runs an application over all packets.
pub(crate) fn go<A: App>(
    source: &Memory,
    mode: Mode,
    idle_ns: Option<u64>,
    mut app: impl FnMut() -> A,
) -> RunReport<A::Flow> {
    let idle_timeout = idle_ns.map(IdleTimeout::from_ns);
    let config = EngineConfig {
        cores: Cores::Unpinned,
        ring_slots: 256,
        hasher: FlowHasher::with_seed(5),
        idle_timeout,
        ..EngineConfig::new(mode)
    };
    let mut placement = DirectHash::new(WorkerCount::new(mode.workers()).unwrap());
    let timeouts = idle_timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table);
    let table =
        |_| DHash::<FlowKey, A::Flow>::try_new(&DHashConfig { timeouts, ..DHashConfig::for_flows(50_000) });
    let control = Control::default();
    let report = run(&config, &mut source.clone(), &mut placement, table, |_| app(), &control).unwrap();
    assert!(report.is_balanced() && report.fault.is_none());
    report
}

/// Returns a flow's results.
pub(crate) fn values<F: FlowState>(flow: &F) -> Vec<FlowValue> {
    let mut values = Vec::new();
    flow.values(&mut values);
    values
}
