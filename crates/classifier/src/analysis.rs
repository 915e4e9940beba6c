//! Rules of a set that never win.

mod neighbours;
mod pairs;
mod ports;
mod seen;

use alloc::vec::Vec;

use crate::key::{Key, KeyV4, KeyV6};
use crate::rule::{Addresses, Rule, RuleId};
use crate::rule_set::RuleSet;

use neighbours::Neighbours;
use pairs::Pairs;
use seen::Seen;

/// The reason why a rule never wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// It matches the same packets as an earlier rule.
    Duplicate {
        /// The rule.
        rule: RuleId,
        /// The first rule that matches the same.
        of: RuleId,
    },
    /// An earlier rule matches all packets of this rule, and more.
    Shadowed {
        /// The rule.
        rule: RuleId,
        /// The first such rule.
        by: RuleId,
    },
    /// Earlier rules together match all packets of this rule.
    Unreachable {
        /// The rule.
        rule: RuleId,
        /// Number of earlier rules that meet it, without those that never win.
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

/// The result of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// In the order of the rules.
    pub oddities: Vec<Oddity>,
    /// Rules that were not examined completely because the work reached its limit.
    pub undecided: u32,
}

/// Minimum number of steps for cutting one rule's box, if so many remain; beyond that it gets
/// at most a [`SHARE`] of the rest.
const STEPS_FOR_ONE: u64 = 1 << 16;

/// One rule gets one part in this many, so that an intricate rule leaves steps for the others.
const SHARE: u64 = 64;

/// Fewer steps are left than an examination takes.
#[derive(Clone, Copy, Debug)]
struct OutOfSteps;

/// The remaining steps.
#[derive(Debug)]
struct Steps(u64);

impl Steps {
    /// Spends this many steps; if there are fewer, spends all.
    fn take(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        let left = self.0.checked_sub(steps as u64);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(OutOfSteps)
    }

    /// Spends the steps that `work` spends, but at most this many.
    fn within<T>(&mut self, most: u64, work: impl FnOnce(&mut Self) -> T) -> T {
        let granted = self.0.min(most);
        let mut part = Self(granted);
        let done = work(&mut part);
        self.0 -= granted - part.0;
        done
    }
}

/// The state of the analysis for one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Wins,
    Never(Oddity),
    /// No single rule takes all its packets; several together may.
    Open,
    Undecided,
}

/// Finds rules that never win, within `steps_max` steps. A step compares two rules or two boxes, or
/// looks up rules with the same prefixes.
///
/// It examines rules in three ways, the cheap ones first. Duplicates are found by a hash, without
/// steps. A rule that takes all packets of another has prefixes no longer than the other's. Single
/// shadows are therefore found with one lookup per pair of prefix lengths, and, where many rules
/// share both prefixes, by blocks of ports in the same way. The same lookups find earlier rules at
/// one of two corners of a box; if there are none, the rule wins. From the boxes of the few
/// remaining rules, it cuts away what earlier rules match, until nothing is left, or a piece that
/// no earlier rule meets.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::analysis::{Oddity, check};
/// use flowloom_classifier::{Rule, RuleId, RuleSet};
/// let web: Rule = Rule::v4("10.0.0.0/8".parse()?, "192.0.2.0/24".parse()?);
/// let rules = RuleSet::new(vec![web, Rule::ANY, web])?;
/// let found = check(&rules, 1000);
/// assert_eq!(found.oddities, [Oddity::Duplicate { rule: RuleId(2), of: RuleId(0) }]);
/// assert_eq!(found.undecided, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(rules: &RuleSet, steps_max: u64) -> Findings {
    check_with(rules, steps_max, false, |_| {})
}

/// Like [`check`]; reports the number of rules decided or given up whenever it grows. If packets
/// without ports match no rule that asks for ports, port ranges alone do not cover a rule that asks
/// for none.
pub fn check_with(
    rules: &RuleSet,
    steps_max: u64,
    are_portless_apart: bool,
    mut watch: impl FnMut(u32),
) -> Findings {
    let mut steps = Steps(steps_max);
    let mut done = 0;
    let mut count = |fate: Fate| {
        if fate != Fate::Open {
            done += 1;
            watch(done);
        }
        fate
    };
    let mut fates: Vec<Fate> = first_looks(rules, &mut steps, &mut count);
    cut_the_open(rules, &mut fates, are_portless_apart, &mut steps, &mut count);
    let mut findings = Findings::default();
    for fate in fates {
        match fate {
            Fate::Never(oddity) => findings.oddities.push(oddity),
            Fate::Undecided => findings.undecided += 1,
            Fate::Wins | Fate::Open => {}
        }
    }
    findings
}

