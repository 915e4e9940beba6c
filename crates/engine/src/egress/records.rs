//! Passes records of ended flows to a sink while the run lasts.
//!
//! ```text
//!  worker 0  flows ─ batch of records ─┐
//!  worker 1  flows ─ batch of records ─┴─ bounded queue ─ thread "records": digest, sink
//! ```
//!
//! In the sharded layout, workers also [prepare](PrepareRecords) the records for the sink, since no
//! CPU is idle there.
//!
//! Workers do not call the sink. A worker sends a batch of records when the batch is full, and an
//! incomplete batch when the record thread requests it, [twice a second](FLUSH_EVERY). The queue
//! bounds the memory, no matter how many flows end.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::app::FlowState;
use crate::budget::Budget;
use crate::config::{EngineConfig, WhenFull};
use crate::control::Control;
use crate::egress::prepare::{Batch, Preparation, PrepareRecords};
use crate::error::SinkError;
use crate::report::counters::RecordsReport;
use crate::report::digest::ResultDigest;
use crate::report::results::{FlowRecord, digest_of};
use crate::stage::clock;
use crate::stage::panics::caught;

/// Records per batch.
const BATCH: usize = 256;
/// Maximum number of batches that wait for the sink.
const QUEUED_MAX: usize = EngineConfig::QUEUED_RECORDS_MAX / BATCH;
/// The interval at which the record thread requests incomplete batches and flushes the sink.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// A destination of the records of ended flows, during the run.
///
/// The engine calls it on a separate thread, so workers do not wait for the sink until the queue
/// between them is full. Then workers wait, or drop records and count them, according to
/// [`EngineConfig::records_when_full`](crate::EngineConfig::records_when_full). After an error the
/// engine does not call the sink again, and the run ends.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// use flowloom_engine::{FlowRecord, RecordSink, SinkError};
///
/// /// Counts the flows of each protocol.
/// #[derive(Default)]
/// struct Protocols(BTreeMap<u8, u64>);
///
/// impl<F> RecordSink<F> for Protocols {
///     fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
///         for record in records {
///             *self.0.entry(record.key.protocol()).or_default() += 1;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait RecordSink<F> {
    /// Writes records that have ended. The records of one flow arrive in order of time.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] when the sink cannot write them. The run then ends.
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError>;

    /// Makes the written records visible to other programs. The engine calls it at least once per
    /// second while records arrive, and at the end.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] when the sink cannot flush. The run then ends.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Does work that does not depend on records, such as reconnecting. The engine calls it about
    /// twice per second, for the first time soon after the start.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] when the sink cannot go on. The run then ends.
    fn tick(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Returns how many of the records that it has taken the sink has lost since. They count as
    /// [`lost`](crate::RecordsReport::lost), not as written. The number never decreases.
    fn lost(&self) -> u64 {
        0
    }

    /// Returns how many of the records that it has taken the sink holds, such as until an output
    /// that fails works again. They do not count as written yet, and at the end of the run they
    /// count as lost.
    fn held(&self) -> u64 {
        0
    }

    /// Returns what does a part of the work of [`write`](Self::write) that does not depend on other
    /// records, on the threads of workers. Without it, the sink does all of it.
    fn preparation(&self) -> Option<Box<dyn PrepareRecords<F>>> {
        None
    }

    /// Writes what [`PrepareRecords::prepare`] has returned. A sink with a
    /// [`preparation`](Self::preparation) has this method too.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] as [`write`](Self::write) does, and by default.
    fn write_prepared(&mut self, _prepared: Box<dyn Any + Send>) -> Result<(), SinkError> {
        Err(SinkError("the sink takes no prepared records".into()))
    }
}

/// State that the senders and the record thread share.
#[derive(Debug, Default)]
struct Shared {
    /// The record thread increments it to request incomplete batches.
    epoch: AtomicU64,
    lost: AtomicU64,
}

/// The destination of the records of a flow table.
#[derive(Debug)]
pub(crate) enum RecordOutput<F> {
    /// The table keeps the records for the results, as long as the run may keep more.
    Keep(Budget),
    /// The table sends the records to the record thread.
    Stream(RecordSender<F>),
}

impl<F> RecordOutput<F> {
    /// Keeps as many records as the run may keep.
    pub(crate) fn kept(config: &EngineConfig) -> Self {
        Self::Keep(Budget::new(config.records_max as u64))
    }

    /// Returns the requests of the record thread, if there is one.
    pub(crate) fn flush_requests(&self) -> Option<FlushRequests> {
        match self {
            Self::Keep(_) => None,
            Self::Stream(sender) => Some(FlushRequests(Arc::clone(&sender.shared))),
        }
    }
}

