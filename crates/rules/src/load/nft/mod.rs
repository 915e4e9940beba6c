//! Rulesets of nftables: the output of `nft list ruleset`, with or without `-j`, and scripts for
//! `nft -f`.
//!
//! The loader supports tables of IP, sets, maps and maps of verdicts, intervals, concatenations,
//! chains with jumps and gotos, policies and priorities. A packet that one base chain accepts
//! continues with the next one of the same hook. Comparisons with data that packets do not contain,
//! such as `limit rate`, `meta mark` and `fib`, become conditions that [may
//! hold](crate::firewall::Truth::Maybe).

mod assign;
mod ast;
mod bits;
mod commands;
mod elements;
mod entered;
mod hook;
mod icmp;
mod json;
mod lower;
mod statement;
mod text;
mod tokens;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, at_line, has_word, line_of};
use crate::firewall::{
    Chain, ChainRule, Chains, Conditions, Entry, Families, Hook, Note, Outcome, Policy, Ranges, Target,
    TestKind, Write, Writes, WrittenField,
};
use crate::rule::Action;

use ast::{Expr, Parsed, Statement, Table, Verdict};
use entered::Place;

/// The parts of a ruleset to read.
///
/// Fields may be added in any version: a literal ends with `..Options::default()`.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The table, such as `filter` or, with its family, `inet filter`; `None` means all tables.
    pub table: Option<&'a str>,
    /// A hook such as `forward`, whose base chains packets enter one after another, or a chain. The
    /// hook comes first, but if only chains that do not belong to it have its name, the text is
    /// refused. `hook forward` means the hook alone, and `chain forward` the chain alone.
    pub chain: &'a str,
    /// Families of packets; `None` means those of the tables.
    pub families: Option<Families>,
    /// The limits of the loader.
    pub limits: LoadLimits,
}

impl Default for Options<'_> {
    /// Returns the options for the hook `input` of all tables.
    fn default() -> Self {
        Self { table: None, chain: "hook input", families: None, limits: LoadLimits::default() }
    }
}

/// Reads the rules of a chain, or of all chains of a hook, as a policy.
///
/// # Errors
///
/// Returns [`LoadErrors`]: everything that is wrong with the text, and with the rules that packets
/// come to.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::nft::{self, Options};
/// let text = "table inet filter {\n chain input {\n\
///             type filter hook input priority filter; policy drop;\n\
///             tcp dport { 22, 80-81 } accept\n\
///             meta l4proto vmap { icmp : accept, udp : drop }\n }\n}\n";
/// let policy = nft::load(text, &Options::default())?;
/// let lines: Vec<usize> = policy.sources().iter().map(|source| source.line).collect();
/// assert_eq!(lines, [4, 5, 5, 3]);
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, options: &Options<'_>) -> Result<Policy, LoadErrors> {
    options.limits.check_bytes(text)?;
    let Parsed { mut tables, notes: unread, errors } = parsed(text, options.limits);
    if let Some(errors) = LoadErrors::from_list(errors) {
        return Err(errors);
    }
    let is_tracked = tables.iter().any(tracks);
    for table in &mut tables {
        table.is_tracked = is_tracked;
        table.find_updated_sets();
    }
    let entered = entered::entered(text, &tables, options)?;
    let mut notes: Vec<Note> = unread.into_iter().map(|(line, text)| Note { line, text }).collect();
    notes.extend(entered::not_judged(&tables, &entered, options));
    let hook_of = |&(table, chain): &Place| tables[table].chains[chain].hook.as_ref();
    let ways: &[&str] = match entered.first().and_then(hook_of).map(|hook| hook.name.as_str()) {
        Some("input" | "forward" | "prerouting") => &["prerouting"],
        Some("output") => &["output"],
        _ => &["prerouting", "output"],
    };
    let policy = policy_of(text, &tables, &entered, options, notes, false)?;
    let untracks = |statement: &Statement| matches!(statement, Statement::Untrack(_));
    let mut rules = tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
    if !policy.asks_state() || !rules.any(|rule| rule.statements.iter().any(untracks)) {
        return Ok(policy);
    }
    let ways = ways.iter().map(|name| {
        let mut before = Vec::new();
        for (t, table) in tables.iter().enumerate().filter(|(_, table)| !table.is_dormant) {
            let hooks = table.chains.iter().map(|chain| chain.hook.as_ref()).enumerate();
            let first = hooks.filter_map(|(c, hook)| {
                hook.filter(|hook| hook.name == *name && is_before_tracking(hook)).map(|_| (t, c))
            });
            before.extend(first);
        }
        entered::sort(&tables, &mut before);
        policy_of(text, &tables, &before, options, Vec::new(), true)
    });
    Ok(policy.with_untracked(ways.collect::<Result<_, _>>()?))
}

