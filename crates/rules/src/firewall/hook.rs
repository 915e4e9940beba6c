//! The place in the path of a packet at which a policy decides.

use alloc::string::String;
use core::fmt;

/// A base chain: where packets enter it, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "std", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub struct Hook {
    /// The hook in lower case, such as `forward`; empty for a chain that only jumps lead to.
    pub name: String,
    /// The type of the chain: `filter`, `nat` or `route`.
    pub kind: String,
    /// Chains with lower priorities see packets first.
    pub priority: i64,
    /// The name of the chain.
    pub chain: String,
}

impl Hook {
    /// Returns the base chain of a filter, at priority 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_rules::firewall::Hook;
    /// assert_eq!(Hook::filter("input", "input").to_string(), "type filter hook input priority 0");
    /// ```
    #[must_use]
    pub fn filter(name: &str, chain: &str) -> Self {
        Self {
            name: name.to_ascii_lowercase(),
            kind: String::from("filter"),
            priority: 0,
            chain: String::from(chain),
        }
    }
}

impl fmt::Display for Hook {
    /// Writes the hook as nft does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {} hook {} priority {}", self.kind, self.name, self.priority)
    }
}
