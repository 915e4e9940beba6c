//! Compiles expressions into as few tables as the budget allows.

use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, meta};
use regex_syntax::hir::Hir;

use crate::determinize::{Shape, Subsets};
use crate::error::BuildError;
use crate::pattern::{Dialect, syntax_of};
use crate::signature::Signature;
use crate::table::{Table, TooManyStates};

/// Maximum number of patterns in a set.
pub const PATTERNS_MAX: usize = 4096;
/// Maximum length of an expression in bytes.
pub const REGEX_BYTES_MAX: usize = 16 << 10;
/// Limit in bytes for the nondeterministic automaton of one expression.
const NFA_BYTES_MAX: usize = 4 << 20;
/// Maximum number of patterns in a group.
const GROUP_PATTERNS_MAX: usize = 512;
/// Maximum number of groups per transport.
pub const GROUPS_MAX: usize = 8;
/// Bytes that count towards a group's budget per transition. The finished table uses half of that.
const TRANSITION_BYTES: usize = 4;
/// Limit for the working memory of building a table, as a multiple of the group's budget.
const WORK: usize = 4;
/// Bytes of an expression's own automaton that count as one step.
const STEP_BYTES: usize = 4;

/// Limits for building a scanner.
///
/// Later versions may add fields: end a literal with `..Budget::default()`.
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
    /// Maximum size of one automaton in bytes: four bytes per state and class of bytes. Patterns
    /// that do not fit together are split over several automata. Automata are built one after
    /// another. Building one takes at most four times this amount, in addition to the finished
    /// table, which has half this size, and the nondeterministic automaton of its expressions.
    pub group_bytes_max: usize,
    /// Maximum size of all tables in bytes.
    pub bytes_max: usize,
    /// Maximum number of steps, each of which takes tens of nanoseconds. A step is one visited
    /// state of an expression's own automaton, or four bytes of such an automaton. Attempts that
    /// did not fit count too.
    pub steps_max: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { group_bytes_max: 16 << 20, bytes_max: 64 << 20, steps_max: 100_000_000 }
    }
}

/// The part of the limits that a scanner has used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    budget: Budget,
    /// Size of all tables in bytes.
    bytes: usize,
    steps_left: u64,
}

impl Spent {
    pub(crate) fn nothing_of(budget: Budget) -> Self {
        Self { budget, bytes: 0, steps_left: budget.steps_max }
    }

    /// Counts the steps of building `bytes` bytes of an expression's own automaton.
    fn made(&mut self, bytes: usize) -> Result<(), BuildError> {
        self.steps_left = self.steps_left.saturating_sub((bytes / STEP_BYTES) as u64);
        self.check()
    }

    /// A signature whose expression is valid.
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

/// Compiles one expression for a search of whole buffers, without tables.
pub(crate) fn compile_whole(signature: &Signature) -> Result<meta::Regex, BuildError> {
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

/// Validates one expression.
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
        return Err(BuildError::Syntax { name: name(), message: String::from("Unicode is not supported") });
    }
    if nfa.has_empty() && compile_whole(signature)?.is_match(Input::new(&[])) {
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

/// Builds the tables of patterns of one dialect, of which either all or none are anchored. Halves
/// the list until each half fits. Stops when the tables exceed the limit of bytes or of steps.
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

/// Builds one table, or returns `None` if it does not fit.
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
    // The end of the input counts as one of the classes. This compensates for zero where zero has a
    // class of its own.
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
    let mut table = match Table::new(&found, list[0].id, anchored) {
        Ok(table) => table,
        Err(TooManyStates) => return Ok(None),
    };
    // The finder does not know the byte before the place that it skips to, and it cannot skip bytes
    // of zero inside a literal.
    if !anchored && !skip_zero && found.forgets {
        table.leap_to(Prefilter::from_hirs_prefix(MatchKind::All, &hirs), ids);
    }
    Ok(Some(table))
}

/// Returns a table that was read from an image with the finder that it had. `None` if one of its
/// expressions is invalid.
pub(crate) fn with_leap(mut table: Table, signatures: &[Signature]) -> Option<Table> {
    let ids = table.literals_of().to_vec();
    if !ids.is_empty() {
        let parse = |&id: &u16| {
            let signature = &signatures[usize::from(id)];
            syntax::parse_with(&signature.regex, &syntax_of(signature.dialect)).ok()
        };
        let hirs: Vec<Hir> = ids.iter().map(parse).collect::<Option<_>>()?;
        table.leap_to(Prefilter::from_hirs_prefix(MatchKind::All, &hirs), ids);
    }
    Some(table)
}
