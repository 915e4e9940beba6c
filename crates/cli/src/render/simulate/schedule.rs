//! The result of `simulate schedule`.

use flowloom::scheduler::registry::Scheme;
use flowloom::scheduler::sim::{Machine, Report as Run};
use serde::Serialize;

use super::columns;
use crate::render::{Report, counted, grouped, scaled};

/// The output of `--scheduler list`.
#[derive(Debug, Serialize)]
pub(crate) struct SchemeList {
    schema: &'static str,
    schedulers: Vec<ListedScheme>,
}

#[derive(Debug, Serialize)]
struct ListedScheme {
    name: &'static str,
    about: &'static str,
}

impl SchemeList {
    pub(crate) fn all() -> Self {
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

/// The document of `simulate schedule`.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleResult {
    pub(crate) schema: &'static str,
    pub(crate) traffic: String,
    pub(crate) jobs: u64,
    pub(crate) flows: u64,
    pub(crate) bytes: u64,
    pub(crate) work_cycles: u64,
    pub(crate) seed: u64,
    pub(crate) topology: String,
    pub(crate) workers: u64,
    pub(crate) least_cycles: u64,
    pub(crate) hertz: u64,
    pub(crate) load_percent: Option<u32>,
    pub(crate) schedulers: Vec<SchemeFigures>,
    pub(crate) saved: Option<String>,
}

/// The figures of one scheduler.
#[derive(Debug, Serialize)]
pub(crate) struct SchemeFigures {
    pub(crate) name: &'static str,
    pub(crate) keeps_order: bool,
    pub(crate) cycles: u64,
    pub(crate) speed_up: f64,
    pub(crate) parallelism: f64,
    pub(crate) share_of_bound: f64,
    pub(crate) completed: u64,
    pub(crate) dropped: u64,
    pub(crate) reorders: u64,
    pub(crate) races: u64,
    pub(crate) migrations: u64,
    pub(crate) misses_shared: u64,
    pub(crate) misses_remote: u64,
    pub(crate) misses_memory: u64,
    pub(crate) hand_overs: u64,
    pub(crate) steals: u64,
    pub(crate) dispatcher_blocked_cycles: u64,
    pub(crate) queue_packets_max: u32,
    pub(crate) latency_mean_us: f64,
    pub(crate) latency_p50_us: f64,
    pub(crate) latency_p99_us: f64,
    pub(crate) latency_max_us: f64,
    pub(crate) levels: Vec<LevelFigures>,
    pub(crate) digest: String,
}

/// The utilisation of one level of the machine.
#[derive(Debug, Serialize)]
pub(crate) struct LevelFigures {
    pub(crate) name: &'static str,
    pub(crate) nodes: u64,
    pub(crate) use_mean_percent: f64,
    pub(crate) use_least_percent: f64,
    pub(crate) use_most_percent: f64,
    pub(crate) latency_p99_us_least: f64,
    pub(crate) latency_p99_us_most: f64,
}

impl SchemeFigures {
    pub(crate) fn new(scheme: Scheme, report: &Run, first: &Run, machine: &Machine) -> Self {
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
            "scheduler",
            "× first",
            "of bound",
            "threads %",
            "reorders",
            "races",
            "moves",
            "misses",
            "dropped",
            "p50 µs",
            "p99 µs",
            "max µs",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.schedulers.iter().map(SchemeFigures::cells));
        lines.push(String::new());
        lines.extend(columns(&rows));
        lines.push(String::new());
        if let Some(folder) = &self.saved {
            lines.push(format!("Charts: {folder}"));
        }
        let ordered = self.schedulers.iter().filter(|scheme| scheme.reorders + scheme.races == 0);
        let best = ordered.max_by(|a, b| a.share_of_bound.total_cmp(&b.share_of_bound));
        lines.push(match best {
            Some(best) => format!(
                "{} is the fastest that kept order: {:.1} % of the bound, {:.2} times one thread, of {}",
                best.name,
                best.share_of_bound * 100.0,
                best.parallelism,
                self.workers
            ),
            None => String::from("no scheduler kept order"),
        });
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "scheduler",
            "cycles",
            "speed_up",
            "share_of_bound",
            "completed",
            "dropped",
            "reorders",
            "races",
            "migrations",
            "misses_shared",
            "misses_remote",
            "misses_memory",
            "hand_overs",
            "steals",
            "queue_packets_max",
            "latency_mean_us",
            "latency_p50_us",
            "latency_p99_us",
            "latency_max_us",
            "digest",
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
