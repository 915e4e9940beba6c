//! A policy: entries in matching order, and the boxes that index them.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::boxes::boxes_of;
use flowloom_flow_key::{FiveTuple, IpFamily, protocol};

use super::conditions::{Conditions, Families, Truth};
use super::contents::NetworkBytes;
use super::hook::Hook;
use super::packet::Packet;
use super::ranges::Ranges;
use super::test::{Test, TestKind};
use crate::load::Located;
use crate::rule::{Action, Addresses, PortRange, ProtocolMatch, Rule, RuleId};
use crate::rule_set::{RuleSet, TooManyRules};

/// An entry that decides a packet, or may decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible {
    /// The rule of the set.
    pub rule: RuleId,
    /// Whether it decides.
    pub truth: Truth,
}

/// The outcome when an entry matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The packet is decided.
    Decide {
        /// The action; `None` if the file does not state one.
        action: Option<Action>,
        /// A number that the file, or the target, states.
        value: u32,
    },
    /// The entries before `to` are skipped, as with RETURN from a chain.
    Skip {
        /// Index of the next entry to evaluate; may be the number of entries.
        to: u32,
    },
}

/// A rule of a flattened policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// All its conditions.
    pub conditions: Arc<Conditions>,
    /// The outcome.
    pub outcome: Outcome,
    /// Index of the rule of the file from which it comes.
    pub source: u32,
}

/// A rule of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// First line of the rule, from one.
    pub line: usize,
    /// Its chain; empty in formats without chains.
    pub chain: Arc<str>,
    /// It is the policy of a chain, which cannot be removed.
    pub is_policy: bool,
    /// It goes to another chain, whose rules decide: its own entry only returns from there.
    pub is_goto: bool,
}

/// A part of a text that has no effect on the verdicts: a rule that decides nothing, or a chain
/// that is not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Line, from one.
    pub line: usize,
    /// The part, with the reasons.
    pub text: String,
}

impl core::fmt::Display for Note {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// Rules in matching order, with all their conditions.
///
/// # Examples
///
/// ```
/// use flowloom_rules::firewall::{Assume, Packet, PolicyMatcher};
/// use flowloom_rules::classifier::{ClassifierBuilder, FiveTuple};
/// use flowloom_rules::load::iptables;
/// let text = "*filter\n:INPUT DROP [0:0]\n\
///             -A INPUT -p tcp -m tcp --syn --dport 22 -j ACCEPT\nCOMMIT\n";
/// let policy = iptables::load(text, &iptables::Options::default())?;
/// let matcher = PolicyMatcher::build(policy, ClassifierBuilder::new())?;
/// let mut packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, 22, 6));
/// packet.tcp_flags = Some(0x10);
/// let found = matcher.find(&packet, Assume::NoMatch).expect("the chain has a policy");
/// assert_eq!(matcher.policy().source(found).map(|source| source.line), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clones share all lists, so a clone takes no memory.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    set: Arc<RuleSet>,
    /// The entry of each rule of the set; empty for a plain list, in which each rule is an entry.
    entry_of: Arc<Vec<u32>>,
    /// Whether a rule's boxes contain packets that do not meet its conditions on indexed fields, by
    /// entry.
    is_larger: Arc<Vec<bool>>,
    entries: Arc<Vec<Entry>>,
    sources: Arc<Vec<Source>>,
    notes: Arc<Vec<Note>>,
    hooks: Arc<Vec<Hook>>,
    /// For each way to the hooks, rules that deny the packets that are not tracked.
    untracked: Arc<Vec<Policy>>,
    reads_later: bool,
    /// An authentication header of IPv6 is the transport header.
    stops_at_authentication: bool,
}

impl Policy {
    /// Returns the policy of a plain list of rules, which addresses, ports, protocol and the flags
    /// column describe completely.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyRules`].
    pub fn plain(located: Vec<Located>) -> Result<Self, TooManyRules> {
        let chain: Arc<str> = Arc::from("");
        let mut sources = Vec::with_capacity(located.len());
        let mut rules = Vec::with_capacity(located.len());
        for Located { rule, line } in located {
            sources.push(Source { line, chain: Arc::clone(&chain), ..Source::default() });
            rules.push(with_conditions(rule, asks_flags(&rule)));
        }
        Ok(Self { set: Arc::new(RuleSet::new(rules)?), sources: Arc::new(sources), ..Self::default() })
    }

