//! The result of `simulate schedule`.

use flowloom::scheduler::registry::Scheme;
use flowloom::scheduler::sim::{Machine, Report as Run};
use schemars::JsonSchema;
use serde::Serialize;

use super::columns;
use crate::render::{Report, counted, grouped, scaled};

/// The schedulers that can be simulated.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SchemeList {
    schema: &'static str,
    /// Schedulers, in the order of `all`.
    schedulers: Vec<ListedScheme>,
}

/// A scheduler.
#[derive(Debug, JsonSchema, Serialize)]
struct ListedScheme {
    /// Name on the command line.
    name: &'static str,
    /// What it does.
    about: &'static str,
}

impl SchemeList {
    pub fn all() -> Self {
        let schedulers =
            Scheme::ALL.iter().map(|scheme| ListedScheme { name: scheme.name, about: scheme.about });
        Self { schema: "flowloom/scheduler-list/1", schedulers: schedulers.collect() }
    }
}

impl Report for SchemeList {
    fn lines(&self) -> Vec<String> {
        self.schedulers.iter().map(|scheme| format!("{:14} {}", scheme.name, scheme.about)).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["name", "about"].map(str::to_owned).to_vec()];
        rows.extend(self.schedulers.iter().map(|scheme| vec![scheme.name.into(), scheme.about.into()]));
        rows
    }
}

/// Schedulers on a machine in virtual time. The machine is a model: figures rank schedulers but do
/// not predict throughput.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ScheduleResult {
    pub schema: &'static str,
    /// The capture or model.
    pub traffic: String,
    /// Offered packets or jobs.
    pub jobs: u64,
    /// Flows among them.
    pub flows: u64,
    /// Their bytes, as policies see them.
    pub bytes: u64,
    /// Their work in cycles, without any costs.
    pub work_cycles: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The machine's tree.
    pub topology: String,
    /// Its workers.
    pub workers: u64,
    /// Lower bound in cycles for any scheduler that runs each flow on one thread at a time.
    pub least_cycles: u64,
    /// Cycles per second.
    pub hertz: u64,
    /// Arrivals in percent of the machine's throughput; null if it was saturated.
    pub load_percent: Option<u32>,
    /// Result of each.
    pub schedulers: Vec<SchemeFigures>,
    /// Path of the charts; null if none were requested.
    pub saved: Option<String>,
}

/// The figures of one scheduler.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SchemeFigures {
    /// Its name.
    pub name: &'static str,
    /// Whether it guarantees to process a flow's packets in order.
    pub keeps_order: bool,
    /// Time until the last packet was completed, in cycles of virtual time.
    pub cycles: u64,
    /// Packets per cycle, relative to the first scheduler.
    pub speed_up: f64,
    /// Average number of threads' work done at the same time.
    pub parallelism: f64,
    /// The lower bound of the time divided by the actual time. The bound has each flow on one
    /// thread at a time: above 1 are only schedulers that run a flow on several at once, or drop
    /// its packets.
    pub share_of_bound: f64,
    /// Completed packets.
    pub completed: u64,
    /// Packets that found their queue full.
    pub dropped: u64,
    /// Packets completed after a later packet of their flow.
    pub reorders: u64,
    /// Packets started while another packet of their flow was being processed.
    pub races: u64,
    /// Packets whose flow had its previous packet on another worker.
    pub migrations: u64,
    /// Flow states fetched from the shared cache.
    pub misses_shared: u64,
    /// Flow states fetched from another core.
    pub misses_remote: u64,
    /// Flow states fetched from memory.
    pub misses_memory: u64,
    /// Packets handed from one worker to another.
    pub hand_overs: u64,
    /// Bundles of packets taken from another worker.
    pub steals: u64,
    /// Cycles that the dispatcher waited for space in a queue.
    pub dispatcher_blocked_cycles: u64,
    /// The longest queue; for pull schemes, all waiting packets.
    pub queue_packets_max: u32,
    /// Mean time from arrival to completion, in microseconds of virtual time.
    pub latency_mean_us: f64,
    /// Its median, within a sixteenth.
    pub latency_p50_us: f64,
    /// Its 99th percentile, within a sixteenth.
    pub latency_p99_us: f64,
    /// Its maximum.
    pub latency_max_us: f64,
    /// Levels of the machine, from the outermost.
    pub levels: Vec<LevelFigures>,
    /// Digest of the order, worker and time of every completion: equal runs have equal digests.
    pub digest: String,
}

