//! Patterns from files: our own form, and that of l7-filter.

mod conditions;
mod l7;
mod own;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::pattern::Pattern;

pub use l7::parse as parse_l7;
pub use own::parse as parse_own;

/// The longest file of patterns.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most files of one folder, with its folders.
pub const FILES_MAX: usize = 4096;
/// Folders within folders are followed to this depth.
const DEPTH_MAX: usize = 4;

/// An error in a text of patterns, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// Line, from 1; 0 when it is about the whole.
    pub line: usize,
    /// The error.
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

/// Why patterns could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The file or folder could not be read.
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A file is longer than [`FILE_BYTES_MAX`], or a folder contains more than [`FILES_MAX`]
    /// files.
    TooMuch {
        /// Path of the file or folder.
        path: PathBuf,
        /// The exceeded limit.
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
                write!(f, "{}: more than {limit} {what}\n  name the files that are meant", path.display())
            }
            Self::Text { path, error } if error.line > 0 => {
                write!(f, "{}:{}: {}", path.display(), error.line, error.what)
            }
            Self::Text { path, error } => write!(f, "{}: {}", path.display(), error.what),
            Self::Empty { path } => write!(
                f,
                "{}: no .pat and no .patterns file in this folder\n  name a file of patterns, or their folder",
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

/// Reads a file, or every `.pat` and `.patterns` file of a folder in the order of their names.
///
/// A file that ends in `.pat` is l7-filter's; any other is our own form. The catch-alls of
/// l7-filter, `unknown` and `unset`, are left out.
///
/// # Errors
///
/// [`LoadError`] with the file, the line if there is one, and what to do.
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
                what: "files of patterns",
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
        // Comments of the original's files are in whatever encoding their writers had.
        parse_l7(&String::from_utf8_lossy(&bytes)).map(|pattern| pattern.into_iter().collect())
    } else {
        match std::str::from_utf8(&bytes) {
            Ok(text) => parse_own(text),
            Err(error) => {
                let line = bytes[..error.valid_up_to()].split(|&byte| byte == b'\n').count();
                Err(ParseError::at(line, "is no UTF-8; write bytes above 7f as \\xHH"))
            }
        }
    };
    parsed.map_err(|error| LoadError::Text { path: path.to_owned(), error })
}
