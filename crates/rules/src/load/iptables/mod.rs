//! The output of `iptables-save` and `ip6tables-save`: a chain of a table, with all chains that it
//! reaches.
//!
//! | line | read as |
//! | --- | --- |
//! | `*filter`, `COMMIT` | a table; a later one of the same name replaces it, as `iptables-restore` does |
//! | `:INPUT DROP [0:0]`, `-P INPUT DROP` | a chain and its policy, which becomes the last rule |
//! | `-A INPUT … -j ACCEPT` | a rule; DROP and REJECT deny |
//! | `-I INPUT 2 … -j ACCEPT` | the same, as second rule of its chain; without a number, as first |
//! | `-F`, `-X`, `-Z` | the rules so far are removed; empty chains and counters do not matter |
//! | `-j chain`, `-g chain`, `-j RETURN` | the rules of the chain in place, under the conditions of the jump |
//! | `-j LOG`, a rule without target | passed over and listed: it decides nothing |
//!
//! Matches on data that packets do not contain, such as `limit`, `recent` and `owner`, and unknown
//! matches, become conditions that [may hold](crate::firewall::Truth::Maybe). A table without
//! COMMIT is an error: `iptables-restore` loads nothing of it, and it indicates a file that is
//! incomplete.
//!
//! The output of `iptables -S` lists a single table without its name and without COMMIT. It is read
//! as the requested table. A truncated listing cannot be recognised.

mod contents;
mod names;
mod numbers;
mod protocols;
mod rule;
mod targets;
mod words;
mod writes;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::cursor::Cursor;
use super::ipset::Sets;
use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, at_line};
use crate::firewall::{
    Chain, ChainRule, Chains, Conditions, Families, HeaderField, Hook, Note, Policy, Target, TestKind,
    Writes, WrittenField,
};
use crate::rule::Action;

use rule::Reader;
use targets::Does;

#[cfg(feature = "std")]
pub(crate) use contents::contents;
pub use names::tcp_flags;
pub(crate) use names::{dscp_class, icmp};
#[cfg(feature = "std")]
pub(crate) use targets::is_passing;

/// The parts of a file to read.
///
/// Fields may be added in any version: a literal ends with `..Options::default()`.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The table.
    pub table: &'a str,
    /// The chain that packets enter.
    pub chain: &'a str,
    /// The families of the file; `None` means those that the file states.
    pub families: Option<Families>,
    /// Sets to which rules refer.
    pub sets: &'a Sets,
    /// The limits of the loader.
    pub limits: LoadLimits,
}

static NO_SETS: Sets = Sets::NONE;

impl Default for Options<'_> {
    /// Returns the options for the filter table's chain INPUT.
    fn default() -> Self {
        Self {
            table: "filter",
            chain: "INPUT",
            families: None,
            sets: &NO_SETS,
            limits: LoadLimits::default(),
        }
    }
}

/// Maximum number of entries that all insertions of a table together may move.
const MOVED_MAX: usize = 10_000_000;

/// Parts of files that make the kernel track connections, and so reassemble fragments.
const TRACKING: [&str; 5] = ["*nat", "conn", "--state", "--ctstate", "helper"];

/// Returns whether rules make the kernel track connections.
fn tracks(text: &str) -> bool {
    let mut settings = text.split("-j CT ").skip(1);
    TRACKING.iter().any(|word| text.contains(word))
        || settings.any(|options| !options.trim_start().starts_with("--notrack"))
}

/// Chains that exist without a declaration.
const BUILT_IN: [&str; 5] = ["INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"];

