//! The result of `bridge`.

use std::collections::BTreeMap;

use flowloom::apps::ProtocolCounts;
use flowloom::engine::{DecisionCounts, FlowState, WireRun};
use flowloom::packet::wire::PortCounts;
use schemars::JsonSchema;
use serde::Serialize;

use super::reasons::NoResult;
use super::verdicts::FirewallFigures;
use super::{Report, bytes, counted, grouped};
use crate::host::tool;
use flowloom_measure::rows::Tool;

/// Frames between two interfaces, or packets of a queue. Numbers are in base units: frames,
/// packets, bytes.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct BridgeResult {
    schema: &'static str,
    /// The program.
    tool: Tool,
    /// Duration of the run.
    seconds: f64,
    /// Processor time of all workers; null if the system does not report it.
    busy_seconds: Option<f64>,
    /// The ports in the order of the arguments.
    ports: Vec<PortFigures>,
    /// Received frames by decision.
    frames: FrameFigures,
    #[serde(flatten)]
    no_result: NoResult,
    /// Flows and their records.
    flows: FlowFigures,
    /// Results of the firewall; only with --rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    firewall: Option<FirewallFigures>,
    /// Labelled flows; only with --l7.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocols: Option<Vec<LabelFigures>>,
    /// Whether every received frame was sent, refused, or dropped for a counted reason.
    balanced: bool,
    /// The reason why the bridge ended early; null if it was stopped.
    fault: Option<String>,
}

/// The counters of one port.
#[derive(Debug, JsonSchema, Serialize)]
struct PortFigures {
    /// The interface, tap:NAME or queue:N.
    interface: String,
    /// Frames received.
    received: u64,
    /// Bytes of these frames.
    received_bytes: u64,
    /// Received frames that left by the port.
    sent: u64,
    /// Bytes of these frames.
    sent_bytes: u64,
    /// Frames that the port refused to send: its queue is full, it is down, or they exceed its MTU.
    refused: u64,
    /// Answers and other frames that left by the port in addition.
    added: u64,
    /// Such frames that the port refused.
    added_refused: u64,
    /// Frames that the kernel or the card dropped before they were received.
    missed: u64,
}

impl PortFigures {
    fn new(interface: &str, counts: &PortCounts) -> Self {
        Self {
            interface: interface.to_owned(),
            received: counts.received,
            received_bytes: counts.received_bytes,
            sent: counts.sent,
            sent_bytes: counts.sent_bytes,
            refused: counts.refused,
            added: counts.added,
            added_refused: counts.added_refused,
            missed: counts.missed,
        }
    }
}

/// Frames by their treatment.
#[derive(Debug, JsonSchema, Serialize)]
struct FrameFigures {
    /// All received frames.
    received: u64,
    /// Frames that rules and labels let pass.
    passed: u64,
    /// Frames that are not tracked, and passed.
    passed_without_flow: u64,
    /// Frames that passed because the flow table was full.
    passed_at_full_table: u64,
    /// Frames that rules or labels denied.
    denied: u64,
    /// Denied frames whose sender got an answer.
    answered: u64,
    /// Frames that are not tracked, and were dropped.
    dropped_without_flow: u64,
    /// Frames dropped because the flow table was full.
    dropped_at_full_table: u64,
    /// Frames whose judgement failed by a bug, and that passed.
    passed_at_panic: u64,
    /// Frames whose judgement failed by a bug, and that were dropped.
    dropped_at_panic: u64,
    /// Frames lost because the bridge ended with a fault.
    lost: u64,
}

impl FrameFigures {
    fn new(received: u64, counts: &DecisionCounts) -> Self {
        Self {
            received,
            passed: counts.passed,
            passed_without_flow: counts.passed_without_flow,
            passed_at_full_table: counts.passed_at_full_table,
            denied: counts.denied,
            answered: counts.answered,
            dropped_without_flow: counts.dropped_without_flow,
            dropped_at_full_table: counts.dropped_at_full_table,
            passed_at_panic: counts.passed_at_panic,
            dropped_at_panic: counts.dropped_at_panic,
            lost: counts.lost,
        }
    }

