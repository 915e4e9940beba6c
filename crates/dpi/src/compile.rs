//! From expressions to as few tables as fit the budget.

use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, meta};

use crate::determinize::{Shape, Subsets};
use crate::error::BuildError;
use crate::pattern::Dialect;
use crate::signature::Signature;
use crate::table::Table;

/// The most patterns of a set.
pub const PATTERNS_MAX: usize = 4096;
/// The longest expression.
pub const REGEX_BYTES_MAX: usize = 16 << 10;
/// Limit in bytes for the nondeterministic automaton of one expression.
const NFA_BYTES_MAX: usize = 4 << 20;
/// A group has at most this many patterns.
const GROUP_PATTERNS_MAX: usize = 512;
/// The most groups that patterns of one transport may need.
pub const GROUPS_MAX: usize = 8;
/// Bytes that a group's budget counts per transition. The finished table takes half of that.
const TRANSITION_BYTES: usize = 4;
/// Limit for building beside the table, in budgets of the group.
const WORK: usize = 4;
/// Bytes of an expression's own automaton that count as one step.
const STEP_BYTES: usize = 4;

/// Limits of building a scanner.
///
/// Fields may be added in any version: a literal ends with `..Budget::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_dpi::{Budget, Scanner, builtin};
///
/// let small = Budget { group_bytes_max: 4 << 20, ..Budget::default() };
/// assert!(Scanner::with_budget(&builtin(), small).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of one automaton, four for each state and class of bytes; patterns that do not fit
    /// together are split over several. They are built one after the other: building takes at most
    /// four times as much, beside the table of half the size and the nondeterministic automaton of
    /// its expressions.
    pub group_bytes_max: usize,
    /// Bytes of all tables.
    pub bytes_max: usize,
    /// Steps of building, of tens of nanoseconds each: one per visited state of an expression's own
    /// automaton, or per four bytes of such an automaton. Attempts that did not fit count too.
    pub steps_max: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { group_bytes_max: 16 << 20, bytes_max: 64 << 20, steps_max: 100_000_000 }
    }
}

/// What a scanner has used so far of its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    budget: Budget,
    /// Bytes of all tables.
    bytes: usize,
    steps_left: u64,
}

impl Spent {
    pub(crate) fn nothing_of(budget: Budget) -> Self {
        Self { budget, bytes: 0, steps_left: budget.steps_max }
    }

    /// Counts the steps of building this many bytes of an expression's own automaton.
    fn made(&mut self, bytes: usize) -> Result<(), BuildError> {
        self.steps_left = self.steps_left.saturating_sub((bytes / STEP_BYTES) as u64);
        self.check()
    }

    /// Returns whether steps are left.
    fn check(&self) -> Result<(), BuildError> {
        if self.steps_left > 0 {
            return Ok(());
        }
        Err(BuildError::TooManySteps { steps_max: self.budget.steps_max })
    }
}

/// A signature whose expression is valid.
pub(crate) struct Checked<'a> {
    pub(crate) id: u16,
    pub(crate) signature: &'a Signature,
    pub(crate) anchored: bool,
}

impl Checked<'_> {
    pub(crate) fn skips_zero(&self) -> bool {
        self.signature.dialect == Dialect::L7Filter
    }
}

/// How the expressions of a dialect are read.
pub(crate) fn syntax_of(dialect: Dialect) -> syntax::Config {
    syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .dot_matches_new_line(true)
        .case_insensitive(dialect == Dialect::L7Filter)
        .nest_limit(64)
}

/// Compiles one expression for a search of whole buffers, without the tables.
pub(crate) fn whole(signature: &Signature) -> Result<meta::Regex, BuildError> {
    meta::Regex::builder()
        .syntax(syntax_of(signature.dialect))
        .configure(
            meta::Config::new()
                .utf8_empty(false)
                .nfa_size_limit(Some(NFA_BYTES_MAX))
                .dfa(false)
                .onepass(false),
        )
        .build(&signature.regex)
        .map_err(|error| BuildError::Syntax { name: signature.name.clone(), message: flat(&error) })
}

