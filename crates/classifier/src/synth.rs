//! Generated rule sets that resemble real ones, of any size.
//!
//! A [`Profile`] has statistics of sets of its kind: which prefix lengths occur together, how often
//! ports are any, one, a class or a range, which ports and protocols occur, how many distinct
//! addresses there are, and how they cluster in a few networks. Rules are drawn from these
//! statistics, none twice, and sorted so that more specific ones come first, as operators write
//! them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::random::Random;
use crate::rule::{PortRange, PrefixV4, PrefixV6, ProtocolMatch, Rule};
use crate::rule_set::{RULES_MAX, RuleSet, TooManyRules};

/// A kind of set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Access lists of routers: hosts to hosts, few receivers, one port.
    Acl,
    /// Firewalls: one side is often any, with many receivers.
    Firewall,
    /// Chains of packet filters: networks to networks, often any port.
    PacketFilter,
}

/// A value with its frequency per thousand.
type Weighted<T> = &'static [(T, u16)];

#[derive(Clone, Copy, Debug)]
enum Ports {
    Any,
    Exact,
    High,
    Low,
    Range,
}

struct Statistics {
    /// Lengths of source and destination prefix that occur together.
    pairs: Weighted<(u8, u8)>,
    /// Lengths if no pair is drawn.
    source_lengths: Weighted<u8>,
    destination_lengths: Weighted<u8>,
    /// Number of 16-bit networks in which addresses cluster, per 1,000 rules.
    networks: (u32, u32),
    /// Share of addresses that occurred before, per thousand.
    reuse: (u16, u16),
    ports: Weighted<(Ports, Ports)>,
    exact: Weighted<u16>,
    ranges: Weighted<(u16, u16)>,
    protocols: Weighted<(u8, u8)>,
}

const ACL: Statistics = Statistics {
    pairs: &[
        ((32, 32), 293),
        ((31, 32), 141),
        ((32, 31), 128),
        ((31, 31), 45),
        ((32, 30), 39),
        ((23, 32), 35),
        ((32, 22), 33),
        ((31, 22), 21),
        ((30, 32), 21),
        ((31, 23), 20),
        ((24, 31), 17),
        ((32, 24), 17),
        ((0, 0), 1),
    ],
    source_lengths: &[(22, 24), (23, 72), (24, 46), (29, 9), (30, 48), (31, 247), (32, 539), (16, 15)],
    destination_lengths: &[
        (0, 5),
        (15, 8),
        (16, 11),
        (17, 8),
        (21, 19),
        (22, 67),
        (23, 41),
        (24, 21),
        (25, 18),
        (30, 45),
        (31, 201),
        (32, 509),
    ],
    networks: (14, 36),
    reuse: (590, 925),
    ports: &[
        ((Ports::Any, Ports::Exact), 604),
        ((Ports::Any, Ports::Any), 281),
        ((Ports::Any, Ports::Range), 115),
    ],
    exact: &[
        (1521, 182),
        (1526, 56),
        (1433, 36),
        (135, 32),
        (80, 60),
        (443, 50),
        (22, 40),
        (25, 30),
        (0, 514),
    ],
    ranges: &[
        ((1600, 1649), 100),
        ((1300, 1350), 149),
        ((7500, 7599), 65),
        ((32200, 32207), 49),
        ((2200, 2210), 45),
        ((5000, 6000), 60),
    ],
    protocols: &[((6, 0xff), 873), ((0, 0), 83), ((1, 0xff), 30), ((17, 0xff), 14)],
};

