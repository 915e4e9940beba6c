//! Reading rules and headers from text.
//!
//! | module | reads |
//! | --- | --- |
//! | [`classbench`] | filter files of research |
//! | `toml` | our own form |
//! | [`iptables`] | a chain of a saved firewall, with the chains it leads to |
//! | `aws` | a security group or a network list of AWS, as JSON |
//! | [`cisco`] | an access list of Cisco IOS or ASA |
//! | `nft` | a ruleset of nftables, as text or as JSON |
//! | `kubernetes` | network policies of Kubernetes, as YAML or JSON |
//! | [`ipset`] | sets that rules of iptables refer to |
//! | [`trace`] | headers |
//!
//! Loaders are iterative and bounded: lines, files and lists have limits. An error names its line,
//! its column and what would be valid.

#[cfg(feature = "std")]
pub mod aws;
pub mod cisco;
pub mod classbench;
mod cursor;
mod error;
#[cfg(feature = "std")]
mod form;
pub mod ipset;
pub mod iptables;
#[cfg(feature = "std")]
pub mod kubernetes;
#[cfg(feature = "std")]
pub mod nft;
pub(crate) mod reject;
#[cfg(feature = "std")]
pub mod toml;
pub mod trace;
mod words;
#[cfg(feature = "std")]
mod yaml;

use alloc::string::String;

use crate::rule::{ProtocolMatch, Rule, decimal};

pub use iptables::tcp_flags;

pub use error::{LoadError, LoadErrorKind, LoadErrors};
#[cfg(feature = "std")]
pub use form::{LoadOptions, RuleFormat, load};

/// The limits of a loader.
///
/// Fields may be added in any version: a literal ends with `..LoadLimits::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Maximum number of rules.
    pub rules_max: usize,
    /// Maximum size of the text, in bytes.
    pub bytes_max: usize,
}

impl LoadLimits {
    /// Refuses a text that is too long.
    pub(crate) fn check_bytes(&self, text: &str) -> Result<(), LoadError> {
        if text.len() > self.bytes_max {
            let kind = LoadErrorKind::TooMuch { what: "bytes", limit: self.bytes_max };
            return Err(LoadError::new(1, "", 0, kind));
        }
        Ok(())
    }
}

impl Default for LoadLimits {
    /// Two million rules in 512 MiB.
    fn default() -> Self {
        Self { rules_max: 2_000_000, bytes_max: 512 << 20 }
    }
}

/// A rule and its position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Located {
    /// The rule.
    pub rule: Rule,
    /// First line of the rule, from one.
    pub line: usize,
}

/// Reads a protocol in the notation of rules: a name such as `tcp`, a number, a value under a mask
/// such as `0x06/0x0f`, or `any`.
pub fn protocol(word: &str) -> Option<ProtocolMatch> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        None => decimal(text),
    };
    if matches!(word, "any" | "all") {
        return Some(ProtocolMatch::ANY);
    }
    // Zero is not a protocol in all formats: `-p hopopt` of iptables is all.
    if let Some(known) = flowloom_flow_key::protocol::number(word).filter(|known| *known != 0) {
        return Some(ProtocolMatch::exact(known));
    }
    match word.split_once('/') {
        Some((value, mask)) => Some(ProtocolMatch::new(number(value)?, number(mask)?)),
        None => number(word).map(ProtocolMatch::exact),
    }
}

/// Returns whether a list of words has a word.
pub(crate) fn has_word(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

/// Returns the number, from one, the start and the text of the line that contains a byte.
#[cfg(feature = "std")]
fn line_of(text: &str, place: usize) -> (usize, usize, &str) {
    let place = place.min(text.len());
    let place = (0..=place).rev().find(|&byte| text.is_char_boundary(byte)).unwrap_or(0);
    let start = text[..place].rfind('\n').map_or(0, |end| end + 1);
    let line = text[..start].matches('\n').count() + 1;
    (line, start, text[start..].lines().next().unwrap_or(""))
}

/// Returns an error that concerns a line; 0 means the text.
fn at_line(text: &str, line: usize, message: String) -> LoadError {
    let shown = line.checked_sub(1).and_then(|index| text.lines().nth(index)).unwrap_or("");
    LoadError::new(line.max(1), shown, 0, LoadErrorKind::Refused(message))
}

/// Returns a line by its number, from one; empty if the text has fewer lines.
#[cfg(feature = "std")]
fn line_at(text: &str, number: usize) -> &str {
    text.lines().nth(number.saturating_sub(1)).unwrap_or("")
}
