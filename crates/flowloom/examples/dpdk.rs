//! Makes a DPDK port a [`PacketSource`]: bursts of buffers without a copy. Each buffer is returned
//! when the last worker releases it.
//!
//! ```text
//!  port ─ rx_burst ─▶ ≤ 32 mbufs ─▶ batch: positions in the pool's memory
//!                                     └─ block: pool memory + the burst's mbufs
//! ```
//!
//! [`RxBurst`] is this file's safe interface to the driver. Implementing it with `rte_eth_rx_burst`
//! takes about a page of unsafe code in a separate crate: `region` is the mempool's memory, an
//! [`Mbuf`] is an `rte_mbuf` pointer whose drop calls `rte_pktmbuf_free`, and `missed` is
//! `imissed + rx_nombuf` of `rte_eth_stats`. In this example a simulated port implements it.
//!
//! That code must consider one thing: the block is one slice over the pool, while the port writes
//! into free buffers of the pool. No code reads those buffers, but Rust's rules for a slice forbid
//! writes to any part of it. To follow the rules strictly, copy as `af_xdp.rs` does.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::sync::{Arc, Mutex, PoisonError};

use flowloom::apps::TcpTracker;
use flowloom::engine::{Control, Cores, EngineConfig, Layout, run};
use flowloom::flow_table::{LineHash, LineHashConfig};
use flowloom::packet::{
    BATCH_PACKETS, Block, DropCounts, DropReason, Fill, InterfaceName, LinkType, PacketBatch, PacketSource,
    RawPacket, SourceError,
};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::synth::{Generate, Mix, MixConfig};

/// The memory that contains a port's buffers.
type Region = Arc<Vec<u8>>;
type Failed = Box<dyn std::error::Error>;

/// The interface to a driver.
trait RxBurst: Send {
    /// Returns the memory that contains all buffers.
    fn region(&self) -> Region;
    /// Appends received packets, at most `count`. Returns whether more packets can arrive.
    fn rx_burst(&mut self, out: &mut Vec<Mbuf>, count: usize) -> bool;
    /// Returns the number of packets so far for which no buffer was free.
    fn missed(&self) -> u64;
}

/// A buffer with a packet; dropping it returns it to its pool.
struct Mbuf {
    offset: usize,
    bytes: usize,
    time_ns: u64,
    pool: Arc<Mutex<Vec<usize>>>,
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(self.offset);
    }
}

/// The block of a batch: the memory of the pool, and the buffers that must not be reused while the
/// block is read.
struct Burst {
    region: Region,
    _held: Vec<Mbuf>,
}

impl AsRef<[u8]> for Burst {
    fn as_ref(&self) -> &[u8] {
        &self.region
    }
}

/// A port as a source. The code above belongs to the driver; this is all that the engine needs.
struct Port<D> {
    driver: D,
    missed: u64,
}

impl<D: RxBurst> PacketSource for Port<D> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        batch.block = None;
        batch.ahead = 0..0;
        let mut held = Vec::with_capacity(BATCH_PACKETS);
        let more = self.driver.rx_burst(&mut held, BATCH_PACKETS);
        if held.is_empty() {
            return Ok(if more { Fill::Starved } else { Fill::End });
        }
        for mbuf in &held {
            let bytes = u32::try_from(mbuf.bytes).map_err(|error| SourceError(Box::new(error)))?;
            batch.packets.push(RawPacket {
                position: mbuf.offset as u64,
                captured_bytes: bytes,
                wire_bytes: bytes,
                time_ns: mbuf.time_ns,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
        }
        batch.block_number += 1;
        let block = Burst { region: self.driver.region(), _held: held };
        batch.block = Some(Arc::new(Block::Foreign(Box::new(block))));
        Ok(Fill::Packets)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut withheld = DropCounts::default();
        let missed = self.driver.missed();
        // If the count is smaller than before, another program has reset the driver's counters.
        withheld.add(DropReason::InterfaceFull, missed.checked_sub(self.missed).unwrap_or(missed));
        self.missed = missed;
        withheld
    }
}

/// A simulated port: a network that sends the packets of a pool repeatedly, and misses those whose
/// buffer is in use.
struct InMemory {
    region: Region,
    /// The position and length of each buffer's packet.
    packets: Vec<(usize, usize)>,
    free: Arc<Mutex<Vec<usize>>>,
    offered: u64,
    last: u64,
    missed: u64,
}

impl InMemory {
    fn new(buffers: u64, last: u64) -> Result<Self, Failed> {
        let mut mix = Mix::new(MixConfig { flows: buffers / 8, packets: buffers, ..MixConfig::default() })?;
        let (mut region, mut packets, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        while mix.next_into(&mut frame).is_some() {
            packets.push((region.len(), frame.len()));
            region.extend_from_slice(&frame);
        }
        let free = packets.iter().map(|&(offset, _)| offset).collect();
        Ok(Self {
            region: Arc::new(region),
            packets,
            free: Arc::new(Mutex::new(free)),
            offered: 0,
            last,
            missed: 0,
        })
    }
}

impl RxBurst for InMemory {
    fn region(&self) -> Region {
        Arc::clone(&self.region)
    }

    fn rx_burst(&mut self, out: &mut Vec<Mbuf>, count: usize) -> bool {
        for _ in 0..count.min(usize::try_from(self.last - self.offered).unwrap_or(count)) {
            self.offered += 1;
            let Some(offset) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() else {
                self.missed += 1;
                continue;
            };
            // The pool is sorted by offset, and the packet of a buffer never changes here.
            let Ok(which) = self.packets.binary_search_by_key(&offset, |&(at, _)| at) else { continue };
            let bytes = self.packets[which].1;
            let pool = Arc::clone(&self.free);
            out.push(Mbuf { offset, bytes, time_ns: self.offered * 1000, pool });
        }
        self.offered < self.last
    }

    fn missed(&self) -> u64 {
        self.missed
    }
}

pub(crate) fn main() -> Result<(), Failed> {
    const OFFERED: u64 = 200_000;
    let mut port = Port { driver: InMemory::new(2048, OFFERED)?, missed: 0 };
    let mut config = EngineConfig::new(Layout::Pipeline { workers: 2 });
    config.cores = Cores::Unpinned;
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| LineHash::try_new(&LineHashConfig::for_flows(10_000));
    let report = run(&config, &mut port, &mut placement, table, |_| TcpTracker, &Control::default())?;
    let missed = report.dropped().of(DropReason::InterfaceFull);
    println!("{OFFERED} offered, {} processed, {missed} missed", report.processed());
    let free = port.driver.free.lock().unwrap_or_else(PoisonError::into_inner).len();
    if report.input.packets != OFFERED || !report.is_balanced() || free != port.driver.packets.len() {
        return Err(format!("{} packets counted, {free} buffers came back", report.input.packets).into());
    }
    Ok(())
}
