//! The processing of flow records in `replay` as flows end, in bounded memory.

use std::any::Any;

use flowloom::apps::EndedFlow;
use flowloom::apps::accounting::AccountingRecord;
use flowloom::engine::{FlowRecord, PrepareRecords, RecordSink, SinkError};
use flowloom::traffic::capture::InterfaceLosses;

use super::l7::Labels;
use super::record_sums::RecordSums;
use crate::args::replay::Replay;
use crate::flow_file::{FlowWriter, Formatted, Formatter};
use crate::part_file;
use crate::record_view::RecordView;

/// Receives the records of any application.
pub(super) trait AnySink: Send {
    /// Takes the record of a flow that has ended.
    fn take(&mut self, record: &dyn EndedFlow) -> Result<(), SinkError>;

    /// See [`RecordSink::preparation`].
    fn preparation(&self) -> Option<Preparation> {
        None
    }

    /// Takes records that its preparation has prepared. See [`RecordSink::write_prepared`].
    fn take_prepared(&mut self, _prepared: Prepared) -> Result<(), SinkError> {
        Err(SinkError("no records are prepared for this sink".into()))
    }

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

    fn preparation(&self) -> Option<Box<dyn PrepareRecords<F>>> {
        Some(Box::new(self.0.preparation()?))
    }

    fn write_prepared(&mut self, prepared: Box<dyn Any + Send>) -> Result<(), SinkError> {
        let prepared = prepared.downcast();
        let prepared = prepared.map_err(|_| SinkError("another sink has prepared the records".into()))?;
        self.0.take_prepared(*prepared)
    }
}

/// Does the part of the work for [`Records`] that does not depend on other records.
pub(super) struct Preparation {
    formatter: Option<Formatter>,
    has_labels: bool,
    has_times: bool,
}

/// Records that a [`Preparation`] has prepared.
#[derive(Default)]
pub(super) struct Prepared {
    formatted: Formatted,
    labels: Labels,
    times_back: u64,
}

impl<F> PrepareRecords<F> for Preparation
where
    FlowRecord<F>: EndedFlow,
{
    fn prepare(&mut self, records: &[FlowRecord<F>]) -> Box<dyn Any + Send> {
        let mut prepared = Prepared::default();
        for record in records {
            self.add(record, &mut prepared);
        }
        if let Some(formatter) = &mut self.formatter {
            formatter.end(&mut prepared.formatted);
        }
        Box::new(prepared)
    }

    fn another(&self) -> Box<dyn PrepareRecords<F>> {
        Box::new(Self { formatter: self.formatter.as_ref().map(Formatter::another), ..*self })
    }
}

impl Preparation {
    fn add(&mut self, record: &dyn EndedFlow, prepared: &mut Prepared) {
        if let (true, Some(flow)) = (self.has_labels, record.label()) {
            prepared.labels.add(flow);
        }
        if let (true, Some(account)) = (self.has_times, record.account()) {
            prepared.times_back += u64::from(account.times_back() > 0);
        }
        if let Some(formatter) = &mut self.formatter {
            formatter.format(record, &mut prepared.formatted);
        }
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

    /// Sums, and formats other than text, need the records themselves.
    fn preparation(&self) -> Option<Preparation> {
        if self.sums.is_some() {
            return None;
        }
        let formatter = match &self.file {
            Some(file) => Some(file.formatter()?),
            None => None,
        };
        let (has_labels, has_times) = (self.labels.is_some(), self.times_back.is_some());
        Some(Preparation { formatter, has_labels, has_times })
    }

    fn take_prepared(&mut self, prepared: Prepared) -> Result<(), SinkError> {
        let Prepared { formatted, labels, times_back } = prepared;
        if let Some(all) = &mut self.labels {
            all.merge(labels);
        }
        if let Some(all) = &mut self.times_back {
            *all += times_back;
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_formatted(&formatted)).map_err(failed)
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

/// Receives a record, and the flow with its label and additional fields.
pub(crate) type Show<'a> = &'a mut (dyn FnMut(&AccountingRecord, &dyn EndedFlow) + Send);

impl AnySink for Shown<'_> {
    fn take(&mut self, record: &dyn EndedFlow) -> Result<(), SinkError> {
        if self.view.selects(record)
            && let Some(account) = record.account()
        {
            let row = AccountingRecord::new(record.key(), account, record.ended());
            (self.show)(&row, record);
        }
        Ok(())
    }
}

/// What a run keeps of the flows for a part.
pub(super) enum Kept {
    Nothing,
    /// All of them.
    File(part_file::Records),
    /// The ticks of each record's first and last packet, and whether it is live at the end.
    #[cfg(feature = "arrow")]
    Rows(Vec<([u64; 2], bool)>),
}

impl Kept {
    pub(super) fn from_arguments(arguments: &Replay) -> Self {
        match arguments {
            #[cfg(feature = "arrow")]
            Replay { fragments: true, .. } => Self::Rows(Vec::new()),
            Replay { save_part: Some(_), .. } => Self::File(part_file::Records::default()),
            _ => Self::Nothing,
        }
    }

    pub(super) fn add(&mut self, record: &dyn EndedFlow, ticks: [u64; 2], is_live: bool) {
        match self {
            Self::File(records) => records.add(record, ticks, is_live),
            #[cfg(feature = "arrow")]
            Self::Rows(rows) => rows.push((ticks, is_live)),
            Self::Nothing => {}
        }
    }
}
