//! Flattens chains that jump to chains into one list of entries.
//!
//! A jump becomes the rules of its target chain, each with the conditions of the jump. A RETURN
//! becomes an entry that skips the rest of its chain.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::conditions::{Conditions, Families};
use super::entries::{Entry, Outcome, Source};
use super::packet::Fragment;
use super::ranges::Ranges;
use super::test::{Test, TestKind};
use super::writes::{Write, Writes, Written, WrittenField, WrittenValue, after};
use crate::rule::Action;

/// The effect of a rule of a chain on matching packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// They are accepted or denied.
    Decide {
        /// The action.
        action: Action,
        /// A number for the target: 0 for DROP, 1 for ACCEPT, 2 for REJECT.
        value: u32,
    },
    /// The rules of another chain are evaluated, and then the next rule of this one.
    Jump(String),
    /// The rules of another chain are evaluated, and then the chain that jumped to this one.
    Goto(String),
    /// The chain that jumped to this one continues.
    Return,
    /// The next rule is evaluated.
    Pass,
}

/// A rule of a chain.
#[derive(Clone, Debug)]
pub struct ChainRule {
    /// Its conditions.
    pub conditions: Conditions,
    /// Its effect.
    pub target: Target,
    /// Line of the file, from one.
    pub line: usize,
    /// Number of the rule in its file. The elements of a map are separate rules here, but one rule
    /// in the file.
    pub number: usize,
    /// Fields that it writes before its target takes effect.
    pub writes: Vec<Write>,
    /// Conditions under which iptables drops a later fragment at byte 8 instead of evaluating the
    /// rule, for any target.
    pub drops_second: Option<Conditions>,
}

impl ChainRule {
    /// Returns a rule without further effects. Its number is that of its line.
    #[must_use]
    pub const fn new(conditions: Conditions, target: Target, line: usize) -> Self {
        Self { conditions, target, line, number: line, writes: Vec::new(), drops_second: None }
    }
}

/// A chain.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: Vec<ChainRule>,
    /// The action for packets that no rule decides, and its line.
    pub policy: Option<(Action, u32, usize)>,
}

/// The chains of a table.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// All chains.
    pub chains: Vec<Chain>,
    /// Families of packets that the table sees.
    pub families: Option<Families>,
}

/// The reason why chains cannot be flattened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlattenError {
    /// A jump to a chain that does not exist.
    NoChain {
        /// The chain.
        name: String,
        /// Line of the jump; 0 if the caller selected the chain.
        line: usize,
    },
    /// A chain leads back to itself.
    Loop {
        /// The chain.
        name: String,
        /// Line of the jump that closes the loop.
        line: usize,
    },
    /// Jumps nest deeper than the kernel allows.
    TooDeep {
        /// Line of the jump.
        line: usize,
        /// Maximum number of chains on a path.
        depth_max: usize,
    },
    /// There are more entries than the limit.
    TooMany {
        /// Line of the rule that exceeds it.
        line: usize,
        /// Maximum number of entries.
        entries_max: usize,
    },
}

impl fmt::Display for FlattenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoChain { name, .. } => {
                write!(f, "no chain '{name}' in this table; declare it, or correct the name")
            }
            Self::Loop { name, .. } => {
                write!(f, "chain '{name}' jumps to itself, directly or through others; remove this jump")
            }
            Self::TooDeep { depth_max, .. } => {
                write!(f, "jumps nest deeper than {depth_max} chains; flatten the chains")
            }
            Self::TooMany { entries_max, .. } => write!(
                f,
                "jumps expand to more than {entries_max} rules; raise the limit or share fewer chains"
            ),
        }
    }
}

impl FlattenError {
    /// Returns the line of the rule that the error concerns; 0 if there is none.
    #[must_use]
    pub const fn line(&self) -> usize {
        match self {
            Self::NoChain { line, .. }
            | Self::Loop { line, .. }
            | Self::TooDeep { line, .. }
            | Self::TooMany { line, .. } => *line,
        }
    }
}

impl core::error::Error for FlattenError {}

/// Maximum number of chains on a path of jumps: the kernel's limit for `nf_tables`.
const DEPTH_MAX: usize = 16;

/// The state of a flattening.
struct Flattening<'a> {
    chains: &'a [Chain],
    entries: &'a mut Vec<Entry>,
    sources: &'a mut Vec<Source>,
    /// Index of the source of each rule of each chain, once it was met; the policy follows the
    /// rules.
    met: Vec<Vec<Option<u32>>>,
    names: Vec<Arc<str>>,
    entries_max: usize,
    /// Number of visited rules. Chains of jumps alone create no entries, but must end too.
    visited: usize,
    path: Vec<usize>,
    /// Conditions under which packets have left the base chain, or a chain on the path.
    left: Vec<Vec<Arc<Conditions>>>,
    /// The writes so far.
    writes: Vec<Written>,
    /// Packets that are accepted go on to another base chain.
    goes_on: bool,
}