impl<F> Clone for RecordOutput<F> {
    fn clone(&self) -> Self {
        match self {
            Self::Keep(budget) => Self::Keep(budget.clone()),
            Self::Stream(sender) => Self::Stream(sender.another()),
        }
    }
}

/// How often the record thread has requested incomplete batches.
#[derive(Clone, Debug)]
pub(crate) struct FlushRequests(Arc<Shared>);

impl FlushRequests {
    #[inline(always)]
    pub(crate) fn count(&self) -> u64 {
        // Relaxed: the records themselves pass through the queue.
        self.0.epoch.load(Ordering::Relaxed)
    }
}

/// The sending end of the record queue.
pub(crate) struct RecordSender<F> {
    batch: Vec<FlowRecord<F>>,
    preparation: Option<Preparation<F>>,
    queue: SyncSender<Batch<F>>,
    shared: Arc<Shared>,
    epoch: u64,
    when_full: WhenFull,
}

impl<F> RecordSender<F> {
    /// Returns another sender to the same queue.
    pub(crate) fn another(&self) -> Self {
        Self {
            batch: Vec::new(),
            preparation: self.preparation.as_ref().map(Preparation::another),
            queue: self.queue.clone(),
            shared: Arc::clone(&self.shared),
            epoch: self.epoch,
            when_full: self.when_full,
        }
    }

    /// Adds a record to the batch, and sends the batch when it is full.
    #[inline]
    pub(crate) fn push(&mut self, record: FlowRecord<F>) {
        if self.batch.capacity() == 0 {
            self.batch.reserve_exact(BATCH);
        }
        self.batch.push(record);
        if self.batch.len() == BATCH {
            self.send();
        }
    }

    /// Sends the incomplete batch if the record thread has requested it.
    #[inline(always)]
    pub(crate) fn flush_if_requested(&mut self) {
        // Relaxed: the records themselves pass through the queue.
        let epoch = self.shared.epoch.load(Ordering::Relaxed);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.send();
        }
    }

    /// Makes later sends wait when the queue is full.
    pub(crate) fn wait_when_full(&mut self) {
        self.when_full = WhenFull::Block;
    }

    /// Sends the incomplete batch.
    #[cold]
    pub(crate) fn send(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = match &mut self.preparation {
            Some(preparation) => {
                let batch = preparation.prepare(&self.batch);
                self.batch.clear();
                batch
            }
            None => Batch::Records(std::mem::take(&mut self.batch)),
        };
        let refused = match self.when_full {
            WhenFull::Block => self.queue.send(batch).err().map(|error| error.0),
            WhenFull::Drop => self.queue.try_send(batch).err().map(|error| match error {
                TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
            }),
        };
        if let Some(batch) = refused {
            self.shared.lost.fetch_add(batch.len(), Ordering::Relaxed);
        }
    }
}

impl<F> Drop for RecordSender<F> {
    fn drop(&mut self) {
        self.send();
    }
}

/// The receiving end of the record queue.
pub(crate) struct RecordWriter<F> {
    queue: Receiver<Batch<F>>,
    shared: Arc<Shared>,
    report: RecordsReport,
    failed: Option<SinkError>,
    is_held: bool,
    /// Of the records that the sink has taken, those that it has lost since, and that it holds.
    unwritten: (u64, u64),
}

/// Returns the two ends of a record queue.
pub(crate) fn queue<F>(when_full: WhenFull) -> (RecordSender<F>, RecordWriter<F>) {
    let (sender, receiver) = sync_channel(QUEUED_MAX);
    let shared: Arc<Shared> = Arc::default();
    let sender = RecordSender {
        batch: Vec::new(),
        preparation: None,
        queue: sender,
        shared: Arc::clone(&shared),
        epoch: 0,
        when_full,
    };
    let writer = RecordWriter {
        queue: receiver,
        shared,
        report: RecordsReport::default(),
        failed: None,
        is_held: false,
        unwritten: (0, 0),
    };
    (sender, writer)
}

impl<F> std::fmt::Debug for RecordSender<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordSender").field("batch", &self.batch.len()).finish_non_exhaustive()
    }
}

impl<F: FlowState> RecordSender<F> {
    pub(crate) fn is_preparing(&self) -> bool {
        self.preparation.is_some()
    }

    /// Makes senders prepare their records.
    pub(crate) fn prepare_with(&mut self, work: Option<Box<dyn PrepareRecords<F>>>) {
        self.preparation = work.map(Preparation::new);
    }
}

