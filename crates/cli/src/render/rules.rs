//! The results of `rules`.

use std::fmt;

use flowloom::classifier::classifier::FamilyStats;
use flowloom::classifier::{KeyV4, KeyV6};
use flowloom::rules::firewall::PolicyMatcher;
use schemars::JsonSchema;
use serde::Serialize;

use super::words::{rule_forms, verdicts};
use super::{Report, bytes, counted, grouped};

/// A rule in a list.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct RuleLine {
    /// Position among the rules of the file, starting at one.
    pub(crate) number: u64,
    /// Line in which it begins, starting at one.
    pub(crate) line: u64,
    /// The rule: addresses, ports, protocol and mask.
    pub(crate) rule: String,
    /// Its action for packets, if it states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = verdicts()))]
    pub(crate) action: Option<&'static str>,
    /// Its chain, if its format has chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chain: Option<String>,
}

impl fmt::Display for RuleLine {
    /// Writes `#5 accept 10.0.0.0/8 …`, or `#5 (line 12) …` if the fifth rule is not on the fifth
    /// line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, line, rule, action, chain } = self;
        write!(f, "#{number} ")?;
        if line != number {
            write!(f, "(line {line}) ")?;
        }
        if let Some(chain) = chain {
            write!(f, "[{chain}] ")?;
        }
        match action {
            Some(action) => write!(f, "{action} {rule}"),
            None => write!(f, "{rule}"),
        }
    }
}

/// A rule that never wins.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct OddityResult {
    /// The reason.
    #[schemars(extend("enum" = ["duplicate", "shadowed", "unreachable"]))]
    pub(crate) kind: &'static str,
    /// The rule.
    pub(crate) rule: RuleLine,
    /// The earlier rule; null if there are several.
    pub(crate) by: Option<RuleLine>,
    /// Earlier rules that match all of its packets; 0 if no packet meets its conditions.
    pub(crate) rules: u64,
}

impl OddityResult {
    /// Returns why the rule never wins: a label, and the cause.
    fn cause(&self) -> (&'static str, String) {
        let Some(by) = &self.by else {
            let (label, text) = match (self.rules, &self.rule.chain) {
                (0, Some(_)) => {
                    ("because", "no packet meets its conditions and those of the jumps that lead to it")
                }
                (0, None) => ("because", "its conditions contradict each other"),
                (1, _) => ("by", "an earlier rule, another one for each jump that leads to it"),
                (rules, _) => return ("by", format!("{} earlier rules together", grouped(rules))),
            };
            return (label, String::from(text));
        };
        let label = match self.kind {
            _ if self.rule.action.is_some() && by.action.is_some() && self.rule.action != by.action => {
                "opposed by"
            }
            "duplicate" => "of",
            _ => "by",
        };
        (label, by.to_string())
    }
}

/// Rules that never win.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct CheckResult {
    pub(crate) schema: &'static str,
    /// File of the rules.
    pub(crate) path: String,
    /// Format of the rule file.
    #[schemars(extend("enum" = rule_forms()))]
    pub(crate) form: &'static str,
    /// Rules.
    pub(crate) rules: u64,
    /// Rules that match what an earlier one matches.
    pub(crate) duplicates: u64,
    /// Rules that an earlier one covers.
    pub(crate) shadowed: u64,
    /// Rules that several earlier rules cover together.
    pub(crate) unreachable: u64,
    /// Rules that could not be decided within the limit of steps.
    pub(crate) undecided: u64,
    /// Rules with conditions beyond addresses, ports and protocol.
    pub(crate) with_tests: u64,
    /// These rules, up to the requested number.
    pub(crate) listed: Vec<OddityResult>,
}

