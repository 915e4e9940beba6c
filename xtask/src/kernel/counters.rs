//! The kernel's counters per rule, by the line of the rule in the file.

use std::collections::BTreeMap;

/// Packets by line of the file.
pub(super) type Counters = BTreeMap<u64, u64>;

/// A rule of a file or of a dump: its line, its chain, whether it decides, and its count.
type Rule = (u64, String, bool, u64);

/// The kernel's counter of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    /// The line of the rule in the file.
    pub(super) line: u64,
    /// Whether the rule decides the packets that it counts: it accepts, drops or rejects them.
    pub(super) decides: bool,
    pub(super) packets: u64,
}

/// Returns the counters in the output of `iptables-save -c` of all rules, and of the policy of
/// FORWARD.
pub(super) fn of_iptables(file: &str, dump: &str) -> Vec<Counted> {
    let decides =
        |line: &str| ["-j ACCEPT", "-j DROP", "-j REJECT"].iter().any(|target| line.contains(target));
    let rules = |text: &str| -> Vec<Rule> {
        let mut rules = Vec::new();
        // The dump has the table filter only.
        let filter = text.find("*filter").unwrap_or(0);
        let before = text[..filter].lines().count();
        for (number, line) in (1..).zip(text.lines()).skip(before) {
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
    joined(rules(file), rules(dump), dump)
}

/// Joins the rules of a file with the counts of the same rules in a dump.
fn joined(file: Vec<Rule>, kernel: Vec<Rule>, dump: &str) -> Vec<Counted> {
    assert_eq!(file.len(), kernel.len(), "the kernel has every rule of the file:\n{dump}");
    let both = file.into_iter().zip(kernel);
    both.map(|(rule, counted)| Counted { line: rule.0, decides: rule.2, packets: counted.3 }).collect()
}

fn number_before_colon(text: &str) -> u64 {
    text.split(':').next().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Returns the counters in the output of `nft list ruleset` of all rules that have one. A rule's
/// comment names it, because commands insert, replace and delete rules.
pub(super) fn of_nft(file: &str, dump: &str) -> Vec<Counted> {
    let rules = |text: &str| -> Vec<Rule> {
        let mut rules = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let name = line.split_once("comment \"").map_or("", |(_, name)| name.trim_end_matches('"'));
            let Some((_, rest)) = line.split_once(" counter").or_else(|| line.split_once("counter")) else {
                continue;
            };
            let count = rest
                .strip_prefix(" packets ")
                .and_then(|rest| rest.split(' ').next())
                .and_then(|digits| digits.parse().ok())
                .unwrap_or_default();
            let decides = ["accept", "drop", "reject"].iter().any(|verdict| rest.contains(verdict));
            rules.push((number, name.to_owned(), decides, count));
        }
        rules.sort_by(|one, other| (&one.1, one.0).cmp(&(&other.1, other.0)));
        rules
    };
    let counted = rules(dump);
    let is_there = |rule: &Rule| counted.iter().any(|other| other.1 == rule.1);
    joined(rules(file).into_iter().filter(is_there).collect(), counted, dump)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_counters_are_assigned_to_lines_of_the_file() {
        let file = "*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\n-A FORWARD -j web\n\
                    -A web -m comment --comment \"a -j DROP\" -j RETURN\n-A web -j ACCEPT\nCOMMIT\n";
        let dump = "# by\n*filter\n:FORWARD DROP [3:9]\n:web - [0:0]\n[7:1] -A FORWARD -j web\n\
                    [1:1] -A web -m comment --comment \"a -j DROP\" -j RETURN\n[5:2] -A web -j ACCEPT\nCOMMIT\n";
        let counted = |list: &[Counted]| -> Vec<_> {
            list.iter().map(|rule| (rule.line, rule.decides, rule.packets)).collect()
        };
        assert_eq!(
            counted(&of_iptables(file, dump)),
            [(2, true, 3), (4, false, 7), (5, false, 1), (6, true, 5)]
        );
        let file = "table inet f {\n chain c {\n  tcp dport 1 counter accept\n  counter return\n }\n}\n";
        let dump = "table inet f {\n\tchain c {\n\t\ttcp dport 1 counter packets 4 bytes 9 accept\n\
                    \t\tcounter packets 2 bytes 1 return\n\t}\n}\n";
        assert_eq!(counted(&of_nft(file, dump)), [(3, true, 4), (4, false, 2)]);
    }
}
