//! Measures the packet path: stages, scaling, latency.

use std::fmt;
use std::sync::Arc;

use flowloom::apps::firewall::{Defaults, FirewallOptions, FirewallRules, LiveRules};
use flowloom::apps::{Accounting, Firewall, L7Options, L7Plan, Null, TcpTracker};
use flowloom::classifier::synth::{self, Profile};
use flowloom::classifier::{ClassifierBuilder, RuleSet};
use flowloom::cpu::features::Isa;
use flowloom::cpu::topology::allowed_cpus;
use flowloom::dpi;
use flowloom::engine::{
    App, Control, Cores, Endpoints, EngineConfig, Layout, Order, PolicyRef, RunReport, run_with,
};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::{BuildError, FlowTable, Growing, LineHash, TableOptions};
use flowloom::packet::PacketSource;
use flowloom::scheduler::registry::Policy;
use flowloom::scheduler::{OrderGuarantee, Topology, WorkerCount};
use flowloom_measure::cpu_distance::furthest_round_trip_ns;
use flowloom_measure::distances::{Distances, Sorted};
use flowloom_measure::path::hand::hand_loop;
use flowloom_measure::path::input::CaptureFile;
use flowloom_measure::path::looped::{Looped, count};
use flowloom_measure::path::open_loop::{Latencies, OpenLoop};
use flowloom_measure::path::walk::{walk, walk_parse, walk_parse_hash};
use flowloom_measure::{Elapsed, Host, Lap, LatencyRow, RatioRow, Report, ResultRow, Rounds, Samples};
use serde_json::json;

use crate::args::Common;
use crate::args::bench::pipeline::{PathApp, Pipeline};
use crate::args::rules::RuleOptions;
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::render::bench::BenchResult;
use crate::render::counted;
use crate::rule_file;
use crate::signals::stop_on_signals;

/// The seed of the hash; it is the same in all rounds.
const SEED: u64 = 1;
/// Packets and flows of a generated capture.
const GENERATED: (u64, u64) = (200_000, 10_000);
/// Rules of a generated set.
const RULES: usize = 1000;
/// Maximum number of packets in a latency run.
const LATENCY_PACKETS_MAX: u64 = 2_000_000;
/// Target duration of a latency run, in seconds.
const LATENCY_SECONDS: f64 = 2.0;
/// The quantiles to report.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// Runs the command.
pub(crate) fn run(arguments: &Pipeline, common: &Common) -> Result<Status, Failure> {
    if arguments.rounds == 0 {
        return Err(Failure::Usage(String::from("--rounds must be at least 1")));
    }
    if let Some(percent) = arguments.rates.iter().find(|&&percent| percent == 0 || percent > 1000) {
        return Err(Failure::Usage(format!("--rates {percent}: must be between 1 and 1000 percent")));
    }
    let workers = worker_counts(arguments)?;
    let rules = rules(arguments)?;
    let _kept = arguments.save.open()?;
    let file = match &arguments.input {
        Some(path) => CaptureFile::open(path)
            .map_err(|error| Failure::Input(format!("cannot read {}: {error}", path.display())))?,
        None => CaptureFile::generate(GENERATED.0, GENERATED.1)
            .map_err(|error| Failure::Output(format!("cannot write a generated capture: {error}")))?,
    };
    let pass = count(file.path()).map_err(|error| Failure::Input(error.to_string()))?;
    if pass == 0 {
        return Err(Failure::Input(format!(
            "{} has no packets: nothing to measure",
            file.path().display()
        )));
    }
    let round = pass * arguments.packets.div_ceil(pass).min(u64::MAX / pass);
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let mut report = Report::new(tool(), Host::read(Isa::detect().to_string(), &[]));
    report.input = Some(json!({
        "kind": if arguments.input.is_some() { "capture" } else { "generated" },
        "name": file.name,
        "packets_of_a_pass": pass,
        "packets_of_a_round": round,
        "scheduler": arguments.scheduler.name(),
        "app": app_name(arguments.app),
        "rules": rules.as_ref().map(|_| {
            arguments.rules.as_ref().map_or_else(|| String::from("generated"), |path| path.display().to_string())
        }),
        "rule_count": rules.as_ref().map(RuleSet::len),
    }));
    let bench = Bench { arguments, file: &file, round, control: &control, workers: &workers };
    match arguments.app {
        PathApp::Null => bench.run(|| Null, &mut report),
        PathApp::TcpTracker => bench.run(|| TcpTracker, &mut report),
        PathApp::Firewall => {
            let builder = ClassifierBuilder::new();
            let rules = FirewallRules::build(rules.unwrap_or_default(), Defaults::default(), builder)
                .map_err(|error| Failure::Usage(error.to_string()))?;
            let live = Arc::new(LiveRules::new(rules));
            bench.run(|| Firewall::new(Arc::clone(&live), FirewallOptions::default()), &mut report)
        }
        PathApp::Accounting => bench.run(|| Accounting::new(None), &mut report),
        PathApp::L7 => {
            let plan = L7Plan::new(&dpi::builtin(), L7Options::default())
                .map_err(|error| Failure::Experiment(error.to_string()))?;
            bench.run(|| plan.app(), &mut report)
        }
    }?;
    let status = if report.complete { Status::Ok } else { Status::Interrupted };
    BenchResult { title: "bench pipeline", report }.finish(&arguments.save, common)?;
    Ok(status)
}

