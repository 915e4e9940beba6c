//! Reading rules and headers from text.
//!
//! Loaders are iterative and bounded: a line, a file and a list have limits, and what is wrong is said with its line, its
//! column and what would be right.

pub mod classbench;
mod cursor;
mod error;
pub mod trace;

pub use error::{LoadError, LoadErrorKind};

/// What a loader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Rules, at most.
    pub rules_max: usize,
    /// Bytes of text, at most.
    pub bytes_max: usize,
}

impl Default for LoadLimits {
    /// Two million rules in 512 MiB.
    fn default() -> Self {
        Self { rules_max: 2_000_000, bytes_max: 512 << 20 }
    }
}
