//! What is odd about a rule set: rules that never win.

use alloc::vec::Vec;

use crate::key::{Key, KeyV4, KeyV6};
use crate::rule::{Rule, RuleId};
use crate::rule_set::RuleSet;

/// Why a rule never wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// It matches the same packets as an earlier rule.
    Duplicate {
        /// The rule.
        rule: RuleId,
        /// The first rule that matches the same.
        of: RuleId,
    },
    /// An earlier rule matches all it matches, and more.
    Shadowed {
        /// The rule.
        rule: RuleId,
        /// The first such rule.
        by: RuleId,
    },
    /// Earlier rules match all it matches, together.
    Unreachable {
        /// The rule.
        rule: RuleId,
        /// Earlier rules that it meets.
        rules: u32,
    },
}

impl Oddity {
    /// Returns the rule that never wins.
    pub fn rule(&self) -> RuleId {
        match *self {
            Self::Duplicate { rule, .. } | Self::Shadowed { rule, .. } | Self::Unreachable { rule, .. } => {
                rule
            }
        }
    }
}

/// What [`check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// In the order of the rules.
    pub oddities: Vec<Oddity>,
    /// Rules that were not examined, or not to the end, because the work reached its limit.
    pub undecided: u32,
}

/// Boxes that remain of one rule, at most, before it is left undecided.
const PIECES_MAX: usize = 4096;

/// Looks for rules that never win, within so many steps; a step compares two boxes.
///
/// Duplicates and single shadows are found by comparing each rule with all before it, unreachable ones by cutting away from a rule's
/// box what earlier rules match, until nothing is left or the remainder is in too many pieces to decide.
pub fn check(rules: &RuleSet, steps_max: u64) -> Findings {
    let mut findings = Findings::default();
    let mut steps = steps_max;
    for (index, rule) in rules.rules().iter().enumerate() {
        let id = RuleId(index as u32);
        let earlier = &rules.rules()[..index];
        let Some(left) = steps.checked_sub(index as u64) else {
            findings.undecided += 1;
            continue;
        };
        steps = left;
        if let Some(first) = earlier.iter().position(|other| other.covers(rule)) {
            let other = RuleId(first as u32);
            findings.oddities.push(if rule.covers(&earlier[first]) {
                Oddity::Duplicate { rule: id, of: other }
            } else {
                Oddity::Shadowed { rule: id, by: other }
            });
            continue;
        }
        let v4 = remains::<KeyV4>(rule, earlier, &mut steps);
        let v6 = remains::<KeyV6>(rule, earlier, &mut steps);
        match (v4, v6) {
            (Remains::Nothing(a), Remains::Nothing(b)) => {
                findings.oddities.push(Oddity::Unreachable { rule: id, rules: a + b });
            }
            (Remains::Undecided, Remains::Undecided | Remains::Nothing(_))
            | (Remains::Nothing(_), Remains::Undecided) => findings.undecided += 1,
            _ => {}
        }
    }
    findings
}

enum Remains {
    Nothing(u32),
    Something,
    Undecided,
}

/// Cuts from a rule's box what earlier rules match.
fn remains<K: Key>(rule: &Rule, earlier: &[Rule], steps: &mut u64) -> Remains {
    let Some(whole) = rule.spans::<K>() else { return Remains::Nothing(0) };
    // A box with holes is judged by its hull: then it may be reached where we say so, and is never called unreachable wrongly.
    let mut pieces = Vec::from([whole]);
    let mut met = 0;
    for other in earlier {
        // Only a box without holes takes away all of itself.
        if !other.protocol.is_interval() {
            continue;
        }
        let Some(cutter) = other.spans::<K>() else { continue };
        if !meets::<K>(&whole, &cutter) {
            continue;
        }
        met += 1;
        let Some(left) = steps.checked_sub(pieces.len() as u64) else { return Remains::Undecided };
        *steps = left;
        let mut kept = Vec::with_capacity(pieces.len());
        for piece in pieces {
            subtract::<K>(piece, &cutter, &mut kept);
        }
        if kept.is_empty() {
            return Remains::Nothing(met);
        }
        if kept.len() > PIECES_MAX {
            return Remains::Undecided;
        }
        pieces = kept;
    }
    Remains::Something
}

fn meets<K: Key>(a: &K::Spans, b: &K::Spans) -> bool {
    a.as_ref().iter().zip(b.as_ref()).all(|(a, b)| a.low <= b.high && b.low <= a.high)
}

/// Appends what is left of a box without another: slabs on both sides of each dimension.
fn subtract<K: Key>(mut piece: K::Spans, cutter: &K::Spans, kept: &mut Vec<K::Spans>) {
    if !meets::<K>(&piece, cutter) {
        kept.push(piece);
        return;
    }
    for d in 0..K::DIMENSIONS {
        let (span, cut) = (piece.as_ref()[d], cutter.as_ref()[d]);
        if span.low < cut.low {
            let mut below = piece;
            below.as_mut()[d].high = cut.low - 1;
            kept.push(below);
            piece.as_mut()[d].low = cut.low;
        }
        if cut.high < span.high {
            let mut above = piece;
            above.as_mut()[d].low = cut.high + 1;
            kept.push(above);
            piece.as_mut()[d].high = cut.high;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{PortRange, PrefixV4};

    #[test]
    fn duplicates_shadows_and_unreachable_rules_are_told_apart() {
        let net =
            |address: u128, length: u32| Rule::v4(PrefixV4::new(address, length).unwrap(), PrefixV4::ANY);
        let ports = |low: u16, high: u16| Rule {
            destination_ports: PortRange::new(low, high).unwrap(),
            ..net(0x0a00_0000, 8)
        };
        let rules = alloc::vec![
            ports(0, 100),        // 0
            ports(101, u16::MAX), // 1
            ports(0, 100),        // 2: like 0
            ports(5, 10),         // 3: inside 0
            net(0x0a05_0000, 16), // 4: inside 0 and 1 together
            net(0x0b00_0000, 16), // 5: free
            Rule::ANY,            // 6: both families, free
        ];
        let set = RuleSet::new(rules).unwrap();
        let id = RuleId;
        assert_eq!(
            check(&set, 1 << 20).oddities,
            [
                Oddity::Duplicate { rule: id(2), of: id(0) },
                Oddity::Shadowed { rule: id(3), by: id(0) },
                Oddity::Unreachable { rule: id(4), rules: 2 },
            ]
        );
        assert!(check(&set, 3).undecided > 0);
        // Two halves that do not meet, and what they cover together: three comparisons, and a piece for each half.
        let three = RuleSet::new([0, 1, 4].map(|at| set.rules()[at]).to_vec()).unwrap();
        let undecided: Vec<u32> = (0..6).map(|steps| check(&three, steps).undecided).collect();
        assert_eq!(undecided, [2, 1, 1, 1, 1, 0]);
        let oddities = check(&three, 5).oddities;
        assert_eq!(oddities, [Oddity::Unreachable { rule: id(2), rules: 2 }]);
    }
}
