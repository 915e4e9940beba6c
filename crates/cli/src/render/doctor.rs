//! The result of `doctor`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Report;
use crate::host::tool;
use flowloom_measure::rows::Tool;

/// The rating of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rating {
    Ok,
    Unknown,
    /// Measurements need care.
    Fair,
    /// Absolute measurements mean nothing.
    Bad,
}

impl Rating {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Fair => "fair",
            Self::Bad => "BAD",
        }
    }
}

/// One property of the machine.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Check {
    /// The property.
    name: &'static str,
    /// What the finding means for measurements.
    pub(crate) state: Rating,
    /// The finding.
    pub(crate) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

impl Check {
    pub(crate) fn new(name: &'static str, state: Rating, found: impl Into<String>) -> Self {
        Self { name, state, found: found.into(), advice: None }
    }

    pub(crate) fn advice(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Adds advice if the state can be improved.
    pub(crate) fn advice_if(self, state: Rating, advice: &'static str) -> Self {
        if matches!(state, Rating::Fair | Rating::Bad) { self.advice(advice) } else { self }
    }
}

/// Whether measurements on a machine are meaningful.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct DoctorResult {
    schema: &'static str,
    /// The program.
    tool: Tool,
    /// The examined properties.
    checks: Vec<Check>,
    /// What all findings mean for measurements.
    verdict: &'static str,
}

impl DoctorResult {
    pub(crate) fn new(checks: Vec<Check>) -> Self {
        let is = |state| checks.iter().any(|check| check.state == state);
        let verdict = if is(Rating::Bad) {
            "only ratios of interleaved rounds are meaningful here; absolute figures are not"
        } else if is(Rating::Fair) {
            "figures are meaningful here with care: state their spread and the load"
        } else {
            "figures are meaningful here"
        };
        Self { schema: "flowloom/doctor/1", tool: tool(), checks, verdict }
    }

    /// Returns whether absolute measurements mean nothing.
    pub(crate) fn is_bad(&self) -> bool {
        self.checks.iter().any(|check| check.state == Rating::Bad)
    }
}

impl Report for DoctorResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.tool.to_string(), String::new()];
        for check in &self.checks {
            lines.push(format!("{:12}{:9}{}", check.name, check.state.word(), check.found));
            if let Some(advice) = check.advice {
                lines.push(format!("{:21}{advice}", ""));
            }
        }
        lines.push(String::new());
        lines.push(self.verdict.to_owned());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["check", "state", "found", "advice"].map(str::to_owned).to_vec()];
        rows.extend(self.checks.iter().map(|check| {
            let cells = [check.name, check.state.word(), &check.found, check.advice.unwrap_or_default()];
            cells.map(str::to_owned).to_vec()
        }));
        rows
    }
}
