//! Expands entries with alternatives: each alternative becomes a separate entry.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Unwritable;
use crate::firewall::{Conditions, Entry, Outcome, Policy, Ranges, Test, TestKind};

/// Maximum number of entries from an expansion.
const ENTRIES_MAX: usize = 1 << 20;

/// Whether a test of either port remains one test, or becomes one of each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    Either,
    Apart,
}

/// Turns tests of either port into alternatives.
fn take_apart(conditions: &mut Conditions) {
    for test in core::mem::take(&mut conditions.tests) {
        let TestKind::EitherPort(ports) = &test.kind else {
            conditions.tests.push(test);
            continue;
        };
        let side = |is_destination| {
            let mut one = Conditions { reads_later: conditions.reads_later, ..Conditions::default() };
            one.ask_port(is_destination, ports);
            one
        };
        let sides = Vec::from([side(false), side(true)]);
        // A packet without ports matches neither the test nor its negation.
        conditions.ask_port(false, &Ranges::up_to(65_535));
        conditions.ask(Test::new(TestKind::AnyOf(sides), test.is_negated));
    }
}

/// Returns the entries of a policy with alternatives expanded. A condition of the form "one of
/// several" becomes an entry for each; a condition "none of several" becomes earlier entries that
/// skip the rule.
pub(super) fn expanded(policy: &Policy, ports: Ports) -> Result<Vec<Entry>, Unwritable> {
    let entries: Vec<Entry> = policy.entries().collect();
    // Each entry becomes a group; skips within a group lead to its end.
    let mut groups: Vec<Vec<(Conditions, Step)>> = Vec::with_capacity(entries.len());
    let mut count = 0;
    for entry in &entries {
        let mut group = Vec::new();
        let mut conditions = (*entry.conditions).clone();
        if ports == Ports::Apart {
            take_apart(&mut conditions);
        }
        expand(conditions, Step::Own, 0, &mut group);
        count += group.len();
        if count > ENTRIES_MAX {
            let line = policy.sources().get(entry.source as usize).map_or(0, |source| source.line);
            let text =
                alloc::format!("its alternatives make more than {ENTRIES_MAX} rules; split the sets");
            return Err(Unwritable { line, text });
        }
        groups.push(group);
    }
    Ok(regrouped(&entries, groups))
}

/// What an entry of a group does.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// The outcome of the entry that became the group.
    Own,
    /// It skips to this entry of the group; after its last one, to the next group.
    To(usize),
    /// It skips the group.
    Over,
    /// It skips the entries of one level of alternatives.
    Out(usize),
}

/// Returns the entries of the groups; each group replaces one entry.
pub(super) fn regrouped(entries: &[Entry], groups: Vec<Vec<(Conditions, Step)>>) -> Vec<Entry> {
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
                (Step::Over | Step::Out(_), _) => Outcome::Skip { to: starts[index + 1] },
                (Step::To(at), _) => Outcome::Skip { to: starts[index] + at as u32 },
                (Step::Own, Outcome::Skip { to }) => Outcome::Skip { to: starts[to as usize] },
                (Step::Own, outcome) => outcome,
            };
            all.push(Entry { conditions: Arc::new(conditions), outcome, source: entry.source });
        }
    }
    all
}

/// Returns entries that ask at most one test of each field that `field_of` names, and decide as
/// these do: entries before the rule pass over it where another test of a field does not hold.
/// `more` may replace conditions by such entries too.
pub(super) fn one_test_a_field<K: PartialEq>(
    entries: &[Entry],
    fields_of: impl Fn(&Conditions) -> Vec<K>,
    field_of: impl Fn(&Test) -> Option<K>,
    more: impl Fn(&mut Conditions) -> Vec<Conditions>,
) -> Vec<Entry> {
    let group = |entry: &Entry| {
        let mut kept = (*entry.conditions).clone();
        let families = kept.families;
        let mut group: Vec<(Conditions, Step)> =
            more(&mut kept).into_iter().map(|conditions| (conditions, Step::Over)).collect();
        let mut seen = fields_of(&kept);
        kept.tests.retain(|test| {
            let Some(field) = field_of(test) else { return true };
            if !seen.contains(&field) {
                seen.push(field);
                return true;
            }
            let mut asked = Conditions { families, ..Conditions::default() };
            if test.is_complemented() {
                asked.ask(Test::new(test.kind.clone(), !test.is_negated));
                group.push((asked, Step::Over));
            } else {
                asked.ask(test.clone());
                group.push((asked, Step::To(group.len() + 2)));
                group.push((Conditions { families, ..Conditions::default() }, Step::Over));
            }
            false
        });
        group.push((kept, Step::Own));
        group
    };
    regrouped(entries, entries.iter().map(group).collect())
}

/// Appends the entries of conditions. Where a negated alternative holds, the conditions do not, and
/// what follows these entries is next, which at `level` is not known before they are complete.
fn expand(mut conditions: Conditions, step: Step, level: usize, group: &mut Vec<(Conditions, Step)>) {
    let found = conditions.tests.iter().position(|test| matches!(test.kind, TestKind::AnyOf(_)));
    let Some(found) = found else {
        if !conditions.is_empty() {
            group.push((conditions, step));
        }
        return;
    };
    let test = conditions.tests.remove(found);
    let TestKind::AnyOf(all) = test.kind else { return };
    let start = group.len();
    for one in &all {
        let step = if test.is_negated { Step::Out(level) } else { step };
        expand(conditions.and(one), step, level + 1, group);
    }
    if test.is_negated {
        expand(conditions, step, level + 1, group);
    }
    let end = group.len();
    for (_, step) in &mut group[start..] {
        if matches!(step, Step::Out(of) if *of == level) {
            *step = Step::To(end);
        }
    }
}
