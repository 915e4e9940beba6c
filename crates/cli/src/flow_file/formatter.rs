//! Records as text, formatted apart from the file.

use std::io;

use flowloom::apps::EndedFlow;
use flowloom_export::{CsvRows, EveRows, JsonRows, TextRows, ZeekRows};

use crate::record_format::Format;
use crate::record_view::{FilterCounts, RecordPlan, RecordView};

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

/// Returns the rows of a format, if it is one of text.
pub(super) fn text_rows(format: Format, plan: &RecordPlan) -> io::Result<Option<Box<dyn TextRows>>> {
    let (schema, columns) = (&plan.schema, &plan.columns);
    Ok(Some(match format {
        Format::Csv => Box::new(CsvRows::new(columns)),
        Format::Jsonl => Box::new(JsonRows::new(columns)),
        Format::Zeek => Box::new(ZeekRows::new(schema, columns).map_err(io::Error::other)?),
        Format::Eve => Box::new(EveRows::new(schema, columns).map_err(io::Error::other)?),
        Format::Ipfix | Format::Netflow9 | Format::Parquet | Format::Arrow => return Ok(None),
    }))
}
