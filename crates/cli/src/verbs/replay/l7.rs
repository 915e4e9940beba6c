//! The L7 filter: its patterns, and what it named.

use std::collections::HashMap;

use flowloom::apps::{L7Options, L7Plan, L7State};
use flowloom::dpi::{self, load::LoadError};
use flowloom::engine::{FlowState, FlowValue, RunReport};

use crate::args::replay::{AppName, Replay};
use crate::exit::Failure;
use crate::render::replay::{L7Figures, ProtocolFigures};

/// Returns the plan of `--app l7`; refuses its options with another application.
pub(super) fn plan(arguments: &Replay) -> Result<Option<L7Plan>, Failure> {
    if arguments.app != AppName::L7 {
        if arguments.l7_rescan || arguments.l7_packets.is_some() || !arguments.patterns.is_empty() {
            return Err(Failure::Usage(String::from(
                "--patterns, --l7-packets and --l7-rescan are for --app l7\n  add --app l7",
            )));
        }
        return Ok(None);
    }
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("--app l7: {error}"));
    let mut patterns = Vec::new();
    for path in &arguments.patterns {
        patterns.extend(dpi::load::load(path).map_err(|error| match error {
            LoadError::Io { path, error } => {
                Failure::Input(format!("cannot read {}: {error}", path.display()))
            }
            error => Failure::Input(error.to_string()),
        })?);
    }
    if arguments.patterns.is_empty() {
        patterns = dpi::builtin();
    }
    let usual = L7Options::default();
    let options = L7Options {
        packets_max: arguments.l7_packets.unwrap_or(usual.packets_max),
        rescan: arguments.l7_rescan,
        ..usual
    };
    L7Plan::new(&patterns, options).map(Some).map_err(|error| usage(&error))
}

/// Returns what the flows of a run were named, from the columns of their results.
pub(super) fn figures<F: FlowState>(plan: &L7Plan, report: &RunReport<F>) -> L7Figures {
    let (totals, scanner) = (plan.totals(), plan.scanner());
    let mut figures = L7Figures {
        patterns: scanner.names().len() as u64,
        table_bytes: scanner.size().bytes as u64,
        matched: 0,
        no_match: 0,
        no_match_yet: 0,
        inspected_packets: 0,
        inspected_bytes: 0,
        scanned_bytes: totals.scanned_bytes,
        overlap_bytes: 0,
        gap_bytes: 0,
        windows_taken_back: totals.taken_back,
        directions_lost: totals.lost,
        protocols: Vec::new(),
    };
    let mut protocols: HashMap<&'static str, ProtocolFigures> = HashMap::new();
    let mut values = Vec::new();
    for record in &report.flows {
        values.clear();
        record.state.values(&mut values);
        let value = |column: &str| F::COLUMNS.iter().position(|&name| name == column).map(|at| values[at]);
        let count = |column| match value(column) {
            Some(FlowValue::Count(count)) => count,
            _ => 0,
        };
        let word = |column| match value(column) {
            Some(FlowValue::Word(word)) => word,
            _ => "-",
        };
        let state = word("l7_state");
        figures.matched += u64::from(state == L7State::Matched.name());
        figures.no_match += u64::from(state == L7State::NoMatch.name());
        figures.no_match_yet += u64::from(state == L7State::NoMatchYet.name());
        figures.inspected_packets += count("inspected_packets");
        figures.inspected_bytes += count("inspected_bytes");
        figures.overlap_bytes += count("overlap_bytes");
        figures.gap_bytes += count("gap_bytes");
        if state == L7State::Matched.name() {
            let name = word("l7_protocol");
            let protocol = protocols.entry(name).or_insert(ProtocolFigures {
                name,
                flows: 0,
                packets: 0,
                bytes_on_wire: 0,
            });
            protocol.flows += 1;
            protocol.packets += count("packets");
            protocol.bytes_on_wire += count("bytes");
        }
    }
    figures.protocols = protocols.into_values().collect();
    figures.protocols.sort_by_key(|protocol| (std::cmp::Reverse(protocol.flows), protocol.name));
    figures
}
