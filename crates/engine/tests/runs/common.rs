//! Shared by the engine's tests: packets in memory, an application that checks the order, and
//! tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowloom_engine::record::{Column, Kind, Value};
use flowloom_engine::{App, Cores, EngineConfig, FlowState, IdleTimeout, Layout, Order, Verdict};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{BuildError, DHash, TableOptions, Timeouts};
use flowloom_packet::{
    BATCH_PACKETS, Block, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, PacketView, RawPacket,
    SharedBlock, SourceError,
};
use flowloom_traffic::synth::{Generate, Mix, MixConfig};

/// Every layout once, with a scheme by name.
pub(crate) const LAYOUTS: [(Layout, Order, &str); 8] = [
    (Layout::Inline, Order::Internal, "dh"),
    (Layout::Sharded { workers: 1 }, Order::Internal, "dh"),
    (Layout::Sharded { workers: 3 }, Order::Internal, "dh"),
    (Layout::Pipeline { workers: 1 }, Order::Internal, "dh"),
    (Layout::Pipeline { workers: 3 }, Order::Internal, "dh"),
    (Layout::Pipeline { workers: 3 }, Order::Internal, "flowpin"),
    (Layout::Pipeline { workers: 3 }, Order::External, "rr"),
    (Layout::Pipeline { workers: 3 }, Order::Internal, "lfb"),
];

/// Records the packets of a flow in the order in which it saw them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) packets: u64,
    pub(crate) out_of_order: u64,
    pub(crate) last_ns: u64,
    pub(crate) order: u64,
}

impl FlowState for Seen {
    const COLUMNS: &'static [Column] = &[
        Column::new("packets", Kind::Packets, ""),
        Column::new("out_of_order", Kind::Packets, ""),
        Column::new("last_ns", Kind::Time, ""),
        Column::new("order", Kind::Digest, ""),
    ];

    fn values(&self, out: &mut Vec<Value>) {
        out.extend([
            Value::Number(self.packets),
            Value::Number(self.out_of_order),
            Value::Number(self.last_ns),
            Value::Bits(self.order),
        ]);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// The worker and the packet at which the application panics.
    pub(crate) panic_at: Option<u64>,
    /// The time that a packet takes.
    pub(crate) delay: Option<Duration>,
    pub(crate) seen: u64,
}

impl App for Recorder {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        self.seen += 1;
        assert!(self.panic_at != Some(self.seen), "injected panic");
        if let Some(delay) = self.delay {
            std::thread::sleep(delay);
        }
        flow.packets += 1;
        flow.out_of_order += u64::from(packet.time_ns < flow.last_ns);
        flow.last_ns = packet.time_ns;
        flow.order = flow.order.wrapping_mul(31) ^ packet.time_ns;
        Verdict::Accept
    }
}

/// Packets in memory, spread over several blocks.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) blocks: Vec<(SharedBlock, Vec<RawPacket>)>,
    pub(crate) at: (usize, usize),
    pub(crate) fail_after: Option<u64>,
    pub(crate) panic_after: Option<u64>,
    pub(crate) yielded: u64,
    pub(crate) asked: Arc<AtomicU64>,
}

impl Memory {
    pub(crate) fn new(config: MixConfig) -> Self {
        Self::in_blocks(config, 777)
    }

    /// Returns the packets in blocks of `packets` each.
    pub(crate) fn in_blocks(config: MixConfig, per_block: usize) -> Self {
        let mut mix = Mix::new(config).unwrap();
        let mut blocks = Vec::new();
        let mut bytes = Vec::new();
        let mut packets = Vec::new();
        let mut frame = Vec::new();
        while let Some(meta) = mix.next_into(&mut frame) {
            packets.push(RawPacket {
                position: bytes.len() as u64,
                captured_bytes: u32::try_from(frame.len()).unwrap(),
                wire_bytes: meta.wire_bytes,
                time_ns: meta.time_ns,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
            bytes.extend_from_slice(&frame);
            if packets.len() == per_block {
                blocks.push((
                    Arc::new(Block::Owned(std::mem::take(&mut bytes))),
                    std::mem::take(&mut packets),
                ));
            }
        }
        blocks.push((Arc::new(Block::Owned(bytes)), packets));
        Self { blocks, at: (0, 0), fail_after: None, panic_after: None, yielded: 0, asked: Arc::default() }
    }
}

impl PacketSource for Memory {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        batch.packets.clear();
        if self.fail_after.is_some_and(|limit| self.yielded >= limit) {
            return Err(SourceError("injected failure".into()));
        }
        assert!(self.panic_after.is_none_or(|limit| self.yielded < limit), "injected panic");
        while let Some((block, packets)) = self.blocks.get(self.at.0) {
            let rest = &packets[self.at.1..];
            if rest.is_empty() {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            batch.packets.extend(rest.iter().take(BATCH_PACKETS));
            batch.block = Some(Arc::clone(block));
            batch.block_number = self.at.0 as u64 + 1;
            self.at.1 += batch.packets.len();
            self.yielded += batch.packets.len() as u64;
            return Ok(Fill::Packets);
        }
        Ok(Fill::End)
    }
}

pub(crate) fn mix(packets: u64, flows: u64) -> MixConfig {
    MixConfig { packets, flows, seed: 11, ..MixConfig::default() }
}

pub(crate) fn config(mode: Layout) -> EngineConfig {
    EngineConfig {
        cores: Cores::Unpinned,
        ring_slots: 256,
        hasher: FlowHasher::with_seed(5),
        timeline: true,
        chunk_packets: 100,
        threads_after_packets: 0,
        ..EngineConfig::new(mode)
    }
}

pub(crate) fn table(flows: u32, timeout: Option<IdleTimeout>) -> Result<DHash<FlowKey, Seen>, BuildError> {
    let timeouts = timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table);
    DHash::try_new(&TableOptions { timeouts, ..TableOptions::for_flows(flows) })
}

/// Returns a small table, because runs of policies that move flows build many.
pub(crate) fn small_table() -> Result<DHash<FlowKey, Seen>, BuildError> {
    table(2_000, None)
}
