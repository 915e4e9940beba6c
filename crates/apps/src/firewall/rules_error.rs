//! Rules that cannot judge packets.

use std::fmt;

use flowloom_classifier::BuildError;
use flowloom_rules::firewall::{Field, Policy, Undecidable};

/// An error of [`FirewallRules`](super::FirewallRules).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesError {
    /// The classifier exceeds its limits.
    Build(BuildError),
    /// The policy has no rules: the text has none, or it lacks the chain that
    /// [`LoadOptions`](flowloom_rules::load::LoadOptions) name.
    Empty,
    /// Some conditions depend on data that packets do not contain, and
    /// [`Enforcement::assume`](super::Enforcement::assume) is `None`.
    Undecided {
        /// The first conditions, each with the line of its rule.
        first: Vec<(usize, String)>,
        /// The number of conditions.
        count: usize,
        /// Whether the name of an interface is missing.
        lacks_interface: bool,
    },
}

impl RulesError {
    /// Maximum number of conditions in an error.
    const LISTED: usize = 10;

    pub(super) fn undecided(policy: &Policy, missing: &[Undecidable]) -> Self {
        let line = |one: &Undecidable| policy.sources().get(one.source).map_or(0, |source| source.line);
        Self::Undecided {
            first: missing.iter().take(Self::LISTED).map(|one| (line(one), one.text.clone())).collect(),
            count: missing.len(),
            lacks_interface: missing.iter().any(|one| matches!(one.field, Field::Input | Field::Output)),
        }
    }
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, count, lacks_interface) = match self {
            Self::Build(error) => return error.fmt(f),
            Self::Empty => {
                return f.write_str(
                    "no rules: the text has none, or no chain of this name; \
                     rules::load::nft::chains and iptables::chains return its chains",
                );
            }
            Self::Undecided { first, count, lacks_interface } => (first, *count, *lacks_interface),
        };
        let s = if count == 1 { "" } else { "s" };
        write!(f, "{count} condition{s} cannot be decided from packets alone")?;
        for (line, text) in first {
            write!(f, "\n  line {line}: {text}")?;
        }
        if count > first.len() {
            write!(f, "\n  and {} more", count - first.len())?;
        }
        f.write_str("\n  correct misspelt conditions")?;
        if lacks_interface {
            f.write_str("; name the interfaces in Enforcement::ports, or input and output")?;
        }
        f.write_str("; Enforcement::assume decides all of them")
    }
}

impl std::error::Error for RulesError {}

impl From<BuildError> for RulesError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}