/// Returns whether packets enter the chains of a hook before connection tracking.
fn is_before_tracking(hook: &hook::Hook) -> bool {
    /// The priority of connection tracking.
    const TRACKING: i64 = -200;
    matches!(hook.name.as_str(), "prerouting" | "output") && hook.priority < TRACKING
}

/// Returns the rules of base chains, or those that tell which packets they leave untracked.
fn policy_of(
    text: &str,
    tables: &[Table],
    entered: &[Place],
    options: &Options<'_>,
    mut notes: Vec<Note>,
    is_untracking: bool,
) -> Result<Policy, LoadErrors> {
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    let (mut ends, mut hooks) = (Vec::new(), Vec::new());
    let (mut writes, mut skipped) = (Writes::default(), Vec::new());
    write_before(tables, entered, &mut writes);
    let count = entered.len();
    for &(table, chain) in entered {
        let table = &tables[table];
        let Some(families) = table.families() else { continue };
        let (name, hook) = (&table.chains[chain].name, table.chains[chain].hook.as_ref());
        hooks.push(Hook {
            name: hook.map_or("", |hook| &hook.name).into(),
            kind: hook.map_or("filter", |hook| &hook.kind).into(),
            priority: hook.map_or(0, |hook| hook.priority),
            chain: name.clone(),
        });
        let (mut chains, mut errors, mut passed) = lowered(text, table, hook);
        // Errors in chains that packets do not reach do not matter.
        let reached = chains.reached(chain);
        errors.retain(|(chain, _)| reached.contains(chain));
        if let Some(errors) = LoadErrors::from_list(errors.into_iter().map(|(_, error)| error).collect()) {
            return Err(errors);
        }
        passed.retain(|(chain, _)| reached.contains(chain));
        skipped.extend(passed.into_iter().map(|(_, note)| note));
        let families = options.families.map_or(families, |asked| asked.and(families));
        chains.families = Some(families);
        if is_untracking {
            chains = chains.untracking();
        }
        writes.enter(hook.is_some_and(is_before_tracking));
        let name = chains.chains[chain].name.clone();
        let (max, goes_on) = (options.limits.rules_max, hooks.len() < count);
        chains
            .flatten_after(&name, max, &mut entries, &mut sources, &mut writes, goes_on)
            .map_err(|error| at_line(text, error.line(), error.to_string()))?;
        ends.push((entries.len(), families));
    }
    let entries = continued(entries, &ends);
    // What is missing comes first.
    notes.sort_by_key(|note| note.line);
    skipped.sort_by_key(|note: &Note| note.line);
    notes.append(&mut skipped);
    let policy =
        Policy::new(entries, sources, notes).map_err(|error| at_line(text, 1, error.to_string()))?;
    Ok(policy.with_hooks(hooks).stopping_at_authentication())
}

/// Lets packets that a base chain accepts continue with the next chain of their family. A chain is
/// the end of its entries, with the families of its packets.
fn continued(entries: Vec<Entry>, chains: &[(usize, Families)]) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::with_capacity(entries.len());
    // Where each entry is now, because an entry becomes two if one of its families ends there.
    let mut places = Vec::with_capacity(entries.len() + 1);
    let mut entries = entries.into_iter();
    for (chain, &(end, families)) in chains.iter().enumerate() {
        let later = &chains[chain + 1..];
        let goes_on = Families {
            v4: later.iter().any(|(_, families)| families.v4),
            v6: later.iter().any(|(_, families)| families.v6),
        };
        let ends = Families { v4: !goes_on.v4, v6: !goes_on.v6 };
        for mut entry in entries.by_ref().take(end - places.len()) {
            places.push(all.len() as u32);
            let families = families.and(entry.conditions.families);
            let is_accept = matches!(entry.outcome, Outcome::Decide { action: Some(Action::Accept), .. });
            if is_accept && !families.and(goes_on).is_none() {
                let decided = (!families.and(ends).is_none()).then(|| entry.clone());
                entry.outcome = Outcome::Skip { to: end as u32 };
                if let Some(mut decided) = decided {
                    Arc::make_mut(&mut entry.conditions).families = families.and(goes_on);
                    Arc::make_mut(&mut decided.conditions).families = families.and(ends);
                    all.push(entry);
                    entry = decided;
                }
            }
            all.push(entry);
        }
    }
    places.push(all.len() as u32);
    for entry in &mut all {
        if let Outcome::Skip { to } = &mut entry.outcome {
            *to = places[*to as usize];
        }
    }
    all
}