impl<F: FlowState> RecordWriter<F> {
    /// Passes records to the sink until all senders are gone. Stops the run when the sink fails.
    pub(crate) fn run(&mut self, sink: &mut (dyn RecordSink<F> + Send), control: &Control) {
        let mut next = clock::now() + FLUSH_EVERY;
        loop {
            match self.queue.recv_timeout(next.saturating_duration_since(clock::now())) {
                Ok(Batch::Records(records)) => self.write(sink, &records),
                Ok(Batch::Prepared(count, digest, prepared)) => {
                    self.pass(sink, count, |sink| Ok((digest, sink.write_prepared(prepared?)?)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if clock::now() >= next {
                self.shared.epoch.fetch_add(1, Ordering::Relaxed);
                self.call(|| sink.tick());
                self.flush(sink);
                self.publish(control);
                next = clock::now() + FLUSH_EVERY;
            }
            if self.failed.is_some() {
                // Later records count as lost.
                control.stop();
            }
        }
        self.flush(sink);
        self.publish(control);
    }

    fn publish(&self, control: &Control) {
        let [written, lost, held] = self.counts();
        control.publish_records([written, lost, held]);
    }

    /// Returns how many records are written, lost and held.
    fn counts(&self) -> [u64; 3] {
        let (lost_by_sink, held) = self.unwritten;
        let lost = self.report.lost + self.shared.lost.load(Ordering::Relaxed);
        [self.report.written - lost_by_sink - held, lost + lost_by_sink, held]
    }

    /// Passes records to the sink.
    pub(crate) fn write(&mut self, sink: &mut (dyn RecordSink<F> + Send), records: &[FlowRecord<F>]) {
        self.pass(sink, records.len() as u64, |sink| Ok((digest_of(records), sink.write(records)?)));
    }

    /// Passes a number of records to the sink, and adds their digest.
    fn pass(
        &mut self,
        sink: &mut (dyn RecordSink<F> + Send),
        count: u64,
        write: impl FnOnce(&mut (dyn RecordSink<F> + Send)) -> Result<(ResultDigest, ()), SinkError>,
    ) {
        if self.failed.is_some() {
            self.report.lost += count;
            return;
        }
        let written = caught(|| write(sink));
        match written.unwrap_or_else(|message| Err(SinkError::of_panic(&message))) {
            Ok((digest, ())) => {
                self.report.digest.combine(digest);
                self.report.written += count;
                self.is_held = true;
            }
            Err(error) => {
                self.report.lost += count;
                self.failed = Some(error);
            }
        }
        self.ask_unwritten(sink);
    }

    /// Calls the sink, unless it has failed before.
    fn call(&mut self, call: impl FnOnce() -> Result<(), SinkError>) {
        if self.failed.is_none() {
            let called = caught(call).unwrap_or_else(|message| Err(SinkError::of_panic(&message)));
            self.failed = called.err();
        }
    }

    fn ask_unwritten(&mut self, sink: &(dyn RecordSink<F> + Send)) {
        // A sink that has panicked may count wrongly.
        let (lost, held) = caught(|| (sink.lost(), sink.held())).unwrap_or_default();
        let lost = lost.clamp(self.unwritten.0, self.report.written);
        self.unwritten = (lost, held.min(self.report.written - lost));
    }

    fn flush(&mut self, sink: &mut (dyn RecordSink<F> + Send)) {
        if std::mem::take(&mut self.is_held) {
            self.call(|| sink.flush());
        }
        self.ask_unwritten(sink);
    }

    /// Returns the counts of the records, and the error of the sink.
    pub(crate) fn finish(self) -> (RecordsReport, Option<SinkError>) {
        let [written, lost, held] = self.counts();
        (RecordsReport { written, lost: lost + held, ..self.report }, self.failed)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::FlowState;
    use crate::report::results::EndedBy;
    use flowloom_flow_key::FlowKey;
    use flowloom_record::{Column, Kind, Value};

    #[derive(Clone, Debug, Default)]
    struct Number(u64);

    impl FlowState for Number {
        const COLUMNS: &'static [Column] = &[Column::new("number", Kind::Number, "")];
        fn values(&self, out: &mut Vec<Value>) {
            out.push(Value::Number(self.0));
        }
    }

    fn record(number: u64) -> FlowRecord<Number> {
        FlowRecord::new(FlowKey::from_v4(1, 2, 3, 4, 6).0, Number(number), EndedBy::IdleTimeout)
    }

    /// Fails after `at` records.
    struct Fails {
        at: u64,
        seen: u64,
    }

    impl RecordSink<Number> for Fails {
        fn write(&mut self, records: &[FlowRecord<Number>]) -> Result<(), SinkError> {
            self.seen += records.len() as u64;
            if self.seen > self.at { Err(SinkError("the disk is full".into())) } else { Ok(()) }
        }
    }

    #[test]
    fn every_record_is_written_or_counted_as_lost() {
        for (at, when_full) in
            [(u64::MAX, WhenFull::Block), (1000, WhenFull::Block), (1000, WhenFull::Drop)]
        {
            let (sender, mut writer) = queue(when_full);
            let control = Control::default();
            let mut sink = Fails { at, seen: 0 };
            let (report, error) = std::thread::scope(|scope| {
                for _ in 0..3 {
                    let mut sender = sender.another();
                    scope.spawn(move || (0..10_000).for_each(|i| sender.push(record(i))));
                }
                drop(sender);
                writer.run(&mut sink, &control);
                writer.finish()
            });
            assert_eq!(report.written + report.lost, 30_000);
            assert_eq!(error.is_some(), at == 1000);
            assert_eq!(control.is_stopped(), at == 1000);
            if at == u64::MAX {
                let mut digest = ResultDigest::default();
                for number in (0..10_000).chain(0..10_000).chain(0..10_000) {
                    let key = record(number).key;
                    digest.add(ResultDigest::of_flow(&key, &[Value::Number(number)]));
                }
                assert_eq!((report.lost, report.digest), (0, digest));
            }
        }
    }

    /// Sums what several threads have prepared.
    #[derive(Default)]
    struct Sums(u64);

    /// Sums numbers up to a maximum.
    struct Summed(u64);

    impl RecordSink<Number> for Sums {
        fn write(&mut self, _: &[FlowRecord<Number>]) -> Result<(), SinkError> {
            panic!("all records are prepared")
        }

        fn write_prepared(&mut self, prepared: Box<dyn Any + Send>) -> Result<(), SinkError> {
            self.0 += *prepared.downcast::<u64>().unwrap();
            Ok(())
        }
    }

    impl PrepareRecords<Number> for Summed {
        fn prepare(&mut self, records: &[FlowRecord<Number>]) -> Box<dyn Any + Send> {
            let numbers = records.iter().map(|record| record.state.0);
            assert!(numbers.clone().all(|number| number < self.0), "a number is too large");
            Box::new(numbers.sum::<u64>())
        }

        fn another(&self) -> Box<dyn PrepareRecords<Number>> {
            Box::new(Self(self.0))
        }
    }

    #[test]
    fn senders_prepare_records_and_a_panic_of_theirs_ends_the_run() {
        for max in [u64::MAX, 5000] {
            let (mut sender, mut writer) = queue(WhenFull::Block);
            sender.prepare_with(Some(Box::new(Summed(max))));
            let (control, mut sink) = (Control::default(), Sums::default());
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let mut sender = sender.another();
                    scope.spawn(move || (0..10_000).for_each(|i| sender.push(record(i))));
                }
                drop(sender);
                writer.run(&mut sink, &control);
            });
            let (report, error) = writer.finish();
            assert_eq!(report.written + report.lost, 30_000);
            let is_whole = max == u64::MAX;
            assert_eq!((error.is_some(), control.is_stopped()), (!is_whole, !is_whole));
            if is_whole {
                let digest = digest_of(&(0..10_000).map(record).collect::<Vec<_>>());
                let mut three = ResultDigest::default();
                (0..3).for_each(|_| three.combine(digest));
                assert_eq!((sink.0, report.digest, report.lost), (3 * 9999 * 5000, three, 0));
            } else {
                let text = error.map(|error| error.to_string()).unwrap_or_default();
                assert!(text.contains("a number is too large"), "{text}");
            }
        }
    }

    /// Loses half of the records that it has taken, and holds a tenth of them.
    struct Forgets(u64);

    impl RecordSink<Number> for Forgets {
        fn write(&mut self, records: &[FlowRecord<Number>]) -> Result<(), SinkError> {
            self.0 += records.len() as u64;
            Ok(())
        }

        fn lost(&self) -> u64 {
            self.0 / 2
        }

        fn held(&self) -> u64 {
            self.0 / 10
        }
    }

    #[test]
    fn records_that_the_sink_loses_later_or_holds_do_not_count_as_written() {
        let (mut sender, mut writer) = queue(WhenFull::Block);
        let (control, mut sink) = (Control::default(), Forgets(0));
        let gauges = control.begin(1, 1);
        (0..1000).for_each(|i| sender.push(record(i)));
        drop(sender);
        writer.run(&mut sink, &control);
        let snapshot = control.snapshot();
        let counts = [snapshot.records_written, snapshot.records_lost, snapshot.records_held];
        assert_eq!(counts, [400, 500, 100]);
        let (report, error) = writer.finish();
        assert_eq!((report.written, report.lost, error.is_none()), (400, 600, true));
        drop(gauges);
    }

    #[test]
    fn an_incomplete_batch_is_sent_when_it_is_asked_for() {
        let (mut sender, writer) = queue(WhenFull::Block);
        sender.push(record(1));
        sender.flush_if_requested();
        assert!(writer.queue.try_recv().is_err());
        writer.shared.epoch.fetch_add(1, Ordering::Relaxed);
        sender.flush_if_requested();
        assert_eq!(writer.queue.try_recv().map(|batch| batch.len()), Ok(1));
    }
}
