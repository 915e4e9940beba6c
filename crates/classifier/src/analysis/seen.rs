//! Rules that match the same packets.

use crate::intern::Interner;
use crate::rule::{Addresses, Rule};

/// The rules seen so far, by everything that takes part in matching.
#[derive(Debug)]
pub(super) struct Seen {
    rules: Interner,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self { rules: Interner::new() }
    }

    /// Returns the first rule that is equal. If there is none, records this one as the first.
    pub(super) fn first(&mut self, rule: &Rule, id: u32) -> Option<u32> {
        let words = words(rule);
        let first = self.rules.get(&words).map(|first| first as u32);
        if first.is_none() {
            self.rules.insert(&words, u64::from(id));
        }
        first
    }
}

/// Returns what a rule matches; two rules with equal words match the same packets.
fn words(rule: &Rule) -> [u32; 13] {
    let (family, [source, destination]) = match rule.addresses {
        Addresses::Any => (0, [(0, 0); 2]),
        Addresses::V4 { source, destination } => {
            (4, [source, destination].map(|prefix| (prefix.low(), prefix.length())))
        }
        Addresses::V6 { source, destination } => {
            (6, [source, destination].map(|prefix| (prefix.low(), prefix.length())))
        }
    };
    let mut words = [0; 13];
    for (place, (address, _)) in [source, destination].into_iter().enumerate() {
        for part in 0..4 {
            words[4 * place + part] = (address >> (32 * part)) as u32;
        }
    }
    words[8] = family;
    words[9] = source.1 << 8 | destination.1;
    for (place, ports) in [rule.source_ports, rule.destination_ports].into_iter().enumerate() {
        words[10 + place] = u32::from(ports.low()) << 16 | u32::from(ports.high());
    }
    words[12] = u32::from(rule.protocol.value()) << 8 | u32::from(rule.protocol.mask());
    words
}
