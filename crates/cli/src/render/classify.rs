//! The result of `classify`.

use schemars::JsonSchema;
use serde::Serialize;

use super::rules::{FamilyResult, RuleLine};
use super::words::rule_forms;
use super::{Report, bytes, counted, grouped, percent};

/// A rule and the number of packets that match it.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RuleHits {
    /// Packets.
    pub(crate) packets: u64,
    /// The rule.
    pub(crate) rule: RuleLine,
}

/// The verdict of a packet without a known header.
const UNDECODED: &str = "undecoded";

/// The answer for a packet.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct PacketVerdict {
    /// Number of the packet, from one.
    pub(crate) packet: u64,
    /// The action of the rule that decides, `matched` for a rule without one, `unmatched` if no
    /// rule decides, or `undecoded`.
    pub(crate) verdict: &'static str,
    /// Number of the rule in its file.
    pub(crate) rule: Option<u64>,
    /// Line of the rule in its file.
    pub(crate) line: Option<u64>,
    /// Numbers of all rules that may decide, 0 for none, if more than one may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) possible: Vec<u64>,
    /// The action on which they agree, or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) possible_verdict: Option<&'static str>,
}

impl PacketVerdict {
    /// Returns the answer for a packet that is not looked up.
    pub(crate) fn not_looked_up(packet: u64) -> Self {
        Self {
            packet,
            verdict: UNDECODED,
            rule: None,
            line: None,
            possible: Vec::new(),
            possible_verdict: None,
        }
    }

