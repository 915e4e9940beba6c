//! Writing policies, for other programs or for loading again.

mod blocks;
mod expand;
pub mod iptables;
#[cfg(feature = "std")]
pub mod json;
pub mod nft;
pub mod toml;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use crate::firewall::{Entry, Families, Hook, Outcome, Policy};
use crate::load::reject;
use crate::rule::Action;

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

/// Returns the base chain of the written rules: that of the policy, or `input` if its format has no
/// hooks.
fn hook(policy: &Policy) -> Result<Hook, Unwritable> {
    let unwritable = |text: String| Err(Unwritable { line: 0, text });
    check_tracking(policy)?;
    let Some(hook) = policy.hooks().first() else { return Ok(Hook::filter("input", "input")) };
    if hook.name.is_empty() {
        return unwritable(format!("no hook leads to chain '{}'; choose a base chain", hook.chain));
    }
    if hook.kind != "filter" {
        return unwritable(format!("chain '{}' has type {}; choose a filter chain", hook.chain, hook.kind));
    }
    match policy.hooks().iter().find(|other| other.to_string() != hook.to_string()) {
        Some(other) => unwritable(format!(
            "packets pass chains of several places: {hook}, and {other}; choose one with --chain or --table"
        )),
        None => Ok(hook.clone()),
    }
}

/// Refuses a policy for which rules of other chains leave packets untracked.
fn check_tracking(policy: &Policy) -> Result<(), Unwritable> {
    if policy.untracked().is_empty() {
        return Ok(());
    }
    let text = "rules before connection tracking leave packets untracked (notrack), which changes their \
                states, and only chains of one hook are written; remove these rules, or write them by hand";
    Err(Unwritable { line: 0, text: String::from(text) })
}

/// Returns comments on what the written rules do not do: the rules that are left out because they
/// decide nothing.
fn comments(policy: &Policy) -> String {
    let mut text = String::new();
    for note in policy.notes() {
        let _ = writeln!(text, "# Left out, line {}: {}", note.line, note.text.replace('\n', " "));
    }
    text
}

/// Removes the last entry and returns its action, if it is the policy of the chain for all packets
/// of these families; otherwise what no rule decides goes on, as without a firewall.
fn take_policy(policy: &Policy, entries: &mut Vec<Entry>, families: Families) -> Action {
    let Some(last) = entries.last() else { return Action::Accept };
    let families_of = |entry: &Entry| entry.conditions.families.and(families);
    let is_policy = policy.sources().get(last.source as usize).is_some_and(|source| source.is_policy);
    match last.outcome {
        Outcome::Decide { action: Some(action), .. }
            if is_policy
                && entries
                    .iter()
                    .all(|entry| families_of(entry).and(families_of(last)) == families_of(entry)) =>
        {
            entries.pop();
            action
        }
        _ => Action::Accept,
    }
}

/// Returns the target of an entry that decides, by its number, in one of the notations of
/// [`reject::KINDS`].
fn target(action: Action, value: u32, is_nft: bool) -> Result<String, String> {
    let cased = |word: &str| if is_nft { word.to_ascii_lowercase() } else { String::from(word) };
    match (action, value) {
        (Action::Accept, 3) => {
            Err("it hands packets to a program or translates them, and does not just accept".into())
        }
        (Action::Accept, _) => Ok(cased("ACCEPT")),
        (Action::Deny, reject::DEFAULT) => Ok(cased("REJECT")),
        (Action::Deny, value) => match reject::KINDS.iter().find(|kind| kind.0 == value) {
            Some((.., words)) if is_nft => Ok(format!("reject with {words}")),
            Some((_, "", words)) => Err(format!("iptables cannot reject with {words}; write nft")),
            Some((_, name, _)) => Ok(format!("REJECT --reject-with {name}")),
            None => Ok(cased("DROP")),
        },
    }
}
