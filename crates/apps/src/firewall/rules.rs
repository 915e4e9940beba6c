//! Rules that give verdicts.

use flowloom_classifier::{Action, BuildError, ClassifierBuilder, Rule, RuleId, RuleSet};
use flowloom_engine::Verdict;
use flowloom_flow_key::{FiveTuple, FlowKey, IpFamily};
use flowloom_packet::InterfaceName;
use flowloom_rules::firewall::{Assume, Knowledge, Packet, Policy, PolicyMatcher};

use super::rules_error::RulesError;

/// The verdicts for cases that the rules do not decide.
///
/// Any version may add fields, so end a literal with `..Defaults::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The verdict on packets that no rule matches.
    pub unmatched: Verdict,
    /// The verdict of rules without an action, such as all rules of ClassBench.
    pub no_action: Verdict,
}

impl Default for Defaults {
    /// The defaults of an allow list: rules accept, and all other packets are denied.
    fn default() -> Self {
        Self { unmatched: Verdict::Deny, no_action: Verdict::Accept }
    }
}

/// The answer of the rules to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judgement {
    /// The number of the first matching rule, counted from 1; 0 if no rule matches. Rules have the
    /// order in which they are evaluated, which begins with the chain that packets enter:
    /// [`Policy::sources`](flowloom_rules::firewall::Policy::sources) has the line and the chain of
    /// rule `number` at `number - 1`.
    pub number: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// The packet lacks what the rules ask for, and they would accept it or deny it, depending on
    /// that: a later fragment has no state, and a packet that is cut has no flags. It is denied.
    pub is_undecided: bool,
}

impl Judgement {
    const UNDECIDED: Self = Self { number: 0, verdict: Verdict::Deny, is_undecided: true };

    const fn of_rule(number: u32, verdict: Verdict) -> Self {
        Self { number, verdict, is_undecided: false }
    }
}

/// How the first matching rule is found.
#[derive(Debug)]
enum Search {
    Matcher(Box<PolicyMatcher>),
    Scan(Box<Policy>),
}

/// Rules that are ready to judge packets. They never change, and workers share them.
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
    search: Search,
    defaults: Defaults,
    enforcement: Enforcement,
    /// The verdict of each rule by its number. The first entry is for packets that no rule matches.
    verdicts: Vec<Verdict>,
    /// The rule number of each box.
    judgements: Vec<Judgement>,
    only_family: Option<IpFamily>,
    asks_state: bool,
    is_per_packet: bool,
}

/// Information that packets do not contain, and the treatment of rules that depend on unknown data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enforcement {
    /// The interface by which packets enter; empty if there is none.
    pub input: Option<String>,
    /// The interface by which packets leave; empty if there is none.
    pub output: Option<String>,
    /// The interfaces of a wire's two ports, where `input` or `output` is not known: a packet comes
    /// in by that of its port and leaves by the other.
    pub ports: Option<[String; 2]>,
    /// The side of a packet on which the interface that captured it is, where `input` or `output`
    /// is not known.
    pub captured: Option<CaptureSide>,
    /// How to treat a rule that may match. `None` refuses rules that packets do not decide, such as
    /// those with a rate limit, a mark or a misspelt condition, and denies a packet that lacks what
    /// decides.
    pub assume: Option<Assume>,
}

/// A side of the host or router whose packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureSide {
    /// Packets come in by the interface that captures them.
    Input,
    /// Packets leave by it.
    Output,
}

impl Enforcement {
    /// Refuses a policy without rules, and rules that packets do not decide unless an assumption
    /// decides them.
    fn check(&self, policy: &Policy) -> Result<(), RulesError> {
        if policy.is_empty() {
            return Err(RulesError::Empty);
        }
        let knows = |name: &Option<String>, side| {
            name.is_some() || self.ports.is_some() || self.captured == Some(side)
        };
        let known = Knowledge {
            headers: true,
            state: true,
            frame: true,
            mac: true,
            input: knows(&self.input, CaptureSide::Input),
            output: knows(&self.output, CaptureSide::Output),
        };
        let missing = policy.undecidable(known);
        if self.assume.is_some() || missing.is_empty() {
            return Ok(());
        }
        Err(RulesError::undecided(policy, &missing))
    }

    /// Returns a packet with the interfaces by which it comes in and leaves, as far as they are
    /// known. A port of a wire has received it, or an interface has captured it.
    #[must_use]
    pub fn locate<'a>(
        &'a self,
        mut packet: Packet<'a>,
        port: u16,
        captured_by: InterfaceName,
    ) -> Packet<'a> {
        packet.input = packet.input.or(self.input.as_deref());
        packet.output = packet.output.or(self.output.as_deref());
        if let Some(names) = &self.ports {
            let side = usize::from(port & 1);
            packet.input = packet.input.or(Some(&names[side]));
            packet.output = packet.output.or(Some(&names[1 - side]));
        }
        match self.captured {
            Some(CaptureSide::Input) => packet.input = packet.input.or(captured_by.as_str()),
            Some(CaptureSide::Output) => packet.output = packet.output.or(captured_by.as_str()),
            None => {}
        }
        packet
    }
}

