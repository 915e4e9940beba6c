//! Runs one input in all layouts, with every application.

use std::path::PathBuf;
use std::sync::Arc;

use flowloom::apps::firewall::{Defaults, Firewall, FirewallOptions, FirewallRules, LiveRules};
use flowloom::apps::{Accounting, L7Plan, Null, TcpTracker};
use flowloom::classifier::{Action, PortRange, Rule, RuleSet};
use flowloom::engine::counters::{InputCounters, WorkerCounters};
use flowloom::engine::{
    App, Control, Cores, Endpoints, EngineConfig, FlowRecord, FlowTimeouts, IdleTimeout, Layout,
    RecordSink, RunReport, ShardedReport, SinkError, run_seeded, run_with,
};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::{BuildError, DHash, FlowTable, Growing, TableOptions};
use flowloom::packet::{DecodeOptions, DropCounts};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{CaptureSet, FileSummary, Input, Notice, SetOptions};

use crate::partitions::checked::Checked;
use crate::partitions::draw::Draw;

/// Inputs with more bytes are run in shards once, others several times.
const LARGE_BYTES: u64 = 4 << 20;
const SCHEDULES: usize = 3;
const WORKERS_MAX: usize = 16;
const SECOND_NS: u64 = 1_000_000_000;

/// An input, and the options of its runs.
pub(super) struct Case<'a> {
    inputs: Vec<Input>,
    bytes: u64,
    l7: &'a L7Plan,
    decode: DecodeOptions,
    timeouts: FlowTimeouts,
    /// Active timeout of records, in accounting.
    active_ns: Option<u64>,
    firewall: FirewallOptions,
    draw: Draw,
}

/// Everything about a run that must not depend on the layout, or the reason why it did not start.
type Found = Result<Box<Facts>, String>;

#[derive(Debug, PartialEq, Eq)]
struct Facts {
    digest: String,
    records: u64,
    input: InputCounters,
    dropped: DropCounts,
    workers: WorkerCounters,
    fault: Option<String>,
    notices: Vec<Notice>,
    files: Vec<FileSummary>,
    /// The reason why nothing in the input can be decoded.
    undecodable: Option<String>,
    /// Counts of the application other than flows.
    counts: String,
}

