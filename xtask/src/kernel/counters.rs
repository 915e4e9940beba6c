//! The kernel's counters per rule, by the line of the rule in the file.

use std::collections::BTreeMap;

/// Packets by line of the file.
pub(super) type Counters = BTreeMap<u64, u64>;

/// Returns the counters in the output of `iptables-save -c` of the rules that decide packets: those
/// with ACCEPT, DROP or REJECT, and the policy of FORWARD.
pub(super) fn of_iptables(file: &str, dump: &str) -> Counters {
    let decides =
        |line: &str| ["-j ACCEPT", "-j DROP", "-j REJECT"].iter().any(|target| line.contains(target));
    let rules = |text: &str| -> Vec<(u64, String, bool, u64)> {
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let (count, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
                Some((counts, line)) => (number_before_colon(counts), line),
                None => (0, line),
            };
            if let Some(rest) = line.strip_prefix("-A ") {
                let chain = rest.split(' ').next().unwrap_or_default().to_owned();
                // A comment may quote a target.
                let target = line.rsplit_once('"').map_or(line, |(_, rest)| rest);
                let is_log = line.contains("-j LOG");
                rules.push((number, chain, !is_log && decides(target), count));
            } else if let Some(rest) = line.strip_prefix(":FORWARD ") {
                let count = rest.split_once('[').map_or(0, |(_, counts)| number_before_colon(counts));
                rules.push((number, String::from(":FORWARD"), true, count));
            }
        }
        rules.sort_by(|one, other| (&one.1, one.0).cmp(&(&other.1, other.0)));
        rules
    };
    let (here, there) = (rules(file), rules(dump));
    assert_eq!(here.len(), there.len(), "the kernel has every rule of the file:\n{dump}");
    here.into_iter()
        .zip(there)
        .filter(|(rule, _)| rule.2)
        .map(|(rule, counted)| (rule.0, counted.3))
        .collect()
}

fn number_before_colon(text: &str) -> u64 {
    text.split(':').next().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Returns the counters in the output of `nft list ruleset` of the rules that decide packets.
pub(super) fn of_nft(file: &str, dump: &str) -> Counters {
    let rules = |text: &str| -> Vec<(u64, String, bool, u64)> {
        let (mut rules, mut chain) = (Vec::new(), String::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("chain ") {
                name.trim_end_matches(" {").clone_into(&mut chain);
            }
            let Some((_, rest)) = line.split_once(" counter").or_else(|| line.split_once("counter")) else {
                continue;
            };
            let count = rest
                .strip_prefix(" packets ")
                .and_then(|rest| rest.split(' ').next())
                .and_then(|digits| digits.parse().ok())
                .unwrap_or_default();
            let decides = ["accept", "drop", "reject"].iter().any(|verdict| rest.contains(verdict));
            rules.push((number, chain.clone(), decides, count));
        }
        rules.sort_by(|one, other| (&one.1, one.0).cmp(&(&other.1, other.0)));
        rules
    };
    let (here, there) = (rules(file), rules(dump));
    assert_eq!(here.len(), there.len(), "the kernel has every rule of the file:\n{dump}");
    here.into_iter()
        .zip(there)
        .filter(|(rule, _)| rule.2)
        .map(|(rule, counted)| (rule.0, counted.3))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_under_the_lines_of_the_file() {
        let file = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n-A FORWARD -j web\n\
                    -A web -m comment --comment \"a -j DROP\" -j RETURN\n-A web -j ACCEPT\nCOMMIT\n";
        let dump = "# by\n*filter\n:FORWARD DROP [3:9]\n:web - [0:0]\n[7:1] -A FORWARD -j web\n\
                    [1:1] -A web -m comment --comment \"a -j DROP\" -j RETURN\n[5:2] -A web -j ACCEPT\nCOMMIT\n";
        assert_eq!(of_iptables(file, dump), Counters::from([(2, 3), (6, 5)]));
        let file = "table inet f {\n chain c {\n  tcp dport 1 counter accept\n  counter return\n }\n}\n";
        let dump = "table inet f {\n\tchain c {\n\t\ttcp dport 1 counter packets 4 bytes 9 accept\n\
                    \t\tcounter packets 2 bytes 1 return\n\t}\n}\n";
        assert_eq!(of_nft(file, dump), Counters::from([(3, 4)]));
    }
}