    /// Returns the policy of entries. Each entry names its position among `sources`.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyRules`] if the boxes of all entries exceed a set.
    ///
    /// # Panics
    ///
    /// Panics if an entry names no source, or skips backwards.
    pub fn new(entries: Vec<Entry>, sources: Vec<Source>, notes: Vec<Note>) -> Result<Self, TooManyRules> {
        let can_be_skipped = skippable(&entries);
        // Most entries are a single box.
        let mut rules = Vec::with_capacity(entries.len());
        let mut entry_of = Vec::with_capacity(entries.len());
        let mut is_larger = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            assert!((entry.source as usize) < sources.len(), "an entry has a source");
            let (action, value) = match entry.outcome {
                Outcome::Decide { action, value } => (action, value),
                Outcome::Skip { to } => {
                    assert!(to as usize > index && to as usize <= entries.len(), "skips lead forwards");
                    (None, 0)
                }
            };
            let boxes = boxes_of(&entry.conditions, Rule { value, action, ..Rule::ANY });
            let is_conditional = boxes.are_larger
                || can_be_skipped[index]
                || !entry.conditions.tests.is_empty()
                || matches!(entry.outcome, Outcome::Skip { .. });
            is_larger.push(boxes.are_larger);
            TooManyRules::check(rules.len() + boxes.rules.len())?;
            let names_ports = entry.conditions.names_ports();
            for rule in boxes.rules {
                let holds_zero = rule.source_ports.low() == 0 && rule.destination_ports.low() == 0;
                let needs_ports = names_ports && holds_zero;
                rules.push(Rule {
                    is_conditional: is_conditional || needs_ports,
                    is_certain_with_ports: needs_ports && !is_conditional,
                    ..rule
                });
                entry_of.push(index as u32);
            }
        }
        let reads_later =
            |entry: &Entry| entry.conditions.reads_later && entry.conditions.names_transport();
        Ok(Self {
            reads_later: entries.iter().any(reads_later),
            set: Arc::new(RuleSet::new(rules)?),
            entry_of: Arc::new(entry_of),
            is_larger: Arc::new(is_larger),
            entries: Arc::new(entries),
            sources: Arc::new(sources),
            notes: Arc::new(notes),
            hooks: Arc::default(),
            untracked: Arc::default(),
            stops_at_authentication: false,
        })
    }

    /// Returns the policy at the place of another one.
    pub(crate) fn in_place_of(self, other: &Self) -> Self {
        Self {
            hooks: Arc::clone(&other.hooks),
            untracked: Arc::clone(&other.untracked),
            stops_at_authentication: other.stops_at_authentication,
            ..self
        }
    }

    /// Returns the policy as `nf_tables` evaluates it: it does not look behind an authentication
    /// header of IPv6.
    #[cfg(feature = "std")]
    pub(crate) fn stopping_at_authentication(self) -> Self {
        Self { stops_at_authentication: true, ..self }
    }

    /// Returns whether an authentication header of IPv6 is the transport header.
    pub(crate) fn stops_at_authentication(&self) -> bool {
        self.stops_at_authentication
    }

    /// Returns a packet as the rules see it, which may not look behind an authentication header.
    /// Connection tracking does.
    #[must_use]
    pub fn seen<'a>(&self, packet: Packet<'a>) -> Packet<'a> {
        let Some(transport) = packet.authentication.filter(|_| self.stops_at_authentication) else {
            return packet;
        };
        let protocol = protocol::AUTHENTICATION;
        let tuple = FiveTuple { protocol, source_port: 0, destination_port: 0, ..packet.tuple };
        let network = packet.network.map(|bytes| NetworkBytes { transport, ..bytes });
        Packet { tuple, network, has_ports: false, tcp_flags: None, icmp: None, ..packet }
    }

    /// Returns the policy, to which packets come in several ways. On each way, rules deny the
    /// packets that connection tracking leaves out.
    pub(crate) fn with_untracked(self, mut ways: Vec<Self>) -> Self {
        if ways.iter().all(Self::is_empty) {
            ways.clear();
        }
        Self { untracked: Arc::new(ways), ..self }
    }

    /// Returns the rules for packets that are not tracked, one list for each way to the hooks.
    pub(crate) fn untracked(&self) -> &[Self] {
        &self.untracked
    }

    /// Returns whether rules before connection tracking leave out a packet. Its state is then
    /// [`Untracked`](super::ConnectionState::Untracked), and it belongs to no connection.
    #[must_use]
    pub fn untracks(&self, packet: &Packet<'_>) -> Truth {
        // Where packets come in, it is not known by which interface they will leave.
        let packet = Packet { output: Some(""), ..*packet };
        let mut found = None;
        for way in self.untracked.iter() {
            let outcome = way.outcomes(&way.seen(packet));
            let action = |one: &Possible| way.set().get(one.rule).and_then(|rule| rule.action);
            let denied = outcome.deciders.iter().filter(|one| action(one) == Some(Action::Deny)).count();
            let truth = match denied {
                0 => Truth::No,
                _ if denied == outcome.deciders.len() && outcome.unmatched.is_none() => Truth::Yes,
                _ => Truth::Maybe,
            };
            if *found.get_or_insert(truth) != truth {
                return Truth::Maybe;
            }
        }
        found.unwrap_or(Truth::No)
    }

    /// Returns the policy, which decides in these base chains.
    #[must_use]
    pub fn with_hooks(self, hooks: Vec<Hook>) -> Self {
        Self { hooks: Arc::new(hooks), ..self }
    }

    /// Returns the base chains in which the policy decides, in the order in which packets enter
    /// them; none if its format has no hooks.
    #[must_use]
    pub fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// Returns the boxes from which a classifier is built: one or several per entry, in the same
    /// order.
    #[must_use]
    pub fn set(&self) -> &RuleSet {
        &self.set
    }

    /// Returns the address family of all packets that rules match, if it is a single one.
    #[must_use]
    pub fn only_family(&self) -> Option<IpFamily> {
        let rules = || self.set.rules().iter().map(|rule| rule.addresses);
        let has_v4 = rules().any(|addresses| !matches!(addresses, Addresses::V6 { .. }));
        let has_v6 = rules().any(|addresses| !matches!(addresses, Addresses::V4 { .. }));
        match (has_v4, has_v6) {
            (true, false) => Some(IpFamily::V4),
            (false, true) => Some(IpFamily::V6),
            _ => None,
        }
    }

    /// Returns whether every rule is one box of the five fields, without further conditions.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether no lookup needs to test anything after the first box that matches.
    #[must_use]
    pub fn is_unconditional(&self) -> bool {
        !self.reads_later && self.set.rules().iter().all(|rule| !rule.is_conditional)
    }

    /// Returns the number of entries; for a plain list, the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.is_plain() { self.set.len() } else { self.entries.len() }
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the rules of the file in the order in which they are first evaluated; a rule's
    /// number is its index plus one.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Returns whether rules read the transport header of later fragments from their payload.
    #[must_use]
    pub fn reads_later(&self) -> bool {
        self.reads_later
    }

    /// Returns the policy for packets that are not later fragments.
    #[must_use]
    pub fn without_later_fragments(mut self) -> Self {
        if self.reads_later {
            self.reads_later = false;
            for entry in Arc::make_mut(&mut self.entries) {
                Arc::make_mut(&mut entry.conditions).read_later(false);
            }
        }
        self
    }

    /// Returns notes on rules that decide nothing, and on chains that are not judged.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns an entry. For a plain list, it is created from the rule.
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<Entry> {
        if !self.is_plain() {
            return self.entries.get(index).cloned();
        }
        let rule = self.set.rules().get(index)?;
        Some(Entry {
            conditions: Arc::new(conditions_of(rule)),
            outcome: Outcome::Decide { action: rule.action, value: rule.value },
            source: self.set.position(RuleId(index as u32)).unwrap_or(0),
        })
    }

    /// Returns all entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len()).filter_map(|index| self.entry(index))
    }

    /// Returns the index of the entry to which a box belongs.
    #[must_use]
    pub(crate) fn entry_of(&self, id: RuleId) -> usize {
        self.entry_of.get(id.index()).map_or(id.index(), |&entry| entry as usize)
    }

    /// Returns the index of the file's rule to which a box belongs.
    #[must_use]
    pub fn source_index(&self, id: RuleId) -> usize {
        match self.entries.get(self.entry_of(id)) {
            Some(entry) => entry.source as usize,
            None => self.set.position(id).unwrap_or(0) as usize,
        }
    }

    /// Returns the file's rule to which a box belongs.
    #[must_use]
    pub fn source(&self, id: RuleId) -> Option<&Source> {
        self.sources.get(self.source_index(id))
    }

    /// Returns the outcome when the rule of the set matches.
    #[inline]
    pub(super) fn outcome(&self, id: RuleId) -> Outcome {
        if let Some(entry) = self.entries.get(self.entry_of(id)) {
            return entry.outcome;
        }
        let rule = &self.set.rules()[id.index()];
        Outcome::Decide { action: rule.action, value: rule.value }
    }

    /// Returns whether a packet in the box of a rule of the set meets the rule's other conditions.
    pub(super) fn holds(&self, id: RuleId, packet: &Packet<'_>) -> Truth {
        // A router takes one off before packets come to the hook forward.
        let is_forwarded = self.hooks.first().is_some_and(|hook| hook.name == "forward");
        let packet = &Packet {
            ttl: packet.ttl.map(|ttl| ttl.saturating_sub(u8::from(is_forwarded))),
            network: packet.network.map(|bytes| NetworkBytes { is_forwarded, ..bytes }),
            ..*packet
        };
        let rule = &self.set.rules()[id.index()];
        let Some(entry) = self.entries.get(self.entry_of(id)) else {
            if !packet.has_ports && names_ports(rule) {
                return Truth::No;
            }
            return rule
                .flags
                .map_or(Truth::Yes, |column| Test::from(TestKind::Column(column)).holds(packet));
        };
        // The boxes of a later fragment that is read are those of all packets.
        if self.is_larger[self.entry_of(id)] || entry.conditions.reads_later || self.reads(packet) {
            return entry.conditions.matches(packet);
        }
        if !packet.has_ports && entry.conditions.names_ports() {
            return Truth::No;
        }
        entry.conditions.tests_hold(packet)
    }

    /// Removes the ClassBench flags column from matching.
    pub fn ignore_flags(&mut self) {
        let set = Arc::unwrap_or_clone(core::mem::take(&mut self.set));
        let without = |rule: Rule| match rule.flags {
            Some(_) => with_conditions(Rule { flags: None, ..rule }, false),
            None => rule,
        };
        self.set = Arc::new(set.map(without));
    }

    /// Returns how many rules of the file have conditions beyond the five fields.
    #[must_use]
    pub fn with_tests(&self) -> usize {
        if self.is_plain() {
            let asks = |rule: &&Rule| rule.flags.is_some_and(|column| column.mask != 0);
            return self.set.rules().iter().filter(asks).count();
        }
        let mut asks = alloc::vec![false; self.sources.len()];
        for entry in self.entries.iter() {
            asks[entry.source as usize] |= !entry.conditions.tests.is_empty();
        }
        asks.iter().filter(|&&asks| asks).count()
    }

    /// Returns the conditions of a rule's entry as text.
    #[must_use]
    pub fn text(&self, id: RuleId) -> String {
        match self.entries.get(self.entry_of(id)) {
            Some(entry) => entry.conditions.to_string(),
            None => self.set.get(id).map(ToString::to_string).unwrap_or_default(),
        }
    }
}

