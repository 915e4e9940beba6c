//! What several verbs say of the rules of a file.

use flowloom::classifier::{Action, RuleId};
use flowloom::rules::firewall::PossibleOutcome;

use crate::render::rules::RuleLine;
use crate::rule_file::RuleFile;

/// Maximum number of connections to remember for rules that ask for states.
pub(crate) const CONNECTIONS_MAX: usize = 1 << 22;

/// Returns a rule for display in a list.
pub(crate) fn line(file: &RuleFile, id: RuleId) -> RuleLine {
    let (number, line) = file.place(id);
    let chain = file.policy.source(id).map_or("", |source| &source.chain);
    RuleLine {
        number,
        line,
        rule: file.policy.text(id),
        action: file.set().get(id).and_then(|rule| rule.action).map(Action::name),
        chain: (!chain.is_empty()).then(|| chain.to_owned()),
    }
}

/// Returns the action on a packet if all its possible outcomes agree. As in `replay` by default, a
/// rule without an action accepts, and a packet that no rule matches is denied.
pub(crate) fn verdict(file: &RuleFile, outcomes: &PossibleOutcome) -> Option<Action> {
    let action = |id| file.set().get(id).and_then(|rule| rule.action).unwrap_or(Action::Accept);
    let decided = outcomes.deciders.iter().map(|one| action(one.rule));
    let mut all = decided.chain(outcomes.unmatched.map(|_| Action::Deny));
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
