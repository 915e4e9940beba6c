//! Rules in matching order.

use alloc::vec::Vec;
use core::fmt;

use crate::key::{Key, Match, Span};
use crate::rule::{ProtocolMatch, Rule, RuleId};

/// Maximum number of rules in a set: ids stay below 2²⁴, so that they fit into a word with other
/// fields.
pub const RULES_MAX: usize = (1 << 24) - 1;

/// The error of a set with too many rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooManyRules {
    /// Number of given rules, as far as they were counted.
    pub rules: usize,
    /// The maximum of the set.
    pub rules_max: usize,
}

impl TooManyRules {
    /// Returns an error if there are more rules than a set may have.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyRules`] above [`RULES_MAX`].
    pub const fn check(rules: usize) -> Result<(), Self> {
        if rules > RULES_MAX { Err(Self { rules, rules_max: RULES_MAX }) } else { Ok(()) }
    }
}

impl fmt::Display for TooManyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rules are more than the {} allowed; raise the limit or split the set",
            self.rules, self.rules_max
        )
    }
}

impl core::error::Error for TooManyRules {}

/// A rule as the builders of one family see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat<K: Key> {
    pub(crate) spans: K::Spans,
    pub(crate) protocol: ProtocolMatch,
    /// Lengths of the source's and the destination's prefix.
    pub(crate) lengths: [u8; 2],
    /// A match does not end the search.
    pub(crate) is_conditional: bool,
    /// See [`Rule::is_certain_with_ports`].
    pub(crate) is_certain_with_ports: bool,
    pub(crate) id: u32,
}

impl<K: Key> Flat<K> {
    /// Returns the span in a dimension.
    #[inline]
    pub(crate) fn span(&self, dimension: usize) -> Span {
        self.spans.as_ref()[dimension]
    }
}

/// An immutable list of rules in matching order.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{KeyV4, Rule, RuleId, RuleSet};
/// let set = RuleSet::new(vec![Rule::ANY, Rule { priority: 1, ..Rule::ANY }])?;
/// assert_eq!(set.rules()[0].priority, 1);
/// assert_eq!(set.first_match(&KeyV4::default()).rule(), Some(RuleId(0)));
/// # Ok::<(), flowloom_classifier::rule_set::TooManyRules>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    rules: Vec<Rule>,
    /// The original position of each rule.
    positions: Vec<u32>,
}

impl RuleSet {
    /// Returns the set: rules with higher priority come first; rules with equal priority keep their
    /// order.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyRules`] above [`RULES_MAX`].
    pub fn new(rules: Vec<Rule>) -> Result<Self, TooManyRules> {
        TooManyRules::check(rules.len())?;
        let mut positions: Vec<u32> = (0..rules.len() as u32).collect();
        if rules.windows(2).all(|pair| pair[0].priority >= pair[1].priority) {
            return Ok(Self { rules, positions });
        }
        positions.sort_by_key(|&position| core::cmp::Reverse(rules[position as usize].priority));
        let rules = positions.iter().map(|&position| rules[position as usize]).collect();
        Ok(Self { rules, positions })
    }

    /// Returns the set with each rule replaced. Priorities must stay as they are.
    #[must_use]
    pub fn map(mut self, of: impl Fn(Rule) -> Rule) -> Self {
        for rule in &mut self.rules {
            *rule = of(*rule);
        }
        self
    }

    /// Returns the rules in matching order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns a rule.
    pub fn get(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.index())
    }

    /// Returns the position of a rule in the original list, from zero.
    pub fn position(&self, id: RuleId) -> Option<u32> {
        self.positions.get(id.index()).copied()
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there is no rule, and hence never a match.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the first rule that matches, by linear search. This defines the result of every
    /// classifier.
    pub fn first_match<K: Key>(&self, key: &K) -> Match {
        self.all_matches(key).next().map_or(Match::NONE, Match::from)
    }

    /// Returns the first rule that matches a key and whose
    /// [`FlagsColumn`](crate::rule::FlagsColumn) agrees with the packet's `flags`. `found` is the
    /// result of a lookup of the key: rules before it are not tested again, later rules are tested
    /// one by one.
    pub fn first_match_with_flags<K: Key>(&self, found: Match, key: &K, flags: Option<u16>) -> Match {
        let Some(first) = found.rule() else { return Match::NONE };
        (first.0..)
            .zip(&self.rules[first.index()..])
            .find(|(_, rule)| rule.flags.is_none_or(|column| column.contains(flags)) && rule.matches(key))
            .map_or(Match::NONE, |(id, _)| Match(id))
    }

    /// Returns all rules that match, in order.
    pub fn all_matches<'a, K: Key>(&'a self, key: &'a K) -> impl Iterator<Item = RuleId> + 'a {
        self.rules.iter().enumerate().filter(|(_, rule)| rule.matches(key)).map(|(i, _)| RuleId(i as u32))
    }

    /// Returns the rules that packets of this family can match.
    pub(crate) fn flatten<K: Key>(&self) -> Vec<Flat<K>> {
        let flat = |(i, rule): (usize, &Rule)| {
            let lengths = rule.address_bounds::<K>()?.map(|(_, _, length)| length as u8);
            Some(Flat {
                spans: rule.spans::<K>()?,
                protocol: rule.protocol,
                lengths,
                is_conditional: rule.is_conditional,
                is_certain_with_ports: rule.is_certain_with_ports,
                id: i as u32,
            })
        };
        self.rules.iter().enumerate().filter_map(flat).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::key::KeyV4;
    use crate::rule::{FlagsColumn, PrefixV4};

    #[test]
    fn rule_keeps_its_position() {
        let rule = |priority| Rule { priority, ..Rule::ANY };
        let set = RuleSet::new(vec![rule(0), rule(5), rule(-1), rule(5)]).unwrap();
        let positions: Vec<Option<u32>> = (0..5).map(|id| set.position(RuleId(id))).collect();
        assert_eq!(positions, [Some(1), Some(3), Some(0), Some(2), None]);
    }

    #[test]
    fn flags_refine_a_match() {
        let flags = |value: u16, mask: u16| Some(FlagsColumn { value, mask });
        let elsewhere = Rule::v4(PrefixV4::new(1, 32).unwrap(), PrefixV4::ANY);
        let set = RuleSet::new(vec![
            Rule { flags: flags(0x0200, 0x1200), ..Rule::ANY },
            Rule { flags: flags(0x1000, 0x1000), ..elsewhere },
            Rule { flags: flags(0x1000, 0x1000), ..Rule::ANY },
            Rule { flags: flags(0, 0), ..Rule::ANY },
        ])
        .unwrap();
        let key = KeyV4::default();
        let found = set.first_match(&key);
        assert_eq!(found.rule(), Some(RuleId(0)));
        let with =
            |flags: Option<u16>| set.first_match_with_flags(found, &key, flags).rule().map(|id| id.0);
        assert_eq!(with(Some(0x0200)), Some(0), "SYN");
        assert_eq!(with(Some(0x1200)), Some(2), "SYN and ACK");
        assert_eq!(with(Some(0x0400)), Some(3), "RST");
        assert_eq!(with(None), Some(3), "no TCP");
        assert_eq!(set.first_match_with_flags(Match::NONE, &key, None), Match::NONE);
    }
}
