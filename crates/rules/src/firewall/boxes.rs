//! Converts conditions to the boxes that a classifier cuts.

use alloc::vec::Vec;

use super::conditions::{Conditions, Families};
use super::ranges::Ranges;
use crate::rule::{Addresses, PortRange, Prefix, ProtocolMatch, Rule};

/// Maximum number of boxes from the product of several lists. A single list may have more, and is
/// indexed at any length.
const PRODUCT_MAX: usize = 4096;

/// Number of indexed fields: addresses, protocol, ports.
const FIELDS: usize = 5;

/// The boxes of a rule.
#[derive(Debug)]
pub(super) struct Boxes {
    /// Every packet that meets the conditions lies in one of them.
    pub(super) rules: Vec<Rule>,
    /// They contain packets that do not meet the conditions on indexed fields, so these must be
    /// tested again.
    pub(super) are_larger: bool,
}

/// Returns the boxes of conditions, with `rule`'s value and action. Conditions that no packet meets
/// get one box, so that the rule has a number, of a packet that does not meet them.
pub(super) fn boxes_of(conditions: &Conditions, rule: Rule) -> Boxes {
    let mut boxes = Boxes { rules: Vec::new(), are_larger: false };
    if conditions.is_empty() {
        let host = |bits| Prefix::new(0, bits).ok();
        if let Some((source, destination)) = host(32).zip(host(32)) {
            boxes.rules.push(Rule { addresses: Addresses::V4 { source, destination }, ..rule });
        }
        boxes.are_larger = true;
        return boxes;
    }
    // A rule without addresses is one box for both families.
    let has_addresses = conditions.source.is_some() || conditions.destination.is_some();
    if conditions.families == Families::BOTH && !has_addresses {
        add(conditions, rule, None, &mut boxes);
        return boxes;
    }
    for (is_asked, is_v6) in [(conditions.families.v4, false), (conditions.families.v6, true)] {
        if is_asked {
            add(conditions, rule, Some(is_v6), &mut boxes);
        }
    }
    boxes
}

fn add(conditions: &Conditions, rule: Rule, family: Option<bool>, boxes: &mut Boxes) {
    let bits = if family == Some(true) { 128 } else { 32 };
    let prefixes = |field: &Option<Ranges>| {
        field.as_ref().map_or_else(|| Vec::from([(0, 0)]), |set| set.prefixes(bits))
    };
    let protocols = conditions.protocols.as_ref().map_or_else(
        || Vec::from([ProtocolMatch::ANY]),
        |set| {
            let mask = |length: u32| 0xff_u8.checked_shl(8 - length).unwrap_or(0);
            set.prefixes(8)
                .iter()
                .map(|&(value, length)| ProtocolMatch::new(value as u8, mask(length)))
                .collect()
        },
    );
    let ports = |field: &Option<Ranges>| {
        field.as_ref().map_or_else(
            || Vec::from([PortRange::ANY]),
            |set| {
                set.as_slice()
                    .iter()
                    .filter_map(|&(a, b)| PortRange::new(a as u16, b as u16).ok())
                    .collect()
            },
        )
    };
    let (mut sources, mut destinations) = (prefixes(&conditions.source), prefixes(&conditions.destination));
    let mut protocols: Vec<ProtocolMatch> = protocols;
    let mut from: Vec<PortRange> = ports(&conditions.source_ports);
    let mut to: Vec<PortRange> = ports(&conditions.destination_ports);
    loop {
        let counts = [sources.len(), destinations.len(), protocols.len(), from.len(), to.len()];
        let product = counts.iter().fold(1_usize, |product, &count| product.saturating_mul(count));
        let longest = counts.iter().copied().max().unwrap_or(1);
        if product <= PRODUCT_MAX.max(longest) {
            break;
        }
        // The shortest list separates packets least, so a test handles it.
        let shortest = (0..FIELDS).filter(|&field| counts[field] > 1).min_by_key(|&field| counts[field]);
        boxes.are_larger = true;
        match shortest {
            Some(0) => sources = Vec::from([(0, 0)]),
            Some(1) => destinations = Vec::from([(0, 0)]),
            Some(2) => protocols = Vec::from([ProtocolMatch::ANY]),
            Some(3) => from = Vec::from([PortRange::ANY]),
            _ => to = Vec::from([PortRange::ANY]),
        }
    }
    for &source in &sources {
        for &destination in &destinations {
            let Some(addresses) = addresses(family, source, destination) else { continue };
            for &protocol in &protocols {
                for &source_ports in &from {
                    for &destination_ports in &to {
                        boxes.rules.push(Rule {
                            addresses,
                            source_ports,
                            destination_ports,
                            protocol,
                            ..rule
                        });
                    }
                }
            }
        }
    }
}

fn addresses(family: Option<bool>, source: (u128, u32), destination: (u128, u32)) -> Option<Addresses> {
    Some(match family {
        None => Addresses::Any,
        Some(false) => Addresses::V4 {
            source: Prefix::new(source.0, source.1).ok()?,
            destination: Prefix::new(destination.0, destination.1).ok()?,
        },
        Some(true) => Addresses::V6 {
            source: Prefix::new(source.0, source.1).ok()?,
            destination: Prefix::new(destination.0, destination.1).ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_indexed_and_short_ones_scanned() {
        let mut conditions = Conditions::default();
        let hosts = Ranges::new((0..5000_u128).map(|host| (2 * host, 2 * host)));
        conditions.ask_address(false, false, &hosts);
        conditions.ask_port(true, &Ranges::new([(80, 80), (443, 443)]));
        let boxes = boxes_of(&conditions, Rule::ANY);
        assert!(boxes.are_larger && boxes.rules.len() == 5000);
        conditions.source = None;
        let boxes = boxes_of(&conditions, Rule::ANY);
        assert!(!boxes.are_larger && boxes.rules.len() == 2);
    }
}