impl<'a> Case<'a> {
    pub(super) fn new(draw: &mut Draw, inputs: &[PathBuf], l7: &'a L7Plan) -> Self {
        let bytes = inputs.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len());
        let seconds = |draw: &mut Draw| draw.choice(&[None, Some(1), Some(15)]).map(|s: u64| s * SECOND_NS);
        Self {
            inputs: inputs.iter().cloned().map(Input::Path).collect(),
            bytes: bytes.sum(),
            l7,
            decode: DecodeOptions::default().with_decap(draw.one_in(2)),
            timeouts: FlowTimeouts {
                idle: seconds(draw).map(IdleTimeout::from_ns),
                closed: seconds(draw).map(IdleTimeout::from_ns),
            },
            active_ns: seconds(draw),
            firewall: FirewallOptions { strict_tcp: draw.one_in(2), per_packet: draw.one_in(4) },
            draw: draw.clone(),
        }
    }

    /// Compares the layouts. Fails with the first difference.
    pub(super) fn check(&mut self, checked: &mut Checked) -> Result<(), String> {
        let none = String::new;
        self.app(checked, "null", || (|| Null, none))?;
        self.app(checked, "tcp-tracker", || (|| TcpTracker, none))?;
        let active_ns = self.active_ns;
        self.app(checked, "accounting", || (move || Accounting::new(active_ns), none))?;
        let l7 = self.l7;
        self.app(checked, "l7", || (|| l7.app(), none))?;
        let (rules, options) = (rules()?, self.firewall);
        self.app(checked, "firewall", || {
            let rules = FirewallRules::scanning(rules.clone(), Defaults::default());
            let live = Arc::new(LiveRules::new(rules));
            let counts = Arc::clone(&live);
            (move || Firewall::new(Arc::clone(&live), options), move || format!("{:?}", counts.counts()))
        })
    }

    fn app<A, F, C>(
        &mut self,
        checked: &mut Checked,
        name: &str,
        make: impl Fn() -> (F, C),
    ) -> Result<(), String>
    where
        A: App,
        F: Fn() -> A,
        C: Fn() -> String,
    {
        let (expected, _) = self.run(&self.config(Layout::Inline), None, make());
        let same = |layout: &str, found: &Found| {
            if *found == expected {
                return Ok(());
            }
            Err(format!(
                "{name}: {layout} differs from inline, with {:?}, idle timeouts {:?}, active timeout {:?} ns, {:?}\n\
                 inline: {expected:#?}\n{layout}: {found:#?}",
                self.decode, self.timeouts, self.active_ns, self.firewall,
            ))
        };
        let pipeline = self.config(Layout::Pipeline { workers: 2 });
        same("pipeline of 2 workers", &self.run(&pipeline, None, make()).0)?;
        let schedules = if self.bytes > LARGE_BYTES { 1 } else { SCHEDULES };
        for _ in 0..schedules {
            let workers = 2 + self.draw.index(WORKERS_MAX - 1);
            let chunk_packets = chunk_packets(&mut self.draw, self.bytes);
            let config = EngineConfig { chunk_packets, ..self.config(Layout::Sharded { workers }) };
            let seed = self.draw.below(u64::MAX);
            let (found, sharded) = self.run(&config, Some(seed), make());
            let schedule = format!("{workers} workers, chunks of {chunk_packets} packets, seed {seed}");
            same(&format!("sharded, {schedule}: {sharded:?}"), &found)?;
            checked.cuts += sharded.chunks.saturating_sub(1);
            checked.lists_moved += sharded.lists_moved;
        }
        Ok(())
    }

    fn config(&self, layout: Layout) -> EngineConfig {
        EngineConfig {
            cores: Cores::Unpinned,
            ring_slots: 256,
            hasher: FlowHasher::with_seed(5),
            decode: self.decode,
            idle_timeout: self.timeouts.idle,
            closed_timeout: self.timeouts.closed,
            ..EngineConfig::new(layout)
        }
    }

    fn table<V: Send + 'static>(&self) -> Result<impl FlowTable<FlowKey, V> + Send + use<V>, BuildError> {
        let options = TableOptions {
            timeouts: self.timeouts.for_table(),
            ..TableOptions::for_flows(TableOptions::FLOWS_MAX)
        };
        Growing::try_new(256, options, DHash::<FlowKey, V>::try_new)
    }

    /// Runs an application: in the schedule of a seed, or on threads. Also returns how the threads
    /// of the sharded layout shared the work.
    fn run<A: App>(
        &self,
        config: &EngineConfig,
        seed: Option<u64>,
        (app, counts): (impl Fn() -> A, impl Fn() -> String),
    ) -> (Found, ShardedReport) {
        let mut sharded = ShardedReport::default();
        let mut found = || {
            let mut set =
                CaptureSet::open(&self.inputs, SetOptions::default()).map_err(|e| e.to_string())?;
            let workers = WorkerCount::new(config.layout.workers()).map_err(|e| e.to_string())?;
            let (mut policy, control, mut sink) = (DirectHash::new(workers), Control::default(), Discard);
            let endpoints = Endpoints::new(&mut set, &mut policy, &control);
            let (table, app) = (|_| self.table(), |_| app());
            let report = match seed {
                None => run_with(config, endpoints, table, app).map_err(|e| e.to_string())?,
                Some(seed) => {
                    // Records are kept, or passed to a sink.
                    let endpoints = endpoints.with_records((seed & 1 == 0).then_some(&mut sink as _));
                    run_seeded(config, endpoints, table, app, seed).map_err(|e| e.to_string())?
                }
            };
            sharded = report.sharded.unwrap_or_default();
            let undecodable = set.check_decodable().err().map(|error| error.to_string());
            facts::<A>(&report, set.notices(), set.files(), undecodable, counts())
        };
        (found(), sharded)
    }
}

/// A sink that discards records; the report has their digest.
struct Discard;

impl<F> RecordSink<F> for Discard {
    fn write(&mut self, _: &[FlowRecord<F>]) -> Result<(), SinkError> {
        Ok(())
    }
}

fn facts<A: App>(
    report: &RunReport<A::Flow>,
    notices: &[Notice],
    files: Vec<FileSummary>,
    undecodable: Option<String>,
    counts: String,
) -> Found {
    if !report.is_balanced() {
        return Err(String::from("the counts of packets do not add up"));
    }
    Ok(Box::new(Facts {
        digest: report.digest(),
        records: report.record_count(),
        input: report.input.clone(),
        dropped: report.dropped(),
        workers: report.worker_totals(),
        fault: report.fault.as_ref().map(ToString::to_string),
        notices: notices.to_vec(),
        files,
        undecodable,
        counts,
    }))
}

/// Returns a number of packets for each chunk: from one to more than a small input has. A large
/// input is divided into a few thousand chunks at most.
fn chunk_packets(draw: &mut Draw, bytes: u64) -> usize {
    let least = usize::try_from(bytes >> 20).unwrap_or(usize::MAX);
    let below = 1 << draw.below(13);
    (1 + draw.index(below)).saturating_add(least).min(1 << 16)
}

/// Returns several rules for the ports of generated and given captures.
fn rules() -> Result<RuleSet, String> {
    let from =
        |port, action| Rule { action: Some(action), source_ports: PortRange::exact(port), ..Rule::ANY };
    let to = |port, action| Rule {
        action: Some(action),
        destination_ports: PortRange::exact(port),
        ..Rule::ANY
    };
    let rules = vec![
        from(443, Action::Deny),
        to(53, Action::Accept),
        to(80, Action::Accept),
        from(53, Action::Deny),
        to(22, Action::Deny),
    ];
    RuleSet::new(rules).map_err(|error| error.to_string())
}