    /// Returns each count with its name.
    fn each(&self) -> [(&'static str, u64); 11] {
        [
            ("received", self.received),
            ("passed", self.passed),
            ("passed_without_flow", self.passed_without_flow),
            ("passed_at_full_table", self.passed_at_full_table),
            ("denied", self.denied),
            ("answered", self.answered),
            ("dropped_without_flow", self.dropped_without_flow),
            ("dropped_at_full_table", self.dropped_at_full_table),
            ("passed_at_panic", self.passed_at_panic),
            ("dropped_at_panic", self.dropped_at_panic),
            ("lost", self.lost),
        ]
    }
}

/// The flows of a protocol, and the packets denied for it.
#[derive(Debug, JsonSchema, Serialize)]
struct LabelFigures {
    /// Name of the pattern.
    name: &'static str,
    /// Flows that first got this label.
    flows: u64,
    /// Packets denied for this label.
    denied: u64,
}

/// Flows and their records.
#[derive(Debug, JsonSchema, Serialize)]
struct FlowFigures {
    /// Flows begun.
    begun: u64,
    /// Records ended by the timeout.
    expired: u64,
    /// Flows evicted from a full table.
    evicted: u64,
    /// Records written.
    records: u64,
    /// Records that the destination did not take.
    records_lost: u64,
}

impl BridgeResult {
    pub(crate) fn new<F: FlowState>(
        interfaces: &[String],
        run: &WireRun<F>,
        firewall: Option<FirewallFigures>,
        labels: Option<BTreeMap<&'static str, ProtocolCounts>>,
    ) -> Self {
        let figures = |(name, counts): (&'static str, ProtocolCounts)| LabelFigures {
            name,
            flows: counts.flows,
            denied: counts.denied,
        };
        let report = &run.report;
        let totals = report.worker_totals();
        let busy: Option<f64> =
            report.workers.iter().map(|worker| worker.busy.map(|busy| busy.as_secs_f64())).sum();
        let (records, records_lost) =
            report.records.as_ref().map_or((0, 0), |records| (records.written, records.lost));
        let ports = interfaces.iter().zip(&run.ports);
        let received = run.ports.iter().map(|port| port.received).sum();
        Self {
            schema: "flowloom/bridge/1",
            tool: tool(),
            seconds: report.elapsed.as_secs_f64(),
            busy_seconds: busy,
            ports: ports.map(|(name, counts)| PortFigures::new(name, counts)).collect(),
            frames: FrameFigures::new(received, &run.decisions),
            no_result: NoResult::new(&report.dropped()),
            flows: FlowFigures {
                begun: totals.flows_begun,
                expired: totals.flows_expired,
                evicted: totals.flows_evicted,
                records,
                records_lost,
            },
            firewall,
            protocols: labels.map(|labels| labels.into_iter().map(figures).collect()),
            balanced: run.is_balanced() && report.is_balanced(),
            fault: report.fault.as_ref().map(ToString::to_string),
        }
    }
}

/// Returns a name of a count in words.
fn said(name: &str) -> String {
    name.replace("without_flow", "not tracked").replace('_', " ")
}

impl Report for BridgeResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for port in &self.ports {
            let added = match port.added + port.added_refused {
                0 => String::new(),
                _ => format!("   answers {}", grouped(port.added)),
            };
            lines.push(format!(
                "Port        {}   received {} ({})   sent {} ({})   refused {}   missed {}{added}",
                port.interface,
                grouped(port.received),
                bytes(port.received_bytes),
                grouped(port.sent),
                bytes(port.sent_bytes),
                grouped(port.refused),
                grouped(port.missed)
            ));
        }
        let counts = self.frames.each();
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let counts: Vec<String> =
            counts.map(|(name, count)| format!("{} {}", said(name), grouped(*count))).collect();
        lines.push(format!("Frames      {}", counts.join("   ")));
        lines.extend(self.no_result.lines());
        lines.push(format!(
            "Flows       begun {}   expired {}   evicted {}   records {}   lost {}",
            grouped(self.flows.begun),
            grouped(self.flows.expired),
            grouped(self.flows.evicted),
            grouped(self.flows.records),
            grouped(self.flows.records_lost)
        ));
        if let Some(firewall) = &self.firewall {
            firewall.lines(&mut lines);
        }
        for protocol in self.protocols.iter().flatten() {
            let (flows, denied) = (grouped(protocol.flows), grouped(protocol.denied));
            lines.push(format!("Protocol    {}   flows {flows}   denied {denied}", protocol.name));
        }
        let busy = self.busy_seconds.filter(|_| self.seconds > 0.0);
        let busy =
            busy.map_or(String::new(), |busy| format!("   processor {:.1} %", 100.0 * busy / self.seconds));
        let word = if self.balanced { "balanced" } else { "NOT BALANCED: this is a bug" };
        lines.push(format!(
            "Bridge      {} in {:.1} s{busy}   {word}",
            counted(self.frames.received, "frame"),
            self.seconds
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![vec![String::from("count"), String::from("value")]];
        let mut row = |name: String, value: u64| rows.push(vec![name, value.to_string()]);
        for (number, port) in self.ports.iter().enumerate() {
            for (name, value) in [
                ("received", port.received),
                ("sent", port.sent),
                ("refused", port.refused),
                ("added", port.added),
                ("missed", port.missed),
            ] {
                row(format!("port_{number}_{name}"), value);
            }
        }
        for (name, value) in self.frames.each() {
            row(name.to_owned(), value);
        }
        for (name, value) in self.no_result.iter() {
            row(name.to_owned(), value);
        }
        rows
    }
}
