//! Counters of rules that pass packets on: jumps, LOG, RETURN, rules without a target.
//!
//! Such a rule counts the packets that reach it and meet its conditions. In a copy of the file in
//! which it accepts them instead, `classify` counts the same packets. This needs files without
//! states, because a state depends on the verdicts on earlier packets, and chains that a packet
//! passes at most once.

use std::path::Path;

use anyhow::Result;

use super::counters::Counted;
use super::{Bench, Loader};

impl Bench {
    /// Returns where `classify` counts other packets than the kernel for rules that pass them on.
    pub(super) fn passed(
        &self,
        loader: Loader,
        text: &str,
        rules: &[Counted],
        trace: &Path,
    ) -> Result<Vec<String>> {
        let copy = self.folder.join("copy");
        let mut differences = Vec::new();
        for &Counted { line, packets: kernel, .. } in rules {
            std::fs::write(&copy, accepting(loader, text, line))?;
            let classified = self.classify(loader, &copy, trace)?;
            let here = classified.counters.get(&line).copied().unwrap_or_default();
            if !classified.may_be(&Counted { line, decides: true, packets: kernel }, false) {
                let rule = text.lines().nth(line as usize - 1).unwrap_or_default().trim();
                differences.push(format!("  line {line}: kernel {kernel}, classify {here}: {rule}"));
            }
        }
        Ok(differences)
    }
}

/// Returns the rules in chains that a packet passes at most once: those to which one rule leads, in
/// the hooked chain or in a chain like that.
pub(super) fn once(loader: Loader, text: &str, rules: &[Counted]) -> Vec<Counted> {
    let mut chains = vec![String::from(if loader == Loader::Nft { "forward" } else { "FORWARD" })];
    let mut led: Vec<(String, String)> = Vec::new();
    let places = places(text);
    for (chain, line) in places.iter().filter_map(|place| place.as_ref()) {
        let words: Vec<&str> =
            line.split([' ', ',', ':']).map(str::trim).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2).filter(|pair| ["-j", "-g", "jump", "goto"].contains(&pair[0])) {
            led.push((chain.clone(), pair[1].to_owned()));
        }
    }
    let mut at = 0;
    while let Some(chain) = chains.get(at).cloned() {
        at += 1;
        for (_, to) in led.iter().filter(|(from, _)| *from == chain) {
            if led.iter().filter(|(_, other)| other == to).count() == 1 {
                chains.push(to.clone());
            }
        }
    }
    let chain_of = |rule: &&Counted| places.get(rule.line as usize - 1)?.as_ref().map(|place| &place.0);
    rules
        .iter()
        .filter(|rule| chain_of(rule).is_some_and(|chain| chains.contains(chain)))
        .copied()
        .collect()
}

/// Returns the chain and the text of each line that is a rule.
fn places(text: &str) -> Vec<Option<(String, &str)>> {
    let mut chain = None;
    text.lines()
        .map(|line| {
            if let Some(rest) = line.strip_prefix("-A ") {
                return Some((rest.split(' ').next()?.to_owned(), line));
            }
            if let Some(name) = line.trim().strip_prefix("chain ") {
                chain = Some(name.trim_end_matches(" {").to_owned());
                return None;
            }
            chain.clone().map(|chain| (chain, line))
        })
        .collect()
}

/// Returns a file in which the rule on a line accepts packets.
fn accepting(loader: Loader, text: &str, line: u64) -> String {
    let mut copy = String::with_capacity(text.len() + 16);
    for (number, rule) in (1..).zip(text.lines()) {
        if number == line {
            copy.push_str(&rule[..conditions_end(loader, rule)]);
            copy.push_str(if loader == Loader::Nft { " accept" } else { " -j ACCEPT" });
        } else {
            copy.push_str(rule);
        }
        copy.push('\n');
    }
    copy
}

/// Returns the offset at which the conditions of a rule end, and its target begins.
fn conditions_end(loader: Loader, rule: &str) -> usize {
    if loader == Loader::Nft {
        return rule.rfind("counter").map_or(rule.len(), |at| at + "counter".len());
    }
    // A comment may quote a target, and LOG is followed by a quoted prefix.
    let quoted = rule.rfind('"').unwrap_or(0);
    let target = |at: usize| [" -j ", " -g "].iter().filter_map(|word| rule[at..].find(word)).min();
    rule.rfind(" -j LOG ").or_else(|| target(quoted).map(|at| quoted + at)).unwrap_or(rule.len())
}

#[cfg(test)]
mod tests {
    use super::super::hosts::Family;
    use super::*;

    fn end(rule: &str) -> &str {
        &rule[..conditions_end(Loader::Tables(Family::V4), rule)]
    }

    #[test]
    fn rewritten_rule_accepts_the_packets_that_it_counted() {
        assert_eq!(end("-A FORWARD -p tcp -j web"), "-A FORWARD -p tcp");
        assert_eq!(end("-A web -g other"), "-A web");
        assert_eq!(end("-A web -p udp"), "-A web -p udp");
        assert_eq!(
            end("-A web -s 10.0.0.1 -j LOG --log-prefix \"a -j b: \" --log-level 7"),
            "-A web -s 10.0.0.1"
        );
        let quotes = "-A web -m comment --comment \"it's \\\"web\\\" -j DROP\"";
        assert_eq!(end(&format!("{quotes} -j RETURN")), quotes);
        let nft = "\t\ttcp dport 1 counter jump c1";
        assert_eq!(&nft[..conditions_end(Loader::Nft, nft)], "\t\ttcp dport 1 counter");
        let text = "chain forward {\n  tcp dport 1 counter jump c1\n}\n";
        assert_eq!(accepting(Loader::Nft, text, 2), "chain forward {\n  tcp dport 1 counter accept\n}\n");
    }

    #[test]
    fn chains_that_a_packet_may_pass_twice_are_left_out() {
        let text = "*filter\n:FORWARD DROP\n-A FORWARD -j one\n-A FORWARD -j two\n-A FORWARD -p tcp -g two\n\
                    -A one -j LOG\n-A one -j three\n-A two -j four\n-A three -p udp\n-A four\nCOMMIT\n";
        let all: Vec<Counted> = (3..=10).map(|line| Counted { line, decides: false, packets: 0 }).collect();
        let kept = once(Loader::Legacy(Family::V4), text, &all);
        assert_eq!(kept.iter().map(|rule| rule.line).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 9]);
    }
}
