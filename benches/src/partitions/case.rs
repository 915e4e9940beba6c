//! Runs one input in all layouts, with every application.

use std::path::PathBuf;
use std::sync::Arc;

use flowloom::apps::firewall::{Defaults, Firewall, FirewallOptions, FirewallRules, LiveRules};
use flowloom::apps::{Accounting, L7Plan, Null, TcpTracker};
use flowloom::classifier::{Action, PortRange, Rule, RuleSet};
use flowloom::engine::counters::{InputCounters, WorkerCounters};
use flowloom::engine::{
    App, Control, Cores, EngineConfig, FlowRecord, FlowTimeouts, IdleTimeout, Layout, Outputs, RecordSink,
    RunReport, ShardedReport, ShardedRun, SinkError, run, run_sharded_with,
};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::flow_table::{BuildError, DHash, DHashConfig, FlowTable, Growing};
use flowloom::packet::{DecodeOptions, DropCounts};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{
    CaptureParts, CaptureSet, FileSummary, Input, Notice, PlanError, SetOptions,
};

use crate::partitions::checked::Checked;
use crate::partitions::draw::Draw;
use crate::partitions::part::Cut;

/// Inputs with more bytes are divided into one set of parts, others into several.
const LARGE_BYTES: u64 = 4 << 20;
const SETS_OF_PARTS: usize = 3;
const WORKERS_MAX: u64 = 16;
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
    /// Without the flows that ended by timeout, because a table may have removed a different number
    /// of them by the end.
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
        let seconds = |draw: &mut Draw| draw.of(&[None, Some(1), Some(15)]).map(|s: u64| s * SECOND_NS);
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
        let expected = self.whole(Layout::Inline, make());
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
        same("pipeline of 2 workers", &self.whole(Layout::Pipeline { workers: 2 }, make()))?;
        let sets = if self.bytes > LARGE_BYTES { 1 } else { SETS_OF_PARTS };
        for _ in 0..sets {
            let offsets = offsets(&mut self.draw, self.bytes);
            let (found, sharded) = self.in_parts(&offsets, make());
            same(&format!("sharded, cut near {offsets:?}: {sharded:?}"), &found)?;
            checked.cuts += sharded.parts.saturating_sub(1) as u64;
            checked.parts_reread += sharded.parts_reread as u64;
            checked.flows_reprocessed += sharded.flows_reprocessed;
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
        let timeouts = self.timeouts.for_table();
        let limits = GrowthLimits {
            first_flows: 256,
            flows_max: DHashConfig::FLOWS_MAX,
            memory_max_bytes: u64::MAX,
        };
        Growing::try_new(limits, move |flows| {
            DHash::<FlowKey, V>::try_new(&DHashConfig { timeouts, ..DHashConfig::for_flows(flows) })
        })
    }

    /// Runs an application on the whole input.
    fn whole<A: App>(&self, layout: Layout, (app, counts): (impl Fn() -> A, impl Fn() -> String)) -> Found {
        let mut set = CaptureSet::open(&self.inputs, SetOptions::default()).map_err(|e| e.to_string())?;
        let workers = WorkerCount::new(layout.workers()).map_err(|error| error.to_string())?;
        let report = run(
            &self.config(layout),
            &mut set,
            &mut DirectHash::new(workers),
            |_| self.table(),
            |_| app(),
            &Control::default(),
        )
        .map_err(|error| error.to_string())?;
        let undecodable = set.check_decodable().err().map(|error| error.to_string());
        facts::<A>(&report, set.notices(), set.files(), undecodable, counts())
    }

    /// Runs an application on the input in parts. Returns how the parts were composed.
    fn in_parts<A: App>(
        &self,
        offsets: &[u64],
        (app, counts): (impl Fn() -> A, impl Fn() -> String),
    ) -> (Found, ShardedReport) {
        let mut sharded = ShardedReport::default();
        let mut found = || {
            let options = SetOptions::default();
            let plan = match CaptureParts::plan_at(&self.inputs, options, offsets) {
                // An input that cannot be divided is one part.
                Err(PlanError::NotCuttable(_)) => CaptureParts::plan_at(&self.inputs, options, &[]),
                plan => plan,
            };
            let plan = plan.map_err(|error| error.to_string())?;
            // Any number of rounds, with records that are kept or passed to a sink after each
            // round.
            let drawn = offsets.iter().fold(0, |all: u64, offset| all.wrapping_mul(31) ^ offset);
            let workers = 1 + drawn.count_ones() as usize % plan.len();
            let config = self.config(Layout::Sharded { workers });
            let (control, mut sink) = (Control::default(), Discard);
            let mut outputs = Outputs::default();
            outputs.records = (drawn >> 32 & 1 == 0).then_some(&mut sink as _);
            let (table, app) = (|_| self.table(), |_| app());
            let run = run_sharded_with(&config, &Cut(&plan), table, app, &control, outputs);
            let ShardedRun { report, reads, .. } = run.map_err(|error| error.to_string())?;
            sharded = report.sharded.unwrap_or_default();
            let summary = plan.summary(&reads);
            let undecodable = summary.check_decodable().err().map(|error| error.to_string());
            facts::<A>(&report, &summary.notices, summary.files, undecodable, counts())
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
    let mut workers = report.worker_totals();
    workers.flows_expired = 0;
    Ok(Box::new(Facts {
        digest: report.digest(),
        records: report.record_count(),
        input: report.input.clone(),
        dropped: report.dropped(),
        workers,
        fault: report.fault.as_ref().map(ToString::to_string),
        notices: notices.to_vec(),
        files,
        undecodable,
        counts,
    }))
}

/// Returns offsets that divide the input into 2 to 16 parts: at random places, or all near one
/// place, so that parts have few packets.
fn offsets(draw: &mut Draw, bytes: u64) -> Vec<u64> {
    let cuts = 1 + draw.below(WORKERS_MAX - 1);
    let is_near = draw.one_in(4);
    let middle = draw.below(bytes.max(1));
    let mut offset = || if is_near { middle + draw.below(4_000) } else { draw.below(bytes.max(1)) };
    (0..cuts).map(|_| offset()).collect()
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
