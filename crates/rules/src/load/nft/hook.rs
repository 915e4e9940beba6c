//! The hooks through which packets enter chains, and what the kernel allows there.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::has_word;

/// The hook through which packets enter a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) priority: i64,
}

/// Base chains: the families of their tables, their type, and their hooks.
const CHAINS: [(&str, &str, &str); 6] = [
    ("ip ip6 inet bridge", "filter", "prerouting input forward output postrouting"),
    ("inet netdev", "filter", "ingress"),
    ("netdev", "filter", "egress"),
    ("arp", "filter", "input output"),
    ("ip ip6 inet", "nat", "prerouting input output postrouting"),
    ("ip ip6 inet", "route", "output"),
];

/// Names of priorities: the families of the tables, the name, its number, and the hooks that have
/// it; no hook means each.
const PRIORITIES: [(&str, &str, i64, &str); 10] = [
    ("ip ip6 inet", "raw", -300, ""),
    ("ip ip6 inet", "mangle", -150, ""),
    ("ip ip6 inet", "dstnat", -100, "prerouting output"),
    ("ip ip6 inet arp netdev", "filter", 0, ""),
    ("ip ip6 inet", "security", 50, ""),
    ("ip ip6 inet", "srcnat", 100, "postrouting input"),
    ("bridge", "dstnat", -300, "prerouting"),
    ("bridge", "filter", -200, ""),
    ("bridge", "out", 100, "output"),
    ("bridge", "srcnat", 300, "postrouting"),
];

/// Statements that the kernel allows in some chains only: their types, and their hooks.
const PLACES: [(&str, &str, &str); 7] = [
    ("masquerade", "nat", "postrouting"),
    ("snat", "nat", "postrouting input"),
    ("dnat redirect", "nat", "prerouting output"),
    ("netmap", "nat", "prerouting input output postrouting"),
    ("tproxy", "filter nat", "prerouting"),
    ("synproxy", "filter nat", "input forward"),
    ("reject", "filter nat route", "prerouting input forward output"),
];

impl Hook {
    /// Checks a type of chains in tables of a family.
    ///
    /// # Errors
    ///
    /// A description of the types that exist.
    pub(super) fn check_kind(family: &str, kind: &str) -> Result<(), String> {
        let mut kinds: Vec<&str> =
            CHAINS.iter().filter(|row| has_word(row.0, family)).map(|row| row.1).collect();
        kinds.dedup();
        if kinds.contains(&kind) {
            return Ok(());
        }
        let all = kinds.join(", ");
        Err(format!("'{kind}' is not a type of chains in a table of family {family}; write one of: {all}"))
    }

    /// Checks the hook of a chain.
    ///
    /// # Errors
    ///
    /// A description of the hooks that exist.
    pub(super) fn check_name(family: &str, kind: &str, name: &str) -> Result<(), String> {
        let rows = CHAINS.iter().filter(|row| has_word(row.0, family) && row.1 == kind);
        let names: Vec<&str> = rows.flat_map(|row| row.2.split(' ')).collect();
        if names.contains(&name) {
            return Ok(());
        }
        let all = names.join(", ");
        Err(format!(
            "'{name}' is not a hook of chains of type {kind} in a table of family {family}; write one of: \
             {all}"
        ))
    }

    /// Returns whether chains of a hook belong to a device.
    pub(super) fn has_device(name: &str) -> bool {
        matches!(name, "ingress" | "egress")
    }

    /// Returns the number of a priority: a number itself, or a name and perhaps an offset, such as
    /// `filter + 5`.
    ///
    /// # Errors
    ///
    /// A description of the priorities that exist.
    pub(super) fn priority_of(family: &str, hook: &str, word: &str, offset: &str) -> Result<i64, String> {
        let number =
            |text: &str| text.parse::<i32>().ok().filter(|_| !text.starts_with('+')).map(i64::from);
        let rows = || {
            let rows = PRIORITIES.iter().filter(|row| has_word(row.0, family));
            rows.filter(|row| row.3.is_empty() || has_word(row.3, hook))
        };
        let name = || rows().find(|row| row.1 == word).map(|row| row.2);
        let found = match offset.split_at_checked(1) {
            None => number(word).or_else(name),
            Some(("-", digits)) if word.is_empty() => number(digits).map(|number| -number),
            Some((sign, digits)) => name().zip(number(digits)).and_then(|(base, offset)| match sign {
                "+" => Some(base + offset),
                "-" => Some(base - offset),
                _ => None,
            }),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = rows().map(|row| row.1).collect();
            format!(
                "'{word}{offset}' is not a priority at the hook {hook} in a table of family {family}; write a \
                 number, or a name and perhaps + or - and a number: {}",
                names.join(", ")
            )
        })
    }

    /// Checks a statement in rules to which packets come from this hook.
    ///
    /// # Errors
    ///
    /// A description of the chains in which the kernel allows the statement.
    pub(super) fn check_statement(&self, name: &str) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let Some((_, kinds, hooks)) = PLACES.iter().find(|row| has_word(row.0, &name)) else {
            return Ok(());
        };
        if has_word(kinds, &self.kind) && has_word(hooks, &self.name) {
            return Ok(());
        }
        Err(format!(
            "'{name}' is possible only in chains of type {} hook {}, and packets come here from a chain of \
             type {} hook {}; remove the rule, or move it",
            kinds.replace(' ', " or "),
            hooks.replace(' ', " or "),
            self.kind,
            self.name
        ))
    }
}