impl Chains {
    /// Returns the chains that a chain reaches, itself first.
    pub(crate) fn reached(&self, start: usize) -> Vec<usize> {
        let names: BTreeMap<&str, usize> =
            (0..).zip(&self.chains).map(|(index, chain)| (chain.name.as_str(), index)).collect();
        let mut seen = alloc::vec![false; self.chains.len()];
        let mut reached = Vec::from([start]);
        seen[start] = true;
        let mut next = 0;
        while let Some(&chain) = reached.get(next) {
            next += 1;
            for rule in &self.chains[chain].rules {
                let (Target::Jump(name) | Target::Goto(name)) = &rule.target else { continue };
                if let Some(&to) = names.get(name.as_str()).filter(|&&to| !seen[to]) {
                    seen[to] = true;
                    reached.push(to);
                }
            }
        }
        reached
    }

    /// Returns chains that decide whether a packet is tracked, for those that packets pass before
    /// connection tracking: they deny a packet that a rule leaves untracked.
    pub(crate) fn untracking(mut self) -> Self {
        for chain in &mut self.chains {
            chain.policy = None;
            for rule in &mut chain.rules {
                let written = rule.writes.iter().find(|write| write.field == WrittenField::State);
                rule.target = match (&rule.target, written.map(|write| &write.value)) {
                    (Target::Pass, Some(WrittenValue::State { .. })) => {
                        Target::Decide { action: Action::Deny, value: 0 }
                    }
                    // Other settings of a connection come first, or the packet goes on.
                    (Target::Pass, Some(_)) | (Target::Decide { .. }, _) => {
                        Target::Decide { action: Action::Accept, value: 1 }
                    }
                    (target, _) => target.clone(),
                };
            }
        }
        self
    }

    /// Appends the entries of a chain and of all that it jumps to.
    ///
    /// # Errors
    ///
    /// Returns [`FlattenError`].
    pub fn flatten(
        &self,
        chain: &str,
        entries_max: usize,
        entries: &mut Vec<Entry>,
        sources: &mut Vec<Source>,
    ) -> Result<(), FlattenError> {
        self.flatten_after(chain, entries_max, entries, sources, &mut Writes::default(), false)
    }

    /// Appends the entries of a base chain after some writes, and adds its own. With `goes_on`,
    /// later base chains judge the packets that this one accepts.
    pub(crate) fn flatten_after(
        &self,
        chain: &str,
        entries_max: usize,
        entries: &mut Vec<Entry>,
        sources: &mut Vec<Source>,
        writes: &mut Writes,
        goes_on: bool,
    ) -> Result<(), FlattenError> {
        let Some(start) = self.chains.iter().position(|other| other.name == chain) else {
            return Err(FlattenError::NoChain { name: String::from(chain), line: 0 });
        };
        let mut flattening = Flattening {
            chains: &self.chains,
            entries,
            sources,
            met: self.chains.iter().map(|chain| alloc::vec![None; chain.rules.len() + 1]).collect(),
            names: self.chains.iter().map(|chain| Arc::from(chain.name.as_str())).collect(),
            entries_max,
            visited: 0,
            path: Vec::new(),
            left: Vec::from([Vec::new()]),
            writes: core::mem::take(&mut writes.0),
            goes_on,
        };
        let families = self.families.unwrap_or(Families::BOTH);
        let all = Conditions { families, ..Conditions::default() };
        flattening.chain(start, &all, 0)?;
        writes.0 = core::mem::take(&mut flattening.writes);
        if let Some((action, value, line)) = self.chains[start].policy {
            let outcome = Outcome::Decide { action: Some(action), value };
            flattening.push(start, self.chains[start].rules.len(), line, Arc::new(all), outcome)?;
        }
        Ok(())
    }
}

