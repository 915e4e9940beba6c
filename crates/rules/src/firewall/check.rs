//! Rules of a policy that never decide anything.

use alloc::vec::Vec;

use super::cutting::{Cutting, Left};
use super::entries::{Policy, Source};
use super::packet::Fragment;
use super::region::{Names, Variables};
use super::test::{Test, TestKind};
use crate::analysis::{Findings, Oddity, check_with};
use crate::rule::{Rule, RuleId};

impl Policy {
    /// Finds rules of the file that no packet reaches, within `steps_max` steps; a step compares
    /// two regions.
    ///
    /// A rule that may match, because it depends on data that packets do not contain, takes nothing
    /// from later rules. The policy of a chain is never reported, because it cannot be removed.
    /// `watch` receives the number of rules decided or given up.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_rules::load::iptables::{self, Options};
    /// let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\n\
    ///             -A INPUT -p tcp -j ACCEPT\n\
    ///             -A INPUT -p tcp -m tcp --syn -j DROP\n-A INPUT -j REJECT\nCOMMIT\n";
    /// let policy = iptables::load(text, &Options::default())?;
    /// let found = policy.check(1 << 20, |_| ());
    /// let odd = found.oddities[0].rule();
    /// assert_eq!((found.oddities.len(), policy.source(odd).unwrap().line), (1, 5));
    /// # Ok::<(), flowloom_rules::load::LoadErrors>(())
    /// ```
    pub fn check(&self, steps_max: u64, watch: impl FnMut(u32)) -> Findings {
        let asks_flags = |rule: &Rule| rule.flags.is_some_and(|column| column.mask != 0);
        // A mask of protocols with holes is no interval.
        let has_holes = |rule: &Rule| !rule.protocol.is_interval();
        if self.is_plain() && !self.set().rules().iter().any(|rule| asks_flags(rule) || has_holes(rule)) {
            return check_with(self.set(), steps_max, true, watch);
        }
        let mut findings = Findings::default();
        let conditions: Vec<_> = self.entries().map(|entry| entry.conditions).collect();
        let Ok(names) = Names::collect(conditions.iter().map(|conditions| &**conditions)) else {
            findings.undecided = self.len() as u32;
            return findings;
        };
        let mut cutting = Cutting::new(self, &names, &mut Variables::default(), steps_max);
        let left = cutting.left(watch);
        let boxes = self.first_boxes();
        let id = |entry: usize| boxes.get(entry).copied().flatten();
        // A rule of the file is reached if one of its entries is.
        let mut by_source: Vec<Vec<usize>> = alloc::vec![Vec::new(); self.sources().len()];
        for (index, entry) in self.entries().enumerate() {
            by_source[entry.source as usize].push(index);
        }
        // That iptables drops fragments at a rule does not make the rule reached.
        let drops = Test::from(TestKind::Fragment(Fragment::Second.bit()));
        let has_fragments: Vec<bool> =
            conditions.iter().map(|conditions| conditions.tests.contains(&drops)).collect();
        for entries in by_source.iter_mut().filter(|entries| entries.len() > 1) {
            entries.retain(|&entry| !has_fragments[entry]);
        }
        for (source, entries) in by_source.iter().enumerate() {
            let Source { is_policy, is_goto, .. } = self.sources()[source];
            let is_possible = |&entry: &usize| !conditions[entry].is_empty();
            if is_policy || is_goto && entries.iter().any(is_possible) {
                continue;
            }
            let fates = || entries.iter().map(|&entry| &left[entry]);
            if fates().any(|left| matches!(left, Left::Reached)) || entries.is_empty() {
                continue;
            }
            if fates().any(|left| matches!(left, Left::Undecided)) {
                findings.undecided += 1;
                continue;
            }
            let shown = entries.iter().copied().find(|entry| is_possible(entry)).unwrap_or(entries[0]);
            let Some(rule) = id(shown) else { continue };
            // One rule is the cause if it takes everything that each entry asks for.
            let causes: Vec<Option<usize>> = fates()
                .map(|left| match left {
                    Left::TakenBy(entry) => Some(*entry),
                    _ => None,
                })
                .collect();
            let first = causes[0].and_then(|entry| Some((entry, id(entry)?)));
            findings.oddities.push(match first {
                Some((cause, by)) if causes.iter().all(Option::is_some) => {
                    if cutting.are_alike(entries[0], cause) {
                        Oddity::Duplicate { rule, of: by }
                    } else {
                        Oddity::Shadowed { rule, by }
                    }
                }
                _ => {
                    let count = |left: &Left| match left {
                        Left::TakenByAll(count) => *count,
                        _ => 1,
                    };
                    Oddity::Unreachable { rule, rules: fates().map(count).max().unwrap_or(0) }
                }
            });
        }
        findings.oddities.sort_by_key(Oddity::rule);
        findings
    }

    /// Returns the first box of each entry; `None` for an entry that no packet can match.
    pub(super) fn first_boxes(&self) -> Vec<Option<RuleId>> {
        let mut boxes = alloc::vec![None; self.len()];
        for id in (0..self.set().len() as u32).map(RuleId) {
            boxes[self.entry_of(id)].get_or_insert(id);
        }
        boxes
    }
}
