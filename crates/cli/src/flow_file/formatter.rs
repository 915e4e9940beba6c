//! Records as text, formatted apart from the file.

use flowloom::apps::EndedFlow;
use flowloom_export::TextRows;

use crate::record_view::{FilterCounts, RecordView};

/// Formats records for a [`FlowWriter`], on any thread.
pub(crate) struct Formatter {
    pub(super) view: RecordView,
    pub(super) rows: Box<dyn TextRows>,
}

/// Records as text.
#[derive(Default)]
pub(crate) struct Formatted {
    pub(super) bytes: Vec<u8>,
    pub(super) rows: u64,
    /// What `--where` has selected and rejected.
    pub(super) counts: FilterCounts,
}

impl Formatter {
    /// Returns the same for another thread.
    pub(crate) fn another(&self) -> Self {
        Self { view: self.view.another(), rows: self.rows.another() }
    }

    /// Adds a record, if `--where` selects it.
    pub(crate) fn format(&mut self, record: &dyn EndedFlow, out: &mut Formatted) {
        if let Some(row) = self.view.row(record) {
            self.rows.row(row, &mut out.bytes);
            out.rows += 1;
        }
    }

    /// Ends the records of `out`.
    pub(crate) fn end(&mut self, out: &mut Formatted) {
        out.counts = self.view.take_counts();
    }
}