/// Returns the names of the chains of all tables.
#[must_use]
pub fn chains(text: &str) -> Vec<String> {
    let tables = parsed(text, LoadLimits::default()).tables;
    let names = tables.iter().flat_map(|table| table.chains.iter().map(|chain| chain.name.clone()));
    // Chains in braces have no name, but one with blanks here.
    names.filter(|name| !name.contains(' ')).collect()
}

/// Returns the chains that packets enter through a hook, each with the name of its hook.
#[must_use]
pub fn base_chains(text: &str) -> Vec<(String, String)> {
    let tables = parsed(text, LoadLimits::default()).tables;
    let chains = tables.into_iter().flat_map(|table| table.chains);
    chains.filter_map(|chain| chain.hook.map(|hook| (chain.name, hook.name))).collect()
}

fn parsed(text: &str, limits: LoadLimits) -> Parsed {
    if text.trim_start().starts_with(['{', '[']) {
        json::parse(text, limits)
    } else {
        text::parse(text, limits)
    }
}

/// Returns whether a text looks like a ruleset of nftables.
#[must_use]
pub fn is_nft(text: &str) -> bool {
    if text.trim_start().starts_with('{') {
        // The output of nft is recognisable near its start.
        return text.find("\"nftables\"").is_some_and(|at| at < 4096);
    }
    super::words::first_line(text).is_some_and(|(_, line)| {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("flush") => words.next() == Some("ruleset") || words.next().is_some(),
            Some("add" | "create" | "delete" | "destroy" | "insert" | "replace") => {
                matches!(words.next(), Some("table" | "chain" | "rule" | "set" | "map" | "element"))
            }
            // The tables of pf are in angle brackets.
            Some("table") => words.next().is_none_or(|name| !name.starts_with('<')),
            Some("define" | "include") => true,
            _ => false,
        }
    })
}

/// Returns an error at a byte of the text.
fn error(text: &str, at: usize, kind: LoadErrorKind) -> LoadError {
    let (line, start, content) = line_of(text, at);
    LoadError::new(line, content, at - start.min(at), kind)
}

/// Adds what chains of earlier hooks may have written: fields of headers, and that packets without
/// a connection are untracked.
fn write_before(tables: &[Table], entered: &[Place], writes: &mut Writes) {
    let hook_of = |&(table, chain): &Place| tables[table].chains[chain].hook.as_ref();
    let earlier: &[&str] = match entered.first().and_then(hook_of).map(|hook| hook.name.as_str()) {
        Some("input" | "forward") => &["prerouting", "ingress"],
        Some("postrouting") => &["prerouting", "ingress", "forward", "output"],
        _ => return,
    };
    let chains = || tables.iter().flat_map(|table| &table.chains);
    let is_earlier = |hook: &&hook::Hook| earlier.contains(&hook.name.to_ascii_lowercase().as_str());
    let hooks = || chains().filter_map(|chain| chain.hook.as_ref()).filter(is_earlier);
    if hooks().next().is_none() {
        return;
    }
    let has_late = hooks().any(|hook| !is_before_tracking(hook));
    for chain in chains() {
        let is_late = match chain.hook.as_ref() {
            None => has_late,
            Some(hook) if is_earlier(&hook) => !is_before_tracking(hook),
            Some(_) => continue,
        };
        for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
            match statement {
                Statement::Set(expr, words) => {
                    let write = assign::write(expr, words).ok().flatten();
                    let field = write.map(|write| write.field);
                    if let Some(field @ WrittenField::Number(_)) = field {
                        writes.add_unknown(field);
                    }
                }
                Statement::Untrack(_) if is_late => writes.add_untracked(),
                _ => {}
            }
        }
    }
}