/// The utilisation of one level of the machine.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LevelFigures {
    /// Name of its nodes.
    pub name: &'static str,
    /// How many there are.
    pub nodes: u64,
    /// Mean share of the time during which they worked; for pipelines and above, mean share of
    /// their capacity.
    pub use_mean_percent: f64,
    /// The same for the least used node.
    pub use_least_percent: f64,
    /// The same for the most used node.
    pub use_most_percent: f64,
    /// The minimum of the nodes' 99th percentiles of latency, in microseconds.
    pub latency_p99_us_least: f64,
    /// The maximum.
    pub latency_p99_us_most: f64,
}

impl SchemeFigures {
    pub fn new(scheme: Scheme, report: &Run, first: &Run, machine: &Machine) -> Self {
        let micros = |cycles: u64| cycles as f64 * 1e6 / machine.hertz as f64;
        let percent = |permille: u32| f64::from(permille) / 10.0;
        let keeps_order =
            scheme.policy(&machine.topology, 1).is_ok_and(|policy| policy.order().keeps_flow_order());
        Self {
            name: scheme.name,
            keeps_order: keeps_order && !scheme.pooled,
            cycles: report.cycles,
            speed_up: report.speed_up(first),
            parallelism: report.parallelism(),
            share_of_bound: report.share_of_bound(),
            completed: report.completed,
            dropped: report.dropped,
            reorders: report.reorders,
            races: report.races,
            migrations: report.migrations,
            misses_shared: report.misses.shared,
            misses_remote: report.misses.remote,
            misses_memory: report.misses.memory,
            hand_overs: report.hand_overs,
            steals: report.steals,
            dispatcher_blocked_cycles: report.blocked_cycles,
            queue_packets_max: report.queue_max.iter().copied().max().unwrap_or(0),
            latency_mean_us: micros(report.latency.mean()),
            latency_p50_us: micros(report.latency.permille(500)),
            latency_p99_us: micros(report.latency.permille(990)),
            latency_max_us: micros(report.latency.max()),
            levels: report
                .levels
                .iter()
                .map(|level| LevelFigures {
                    name: level.name,
                    nodes: level.permille.len() as u64,
                    use_mean_percent: percent(level.mean()),
                    use_least_percent: percent(level.range().0),
                    use_most_percent: percent(level.range().1),
                    latency_p99_us_least: micros(level.p99_cycles.iter().copied().min().unwrap_or(0)),
                    latency_p99_us_most: micros(level.p99_cycles.iter().copied().max().unwrap_or(0)),
                })
                .collect(),
            digest: format!("{:016x}", report.digest),
        }
    }

    fn cells(&self) -> Vec<String> {
        let threads = self.levels.last();
        let spread = threads.map_or((0.0, 0.0), |level| (level.use_least_percent, level.use_most_percent));
        vec![
            self.name.to_owned(),
            format!("{:.3}", self.speed_up),
            format!("{:.3}", self.share_of_bound),
            format!("{:.0}–{:.0}", spread.0, spread.1),
            grouped(self.reorders),
            grouped(self.races),
            grouped(self.migrations),
            format!(
                "{:.3}",
                (self.misses_shared + self.misses_remote + self.misses_memory) as f64
                    / self.completed.max(1) as f64
            ),
            grouped(self.dropped),
            format!("{:.0}", self.latency_p50_us),
            format!("{:.0}", self.latency_p99_us),
            format!("{:.0}", self.latency_max_us),
        ]
    }
}

