//! How another thread watches a run and stops it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use flowloom_packet::DropReason;
use flowloom_packet::reason::DropCounts;

use crate::app::FlowState;
use crate::report::RunReport;
use crate::report::counters::FullCounts;
use crate::report::counters::WorkerCounters;

const REASONS: usize = DropReason::ALL.len();

/// Shared between a run and the thread that started it: a stop request in, progress out.
///
/// It begins as `Control::default()`. One that has served a run serves the next one, whose numbers begin at zero; but a stop stays: a
/// run that is given a stopped one ends at once, with nothing taken. See the [crate] for one at work.
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

/// A run at a moment. What is neither processed nor dropped is on its way: the sum is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Packets taken from the source.
    pub packets: u64,
    /// Packets that an application has seen.
    pub processed: u64,
    /// Packets of those that it refused.
    pub denied: u64,
    /// Packets dropped by any stage, by reason.
    pub dropped: DropCounts,
    /// Packets on their way.
    pub in_flight: u64,
    /// As [`RunReport::unplaced`].
    pub unplaced: u64,
    /// As [`RunReport::pool_full_waits`].
    pub pool_full_waits: u64,
    /// Each worker's part.
    pub workers: Vec<WorkerSnapshot>,
}

/// A worker at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// Packets that its application has seen.
    pub processed: u64,
    /// Packets of those that it refused.
    pub denied: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Packets that were dropped because its ring was full, as [`WorkerReport::ring_full`](crate::WorkerReport::ring_full).
    pub ring_full: u64,
    /// How often its ring was full, as [`WorkerReport::full_waits`](crate::WorkerReport::full_waits).
    pub full_waits: u64,
}

impl Control {
    /// Asks the run to stop: the source is not asked again, what is in the rings is processed, the report is balanced.
    pub fn stop(&self) {
        // Relaxed: nothing else is published with it; the input stage looks once a batch.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Says whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns how many packets were taken from the source so far; lags behind by up to two batches.
    pub fn packets(&self) -> u64 {
        self.lock().packets()
    }

    /// Returns where the run stands; each number lags behind by up to two batches, and is the report's
    /// once the run has ended. Takes a lock that no stage waits for.
    pub fn snapshot(&self) -> Snapshot {
        // Held to the end: a run that begins meanwhile would forget one number and not yet another.
        let gauges = self.lock();
        // What is done is read before what was taken in: so it is never more.
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
        Snapshot { packets, processed, denied, dropped, in_flight, unplaced, pool_full_waits, workers }
    }

    /// Publishes what was dropped; `known` is what was published of it before.
    pub(crate) fn publish_drops(&self, dropped: &DropCounts, known: &mut DropCounts) {
        if dropped == known {
            return;
        }
        for (&reason, count) in DropReason::ALL.iter().zip(&self.dropped) {
            let more = dropped.of(reason) - known.of(reason);
            if more > 0 {
                count.fetch_add(more, Ordering::Release);
            }
        }
        *known = *dropped;
    }

    /// Publishes what the report of a run that has ended says: no stage says what a panic left in its hands and in rings.
    pub(crate) fn end<F: FlowState>(&self, report: &RunReport<F>) {
        let gauges = Arc::clone(&self.lock());
        // First, so that what is done is never more than what was taken in.
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
        let dropped = report.dropped();
        for (&reason, count) in DropReason::ALL.iter().zip(&self.dropped) {
            count.store(dropped.of(reason), Ordering::Release);
        }
    }

    /// Makes a gauge for each reader and each worker of a run that begins, and forgets what earlier runs published.
    pub(crate) fn begin(&self, readers: usize, workers: usize) -> Arc<Gauges> {
        let gauges = Arc::new(Gauges {
            readers: (0..readers).map(|_| CachePadded::default()).collect(),
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            rings: (0..workers).map(|_| RingGauge::default()).collect(),
            unplaced: CachePadded::default(),
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

/// What the stages of a run publish, each for itself.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Packets that each reader has taken from its source.
    readers: Box<[CachePadded<AtomicU64>]>,
    workers: Box<[CachePadded<Gauge>]>,
    /// Of the workers' rings. Only the input stage writes them, and only when one was full: together, apart from what workers write.
    rings: Box<[RingGauge]>,
    /// Of the pool, and of what belongs to no ring.
    unplaced: CachePadded<RingGauge>,
}

impl Gauges {
    fn packets(&self) -> u64 {
        self.readers.iter().map(|reader| reader.load(Ordering::Acquire)).sum()
    }

    /// Publishes how rings were full, of each worker, and what belongs to none.
    pub(crate) fn publish_full(&self, rings: impl Iterator<Item = FullCounts>, unplaced: FullCounts) {
        for (gauge, full) in self.rings.iter().zip(rings) {
            gauge.store(full);
        }
        self.unplaced.store(unplaced);
    }
}

/// How a ring, or the pool, was full.
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

/// What a worker publishes each time it has dealt with what it took from its ring.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    processed: AtomicU64,
    denied: AtomicU64,
    dropped: AtomicU64,
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

/// A worker's line to [`Control`].
#[derive(Debug)]
pub(crate) struct Publisher<'a> {
    control: &'a Control,
    gauges: Arc<Gauges>,
    worker: usize,
    known: DropCounts,
}

impl<'a> Publisher<'a> {
    pub(crate) fn new(control: &'a Control, gauges: &Arc<Gauges>, worker: usize) -> Self {
        Self { control, gauges: Arc::clone(gauges), worker, known: DropCounts::default() }
    }

    /// Publishes a worker's counts: three stores.
    pub(crate) fn publish(&mut self, counters: &WorkerCounters) {
        self.gauges.workers[self.worker].store(counters);
        self.control.publish_drops(&counters.dropped, &mut self.known);
    }
}

/// A reader's line to [`Control`].
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
