//! Flows that all workers share, for policies that move flows from worker to worker.
//!
//! The flows are spread by hash over shards, each behind a lock. While a policy keeps a flow with
//! one worker at a time, a worker rarely waits for a lock. If a policy does not and the run needs
//! an order, the packets of a shard are **sequenced**: see [`Sequencer`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crossbeam_utils::CachePadded;
use flowloom_cpu::prefetch;

use crate::batch::pool::Parked;
use crate::dispatch::sequencer::Sequencer;
use crate::egress::records::FlushRequests;
use crate::sync::{AtomicU64, Ordering};
use crate::worker::flows::{FlowStore, FlowsEnd};
use crate::worker::process::AppRunner;

/// A time up to which all packets are processed; packets in flight are not older.
///
/// Flows expire by this time. With the time of the fastest worker, a flow would end while its next
/// packet waits at a slower worker.
#[derive(Debug, Default)]
pub(crate) struct ProcessedTime(CachePadded<AtomicU64>);

impl ProcessedTime {
    /// Publishes that all packets before this time are processed.
    pub(crate) fn publish(&self, time_ns: u64) {
        // Relaxed: the states themselves are behind locks.
        self.0.store(time_ns, Ordering::Relaxed);
    }

    fn time_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time that passes while no packets arrive, as a worker without packets follows it.
///
/// Only a live input lets time pass. Otherwise a worker would end flows by the times of packets of
/// other workers, and what a full table refuses would depend on the speed of threads.
#[derive(Debug)]
pub(crate) struct SilentTime {
    shared: Arc<ProcessedTime>,
    known_ns: u64,
}

impl SilentTime {
    /// The steps in which time passes.
    const STEP_NS: u64 = 50_000_000;

    pub(crate) fn new(shared: Arc<ProcessedTime>) -> Self {
        Self { shared, known_ns: 0 }
    }

    /// Returns the time if it has passed since the last step.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<u64> {
        let time_ns = self.shared.time_ns();
        let is_later = time_ns >= self.known_ns.saturating_add(Self::STEP_NS);
        is_later.then(|| {
            self.known_ns = time_ns;
            time_ns
        })
    }
}

/// The contents of a shard.
pub(crate) struct Shard {
    pub(crate) flows: Box<dyn FlowStore>,
    pub(crate) sequencer: Sequencer<Parked>,
}

/// A shard behind its lock, on separate cache lines.
type LockedShard = CachePadded<Mutex<Shard>>;

/// A shard that this thread has locked.
pub(crate) struct Entered<'a> {
    pub(crate) shard: MutexGuard<'a, Shard>,
    processed_time: &'a ProcessedTime,
}

impl Entered<'_> {
    /// Ends flows whose idle timeout has passed, a few at a time.
    pub(crate) fn expire(&mut self, runner: &mut AppRunner<'_>) {
        runner.expire(&mut *self.shard.flows, self.processed_time.time_ns());
    }
}

/// All flows of a run.
pub(crate) struct SharedFlows {
    shards: Box<[LockedShard]>,
    requests: Option<FlushRequests>,
    processed_time: Arc<ProcessedTime>,
}

impl SharedFlows {
    /// Creates one shard for each table. The number of tables must be a power of two.
    pub(crate) fn new(tables: Vec<Box<dyn FlowStore>>, requests: Option<FlushRequests>) -> Self {
        assert!(tables.len().is_power_of_two(), "shards are chosen by bits of a hash");
        let shards = tables
            .into_iter()
            .map(|flows| CachePadded::new(Mutex::new(Shard { flows, sequencer: Sequencer::default() })))
            .collect();
        Self { shards, requests, processed_time: Arc::default() }
    }

    /// Returns the time up to which all packets are processed, which the input stage publishes.
    pub(crate) fn processed_time(&self) -> Arc<ProcessedTime> {
        Arc::clone(&self.processed_time)
    }

    /// Returns the number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Prefetches the line with the lock of a shard.
    #[inline(always)]
    pub(crate) fn request(&self, shard: usize) {
        prefetch::read_at(&self.shards, shard);
    }

    /// Locks a shard, or returns `None` if another thread holds it.
    pub(crate) fn try_enter(&self, shard: usize) -> Option<Entered<'_>> {
        match self.shards[shard].try_lock() {
            Ok(shard) => Some(Entered { shard, processed_time: &self.processed_time }),
            Err(TryLockError::Poisoned(shard)) => {
                Some(Entered { shard: shard.into_inner(), processed_time: &self.processed_time })
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks a shard, waiting if another thread holds it.
    pub(crate) fn enter(&self, shard: usize) -> Entered<'_> {
        // A worker that panicked may have left the state of one flow inconsistent. The run is
        // ending, and the counts are consistent.
        let shard = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        Entered { shard, processed_time: &self.processed_time }
    }

    /// Sends the records of all shards, if the record thread has requested them since the caller's
    /// `epoch`.
    #[inline]
    pub(crate) fn flush_if_requested(&self, epoch: &mut u64) {
        let Some(requests) = &self.requests else { return };
        let asked = requests.count();
        if std::mem::replace(epoch, asked) == asked {
            return;
        }
        for shard in 0..self.shards.len() {
            // A thread that holds a shard sends its records itself at the end.
            if let Some(mut entered) = self.try_enter(shard) {
                entered.shard.flows.flush_if_requested();
            }
        }
    }

    /// Ends flows of all shards by the time that passes while no packets arrive.
    pub(crate) fn pass_time(&self, runner: &mut AppRunner<'_>, time_ns: u64) {
        for shard in 0..self.shards.len() {
            // Another worker that holds a shard does the same, or comes back to it.
            if let Some(mut entered) = self.try_enter(shard) {
                runner.pass_time(&mut *entered.shard.flows, time_ns);
            }
        }
    }

    /// Returns the results of each shard.
    pub(crate) fn finish(self) -> impl Iterator<Item = FlowsEnd> {
        self.shards.into_iter().map(|shard| {
            let shard = CachePadded::into_inner(shard).into_inner();
            shard.unwrap_or_else(PoisonError::into_inner).flows.finish()
        })
    }
}