fn app_name(app: PathApp) -> &'static str {
    match app {
        PathApp::Null => "null",
        PathApp::TcpTracker => "tcp-tracker",
        PathApp::Firewall => "firewall",
        PathApp::Accounting => "accounting",
        PathApp::L7 => "l7",
    }
}

/// Returns the rules of the firewall from a file or generated; `None` for another application.
fn rules(arguments: &Pipeline) -> Result<Option<RuleSet>, Failure> {
    if arguments.app != PathApp::Firewall {
        return match &arguments.rules {
            Some(_) => Err(Failure::Usage(String::from(
                "--rules is for --app firewall\n  add --app firewall, or omit --rules",
            ))),
            None => Ok(None),
        };
    }
    let Some(path) = &arguments.rules else {
        let set = synth::rules(Profile::Acl, RULES, SEED, false);
        return set.map(Some).map_err(|error| Failure::Experiment(error.to_string()));
    };
    let options = RuleOptions { rules: path.clone(), table: None, file: arguments.file.clone() };
    rule_file::read(&options).map(|file| Some(file.policy.set().clone()))
}

/// Returns the numbers of workers: the requested ones, or powers of two up to the number of CPUs.
fn worker_counts(arguments: &Pipeline) -> Result<Vec<usize>, Failure> {
    let max = Layout::WORKERS_MAX;
    if let Some(workers) = arguments.workers.iter().find(|&&workers| workers == 0 || workers > max) {
        return Err(Failure::Usage(format!("--workers {workers}: must be between 1 and {max}")));
    }
    if !arguments.workers.is_empty() {
        return Ok(arguments.workers.clone());
    }
    let spare = allowed_cpus().map_or(1, |cpus| cpus.len().saturating_sub(1)).clamp(2, 16);
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |&n| Some(2 * n)).take_while(|&n| n <= spare).collect();
    if counts.last().is_some_and(|&last| last < spare) {
        counts.push(spare);
    }
    Ok(counts)
}

/// The answer that every variant of a round must give: the number of packets.
#[derive(Clone, PartialEq, Eq)]
struct Answer(Result<u64, String>);

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(packets) => f.write_str(&counted(*packets, "packet")),
            Err(error) => write!(f, "'{error}'"),
        }
    }
}

struct Bench<'a> {
    arguments: &'a Pipeline,
    file: &'a CaptureFile,
    round: u64,
    control: &'a Arc<Control>,
    workers: &'a [usize],
}