impl From<RuleSet> for Policy {
    /// Returns the policy of a set, whose rules keep their positions; it has no line numbers.
    fn from(set: RuleSet) -> Self {
        let sources = alloc::vec![Source::default(); set.len()];
        let set = set.map(|rule| with_conditions(rule, rule.is_conditional || asks_flags(&rule)));
        Self { set: Arc::new(set), sources: Arc::new(sources), ..Self::default() }
    }
}

/// Returns whether a rule asks for flags.
fn asks_flags(rule: &Rule) -> bool {
    rule.flags.is_some_and(|column| column.mask != 0)
}

/// Returns a rule that says whether it has conditions: those of the caller, or that a packet has
/// ports.
fn with_conditions(rule: Rule, is_conditional: bool) -> Rule {
    let needs_ports = needs_ports(&rule);
    Rule {
        is_conditional: is_conditional || needs_ports,
        is_certain_with_ports: needs_ports && !is_conditional,
        ..rule
    }
}

/// Returns whether a rule asks for ports.
fn names_ports(rule: &Rule) -> bool {
    rule.source_ports != PortRange::ANY || rule.destination_ports != PortRange::ANY
}

/// Returns whether the box of a rule that asks for ports contains packets without ports, whose key
/// has zeros there.
fn needs_ports(rule: &Rule) -> bool {
    names_ports(rule) && rule.source_ports.low() == 0 && rule.destination_ports.low() == 0
}

