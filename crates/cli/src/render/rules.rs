//! The results of `rules`.

use std::fmt;

use flowloom::classifier::classifier::FamilyStats;
use flowloom::classifier::firewall::PolicyMatcher;
use flowloom::classifier::{KeyV4, KeyV6};
use serde::Serialize;

use super::{Report, bytes, counted, grouped};

/// A rule in a list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RuleLine {
    /// Position of the rule in the file, from one.
    pub(crate) number: u64,
    /// First line of the rule, from one.
    pub(crate) line: u64,
    pub(crate) rule: String,
    /// Action of the rule, if it states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<&'static str>,
    /// Chain of the rule, in formats with chains.
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
#[derive(Debug, Serialize)]
pub(crate) struct OddityResult {
    pub(crate) kind: &'static str,
    pub(crate) rule: RuleLine,
    pub(crate) by: Option<RuleLine>,
    /// Earlier rules that match all of its packets.
    pub(crate) rules: u64,
}

/// The document of `rules check`.
#[derive(Debug, Serialize)]
pub(crate) struct CheckResult {
    pub(crate) schema: &'static str,
    pub(crate) path: String,
    pub(crate) form: &'static str,
    pub(crate) rules: u64,
    pub(crate) duplicates: u64,
    pub(crate) shadowed: u64,
    pub(crate) unreachable: u64,
    pub(crate) undecided: u64,
    /// Rules with conditions beyond addresses, ports and protocol.
    pub(crate) with_tests: u64,
    pub(crate) listed: Vec<OddityResult>,
}

impl Report for CheckResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}   {}, {}", self.path, counted(self.rules, "rule"), self.form)];
        for oddity in &self.listed {
            lines.push(format!("{:>12}  {}", oddity.kind, oddity.rule));
            lines.push(match &oddity.by {
                Some(by) => format!("{:>12}  {by}", "by"),
                None => format!("{:>12}  {} earlier rules together", "by", oddity.rules),
            });
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
#[derive(Debug, Serialize)]
pub(crate) struct PrefixCount {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) v6: bool,
    pub(crate) rules: u64,
}

/// The classifier of one address family.
#[derive(Debug, Serialize)]
pub(crate) struct FamilyResult {
    pub(crate) rules: u64,
    pub(crate) node_bytes: u64,
    pub(crate) leaf_bytes: u64,
    pub(crate) trees: u64,
    pub(crate) plan: String,
    pub(crate) plans_tried: u64,
    pub(crate) build_steps: u64,
    pub(crate) worst_nodes: u64,
    pub(crate) worst_blocks: u64,
    pub(crate) worst_words: u64,
}

impl FamilyResult {
    pub(crate) fn of(stats: &FamilyStats) -> Self {
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
        let of = |rules: usize, plan: &str, bytes: usize, words: u64| Self {
            rules: rules as u64,
            node_bytes: bytes as u64,
            leaf_bytes: 0,
            trees: 1,
            plan: String::from(plan),
            plans_tried: 1,
            build_steps: 0,
            worst_nodes: 0,
            worst_blocks: 0,
            worst_words: words,
        };
        let v4 = rules.iter().filter(|rule| rule.spans::<KeyV4>().is_some()).count();
        let v6 = rules.iter().filter(|rule| rule.spans::<KeyV6>().is_some()).count();
        let words = tree.worst_words().map_or(0, u64::from);
        [of(v4, name, tree.bytes(), words), of(v6, "linear search", 0, 0)]
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

/// The document of `rules stats`.
#[derive(Debug, Serialize)]
pub(crate) struct StatsResult {
    pub(crate) schema: &'static str,
    pub(crate) path: String,
    pub(crate) form: &'static str,
    pub(crate) rules: u64,
    pub(crate) v4: u64,
    pub(crate) v6: u64,
    pub(crate) any: u64,
    pub(crate) port_ranges: u64,
    pub(crate) any_protocol: u64,
    pub(crate) with_tests: u64,
    pub(crate) prefixes: Vec<PrefixCount>,
    pub(crate) build_seconds: f64,
    pub(crate) classifier_v4: FamilyResult,
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
#[derive(Debug, Serialize)]
pub(crate) struct ExplainLine {
    pub(crate) role: &'static str,
    #[serde(flatten)]
    pub(crate) line: RuleLine,
}

/// The document of `rules explain`.
#[derive(Debug, Serialize)]
pub(crate) struct ExplainResult {
    pub(crate) schema: &'static str,
    pub(crate) header: String,
    pub(crate) matching: u64,
    /// The value of the winning rule.
    pub(crate) value: Option<u32>,
    /// The number of the winning rule, which the list may not include.
    #[serde(skip)]
    pub(crate) winner: Option<u64>,
    /// The answer depends on unknown properties of the packet.
    pub(crate) is_open: bool,
    /// No rule decides, or possibly none does.
    pub(crate) unmatched: bool,
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
                "rule #{number} wins; {} in all {}",
                counted(self.matching, "rule"),
                if self.matching == 1 { "matches" } else { "match" }
            ),
            None if self.is_open => {
                let or = if self.unmatched { ", or none" } else { "" };
                format!(
                    "one of the rules that may win decides{or}; give more properties of the packet \
                    to find out which"
                )
            }
            None => String::from("no rule matches"),
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

/// The document of `rules convert` with an output file.
#[derive(Debug, Serialize)]
pub(crate) struct ConvertResult {
    pub(crate) schema: &'static str,
    pub(crate) path: String,
    pub(crate) from: &'static str,
    pub(crate) rules: u64,
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
