//! The chains that packets enter, in the order of the kernel.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::{LoadError, at_line};
use super::Options;
use super::ast::Table;
use super::hook::Hook;
use crate::firewall::Families;

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