impl Bench<'_> {
    fn run<A: App>(&self, app: impl Fn() -> A, report: &mut Report) -> Result<(), Failure> {
        self.stages(&app, report)?;
        let rates = if report.complete { self.scaling(&app, report)? } else { Vec::new() };
        if report.complete {
            self.latencies(&app, &rates, report)?;
        }
        Ok(())
    }

    fn looped(&self) -> Result<Looped, Failure> {
        let source = Looped::open(self.file.path(), self.round).map_err(Failure::from)?;
        Ok(source.until_stopped(Arc::clone(self.control)))
    }

    /// Measures the cost of each step of inline mode, on one thread.
    fn stages<A: App>(&self, app: &impl Fn() -> A, report: &mut Report) -> Result<(), Failure> {
        let hasher = FlowHasher::with_seed(SEED);
        let mut sources = Vec::new();
        for _ in 0..6 {
            sources.push(self.looped()?);
        }
        let [read, decode, hash, by_hand, null, inline] = &mut sources[..] else {
            unreachable!("six were opened")
        };
        let app_name = app_name(self.arguments.app);
        // The source measures its own time, so building tables and sorting results is excluded.
        let rounds = Rounds::new(self.arguments.rounds)
            .variant_with_lap("read", timed(read, |source| Ok(walk(source).map_err(text)?.packets)))
            .variant_with_lap(
                "+ decode",
                timed(decode, |source| Ok(walk_parse(source).map_err(text)?.packets)),
            )
            .variant_with_lap(
                "+ hash",
                timed(hash, |source| Ok(walk_parse_hash(source, &hasher).map_err(text)?.packets)),
            )
            .variant_with_lap("+ table (inline null)", timed(null, |source| self.inline(source, || Null)))
            .variant_with_lap(
                format!("+ app (inline {app_name})"),
                timed(inline, |source| self.inline(source, app)),
            )
            .variant_with_lap(
                format!("hand-written, {app_name}"),
                timed(by_hand, |source| {
                    let mut table = table::<A::Flow>(1).map_err(text)?;
                    let found = hand_loop(source, &hasher, &mut table, &mut app()).map_err(text)?;
                    Ok(found.packets)
                }),
            );
        let Some(samples) = self.rounds(rounds, || (), report)? else { return Ok(()) };
        let work = "one thread, CPU ns per packet";
        report
            .results
            .extend(samples.iter().map(|samples| ResultRow::new(work, self.round, self.round, samples)));
        let (engine, hand) = (&samples[4], &samples[5]);
        report.ratios.push(
            RatioRow::of_times(
                "hand-written inline loop", self.round, &hand.name, &hand.cpu_ns, &engine.cpu_ns,
            )
            .with_items(self.round, &hand.cpu_ns, &engine.cpu_ns),
        );
        Ok(())
    }

    /// Measures the wall time of each layout, separately for near and far rounds; returns the
    /// maximum packets per second of each.
    fn scaling<A: App>(
        &self,
        app: &impl Fn() -> A,
        report: &mut Report,
    ) -> Result<Vec<(Layout, f64)>, Failure> {
        let modes: Vec<Layout> = std::iter::once(Layout::Inline)
            .chain(self.workers.iter().map(|&workers| Layout::Pipeline { workers }))
            .collect();
        let mut rounds = Rounds::new(self.arguments.rounds);
        for &mode in &modes {
            let mut source = self.looped()?;
            rounds = rounds.variant_with_lap(layout(mode), move |lap: &mut Lap| {
                source.rewind();
                let outcome = self.engine(mode, &mut source, app);
                Answer(outcome.map(|report| {
                    let wall_ns = u64::try_from(report.elapsed.as_nanos()).unwrap_or(u64::MAX);
                    let threads = report.workers.iter().filter(|_| mode != Layout::Inline);
                    let busy: std::time::Duration =
                        threads.filter_map(|worker| worker.busy).chain(report.input_busy).sum();
                    let cpu_ns = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
                    lap.add(Elapsed { cpu_ns, wall_ns });
                    report.input.packets
                }))
            });
        }
        let cpus = self.cpus_in_use();
        let mut trips = Vec::new();
        let mut listen = || {
            if cpus.len() > 1 {
                trips.push(furthest_round_trip_ns(&cpus));
            }
        };
        let Some(samples) = self.rounds(rounds, &mut listen, report)? else { return Ok(Vec::new()) };
        listen();
        // The trips before the warm-up rounds are not needed.
        let warm_up = trips.len().saturating_sub(self.arguments.rounds.saturating_add(1));
        let distances = Distances::from_round_trips(&trips[warm_up..]);
        for part in distances.sort(&samples) {
            self.scaling_rows(&part, report);
        }
        report.distances = Some(distances);
        let most = |samples: &Samples| {
            let quickest = samples.wall_ns.iter().min().copied().unwrap_or(u64::MAX);
            self.round as f64 / (quickest as f64 / 1e9)
        };
        Ok(modes.into_iter().zip(samples.iter().map(most)).collect())
    }

    /// Adds the rows of rounds of one kind.
    fn scaling_rows(&self, part: &Sorted, report: &mut Report) {
        let Sorted { suffix, line_round_trip_ns: line, samples } = part;
        for samples in samples {
            let row = |work: &str, times: &[u64]| {
                let work = format!("{work}{suffix}");
                ResultRow::of_times(work, self.round, self.round, &samples.name, times).with_line(*line)
            };
            report.results.push(row("all threads, wall ns per packet", &samples.wall_ns));
            report.results.push(row("all threads, CPU ns per packet, waiting included", &samples.cpu_ns));
        }
        let Some((inline, others)) = samples.split_first() else { return };
        report.ratios.extend(others.iter().map(|other| {
            let work = format!("{}, wall{suffix}", other.name);
            RatioRow::of_times(work, self.round, "inline", &inline.wall_ns, &other.wall_ns)
                .with_items(self.round, &inline.wall_ns, &other.wall_ns)
                .with_line(*line)
        }));
    }

    /// Returns the CPUs to which the threads of the layouts are pinned; empty without pinning.
    fn cpus_in_use(&self) -> Vec<u32> {
        let most = self.workers.iter().max().copied().unwrap_or(0);
        match allowed_cpus() {
            Ok(cpus) if !self.arguments.no_pin => cpus.into_iter().take(most + 1).collect(),
            _ => Vec::new(),
        }
    }

    /// Measures packet latency at shares of the maximum rate of each layout.
    fn latencies<A: App>(
        &self,
        app: &impl Fn() -> A,
        rates: &[(Layout, f64)],
        report: &mut Report,
    ) -> Result<(), Failure> {
        for &(mode, most) in rates {
            for &percent in &self.arguments.rates {
                let share = f64::from(percent) / 100.0;
                let rate = most * share;
                let packets = ((rate * LATENCY_SECONDS) as u64).clamp(1, LATENCY_PACKETS_MAX);
                let latencies = Latencies::default();
                let mut source = OpenLoop::new(self.endless()?, rate, packets);
                let ran = self
                    .engine(mode, &mut source, || latencies.behind(app()))
                    .map_err(Failure::Experiment)?;
                if self.control.is_stopped() {
                    report.complete = false;
                    return Ok(());
                }
                let (timed, at) = latencies.at(&QUANTILES);
                report.latencies.push(LatencyRow {
                    variant: layout(mode),
                    work: app_name(self.arguments.app).to_owned(),
                    rate,
                    share,
                    achieved: ran.processed() as f64 / ran.elapsed.as_secs_f64().max(1e-9),
                    packets: timed,
                    mean_ns: latencies.mean_ns(),
                    p50_ns: at[0],
                    p90_ns: at[1],
                    p99_ns: at[2],
                    p999_ns: at[3],
                    max_ns: at[4],
                });
            }
        }
        Ok(())
    }

    /// Returns the capture in an endless loop.
    fn endless(&self) -> Result<Looped, Failure> {
        Looped::open(self.file.path(), u64::MAX).map_err(Failure::from)
    }

    /// Runs rounds, and a closure before each; returns `None` if an interruption left none.
    fn rounds(
        &self,
        rounds: Rounds<'_, Answer>,
        mut before: impl FnMut(),
        report: &mut Report,
    ) -> Result<Option<Vec<Samples>>, Failure> {
        let go_on = || {
            before();
            !self.control.is_stopped()
        };
        match rounds.run_while(go_on) {
            Ok(outcome) => {
                outcome.answer.0.map_err(Failure::Experiment)?;
                report.complete &= outcome.complete;
                Ok(outcome.complete.then_some(outcome.samples))
            }
            Err(_) if self.control.is_stopped() => {
                report.complete = false;
                Ok(None)
            }
            Err(error) => Err(Failure::Experiment(error.to_string())),
        }
    }

    fn inline<A: App>(&self, source: &mut Looped, app: impl Fn() -> A) -> Result<u64, String> {
        let report = self.engine(Layout::Inline, source, app)?;
        Ok(report.input.packets)
    }

    /// Runs the engine; fails on a fault or an unbalanced report.
    fn engine<A: App>(
        &self,
        mode: Layout,
        source: &mut (dyn PacketSource + Send),
        app: impl Fn() -> A,
    ) -> Result<RunReport<A::Flow>, String> {
        let mut policy = self.policy(mode)?;
        let guarantee = policy.order();
        let config = EngineConfig {
            hasher: FlowHasher::with_seed(SEED),
            cores: if self.arguments.no_pin { Cores::Unpinned } else { Cores::Auto },
            order: if guarantee.keeps_flow_order() { Order::Internal } else { Order::External },
            ..EngineConfig::new(mode)
        };
        let tables = config.tables(if mode == Layout::Inline { OrderGuarantee::Home } else { guarantee });
        let policy = PolicyRef::new(&mut policy);
        let parts = Endpoints::new(source, policy, self.control);
        let report = run_with(&config, parts, |_| table::<A::Flow>(tables), |_| app()).map_err(text)?;
        if let Some(fault) = &report.fault {
            return Err(fault.to_string());
        }
        if !report.is_balanced() || (!report.interrupted && report.processed() != report.input.decoded) {
            return Err(String::from("the engine's counts do not add up"));
        }
        Ok(report)
    }

    fn policy(&self, mode: Layout) -> Result<Policy, String> {
        let topology = Topology::flat(WorkerCount::new(mode.workers()).map_err(text)?);
        let scheme = self.arguments.scheduler.0;
        scheme.policy(&topology, SEED).map_err(text)
    }
}

