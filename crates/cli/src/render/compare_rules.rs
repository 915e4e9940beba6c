//! The results of `rules minimise` and `rules diff`.

use schemars::JsonSchema;
use serde::Serialize;

use super::rules::RuleLine;
use super::words::{rule_forms, verdicts};
use super::{Report, counted, grouped};

/// A rule that was removed.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct LeftOutResult {
    /// The reason why it has no effect.
    #[schemars(extend("enum" = ["unreached", "redundant"]))]
    pub(crate) why: &'static str,
    /// The rule.
    pub(crate) rule: RuleLine,
}

/// Rules that have no effect.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct MinimiseResult {
    pub(crate) schema: &'static str,
    /// The rules.
    pub(crate) path: String,
    /// Format of the file.
    #[schemars(extend("enum" = rule_forms()))]
    pub(crate) form: &'static str,
    /// Rules of the file.
    pub(crate) rules: u64,
    /// Remaining rules.
    pub(crate) kept: u64,
    /// Rules that no packet reaches.
    pub(crate) unreached: u64,
    /// Rules whose packets later rules decide in the same way.
    pub(crate) redundant: u64,
    /// Rules that were kept because the limit of steps was reached.
    pub(crate) undecided: u64,
    /// Path of the written rules; null if not written.
    pub(crate) output: Option<String>,
    /// Omitted rules, up to the requested number.
    pub(crate) listed: Vec<LeftOutResult>,
}

impl Report for MinimiseResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}   {}, {}", self.path, counted(self.rules, "rule"), self.form)];
        lines.extend(self.listed.iter().map(|one| format!("{:>12}  {}", one.why, one.rule)));
        let more = self.unreached + self.redundant - self.listed.len() as u64;
        if more > 0 {
            lines.push(format!("{:>12}  {} more; --top lists them", "", grouped(more)));
        }
        if self.undecided > 0 {
            let undecided = counted(self.undecided, "rule");
            lines.push(format!("{:>12}  {undecided} kept: a larger --steps-max may decide", "undecided"));
        }
        let output = self.output.as_ref().map(|path| format!("; written to {path}")).unwrap_or_default();
        lines.push(format!(
            "{} of {} {} left: {} unreached, {} redundant{output}",
            grouped(self.kept),
            counted(self.rules, "rule"),
            if self.kept == 1 { "is" } else { "are" },
            grouped(self.unreached),
            grouped(self.redundant)
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["why", "number", "line", "rule"].map(str::to_owned).to_vec()];
        rows.extend(self.listed.iter().map(|one| {
            let RuleLine { number, line, rule, .. } = &one.rule;
            vec![one.why.to_owned(), number.to_string(), line.to_string(), rule.clone()]
        }));
        rows
    }
}

/// The decision of one rule set about a packet.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SideResult {
    /// Action for the packet.
    #[schemars(extend("enum" = verdicts()))]
    pub(crate) action: &'static str,
    /// The deciding rule; null if there is none.
    pub(crate) rule: Option<RuleLine>,
}

/// A packet that two rule sets decide differently.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct DifferenceResult {
    /// The packet, with the fields that affect the decision.
    pub(crate) packet: String,
    /// Action of the first rule set.
    pub(crate) first: SideResult,
    /// Action of the second rule set.
    pub(crate) second: SideResult,
}

/// Packets that two rule sets decide differently.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct DiffResult {
    pub(crate) schema: &'static str,
    /// The first rule set.
    pub(crate) first: String,
    /// The second rule set.
    pub(crate) second: String,
    /// Whether both make the same decision for every packet; null if the limit of steps was
    /// reached.
    pub(crate) equivalent: Option<bool>,
    /// Whether the limit of steps was reached before all packets were compared.
    pub(crate) undecided: bool,
    /// Packets that are decided differently, one per pair of rules, up to the requested number.
    pub(crate) listed: Vec<DifferenceResult>,
}

impl Report for DiffResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for one in &self.listed {
            lines.push(one.packet.clone());
            for (path, side) in [(&self.first, &one.first), (&self.second, &one.second)] {
                let rule = side.rule.as_ref().map_or_else(|| String::from("no rule"), ToString::to_string);
                lines.push(format!("{:>12}  {path}: {rule}", side.action));
            }
        }
        lines.push(match self.equivalent {
            Some(true) => format!("{} and {} decide every packet alike", self.first, self.second),
            Some(false) => format!("{} and {} differ", self.first, self.second),
            None => String::from("undecided: a larger --steps-max may give a result"),
        });
        if self.equivalent == Some(false) && self.undecided {
            lines.push(String::from("not all packets were compared: a larger --steps-max finds more"));
        }
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = ["packet", "first_action", "first_line", "second_action", "second_line"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let line =
            |side: &SideResult| side.rule.as_ref().map(|rule| rule.line.to_string()).unwrap_or_default();
        rows.extend(self.listed.iter().map(|one| {
            vec![
                one.packet.clone(),
                one.first.action.to_owned(),
                line(&one.first),
                one.second.action.to_owned(),
                line(&one.second),
            ]
        }));
        rows
    }
}
