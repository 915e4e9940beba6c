//! Writing policies, for other programs or for loading again.

mod blocks;
mod expand;
pub mod iptables;
#[cfg(feature = "std")]
pub mod json;
pub mod nft;
pub mod toml;

use alloc::string::String;
use core::fmt;

/// A policy that a format cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unwritable {
    /// Line of the rule that cannot be written; 0 if there is none.
    pub line: usize,
    /// The condition or effect that the format cannot express, with advice.
    pub text: String,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the rule at line {}: {}", self.line, self.text)
    }
}

impl core::error::Error for Unwritable {}