impl Flattening<'_> {
    fn push(
        &mut self,
        chain: usize,
        rule: usize,
        line: usize,
        conditions: Arc<Conditions>,
        outcome: Outcome,
    ) -> Result<(), FlattenError> {
        if self.entries.len() >= self.entries_max {
            return Err(FlattenError::TooMany { line, entries_max: self.entries_max });
        }
        let source = self.source(chain, rule, line);
        self.entries.push(Entry { conditions, outcome, source });
        Ok(())
    }

    fn source(&mut self, chain: usize, rule: usize, line: usize) -> u32 {
        let name = Arc::clone(&self.names[chain]);
        // Several rules of a chain may come from one line, such as the elements of a map.
        if self.met[chain][rule].is_none() && rule > 0 {
            let same = self.chains[chain].rules.get(rule);
            let before = self.chains[chain].rules.get(rule - 1);
            let before = before.filter(|before| {
                same.is_some_and(|same| before.number == same.number && before.target == same.target)
            });
            self.met[chain][rule] = before.and(self.met[chain][rule - 1]);
        }
        let of_rule = self.chains[chain].rules.get(rule);
        let is_policy = of_rule.is_none();
        let is_goto = of_rule.is_some_and(|rule| matches!(rule.target, Target::Goto(_)));
        let sources = &mut *self.sources;
        *self.met[chain][rule].get_or_insert_with(|| {
            sources.push(Source { line, chain: name, is_policy, is_goto });
            sources.len() as u32 - 1
        })
    }

    /// Appends a chain's rules under the conditions of the jumps that led here.
    fn chain(&mut self, chain: usize, callers: &Conditions, line: usize) -> Result<(), FlattenError> {
        if self.path.contains(&chain) {
            return Err(FlattenError::Loop { name: self.chains[chain].name.clone(), line });
        }
        if self.path.len() == DEPTH_MAX {
            return Err(FlattenError::TooDeep { line, depth_max: DEPTH_MAX });
        }
        self.path.push(chain);
        self.left.push(Vec::new());
        let chains = self.chains;
        let mut returns = Vec::new();
        // Number of writes before the current rule of the file, and that rule.
        let mut before = (0, None);
        for (index, rule) in chains[chain].rules.iter().enumerate() {
            self.visited += 1;
            if self.visited > self.entries_max {
                return Err(FlattenError::TooMany { line: rule.line, entries_max: self.entries_max });
            }
            if before.1 != Some(rule.number) {
                before = (self.writes.len(), Some(rule.number));
            }
            let conditions = callers.and(&after(&rule.conditions, &self.writes[..before.0], callers));
            // A rule gets a number and an entry even if no packet can reach it, because numbers
            // follow the file, and the analyses report it.
            let is_empty = conditions.is_empty();
            if is_empty && self.met[chain][index].is_none() {
                let outcome = match rule.target {
                    Target::Decide { action, value } => Outcome::Decide { action: Some(action), value },
                    _ => Outcome::Skip { to: self.entries.len() as u32 + 1 },
                };
                self.push(chain, index, rule.line, Arc::new(conditions.clone()), outcome)?;
            }
            if let Some(second) = &rule.drops_second {
                let mut conditions = callers.and(&after(second, &self.writes[..before.0], callers));
                conditions.ask_protocol(&Ranges::exact(6));
                conditions.ask(TestKind::Fragment(Fragment::Second.bit()));
                if !conditions.is_empty() {
                    let outcome = Outcome::Decide { action: Some(Action::Deny), value: 0 };
                    self.push(chain, index, rule.line, Arc::new(conditions), outcome)?;
                }
            }
            if !is_empty {
                self.write(&rule.writes, &conditions);
            }
            match &rule.target {
                Target::Pass => {}
                Target::Decide { action, value } => {
                    if !is_empty {
                        let outcome = Outcome::Decide { action: Some(*action), value: *value };
                        let conditions = Arc::new(conditions);
                        if self.goes_on && *action == Action::Accept {
                            self.left[0].push(Arc::clone(&conditions));
                        }
                        self.push(chain, index, rule.line, conditions, outcome)?;
                    }
                }
                Target::Return => {
                    if !is_empty {
                        returns.push(self.entries.len());
                        let conditions = Arc::new(conditions);
                        self.leave(&conditions);
                        self.push(chain, index, rule.line, conditions, Outcome::Skip { to: 0 })?;
                    }
                }
                Target::Jump(name) | Target::Goto(name) => {
                    let Some(to) = chains.iter().position(|other| other.name == *name) else {
                        return Err(FlattenError::NoChain { name: name.clone(), line: rule.line });
                    };
                    if !is_empty {
                        self.source(chain, index, rule.line);
                        self.chain(to, &conditions, rule.line)?;
                        if matches!(rule.target, Target::Goto(_)) {
                            returns.push(self.entries.len());
                            let conditions = Arc::new(conditions);
                            self.leave(&conditions);
                            self.push(chain, index, rule.line, conditions, Outcome::Skip { to: 0 })?;
                        }
                    }
                }
            }
        }
        // A packet that returns continues after the last rule of the chain.
        let end = self.entries.len() as u32;
        for index in returns {
            self.entries[index].outcome = Outcome::Skip { to: end };
        }
        self.path.pop();
        self.left.pop();
        Ok(())
    }

    /// Remembers that packets leave the current chain.
    fn leave(&mut self, conditions: &Arc<Conditions>) {
        if let Some(left) = self.left.last_mut() {
            left.push(Arc::clone(conditions));
        }
    }

    /// Remembers what a rule writes for packets that meet its conditions and have not left.
    fn write(&mut self, writes: &[Write], conditions: &Conditions) {
        if writes.is_empty() {
            return;
        }
        let mut conditions = conditions.clone();
        let meets = |left: &&Arc<Conditions>| !conditions.and(left).is_empty();
        let left: Vec<Conditions> =
            self.left.iter().flatten().filter(meets).map(|left| (**left).clone()).collect();
        if !left.is_empty() {
            conditions.ask(Test::new(TestKind::AnyOf(left), true));
        }
        let written = |write: &Write| Written::new(write.clone(), conditions.clone());
        self.writes.extend(writes.iter().map(written));
    }
}
