//! Readers of request logs, for all line formats.

use std::io::Read;

use crate::model::logged::{LogEntry, address_of};

use super::entry::Entry;
use super::format::Format;
use super::lines::{Line, Lines};
use super::summary::{ReadError, ReadLimits, ReadSummary, Skip};
use super::{bu, clf, tsv, w3c};

/// Reads a log of requests: [`Format::Clf`], [`Format::Tsv`], [`Format::W3c`] or [`Format::Bu`];
/// any other format is treated as the first.
///
/// The entries are in the order of the log, which need not be chronological.
///
/// # Errors
///
/// Returns [`ReadError`] if the input fails or contains no usable record.
pub fn read_log(
    input: impl Read,
    format: Format,
    limits: ReadLimits,
) -> Result<(Vec<LogEntry>, ReadSummary), ReadError> {
    let mut lines = Lines::new(input);
    let mut summary = ReadSummary::default();
    let mut entries: Vec<LogEntry> = Vec::new();
    let mut columns = tsv::Columns::default();
    let mut directives = w3c::Directives::default();
    let mut latest_ms = 0;
    loop {
        let line = match lines.next_line() {
            Ok(Some(Line::Whole(line))) => line,
            Ok(Some(Line::TooLong)) => {
                summary.skip(Skip::TooLong);
                continue;
            }
            Ok(None) => break,
            Err(error) => return Err(ReadError::Io { summary, error }),
        };
        if entries.len() >= limits.records_max {
            summary.limited = true;
            break;
        }
        let entry = match format {
            Format::Tsv => columns.parse(line).or_else(|reason| {
                // The header of the file, or of a file that was appended to it.
                columns = tsv::Columns::from_header(line).ok_or(reason)?;
                Err(Skip::Empty)
            }),
            Format::W3c => directives.parse(line),
            Format::Bu => bu::parse(line),
            _ => clf::parse(line),
        };
        match entry {
            Ok(Entry { host, time_ms, reply_bytes }) => {
                summary.take();
                summary.time_backwards += u64::from(time_ms < latest_ms);
                latest_ms = latest_ms.max(time_ms);
                entries.push(LogEntry { address: address_of(host), time_ms, reply_bytes });
            }
            Err(reason) => summary.skip(reason),
        }
    }
    if entries.is_empty() { Err(ReadError::Nothing { summary }) } else { Ok((entries, summary)) }
}
