//! The access lists of a file, with their entries in the order in which a device evaluates them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind};
use crate::firewall::{Chain, ChainRule, Conditions, Ranges, Target, TestKind};
use crate::rule::Action;

/// Maximum number of entries of a list that are inserted before others by their line.
const INSERTED_MAX: usize = 1 << 12;

/// The position of an entry in its list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// After all others.
    End,
    /// At a sequence number.
    Sequence(u32),
    /// Before the entry or remark that has this number, from one, at this time.
    Line(u32),
}

/// An access list.
pub(super) struct List {
    pub(super) name: String,
    /// The line that begins it.
    pub(super) line: usize,
    pub(super) is_v6: bool,
    rules: Vec<ChainRule>,
    /// The sequence number and the rule of each entry and each remark.
    order: Vec<(u32, Option<usize>)>,
    /// The sequence numbers in use.
    used: BTreeSet<u32>,
    inserted: usize,
    pub(super) errors: Vec<LoadError>,
}

impl List {
    /// Adds an entry, or a remark if there is no rule.
    pub(super) fn place(&mut self, place: Place, rule: Option<ChainRule>) -> Result<(), LoadErrorKind> {
        let last = self.used.last().copied();
        let is_remark = rule.is_none();
        let rule = rule.map(|rule| {
            self.rules.push(rule);
            self.rules.len() - 1
        });
        let sequence = match place {
            // A remark without a number takes none.
            Place::End if is_remark => last.unwrap_or(0),
            Place::End => last.map_or(10, |last| last.saturating_add(10)),
            Place::Sequence(sequence) => sequence,
            Place::Line(number) => {
                let Some(at) = number.checked_sub(1) else {
                    return Err(LoadErrorKind::Expected("the line of an entry, from 1"));
                };
                let at = usize::try_from(at).map_or(self.order.len(), |at| at.min(self.order.len()));
                self.inserted += usize::from(at < self.order.len());
                if self.inserted > INSERTED_MAX {
                    let what = "entries before others in one access list";
                    return Err(LoadErrorKind::TooMuch { what, limit: INSERTED_MAX });
                }
                let sequence = at.checked_sub(1).map_or(0, |before| self.order[before].0);
                self.order.insert(at, (sequence, rule));
                return Ok(());
            }
        };
        let is_new = is_remark && place == Place::End || self.used.insert(sequence);
        if !is_new && !is_remark && place != Place::End {
            return Err(LoadErrorKind::Refused(format!(
                "sequence number {sequence} is already in use, and a device refuses or replaces an entry \
                 then; remove one of the two entries, or give this one a number of its own"
            )));
        }
        self.order.push((sequence, rule));
        Ok(())
    }

    /// Returns the list's rules in their order, and the rules with which a device ends each list.
    pub(super) fn chain(mut self) -> Chain {
        self.order.sort_by_key(|(sequence, _)| *sequence);
        let mut rules: Vec<Option<ChainRule>> = self.rules.into_iter().map(Some).collect();
        let mut rules: Vec<ChainRule> =
            self.order.iter().filter_map(|(_, rule)| rules[(*rule)?].take()).collect();
        if self.is_v6 {
            // Neighbour solicitations and advertisements, which have the types 135 and 136.
            let mut discovery = Conditions::default();
            discovery.ask_protocol(&Ranges::exact(58));
            let codes = Ranges::new([(135 << 8, 136 << 8 | 0xff)]);
            discovery.ask(TestKind::Icmp { is_v6: true, codes });
            let target = Target::Decide { action: Action::Accept, value: 1 };
            rules.push(ChainRule::new(discovery, target, self.line));
        }
        Chain { name: self.name, rules, policy: Some((Action::Deny, 0, self.line)) }
    }

    /// Returns whether the list has no entries but perhaps remarks.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The lists of a file.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) all: Vec<List>,
}

impl Lists {
    /// Returns the index of a list; a list that is not there begins here.
    pub(super) fn begin(&mut self, name: &str, is_v6: bool, (number, line): (usize, &str)) -> usize {
        if let Some(at) = self.all.iter().position(|list| list.name == name) {
            if self.all[at].is_v6 != is_v6 {
                let message = format!(
                    "access list '{name}' is already one of the other IP version, and a device has one \
                     list of a name; rename one of the two"
                );
                self.refuse(at, (number, line), message);
            }
            return at;
        }
        self.all.push(List {
            name: name.to_owned(),
            line: number,
            is_v6,
            rules: Vec::new(),
            order: Vec::new(),
            used: BTreeSet::new(),
            inserted: 0,
            errors: Vec::new(),
        });
        self.all.len() - 1
    }

    /// Adds an error about a line to a list.
    pub(super) fn refuse(&mut self, at: usize, (number, line): (usize, &str), message: String) {
        let start = line.len() - line.trim_start().len();
        let error = LoadError::new(number, line, start, LoadErrorKind::Refused(message));
        self.all[at].errors.push(error);
    }
}
