//! The result of `merge`.

use flowloom::engine::{FlowState, MergedParts};
use schemars::JsonSchema;
use serde::Serialize;

use super::encapsulations::Encapsulations;
use super::reasons::NoResult;
use super::replay::RecordFigures;
use super::{Report, counted, grouped};
use crate::host::tool;
use crate::part_file::Settings;
use flowloom_measure::rows::Tool;

/// The sums over merged parts.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct MergeResult {
    schema: &'static str,
    /// The program.
    tool: Tool,
    /// Application of the parts.
    app: String,
    /// Idle packet time, in nanoseconds, that ends a flow; null for never.
    idle_timeout_ns: Option<u64>,
    /// Maximum duration of an accounting record in packet time, in nanoseconds; null means no
    /// limit.
    active_timeout_ns: Option<u64>,
    /// Options by which the parts decoded packets.
    decoding: Vec<String>,
    /// Options by which the parts selected packets.
    selection: Vec<String>,
    /// The parts, in order.
    parts: Vec<PartFigures>,
    /// Packets of all parts.
    packets: u64,
    /// Sum of the packets' lengths on the wire, in bytes.
    bytes_on_wire: u64,
    /// Sum of the packets' captured lengths, in bytes.
    bytes_captured: u64,
    /// Packets with a flow key.
    decoded: u64,
    /// Packets that the application completed.
    processed: u64,
    #[serde(flatten)]
    no_result: NoResult,
    #[serde(flatten)]
    encapsulations: Encapsulations,
    /// Flows: distinct keys.
    flows: u64,
    /// Flows inserted, by all parts.
    flows_begun: u64,
    /// Flows that continue from one part to the next, each time.
    flows_joined: u64,
    /// The records that were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<RecordFigures>,
    /// Time of the first packet, in nanoseconds since 1970; 0 without packets.
    first_ns: u64,
    /// Latest packet time, in nanoseconds since 1970; 0 without packets.
    last_ns: u64,
    /// Digest of all flow records, in hexadecimal: that of a run over the whole input.
    digest: String,
}

/// One part.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct PartFigures {
    /// File of the part.
    pub(crate) path: String,
    /// Number of the part among all parts, as K/N; null if the parts have none.
    pub(crate) part: Option<String>,
    /// Captures of the part.
    pub(crate) inputs: Vec<String>,
    /// Its packets.
    pub(crate) packets: u64,
    /// Time of its first packet, in nanoseconds since 1970.
    pub(crate) first_ns: u64,
    /// Its latest packet time, in nanoseconds since 1970.
    pub(crate) last_ns: u64,
}

impl MergeResult {
    pub(crate) fn new<F: FlowState>(
        settings: &Settings,
        parts: Vec<PartFigures>,
        merged: &MergedParts<F>,
    ) -> Self {
        let (input, workers) = (&merged.input, &merged.counters);
        let mut dropped = input.dropped;
        dropped.merge(&workers.dropped);
        Self {
            schema: "flowloom/merge/1",
            tool: tool(),
            app: settings.app.clone(),
            idle_timeout_ns: settings.idle_timeout_ns,
            active_timeout_ns: settings.active_timeout_ns,
            decoding: settings.decoding.clone(),
            selection: settings.selection.clone(),
            parts,
            packets: input.packets,
            bytes_on_wire: input.bytes_on_wire,
            bytes_captured: input.bytes_captured,
            decoded: input.decoded,
            processed: workers.processed,
            no_result: NoResult::new(&dropped).with_first(&input.encapsulations),
            encapsulations: Encapsulations::new(&input.encapsulations),
            flows: merged.flows.len() as u64,
            flows_begun: workers.flows_begun,
            flows_joined: merged.flows_joined,
            records: None,
            first_ns: input.first_ns,
            last_ns: input.last_ns,
            digest: merged.digest(),
        }
    }
}

impl Report for MergeResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}   app {}", self.tool, self.app)];
        for part in &self.parts {
            let number = part.part.as_ref().map_or(String::new(), |part| format!("   part {part}"));
            lines.push(format!("{}{number}   {}", part.path, counted(part.packets, "packet")));
        }
        lines.push(String::new());
        lines.push(format!(
            "Packets     {}   decoded {}   processed {}   {}",
            grouped(self.packets),
            grouped(self.decoded),
            grouped(self.processed),
            self.no_result.totals()
        ));
        lines.push(format!(
            "Flows       {}   joined across parts {}",
            grouped(self.flows),
            grouped(self.flows_joined)
        ));
        if let Some(records) = &self.records {
            lines.push(format!(
                "Records     {} written   not selected {}",
                grouped(records.written),
                grouped(records.passed_over)
            ));
        }
        lines.extend(self.no_result.lines());
        lines.extend(self.encapsulations.summary(", those over UDP uncounted", "--format json lists them"));
        lines.push(format!("Digest      {}", self.digest));
        lines.push(String::new());
        let written = self.records.as_ref().and_then(RecordFigures::verdict);
        lines.push(format!(
            "{} of {} merged{}",
            counted(self.flows, "flow"),
            counted(self.parts.len() as u64, "part"),
            written.map_or(String::new(), |written| format!("; {written}"))
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let header = ["packets", "processed", "flows", "flows_joined", "digest"];
        let row = [self.packets, self.processed, self.flows, self.flows_joined].map(|n| n.to_string());
        vec![header.map(String::from).to_vec(), row.into_iter().chain([self.digest.clone()]).collect()]
    }
}
