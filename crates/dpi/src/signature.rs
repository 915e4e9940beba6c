//! The signatures that the automata search for: expressions of a pattern that have the same
//! requirements.

use crate::condition::{Condition, HEAD_BYTES, Payload, Truth};
use crate::error::BuildError;
use crate::pattern::{
    Dialect, Expression, Match, Origin, Pattern, PatternId, Role, Transports, joined, syntax_of,
};
use crate::strength;

/// Maximum number of expressions in a set.
pub const EXPRESSIONS_MAX: usize = 1 << 14;

/// The expressions of one pattern that have the same conditions, sender and strength, joined into
/// one.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) name: String,
    pub(crate) regex: String,
    pub(crate) dialect: Dialect,
    pub(crate) transports: Transports,
    pub(crate) rule: Rule,
}

/// The parts of a signature that are needed after its automaton has matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) found: Match,
    sender: Option<Role>,
    conditions: Box<[Condition]>,
    /// The usual ports of the pattern.
    ports: Box<[u16]>,
}

impl Rule {
    /// Returns whether a match of the automaton must be confirmed by further requirements.
    pub(crate) fn is_conditional(&self) -> bool {
        self.sender.is_some() || !self.conditions.is_empty()
    }

    /// Returns whether all requirements in addition to the expression hold.
    pub(crate) fn check(&self, payload: &Payload<'_>, origin: Origin) -> Truth {
        if let (Some(expected), Some(sender)) = (self.sender, origin.sender)
            && expected != sender
        {
            return Truth::Fails;
        }
        let usual_port =
            || origin.ports.is_some_and(|ports| ports.iter().any(|port| self.ports.contains(port)));
        let mut all = Truth::Holds;
        for condition in &self.conditions {
            match condition.check(payload, usual_port()) {
                Truth::Holds => {}
                Truth::Fails => return Truth::Fails,
                Truth::Unknown => all = Truth::Unknown,
            }
        }
        all
    }
}

/// Returns the signatures of patterns, in order of priority: a pattern's strong expressions come
/// before its weak ones.
pub(crate) fn signatures(patterns: &[Pattern]) -> Result<Vec<Signature>, BuildError> {
    signatures_by(patterns, is_weak)
}

/// Returns whether an expression of a pattern is weak.
pub(crate) fn is_weak(pattern: &Pattern, expression: &Expression) -> bool {
    let more_bits = expression.conditions.iter().map(Condition::bits).sum();
    strength::is_weak(&expression.regex, &syntax_of(pattern.dialect), more_bits)
}

/// Returns the signatures of patterns whose expressions are weak where `weak` says so. It is called
/// once per expression, in order.
pub(crate) fn signatures_by(
    patterns: &[Pattern],
    mut weak: impl FnMut(&Pattern, &Expression) -> bool,
) -> Result<Vec<Signature>, BuildError> {
    let expressions: usize = patterns.iter().map(|pattern| pattern.expressions.len()).sum();
    if expressions > EXPRESSIONS_MAX {
        return Err(BuildError::TooManyExpressions { expressions, expressions_max: EXPRESSIONS_MAX });
    }
    let mut all = Vec::new();
    for (id, pattern) in (0..).zip(patterns) {
        of_pattern(PatternId(id), pattern, &mut weak, &mut all)?;
    }
    Ok(all)
}

fn of_pattern(
    id: PatternId,
    pattern: &Pattern,
    weak: &mut impl FnMut(&Pattern, &Expression) -> bool,
    out: &mut Vec<Signature>,
) -> Result<(), BuildError> {
    if pattern.expressions.is_empty() {
        return Err(BuildError::NoExpression { name: pattern.name.clone() });
    }
    let mut kinds: Vec<(Rule, Vec<&str>)> = Vec::new();
    for expression in &pattern.expressions {
        for condition in &expression.conditions {
            let bytes = condition.head_bytes();
            if pattern.transports.tcp && bytes > HEAD_BYTES {
                return Err(BuildError::FarField {
                    name: pattern.name.clone(),
                    bytes,
                    bytes_max: HEAD_BYTES,
                });
            }
        }
        let rule = Rule {
            found: Match { pattern: id, weak: weak(pattern, expression) },
            sender: expression.sender,
            conditions: expression.conditions.clone().into_boxed_slice(),
            ports: pattern.ports.clone().into_boxed_slice(),
        };
        match kinds.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, list)) => list.push(&expression.regex),
            None => kinds.push((rule, vec![&expression.regex])),
        }
    }
    kinds.sort_by_key(|(rule, _)| rule.found.weak);
    out.extend(kinds.into_iter().map(|(rule, list)| Signature {
        name: pattern.name.clone(),
        regex: joined(list.into_iter()),
        dialect: pattern.dialect,
        transports: pattern.transports,
        rule,
    }));
    Ok(())
}
