//! Removing rules without effect from a policy.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::cutting::{Cutting, Left};
use super::entries::{Entry, Outcome, Policy};
use super::region::{Names, TooMuch, Variables};
use super::witness_search::{Fate, Layer, first_not_covered};
use crate::rule_set::TooManyRules;

/// The reason why a rule was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// No packet reaches it.
    Unreached,
    /// Later rules decide all its packets in the same way.
    Redundant,
}

/// A policy that decides every packet like another one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Minimised {
    /// The policy. Its rules keep their line numbers.
    pub policy: Policy,
    /// Indices of the removed rules of the file, and the reasons.
    pub left_out: Vec<(usize, LeftOut)>,
    /// Entries that were kept because the work reached its limit.
    pub undecided: u32,
}

impl Policy {
    /// Returns the policy without rules that no packet reaches, and without rules whose packets
    /// later rules decide in the same way, within `steps_max` steps. No verdict changes, regardless
    /// of the outcome of rules that may match.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyRules`], as for any policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_rules::load::{LoadLimits, toml};
    /// let rule = |source: &str, action: &str| {
    ///     format!("[[rule]]\nsource = '{source}'\naction = '{action}'\n")
    /// };
    /// let [first, second] = [rule("10.1.0.0/16", "deny"), rule("10.1.2.0/24", "accept")];
    /// let text = first + &second + &rule("10.0.0.0/8", "deny");
    /// let policy = toml::load(&text, LoadLimits::default())?;
    /// let smaller = policy.minimised(1 << 20)?;
    /// assert_eq!((smaller.policy.len(), smaller.left_out.len()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn minimised(&self, steps_max: u64) -> Result<Minimised, TooManyRules> {
        let entries: Vec<Entry> = self.entries().collect();
        let mut keep = alloc::vec![true; entries.len()];
        let mut why = alloc::vec![LeftOut::Unreached; entries.len()];
        let mut undecided = 0;
        if let Ok(names) = Names::collect(entries.iter().map(|entry| &*entry.conditions)) {
            let mut cutting = Cutting::new(self, &names, &mut Variables::default(), steps_max);
            let left = cutting.left(|_| ());
            let mut steps = steps_max;
            for index in (0..entries.len()).rev() {
                match &left[index] {
                    Left::TakenBy(_) | Left::TakenByAll(_) => keep[index] = false,
                    Left::Undecided => undecided += 1,
                    Left::Reached => {
                        match self.is_redundant(&entries, &cutting, &keep, index, &mut steps) {
                            Ok(false) => {}
                            Ok(true) => {
                                keep[index] = false;
                                why[index] = LeftOut::Redundant;
                            }
                            Err(TooMuch) => undecided += 1,
                        }
                    }
                }
            }
        } else {
            undecided = entries.len() as u32;
        }
        self.without_entries(&entries, &keep, &why, undecided)
    }

    /// Returns whether the later entries decide all packets that reach one as it does.
    fn is_redundant(
        &self,
        entries: &[Entry],
        cutting: &Cutting,
        keep: &[bool],
        index: usize,
        steps: &mut u64,
    ) -> Result<bool, TooMuch> {
        let Outcome::Decide { action: Some(action), value } = entries[index].outcome else {
            // A skip over no kept entry.
            if let Outcome::Skip { to } = entries[index].outcome {
                return Ok(!keep[index + 1..to as usize].contains(&true));
            }
            return Ok(false);
        };
        if self.sources()[entries[index].source as usize].is_policy {
            return Ok(false);
        }
        // The firewall targets DROP and REJECT both deny, but differ for the sender.
        let has_targets = !self.sources()[entries[index].source as usize].chain.is_empty();
        let fate = |entry: usize| match cutting.entries[entry].outcome {
            _ if entry < index => Fate::Covered,
            Outcome::Decide { action: Some(other_action), value: other_value }
                if other_action == action && (!has_targets || other_value == value) =>
            {
                Fate::Covered
            }
            Outcome::Decide { .. } | Outcome::Skip { .. } => Fate::Free,
        };
        // An entry that is not expressed as regions may meet every packet.
        let unknown =
            cutting.without_regions.iter().copied().filter(|&entry| entry > index && keep[entry]).min();
        let (end, last) = unknown.map_or((entries.len(), Fate::Free), |entry| (entry, Fate::Unknown));
        let own = cutting.taken(index);
        let mut layers = Vec::new();
        for entry in cutting.near(own) {
            if entry >= end {
                break;
            }
            let regions = match entry.cmp(&index) {
                Ordering::Less => cutting.taken(entry),
                Ordering::Greater if keep[entry] => cutting.entries[entry].regions(),
                _ => continue,
            };
            *steps = steps.checked_sub((own.len() * regions.len()) as u64).ok_or(TooMuch)?;
            let fate = fate(entry);
            let meeting = regions.iter().filter(|region| own.iter().any(|piece| piece.meets(region)));
            layers.extend(meeting.map(|region| Layer { region, fate }));
        }
        for piece in own {
            match first_not_covered(piece.clone(), layers.clone(), last, steps)? {
                None | Some(Fate::Covered) => {}
                Some(Fate::Free) => return Ok(false),
                Some(Fate::Unknown) => return Err(TooMuch),
            }
        }
        Ok(true)
    }

    fn without_entries(
        &self,
        entries: &[Entry],
        keep: &[bool],
        why: &[LeftOut],
        undecided: u32,
    ) -> Result<Minimised, TooManyRules> {
        // The new index of each entry; a skip leads to the next kept entry.
        let mut places = Vec::with_capacity(entries.len() + 1);
        let mut next = 0;
        for &kept in keep {
            places.push(next);
            next += u32::from(kept);
        }
        places.push(next);
        let mut is_used = alloc::vec![None; self.sources().len()];
        let mut sources = Vec::new();
        let mut kept = Vec::new();
        for (mut entry, _) in entries.iter().cloned().zip(keep).filter(|(_, kept)| **kept) {
            let source = entry.source as usize;
            entry.source = *is_used[source].get_or_insert_with(|| {
                sources.push(self.sources()[source].clone());
                sources.len() as u32 - 1
            });
            if let Outcome::Skip { to } = &mut entry.outcome {
                *to = places[*to as usize];
            }
            kept.push(entry);
        }
        let mut left_out: Vec<(usize, LeftOut)> = entries
            .iter()
            .zip(why)
            .map(|(entry, why)| (entry.source as usize, *why))
            .filter(|&(source, _)| is_used[source].is_none() && !self.sources()[source].is_goto)
            .collect();
        // A rule of which an entry is redundant is redundant, even if others are never reached.
        left_out.sort_by_key(|&(source, why)| (source, why == LeftOut::Unreached));
        left_out.dedup_by_key(|(source, _)| *source);
        let policy = Self::new(kept, sources, self.notes().to_vec())?.in_place_of(self);
        Ok(Minimised { policy, left_out, undecided })
    }
}
