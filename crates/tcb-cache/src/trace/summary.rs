//! Summary of reading an input.

use core::fmt;
use std::io;

/// The reason why a line or record was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Skip {
    /// An empty line or a comment.
    Empty,
    /// Longer than [`LINE_BYTES_MAX`](super::LINE_BYTES_MAX).
    TooLong,
    /// Fields are missing.
    FieldsMissing,
    /// The host is empty or has more than 255 bytes.
    Host,
    /// The time is invalid.
    Time,
    /// The request is not quoted correctly.
    Quoting,
    /// A number is invalid.
    Number,
    /// A binary record has impossible values.
    Record,
    /// A binary record is truncated by the end of the input.
    Cut,
}

impl Skip {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Empty,
        Self::TooLong,
        Self::FieldsMissing,
        Self::Host,
        Self::Time,
        Self::Quoting,
        Self::Number,
        Self::Record,
        Self::Cut,
    ];

    /// Returns the reason's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::FieldsMissing => "fields_missing",
            Self::Host => "host",
            Self::Time => "time",
            Self::Quoting => "quoting",
            Self::Number => "number",
            Self::Record => "record",
            Self::Cut => "cut",
        }
    }
}

/// Limits of a reader.
///
/// Later versions may add fields: end a literal with `..ReadLimits::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Maximum number of used records; reading stops there.
    pub records_max: usize,
}

impl Default for ReadLimits {
    /// 2²⁷ records: 2 GiB of accesses, 3 GiB of log entries.
    fn default() -> Self {
        Self { records_max: 1 << 27 }
    }
}

/// Counts of records. `records = used + Σ skipped` holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadSummary {
    /// Lines or binary records that were parsed.
    pub records: u64,
    /// Records that are in the result.
    pub used: u64,
    /// Records that are not in the result, by reason, in the order of [`Skip::ALL`].
    skipped: [u64; Skip::ALL.len()],
    /// Used records whose time is before that of an earlier record.
    pub time_backwards: u64,
    /// Whether reading stopped at [`ReadLimits::records_max`].
    pub limited: bool,
}

impl ReadSummary {
    /// Counts a record that is not used.
    pub(super) fn skip(&mut self, reason: Skip) {
        self.records += 1;
        self.skipped[reason as usize] += 1;
    }

    /// Counts a record that is used.
    pub(super) fn take(&mut self) {
        self.records += 1;
        self.used += 1;
    }

    /// Returns how many records were skipped for a reason.
    #[must_use]
    pub fn skipped(&self, reason: Skip) -> u64 {
        self.skipped[reason as usize]
    }

    /// Returns how many records were skipped, without empty ones.
    #[must_use]
    pub fn skipped_in_all(&self) -> u64 {
        self.skipped.iter().sum::<u64>() - self.skipped(Skip::Empty)
    }

    /// Returns the reasons that occurred, with their counts.
    pub fn reasons(&self) -> impl Iterator<Item = (Skip, u64)> {
        Skip::ALL.into_iter().zip(self.skipped).filter(|(_, count)| *count > 0)
    }
}

impl fmt::Display for ReadSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} records used", self.used, self.records)?;
        for (reason, count) in self.reasons() {
            write!(f, ", {count} skipped ({})", reason.name())?;
        }
        if self.time_backwards > 0 {
            write!(f, ", {} back in time", self.time_backwards)?;
        }
        if self.limited {
            f.write_str(", stopped at the limit")?;
        }
        Ok(())
    }
}

/// The reason why an input results in no trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The input cannot be read.
    Io {
        /// The summary up to the error.
        summary: ReadSummary,
        /// The input's error.
        error: io::Error,
    },
    /// No record could be used.
    Nothing {
        /// The reason.
        summary: ReadSummary,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { summary, error } => {
                let plural = if summary.records == 1 { "" } else { "s" };
                write!(f, "reading failed after {} record{plural}: {error}", summary.records)
            }
            Self::Nothing { summary } if summary.records == 0 => f.write_str("the input is empty"),
            Self::Nothing { summary } => {
                write!(f, "no record can be used: {summary}; is this the right format?")
            }
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Nothing { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_how_many_records_came_before() {
        let text = |records| {
            let summary = ReadSummary { records, ..ReadSummary::default() };
            ReadError::Io { summary, error: io::Error::other("gone") }.to_string()
        };
        assert_eq!(text(1), "reading failed after 1 record: gone");
        assert_eq!(text(2), "reading failed after 2 records: gone");
    }
}