const FIREWALL: Statistics = Statistics {
    pairs: &[
        ((0, 31), 188),
        ((0, 32), 146),
        ((1, 32), 111),
        ((1, 31), 70),
        ((0, 30), 55),
        ((31, 0), 47),
        ((32, 0), 38),
        ((32, 1), 29),
        ((2, 32), 27),
        ((30, 0), 22),
        ((31, 1), 20),
        ((32, 32), 60),
        ((0, 23), 40),
        ((0, 24), 40),
    ],
    source_lengths: &[
        (0, 400),
        (1, 190),
        (2, 25),
        (22, 10),
        (24, 15),
        (27, 15),
        (28, 19),
        (29, 17),
        (30, 32),
        (31, 100),
        (32, 177),
    ],
    destination_lengths: &[
        (0, 170),
        (1, 85),
        (2, 11),
        (22, 40),
        (23, 70),
        (24, 60),
        (25, 25),
        (29, 10),
        (30, 45),
        (31, 200),
        (32, 284),
    ],
    networks: (350, 700),
    reuse: (380, 250),
    ports: &[
        ((Ports::Any, Ports::Exact), 340),
        ((Ports::Any, Ports::Any), 140),
        ((Ports::Exact, Ports::Any), 60),
        ((Ports::High, Ports::High), 65),
        ((Ports::Exact, Ports::Exact), 130),
        ((Ports::Exact, Ports::High), 60),
        ((Ports::High, Ports::Exact), 130),
        ((Ports::Low, Ports::Exact), 60),
        ((Ports::High, Ports::Range), 5),
        ((Ports::Range, Ports::Any), 5),
    ],
    exact: &[
        (22, 159),
        (80, 106),
        (25, 95),
        (53, 95),
        (123, 74),
        (21, 60),
        (161, 40),
        (443, 40),
        (23, 30),
        (514, 30),
        (0, 200),
    ],
    ranges: &[((33434, 33600), 40), ((6000, 6099), 20), ((6660, 6669), 20)],
    protocols: &[((6, 0xff), 570), ((17, 0xff), 334), ((47, 0xff), 48), ((1, 0xff), 36), ((0, 0), 12)],
};

const PACKET_FILTER: Statistics = Statistics {
    pairs: &[
        ((32, 32), 70),
        ((31, 32), 38),
        ((23, 32), 33),
        ((24, 32), 27),
        ((23, 24), 25),
        ((32, 31), 25),
        ((25, 32), 20),
        ((24, 31), 19),
        ((0, 31), 19),
        ((24, 24), 18),
        ((0, 32), 16),
        ((24, 23), 16),
    ],
    source_lengths: &[
        (0, 77),
        (1, 49),
        (15, 15),
        (16, 34),
        (17, 26),
        (21, 12),
        (22, 53),
        (23, 141),
        (24, 141),
        (25, 88),
        (26, 39),
        (27, 22),
        (28, 16),
        (29, 8),
        (30, 13),
        (31, 82),
        (32, 170),
    ],
    destination_lengths: &[
        (0, 61),
        (1, 29),
        (15, 25),
        (16, 44),
        (17, 23),
        (22, 18),
        (23, 72),
        (24, 123),
        (25, 100),
        (26, 55),
        (27, 29),
        (28, 21),
        (29, 11),
        (30, 16),
        (31, 113),
        (32, 250),
    ],
    networks: (19, 34),
    reuse: (840, 700),
    ports: &[
        ((Ports::Any, Ports::Any), 369),
        ((Ports::Any, Ports::Exact), 357),
        ((Ports::Exact, Ports::Any), 165),
        ((Ports::Any, Ports::High), 60),
        ((Ports::Any, Ports::Range), 24),
        ((Ports::Range, Ports::Any), 18),
        ((Ports::Exact, Ports::Exact), 4),
        ((Ports::High, Ports::Any), 3),
    ],
    exact: &[
        (69, 192),
        (514, 177),
        (80, 118),
        (9003, 82),
        (53, 71),
        (25, 47),
        (1433, 31),
        (137, 28),
        (162, 22),
        (0, 232),
    ],
    ranges: &[((109, 110), 63), ((20, 23), 54), ((20, 21), 53), ((1645, 1646), 37), ((1812, 1813), 21)],
    protocols: &[((17, 0xff), 381), ((0, 0), 328), ((6, 0xff), 275), ((1, 0xff), 11), ((47, 0xff), 5)],
};