impl Report for CheckResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}   {}, {}", self.path, counted(self.rules, "rule"), self.form)];
        for oddity in &self.listed {
            lines.push(format!("{:>12}  {}", oddity.kind, oddity.rule));
            let (label, cause) = oddity.cause();
            lines.push(format!("{label:>12}  {cause}"));
        }
        let found = self.duplicates + self.shadowed + self.unreachable;
        let more = found - self.listed.len() as u64;
        if more > 0 {
            lines.push(format!("{:>12}  {} more; --top lists them", "", grouped(more)));
        }
        let undecided = if self.undecided > 0 {
            format!(", {} undecided: a larger --steps-max may decide", grouped(self.undecided))
        } else {
            String::new()
        };
        lines.push(format!(
            "{} never {}: {}, {} shadowed, {} unreachable{undecided}",
            counted(found, "rule"),
            if found == 1 { "wins" } else { "win" },
            counted(self.duplicates, "duplicate"),
            grouped(self.shadowed),
            grouped(self.unreachable)
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![
            ["kind", "number", "rule", "by_number", "by_rule", "line", "by_line"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for oddity in &self.listed {
            let by = oddity.by.as_ref();
            rows.push(vec![
                oddity.kind.to_owned(),
                oddity.rule.number.to_string(),
                oddity.rule.rule.clone(),
                by.map(|by| by.number.to_string()).unwrap_or_default(),
                by.map(|by| by.rule.clone()).unwrap_or_default(),
                oddity.rule.line.to_string(),
                by.map(|by| by.line.to_string()).unwrap_or_default(),
            ]);
        }
        rows
    }
}

/// The rules with these prefix lengths.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct PrefixCount {
    /// Length of the source's prefix.
    pub(crate) source: u32,
    /// Length of the destination's.
    pub(crate) destination: u32,
    /// Whether they are IPv6.
    pub(crate) v6: bool,
    /// Rules.
    pub(crate) rules: u64,
}

/// The classifier of one address family.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct FamilyResult {
    /// Rules of this family.
    pub(crate) rules: u64,
    /// Bytes of tree nodes.
    pub(crate) node_bytes: u64,
    /// Bytes of leaves.
    pub(crate) leaf_bytes: u64,
    /// Trees.
    pub(crate) trees: u64,
    /// Description of the structure.
    pub(crate) plan: String,
    /// Plans that were tried.
    pub(crate) plans_tried: u64,
    /// Number of steps of all attempts.
    pub(crate) build_steps: u64,
    /// Maximum number of nodes that a lookup reads.
    pub(crate) worst_nodes: u64,
    /// Maximum number of blocks of eight rules that a lookup compares.
    pub(crate) worst_blocks: u64,
    /// Maximum number of 64-bit words read from both.
    pub(crate) worst_words: u64,
}

impl FamilyResult {
    pub(crate) fn new(stats: &FamilyStats) -> Self {
        let plan = stats.plan.map_or_else(
            || String::from("linear search"),
            |plan| {
                use flowloom::classifier::flowcuts::plan::Split;
                let split = match plan.split {
                    Split::Whole => String::from("whole"),
                    Split::Lengths { source, destination } => {
                        format!("split at /{source} and /{destination}")
                    }
                };
                format!(
                    "{split}, leaves of {}, at most {} entries per rule",
                    plan.leaf_rules, plan.growth_max
                )
            },
        );
        Self {
            rules: stats.rules as u64,
            node_bytes: stats.node_bytes as u64,
            leaf_bytes: stats.leaf_bytes as u64,
            trees: stats.trees as u64,
            plan,
            plans_tried: u64::from(stats.plans_tried),
            build_steps: stats.build_steps,
            worst_nodes: u64::from(stats.worst.nodes),
            worst_blocks: u64::from(stats.worst.blocks),
            worst_words: u64::from(stats.worst.words),
        }
    }

