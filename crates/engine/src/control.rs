//! Watches a run from another thread, and stops it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use flowloom_packet::DropReason;
use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::wire::PortCounts;

use crate::app::FlowState;
use crate::report::RunReport;
use crate::report::counters::{FullCounts, WorkerCounters};
use crate::report::decisions::DecisionCounts;
use crate::worker::process::Tally;

const REASONS: usize = DropReason::ALL.len();

/// The link between a run and other threads: they read progress from it, and ask the run to stop.
///
/// Create it with `Control::default()`. A control may serve several runs in sequence, and each run
/// resets its numbers to zero. A stop request stays: a run with a stopped control ends at once
/// without taking a packet. See the [crate] for an example.
#[derive(Debug)]
pub struct Control {
    stop: AtomicBool,
    dropped: [AtomicU64; REASONS],
    gauges: Mutex<Arc<Gauges>>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            stop: AtomicBool::new(false),
            dropped: std::array::from_fn(|_| AtomicU64::new(0)),
            gauges: Mutex::default(),
        }
    }
}

/// The counts of a run at one moment. Packets that are neither processed nor dropped are in flight;
/// the three counts add up exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Packets taken from the source.
    pub packets: u64,
    /// Packets that an application has processed.
    pub processed: u64,
    /// Packets that an application has refused; included in `processed`.
    pub denied: u64,
    /// Packets dropped by any stage, by reason.
    pub dropped: DropCounts,
    /// Packets taken from the source and not yet processed or dropped.
    pub in_flight: u64,
    /// Same as [`RunReport::unplaced`].
    pub unplaced: u64,
    /// Same as [`RunReport::pool_full_waits`].
    pub pool_full_waits: u64,
    /// Flows begun. Each makes a record, unless a panic of the application ends it.
    pub flows_begun: u64,
    /// Records of flows that the sink has taken. Lags behind by up to half a second.
    pub records_written: u64,
    /// Records that the sink has not taken; same as
    /// [`RecordsReport::lost`](crate::RecordsReport::lost).
    pub records_lost: u64,
    /// Records that the sink [holds](crate::RecordSink::held), such as while its output fails.
    pub records_held: u64,
    /// The counts of each worker.
    pub workers: Vec<WorkerSnapshot>,
    /// The counts of an [appliance](crate::run_wires), summed over its wires; `None` in other runs.
    pub wires: Option<WireSnapshot>,
}

/// The counts of an appliance at one moment. They lag behind by up to 0.2 seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireSnapshot {
    /// The counts of each port.
    pub ports: Vec<PortCounts>,
    /// Frames by decision.
    pub decisions: DecisionCounts,
    /// Flows in the tables.
    pub flows_active: u64,
    /// Flows for which the tables have space at present; some tables grow.
    pub flows_capacity: u64,
    /// Flows begun.
    pub flows_begun: u64,
    /// Records ended by the idle timeout.
    pub ended_idle: u64,
    /// Records ended by the application, such as by an active timeout.
    pub ended_by_application: u64,
    /// Flows evicted from a full table.
    pub ended_evicted: u64,
    /// Flows removed after a panic of the application.
    pub ended_at_panic: u64,
    /// Memory of the tables, in bytes.
    pub table_bytes: u64,
}

impl WireSnapshot {
    fn merge(&mut self, other: &Self) {
        if self.ports.len() < other.ports.len() {
            self.ports.resize(other.ports.len(), PortCounts::default());
        }
        for (all, port) in self.ports.iter_mut().zip(&other.ports) {
            all.merge(port);
        }
        self.decisions.merge(&other.decisions);
        self.flows_active += other.flows_active;
        self.flows_capacity += other.flows_capacity;
        self.flows_begun += other.flows_begun;
        self.ended_idle += other.ended_idle;
        self.ended_by_application += other.ended_by_application;
        self.ended_evicted += other.ended_evicted;
        self.ended_at_panic += other.ended_at_panic;
        self.table_bytes += other.table_bytes;
    }
}

/// The counts of a worker at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// Packets that its application has processed.
    pub processed: u64,
    /// Packets that its application has refused; included in `processed`.
    pub denied: u64,
    /// Packets that the worker has dropped.
    pub dropped: u64,
    /// Packets dropped because its ring was full. Same as
    /// [`WorkerReport::ring_full`](crate::WorkerReport::ring_full).
    pub ring_full: u64,
    /// How often its ring was full. Same as
    /// [`WorkerReport::full_waits`](crate::WorkerReport::full_waits).
    pub full_waits: u64,
}

