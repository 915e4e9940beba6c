//! The processing of flow records in `replay` as flows end, in bounded memory.

use flowloom::apps::RecordState;
use flowloom::apps::accounting::AccountingRecord;
use flowloom::engine::{FlowRecord, RecordSink, SinkError};

use super::l7::Labels;
use super::record_sums::RecordSums;
use crate::flow_file::FlowWriter;
use crate::record_view::{AccountOf, LabelOf, RecordView};

/// The sink of a run's records.
pub(super) struct Records<F> {
    /// The file that receives them.
    pub(super) file: Option<FlowWriter<F>>,
    /// Whether a reader may wait for what precedes the first record, as with live input.
    pub(super) is_awaited: bool,
    /// Counts of their protocol labels.
    pub(super) labels: Option<(LabelOf<F>, Labels)>,
    /// Their sums, for a page.
    pub(super) sums: Option<RecordSums>,
}

impl<F: RecordState> Records<F> {
    /// Writes the data that follow the last record.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), FlowWriter::finish)
    }
}

impl<F: RecordState> RecordSink<F> for Records<F> {
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        if let Some((label, labels)) = &mut self.labels {
            for flow in records.iter().filter_map(|record| label(&record.state)) {
                labels.add(flow);
            }
        }
        if let Some(sums) = &mut self.sums {
            for record in records {
                sums.add(record);
            }
        }
        self.file.as_mut().map_or(Ok(()), |file| RecordSink::write(file, records))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.file.as_mut().map_or(Ok(()), RecordSink::flush)
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        if std::mem::take(&mut self.is_awaited) { self.flush() } else { Ok(()) }
    }
}

/// Passes each record that a view shows to a function.
pub(super) struct Shown<'a, F> {
    pub(super) view: RecordView,
    pub(super) account: AccountOf<F>,
    /// The label, for applications that label flows.
    pub(super) label: Option<LabelOf<F>>,
    pub(super) show: Show<'a>,
}

/// Receives a record and its protocol label.
pub(crate) type Show<'a> = &'a mut (dyn FnMut(&AccountingRecord, Option<&'static str>) + Send);

impl<F: RecordState> RecordSink<F> for Shown<'_, F> {
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        for record in records {
            if self.view.selects(record)
                && let Some(account) = (self.account)(&record.state)
            {
                let row = AccountingRecord::of(&record.key, account, record.ended);
                let label = self.label.and_then(|label| label(&record.state)?.protocol());
                (self.show)(&row, label);
            }
        }
        Ok(())
    }
}