    /// Returns the results of an algorithm other than the classifier, which searches IPv4 rules by
    /// a tree and IPv6 rules one by one.
    pub(crate) fn of_tree(name: &str, matcher: &PolicyMatcher) -> [Self; 2] {
        let (rules, tree) = (matcher.policy().set().rules(), matcher.index());
        let family = |rules: usize, plan: &str, bytes: usize, nodes: u64, words: u64| Self {
            rules: rules as u64,
            node_bytes: bytes as u64,
            leaf_bytes: 0,
            trees: 1,
            plan: String::from(plan),
            plans_tried: 1,
            build_steps: 0,
            worst_nodes: nodes,
            worst_blocks: 0,
            worst_words: words,
        };
        let v4 = rules.iter().filter(|rule| rule.spans::<KeyV4>().is_some()).count();
        let v6 = rules.iter().filter(|rule| rule.spans::<KeyV6>().is_some()).count();
        let [nodes, words] = [tree.depth(), tree.worst_words()].map(|most| most.map_or(0, u64::from));
        [family(v4, name, tree.bytes(), nodes, words), family(v6, "linear search", 0, 0, 0)]
    }

    /// Returns the structure, what a lookup reads at most, and the memory.
    pub(crate) fn summary(&self) -> String {
        let size = bytes(self.node_bytes + self.leaf_bytes);
        let [nodes, words] =
            [(self.worst_nodes, "node"), (self.worst_words, "word")].map(|(n, of)| counted(n, of));
        format!("{}: {nodes} and {words} at worst, {size}", self.plan)
    }

    fn line(&self, family: &str) -> String {
        format!(
            "{family:>12}  {} in {}: {} ({}), {} and {} at worst",
            counted(self.rules, "rule"),
            bytes(self.node_bytes + self.leaf_bytes),
            counted(self.trees, "tree"),
            self.plan,
            counted(self.worst_nodes, "node"),
            counted(self.worst_blocks, "block")
        )
    }
}

/// Contents of a rule set.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct StatsResult {
    pub(crate) schema: &'static str,
    /// File of the rules.
    pub(crate) path: String,
    /// Format of the rule file.
    #[schemars(extend("enum" = rule_forms()))]
    pub(crate) form: &'static str,
    /// Rules.
    pub(crate) rules: u64,
    /// For IPv4 alone.
    pub(crate) v4: u64,
    /// For IPv6 alone.
    pub(crate) v6: u64,
    /// For both families.
    pub(crate) any: u64,
    /// Rules with a range of ports other than one port or all ports.
    pub(crate) port_ranges: u64,
    /// Rules for any protocol.
    pub(crate) any_protocol: u64,
    /// Rules with conditions on fields other than addresses, ports and protocol.
    pub(crate) with_tests: u64,
    /// The most common prefix lengths.
    pub(crate) prefixes: Vec<PrefixCount>,
    /// Time to build the classifier.
    pub(crate) build_seconds: f64,
    /// The classifier of IPv4 rules.
    pub(crate) classifier_v4: FamilyResult,
    /// The classifier of IPv6 rules.
    pub(crate) classifier_v6: FamilyResult,
}

impl Report for StatsResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}   {}, {}", self.path, counted(self.rules, "rule"), self.form)];
        lines.push(format!(
            "{:>12}  {} IPv4, {} IPv6, {} of both",
            "addresses",
            grouped(self.v4),
            grouped(self.v6),
            grouped(self.any)
        ));
        lines.push(format!(
            "{:>12}  {} with a range of ports, {} for any protocol, {} with conditions on other fields",
            "fields",
            grouped(self.port_ranges),
            grouped(self.any_protocol),
            grouped(self.with_tests)
        ));
        for count in &self.prefixes {
            let text = format!("/{} /{}", count.source, count.destination);
            let family = if count.v6 { " of IPv6" } else { "" };
            lines.push(format!("{text:>12}  {}{family}", counted(count.rules, "rule")));
        }
        for (name, family) in [("IPv4", &self.classifier_v4), ("IPv6", &self.classifier_v6)] {
            if family.rules > 0 {
                lines.push(family.line(name));
            }
        }
        lines.push(format!("classifier built in {:.3} s", self.build_seconds));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let family = |name: &str, family: &FamilyResult| {
            vec![
                name.to_owned(),
                family.rules.to_string(),
                family.node_bytes.to_string(),
                family.leaf_bytes.to_string(),
                family.trees.to_string(),
                family.worst_nodes.to_string(),
                family.worst_blocks.to_string(),
            ]
        };
        vec![
            ["family", "rules", "node_bytes", "leaf_bytes", "trees", "worst_nodes", "worst_blocks"]
                .map(str::to_owned)
                .to_vec(),
            family("v4", &self.classifier_v4),
            family("v6", &self.classifier_v6),
        ]
    }
}