/// Finds duplicates, single shadows, and rules that no earlier rule meets at a corner.
fn first_looks(rules: &RuleSet, steps: &mut Steps, count: &mut impl FnMut(Fate) -> Fate) -> Vec<Fate> {
    let mut seen = Seen::new();
    let (mut v4, mut v6) = (Pairs::<KeyV4>::new(), Pairs::<KeyV6>::new());
    let looks = rules.rules().iter().zip(0..).map(|(rule, id)| {
        if let Some(of) = seen.first(rule, id) {
            return count(Fate::Never(Oddity::Duplicate { rule: RuleId(id), of: RuleId(of) }));
        }
        // Only rules that cover both families cover a rule of both families.
        let cover = match rule.addresses {
            Addresses::V6 { .. } => v6.cover(rules, rule, steps),
            _ => v4.cover(rules, rule, steps),
        };
        let fate = match cover {
            Err(OutOfSteps) => Fate::Undecided,
            Ok(Some(by)) => Fate::Never(Oddity::Shadowed { rule: RuleId(id), by: RuleId(by) }),
            Ok(None) => {
                let is_met = v4
                    .meets_corners(rules, rule, steps)
                    .and_then(|v4| Ok(v4 && v6.meets_corners(rules, rule, steps)?));
                match is_met {
                    Ok(true) => Fate::Open,
                    Ok(false) => Fate::Wins,
                    Err(OutOfSteps) => Fate::Undecided,
                }
            }
        };
        // A rule that another one covers takes no packets from later rules.
        if !matches!(fate, Fate::Never(_)) {
            v4.add(rules, id);
            v6.add(rules, id);
        }
        count(fate)
    });
    looks.collect()
}

