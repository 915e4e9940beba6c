//! What is wrong with a text, and where.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::rule::RuleError;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// Something else was expected here.
    Expected(
        /// What was expected, for people.
        &'static str,
    ),
    /// A number that does not fit its field.
    NumberTooLarge {
        /// The greatest that fits.
        max: u64,
    },
    /// A part of the rule cannot be.
    Rule(RuleError),
    /// More text or rules than the limits take.
    TooMuch {
        /// Of what, for people.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Something known, which this loader does not read.
    Unsupported(
        /// What it is and what to do, for people.
        &'static str,
    ),
    /// Something that this loader refuses, with its name in the text.
    Refused(
        /// What it is and what to do, for people.
        String,
    ),
    /// The text is not of this form at all.
    Form(
        /// What its parser says.
        String,
    ),
}

/// A text cannot be read. Displayed, it shows the line with a caret below the place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadError {
    /// Line, from one.
    pub line: usize,
    /// Column in characters, from one.
    pub column: usize,
    /// What is wrong.
    pub kind: LoadErrorKind,
    /// The line, cut around the place if it is long.
    pub text: String,
    /// Column in `text`, from one.
    pub text_column: usize,
}

/// Characters of a line that an error shows.
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

    /// Returns the error as `file:line:column` with the line below it.
    pub fn in_file(&self, file: &str) -> String {
        alloc::format!("{file}:{self}")
    }
}

impl fmt::Display for LoadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::NumberTooLarge { max } => write!(f, "number is above {max}"),
            Self::Rule(error) => error.fmt(f),
            Self::TooMuch { what, limit } => {
                write!(f, "more than {limit} {what}; raise the limit or split the file")
            }
            Self::Unsupported(what) => f.write_str(what),
            Self::Refused(what) => f.write_str(what),
            Self::Form(what) => f.write_str(what.trim()),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, kind, text, text_column } = self;
        write!(f, "{line}:{column}: {kind}")?;
        // What is wrong with the whole text shows no line of it, and an empty line has nothing to
        // show.
        if text.is_empty() {
            return Ok(());
        }
        write!(f, "\n  {text}\n  {:>text_column$}", "^")
    }
}

impl core::error::Error for LoadError {}

/// Everything that is wrong with a text, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadErrors {
    /// The first of them; never empty.
    pub errors: Vec<LoadError>,
    /// How many more there are.
    pub more: usize,
}

/// Errors that are kept of a text.
const KEPT: usize = 50;

impl LoadErrors {
    /// Returns the errors, sorted by their place; `None` where there are none.
    pub(crate) fn of(mut errors: Vec<LoadError>) -> Option<Self> {
        errors.sort_by_key(|error| (error.line, error.column));
        errors.dedup();
        let more = errors.len().saturating_sub(KEPT);
        errors.truncate(KEPT);
        (!errors.is_empty()).then_some(Self { errors, more })
    }

    /// Returns each error as `file:line:column` with its line below it.
    pub fn in_file(&self, file: &str) -> String {
        let mut parts: Vec<String> = self.errors.iter().map(|error| error.in_file(file)).collect();
        if self.more > 0 {
            parts.push(alloc::format!("and {} more problems", self.more));
        }
        parts.join("\n")
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