impl std::fmt::Debug for FirewallRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirewallRules")
            .field("rules", &self.count())
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

impl FirewallRules {
    /// Returns the search structures, unless the rules are searched one by one.
    #[must_use]
    pub fn matcher(&self) -> Option<&PolicyMatcher> {
        match &self.search {
            Search::Matcher(matcher) => Some(matcher),
            Search::Scan(_) => None,
        }
    }

    /// Builds the classifier of a rule set.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] when the rules exceed the builder's limits.
    pub fn build(set: RuleSet, defaults: Defaults, builder: ClassifierBuilder) -> Result<Self, BuildError> {
        let matcher = PolicyMatcher::build(Policy::from(set), builder)?;
        Ok(Self::with(Search::Matcher(Box::new(matcher)), defaults, Enforcement::default()))
    }

    /// Builds the classifier of a policy, whose rules may have conditions beyond the five fields.
    ///
    /// # Errors
    ///
    /// Returns [`RulesError::Undecided`] for rules that packets do not decide, unless `enforcement`
    /// has an assumption: a loader keeps a condition that it does not know, which may be a typing
    /// error, and an assumption would let `tcp dprot 22 drop` deny nothing. It takes for granted
    /// that each packet comes from [`describe`](super::describe()), with the state of its
    /// [`Connection`](super::Connection), as in [`Firewall`](super::Firewall). Returns
    /// [`RulesError::Empty`] for a policy without rules, such as that of a chain which the text
    /// lacks, and [`RulesError::Build`] when the boxes of the rules exceed the builder's limits.
    pub fn of_policy(
        policy: Policy,
        defaults: Defaults,
        enforcement: Enforcement,
        builder: ClassifierBuilder,
    ) -> Result<Self, RulesError> {
        Self::of_matcher(PolicyMatcher::build(policy, builder)?, defaults, enforcement)
    }

    /// Returns the rules of a matcher, which may search them with any algorithm.
    ///
    /// # Errors
    ///
    /// Returns [`RulesError::Undecided`] as [`of_policy`](Self::of_policy) does.
    pub fn of_matcher(
        matcher: PolicyMatcher,
        defaults: Defaults,
        enforcement: Enforcement,
    ) -> Result<Self, RulesError> {
        enforcement.check(matcher.policy())?;
        Ok(Self::with(Search::Matcher(Box::new(matcher)), defaults, enforcement))
    }

    /// Returns rules that are searched linearly. They are slow, and serve as the oracle of the
    /// classifier.
    #[must_use]
    pub fn scanning(set: RuleSet, defaults: Defaults) -> Self {
        Self::with(Search::Scan(Box::new(Policy::from(set))), defaults, Enforcement::default())
    }

    /// Returns the rules of a policy, searched linearly.
    ///
    /// # Errors
    ///
    /// Returns [`RulesError::Undecided`] as [`of_policy`](Self::of_policy) does.
    pub fn scanning_policy(
        policy: Policy,
        defaults: Defaults,
        enforcement: Enforcement,
    ) -> Result<Self, RulesError> {
        enforcement.check(&policy)?;
        Ok(Self::with(Search::Scan(Box::new(policy)), defaults, enforcement))
    }

    fn with(search: Search, defaults: Defaults, enforcement: Enforcement) -> Self {
        let policy = match &search {
            Search::Matcher(matcher) => matcher.policy(),
            Search::Scan(policy) => policy,
        };
        let mut verdicts = vec![defaults.unmatched; policy.sources().len() + 1];
        let mut judgements = Vec::with_capacity(policy.set().len());
        for (id, rule) in (0..).map(RuleId).zip(policy.set().rules()) {
            let verdict = match rule.action {
                Some(Action::Accept) => Verdict::Accept,
                Some(Action::Deny) => Verdict::Deny,
                None => defaults.no_action,
            };
            let number = policy.source_index(id) + 1;
            verdicts[number] = verdict;
            judgements.push(Judgement::of_rule(u32::try_from(number).unwrap_or(u32::MAX), verdict));
        }
        let (asks_state, is_per_packet) = (policy.asks_state(), policy.asks_per_packet());
        let only_family = policy.only_family();
        Self { search, defaults, enforcement, verdicts, judgements, only_family, asks_state, is_per_packet }
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        match &self.search {
            Search::Matcher(matcher) => matcher.policy(),
            Search::Scan(policy) => policy,
        }
    }

    /// Returns the boxes of the rules.
    #[must_use]
    pub fn set(&self) -> &RuleSet {
        self.policy().set()
    }

    /// Returns the number of rules in the file.
    #[must_use]
    pub fn count(&self) -> usize {
        self.verdicts.len() - 1
    }

    /// Returns whether rules depend on fields that differ among the packets of a flow, so that each
    /// packet is judged separately.
    #[inline]
    #[must_use]
    pub fn is_per_packet(&self) -> bool {
        self.is_per_packet
    }

