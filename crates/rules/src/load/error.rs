//! The errors of loaders, with their positions.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::rule::RuleError;

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// Something else was expected here.
    Expected(
        /// A description of what was expected.
        &'static str,
    ),
    /// A number does not fit its field.
    NumberTooLarge {
        /// The maximum.
        max: u64,
    },
    /// A part of the rule is invalid.
    Rule(RuleError),
    /// The text or the rules exceed the limits.
    TooMuch {
        /// A description of what exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A known construct that this loader does not support.
    Unsupported(
        /// A description of the construct, with advice.
        &'static str,
    ),
    /// A construct that this loader refuses, with its name in the text.
    Refused(
        /// A description of the construct, with advice.
        String,
    ),
    /// The text is not in this format at all.
    RuleFormat(
        /// The parser's message.
        String,
    ),
}

/// The error of reading a text. Its display form shows the line with a caret below the position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadError {
    /// Line number, from one.
    pub line: usize,
    /// Column in characters, from one.
    pub column: usize,
    /// The kind of the error.
    pub kind: LoadErrorKind,
    /// The line, shortened around the position if it is long.
    pub text: String,
    /// Column in `text`, from one.
    pub text_column: usize,
}

/// Maximum number of characters of a line in an error.
const SHOWN: usize = 100;

impl LoadError {
    /// Returns the error at a byte of a line.
    pub(crate) fn new(line: usize, text: &str, byte: usize, kind: LoadErrorKind) -> Self {
        let byte = byte.min(text.len());
        let column = text.as_bytes()[..byte].iter().filter(|&&b| b & 0xc0 != 0x80).count();
        let skipped = column.saturating_sub(SHOWN / 2);
        let shown: String =
            text.chars().skip(skipped).take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { line, column: column + 1, kind, text: shown, text_column: column - skipped + 1 }
    }

    /// Returns the error of a text that is not JSON.
    #[cfg(feature = "std")]
    pub(crate) fn of_json(text: &str, error: &serde_json::Error) -> Self {
        let line = error.line().max(1);
        let shown = text.lines().nth(line - 1).unwrap_or("");
        // The parser counts bytes from one, and names the byte after the last at the end of a line.
        let mut at = error.column().saturating_sub(1).min(shown.len());
        while !shown.is_char_boundary(at) {
            at -= 1;
        }
        let whole = alloc::format!("{error}");
        let what = whole.split(" at line ").next().unwrap_or(&whole);
        let hint = if error.is_eof() { "; the file may be truncated" } else { "" };
        Self::new(line, shown, at, LoadErrorKind::RuleFormat(alloc::format!("no JSON: {what}{hint}")))
    }

    /// Returns the error as `file:line:column` with the line below it.
    pub fn in_file(&self, file: &str) -> String {
        alloc::format!("{file}:{self}")
    }
}

impl fmt::Display for LoadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::NumberTooLarge { max } => write!(f, "the number exceeds {max}"),
            Self::Rule(error) => error.fmt(f),
            Self::TooMuch { what, limit } => {
                write!(f, "more than {limit} {what}; raise the limit or split the file")
            }
            Self::Unsupported(what) => f.write_str(what),
            Self::Refused(what) => f.write_str(what),
            Self::RuleFormat(what) => f.write_str(what.trim()),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, kind, text, text_column } = self;
        write!(f, "{line}:{column}: {kind}")?;
        // An error about the whole text has no line to show, and neither has an empty line.
        if text.is_empty() {
            return Ok(());
        }
        write!(f, "\n  {text}\n  {:>text_column$}", "^")
    }
}

impl core::error::Error for LoadError {}

/// All errors of a text, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadErrors {
    /// The first errors; never empty.
    pub errors: Vec<LoadError>,
    /// Number of further errors.
    pub more: usize,
}

/// Maximum number of errors kept for a text.
const KEPT: usize = 50;

impl LoadErrors {
    /// Returns the errors, sorted by position; `None` if there are none.
    pub(crate) fn from_list(mut errors: Vec<LoadError>) -> Option<Self> {
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        let more = errors.len().saturating_sub(KEPT);
        errors.truncate(KEPT);
        (!errors.is_empty()).then_some(Self { errors, more })
    }

    /// Returns each error as `file:line:column` with its line below it. The lines of all errors
    /// but the first are indented.
    pub fn in_file(&self, file: &str) -> String {
        let mut parts: Vec<String> = self.errors.iter().map(|error| error.in_file(file)).collect();
        if self.more > 0 {
            parts.push(alloc::format!("and {} more problems", self.more));
        }
        let indented: Vec<String> = parts.iter().map(|part| part.replace('\n', "\n  ")).collect();
        let first = parts.first().cloned().unwrap_or_default();
        core::iter::once(first).chain(indented.into_iter().skip(1)).collect::<Vec<_>>().join("\n  ")
    }
}

impl From<LoadError> for LoadErrors {
    fn from(error: LoadError) -> Self {
        Self { errors: Vec::from([error]), more: 0 }
    }
}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.more > 0 { write!(f, "\nand {} more problems", self.more) } else { Ok(()) }
    }
}

impl core::error::Error for LoadErrors {}