/// Returns whether a table makes the kernel track connections, and so reassemble fragments.
fn tracks(table: &Table) -> bool {
    // What is not a header may be a property of connections.
    let one = |expr: &Expr| match expr {
        Expr::Ct(_) => true,
        Expr::Payload(header, _) => !has_word(statement::HEADERS, header),
        _ => false,
    };
    let asks = |expr: &Expr| match expr {
        Expr::Masked(inner, _) => one(inner),
        Expr::Concat(parts) => parts.iter().any(one),
        expr => one(expr),
    };
    table.chains.iter().any(|chain| {
        chain.hook.as_ref().is_some_and(|hook| hook.kind == "nat")
            || chain.rules.iter().flat_map(|rule| &rule.statements).any(|statement| match statement {
                Statement::Match(expr, ..) | Statement::Vmap(expr, _) | Statement::Set(expr, _) => {
                    asks(expr)
                }
                Statement::Unknowable(text) | Statement::Passes(text) => {
                    ["ct ", "xt conn", "xt state"].iter().any(|begin| text.starts_with(begin))
                }
                Statement::Verdict(Verdict::Translate(_)) => true,
                _ => false,
            })
    })
}

type AtChain<T> = Vec<(usize, T)>;

/// Returns the chains of a table as rules with conditions, the errors in them, and notes on skipped
/// rules. Packets come from a hook, if it is known.
fn lowered(
    text: &str,
    table: &Table,
    hook: Option<&hook::Hook>,
) -> (Chains, AtChain<LoadError>, AtChain<Note>) {
    let (mut errors, mut notes) = (Vec::new(), Vec::new());
    let mut chains = Vec::with_capacity(table.chains.len());
    for (index, chain) in table.chains.iter().enumerate() {
        let mut rules = Vec::new();
        for rule in &chain.rules {
            if let [Statement::Wrong(error)] = &rule.statements[..] {
                errors.push((index, error.clone()));
                continue;
            }
            let mut names = rule.statements.iter().filter_map(Statement::name);
            let is_placed =
                hook.map_or(Ok(()), |hook| names.try_for_each(|name| hook.check_statement(name)));
            match is_placed.and_then(|()| lowered_rule(table, rule)) {
                Ok((found, note)) => {
                    rules.extend(found);
                    notes.extend(note.map(|text| (index, Note { line: rule.line, text })));
                }
                Err(message) => errors.push((index, error(text, rule.at, LoadErrorKind::Refused(message)))),
            }
        }
        let policy = chain.hook.as_ref().map(|_| match chain.policy {
            Some(Action::Deny) => (Action::Deny, 0, chain.line),
            _ => (Action::Accept, 1, chain.line),
        });
        chains.push(Chain { name: chain.name.clone(), rules, policy });
    }
    (Chains { chains, families: None }, errors, notes)
}