/// A matching rule and its decision.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ExplainLine {
    /// The outcome, if not everything is known about the packet.
    #[schemars(extend("enum" = ["wins", "may win", "passes on", "may pass on", "would match", "may match"]))]
    pub(crate) role: &'static str,
    #[serde(flatten)]
    pub(crate) line: RuleLine,
}

/// Rules that match a header.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ExplainResult {
    pub(crate) schema: &'static str,
    /// The header.
    pub(crate) header: String,
    /// Rules that match.
    pub(crate) matching: u64,
    /// The value of the winning rule; null without a winner.
    pub(crate) value: Option<u32>,
    /// The number of the winning rule, which the list may not include.
    #[serde(skip)]
    pub(crate) winner: Option<u64>,
    /// `accept` or `deny` if all possible outcomes agree, otherwise `unknown`.
    pub(crate) verdict: &'static str,
    /// Whether the answer depends on unknown properties of the packet.
    pub(crate) is_open: bool,
    /// No rule decides, or possibly none does.
    pub(crate) unmatched: bool,
    /// Matching rules in order, the winner first, up to the requested number.
    pub(crate) listed: Vec<ExplainLine>,
}

impl Report for ExplainResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.header.clone()];
        for ExplainLine { role, line } in &self.listed {
            lines.push(format!("{role:>12}  {line}"));
        }
        let more = self.matching - self.listed.len() as u64;
        if more > 0 {
            lines.push(format!("{:>12}  {} more; --top lists them", "", grouped(more)));
        }
        lines.push(match self.winner {
            Some(number) => format!(
                "{}: rule #{number} wins; {} in all {}",
                self.verdict,
                counted(self.matching, "rule"),
                if self.matching == 1 { "matches" } else { "match" }
            ),
            None if self.is_open => {
                let or = if self.unmatched { ", or none" } else { "" };
                format!(
                    "{}: one of the rules that may win decides{or}; give more properties of the packet \
                    to find out which",
                    self.verdict
                )
            }
            None => format!("{}: no rule matches", self.verdict),
        });
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["number", "rule", "action", "line", "role"].map(str::to_owned).to_vec()];
        rows.extend(self.listed.iter().map(|ExplainLine { role, line }| {
            let action = line.action.unwrap_or_default().to_owned();
            let RuleLine { number, line, rule, .. } = line;
            vec![number.to_string(), rule.clone(), action, line.to_string(), (*role).to_owned()]
        }));
        rows
    }
}

/// A rule file that was written.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ConvertResult {
    pub(crate) schema: &'static str,
    /// File that was written.
    pub(crate) path: String,
    /// Format of the rule file.
    #[schemars(extend("enum" = rule_forms()))]
    pub(crate) from: &'static str,
    /// Rules.
    pub(crate) rules: u64,
    /// Bytes written.
    pub(crate) bytes: u64,
}

impl Report for ConvertResult {
    fn lines(&self) -> Vec<String> {
        vec![format!(
            "{}   {} from {}, {}",
            self.path,
            counted(self.rules, "rule"),
            self.from,
            bytes(self.bytes)
        )]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![
            ["path", "from", "rules", "bytes"].map(str::to_owned).to_vec(),
            vec![self.path.clone(), self.from.to_owned(), self.rules.to_string(), self.bytes.to_string()],
        ]
    }
}
