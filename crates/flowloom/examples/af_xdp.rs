//! Makes an `AF_XDP` socket a [`PacketSource`]: each frame of the shared memory is copied once and
//! returned at once.
//!
//! ```text
//!            fill ring ◀──────────── frame given back ──────────┐
//!  kernel ─▶ rx ring ─▶ ≤ 256 frames ─ one copy ─▶ block of the pool ─▶ batches of 32 ─▶ workers
//! ```
//!
//! The shared memory is small, and the kernel drops packets for which no frame is free, so slow
//! workers must not hold frames. The source copies packets into blocks, and refills a block when
//! every worker has released it. While all blocks are in use the source is starved, and the kernel
//! counts its drops. `dpdk.rs` lends buffers without a copy.
//!
//! [`RxBurst`] is this file's safe interface to the socket. With the `xdp` crate, implement
//! `receive` with `RxRing::recv` and return frames with `FillRing::enqueue`; both are unsafe, so
//! put them into a separate crate. `dropped` is `rx_dropped + rx_ring_full` of `XDP_STATISTICS`. In
//! this example a simulated kernel implements it.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::collections::VecDeque;
use std::sync::Arc;

use flowloom::apps::TcpTracker;
use flowloom::engine::{Control, Cores, EngineConfig, Layout, run};
use flowloom::flow_table::{LineHash, LineHashConfig};
use flowloom::packet::{
    BATCH_PACKETS, Block, DropCounts, DropReason, Fill, InterfaceName, LinkType, PacketBatch, PacketSource,
    RawPacket, SharedBlock, SourceError,
};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::synth::{Generate, Mix, MixConfig};

/// Maximum number of packets in a block.
const BLOCK_PACKETS: usize = 256;
const POOL_BLOCKS: usize = 16;

type Failed = Box<dyn std::error::Error>;

/// The interface to a socket.
trait RxBurst: Send {
    /// Calls `each` with the time and bytes of received packets, at most `count`, and returns their
    /// frames to the kernel afterwards. Returns whether more packets can arrive.
    fn receive(&mut self, count: usize, each: &mut dyn FnMut(u64, &[u8])) -> bool;
    /// Returns the number of packets so far that the kernel dropped for lack of a frame or a ring
    /// slot.
    fn dropped(&self) -> u64;
}

/// A socket as a source.
struct Socket<D> {
    driver: D,
    pool: VecDeque<SharedBlock>,
    /// The packets of the last filled block, and how many of them were yielded.
    records: Vec<RawPacket>,
    at: usize,
    more: bool,
    dropped: u64,
}

impl<D: RxBurst> Socket<D> {
    fn new(driver: D) -> Self {
        Self { driver, pool: VecDeque::new(), records: Vec::new(), at: 0, more: true, dropped: 0 }
    }

    /// Copies received packets into a free block. Returns whether there was one.
    fn refill(&mut self) -> bool {
        let free = self.pool.iter_mut().position(|block| Arc::get_mut(block).is_some());
        let mut block = match free.and_then(|at| self.pool.remove(at)) {
            Some(block) => block,
            None if self.pool.len() < POOL_BLOCKS => SharedBlock::default(),
            None => return false,
        };
        self.records.clear();
        self.at = 0;
        if let Some(Block::Owned(bytes)) = Arc::get_mut(&mut block) {
            bytes.clear();
            self.more = self.driver.receive(BLOCK_PACKETS, &mut |time_ns, packet| {
                // A frame of the shared memory has 4 KiB at most.
                let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
                let position = bytes.len() as u64;
                self.records.push(RawPacket {
                    position,
                    captured_bytes: length,
                    wire_bytes: length,
                    time_ns,
                    link: LinkType::ETHERNET,
                    interface: InterfaceName::UNKNOWN,
                });
                bytes.extend_from_slice(packet);
            });
        }
        self.pool.push_back(block);
        true
    }
}

impl<D: RxBurst> PacketSource for Socket<D> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        batch.block = None;
        batch.ahead = 0..0;
        if self.at == self.records.len() {
            if !self.more {
                return Ok(Fill::End);
            }
            // With a real socket, poll it here briefly when nothing has arrived.
            if !self.refill() || self.records.is_empty() {
                return Ok(Fill::Starved);
            }
            batch.block_number += 1;
        }
        let end = self.records.len().min(self.at + BATCH_PACKETS);
        batch.packets.extend_from_slice(&self.records[self.at..end]);
        batch.block = self.pool.back().map(Arc::clone);
        self.at = end;
        Ok(Fill::Packets)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut withheld = DropCounts::default();
        let dropped = self.driver.dropped();
        withheld.add(DropReason::InterfaceFull, dropped - self.dropped);
        self.dropped = dropped;
        withheld
    }
}

/// A simulated kernel: packets arrive in groups of four hundred, into the free frames.
struct InMemory {
    mix: Mix,
    /// Frames of the shared memory, by number: free, or with a packet of some length.
    shared: Vec<Vec<u8>>,
    fill: VecDeque<usize>,
    rx: VecDeque<(usize, u64)>,
    dropped: u64,
    ended: bool,
}

impl InMemory {
    fn new(frames: usize, packets: u64) -> Result<Self, Failed> {
        let mix = Mix::new(MixConfig { flows: 1000, packets, ..MixConfig::default() })?;
        Ok(Self {
            mix,
            shared: vec![Vec::with_capacity(4096); frames],
            fill: (0..frames).collect(),
            rx: VecDeque::new(),
            dropped: 0,
            ended: false,
        })
    }

    /// The simulated network.
    fn arrive(&mut self) {
        let mut packet = Vec::new();
        for _ in 0..400 {
            let Some(meta) = self.mix.next_into(&mut packet) else {
                self.ended = true;
                return;
            };
            let Some(frame) = self.fill.pop_front() else {
                self.dropped += 1;
                continue;
            };
            self.shared[frame].clone_from(&packet);
            self.rx.push_back((frame, meta.time_ns));
        }
    }
}

impl RxBurst for InMemory {
    fn receive(&mut self, count: usize, each: &mut dyn FnMut(u64, &[u8])) -> bool {
        self.arrive();
        for (frame, time_ns) in self.rx.drain(..count.min(self.rx.len())) {
            each(time_ns, &self.shared[frame]);
            self.fill.push_back(frame);
        }
        !(self.ended && self.rx.is_empty())
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

pub(crate) fn main() -> Result<(), Failed> {
    const SENT: u64 = 200_000;
    let mut socket = Socket::new(InMemory::new(2048, SENT)?);
    let mut config = EngineConfig::new(Layout::Pipeline { workers: 2 });
    config.cores = Cores::Unpinned;
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| LineHash::try_new(&LineHashConfig::for_flows(10_000));
    let report = run(&config, &mut socket, &mut placement, table, |_| TcpTracker, &Control::default())?;
    let dropped = report.dropped().of(DropReason::InterfaceFull);
    println!("{SENT} sent, {} processed, {dropped} dropped by the kernel", report.processed());
    // More packets arrive than are taken, so the kernel must have dropped some.
    if report.input.packets != SENT || dropped == 0 || !report.is_balanced() {
        return Err(format!("{} packets counted", report.input.packets).into());
    }
    Ok(())
}
