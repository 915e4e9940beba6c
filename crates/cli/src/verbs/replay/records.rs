//! What `replay` does with the records of flows as they end: all of it in bounded memory.

use std::collections::BTreeMap;

use flowloom::apps::SourceDirection;
use flowloom::apps::accounting::AccountingRecord;
use flowloom::engine::{FlowRecord, FlowState, FlowValue, RecordSink, SinkError};

use super::l7::Labels;
use crate::flow_file::FlowWriter;
use crate::record_view::{LabelOf, RecordView};

/// The sink of a run's records.
pub(super) struct Records<F> {
    /// The file that they go to.
    pub(super) file: Option<FlowWriter<F>>,
    /// What protocols they were named.
    pub(super) labels: Option<Labels>,
    /// How large they were, for a chart.
    pub(super) sizes: Option<Sizes>,
}

impl<F: FlowState + SourceDirection> Records<F> {
    /// Returns whether anything is made of the records.
    pub(super) fn has_use(&self) -> bool {
        self.file.is_some() || self.labels.is_some() || self.sizes.is_some()
    }

    /// Writes what stands behind the last record.
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

/// Gives each record that a view has of a flow to a function.
pub(super) struct Shown<'a, F> {
    pub(super) view: RecordView<F>,
    /// Of an application that names protocols.
    pub(super) label: Option<LabelOf<F>>,
    pub(super) show: Show<'a>,
}

/// Takes a record, and the protocol that it was named.
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

/// How many records had so many packets each: as many entries as there are sizes, not records.
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
