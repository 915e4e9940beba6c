//! The labels of `replay --app l7`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{bytes, counted, grouped, of_many, percent};

/// Number of protocols in text output; JSON has all.
const LINES_MAX: usize = 24;

/// The protocols of the flows of a run.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct L7Figures {
    /// Number of patterns.
    pub(crate) patterns: u64,
    /// Bytes of the scanner's tables.
    pub(crate) table_bytes: u64,
    /// Flows that a pattern matched.
    pub(crate) matched: u64,
    /// Flows whose first data packets match no pattern.
    pub(crate) no_match: u64,
    /// Flows that ended before a decision.
    pub(crate) no_match_yet: u64,
    /// Data packets that were examined.
    pub(crate) inspected_packets: u64,
    /// Bytes that were put in sequence and examined, each counted once.
    pub(crate) inspected_bytes: u64,
    /// Bytes passed to the scanner; with --l7-rescan, each byte counts again at every packet.
    pub(crate) scanned_bytes: u64,
    /// Bytes that arrived again, in undecided flows.
    pub(crate) overlap_bytes: u64,
    /// Bytes that were missing and skipped, in undecided flows.
    pub(crate) gap_bytes: u64,
    /// Windows and buffers that were reclaimed because all were in use.
    pub(crate) windows_taken_back: u64,
    /// Directions without a label because their window or buffer was reclaimed.
    pub(crate) directions_lost: u64,
    /// The identified protocols, most flows first; flows without a label are not among them.
    pub(crate) protocols: Vec<ProtocolFigures>,
}

/// The flows of one protocol.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ProtocolFigures {
    /// The pattern's name.
    pub(crate) name: &'static str,
    /// Flows of that name.
    pub(crate) flows: u64,
    /// Flows among these whose match is weak, or whose other side contradicts it.
    pub(crate) guess: u64,
    /// Flows among these with one matching direction, which the other does not contradict.
    pub(crate) one_side: u64,
    /// Flows among these with two matching directions.
    pub(crate) both_sides: u64,
    /// All their packets.
    pub(crate) packets: u64,
    /// All their bytes.
    pub(crate) bytes_on_wire: u64,
}

impl ProtocolFigures {
    /// Returns the confidence of the labels, omitting kinds without flows.
    fn confidence(&self) -> String {
        let kinds = [("both sides", self.both_sides), ("one side", self.one_side), ("guess", self.guess)];
        let kinds = kinds.iter().filter(|(_, flows)| *flows > 0);
        kinds.map(|(name, flows)| format!("{name} {}", grouped(*flows))).collect::<Vec<_>>().join(", ")
    }
}

impl L7Figures {
    /// Appends the lines of the text output.
    pub(crate) fn lines(&self, lines: &mut Vec<String>) {
        let flows = self.matched + self.no_match + self.no_match_yet;
        lines.push(format!(
            "L7          {}, {}: matched {} ({})   no match {}   no match yet {}",
            counted(self.patterns, "pattern"),
            bytes(self.table_bytes),
            grouped(self.matched),
            percent(self.matched, flows),
            grouped(self.no_match),
            grouped(self.no_match_yet)
        ));
        lines.push(format!(
            "            examined {}, {}; scanned {}; retransmitted {}, missing {}",
            counted(self.inspected_packets, "data packet"),
            bytes(self.inspected_bytes),
            bytes(self.scanned_bytes),
            bytes(self.overlap_bytes),
            bytes(self.gap_bytes)
        ));
        if self.windows_taken_back > 0 {
            lines.push(format!(
                "            windows reclaimed {}, directions that lost theirs {}",
                grouped(self.windows_taken_back),
                grouped(self.directions_lost)
            ));
        }
        for protocol in self.protocols.iter().take(LINES_MAX) {
            lines.push(format!(
                "            {:<16} {:>10} {:<5}   {:>12} {:<7}   {:<9}   {}",
                protocol.name,
                grouped(protocol.flows),
                of_many(protocol.flows, "flow"),
                grouped(protocol.packets),
                of_many(protocol.packets, "packet"),
                bytes(protocol.bytes_on_wire),
                protocol.confidence()
            ));
        }
        if self.protocols.len() > LINES_MAX {
            let more = (self.protocols.len() - LINES_MAX) as u64;
            lines.push(format!("            … and {}", counted(more, "more protocol")));
        }
    }
}