/// A table of a file.
#[derive(Debug, Default)]
struct Table<'a> {
    name: &'a str,
    /// The family that a comment before the table states.
    is_v6: Option<bool>,
    line: usize,
    /// The kernel tracks connections and reassembles fragments.
    is_tracked: bool,
    chains: Vec<Chain>,
    /// The errors in the rules of each chain.
    errors: BTreeMap<usize, Vec<LoadError>>,
    notes: BTreeMap<usize, Vec<Note>>,
    /// The number of entries in `chains` for each rule of a chain.
    sizes: BTreeMap<usize, Vec<u8>>,
    /// Number of entries that insertions have moved.
    moved: usize,
    /// Jumps that may lead to targets: line, byte, name.
    jumps: Vec<(usize, usize)>,
}

/// Reads the rules of a chain as a policy.
///
/// # Errors
///
/// Returns [`LoadErrors`]: everything that is wrong with the lines of the table, as far as the
/// chain leads there.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::iptables::{self, Options};
/// let text = "*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n\
///             -A INPUT -p tcp -m tcp --dport 80 -j web\n\
///             -A web -s 203.0.113.0/24 -j DROP\n-A web -j ACCEPT\nCOMMIT\n";
/// let policy = iptables::load(text, &Options::default())?;
/// let lines: Vec<usize> = policy.sources().iter().map(|source| source.line).collect();
/// assert_eq!(lines, [4, 5, 6, 2]);
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, options: &Options<'_>) -> Result<Policy, LoadErrors> {
    options.limits.check_bytes(text)?;
    let sets = options.sets.changing(targets::changed_sets(text));
    let options = &Options { sets: &sets, ..options.clone() };
    let policy = policy_of(text, options, false)?;
    let says = |word: &str| text.contains(word);
    if !says("NOTRACK") && !says("--notrack") || !policy.asks_state() || is_listing(text) {
        return Ok(policy);
    }
    let ways: &[&str] = match (options.table, options.chain) {
        ("raw", _) => return Ok(policy),
        (_, "INPUT" | "FORWARD" | "PREROUTING") => &["PREROUTING"],
        (_, "OUTPUT") => &["OUTPUT"],
        _ => &["PREROUTING", "OUTPUT"],
    };
    let is_v6 = policy.entries().all(|entry| entry.conditions.families == Families::V6);
    let families = options.families.or(is_v6.then_some(Families::V6));
    let ways = ways.iter().map(|chain| {
        let options = Options { table: "raw", chain, families, ..options.clone() };
        policy_of(text, &options, true)
    });
    Ok(policy.with_untracked(ways.collect::<Result<_, _>>()?))
}

/// Returns the rules of a chain, or those that tell which packets it leaves untracked.
fn policy_of(text: &str, options: &Options<'_>, is_untracking: bool) -> Result<Policy, LoadErrors> {
    let (tables, errors) = tables(text, options);
    if let Some(errors) = LoadErrors::from_list(errors) {
        return Err(errors);
    }
    // The kernel keeps the last table of a name and family.
    let mut kept: Vec<Table<'_>> = Vec::new();
    let mut notes = Vec::new();
    for table in tables.into_iter().filter(|table| table.name == options.table) {
        if let Some(other) = kept.iter_mut().find(|other| other.is_v6 == table.is_v6) {
            notes.push(Note {
                line: other.line,
                text: format!("the table at line {1} replaces table {0}", other.name, table.line),
            });
            *other = table;
        } else {
            kept.push(table);
        }
    }
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    let hooks = hooks(&kept, options);
    for table in kept {
        let Some(chain) = table.chains.iter().position(|chain| chain.name == options.chain) else {
            continue;
        };
        let mut chains = Chains { chains: table.chains, families: None };
        let reached = chains.reached(chain);
        let mut errors = Vec::new();
        let mut all_errors = table.errors;
        let mut all_notes = table.notes;
        for chain in &reached {
            errors.extend(all_errors.remove(chain).unwrap_or_default());
            notes.extend(all_notes.remove(chain).unwrap_or_default());
        }
        for &chain in &reached {
            for rule in &chains.chains[chain].rules {
                errors.extend(wrong_target(text, &chains.chains, &table.jumps, rule));
            }
        }
        if let Some(errors) = LoadErrors::from_list(errors) {
            return Err(errors);
        }
        let families =
            table.is_v6.map_or(Families::V4, |is_v6| if is_v6 { Families::V6 } else { Families::V4 });
        let families = options.families.unwrap_or(families);
        let rules = reached.iter().flat_map(|&chain| &chains.chains[chain].rules);
        let wrong = rules.filter(|rule| is_of_other_family(rule, families));
        let wrong = wrong.map(|rule| {
            let message = "this rule names addresses of the other address family, so it cannot match in \
                           this table; remove it, or set the family with --family";
            at_line(text, rule.line, String::from(message))
        });
        if let Some(errors) = LoadErrors::from_list(wrong.collect()) {
            return Err(errors);
        }
        chains.families = Some(families);
        if is_untracking {
            chains = chains.untracking();
        }
        let mut writes = Writes::default();
        writes.enter(options.table == "raw" && matches!(options.chain, "PREROUTING" | "OUTPUT"));
        written_elsewhere(text, options.table).for_each(|field| writes.add_unknown(field));
        let max = options.limits.rules_max;
        chains
            .flatten_after(options.chain, max, &mut entries, &mut sources, &mut writes, false)
            .map_err(|error| at_line(text, error.line(), error.to_string()))?;
    }
    notes.sort_by_key(|note| note.line);
    let policy =
        Policy::new(entries, sources, notes).map_err(|error| at_line(text, 1, error.to_string()))?;
    Ok(policy.with_hooks(hooks))
}

