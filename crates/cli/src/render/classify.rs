//! The result of `classify`.

use serde::Serialize;

use super::rules::{FamilyResult, RuleLine};
use super::{Report, bytes, counted, grouped, percent};

/// A rule and the number of packets that match it.
#[derive(Debug, Serialize)]
pub(crate) struct RuleHits {
    pub(crate) packets: u64,
    pub(crate) rule: RuleLine,
}

/// The document of `classify`.
#[derive(Debug, Serialize)]
pub(crate) struct ClassifyResult {
    pub(crate) schema: &'static str,
    pub(crate) rules_path: String,
    pub(crate) form: &'static str,
    pub(crate) rules: u64,
    pub(crate) packets: u64,
    pub(crate) undecoded: u64,
    pub(crate) later_fragments: u64,
    pub(crate) matched: u64,
    pub(crate) unmatched: u64,
    /// Rules that no packet matches.
    pub(crate) unused: u64,
    pub(crate) top: Vec<RuleHits>,
    pub(crate) unused_listed: Vec<RuleLine>,
    pub(crate) verified: bool,
    pub(crate) wrong: u64,
    pub(crate) first_wrong: Option<String>,
    pub(crate) isa: String,
    pub(crate) ns_per_lookup: f64,
    pub(crate) build_seconds: f64,
    pub(crate) classifier_v4: FamilyResult,
    pub(crate) classifier_v6: FamilyResult,
    pub(crate) interrupted: bool,
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
        lines.push(format!(
            "{:>12}  {}, {} of unknown protocols, {}",
            "input",
            counted(self.packets, "packet"),
            grouped(self.undecoded),
            counted(self.later_fragments, "later fragment")
        ));
        let looked_up = self.matched + self.unmatched;
        for hits in &self.top {
            let share = percent(hits.packets, looked_up);
            lines.push(format!("{share:>12}  {}", hits.rule));
        }
        for rule in &self.unused_listed {
            lines.push(format!("{:>12}  {rule}", "unused"));
        }
        lines.push(format!(
            "{:>12}  {} of {}; {:.1} ns per lookup on {}",
            "unused",
            grouped(self.unused),
            counted(self.rules, "rule"),
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