/// Returns the conditions of a rule of a plain list.
pub(crate) fn conditions_of(rule: &Rule) -> Conditions {
    let mut conditions = Conditions::default();
    let (is_v6, sides) = match rule.addresses {
        Addresses::Any => (false, None),
        Addresses::V4 { source, destination } => (
            false,
            Some([source, destination].map(|prefix| (prefix.length(), prefix.low(), prefix.high()))),
        ),
        Addresses::V6 { source, destination } => {
            (true, Some([source, destination].map(|prefix| (prefix.length(), prefix.low(), prefix.high()))))
        }
    };
    if let Some(sides) = sides {
        conditions.families = if is_v6 { Families::V6 } else { Families::V4 };
        for (is_destination, (length, low, high)) in [false, true].into_iter().zip(sides) {
            if length > 0 {
                conditions.ask_address(is_destination, is_v6, &Ranges::new([(low, high)]));
            }
        }
    }
    if rule.protocol != ProtocolMatch::ANY {
        let values = (0..=255_u8).filter(|&value| rule.protocol.contains(value)).map(u128::from);
        conditions.ask_protocol(&Ranges::new(values.map(|value| (value, value))));
    }
    for (is_destination, ports) in [(false, rule.source_ports), (true, rule.destination_ports)] {
        if ports != PortRange::ANY {
            let range = Ranges::new([(u128::from(ports.low()), u128::from(ports.high()))]);
            conditions.ask_port(is_destination, &range);
        }
    }
    if let Some(column) = rule.flags.filter(|column| column.mask != 0) {
        conditions.ask(TestKind::Column(column));
    }
    conditions
}

/// Returns which entries an earlier entry may skip.
fn skippable(entries: &[Entry]) -> Vec<bool> {
    /// Maximum number of pairs of entries that are compared; beyond it, an entry between the ends
    /// of a skip counts as skipped.
    const PAIRS_MAX: usize = 1 << 22;
    let mut can_be = alloc::vec![false; entries.len()];
    let mut pairs = 0_usize;
    // The end of the range that is already marked, from skips that are no longer compared.
    let mut marked = 0;
    for (index, entry) in entries.iter().enumerate() {
        if index < marked {
            can_be[index] = true;
        }
        let Outcome::Skip { to } = entry.outcome else { continue };
        let to = (to as usize).min(entries.len());
        pairs = pairs.saturating_add(to.saturating_sub(index));
        if pairs > PAIRS_MAX {
            marked = marked.max(to);
            continue;
        }
        for other in index + 1..to {
            can_be[other] = can_be[other] || !entry.conditions.and(&entries[other].conditions).is_empty();
        }
    }
    can_be
}