/// Returns the fields of headers that rules of other tables may have written.
fn written_elsewhere<'a>(text: &'a str, table: &'a str) -> impl Iterator<Item = WrittenField> + 'a {
    let targets = [
        ("-j DSCP ", HeaderField::Dscp),
        ("-j TOS ", HeaderField::Dscp),
        ("-j TOS ", HeaderField::Ecn),
        ("-j TTL ", HeaderField::Ttl),
        ("-j HL ", HeaderField::Ttl),
    ];
    let mut parts = text.split("\n*");
    let is_other =
        move |part: &&str| part.lines().next().map(|name| name.trim_start_matches('*')) != Some(table);
    let others: Vec<&str> = parts.by_ref().filter(is_other).collect();
    let is_used = move |(target, _): &(&str, HeaderField)| others.iter().any(|part| part.contains(target));
    targets.into_iter().filter(is_used).map(|(_, field)| WrittenField::Number(field))
}

/// The tables with their priorities among the chains of a hook.
pub(crate) const TABLES: [(&str, i64); 4] =
    [("filter", 0), ("mangle", -150), ("raw", -300), ("security", 50)];

/// Returns the place of the chain that packets enter; none if no table has it.
fn hooks(tables: &[Table<'_>], options: &Options<'_>) -> Vec<Hook> {
    if !tables.iter().any(|table| table.chains.iter().any(|chain| chain.name == options.chain)) {
        return Vec::new();
    }
    let is_built_in = BUILT_IN.contains(&options.chain);
    let mut hook = Hook::filter(if is_built_in { options.chain } else { "" }, options.chain);
    match TABLES.iter().find(|(name, _)| *name == options.table) {
        Some(&(_, priority)) => hook.priority = priority,
        None => hook.kind = String::from(options.table),
    }
    Vec::from([hook])
}

/// Returns the chains of a table, in the order of the text; if several tables have the name, those
/// of the last.
#[must_use]
pub fn chains<'a>(text: &'a str, table: &str) -> Vec<&'a str> {
    let mut is_in = is_listing(text);
    let mut chains = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(chain) = line.strip_prefix("-P ").or_else(|| line.strip_prefix("-N ")) {
            chains.extend(chain.split_whitespace().next().filter(|_| is_in));
        } else if let Some(name) = line.strip_prefix('*') {
            is_in = name.trim() == table;
            if is_in {
                chains.clear();
            }
        } else if let Some(chain) = line.strip_prefix(':').filter(|_| is_in) {
            chains.extend(chain.split_whitespace().next());
        }
    }
    chains
}

