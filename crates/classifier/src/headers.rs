//! Generated headers for classification: some that rules match, some random, some repeated.

use alloc::vec::Vec;

use crate::key::{Key, Span};
use crate::random::Random;
use crate::rule_set::{Flat, RuleSet};

/// The kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Headers per thousand with random fields instead of a rule's.
    pub random_permille: u16,
    /// Number of distinct headers, drawn with a probability of 1 / rank; `None` draws a new header
    /// for each packet.
    pub zipf_flows: Option<u32>,
}

impl Traffic {
    /// Every header matches a rule, chosen uniformly.
    pub const HITS: Self = Self { random_permille: 0, zipf_flows: None };
    /// Three in ten headers have random fields; they are misses, except for rules that match almost
    /// everything.
    pub const MISSES: Self = Self { random_permille: 300, zipf_flows: None };
    /// 16,384 flows, a few of which have most of the packets.
    pub const ZIPF: Self = Self { random_permille: 100, zipf_flows: Some(16_384) };
}

/// Returns `count` headers, which are the same for a seed on every machine.
///
/// A header that matches a rule has, in each dimension, the rule's lowest value (once in eight),
/// its highest value (once in eight), or any. Another rule may match the header first. A set
/// without rules of this family gives random headers.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::headers::{Traffic, headers};
/// use flowloom_classifier::{KeyV4, Rule, RuleSet};
/// let set = RuleSet::new(vec![Rule::ANY])?;
/// let keys: Vec<KeyV4> = headers(&set, Traffic::HITS, 100, 7);
/// assert_eq!(keys, headers(&set, Traffic::HITS, 100, 7));
/// # Ok::<(), flowloom_classifier::rule_set::TooManyRules>(())
/// ```
pub fn headers<K: Key>(rules: &RuleSet, traffic: Traffic, count: usize, seed: u64) -> Vec<K> {
    sample(&rules.flatten::<K>(), traffic, count, seed)
}

pub(crate) fn sample<K: Key>(rules: &[Flat<K>], traffic: Traffic, count: usize, seed: u64) -> Vec<K> {
    let mut random = Random::new(seed);
    let one = |random: &mut Random| {
        if rules.is_empty() || random.below(1000) < u64::from(traffic.random_permille) {
            any_key(random)
        } else {
            let rule = &rules[random.below(rules.len() as u64) as usize];
            key_in(rule, random)
        }
    };
    let Some(flows) = traffic.zipf_flows else {
        return (0..count).map(|_| one(&mut random)).collect();
    };
    let flows = (flows as usize).min(count).max(1);
    let pool: Vec<K> = (0..flows).map(|_| one(&mut random)).collect();
    // Sums of 1 / rank in integers, so that every machine has the same.
    let mut sum = 0;
    let sums: Vec<u64> = (1..=flows as u64)
        .map(|rank| {
            sum += (1 << 32) / rank;
            sum
        })
        .collect();
    (0..count)
        .map(|_| {
            let point = random.below(sum);
            pool[sums.partition_point(|&sum| sum <= point)]
        })
        .collect()
}

fn any_key<K: Key>(random: &mut Random) -> K {
    let ports = random.next();
    let protocol = match random.below(8) {
        0..=3 => 6,
        4..=5 => 17,
        6 => 1,
        _ => random.next() as u8,
    };
    K::from_fields(random.wide(), random.wide(), (ports as u16, (ports >> 16) as u16), protocol)
}

fn key_in<K: Key>(rule: &Flat<K>, random: &mut Random) -> K {
    let n = K::ADDRESS_DIMENSIONS;
    let mut point = |span: Span| match random.below(8) {
        0 => span.low,
        1 => span.high,
        _ => span.low + random.below(u64::from(span.high - span.low) + 1) as u32,
    };
    let mut address = |first: usize| {
        (first..first + n).fold(0_u128, |address, d| address << 32 | u128::from(point(rule.span(d))))
    };
    let (source, destination) = (address(0), address(n));
    let ports = (point(rule.span(2 * n)) as u16, point(rule.span(2 * n + 1)) as u16);
    let free = point(Span { low: 0, high: 255 }) as u8 & !rule.protocol.mask();
    K::from_fields(source, destination, ports, rule.protocol.value() | free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyV4, KeyV6};
    use crate::rule::{PortRange, PrefixV6, ProtocolMatch, Rule};

    #[test]
    fn generated_headers_match_a_rule_or_are_random() {
        let mut rule =
            Rule::v6(PrefixV6::new(0x2001_0db8 << 96, 33).unwrap(), PrefixV6::new(7, 128).unwrap());
        rule.destination_ports = PortRange::new(1024, 2047).unwrap();
        rule.protocol = ProtocolMatch::new(0x05, 0x0f);
        let set = RuleSet::new(vec![rule]).unwrap();
        let keys: Vec<KeyV6> = headers(&set, Traffic::HITS, 500, 1);
        assert!(keys.iter().all(|key| rule.matches(key)));
        let mixed: Vec<KeyV6> = headers(&set, Traffic::MISSES, 1000, 1);
        let hits = mixed.iter().filter(|key| rule.matches(*key)).count();
        assert!((620..=780).contains(&hits), "{hits}");
        assert_eq!(headers::<KeyV4>(&set, Traffic::HITS, 3, 1).len(), 3);
    }

    #[test]
    fn zipf_traffic_repeats_few_flows_often() {
        let set = RuleSet::new(vec![Rule::ANY]).unwrap();
        let keys: Vec<KeyV4> = headers(&set, Traffic::ZIPF, 100_000, 1);
        let mut counts = std::collections::HashMap::new();
        for key in &keys {
            *counts.entry(key).or_insert(0) += 1;
        }
        let most = counts.values().max().unwrap();
        assert!(
            counts.len() > 5_000 && *most > 8_000,
            "{} flows, {most} packets of the first",
            counts.len()
        );
    }
}
