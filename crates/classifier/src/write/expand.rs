//! Expands entries with alternatives: each alternative becomes a separate entry.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Unwritable;
use crate::firewall::{Conditions, Entry, Outcome, Policy, TestKind};

/// Maximum number of entries from an expansion.
const ENTRIES_MAX: usize = 1 << 20;

/// Returns the entries of a policy with alternatives expanded. A condition of the form "one of
/// several" becomes an entry for each; a condition "none of several" becomes earlier entries that
/// skip the rule.
pub(super) fn expanded(policy: &Policy) -> Result<Vec<Entry>, Unwritable> {
    let entries: Vec<Entry> = policy.entries().collect();
    // Each entry becomes a group; skips within a group lead to its end.
    let mut groups: Vec<Vec<(Conditions, Step)>> = Vec::with_capacity(entries.len());
    let mut count = 0;
    for entry in &entries {
        let mut group = Vec::new();
        expand((*entry.conditions).clone(), Step::Own, &mut group);
        count += group.len();
        if count > ENTRIES_MAX {
            let line = policy.sources().get(entry.source as usize).map_or(0, |source| source.line);
            let text =
                alloc::format!("its alternatives make more than {ENTRIES_MAX} rules; split the sets");
            return Err(Unwritable { line, text });
        }
        groups.push(group);
    }
    let mut starts = Vec::with_capacity(groups.len() + 1);
    let mut next = 0;
    for group in &groups {
        starts.push(next as u32);
        next += group.len();
    }
    starts.push(next as u32);
    let mut all = Vec::with_capacity(next);
    for (index, (entry, group)) in entries.iter().zip(groups).enumerate() {
        for (conditions, step) in group {
            let outcome = match (step, entry.outcome) {
                (Step::Over, _) => Outcome::Skip { to: starts[index + 1] },
                (Step::Own, Outcome::Skip { to }) => Outcome::Skip { to: starts[to as usize] },
                (Step::Own, outcome) => outcome,
            };
            all.push(Entry { conditions: Arc::new(conditions), outcome, source: entry.source });
        }
    }
    Ok(all)
}

#[derive(Clone, Copy)]
enum Step {
    /// The entry's own outcome.
    Own,
    /// The entry is skipped.
    Over,
}

fn expand(mut conditions: Conditions, step: Step, group: &mut Vec<(Conditions, Step)>) {
    let found = conditions.tests.iter().position(|test| matches!(test.kind, TestKind::AnyOf(_)));
    let Some(found) = found else {
        if !conditions.is_empty() {
            group.push((conditions, step));
        }
        return;
    };
    let test = conditions.tests.remove(found);
    let TestKind::AnyOf(all) = test.kind else { return };
    if test.is_negated {
        for one in &all {
            expand(conditions.and(one), Step::Over, group);
        }
        expand(conditions, step, group);
    } else {
        for one in &all {
            expand(conditions.and(one), step, group);
        }
    }
}