/// Speeds that differ by less than this share are equal: where packets arrive at a rate that all
/// keep up with, they end together.
const EQUAL: f64 = 0.002;
const EQUALLY: &str = "kept order and are equally fast, so compare latencies";

impl ScheduleResult {
    /// Names the fastest policy of those that kept order and lost nothing.
    fn verdict(&self) -> String {
        let mut ordered: Vec<_> =
            self.schedulers.iter().filter(|scheme| scheme.reorders + scheme.races == 0).collect();
        if ordered.is_empty() {
            return String::from("no scheduler kept order");
        }
        ordered.retain(|scheme| scheme.dropped == 0);
        ordered.sort_by(|a, b| b.share_of_bound.total_cmp(&a.share_of_bound));
        let Some(best) = ordered.first() else {
            return String::from(
                "each scheduler that kept order dropped packets, so their speeds do not compare",
            );
        };
        let is_equal = |other: &&&SchemeFigures| other.share_of_bound > best.share_of_bound * (1.0 - EQUAL);
        let equal: Vec<&str> = ordered.iter().filter(is_equal).map(|scheme| scheme.name).collect();
        let of = format!(
            "{:.1} % of the bound, {:.2} times one thread, of {}",
            best.share_of_bound * 100.0,
            best.parallelism,
            self.workers
        );
        match equal[..] {
            [name] => format!("{name} is the fastest that kept order: {of}"),
            [first, second] => format!("{first} and {second} {EQUALLY}: {of}"),
            [first, second, .., _] => {
                format!("{first}, {second} and {} more {EQUALLY}: {of}", equal.len() - 2)
            }
            [] => of,
        }
    }
}

impl Report for ScheduleResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{}   {}, {}, {}cycles of work, seed {}   {}{}",
            self.traffic,
            counted(self.jobs, "job"),
            counted(self.flows, "flow"),
            scaled(self.work_cycles as f64),
            self.seed,
            self.topology,
            self.load_percent.map_or_else(String::new, |load| format!(", at {load} %"))
        )];
        let head = [
            "scheduler", "× first", "of bound", "threads %", "reorders", "races", "moves", "misses",
            "dropped", "p50 µs", "p99 µs", "max µs",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.schedulers.iter().map(SchemeFigures::cells));
        lines.push(String::new());
        lines.extend(columns(&rows));
        lines.push(String::new());
        if let Some(folder) = &self.saved {
            lines.push(format!("Charts: {folder}"));
        }
        if self.schedulers.iter().any(|scheme| scheme.share_of_bound > 1.0) {
            lines.push(String::from(
                "The bound has each flow on one thread at a time: above 1 are those that run it on several, or drop its packets",
            ));
        }
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "scheduler", "cycles", "speed_up", "share_of_bound", "completed", "dropped", "reorders",
            "races", "migrations", "misses_shared", "misses_remote", "misses_memory", "hand_overs",
            "steals", "queue_packets_max", "latency_mean_us", "latency_p50_us", "latency_p99_us",
            "latency_max_us", "digest",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.schedulers.iter().map(|scheme| {
            vec![
                scheme.name.to_owned(),
                scheme.cycles.to_string(),
                scheme.speed_up.to_string(),
                scheme.share_of_bound.to_string(),
                scheme.completed.to_string(),
                scheme.dropped.to_string(),
                scheme.reorders.to_string(),
                scheme.races.to_string(),
                scheme.migrations.to_string(),
                scheme.misses_shared.to_string(),
                scheme.misses_remote.to_string(),
                scheme.misses_memory.to_string(),
                scheme.hand_overs.to_string(),
                scheme.steals.to_string(),
                scheme.queue_packets_max.to_string(),
                scheme.latency_mean_us.to_string(),
                scheme.latency_p50_us.to_string(),
                scheme.latency_p99_us.to_string(),
                scheme.latency_max_us.to_string(),
                scheme.digest.clone(),
            ]
        }));
        rows
    }
}