/// Addresses of one side.
struct Side {
    networks: Vec<u32>,
    named: Vec<u32>,
    reuse_permille: u16,
}

impl Side {
    fn new(networks: usize, reuse_permille: u16, random: &mut Random) -> Self {
        // The networks themselves lie in a few 8-bit blocks.
        let blocks: Vec<u32> =
            (0..(networks / 2).clamp(4, 200)).map(|_| random.next() as u32 & 0xff00_0000).collect();
        let networks = (0..networks)
            .map(|_| blocks[skewed(random, blocks.len())] | random.next() as u32 & 0x00ff_0000)
            .collect();
        Self { networks, named: Vec::new(), reuse_permille }
    }

    fn address(&mut self, random: &mut Random) -> u32 {
        if !self.named.is_empty() && random.below(1000) < u64::from(self.reuse_permille) {
            return self.named[skewed(random, self.named.len())];
        }
        let address = self.networks[skewed(random, self.networks.len())] | random.next() as u32 & 0xffff;
        self.named.push(address);
        address
    }
}

/// Returns an index below `len`: half of the draws fall in the first quarter.
fn skewed(random: &mut Random, len: usize) -> usize {
    let (a, b) = (random.below(len as u64), random.below(len as u64));
    (a * b / len as u64) as usize
}

fn draw<T: Copy>(table: Weighted<T>, random: &mut Random) -> T {
    let sum: u64 = table.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let mut point = random.below(sum);
    for &(value, weight) in table {
        match point.checked_sub(u64::from(weight)) {
            Some(rest) => point = rest,
            None => return value,
        }
    }
    table[0].0
}

/// Returns a set of a profile, which is the same for a seed on every machine. With `v6` each
/// address bit becomes three bits below `2001:db8::/32`, and lengths grow accordingly.
///
/// A size beyond the variety of the profile gives as many rules as possible.
///
/// # Errors
///
/// Returns [`TooManyRules`] above the maximum of a [`RuleSet`].
///
/// # Examples
///
/// ```
/// use flowloom_classifier::synth::{Profile, rules};
/// let set = rules(Profile::Acl, 1000, 7, false)?;
/// assert_eq!(set.len(), 1000);
/// assert_eq!(set, rules(Profile::Acl, 1000, 7, false)?);
/// # Ok::<(), flowloom_classifier::rule_set::TooManyRules>(())
/// ```
pub fn rules(profile: Profile, count: usize, seed: u64, v6: bool) -> Result<RuleSet, TooManyRules> {
    if count > RULES_MAX {
        return Err(TooManyRules { rules: count, rules_max: RULES_MAX });
    }
    let statistics = match profile {
        Profile::Acl => &ACL,
        Profile::Firewall => &FIREWALL,
        Profile::PacketFilter => &PACKET_FILTER,
    };
    let mut random = Random::new(seed ^ 0x5274_6c65_5365_7473);
    let networks = |per_thousand: u32| (per_thousand as usize * count / 1000).clamp(8, 60_000);
    let mut source = Side::new(networks(statistics.networks.0), statistics.reuse.0, &mut random);
    let mut destination = Side::new(networks(statistics.networks.1), statistics.reuse.1, &mut random);
    let mut seen = BTreeSet::new();
    let mut drawn: Vec<(u32, Rule)> = Vec::with_capacity(count);
    for _ in 0..count.saturating_mul(8) {
        if drawn.len() == count {
            break;
        }
        let lengths = if random.below(10) < 6 {
            draw(statistics.pairs, &mut random)
        } else {
            (
                draw(statistics.source_lengths, &mut random),
                draw(statistics.destination_lengths, &mut random),
            )
        };
        let addresses = (source.address(&mut random), destination.address(&mut random));
        let protocol = draw(statistics.protocols, &mut random);
        let classes = if matches!(protocol.0, 6 | 17) {
            draw(statistics.ports, &mut random)
        } else {
            (Ports::Any, Ports::Any)
        };
        let from = ports(classes.0, statistics, &mut random);
        let to = ports(classes.1, statistics, &mut random);
        let mut rule = if v6 {
            Rule::v6(prefix_v6(addresses.0, lengths.0), prefix_v6(addresses.1, lengths.1))
        } else {
            Rule::v4(prefix_v4(addresses.0, lengths.0), prefix_v4(addresses.1, lengths.1))
        };
        (rule.source_ports, rule.destination_ports) = (from, to);
        rule.protocol = ProtocolMatch::new(protocol.0, protocol.1);
        let identity =
            (masked(addresses.0, lengths.0), masked(addresses.1, lengths.1), lengths, from, to, protocol);
        if seen.insert(identity) {
            let ports_bits =
                |range: PortRange| 16 - (u32::from(range.high()) - u32::from(range.low()) + 1).ilog2();
            let special = u32::from(lengths.0) + u32::from(lengths.1) + ports_bits(from) + ports_bits(to);
            // A little disorder, as in lists that grew over time.
            drawn.push((special + random.below(8) as u32, rule));
        }
    }
    drawn.sort_by_key(|&(special, _)| core::cmp::Reverse(special));
    let rules =
        drawn.into_iter().enumerate().map(|(i, (_, rule))| Rule { value: i as u32, ..rule }).collect();
    RuleSet::new(rules)
}

