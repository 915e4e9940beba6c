//! The chains that packets enter, in the order of the kernel, and those that are left out.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::{LoadError, at_line, has_word};
use super::Options;
use super::ast::{Chain, Statement, Table};
use super::hook::Hook;
use crate::firewall::{Families, Note};
use crate::rule::Action;

/// A chain by its place: the table and the chain in it.
pub(super) type Place = (usize, usize);

/// Sorts base chains of a hook in the order in which packets enter them. Among chains of the same
/// priority, the kernel puts a new one first.
pub(super) fn sort(tables: &[Table], chains: &mut [Place]) {
    chains.sort_by_key(|&(t, c)| {
        let hook = tables[t].chains[c].hook.as_ref();
        (hook.map_or(0, |hook| hook.priority), Reverse((t, c)))
    });
}

/// Returns the chains that packets enter.
///
/// # Errors
///
/// A name that has two meanings.
pub(super) fn entered(
    text: &str,
    tables: &[Table],
    options: &Options<'_>,
) -> Result<Vec<Place>, LoadError> {
    let (mut named, mut hooked) = (Vec::new(), Vec::new());
    let (as_chain, as_hook) = match options.chain.split_once(' ') {
        Some(("hook", name)) => (None, Some(name.trim())),
        Some(("chain", name)) => (Some(name.trim()), None),
        _ => (Some(options.chain), Some(options.chain)),
    };
    for (t, table) in tables.iter().enumerate() {
        let is_asked = options.table.is_none_or(|name| name == table.name || name == full_name(table))
            && !table.is_dormant
            && has_packets(table, options);
        for (c, chain) in table.chains.iter().enumerate().filter(|_| is_asked) {
            if as_chain == Some(&chain.name) {
                named.push((t, c));
            }
            let is_of =
                |hook: &Hook, name: &str| hook.kind != "nat" && hook.name.eq_ignore_ascii_case(name);
            if chain.hook.as_ref().zip(as_hook).is_some_and(|(hook, name)| is_of(hook, name)) {
                hooked.push((t, c));
            }
        }
    }
    let shown =
        |&(t, c): &Place| format!("'{}' of table {}", tables[t].chains[c].name, full_name(&tables[t]));
    let refused = |&(t, c): &Place, message| at_line(text, tables[t].chains[c].line, message);
    if hooked.is_empty() {
        let differ = |one: &&Place| !is_same_place(tables, **one, named[0]);
        if let Some(other) = named.iter().find(differ) {
            let message = format!(
                "several chains have this name: {}; name the table too, with its family",
                named.iter().map(shown).collect::<Vec<_>>().join(", ")
            );
            return Err(refused(other, message));
        }
        hooked = named;
    } else if let (false, Some(other)) = (named.iter().any(|one| hooked.contains(one)), named.first()) {
        let name = options.chain;
        let message = format!(
            "'{name}' is the name of this chain, and the hook of chain {}; write 'hook {name}' or \
             'chain {name}'",
            hooked.iter().map(shown).collect::<Vec<_>>().join(", ")
        );
        return Err(refused(other, message));
    }
    sort(tables, &mut hooked);
    Ok(hooked)
}

/// Returns the family and the name of a table.
fn full_name(table: &Table) -> String {
    format!("{} {}", table.family, table.name)
}

/// Returns whether a table sees packets of the families that are asked for.
fn has_packets(table: &Table, options: &Options<'_>) -> bool {
    let asked = |families: Families| options.families.is_none_or(|asked| !asked.and(families).is_none());
    table.families().is_some_and(asked)
}

/// Returns whether the kernel leads packets into two chains one after the other, or no packet into
/// both.
fn is_same_place(tables: &[Table], one: Place, other: Place) -> bool {
    let families = |(t, _): Place| tables[t].families().unwrap_or(Families::BOTH);
    let hook = |(t, c): Place| tables[t].chains[c].hook.as_ref().map(|hook| &hook.name);
    one == other
        || families(one).and(families(other)).is_none()
        || hook(one).is_some() && hook(one) == hook(other)
}

/// Returns a note on each base chain that the packets of a hook also pass and that is not judged,
/// if it may drop packets or send them elsewhere.
pub(super) fn not_judged(tables: &[Table], entered: &[Place], options: &Options<'_>) -> Vec<Note> {
    let first = entered.first().and_then(|&(t, c)| tables[t].chains[c].hook.as_ref());
    let path = match first.map_or("", |hook| hook.name.as_str()) {
        "prerouting" => "ingress prerouting",
        "input" => "ingress prerouting input",
        "forward" => "ingress prerouting forward postrouting egress",
        "output" => "output postrouting egress",
        "postrouting" => "ingress prerouting forward output postrouting egress",
        _ => return Vec::new(),
    };
    let diverts = |chain: &Chain| {
        let mut statements = chain.rules.iter().flat_map(|rule| &rule.statements);
        chain.policy == Some(Action::Deny) || statements.any(Statement::may_divert)
    };
    let mut notes = Vec::new();
    for (t, table) in tables.iter().enumerate().filter(|(_, table)| !table.is_dormant) {
        let is_bridge = table.family == "bridge";
        for (c, chain) in table.chains.iter().enumerate() {
            let Some(hook) = chain.hook.as_ref().filter(|_| diverts(chain)) else { continue };
            if is_bridge {
                let text =
                    format!("not judged: table {}, through which bridged packets pass", full_name(table));
                notes.push(Note { line: chain.line, text });
                break;
            }
            let sees = has_packets(table, options) || table.family == "netdev";
            if sees && has_word(path, &hook.name) && !entered.contains(&(t, c)) {
                let Hook { kind, name, priority } = hook;
                let text = format!(
                    "not judged: chain '{}' of table {}, type {kind} hook {name} priority {priority}",
                    chain.name,
                    full_name(table)
                );
                notes.push(Note { line: chain.line, text });
            }
        }
    }
    notes
}