/// Looks at one expression.
pub(crate) fn check<'a>(
    id: u16,
    signature: &'a Signature,
    spent: &mut Spent,
) -> Result<Checked<'a>, BuildError> {
    let name = || signature.name.clone();
    if signature.regex.len() > REGEX_BYTES_MAX {
        return Err(BuildError::LongRegex {
            name: name(),
            bytes: signature.regex.len(),
            bytes_max: REGEX_BYTES_MAX,
        });
    }
    let nfa = thompson::Compiler::new()
        .syntax(syntax_of(signature.dialect))
        .configure(thompson_config())
        .build(&signature.regex)
        .map_err(|error| BuildError::Syntax { name: name(), message: flat(&error) })?;
    spent.made(nfa.memory_usage())?;
    if nfa.look_set_any().contains_word_unicode() {
        return Err(BuildError::Syntax {
            name: name(),
            message: String::from("Unicode is not known here"),
        });
    }
    if nfa.has_empty() && whole(signature)?.is_match(Input::new(&[])) {
        return Err(BuildError::MatchesNothing { name: name() });
    }
    Ok(Checked { id, signature, anchored: nfa.is_always_start_anchored() })
}

fn thompson_config() -> thompson::Config {
    thompson::Config::new().utf8(false).shrink(false).nfa_size_limit(Some(NFA_BYTES_MAX))
}

fn flat(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Builds the tables of patterns of one kind: all anchored or none, of one dialect. Halves the list
/// until the halves fit. Stops once all tables take too many bytes, or took too many steps.
pub(crate) fn tables(
    list: &[Checked<'_>],
    spent: &mut Spent,
    out: &mut Vec<Table>,
) -> Result<(), BuildError> {
    let Some(first) = list.first() else { return Ok(()) };
    let Budget { group_bytes_max, bytes_max, .. } = spent.budget;
    let table = if list.len() > GROUP_PATTERNS_MAX { None } else { table(list, spent)? };
    if let Some(table) = table {
        spent.bytes += table.bytes();
        out.push(table);
        if out.len() > GROUPS_MAX {
            let groups = out.len();
            return Err(BuildError::TooManyGroups { groups, groups_max: GROUPS_MAX, group_bytes_max });
        }
        if spent.bytes > bytes_max {
            return Err(BuildError::TooLarge { bytes: spent.bytes, bytes_max });
        }
        return Ok(());
    }
    if list.len() == 1 {
        return Err(BuildError::PatternTooLarge { name: first.signature.name.clone(), group_bytes_max });
    }
    let (low, high) = list.split_at(list.len() / 2);
    tables(low, spent, out)?;
    tables(high, spent, out)
}

/// Builds one table, if it fits.
fn table(list: &[Checked<'_>], spent: &mut Spent) -> Result<Option<Table>, BuildError> {
    let (anchored, skip_zero) = (list[0].anchored, list[0].skips_zero());
    let syntax = syntax_of(list[0].signature.dialect);
    let mut hirs = Vec::with_capacity(list.len());
    for checked in list {
        let Ok(hir) = syntax::parse_with(&checked.signature.regex, &syntax) else { return Ok(None) };
        hirs.push(hir);
    }
    let nfa_bytes_max = 2 * NFA_BYTES_MAX;
    let nfa = thompson::Compiler::new()
        .configure(thompson_config().nfa_size_limit(Some(nfa_bytes_max)))
        .build_many_from_hir(&hirs);
    spent.made(nfa.as_ref().map_or(nfa_bytes_max, NFA::memory_usage))?;
    let Ok(nfa) = nfa else { return Ok(None) };
    let ids: Vec<u16> = list.iter().map(|checked| checked.id).collect();
    // The end of the input is one of the classes, which compensates for zero where zero is a class
    // of its own.
    let row_bytes = TRANSITION_BYTES * nfa.byte_classes().iter().count().next_power_of_two();
    let shape = Shape {
        anchored,
        skip_zero,
        states_max: spent.budget.group_bytes_max / row_bytes,
        bytes_max: spent.budget.group_bytes_max.saturating_mul(WORK),
    };
    let conditional: Vec<bool> =
        list.iter().map(|checked| checked.signature.rule.is_conditional()).collect();
    let Ok(found) = Subsets::new(&nfa, &ids, &conditional, shape, &mut spent.steps_left) else {
        return spent.check().map(|()| None);
    };
    // The literal finder does not know that bytes of zero inside a literal are skipped.
    let leap =
        if anchored || skip_zero { None } else { Prefilter::from_hirs_prefix(MatchKind::All, &hirs) };
    Ok(Table::new(&found, list[0].id, anchored, leap).ok())
}