/// Decides the open rules by cutting.
fn cut_the_open(
    rules: &RuleSet,
    fates: &mut [Fate],
    are_portless_apart: bool,
    steps: &mut Steps,
    count: &mut impl FnMut(Fate) -> Fate,
) {
    let Some(last) = fates.iter().rposition(|fate| *fate == Fate::Open) else { return };
    let most = (steps.0 / SHARE).max(STEPS_FOR_ONE);
    let (mut v4, mut v6) = (Neighbours::<KeyV4>::new(), Neighbours::<KeyV6>::new());
    for (id, (rule, fate)) in (0..).zip(rules.rules().iter().zip(&mut fates[..=last])) {
        if *fate == Fate::Open {
            let apart = are_portless_apart;
            let parts = steps.within(most, |steps| {
                [remains(rules, rule, &v4, apart, steps), remains(rules, rule, &v6, apart, steps)]
            });
            *fate = count(match parts {
                [Remains::Something, _] | [_, Remains::Something] => Fate::Wins,
                [Remains::Nothing(a), Remains::Nothing(b)] => {
                    Fate::Never(Oddity::Unreachable { rule: RuleId(id), rules: a + b })
                }
                _ => Fate::Undecided,
            });
        }
        if !matches!(fate, Fate::Never(_)) {
            v4.add(rule, id);
            v6.add(rule, id);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Remains {
    Nothing(u32),
    Something,
    Undecided,
}

/// Cuts what earlier rules match from a rule's box.
fn remains<K: Key>(
    rules: &RuleSet,
    rule: &Rule,
    earlier: &Neighbours<K>,
    are_portless_apart: bool,
    steps: &mut Steps,
) -> Remains {
    let spans = |rule: &Rule| {
        let mut spans = rule.spans::<K>()?;
        // "No port" is an additional value, which rules that ask for no port match too.
        for (d, ports) in
            [(K::DIMENSIONS - 3, rule.source_ports), (K::DIMENSIONS - 2, rule.destination_ports)]
        {
            if are_portless_apart && ports == crate::rule::PortRange::ANY {
                spans.as_mut()[d].high = 1 << 16;
            }
        }
        Some(spans)
    };
    let Some(whole) = spans(rule) else { return Remains::Nothing(0) };
    let Ok(near) = earlier.near(rule, steps) else { return Remains::Undecided };
    let mut cutters: Vec<K::Spans> = near
        .into_iter()
        .map(|id| &rules.rules()[id as usize])
        // Only a box without holes removes all of itself.
        .filter(|other| other.protocol.is_interval())
        .filter_map(spans)
        .filter(|cutter| meets::<K>(&whole, cutter))
        .collect();
    // The cutter that removes most goes first, because it leaves fewer pieces for the others.
    cutters.sort_by_cached_key(|cutter| core::cmp::Reverse(common::<K>(&whole, cutter)));
    // A box with holes is judged by its hull: it may wrongly count as reachable, but never as
    // unreachable. Each piece has the first cutter that it has not met. Continue with the youngest
    // piece, so that few wait and a survivor is found soon.
    let mut pieces = Vec::from([(whole, 0)]);
    let mut kept = Vec::new();
    while let Some((piece, from)) = pieces.pop() {
        let found = cutters[from..].iter().position(|cutter| meets::<K>(&piece, cutter));
        let next = found.map_or(cutters.len(), |found| from + found + 1);
        if steps.take(next - from).is_err() {
            return Remains::Undecided;
        }
        if found.is_none() {
            return Remains::Something;
        }
        subtract::<K>(piece, &cutters[next - 1], &mut kept);
        pieces.extend(kept.drain(..).map(|piece| (piece, next)));
    }
    Remains::Nothing(cutters.len() as u32)
}

fn meets<K: Key>(a: &K::Spans, b: &K::Spans) -> bool {
    a.as_ref().iter().zip(b.as_ref()).all(|(a, b)| a.low <= b.high && b.low <= a.high)
}

/// Returns the size of the part that two boxes share, as a number that orders sizes.
fn common<K: Key>(a: &K::Spans, b: &K::Spans) -> u64 {
    let widths = a.as_ref().iter().zip(b.as_ref()).map(|(a, b)| {
        let shared = a.high.min(b.high).saturating_sub(a.low.max(b.low));
        f64::from(shared) + 1.0
    });
    // The bits of positive floating-point numbers increase with them.
    widths.product::<f64>().to_bits()
}

/// Appends the rest of a box without another box that it meets: slabs on both sides of each
/// dimension.
fn subtract<K: Key>(mut piece: K::Spans, cutter: &K::Spans, kept: &mut Vec<K::Spans>) {
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
    use crate::random::Random;
    use crate::rule::{PortRange, PrefixV4, PrefixV6, ProtocolMatch};

    #[test]
    fn duplicate_shadowed_and_unreachable_rules_are_distinguished() {
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
        let mut decided = Vec::new();
        let findings = check_with(&set, 1 << 20, false, |count| decided.push(count));
        assert_eq!((findings.undecided, decided), (0, (1..=7).collect::<Vec<u32>>()));
        // Two halves that do not meet, and the part that they cover together: more steps decide
        // more rules, the last rule last.
        let three = RuleSet::new([0, 1, 4].map(|at| set.rules()[at]).to_vec()).unwrap();
        let undecided: Vec<u32> = (0..40).map(|steps| check(&three, steps).undecided).collect();
        assert!(undecided.is_sorted_by(|a, b| a >= b) && undecided[0] == 2, "{undecided:?}");
        let enough = undecided.iter().position(|&rules| rules == 0).unwrap() as u64;
        let oddities = check(&three, enough).oddities;
        assert_eq!(oddities, [Oddity::Unreachable { rule: id(2), rules: 2 }]);
    }

    #[test]
    fn duplicate_rules_take_no_search_steps() {
        let rules: Vec<Rule> = (0..1000_u128)
            .map(|i| Rule {
                value: i as u32,
                ..Rule::v4(PrefixV4::new((i % 10) << 24, 8).unwrap(), PrefixV4::ANY)
            })
            .collect();
        let findings = check(&RuleSet::new(rules).unwrap(), 0);
        // The first rule has no earlier rule to be compared with.
        assert_eq!((findings.oddities.len(), findings.undecided), (990, 9));
        assert!(findings.oddities.iter().all(|oddity| match *oddity {
            Oddity::Duplicate { rule, of } => of.0 == rule.0 % 10,
            _ => false,
        }));
    }

    #[test]
    fn many_rules_are_decided_within_few_steps() {
        let rules: Vec<Rule> = (0..20_000_u128)
            .map(|i| Rule {
                destination_ports: PortRange::exact((i % 7) as u16),
                ..Rule::v4(PrefixV4::new(i << 8, 24).unwrap(), PrefixV4::ANY)
            })
            .collect();
        assert_eq!(check(&RuleSet::new(rules).unwrap(), 100_000), Findings::default());
    }

    #[test]
    fn rules_that_differ_in_ports_only_are_decided_within_few_steps() {
        let rules: Vec<Rule> = (0..20_000_u32)
            .map(|i| Rule {
                source_ports: PortRange::exact((i / 200) as u16),
                destination_ports: PortRange::new((i % 200 * 4) as u16, (i % 200 * 4 + 3) as u16).unwrap(),
                ..Rule::ANY
            })
            .collect();
        assert_eq!(check(&RuleSet::new(rules).unwrap(), 1_000_000), Findings::default());
    }

    /// A rule over few values: addresses differ in two bits, ports in two, and the protocol in two.
    fn small(random: &mut Random) -> Rule {
        let mut prefix = |bits: u32| {
            let length = random.below(3) as u32;
            (u128::from(random.below(4)) << (bits - 2), length)
        };
        let v4 = [prefix(32), prefix(32)].map(|(address, length)| PrefixV4::new(address, length).unwrap());
        let v6 =
            [prefix(128), prefix(128)].map(|(address, length)| PrefixV6::new(address, length).unwrap());
        let mut ports = || {
            let (a, b) = (random.below(4) as u16, random.below(4) as u16);
            PortRange::new(a.min(b) << 14, a.max(b) << 14 | 0x3fff).unwrap()
        };
        let (source_ports, destination_ports) = (ports(), ports());
        let addresses = match random.below(8) {
            0 => Addresses::Any,
            1..4 => Addresses::V6 { source: v6[0], destination: v6[1] },
            _ => Addresses::V4 { source: v4[0], destination: v4[1] },
        };
        let protocol = ProtocolMatch::new(random.below(4) as u8, random.below(4) as u8 | 0xfc);
        Rule { addresses, source_ports, destination_ports, protocol, ..Rule::ANY }
    }

    /// Determines for each rule whether some packet matches it first, by trying all packets that
    /// such rules distinguish.
    fn winners<K: Key>(rules: &RuleSet, wins: &mut [bool]) {
        for packet in 0..1_u32 << 10 {
            let field = |place: u32| u128::from(packet >> (2 * place) & 3);
            let address = |place: u32| field(place) << (K::ADDRESS_BITS - 2);
            let port = |place: u32| (field(place) as u16) << 14;
            let key = K::from_fields(address(0), address(1), (port(2), port(3)), field(4) as u8);
            if let Some(first) = rules.first_match(&key).rule() {
                wins[first.index()] = true;
            }
        }
    }

    #[test]
    fn check_of_small_sets_agrees_with_all_packets() {
        let mut unreachable = 0;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            // In one of three sets, rules differ only in ports and protocol.
            let (same_addresses, count) =
                (seed % 3 == 0, 1 + random.below(if seed % 3 == 0 { 120 } else { 40 }));
            let mut one = || {
                let rule = small(&mut random);
                if same_addresses { Rule { addresses: Addresses::Any, ..rule } } else { rule }
            };
            let rules = RuleSet::new((0..count).map(|_| one()).collect()).unwrap();
            let mut wins = alloc::vec![false; rules.len()];
            winners::<KeyV4>(&rules, &mut wins);
            winners::<KeyV6>(&rules, &mut wins);
            let findings = check(&rules, 1 << 20);
            assert_eq!(findings.undecided, 0, "seed {seed}");
            let mut oddities = findings.oddities.into_iter().peekable();
            for (rule, id) in rules.rules().iter().zip(0..) {
                let earlier = &rules.rules()[..id as usize];
                let first = |is: &dyn Fn(&Rule) -> bool| {
                    earlier.iter().position(is).map(|first| RuleId(first as u32))
                };
                let found = oddities.next_if(|oddity| oddity.rule().0 == id);
                let rule_id = RuleId(id);
                if let Some(of) = first(&|other| other.covers(rule) && rule.covers(other)) {
                    assert_eq!(found, Some(Oddity::Duplicate { rule: rule_id, of }), "seed {seed}");
                } else if let Some(by) = first(&|other| other.covers(rule)) {
                    assert_eq!(found, Some(Oddity::Shadowed { rule: rule_id, by }), "seed {seed}");
                } else {
                    let is_unreachable = matches!(found, Some(Oddity::Unreachable { .. }));
                    // A mask with holes is represented by its hull, both as a rule and as an
                    // obstacle.
                    let is_exact = rule.protocol.is_interval()
                        && earlier.iter().all(|other| other.protocol.is_interval());
                    assert!(!is_unreachable || !wins[id as usize], "seed {seed}, rule {id}");
                    assert!(!is_exact || is_unreachable || wins[id as usize], "seed {seed}, rule {id}");
                    unreachable += u32::from(is_unreachable);
                }
            }
        }
        assert!(unreachable > 100, "{unreachable} rules were cut away");
    }
}
