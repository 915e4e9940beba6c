//! Writing policies, so that another program, or we again, can read them.

mod blocks;
mod expand;
pub mod iptables;
#[cfg(feature = "std")]
pub mod json;
pub mod nft;
pub mod toml;

use alloc::string::String;
use core::fmt;

/// A policy that a form cannot say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unwritable {
    /// Line of the rule that cannot be written; 0 where there is none.
    pub line: usize,
    /// What it asks or does that the form cannot say, and what to do.
    pub text: String,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the rule at line {}: {}", self.line, self.text)
    }
}

impl core::error::Error for Unwritable {}