/// Returns the built-in chains of a table to which a text adds rules.
#[must_use]
pub fn chains_with_rules(text: &str, table: &str) -> Vec<&'static str> {
    let mut is_in = is_listing(text);
    let mut found = [false; BUILT_IN.len()];
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('*') {
            is_in = name.trim() == table;
        } else if let Some(rule) =
            line.strip_prefix("-A ").or_else(|| line.strip_prefix("-I ")).filter(|_| is_in)
        {
            let chain = rule.split_whitespace().next();
            if let Some(at) = BUILT_IN.iter().position(|name| Some(*name) == chain) {
                found[at] = true;
            }
        }
    }
    BUILT_IN.into_iter().zip(found).filter_map(|(name, has_rules)| has_rules.then_some(name)).collect()
}

/// Returns whether a text is the output of `iptables -S`, whose lines belong to no named table.
pub(crate) fn is_listing(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .is_some_and(|line| ["-P", "-N", "-A"].contains(&line.split_whitespace().next().unwrap_or("")))
}

/// Returns whether a rule names addresses that no packet of a table with these families has.
fn is_of_other_family(rule: &ChainRule, families: Families) -> bool {
    let Conditions { source, destination, .. } = &rule.conditions;
    (source.is_some() || destination.is_some()) && rule.conditions.families.and(families).is_none()
}

/// Returns the error of a jump to a name that is neither a chain nor a supported target.
fn wrong_target(
    text: &str,
    chains: &[Chain],
    jumps: &[(usize, usize)],
    rule: &ChainRule,
) -> Option<LoadError> {
    let (Target::Jump(name) | Target::Goto(name)) = &rule.target else { return None };
    if chains.iter().any(|chain| chain.name == *name) {
        return None;
    }
    let line = text.lines().nth(rule.line - 1).unwrap_or("");
    let at = jumps.iter().find(|(jump, _)| *jump == rule.line).map_or(0, |&(_, at)| at);
    let message = format!(
        "unsupported target '{name}': it is not a chain of this table, and its effect on packets is \
         unknown"
    );
    Some(LoadError::new(rule.line, line, at, LoadErrorKind::Refused(message)))
}

fn word<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    cursor.while_of(|c| !c.is_whitespace())
}

/// Skips a rule's counters (packets and bytes in brackets), if present.
fn counters(cursor: &mut Cursor<'_>) -> Result<(), LoadError> {
    if cursor.take('[') {
        cursor.while_of(|c| c.is_ascii_digit() || c == ':');
        cursor.require(']', "counters such as [12:3456]")?;
    }
    Ok(())
}

