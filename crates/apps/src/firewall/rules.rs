//! A rule set that gives verdicts.

use flowloom_classifier::{
    Action, AnyKey, BuildError, Classifier, ClassifierBuilder, Match, Rule, RuleId, RuleSet,
};
use flowloom_engine::Verdict;
use flowloom_flow_key::FiveTuple;

/// What is decided where the rules themselves do not say.
///
/// Fields may be added in any version: a literal ends with `..Defaults::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// For packets that no rule matches.
    pub unmatched: Verdict,
    /// For packets that match a rule without an action, as all rules of ClassBench are.
    pub no_action: Verdict,
}

impl Default for Defaults {
    /// A list of what may pass: rules accept, and what none of them matches is denied.
    fn default() -> Self {
        Self { unmatched: Verdict::Deny, no_action: Verdict::Accept }
    }
}

/// What the rules say of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// Number of the first rule that matches, in the order in which the rules were read, from one; 0 if none does.
    pub number: u32,
    /// What is done.
    pub verdict: Verdict,
}

/// How the first matching rule is found.
#[derive(Debug)]
enum Search {
    Classifier(Box<Classifier>),
    Scan,
}

/// Rules ready to judge packets. Immutable; workers share it.
///
/// # Examples
///
/// ```
/// use flowloom_apps::firewall::{Defaults, FirewallRules};
/// use flowloom_classifier::{Action, ClassifierBuilder, Rule, RuleSet};
/// use flowloom_engine::Verdict;
/// use flowloom_flow_key::FiveTuple;
/// let set = RuleSet::new(vec![Rule { action: Some(Action::Deny), ..Rule::ANY }])?;
/// let rules = FirewallRules::build(set, Defaults::default(), ClassifierBuilder::new())?;
/// let found = rules.judge(&FiveTuple::v4([192, 0, 2, 1], [192, 0, 2, 2], 1024, 80, 6));
/// assert_eq!((found.number, found.verdict), (1, Verdict::Deny));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FirewallRules {
    set: RuleSet,
    search: Search,
    defaults: Defaults,
    /// Of each rule by its number; that of packets without one at the head.
    verdicts: Vec<Verdict>,
}

impl std::fmt::Debug for FirewallRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirewallRules")
            .field("rules", &self.set.len())
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

impl FirewallRules {
    /// Builds the classifier of a rule set.
    ///
    /// # Errors
    ///
    /// [`BuildError`] where the rules do not keep within the builder's limits.
    pub fn build(set: RuleSet, defaults: Defaults, builder: ClassifierBuilder) -> Result<Self, BuildError> {
        let classifier = Box::new(builder.build(&set)?);
        Ok(Self::with(set, defaults, Search::Classifier(classifier)))
    }

    /// Returns the rules to be asked one after the other: slow, and what the classifier is checked by.
    #[must_use]
    pub fn scanning(set: RuleSet, defaults: Defaults) -> Self {
        Self::with(set, defaults, Search::Scan)
    }

    fn with(set: RuleSet, defaults: Defaults, search: Search) -> Self {
        let mut verdicts = vec![defaults.unmatched; set.len() + 1];
        for (id, rule) in (0..).map(RuleId).zip(set.rules()) {
            let number = set.position(id).map_or(0, |position| position as usize + 1);
            verdicts[number] = match rule.action {
                Some(Action::Accept) => Verdict::Accept,
                Some(Action::Deny) => Verdict::Deny,
                None => defaults.no_action,
            };
        }
        Self { set, search, defaults, verdicts }
    }

    /// Returns the rule set.
    #[must_use]
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Returns the rule of a number, by looking through all of them.
    #[must_use]
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        let mut ids = (0..).map(RuleId).zip(self.set.rules());
        ids.find(|(id, _)| self.set.position(*id).map(|position| position + 1) == Some(number))
            .map(|(_, rule)| rule)
    }

    /// Returns what is decided where the rules do not say.
    #[must_use]
    pub fn defaults(&self) -> Defaults {
        self.defaults
    }

    /// Returns the verdict of the rule of a number; of 0, that of packets that no rule matches.
    #[must_use]
    pub fn verdict(&self, number: u32) -> Verdict {
        self.verdicts.get(number as usize).copied().unwrap_or(self.defaults.unmatched)
    }

    /// Judges a packet by its own header. ICMP and later fragments have no ports: they match rules that ask for any
    /// port, or port 0.
    #[must_use]
    pub fn judge(&self, tuple: &FiveTuple) -> Judgement {
        let found = match &self.search {
            Search::Classifier(classifier) => classifier.classify(tuple),
            Search::Scan => self.scan(tuple),
        };
        let number = found.rule().and_then(|id| self.set.position(id)).map_or(0, |position| position + 1);
        Judgement { number, verdict: self.verdict(number) }
    }

    fn scan(&self, tuple: &FiveTuple) -> Match {
        match AnyKey::from(tuple) {
            AnyKey::V4(key) => self.set.first_match(&key),
            AnyKey::V6(key) => self.set.first_match(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_classifier::PortRange;

    use super::*;

    #[test]
    fn actions_win_over_defaults_and_numbers_are_those_of_the_file() {
        let to = |port: u16, priority: i32, action: Option<Action>| Rule {
            destination_ports: PortRange::exact(port),
            priority,
            action,
            ..Rule::ANY
        };
        let list = vec![to(80, 0, None), to(53, 7, Some(Action::Deny)), to(443, 3, Some(Action::Accept))];
        let set = RuleSet::new(list).expect("a set of three rules");
        for defaults in
            [Defaults::default(), Defaults { unmatched: Verdict::Accept, no_action: Verdict::Deny }]
        {
            let built = FirewallRules::build(set.clone(), defaults, ClassifierBuilder::new())
                .expect("three rules fit");
            let scanning = FirewallRules::scanning(set.clone(), defaults);
            for rules in [built, scanning] {
                let judge = |port: u16| {
                    let found = rules.judge(&FiveTuple::v4([1; 4], [2; 4], 9, port, 6));
                    assert_eq!(rules.verdict(found.number), found.verdict);
                    let rule = rules.rule(found.number);
                    assert!(rule.is_none_or(|rule| rule.destination_ports.contains(port)));
                    assert_eq!(rule.is_none(), found.number == 0);
                    (found.number, found.verdict)
                };
                assert_eq!(judge(80), (1, defaults.no_action));
                assert_eq!(judge(53), (2, Verdict::Deny));
                assert_eq!(judge(443), (3, Verdict::Accept));
                assert_eq!(judge(1), (0, defaults.unmatched));
            }
        }
    }
}