    /// Returns whether no rule matches the address family of a flow, while rules match the other.
    #[must_use]
    pub fn is_of_other_family(&self, flow: &FlowKey) -> bool {
        self.only_family.is_some_and(|family| family != flow.family())
    }

    /// Returns whether rules match the state of connections.
    #[inline]
    #[must_use]
    pub fn asks_state(&self) -> bool {
        self.asks_state
    }

    /// Returns a box of the rule with a number, by a linear search.
    #[must_use]
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        self.id(number).and_then(|id| self.set().get(id))
    }

    /// Returns the text of the rule with a number. Of a rule with several alternatives, such as a
    /// map of verdicts, it has those that count under this number, at most eight.
    #[must_use]
    pub fn text(&self, number: u32) -> String {
        const ALTERNATIVES_MAX: usize = 8;
        let mut texts: Vec<String> = Vec::new();
        for (id, _) in (0..).zip(&self.judgements).filter(|(_, judgement)| judgement.number == number) {
            let text = self.policy().text(RuleId(id));
            if texts.contains(&text) {
                continue;
            }
            if texts.len() == ALTERNATIVES_MAX {
                texts.push(String::from("…"));
                break;
            }
            texts.push(text);
        }
        texts.join(" or ")
    }

    fn id(&self, number: u32) -> Option<RuleId> {
        let at = self.judgements.iter().position(|judgement| judgement.number == number)?;
        u32::try_from(at).ok().map(RuleId)
    }

    /// Returns the verdicts for cases that the rules do not decide.
    #[must_use]
    pub fn defaults(&self) -> Defaults {
        self.defaults
    }

    /// Returns the verdict of the rule with a number. For 0 it is the verdict of packets that no
    /// rule matches.
    #[must_use]
    pub fn verdict(&self, number: u32) -> Verdict {
        self.verdicts.get(number as usize).copied().unwrap_or(self.defaults.unmatched)
    }

    /// Judges a whole packet of which only the five-tuple is known.
    #[must_use]
    pub fn judge(&self, tuple: &FiveTuple) -> Judgement {
        self.judge_packet(Packet::new(*tuple))
    }

    /// Judges a packet by itself, which a port of a wire has received or an interface has captured.
    #[must_use]
    pub fn judge_received<'a>(
        &'a self,
        packet: Packet<'a>,
        port: u16,
        captured_by: InterfaceName,
    ) -> Judgement {
        self.judge_packet(self.locate(packet, port, captured_by))
    }

    /// Returns a packet with the interfaces by which it comes in and leaves, as far as they are
    /// known.
    #[must_use]
    pub fn locate<'a>(&'a self, packet: Packet<'a>, port: u16, captured_by: InterfaceName) -> Packet<'a> {
        self.enforcement.locate(packet, port, captured_by)
    }

    /// Returns whether rules before connection tracking leave out a packet.
    #[must_use]
    pub fn untracks(&self, packet: &Packet<'_>) -> bool {
        self.enforcement.assume.unwrap_or_default().takes(self.policy().untracks(packet))
    }

    /// Judges a packet by itself.
    #[must_use]
    pub fn judge_packet<'a>(&'a self, mut packet: Packet<'a>) -> Judgement {
        packet.input = packet.input.or(self.enforcement.input.as_deref());
        packet.output = packet.output.or(self.enforcement.output.as_deref());
        let assume = self.enforcement.assume.unwrap_or_default();
        let (found, is_open) = match &self.search {
            Search::Matcher(matcher) => matcher.find_or_open(&packet, assume),
            Search::Scan(policy) => policy.first_match_or_open(&packet, assume),
        };
        let is_undecided = is_open && self.enforcement.assume.is_none();
        if is_undecided { self.judge_open(&packet) } else { self.judgement_of(found) }
    }

    fn judgement_of(&self, found: Option<RuleId>) -> Judgement {
        let unmatched = Judgement::of_rule(0, self.defaults.unmatched);
        found.and_then(|id| self.judgements.get(id.index()).copied()).unwrap_or(unmatched)
    }

    /// Judges a packet that some rule may match: by the first rule, if the verdict is the same
    /// whether each of them matches or not.
    #[cold]
    fn judge_open(&self, packet: &Packet<'_>) -> Judgement {
        let outcomes = self.policy().outcomes(packet);
        let mut possible = outcomes.deciders.iter().map(|decider| Some(decider.rule)).collect::<Vec<_>>();
        possible.extend(outcomes.unmatched.map(|_| None));
        let mut judgements = possible.into_iter().map(|found| self.judgement_of(found));
        let Some(first) = judgements.next() else { return Judgement::UNDECIDED };
        if judgements.all(|other| other.verdict == first.verdict) { first } else { Judgement::UNDECIDED }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_classifier::PortRange;

    use super::*;

    #[test]
    fn actions_override_defaults_and_rule_numbers_follow_the_file() {
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