/// Reads all tables with the selected name, and the ends of all others.
fn tables<'a>(text: &'a str, options: &Options<'a>) -> (Vec<Table<'a>>, Vec<LoadError>) {
    let mut tables: Vec<Table<'a>> = Vec::new();
    let mut errors = Vec::new();
    let is_listing = is_listing(text);
    let is_tracked = tracks(text);
    let mut is_open = is_listing;
    if is_listing {
        tables.push(Table { name: options.table, line: 1, is_tracked, ..Table::default() });
    }
    let mut is_v6 = None;
    let mut rules = 0;
    for (index, line) in text.lines().enumerate() {
        let mut cursor = Cursor::new(index + 1, line);
        cursor.blanks();
        if cursor.is_at_end() {
            continue;
        }
        if cursor.rest().starts_with('#') {
            // The name of the writing program tells the family.
            if cursor.rest().contains("ip6tables-save") || cursor.rest().contains("ip6tables-nft-save") {
                is_v6 = Some(true);
            } else if cursor.rest().contains("iptables-save") || cursor.rest().contains("iptables-nft-save")
            {
                is_v6 = Some(false);
            }
            continue;
        }
        if let Some(name) = cursor.rest().strip_prefix('*') {
            if is_listing && is_open {
                let kind = LoadErrorKind::Unsupported(
                    "a table after lines that belong to no table: iptables -S lists one table without \
                     its name, and iptables-save names each",
                );
                errors.push(cursor.error(kind));
            } else if is_open {
                let kind = LoadErrorKind::Expected("COMMIT before another table begins");
                errors.push(cursor.error(kind));
            }
            is_open = true;
            let line = index + 1;
            tables.push(Table { name: name.trim(), is_v6, line, is_tracked, ..Table::default() });
            continue;
        }
        let Some(table) = tables.last_mut().filter(|_| is_open) else {
            let kind = LoadErrorKind::Unsupported(
                "this line is outside any table: *filter must precede it, and COMMIT must follow the \
                 last line",
            );
            errors.push(cursor.error(kind));
            continue;
        };
        if cursor.rest().trim() == "COMMIT" {
            is_open = false;
            continue;
        }
        if table.name != options.table {
            continue;
        }
        rules += 1;
        if rules > options.limits.rules_max {
            errors.push(
                cursor.error(LoadErrorKind::TooMuch { what: "rules", limit: options.limits.rules_max }),
            );
            return (tables, errors);
        }
        if let Err(error) = table.line(&mut cursor, line, index + 1, options) {
            errors.push(error);
        }
    }
    if is_open && !(is_listing && tables.len() == 1) {
        let kind = LoadErrorKind::Expected(
            "COMMIT after the last line of a table; without it the file may be truncated",
        );
        let (index, line) = text.lines().enumerate().last().unwrap_or((0, ""));
        errors.push(LoadError::new(index + 1, line, line.len(), kind));
    }
    for table in &mut tables {
        table.is_v6 = Some(table.is_v6.unwrap_or_else(|| table.seems_v6()));
    }
    (tables, errors)
}