    /// Returns the numbers of the rules that may decide, separated by spaces.
    fn possible(&self) -> String {
        self.possible.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// Rules that match the packets of captures or header traces.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ClassifyResult {
    pub(crate) schema: &'static str,
    /// File of the rules.
    pub(crate) rules_path: String,
    /// Format of the rule file.
    #[schemars(extend("enum" = rule_forms()))]
    pub(crate) form: &'static str,
    /// Rules.
    pub(crate) rules: u64,
    /// Packets or headers read.
    pub(crate) packets: u64,
    /// Packets without a known header.
    pub(crate) undecoded: u64,
    /// Packets that are later fragments and therefore have no ports.
    pub(crate) later_fragments: u64,
    /// Lookups that found a rule.
    pub(crate) matched: u64,
    /// Lookups that found none.
    pub(crate) unmatched: u64,
    /// Those of `unmatched` whose address family no rule matches, such as IPv6 under rules of
    /// iptables-save.
    pub(crate) of_other_family: u64,
    /// Rules that decide, and that decide no packet.
    pub(crate) unused: u64,
    /// Rules that only pass packets on, such as jumps and RETURN; they have no counts.
    pub(crate) passing: u64,
    /// The answer for each packet, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_packet: Option<Vec<PacketVerdict>>,
    /// Rules with the most packets.
    pub(crate) top: Vec<RuleHits>,
    /// Rules that decide no packet, up to the requested number.
    pub(crate) unused_listed: Vec<RuleLine>,
    /// Whether each answer was checked by linear search.
    pub(crate) verified: bool,
    /// Number of answers that differed.
    pub(crate) wrong: u64,
    /// The first of them, as text; null if none did.
    pub(crate) first_wrong: Option<String>,
    /// Instruction set of the lookups.
    pub(crate) isa: String,
    /// Processor time of a lookup.
    pub(crate) ns_per_lookup: f64,
    /// Mean number of 32-bit words that the lookups of IPv4 headers read; null if the algorithm
    /// does not count them.
    pub(crate) words_per_lookup: Option<f64>,
    /// Time to build the classifier.
    pub(crate) build_seconds: f64,
    /// The classifier of IPv4 rules.
    pub(crate) classifier_v4: FamilyResult,
    /// The classifier of IPv6 rules.
    pub(crate) classifier_v6: FamilyResult,
    /// Whether a signal ended the run.
    pub(crate) interrupted: bool,
    /// Error that ended the input, if any.
    pub(crate) fault: Option<String>,
}

impl Report for ClassifyResult {
    fn lines(&self) -> Vec<String> {
        let size =
            [&self.classifier_v4, &self.classifier_v6].map(|family| family.node_bytes + family.leaf_bytes);
        let mut lines = vec![format!(
            "{}   {}, {}; classifier of {} built in {:.3} s",
            self.rules_path,
            counted(self.rules, "rule"),
            self.form,
            bytes(size[0] + size[1]),
            self.build_seconds
        )];
        let other = match self.of_other_family {
            0 => String::new(),
            packets => format!(", {} of an address family without rules", grouped(packets)),
        };
        lines.push(format!(
            "{:>12}  {}, {} not tracked, {}{other}",
            "input",
            counted(self.packets, "packet"),
            grouped(self.undecoded),
            counted(self.later_fragments, "later fragment")
        ));
        let reads =
            self.words_per_lookup.map_or(String::new(), |words| format!("; {words:.2} words on average"));
        lines.push(format!("{:>12}  {}{reads}", "search", self.classifier_v4.summary()));
        for one in self.per_packet.iter().flatten() {
            let PacketVerdict { packet, verdict, rule, line, .. } = one;
            let place = match (rule, line) {
                (Some(rule), Some(line)) => format!("  by rule #{rule} (line {line})"),
                _ => String::new(),
            };
            let open = match one.possible_verdict {
                Some(verdict) => format!("; {verdict}, may be decided by #{}", one.possible()),
                None => String::new(),
            };
            let verdict = if *verdict == UNDECODED { "not tracked" } else { verdict };
            lines.push(format!("packet {packet:>5}  {verdict}{place}{open}"));
        }
        let looked_up = self.matched + self.unmatched;
        for hits in &self.top {
            let share = percent(hits.packets, looked_up);
            lines.push(format!("{share:>12}  {}", hits.rule));
        }
        for rule in &self.unused_listed {
            lines.push(format!("{:>12}  {rule}", "unused"));
        }
        let passing = match self.passing {
            0 => String::new(),
            1 => String::from(" that decide (1 only passes packets on)"),
            rules => format!(" that decide ({} only pass packets on)", grouped(rules)),
        };
        lines.push(format!(
            "{:>12}  {} of {}{passing}; {:.1} ns per lookup on {}",
            "unused",
            grouped(self.unused),
            counted(self.rules - self.passing, "rule"),
            self.ns_per_lookup,
            self.isa
        ));
        if let Some(wrong) = &self.first_wrong {
            lines.push(format!("{:>12}  {wrong}", "wrong"));
        }
        let verdict = match (self.verified, self.wrong) {
            (false, _) => String::new(),
            (true, 0) => String::from("; all answers verified"),
            (true, wrong) => {
                format!("; {} {} WRONG", counted(wrong, "ANSWER"), if wrong == 1 { "IS" } else { "ARE" })
            }
        };
        let ended = if self.interrupted { "interrupted: " } else { "" };
        lines.push(format!(
            "{ended}{} matched ({}), {} not{verdict}",
            grouped(self.matched),
            percent(self.matched, looked_up),
            grouped(self.unmatched)
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        if let Some(all) = &self.per_packet {
            let names = ["packet", "verdict", "rule", "line", "possible", "possible_verdict"];
            let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
            let row = |one: &PacketVerdict| {
                let possible_verdict = one.possible_verdict.unwrap_or_default().to_owned();
                let [rule, line] = [one.rule, one.line].map(number);
                vec![
                    one.packet.to_string(),
                    one.verdict.to_owned(),
                    rule,
                    line,
                    one.possible(),
                    possible_verdict,
                ]
            };
            return std::iter::once(names.map(str::to_owned).to_vec()).chain(all.iter().map(row)).collect();
        }
        let mut rows = vec![["packets", "number", "rule", "action", "line"].map(str::to_owned).to_vec()];
        let listed = self.top.iter().map(|hits| (hits.packets, &hits.rule));
        for (packets, RuleLine { number, line, rule, action, .. }) in
            listed.chain(self.unused_listed.iter().map(|rule| (0, rule)))
        {
            let action = action.unwrap_or_default().to_owned();
            rows.push(vec![
                packets.to_string(),
                number.to_string(),
                rule.clone(),
                action,
                line.to_string(),
            ]);
        }
        rows
    }
}
