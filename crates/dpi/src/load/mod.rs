//! Loads patterns from files in Flowloom's format or in that of l7-filter.

mod conditions;
mod l7;
mod own;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::pattern::Pattern;

pub use l7::parse as parse_l7;
pub use own::parse as parse_own;

/// Maximum size of a pattern file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of files in a folder, including its subfolders.
pub const FILES_MAX: usize = 4096;
/// Maximum depth of nested folders.
const DEPTH_MAX: usize = 4;

/// An error in the text of patterns, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// Line number, starting at 1; 0 if the error concerns the whole text.
    pub line: usize,
    /// Description of the error.
    pub what: String,
}

impl ParseError {
    fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for ParseError {}

/// The reasons why patterns could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file or folder could not be read.
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A file is longer than [`FILE_BYTES_MAX`], or a folder contains more than [`FILES_MAX`]
    /// files.
    TooMuch {
        /// Path of the file or folder.
        path: PathBuf,
        /// The quantity that exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A line is invalid.
    Text {
        /// The file.
        path: PathBuf,
        /// The line, and its error.
        error: ParseError,
    },
    /// A folder contains no pattern file.
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::TooMuch { path, what, limit } => {
                write!(f, "{}: more than {limit} {what}\n  name the files to read", path.display())
            }
            Self::Text { path, error } if error.line > 0 => {
                write!(f, "{}:{}: {}", path.display(), error.line, error.what)
            }
            Self::Text { path, error } => write!(f, "{}: {}", path.display(), error.what),
            Self::Empty { path } => write!(
                f,
                "{}: no .pat or .patterns file in this folder\n  name a pattern file or a folder of \
                 pattern files",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Text { error, .. } => Some(error),
            Self::TooMuch { .. } | Self::Empty { .. } => None,
        }
    }
}

/// Reads a file, or all `.pat` and `.patterns` files of a folder in the order of their names.
///
/// A file whose name ends with `.pat` is in l7-filter's format; any other file is in Flowloom's
/// format. The catch-alls of l7-filter, `unknown` and `unset`, are omitted.
///
/// # Errors
///
/// Returns a [`LoadError`] with the file, the line if known, and a remedy.
pub fn load(path: &Path) -> Result<Vec<Pattern>, LoadError> {
    let io = |error| LoadError::Io { path: path.to_owned(), error };
    if !std::fs::metadata(path).map_err(io)?.is_dir() {
        return file(path);
    }
    let mut files = Vec::new();
    collect(path, DEPTH_MAX, &mut files)?;
    if files.is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    files.sort();
    let mut patterns = Vec::new();
    for path in &files {
        patterns.extend(file(path)?);
    }
    Ok(patterns)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let io = |error| LoadError::Io { path: folder.to_owned(), error };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let path = entry.path();
        let kind = entry.file_type().map_err(io)?;
        if kind.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "pat" || extension == "patterns") {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(LoadError::TooMuch {
                path: folder.to_owned(),
                what: "pattern files",
                limit: FILES_MAX as u64,
            });
        }
    }
    Ok(())
}

fn file(path: &Path) -> Result<Vec<Pattern>, LoadError> {
    let io = |error| LoadError::Io { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(LoadError::TooMuch { path: path.to_owned(), what: "bytes", limit: FILE_BYTES_MAX });
    }
    let parsed = if path.extension().is_some_and(|extension| extension == "pat") {
        // The comments of l7-filter's files have various encodings.
        parse_l7(&String::from_utf8_lossy(&bytes)).map(|pattern| pattern.into_iter().collect())
    } else {
        match std::str::from_utf8(&bytes) {
            Ok(text) => parse_own(text),
            Err(error) => {
                let line = bytes[..error.valid_up_to()].split(|&byte| byte == b'\n').count();
                Err(ParseError::at(line, "is not UTF-8; write bytes above 7f as \\xHH"))
            }
        }
    };
    parsed.map_err(|error| LoadError::Text { path: path.to_owned(), error })
}