fn ports(class: Ports, statistics: &Statistics, random: &mut Random) -> PortRange {
    let range = |low: u16, high: u16| PortRange::new(low, high).unwrap_or(PortRange::ANY);
    match class {
        Ports::Any => PortRange::ANY,
        Ports::High => range(1024, u16::MAX),
        Ports::Low => range(0, 1023),
        Ports::Exact => match draw(statistics.exact, random) {
            // The rest of the table: one of about seventy other ports.
            0 => PortRange::exact(1000 + 97 * random.below(70) as u16),
            port => PortRange::exact(port),
        },
        Ports::Range => {
            let (low, high) = draw(statistics.ranges, random);
            range(low, high)
        }
    }
}

fn masked(address: u32, length: u8) -> u32 {
    address & !u32::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

fn prefix_v4(address: u32, length: u8) -> PrefixV4 {
    PrefixV4::new(u128::from(address), u32::from(length)).unwrap_or(PrefixV4::ANY)
}

fn prefix_v6(address: u32, length: u8) -> PrefixV6 {
    let spread =
        (0..32).filter(|bit| address >> bit & 1 == 1).fold(0_u128, |sum, bit| sum | 7 << (3 * bit));
    let length = if length == 0 { 0 } else { 32 + 3 * u32::from(length) };
    PrefixV6::new(0x2001_0db8 << 96 | spread, length).unwrap_or(PrefixV6::ANY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Addresses;

    #[test]
    fn generated_sets_have_the_requested_size_and_repeat_by_seed() {
        for profile in [Profile::Acl, Profile::Firewall, Profile::PacketFilter] {
            let set = rules(profile, 3000, 1, false).unwrap();
            assert_eq!(set.len(), 3000, "{profile:?}");
            assert_eq!(set, rules(profile, 3000, 1, false).unwrap());
            assert_ne!(set, rules(profile, 3000, 2, false).unwrap());
            let six = rules(profile, 500, 1, true).unwrap();
            assert!(six.rules().iter().all(|rule| matches!(rule.addresses, Addresses::V6 { .. })));
        }
        assert!(rules(Profile::Acl, RULES_MAX + 1, 1, false).is_err());
        assert!(rules(Profile::Acl, 0, 1, false).unwrap().is_empty());
    }

    #[test]
    fn wide_prefix_contains_the_narrow_one() {
        let (inner, outer) = (0x0a01_0203, 0x0a01_0000);
        assert!(prefix_v4(outer, 16).covers(prefix_v4(inner, 32)));
        assert!(prefix_v6(outer, 16).covers(prefix_v6(inner, 32)));
        assert!(!prefix_v6(outer, 17).covers(prefix_v6(0x0a01_8000, 32)));
    }
}