/// Returns the entries of a rule; a note if it decides nothing.
#[expect(clippy::too_many_lines, reason = "one arm for each statement of nftables")]
fn lowered_rule(table: &Table, rule: &ast::Rule) -> Result<(Vec<ChainRule>, Option<String>), String> {
    let mut conditions = Conditions::default();
    let mut all = Vec::new();
    let mut push = |mut conditions: Conditions, verdict: &Verdict, writes: Vec<Write>| {
        if !table.is_tracked {
            conditions.read_later(true);
        }
        let target = match verdict {
            Verdict::Accept => Target::Decide { action: Action::Accept, value: 1 },
            Verdict::Drop => Target::Decide { action: Action::Deny, value: 0 },
            Verdict::Reject(value) => Target::Decide { action: Action::Deny, value: *value },
            Verdict::Translate(_) => Target::Decide { action: Action::Accept, value: 3 },
            Verdict::Return => Target::Return,
            Verdict::Jump(name) => Target::Jump(name.clone()),
            Verdict::Goto(name) => Target::Goto(name.clone()),
            Verdict::Continue if writes.is_empty() => return,
            Verdict::Continue => Target::Pass,
        };
        let (line, number) = (rule.line, rule.number);
        all.push(ChainRule { conditions, target, line, number, writes, drops_second: None });
    };
    let (mut passed, mut decides, mut has_written) = (None, false, false);
    for statement in &rule.statements {
        match statement {
            Statement::Match(expr, op, value) => {
                let asked = lower::compare(table, expr, *op, value, conditions.protocols.as_ref())?;
                // The rule itself may have written what it asks for.
                let is_open = has_written
                    && asked.tests.iter().any(|test| {
                        matches!(
                            test.kind,
                            TestKind::Number(..) | TestKind::Mark { .. } | TestKind::State(_)
                        )
                    });
                if is_open {
                    let text = format!("{} in a rule that writes", lower::describe(expr));
                    conditions.ask(TestKind::Unknowable(text));
                } else {
                    conditions = conditions.and(&asked);
                }
            }
            Statement::Set(expr, words) => {
                passed = Some(assign::text(expr, words));
                // The kernel writes to headers that are there.
                conditions = conditions.and(&lower::needs(core::slice::from_ref(expr)));
                if let Some(write) = assign::write(expr, words)? {
                    has_written = true;
                    push(conditions.clone(), &Verdict::Continue, Vec::from([write]));
                }
                // Without an element of the map, the rule ends here.
                if has_word(words, "map") {
                    conditions
                        .ask(TestKind::Unknowable(format!("{} has an element", assign::text(expr, words))));
                }
            }
            Statement::Untrack(doubt) => {
                passed = Some(String::from("notrack"));
                has_written = true;
                let mut conditions = conditions.clone();
                if let Some(text) = doubt {
                    conditions.ask(TestKind::Unknowable(text.clone()));
                }
                push(conditions, &Verdict::Continue, Vec::from([Write::untrack()]));
            }
            Statement::Unknowable(text)
                if text.starts_with("tproxy ") && conditions.protocols.is_none() =>
            {
                return Err("'tproxy' needs a protocol in its rule, such as meta l4proto tcp".into());
            }
            Statement::Unknowable(text) => conditions.ask(TestKind::Unknowable(text.clone())),
            // Every rule may count, and have a comment.
            Statement::Passes(text) if matches!(text.as_str(), "counter" | "comment") => {}
            Statement::Passes(text) => passed = Some(text.clone()),
            Statement::Queue => {
                decides = true;
                let mut accepted = conditions.clone();
                accepted.ask(TestKind::Unknowable(String::from("queue accepts")));
                push(accepted, &Verdict::Translate(String::from("queue")), Vec::new());
                push(conditions.clone(), &Verdict::Drop, Vec::new());
            }
            Statement::MayTake(text) => {
                decides = true;
                let mut taken = conditions.clone();
                taken.ask(TestKind::Unknowable(text.clone()));
                push(taken, &Verdict::Drop, Vec::new());
            }
            Statement::Vmap(expr, value) => {
                decides = true;
                let mut continued = Vec::new();
                let elements = lower::map(table, expr, value, conditions.protocols.as_ref())?;
                for (element, verdict) in elements {
                    push(conditions.and(&element), &verdict, Vec::new());
                    if verdict == Verdict::Continue {
                        continued.push(element);
                    }
                }
                // Without an element that continues, the rule ends here.
                conditions = conditions.and(&lower::any(continued));
            }
            Statement::Verdict(verdict) => {
                decides = true;
                ask_of_answer(verdict, &mut conditions);
                push(conditions.clone(), verdict, Vec::new());
            }
            Statement::Wrong(error) => return Err(error.to_string()),
        }
    }
    let note = (!decides).then(|| match passed {
        Some(text) if changes_a_set(&text) => {
            format!("has no verdict; '{text}' changes a set while packets flow")
        }
        Some(text) => format!("has no verdict, and '{text}' decides nothing"),
        None => String::from("has no verdict, so it only counts"),
    });
    Ok((all, note))
}

/// Returns whether a statement changes the elements of a set.
fn changes_a_set(text: &str) -> bool {
    matches!(text.split(' ').next(), Some("add" | "update" | "delete" | "set" | "map"))
}

/// Adds the conditions of a verdict itself: an answer of one protocol asks for it.
fn ask_of_answer(verdict: &Verdict, conditions: &mut Conditions) {
    match verdict {
        Verdict::Reject(4) => conditions.ask_protocol(&Ranges::exact(6)),
        Verdict::Reject(0x100..0x200) => conditions.families = conditions.families.and(Families::V4),
        Verdict::Reject(0x200..0x300) => conditions.families = conditions.families.and(Families::V6),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
