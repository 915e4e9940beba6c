//! The labels of `replay --app l7`.

use serde::Serialize;

use super::{bytes, counted, grouped, of_many, percent};

/// Number of protocols in text output; JSON has all.
const LINES_MAX: usize = 24;

/// The protocols of the flows of a run.
#[derive(Debug, Serialize)]
pub(crate) struct L7Figures {
    /// Number of patterns.
    pub(crate) patterns: u64,
    /// Bytes of the scanner's tables.
    pub(crate) table_bytes: u64,
    /// Flows that a pattern matched, flows without a match in the packets examined, and flows that
    /// ended before either.
    pub(crate) matched: u64,
    pub(crate) no_match: u64,
    pub(crate) no_match_yet: u64,
    pub(crate) inspected_packets: u64,
    /// Bytes examined in sequence, each counted once.
    pub(crate) inspected_bytes: u64,
    /// Bytes passed to the scanner; more than `inspected_bytes` when it rescans.
    pub(crate) scanned_bytes: u64,
    pub(crate) overlap_bytes: u64,
    pub(crate) gap_bytes: u64,
    /// Windows and buffers reclaimed because all were in use, and directions that lost theirs.
    pub(crate) windows_taken_back: u64,
    pub(crate) directions_lost: u64,
    /// Sorted by number of flows; flows without a label are not included.
    pub(crate) protocols: Vec<ProtocolFigures>,
}

/// The flows of one protocol.
#[derive(Debug, Serialize)]
pub(crate) struct ProtocolFigures {
    pub(crate) name: &'static str,
    pub(crate) flows: u64,
    /// Number of these flows for each confidence of the label.
    pub(crate) guess: u64,
    pub(crate) one_side: u64,
    pub(crate) both_sides: u64,
    pub(crate) packets: u64,
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
