//! The result of `extract`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Report, bytes, counted, some_of};
use flowloom_measure::rows::Tool;

/// The packets of selected flows that were written to a capture.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ExtractResult {
    pub(crate) schema: &'static str,
    /// The program.
    pub(crate) tool: Tool,
    /// The captures in the order in which they were named.
    pub(crate) inputs: Vec<String>,
    /// The file that was written.
    pub(crate) output: String,
    /// Records that matched --where and --flow, if one of these was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<u64>,
    /// Distinct keys of the packets written.
    pub(crate) flows: u64,
    /// Packets that --from and --to select.
    pub(crate) packets_read: u64,
    /// Packets that were written.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes_captured: u64,
    /// The use of the index; only with --index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<IndexFigures>,
    /// Notes about the captures.
    pub(crate) notices: Vec<String>,
    /// Whether a signal ended the run.
    pub(crate) interrupted: bool,
    /// Error that ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

/// The use of an index.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct IndexFigures {
    /// The file of the index.
    pub(crate) path: String,
    /// Whether this run created the index.
    pub(crate) made: bool,
    /// Number of parts of the capture.
    pub(crate) parts: u64,
    /// Number of parts read for their packets.
    pub(crate) parts_read: u64,
}

impl Report for ExtractResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("{}   extract", self.tool),
            format!("{}   {}", some_of(&self.inputs, ", "), counted(self.packets_read, "packet")),
        ];
        if let Some(records) = self.records {
            lines.push(format!("Matched     {}", counted(records, "record")));
        }
        if let Some(IndexFigures { path, made, parts, parts_read }) = &self.index {
            let made = if *made { ", created in this run" } else { "" };
            lines.push(format!(
                "Index       {path}{made}: {parts_read} of {} read",
                counted(*parts, "part")
            ));
        }
        lines.push(String::new());
        let verdict = if self.packets == 0 {
            String::from("no packet was selected")
        } else {
            let packets = counted(self.packets, "packet");
            let of = match self.flows {
                0 => String::from("without a flow"),
                flows => format!("of {}", counted(flows, "flow")),
            };
            format!("{packets} {of} ({} captured) written to {}", bytes(self.bytes_captured), self.output)
        };
        lines.push(match (&self.fault, self.interrupted) {
            (Some(fault), _) => format!("stopped on a fault: {fault}; {verdict}"),
            (None, true) => format!("interrupted: {verdict}"),
            (None, false) => verdict,
        });
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head =
            ["output", "records", "flows", "packets_read", "packets", "bytes_captured", "interrupted"];
        let row = vec![
            self.output.clone(),
            self.records.map_or(String::new(), |records| records.to_string()),
            self.flows.to_string(),
            self.packets_read.to_string(),
            self.packets.to_string(),
            self.bytes_captured.to_string(),
            self.interrupted.to_string(),
        ];
        vec![head.map(str::to_owned).to_vec(), row]
    }
}
