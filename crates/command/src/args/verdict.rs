//! The names of verdicts.

use clap::ValueEnum;
use flowloom::engine::Verdict;

/// Verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerdictName {
    Accept,
    Deny,
}

impl VerdictName {
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Deny => Verdict::Deny,
        }
    }
}
