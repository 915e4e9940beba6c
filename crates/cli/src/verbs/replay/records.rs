//! The processing of flow records in `replay` as flows end, in bounded memory.

use std::collections::BTreeMap;

use flowloom::apps::SourceDirection;
use flowloom::apps::accounting::AccountingRecord;
use flowloom::engine::{FlowRecord, FlowState, FlowValue, RecordSink, SinkError};

use super::l7::Labels;
use crate::flow_file::FlowWriter;
use crate::record_view::{LabelOf, RecordView};

/// The sink of a run's records.
pub(super) struct Records<F> {
    /// The file that receives them.
    pub(super) file: Option<FlowWriter<F>>,
    /// Counts of their protocol labels.
    pub(super) labels: Option<Labels>,
    /// Counts of their sizes, for a chart.
    pub(super) sizes: Option<Sizes>,
}

impl<F: FlowState + SourceDirection> Records<F> {
    /// Returns whether the records are used at all.
    pub(super) fn has_use(&self) -> bool {
        self.file.is_some() || self.labels.is_some() || self.sizes.is_some()
    }

    /// Writes the data that follow the last record.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), FlowWriter::finish)
    }
}

impl<F: FlowState + SourceDirection> RecordSink<F> for Records<F> {
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        if let Some(labels) = &mut self.labels {
            for record in records {
                labels.add(&record.state);
            }
        }
        if let Some(sizes) = &mut self.sizes {
            for record in records {
                sizes.add(&record.state);
            }
        }
        self.file.as_mut().map_or(Ok(()), |file| RecordSink::write(file, records))
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.file.as_mut().map_or(Ok(()), RecordSink::flush)
    }
}

/// Passes each record that a view shows to a function.
pub(super) struct Shown<'a, F> {
    pub(super) view: RecordView<F>,
    /// The label, for applications that label flows.
    pub(super) label: Option<LabelOf<F>>,
    pub(super) show: Show<'a>,
}

/// Receives a record and its protocol label.
pub(crate) type Show<'a> = &'a mut (dyn FnMut(&AccountingRecord, Option<&'static str>) + Send);

impl<F: FlowState> RecordSink<F> for Shown<'_, F> {
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        for record in records {
            if let Some((row, _)) = self.view.of(record) {
                (self.show)(&row, self.label.and_then(|label| label(&record.state)));
            }
        }
        Ok(())
    }
}

/// The number of records by packet count. It has one entry per size, not per record.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) counts: BTreeMap<u64, u64>,
    values: Vec<FlowValue>,
}

impl Sizes {
    fn add<F: FlowState>(&mut self, state: &F) {
        self.values.clear();
        state.values(&mut self.values);
        let mut packets = None;
        for (name, value) in F::COLUMNS.iter().zip(&self.values) {
            if let (true, FlowValue::Count(count)) = (name.starts_with("packets"), value) {
                *packets.get_or_insert(0) += count;
            }
        }
        if let Some(packets) = packets {
            *self.counts.entry(packets).or_default() += 1;
        }
    }
}
