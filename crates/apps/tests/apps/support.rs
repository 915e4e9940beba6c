//! Generated packets in memory, and runs of the engine over them.

use flowloom_engine::record::Value;
use flowloom_engine::{App, Control, Cores, EngineConfig, FlowState, IdleTimeout, Layout, RunReport, run};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{DHash, TableOptions, Timeouts};
use flowloom_packet::{DecodeOptions, PacketView, decode};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::{Generate, Mix, MixConfig};

pub(crate) use crate::memory::Memory;

impl Memory {
    pub(crate) fn new(config: MixConfig) -> Self {
        Self::of_generator(&mut Mix::new(config).unwrap())
    }

    pub(crate) fn of_generator(generator: &mut dyn Generate) -> Self {
        let frames = std::iter::from_fn(|| {
            let mut frame = Vec::new();
            generator.next_into(&mut frame).map(|meta| (meta.time_ns, frame))
        });
        Self::of_frames(frames, usize::MAX)
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

/// Layouts whose results must be equal.
pub(crate) const LAYOUTS: [Layout; 4] = [
    Layout::Inline,
    Layout::Pipeline { workers: 1 },
    Layout::Pipeline { workers: 2 },
    Layout::Pipeline { workers: 5 },
];

/// Runs an application over all packets.
pub(crate) fn go<A: App>(
    source: &Memory,
    mode: Layout,
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
    let table = |_| {
        DHash::<FlowKey, A::Flow>::try_new(&TableOptions { timeouts, ..TableOptions::for_flows(50_000) })
    };
    let control = Control::default();
    let report = run(&config, &mut source.clone(), &mut placement, table, |_| app(), &control).unwrap();
    assert!(report.is_balanced() && report.fault.is_none());
    report
}

/// Returns a flow's results.
pub(crate) fn values<F: FlowState>(flow: &F) -> Vec<Value> {
    let mut values = Vec::new();
    flow.values(&mut values);
    values
}