impl Control {
    /// Asks the run to stop. The run takes no further packets from the source, processes the
    /// packets in the rings, and returns a balanced report.
    pub fn stop(&self) {
        // Relaxed: the flag publishes no other data, and the input stage reads it once per batch.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns how many packets the run has taken from the source. The number lags behind by up to
    /// two batches.
    pub fn packets(&self) -> u64 {
        self.lock().packets()
    }

    /// Returns the counts of the run. Each number lags behind by up to two batches, and equals the
    /// report's once the run has ended. The method takes a lock that no stage waits for.
    pub fn snapshot(&self) -> Snapshot {
        // Hold the lock to the end: a run that begins meanwhile would reset some numbers before
        // they are read and others after.
        let gauges = self.lock();
        // Read completed packets before taken packets, so that the snapshot never has more
        // completed than taken packets.
        let each = gauges.workers.iter().zip(&gauges.rings);
        let workers: Vec<WorkerSnapshot> = each.map(|(gauge, ring)| gauge.read(ring.read())).collect();
        let FullCounts { refused: unplaced, waits: pool_full_waits } = gauges.unplaced.read();
        let mut dropped = DropCounts::default();
        for (&reason, count) in DropReason::ALL.iter().zip(&self.dropped) {
            dropped.add(reason, count.load(Ordering::Acquire));
        }
        let packets = gauges.packets();
        let processed = workers.iter().map(|worker| worker.processed).sum();
        let denied = workers.iter().map(|worker| worker.denied).sum();
        let in_flight = packets.saturating_sub(processed + dropped.total());
        let mut wires = None;
        for wire in &gauges.wires {
            let wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(wire) = &*wire {
                wires.get_or_insert_with(WireSnapshot::default).merge(wire);
            }
        }
        Snapshot {
            packets,
            processed,
            denied,
            dropped,
            in_flight,
            unplaced,
            pool_full_waits,
            flows_begun: gauges.workers.iter().map(|gauge| gauge.begun.load(Ordering::Acquire)).sum(),
            records_written: gauges.records[0].load(Ordering::Acquire),
            records_lost: gauges.records[1].load(Ordering::Acquire),
            records_held: gauges.records[2].load(Ordering::Acquire),
            workers,
            wires,
        }
    }

    /// Publishes how many records are written, lost, and held by the sink.
    pub(crate) fn publish_records(&self, counts: [u64; 3]) {
        let gauges = self.lock();
        for (gauge, count) in gauges.records.iter().zip(counts) {
            gauge.store(count, Ordering::Release);
        }
    }

    /// Publishes dropped packets; `known` holds the counts of the last call.
    pub(crate) fn publish_drops(&self, dropped: &DropCounts, known: &mut DropCounts) {
        if dropped == known {
            return;
        }
        for (&reason, count) in DropReason::ALL.iter().zip(&self.dropped) {
            let more = dropped.get(reason) - known.get(reason);
            if more > 0 {
                count.fetch_add(more, Ordering::Release);
            }
        }
        *known = *dropped;
    }

    /// Publishes the counts of the final report. No stage counts the packets that a panic left in
    /// its buffers or in the rings.
    pub(crate) fn end<F: FlowState>(&self, report: &RunReport<F>) {
        let gauges = Arc::clone(&self.lock());
        // Publish taken packets first, so that completed packets never exceed them.
        for (reader, packets) in
            gauges.readers.iter().zip(std::iter::once(report.input.packets).chain(std::iter::repeat(0)))
        {
            reader.store(packets, Ordering::Release);
        }
        for (gauge, worker) in gauges.workers.iter().zip(&report.workers) {
            gauge.store(&worker.counters);
        }
        let rings = report.workers.iter();
        gauges.publish_full(
            rings.map(|worker| FullCounts { refused: worker.ring_full, waits: worker.full_waits }),
            FullCounts { refused: report.unplaced, waits: report.pool_full_waits },
        );
        if let Some(records) = &report.records {
            self.publish_records([records.written, records.lost, 0]);
        }
        let dropped = report.dropped();
        for (&reason, count) in DropReason::ALL.iter().zip(&self.dropped) {
            count.store(dropped.get(reason), Ordering::Release);
        }
    }

    /// Creates the gauges of each reader and worker of a new run, and resets those of earlier runs.
    pub(crate) fn begin(&self, readers: usize, workers: usize) -> Arc<Gauges> {
        let gauges = Arc::new(Gauges {
            readers: (0..readers).map(|_| CachePadded::default()).collect(),
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            rings: (0..workers).map(|_| RingGauge::default()).collect(),
            unplaced: CachePadded::default(),
            records: [const { AtomicU64::new(0) }; 3],
            wires: (0..workers).map(|_| Mutex::default()).collect(),
        });
        let mut known = self.lock();
        for count in &self.dropped {
            count.store(0, Ordering::Release);
        }
        *known = Arc::clone(&gauges);
        gauges
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Gauges>> {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The published counts of the stages of a run, in one gauge per stage.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Packets that each reader has taken from its source.
    readers: Box<[CachePadded<AtomicU64>]>,
    workers: Box<[CachePadded<Gauge>]>,
    /// The workers' rings. Only the input stage writes these gauges, and only when a ring was full.
    /// They therefore share cache lines, apart from the gauges that workers write.
    rings: Box<[RingGauge]>,
    /// The pool, and packets that belong to no ring.
    unplaced: CachePadded<RingGauge>,
    /// Records written, lost, and held by the sink.
    records: [AtomicU64; 3],
    /// The counts of each wire, if the workers have wires. A worker writes them ten times a second.
    wires: Box<[Mutex<Option<WireSnapshot>>]>,
}

impl Gauges {
    fn packets(&self) -> u64 {
        self.readers.iter().map(|reader| reader.load(Ordering::Acquire)).sum()
    }

    /// Publishes how often each worker's ring was full, and the counts that belong to no ring.
    pub(crate) fn publish_full(&self, rings: impl Iterator<Item = FullCounts>, unplaced: FullCounts) {
        for (gauge, full) in self.rings.iter().zip(rings) {
            gauge.store(full);
        }
        self.unplaced.store(unplaced);
    }
}

/// How often a ring, or the pool, was full.
#[derive(Debug, Default)]
struct RingGauge {
    refused: AtomicU64,
    waits: AtomicU64,
}

impl RingGauge {
    fn store(&self, full: FullCounts) {
        self.refused.store(full.refused, Ordering::Release);
        self.waits.store(full.waits, Ordering::Release);
    }

    fn read(&self) -> FullCounts {
        FullCounts {
            refused: self.refused.load(Ordering::Acquire),
            waits: self.waits.load(Ordering::Acquire),
        }
    }
}

/// The counts that a worker publishes after each chunk of packets from its ring.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    processed: AtomicU64,
    denied: AtomicU64,
    dropped: AtomicU64,
    begun: AtomicU64,
}

impl Gauge {
    fn store(&self, counters: &WorkerCounters) {
        self.processed.store(counters.processed, Ordering::Release);
        self.denied.store(counters.denied, Ordering::Release);
        self.dropped.store(counters.dropped.total(), Ordering::Release);
    }

    fn read(&self, ring: FullCounts) -> WorkerSnapshot {
        let denied = self.denied.load(Ordering::Acquire);
        WorkerSnapshot {
            processed: self.processed.load(Ordering::Acquire),
            denied,
            dropped: self.dropped.load(Ordering::Acquire),
            ring_full: ring.refused,
            full_waits: ring.waits,
        }
    }
}

/// Publishes a worker's counts to a [`Control`].
#[derive(Debug)]
pub(crate) struct Publisher<'a> {
    control: &'a Control,
    gauges: Arc<Gauges>,
    worker: usize,
    known: DropCounts,
    known_begun: u64,
}

impl<'a> Publisher<'a> {
    pub(crate) fn new(control: &'a Control, gauges: &Arc<Gauges>, worker: usize) -> Self {
        Self { control, gauges: Arc::clone(gauges), worker, known: DropCounts::default(), known_begun: 0 }
    }

