//! The processing of flow records in `replay` as flows end, in bounded memory.

use flowloom::apps::accounting::AccountingRecord;
use flowloom::apps::{EndedFlow, L7Flow};
use flowloom::engine::{FlowRecord, RecordSink, SinkError};
use flowloom::traffic::capture::InterfaceLosses;

use super::l7::Labels;
use super::record_sums::RecordSums;
use crate::flow_file::FlowWriter;
use crate::record_view::RecordView;

/// Receives the records of any application.
pub(super) trait AnySink: Send {
    /// Takes the record of a flow that has ended.
    fn take(&mut self, record: &dyn EndedFlow) -> Result<(), SinkError>;

    /// See [`RecordSink::flush`].
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// See [`RecordSink::tick`].
    fn tick(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Passes records of one state on.
pub(super) struct Passed<'a>(pub(super) &'a mut dyn AnySink);

impl<F> RecordSink<F> for Passed<'_>
where
    FlowRecord<F>: EndedFlow,
{
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        records.iter().try_for_each(|record| self.0.take(record))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.0.flush()
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.0.tick()
    }
}

/// The sink of a run's records.
pub(super) struct Records {
    /// The file that receives them.
    pub(super) file: Option<FlowWriter>,
    /// Whether a reader may wait for what precedes the first record, as with live input.
    pub(super) is_awaited: bool,
    /// Counts of their protocol labels.
    pub(super) labels: Option<Labels>,
    /// The number of those whose packets' time stamps go back, if they have any times.
    pub(super) times_back: Option<u64>,
    /// Their sums, for a page.
    pub(super) sums: Option<RecordSums>,
}

impl Records {
    /// Writes the data that follow the last record, and what the captures lost.
    pub(super) fn finish(&mut self, losses: &[InterfaceLosses]) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_losses(losses).and_then(|()| file.finish()))
    }
}

fn failed(error: std::io::Error) -> SinkError {
    SinkError(Box::new(error))
}

impl AnySink for Records {
    fn take(&mut self, record: &dyn EndedFlow) -> Result<(), SinkError> {
        if let (Some(labels), Some(flow)) = (&mut self.labels, record.label()) {
            labels.add(flow);
        }
        if let (Some(count), Some(account)) = (&mut self.times_back, record.account()) {
            *count += u64::from(account.times_back() > 0);
        }
        if let Some(sums) = &mut self.sums {
            sums.add(record);
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write(record)).map_err(failed)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.file.as_mut().map_or(Ok(()), FlowWriter::flush).map_err(failed)
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        if std::mem::take(&mut self.is_awaited) { self.flush() } else { Ok(()) }
    }
}

/// Passes each record that a view shows to a function.
pub(super) struct Shown<'a> {
    pub(super) view: RecordView,
    pub(super) show: Show<'a>,
}

/// Receives a record and its protocol label.
pub(crate) type Show<'a> = &'a mut (dyn FnMut(&AccountingRecord, Option<&'static str>) + Send);

impl AnySink for Shown<'_> {
    fn take(&mut self, record: &dyn EndedFlow) -> Result<(), SinkError> {
        if self.view.selects(record)
            && let Some(account) = record.account()
        {
            let row = AccountingRecord::of(record.key(), account, record.ended());
            (self.show)(&row, record.label().and_then(L7Flow::protocol));
        }
        Ok(())
    }
}