impl Table<'_> {
    /// Returns whether the rules are IPv6 rules, because some part of them is. A file without such
    /// a comment is not from `iptables-save`.
    fn seems_v6(&self) -> bool {
        self.chains.iter().flat_map(|chain| &chain.rules).any(|rule| {
            let icmp = crate::firewall::Ranges::exact(58);
            rule.conditions.families == Families::V6 || rule.conditions.protocols.as_ref() == Some(&icmp)
        })
    }

    fn chain(&mut self, name: &str) -> usize {
        self.chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            self.chains.push(Chain { name: String::from(name), ..Chain::default() });
            self.chains.len() - 1
        })
    }

    fn is_declared(&self, name: &str) -> bool {
        self.chains.iter().any(|chain| chain.name == name)
    }

    /// Refuses a name that the kernel's own targets have.
    fn check_name(name: &str, at: usize, cursor: &Cursor<'_>) -> Result<(), LoadError> {
        if matches!(name, "ACCEPT" | "DROP" | "QUEUE" | "RETURN") {
            let message = format!("no chain can have the name '{name}', which is a target's");
            return Err(cursor.error_at(at, LoadErrorKind::Refused(message)));
        }
        Ok(())
    }

    /// Reads a chain and its policy.
    fn policy(&mut self, cursor: &mut Cursor<'_>, number: usize) -> Result<(), LoadError> {
        let at = cursor.at();
        let name = word(cursor);
        if name.is_empty() {
            return Err(cursor.error_at(at, LoadErrorKind::Expected("the name of a chain")));
        }
        Self::check_name(name, at, cursor)?;
        let chain = self.chain(name);
        cursor.blanks();
        let at = cursor.at();
        self.chains[chain].policy = match word(cursor) {
            "-" => None,
            "ACCEPT" => Some((Action::Accept, 1, number)),
            "DROP" => Some((Action::Deny, 0, number)),
            _ => return Err(cursor.error_at(at, LoadErrorKind::Expected("a policy: ACCEPT or DROP"))),
        };
        Ok(())
    }

    /// Reads a line of the table. Errors of a rule are stored with its chain; the returned error
    /// concerns the whole table.
    fn line(
        &mut self,
        cursor: &mut Cursor<'_>,
        line: &str,
        number: usize,
        options: &Options<'_>,
    ) -> Result<(), LoadError> {
        if cursor.take(':') {
            return self.policy(cursor, number);
        }
        counters(cursor)?;
        let at = cursor.at();
        let mut is_inserted = false;
        match word(cursor) {
            "-A" | "--append" => {}
            "-I" | "--insert" => is_inserted = true,
            "-F" | "--flush" => {
                cursor.blanks();
                return self.flush(word(cursor), cursor);
            }
            // The kernel deletes only chains that are empty and to which no rule jumps.
            "-X" | "--delete-chain" | "-Z" | "--zero" => return Ok(()),
            "-N" | "--new-chain" => {
                cursor.blanks();
                let (at, name) = (cursor.at(), word(cursor));
                Self::check_name(name, at, cursor)?;
                self.chain(name);
                return Ok(());
            }
            "-P" | "--policy" => {
                cursor.blanks();
                return self.policy(cursor, number);
            }
            _ => {
                let kind = LoadErrorKind::Unsupported(
                    "this line is not supported: only lines that begin with -A, -I, -N, -P, -F, -X or \
                     -Z are; load these rules, and use the output of iptables-save",
                );
                return Err(cursor.error_at(at, kind));
            }
        }
        cursor.blanks();
        let at = cursor.at();
        let name = word(cursor);
        if name.is_empty() {
            return Err(cursor.error_at(at, LoadErrorKind::Expected("the rule's chain")));
        }
        if !BUILT_IN.contains(&name) && !self.is_declared(name) {
            let message = format!("no line above declares the chain '{name}', as ':{name} - [0:0]' does");
            return Err(cursor.error_at(at, LoadErrorKind::Refused(message)));
        }
        let chain = self.chain(name);
        let place = if is_inserted { Some(self.place(chain, cursor)?) } else { None };
        let is_v6 = options.families.map_or(self.is_v6, |families| Some(families == Families::V6));
        let read = words::words(number, line, cursor.at()).and_then(|words| {
            Reader::new(number, line, &words, is_v6.unwrap_or(false), options.sets).rule()
        });
        let mut entries = match read.and_then(|rule| self.check_table(rule, number, line)) {
            Ok(rule) => self.entries(chain, rule, number, is_v6 == Some(true)),
            Err(error) => {
                self.errors.entry(chain).or_default().push(error);
                Vec::new()
            }
        };
        let size = u8::try_from(entries.len()).unwrap_or(u8::MAX);
        let sizes = self.sizes.entry(chain).or_default();
        let rules = &mut self.chains[chain].rules;
        if let Some(Place { rule, entry }) = place {
            sizes.insert(rule, size);
            rules.splice(entry..entry, entries);
        } else {
            sizes.push(size);
            rules.append(&mut entries);
        }
        Ok(())
    }

    /// Refuses a target that the kernel allows in another table only.
    fn check_table(&self, rule: rule::Rule, number: usize, line: &str) -> Result<rule::Rule, LoadError> {
        let name = rule.target.as_deref().filter(|name| !self.is_declared(name)).unwrap_or_default();
        match targets::table_of(name).filter(|table| *table != self.name) {
            Some(table) => {
                let message = format!("the target '{name}' is possible only in the table {table}");
                Err(LoadError::new(number, line, rule.target_at, LoadErrorKind::Refused(message)))
            }
            None => Ok(rule),
        }
    }

    /// Returns the entries of a rule.
    fn entries(&mut self, chain: usize, rule: rule::Rule, number: usize, is_v6: bool) -> Vec<ChainRule> {
        let mut entries = Vec::new();
        let mut conditions = rule.conditions;
        if rule.reads_header && !self.is_tracked && !conditions.names_transport() {
            conditions.ask(TestKind::Fragment(3));
        }
        for test in conditions.tests.iter_mut().filter(|_| self.is_tracked) {
            if let TestKind::Contents(contents) = &mut test.kind {
                *contents = contents.clone().of_datagram();
            }
        }
        // A declared chain hides a target of the same name.
        let target = rule.target.filter(|name| self.is_declared(name));
        let does = match target {
            Some(name) if !matches!(rule.does, Does::Goto(_)) => Does::Jump(name),
            _ => rule.does,
        };
        let drops_second = rule.drops_second.filter(|_| !self.is_tracked && !is_v6);
        // A chain hides a target that writes.
        let writes = if matches!(does, Does::Jump(_)) { Vec::new() } else { rule.writes };
        let mut push = |conditions, target| {
            entries.push(ChainRule {
                writes: writes.clone(),
                drops_second: drops_second.clone().filter(|_| entries.is_empty()),
                ..ChainRule::new(conditions, target, number)
            });
        };
        match does {
            Does::Asks(all) => {
                for &(text, action, value) in all {
                    let mut conditions = conditions.clone();
                    if let Some(text) = text {
                        conditions.ask(TestKind::Unknowable(String::from(text)));
                    }
                    push(conditions, Target::Decide { action, value });
                }
            }
            Does::Decide(action, value) => push(conditions, Target::Decide { action, value }),
            Does::Jump(name) => {
                self.jumps.push((number, rule.target_at));
                push(conditions, Target::Jump(name));
            }
            Does::Goto(name) => {
                self.jumps.push((number, rule.target_at));
                push(conditions, Target::Goto(name));
            }
            Does::Return => push(conditions, Target::Return),
            Does::Passes(text) => {
                if !writes.is_empty() || drops_second.is_some() {
                    push(conditions, Target::Pass);
                }
                self.notes.entry(chain).or_default().push(Note { line: number, text });
            }
        }
        entries
    }

    /// Reads the place of an inserted rule.
    fn place(&mut self, chain: usize, cursor: &mut Cursor<'_>) -> Result<Place, LoadError> {
        cursor.blanks();
        let at = cursor.at();
        let digits = cursor.while_of(|c| c.is_ascii_digit());
        let sizes = self.sizes.entry(chain).or_default();
        let number = if digits.is_empty() { 1 } else { digits.parse().unwrap_or(usize::MAX) };
        if number == 0 || number > sizes.len() + 1 {
            let message =
                format!("the chain has {} rules above this line, so it has no place {digits}", sizes.len());
            return Err(cursor.error_at(at, LoadErrorKind::Refused(message)));
        }
        self.moved += self.chains[chain].rules.len();
        if self.moved > MOVED_MAX {
            let kind = LoadErrorKind::TooMuch { what: "rules moved by -I", limit: MOVED_MAX };
            return Err(cursor.error_at(at, kind));
        }
        let rule = number - 1;
        Ok(Place { rule, entry: sizes[..rule].iter().map(|&size| usize::from(size)).sum() })
    }

    /// Removes the rules of a chain, or of all chains if the name is empty.
    fn flush(&mut self, name: &str, cursor: &Cursor<'_>) -> Result<(), LoadError> {
        if !name.is_empty() && !BUILT_IN.contains(&name) && !self.is_declared(name) {
            let message = format!("no line above declares the chain '{name}'");
            return Err(cursor.error(LoadErrorKind::Refused(message)));
        }
        for (index, chain) in self.chains.iter_mut().enumerate() {
            if name.is_empty() || chain.name == name {
                chain.rules.clear();
                self.sizes.remove(&index);
                self.errors.remove(&index);
                self.notes.remove(&index);
            }
        }
        Ok(())
    }
}

/// The place of a rule in its chain: among the rules, and among their entries.
struct Place {
    rule: usize,
    entry: usize,
}

#[cfg(test)]
mod tests;