    /// Publishes the counts of the worker's wire.
    pub(crate) fn publish_wire(&self, counts: WireSnapshot) {
        let mut wire = self.gauges.wires[self.worker].lock().unwrap_or_else(PoisonError::into_inner);
        *wire = Some(counts);
    }

    /// Publishes a worker's counts with three stores, and with another one if flows have begun.
    pub(crate) fn publish(&mut self, Tally { counters, begun, .. }: &Tally) {
        let begun = *begun;
        if begun != self.known_begun {
            self.known_begun = begun;
            self.gauges.workers[self.worker].begun.store(begun, Ordering::Release);
        }
        self.gauges.workers[self.worker].store(counters);
        self.control.publish_drops(&counters.dropped, &mut self.known);
    }
}

/// Publishes a reader's counts to a [`Control`].
#[derive(Debug)]
pub(crate) struct ReaderPublisher<'a> {
    pub(crate) control: &'a Control,
    gauges: Arc<Gauges>,
    reader: usize,
    known: DropCounts,
}

impl<'a> ReaderPublisher<'a> {
    pub(crate) fn new(control: &'a Control, gauges: &Arc<Gauges>, reader: usize) -> Self {
        Self { control, gauges: Arc::clone(gauges), reader, known: DropCounts::default() }
    }

    /// Publishes the packets taken and dropped so far.
    pub(crate) fn publish(&mut self, packets: u64, dropped: &DropCounts) {
        self.gauges.readers[self.reader].store(packets, Ordering::Release);
        self.control.publish_drops(dropped, &mut self.known);
    }
}
