//! Records that workers prepare for the sink.

use std::any::Any;

use crate::app::FlowState;
use crate::error::SinkError;
use crate::report::digest::ResultDigest;
use crate::report::results::{FlowRecord, digest_of};
use crate::stage::panics::caught;

/// The work for a [`RecordSink`](crate::RecordSink) that several threads do at the same time.
pub trait PrepareRecords<F>: Send {
    /// Returns the records in the form in which
    /// [`RecordSink::write_prepared`](crate::RecordSink::write_prepared) takes them.
    fn prepare(&mut self, records: &[FlowRecord<F>]) -> Box<dyn Any + Send>;

    /// Returns the same for another thread.
    fn another(&self) -> Box<dyn PrepareRecords<F>>;
}

/// What passes through the record queue.
pub(crate) enum Batch<F> {
    Records(Vec<FlowRecord<F>>),
    /// Records that a worker has prepared, with their number and digest; or why that failed.
    Prepared(u64, ResultDigest, Result<Box<dyn Any + Send>, SinkError>),
}

impl<F> Batch<F> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Records(records) => records.len() as u64,
            Self::Prepared(count, ..) => *count,
        }
    }
}

/// What a sender does with a batch before it sends it.
pub(crate) struct Preparation<F> {
    work: Box<dyn PrepareRecords<F>>,
    /// Lets senders be dropped without knowing what a state is.
    prepare: Prepare<F>,
}

type Prepare<F> = fn(&mut dyn PrepareRecords<F>, &[FlowRecord<F>]) -> Batch<F>;

impl<F> Preparation<F> {
    pub(crate) fn prepare(&mut self, records: &[FlowRecord<F>]) -> Batch<F> {
        (self.prepare)(&mut *self.work, records)
    }

    pub(crate) fn another(&self) -> Self {
        Self { work: self.work.another(), prepare: self.prepare }
    }
}

impl<F: FlowState> Preparation<F> {
    pub(crate) fn new(work: Box<dyn PrepareRecords<F>>) -> Self {
        Self { work, prepare: prepared }
    }
}

/// Prepares a batch of records, and computes their digest.
fn prepared<F: FlowState>(work: &mut dyn PrepareRecords<F>, records: &[FlowRecord<F>]) -> Batch<F> {
    let count = records.len() as u64;
    match caught(|| (digest_of(records), work.prepare(records))) {
        Ok((digest, prepared)) => Batch::Prepared(count, digest, Ok(prepared)),
        Err(message) => Batch::Prepared(count, ResultDigest::default(), Err(SinkError::of_panic(&message))),
    }
}
