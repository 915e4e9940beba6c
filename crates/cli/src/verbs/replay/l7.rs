//! The L7 filter: its patterns, and its labels.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use flowloom::apps::{Confidence, L7Flow, L7Options, L7Plan, L7State};
use flowloom::dpi::{self, load::LoadError};
use flowloom::record::Word;

use crate::args::replay::Replay;
use crate::exit::Failure;
use crate::memory_budget::Budget;
use crate::render::replay::{L7Figures, ProtocolFigures};

/// Returns the plan of a run that labels flows; refuses its options for other runs.
pub(super) fn plan(arguments: &Replay, labels: bool) -> Result<Option<L7Plan>, Failure> {
    if !labels {
        if arguments.l7_rescan || arguments.l7_packets.is_some() || !arguments.patterns.is_empty() {
            return Err(Failure::Usage(String::from(
                "--patterns, --l7-packets and --l7-rescan are for labels of protocols\n  add --app l7, \
                 or --fields l7",
            )));
        }
        return Ok(None);
    }
    let usual = L7Options::default();
    let options = L7Options {
        packets_max: arguments.l7_packets.unwrap_or(usual.packets_max),
        rescan: arguments.l7_rescan,
        ..usual
    };
    // Windows, and the buffers of a rescan, take at most a sixteenth of the memory each.
    let part = usize::try_from(Budget::of_free(arguments.memory).bytes() / 16).unwrap_or(usize::MAX);
    let at_most = |usual: usize, bytes: usize| usual.min(part / bytes).max(64);
    let options = L7Options {
        windows_max: at_most(options.windows_max, options.window_bytes * 9 / 8),
        buffers_max: at_most(options.buffers_max, options.bytes_max),
        ..options
    };
    load_patterns(&arguments.patterns, options, "--app l7").map(Some)
}

/// Loads patterns from files, or the built-in ones if there are no paths. `option` is the name of
/// the option that needs them.
pub(crate) fn load_patterns(
    paths: &[PathBuf],
    options: L7Options,
    option: &str,
) -> Result<L7Plan, Failure> {
    let mut patterns = Vec::new();
    for path in paths {
        patterns.extend(dpi::load::load(path).map_err(|error| match error {
            LoadError::Io { path, error } => {
                Failure::Input(format!("cannot read {}: {error}", path.display()))
            }
            error => Failure::Input(error.to_string()),
        })?);
    }
    if paths.is_empty() {
        patterns = dpi::builtin();
    }
    L7Plan::new(&patterns, options).map_err(|error| Failure::Usage(format!("{option}: {error}")))
}

/// Returns the labels that flows may have, for as long as the process lives.
pub(super) fn words(plan: &L7Plan) -> &'static [Word] {
    let names: BTreeSet<&str> = std::iter::once("-").chain(plan.scanner().names()).collect();
    let word = |name: &str| Word::new(Box::leak(name.to_owned().into_boxed_str()), 0);
    names.into_iter().map(word).collect::<Vec<_>>().leak()
}

/// The labels of the flows of a run, from the columns of their records.
#[derive(Debug, Default)]
pub(super) struct Labels {
    matched: u64,
    no_match: u64,
    no_match_yet: u64,
    inspected_packets: u64,
    inspected_bytes: u64,
    overlap_bytes: u64,
    gap_bytes: u64,
    protocols: HashMap<&'static str, ProtocolFigures>,
}

impl Labels {
    /// Adds the protocol label of a record.
    pub(super) fn add(&mut self, flow: &L7Flow) {
        match flow.state() {
            L7State::Matched => self.matched += 1,
            L7State::NoMatch => self.no_match += 1,
            L7State::NoMatchYet => self.no_match_yet += 1,
        }
        let (overlap_bytes, gap_bytes) = flow.overlap_and_gap_bytes();
        self.inspected_packets += u64::from(flow.inspected_packets());
        self.inspected_bytes += flow.inspected_bytes();
        self.overlap_bytes += overlap_bytes;
        self.gap_bytes += gap_bytes;
        let (Some(name), Some(confidence)) = (flow.protocol(), flow.confidence()) else { return };
        let new = ProtocolFigures {
            name,
            flows: 0,
            guess: 0,
            one_side: 0,
            both_sides: 0,
            packets: 0,
            bytes_on_wire: 0,
        };
        let is = |of: Confidence| u64::from(confidence == of);
        let protocol = self.protocols.entry(name).or_insert(new);
        protocol.flows += 1;
        protocol.guess += is(Confidence::Guess);
        protocol.one_side += is(Confidence::OneSide);
        protocol.both_sides += is(Confidence::BothSides);
        protocol.packets += flow.packets();
        protocol.bytes_on_wire += flow.bytes();
    }

    /// Adds the labels of other records.
    pub(super) fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        self.no_match += other.no_match;
        self.no_match_yet += other.no_match_yet;
        self.inspected_packets += other.inspected_packets;
        self.inspected_bytes += other.inspected_bytes;
        self.overlap_bytes += other.overlap_bytes;
        self.gap_bytes += other.gap_bytes;
        for (name, of_other) in other.protocols {
            let Some(all) = self.protocols.get_mut(name) else {
                self.protocols.insert(name, of_other);
                continue;
            };
            all.flows += of_other.flows;
            all.guess += of_other.guess;
            all.one_side += of_other.one_side;
            all.both_sides += of_other.both_sides;
            all.packets += of_other.packets;
            all.bytes_on_wire += of_other.bytes_on_wire;
        }
    }

    /// Returns the figures of a run.
    pub(super) fn figures(self, plan: &L7Plan) -> L7Figures {
        let (totals, scanner) = (plan.totals(), plan.scanner());
        let mut protocols: Vec<_> = self.protocols.into_values().collect();
        protocols.sort_by_key(|protocol| (std::cmp::Reverse(protocol.flows), protocol.name));
        L7Figures {
            patterns: scanner.names().len() as u64,
            table_bytes: scanner.size().bytes as u64,
            matched: self.matched,
            no_match: self.no_match,
            no_match_yet: self.no_match_yet,
            inspected_packets: self.inspected_packets,
            inspected_bytes: self.inspected_bytes,
            scanned_bytes: totals.scanned_bytes,
            overlap_bytes: self.overlap_bytes,
            gap_bytes: self.gap_bytes,
            windows_taken_back: totals.reclaimed,
            directions_lost: totals.lost,
            protocols,
        }
    }
}