/// Returns a variant that is timed from the source's first batch to its last.
fn timed<'a>(
    source: &'a mut Looped,
    mut work: impl FnMut(&mut Looped) -> Result<u64, String> + 'a,
) -> impl FnMut(&mut Lap) -> Answer + 'a {
    move |lap| {
        source.rewind();
        let answer = work(source);
        lap.add(source.elapsed());
        Answer(answer)
    }
}

/// Returns a growing table whose first segment is resident; it holds the flows of all passes.
fn table<V: Send + 'static>(
    tables: usize,
) -> Result<impl FlowTable<FlowKey, V> + Send + use<V>, BuildError> {
    let share = (1_u32 << 17).div_ceil(u32::try_from(tables).unwrap_or(u32::MAX)).max(64);
    let options =
        TableOptions { memory_limit_bytes: 4 << 30, prefault: true, ..TableOptions::for_flows(1 << 28) };
    Growing::try_new(share, options, LineHash::try_new)
}

fn layout(mode: Layout) -> String {
    match mode {
        Layout::Inline => String::from("inline"),
        Layout::Sharded { workers } => format!("{workers} sharded"),
        Layout::Pipeline { workers: 1 } => String::from("1 worker"),
        Layout::Pipeline { workers } => format!("{workers} workers"),
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
