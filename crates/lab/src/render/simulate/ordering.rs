//! The result of `simulate ordering`.

use schemars::JsonSchema;
use serde::Serialize;

use super::columns;
use crate::render::{Report, counted};

/// Cost of keeping the order of flows, in virtual time.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OrderingResult {
    pub schema: &'static str,
    /// The capture or model.
    pub traffic: String,
    /// Packets.
    pub jobs: u64,
    /// Flows among them.
    pub flows: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// Internal order at full load: drops by scheduler and queue.
    pub drops: Vec<DropFigures>,
    /// Internal order, saturated.
    pub internal: Vec<InternalFigures>,
    /// External order, saturated.
    pub external: Vec<ExternalFigures>,
    /// Path of the charts; null if none were requested.
    pub saved: Option<String>,
}

/// Drops of internal order with one queue length.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DropFigures {
    /// The component that chooses the queue.
    pub scheduler: &'static str,
    /// Capacity of a queue in packets.
    pub queue_packets: u32,
    /// Packets dropped.
    pub dropped: u64,
    /// Their share of all.
    pub drop_share: f64,
    /// Packets completed after a later packet of their flow.
    pub reorders: u64,
}

/// Throughput of internal order.
#[derive(Debug, JsonSchema, Serialize)]
pub struct InternalFigures {
    /// The component that chooses the queue.
    pub scheduler: &'static str,
    /// Threads.
    pub threads: u32,
    /// Number of threads' work done at the same time.
    pub speed_up: f64,
}

/// Throughput of external order.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ExternalFigures {
    /// Percentage of the work that uses the flow's state.
    pub locked_percent: u32,
    /// Threads.
    pub threads: u32,
    /// Number of threads' work done at the same time.
    pub speed_up: f64,
    /// Time that packets waited for the lock of their flow, divided by the work.
    pub lock_share: f64,
}

impl Report for OrderingResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "{}   {}, {}, seed {}",
                self.traffic,
                counted(self.jobs, "job"),
                counted(self.flows, "flow"),
                self.seed
            ),
            String::new(),
            String::from("Internal order, dropped % at full load"),
        ];
        let mut rows = Vec::new();
        for group in self.drops.chunk_by(|a, b| a.scheduler == b.scheduler) {
            if rows.is_empty() {
                let bounds = group.iter().map(|figures| format!("queue {}", figures.queue_packets));
                rows.push(std::iter::once(String::from("scheduler")).chain(bounds).collect());
            }
            let cells = group.iter().map(|figures| format!("{:.2}", figures.drop_share * 100.0));
            rows.push(std::iter::once(group[0].scheduler.to_owned()).chain(cells).collect::<Vec<String>>());
        }
        lines.extend(columns(&rows));
        lines.push(String::new());
        lines.push(String::from("Speed-up over one thread, saturated"));
        let mut rows: Vec<Vec<String>> = Vec::new();
        let head = |threads: &mut dyn Iterator<Item = u32>| {
            std::iter::once(String::from("order"))
                .chain(threads.map(|threads| counted(threads.into(), "thread")))
                .collect()
        };
        for group in self.internal.chunk_by(|a, b| a.scheduler == b.scheduler) {
            if rows.is_empty() {
                rows.push(head(&mut group.iter().map(|figures| figures.threads)));
            }
            let cells = group.iter().map(|figures| format!("{:.2}", figures.speed_up));
            let name = format!("internal, {}", group[0].scheduler);
            rows.push(std::iter::once(name).chain(cells).collect());
        }
        for group in self.external.chunk_by(|a, b| a.locked_percent == b.locked_percent) {
            let cells = group.iter().map(|figures| format!("{:.2}", figures.speed_up));
            let name = format!("external, {} % locked", group[0].locked_percent);
            rows.push(std::iter::once(name).chain(cells).collect());
        }
        lines.extend(columns(&rows));
        lines.push(String::new());
        if let Some(folder) = &self.saved {
            lines.push(format!("Charts: {folder}"));
        }
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![
            ["kind", "scheduler", "queue_packets", "locked_percent", "threads", "value"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let none = String::new;
        rows.extend(self.drops.iter().map(|figures| {
            vec![
                String::from("drop_share"),
                figures.scheduler.to_owned(),
                figures.queue_packets.to_string(),
                none(),
                none(),
                figures.drop_share.to_string(),
            ]
        }));
        rows.extend(self.internal.iter().map(|figures| {
            vec![
                String::from("internal_speed_up"),
                figures.scheduler.to_owned(),
                none(),
                none(),
                figures.threads.to_string(),
                figures.speed_up.to_string(),
            ]
        }));
        rows.extend(self.external.iter().map(|figures| {
            vec![
                String::from("external_speed_up"),
                none(),
                none(),
                figures.locked_percent.to_string(),
                figures.threads.to_string(),
                figures.speed_up.to_string(),
            ]
        }));
        rows
    }
}

impl OrderingResult {
    fn verdict(&self) -> String {
        let most = self.internal.iter().map(|figures| figures.threads).max().unwrap_or(0);
        let best = self
            .internal
            .iter()
            .filter(|figures| figures.threads == most)
            .max_by(|a, b| a.speed_up.total_cmp(&b.speed_up));
        let Some(best) = best else { return String::from("no simulation was run") };
        let beaten = self.external.iter().filter(|figures| figures.threads == most);
        let share = beaten
            .filter(|figures| figures.speed_up < best.speed_up)
            .map(|figures| figures.locked_percent)
            .min();
        let most = counted(most.into(), "thread");
        match share {
            Some(share) => format!(
                "with {most} internal order ({}) is faster from {share} % of the work on the flow's \
                 state",
                best.scheduler
            ),
            None => format!("with {most} external order is faster at every share tried"),
        }
    }
}
