//! The result of `replay`.

use flowloom::record::NO_MEMORY;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::encapsulations::Encapsulations;
use super::losses::LossFigures;
use super::reasons::NoResult;
use super::save::{Overview, Table};
use super::traffic::{SumFigures, TrafficFigures};
use super::verdicts::FirewallFigures;
use super::{Report, bytes, counted, dates, grouped, percent, scaled, some_of};
use crate::flow_file::WriterCounts;
use crate::host::Host;
use crate::record_view::FilterCounts;
use flowloom_measure::rows::Tool;

mod figures;

pub(crate) use super::l7::{L7Figures, ProtocolFigures};
pub(crate) use figures::{
    InputFigures, RunFigures, SamplingFigures, SearchFigures, ShardedFigures, TableFigures,
    TcbCacheFigures, VerifyFigures, WorkerFigures, WrittenFigures,
};

/// The result of a run of the engine over captures. Numbers are in base units: packets, bytes,
/// nanoseconds; seconds if the name states so. packets = processed + the sums of `not_tracked` and
/// dropped always holds.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ReplayResult {
    pub(crate) schema: &'static str,
    /// The program.
    pub(crate) tool: Tool,
    /// The machine.
    pub(crate) host: Host,
    /// Settings of the run.
    pub(crate) run: RunFigures,
    /// The captures read in the last pass, in reading order; the last one may have been read only
    /// in part.
    pub(crate) inputs: Vec<InputFigures>,
    /// Packets excluded by --filter, --from and --to; they are not counted elsewhere.
    pub(crate) passed_over: u64,
    /// Packets taken from the captures, over all passes.
    pub(crate) packets: u64,
    /// Sum of the packets' lengths on the wire, in bytes, as the captures state them; of those
    /// above 1 MiB, the captured bytes.
    pub(crate) bytes_on_wire: u64,
    /// Sum of the packets' captured lengths, in bytes.
    pub(crate) bytes_captured: u64,
    /// Packets with a flow key.
    pub(crate) decoded: u64,
    /// Packets that the application completed.
    pub(crate) processed: u64,
    /// Processed packets that the application denied.
    pub(crate) denied: u64,
    /// Which packets were sampled; absent without --sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sampling: Option<SamplingFigures>,
    /// Flows: distinct keys, counted separately for each pass.
    pub(crate) flows: u64,
    /// Flows inserted: more than the flows if the idle timeout or the application ended flows that
    /// continued.
    pub(crate) flows_begun: u64,
    /// Number of flows ended by the idle timeout.
    pub(crate) flows_expired: u64,
    /// Records of ended flows that were discarded because there were too many.
    pub(crate) records_forgotten: u64,
    /// Records with a packet whose time stamp is before that of an earlier packet: `times_back`
    /// says how many. Absent if the records have no times of accounting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records_times_back: Option<u64>,
    /// Texts and collected bytes of additional fields that were dropped for lack of memory; these
    /// fields are `(no memory)`. Absent without additional fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fields_dropped: Option<u64>,
    /// Time of the run in seconds: from the first packet taken to the last one processed.
    pub(crate) seconds: f64,
    /// packets divided by seconds; 0 for a run without time.
    pub(crate) packets_per_second: f64,
    /// Time of the first packet, in nanoseconds since 1970; 0 without packets.
    pub(crate) first_ns: u64,
    /// Latest packet time, in nanoseconds since 1970; 0 without packets.
    pub(crate) last_ns: u64,
    #[serde(flatten)]
    pub(crate) no_result: NoResult,
    /// Packets of `not_tracked.unsupported`, by link type in words.
    pub(crate) unsupported_links: BTreeMap<String, u64>,
    #[serde(flatten)]
    pub(crate) encapsulations: Encapsulations,
    /// Packets whose time stamp is up to a minute before that of an earlier packet; time passed by
    /// the earlier one.
    pub(crate) time_backwards: u64,
    /// Largest step backwards among them, in nanoseconds.
    pub(crate) time_backwards_ns_max: u64,
    /// Packets whose time stamp is more than ten years ahead or more than a minute behind. They do
    /// not move the time of the run.
    pub(crate) time_outliers: u64,
    /// Large steps of the time on which three consecutive packets agreed. After a backward step,
    /// times advance by the differences of the stamps.
    pub(crate) time_steps: u64,
    /// Packets with more captured bytes than their stated length on the wire.
    pub(crate) captured_over_wire: u64,
    /// Packets in the last pass whose stated captured length exceeds their record; they were
    /// truncated to fit.
    pub(crate) lying_lengths: u64,
    /// Digest of all flow records, in hexadecimal. It is equal for equal packets, independent of
    /// the layout, seed or order of workers.
    pub(crate) digest: String,
    /// The workers, by number.
    pub(crate) workers: Vec<WorkerFigures>,
    /// Packets of `dropped.ring_full` that found the shared pool of a pull policy full, rather than
    /// a worker's ring. The sum of this and the workers' `ring_full` is `dropped.ring_full`.
    pub(crate) unplaced: u64,
    /// Number of times that the input stage waited for space in the shared pool of a pull policy;
    /// if it drops instead, number of batches with drops. 0 without a pool.
    pub(crate) pool_full_waits: u64,
    /// Sum over all workers' flow tables.
    pub(crate) table: TableFigures,
    /// Accepted packets that were written to a file; absent without --write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<WrittenFigures>,
    /// Result of the oracle; only with --verify.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) verify: Option<VerifyFigures>,
    /// Results of simulated caches of connection state; only with --tcb-cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcb_cache: Option<TcbCacheFigures>,
    /// Results of the firewall; only with --rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) firewall: Option<FirewallFigures>,
    /// Protocols of the flows; only with --app l7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) l7: Option<L7Figures>,
    /// The records that were written, or that --where selected; ended = written + `passed_over` +
    /// lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<RecordFigures>,
    /// Packets and bytes over packet time; only with --save. The intervals follow each other
    /// without gaps and depend only on the packets. They are the shortest with which there are at
    /// most 500; packets withheld by --defrag have no time and are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traffic: Option<TrafficFigures>,
    /// Sums of the records; only with --save, and if the application counts packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sums: Option<SumFigures>,
    /// Notes about the captures, as text.
    pub(crate) notices: Vec<String>,
    /// Whether a signal ended the run.
    pub(crate) interrupted: bool,
    /// Share of the input's bytes that was read, from 0 to 1; only for an interrupted run over
    /// inputs of known size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_share: Option<f64>,
    /// Error that ended the run before the end of its input, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
    /// Whether packets = processed + `not_tracked` + dropped, and every worker accounts for the
    /// packets that it got. False indicates an error in the program.
    pub(crate) balanced: bool,
    /// Whether the input was read to its end or its limit: neither interrupted nor stopped by a
    /// fault, and no capture is truncated or corrupt.
    pub(crate) complete: bool,
}

/// What became of the records of a run.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub(crate) struct RecordFigures {
    /// The file or collector; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// Records that the run has made, except those that the table has not kept.
    pub(crate) ended: u64,
    /// Records in the file, or sent to the collector and not known to be refused.
    pub(crate) written: u64,
    /// Records that --where rejected.
    pub(crate) passed_over: u64,
    /// Records that could not be written, or did not reach the collector.
    pub(crate) lost: u64,
    /// Whether nothing was selected, so that an earlier file is unchanged.
    pub(crate) unchanged: bool,
}

impl RecordFigures {
    /// Returns the figures of a writer that was to write `ended` records to a path.
    pub(crate) fn new(
        path: String,
        ended: u64,
        writer: WriterCounts,
        filter: Option<FilterCounts>,
    ) -> Self {
        let passed_over = filter.map_or(0, |filter| filter.passed_over);
        let written = writer.written.saturating_sub(writer.refused);
        let lost = ended.saturating_sub(passed_over + written);
        Self { path: Some(path), ended, written, passed_over, lost, unchanged: writer.kept_old }
    }

    /// Returns whether each record was written, rejected by the filter, or is known to be lost.
    pub(crate) fn is_balanced(&self, known_lost: u64) -> bool {
        self.ended == self.written + self.passed_over + self.lost && self.lost == known_lost
    }

    /// Returns the outputs and their destinations, for the verdict.
    pub(crate) fn verdict(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let mut text = format!("{} in {path}", counted(self.written, "record"));
        if self.unchanged {
            text = format!("no record was selected, {path} is unchanged");
        }
        for (records, what) in [(self.passed_over, "not selected"), (self.lost, "lost")] {
            if records > 0 {
                text = format!("{text}, {} {what}", grouped(records));
            }
        }
        Some(text)
    }
}

impl ReplayResult {
    fn header(&self) -> String {
        let run = &self.run;
        let cpu = |cpu: Option<u32>| cpu.map_or(String::from("unpinned"), |cpu| format!("CPU {cpu}"));
        let layout = if run.layout == "inline" {
            format!("inline, {}", cpu(run.input_cpu))
        } else {
            let is_pinned =
                run.input_cpu.is_some() || self.workers.iter().any(|worker| worker.cpu.is_some());
            let workers = if is_pinned {
                let cpus: Vec<String> = self.workers.iter().map(|worker| cpu(worker.cpu)).collect();
                format!("workers {}", cpus.join(" "))
            } else {
                format!("{}, not pinned", counted(self.workers.len() as u64, "worker"))
            };
            match (run.layout, is_pinned) {
                ("sharded", _) => format!("sharded, {workers}"),
                (_, true) => format!("pipeline, input {}, {workers}", cpu(run.input_cpu)),
                (_, false) => format!("pipeline, input and {workers}"),
            }
        };
        format!("{}   {} {}   {layout}", self.tool, std::env::consts::ARCH, self.host.isa)
    }

    fn setting(&self) -> String {
        let run = &self.run;
        let mut parts = vec![format!("app {}", run.app), format!("table {}", run.table)];
        if let (Some(scheduler), Some(slots)) = (run.scheduler, run.ring_slots) {
            parts.push(format!("scheduler {scheduler}"));
            parts.push(format!("order {}", run.order.unwrap_or("internal")));
            if run.tables > run.workers {
                parts.push(format!("flows shared in {} tables", run.tables));
            }
            parts.push(format!("rings of {slots}, {} when full", run.when_full));
        }
        match run.passes {
            Some(1) => {}
            Some(passes) => parts.push(format!("{passes} passes")),
            None => parts.push(String::from("passes until stopped")),
        }
        if run.decap {
            let names = self.encapsulations.followed_names();
            let names = if names.is_empty() { names } else { format!(": {names}") };
            parts.push(format!("tunnels followed{names}"));
        }
        if run.defrag {
            parts.push(String::from("fragments joined"));
        }
        parts.push(run.seed.map_or(String::from("seed secret"), |seed| format!("seed {seed}")));
        parts.join("   ")
    }

    fn input_lines(&self, lines: &mut Vec<String>) {
        for input in self.inputs.iter().take(8) {
            let links: Vec<String> = input
                .link_types
                .iter()
                .map(|&link| flowloom::packet::LinkType(link).name().to_owned())
                .collect();
            lines.push(format!(
                "{}   {}, {}   {}",
                input.path,
                input.format,
                if links.is_empty() { String::from("no link type") } else { some_of(&links, " + ") },
                counted(input.packets, "packet")
            ));
            lines.extend(LossFigures::lines(&input.losses));
        }
        if self.inputs.len() > 8 {
            lines.push(format!("… and {}", counted(self.inputs.len() as u64 - 8, "more capture")));
        }
        if let Some(files) = self.run.merged {
            lines.push(format!(
                "{} overlap in time and were merged by time",
                counted(files as u64, "capture")
            ));
        }
        if self.passed_over > 0 {
            lines.push(format!(
                "Selected    {}   not selected {}",
                grouped(self.packets),
                grouped(self.passed_over)
            ));
        }
        if let Some(why) = &self.run.why {
            lines.push(format!("Layout      {}, since {why}", self.run.layout));
        }
        if let Some(sharded) = &self.run.sharded {
            lines.push(format!(
                "Chunks      {}   on {}   lists moved {}",
                grouped(sharded.chunks),
                counted(sharded.threads as u64, "thread"),
                grouped(sharded.lists_moved)
            ));
        }
    }

    fn count_lines(&self, lines: &mut Vec<String>) {
        lines.push(format!(
            "Packets     {}   decoded {} ({})   processed {}   {}",
            grouped(self.packets),
            grouped(self.decoded),
            percent(self.decoded, self.packets),
            grouped(self.processed),
            self.no_result.totals()
        ));
        lines.push(format!(
            "Bytes       {} captured   {} on the wire",
            bytes(self.bytes_captured),
            bytes(self.bytes_on_wire)
        ));
        if let Some(SamplingFigures { one_of, packets, error_per_root }) = self.sampling {
            lines.push(format!(
                "Sampled     {} of 1 in {one_of}   a count of k in a record stands for {one_of} k ± \
                 {error_per_root:.0} √k (95 %)",
                counted(packets, "packet")
            ));
        }
        let span_ns = self.last_ns.saturating_sub(self.first_ns);
        let digits = if span_ns.is_multiple_of(1000) { 6 } else { 9 };
        let dates = match self.packets {
            0 => String::new(),
            _ => format!("   {}", dates(self.first_ns, self.last_ns)),
        };
        lines.push(format!("Span        {:.digits$} s of packet time{dates}", span_ns as f64 / 1e9));
        let mut flows = vec![format!("Flows       {}", grouped(self.flows))];
        if self.flows_expired > 0 {
            flows.push(format!("ended by timeout {}", grouped(self.flows_expired)));
        }
        if self.denied > 0 {
            flows.push(format!("packets denied {}", grouped(self.denied)));
        }
        if let Some(records) = &self.records {
            flows.push(format!("records written {}", grouped(records.written)));
            flows.push(format!("not selected {}", grouped(records.passed_over)));
            if records.lost > 0 {
                flows.push(format!("lost {}", grouped(records.lost)));
            }
        }
        lines.push(flows.join("   "));
        let table = &self.table;
        let huge_pages = match table.huge_pages_obtained {
            Some(true) => ", huge pages obtained",
            Some(false) => ", huge pages not obtained",
            None => "",
        };
        lines.push(format!(
            "Flow table  {} at the end   displaced {} (longest list {})   refused {}   segments {}   {}{huge_pages}",
            counted(table.flows_at_end, "flow"),
            grouped(table.displaced),
            table.list_length_max,
            grouped(table.refused),
            table.segments,
            bytes(table.memory_bytes)
        ));
        if let Some(steps) = &table.searches {
            lines.push(format!(
                "Searches    {}   {:.2} comparisons each   {:.1} % found in the first slot   false matches {:.4} %",
                grouped(steps.lookups),
                steps.comparisons_per_lookup,
                steps.first_hit_percent,
                steps.false_match_percent
            ));
        }
    }

    fn worker_lines(&self, lines: &mut Vec<String>) {
        if self.workers.len() > 1 {
            for (i, worker) in self.workers.iter().enumerate() {
                let flows =
                    worker.flows.map_or(String::new(), |flows| format!("   {}", counted(flows, "flow")));
                let ring = if self.run.layout == "pipeline" {
                    let waits = counted(worker.full_waits, "time");
                    format!("   ring full {waits}{}", dropped_there(worker.ring_full))
                } else {
                    String::new()
                };
                lines.push(format!(
                    "Worker {i:<4} {} ({}){flows}{ring}",
                    counted(worker.processed, "packet"),
                    percent(worker.processed, self.processed)
                ));
            }
        }
        if self.pool_full_waits > 0 || self.unplaced > 0 {
            lines.push(format!(
                "Pool        full {}{}",
                counted(self.pool_full_waits, "time"),
                dropped_there(self.unplaced)
            ));
        }
    }

    fn drop_lines(&self, lines: &mut Vec<String>) {
        lines.extend(self.no_result.lines());
        for (link, packets) in &self.unsupported_links {
            lines.push(format!("            link type {link}: {}", grouped(*packets)));
        }
        lines.extend(self.encapsulations.summary(", those over UDP uncounted", "inspect --why lists all"));
        let back =
            format!("time goes backwards, by {:.6} s at most", self.time_backwards_ns_max as f64 / 1e9);
        let dropped = format!("fields dropped for lack of memory, which are now {NO_MEMORY}");
        for (what, packets) in [
            (back.as_str(), self.time_backwards),
            ("time stamps far off, which do not move the time of the run", self.time_outliers),
            ("clock steps confirmed by several packets", self.time_steps),
            ("captured length above the length on the wire", self.captured_over_wire),
            ("captured length above the record's (truncated)", self.lying_lengths),
            ("records whose time stamps go back (times_back)", self.records_times_back.unwrap_or(0)),
            ("records of ended flows not kept", self.records_forgotten),
            (&dropped, self.fields_dropped.unwrap_or(0)),
        ] {
            if packets > 0 {
                lines.push(format!("Noted       {what}: {}", grouped(packets)));
            }
        }
        if self.time_backwards + self.time_steps > 0 && self.inputs.len() > 1 {
            lines.push(String::from(
                "captures are read one after another; merge those that overlap in time with mergecap",
            ));
        }
    }

    /// Returns what limits the result.
    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> =
            self.fault.iter().map(|fault| format!("Stopped on a fault: {fault}")).collect();
        warnings.extend(self.interrupted.then(|| String::from("The run was interrupted.")));
        warnings.extend(self.notices.iter().cloned());
        for input in &self.inputs {
            warnings.extend(
                LossFigures::lines(&input.losses)
                    .map(|line| format!("{}: {}", input.path, line.replace("Lost        ", "lost "))),
            );
        }
        if self.bytes_captured < self.bytes_on_wire {
            warnings.push(format!(
                "The capture was cut: it has {} of the bytes, so payload, and names from it, may be missing.",
                percent(self.bytes_captured, self.bytes_on_wire)
            ));
        }
        warnings
    }

    /// Returns the main figures.
    fn tiles(&self) -> Vec<(&'static str, String)> {
        let sum = |of: &super::reasons::ByReason| grouped(of.values().sum());
        vec![
            ("packets", grouped(self.packets)),
            ("captured", bytes(self.bytes_captured)),
            ("on the wire", bytes(self.bytes_on_wire)),
            ("flows", grouped(self.flows)),
            ("packet time", format!("{:.3} s", self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9)),
            ("not tracked", sum(&self.no_result.not_tracked)),
            ("lost", sum(&self.no_result.dropped)),
            ("cut off", bytes(self.bytes_on_wire.saturating_sub(self.bytes_captured))),
        ]
    }

    fn verdict(&self) -> String {
        let rate =
            format!("{}packets/s over {}", scaled(self.packets_per_second), counted(self.flows, "flow"));
        if let Some(fault) = &self.fault {
            let written = self.records.as_ref().and_then(RecordFigures::verdict);
            let written = written.map_or(String::new(), |written| format!("; {written}"));
            return format!("stopped on a fault: {fault}{written}");
        }
        if let Some(VerifyFigures { agrees: false, difference: Some(difference), .. }) = &self.verify {
            return format!("differs from the oracle: {difference}");
        }
        let mut text = rate;
        if self.interrupted {
            text = match self.read_share {
                Some(share) => format!("interrupted at {:.0} %: {text}", share * 100.0),
                None => format!("interrupted: {text}"),
            };
        }
        if let Some(written) = self.records.as_ref().and_then(RecordFigures::verdict) {
            text = format!("{text}; {written}");
        }
        if let Some(WrittenFigures { path, packets, refused }) = &self.written {
            let refused =
                if *refused > 0 { format!(", {} lost", grouped(*refused)) } else { String::new() };
            text = format!("{text}; {} in {path}{refused}", counted(*packets, "packet"));
        }
        match &self.verify {
            Some(verify) => {
                format!(
                    "{text}; verified{}, {} as the oracle has {}",
                    if verify.in_order { "" } else { " except values that depend on order" },
                    counted(verify.flows, "flow"),
                    if verify.flows == 1 { "it" } else { "them" }
                )
            }
            None => text,
        }
    }
}

/// Returns how many packets were dropped because a table or ring was full, if any.
fn dropped_there(packets: u64) -> String {
    if packets > 0 { format!(", {} dropped", grouped(packets)) } else { String::new() }
}

impl Report for ReplayResult {
    fn overview(&self) -> Option<Overview> {
        let about = match self.packets {
            0 => String::new(),
            _ => format!("Packets {}", dates(self.first_ns, self.last_ns)),
        };
        Some(Overview { about, warnings: self.warnings(), tiles: self.tiles() })
    }

    fn tables(&self) -> Vec<Table> {
        self.sums.iter().flat_map(SumFigures::tables).collect()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.header(), self.setting()];
        self.input_lines(&mut lines);
        lines.push(String::new());
        self.count_lines(&mut lines);
        self.worker_lines(&mut lines);
        self.drop_lines(&mut lines);
        lines.push(format!(
            "Throughput  {}packets/s   {}B/s captured   in {:.6} s",
            scaled(self.packets_per_second),
            scaled(if self.seconds > 0.0 { self.bytes_captured as f64 / self.seconds } else { 0.0 }),
            self.seconds
        ));
        if let Some(cache) = &self.tcb_cache {
            lines.push(format!(
                "TCB cache   {}, {} {}{}: {} of {}, {}",
                bytes(cache.bytes),
                cache.policy,
                cache.hash,
                if cache.caches > 1 { format!(", {} of them", cache.caches) } else { String::new() },
                counted(cache.misses, "miss"),
                counted(cache.accesses, "access"),
                percent(cache.misses, cache.accesses)
            ));
        }
        if let Some(written) = &self.written {
            let refused = match written.refused {
                0 => String::new(),
                refused => format!(", {} could not be written", grouped(refused)),
            };
            lines.push(format!(
                "Written     {} to {}{refused}",
                counted(written.packets, "packet"),
                written.path
            ));
        }
        if let Some(firewall) = &self.firewall {
            firewall.lines(&mut lines);
        }
        if let Some(l7) = &self.l7 {
            l7.lines(&mut lines);
        }
        lines.push(format!("Digest      {}", self.digest));
        lines.push(String::new());
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut head = vec![
            "packets", "bytes_on_wire", "bytes_captured", "decoded", "processed", "denied", "flows",
            "flows_expired", "seconds", "digest", "mode", "workers", "app", "table", "interrupted",
        ];
        let mut row = vec![
            self.packets.to_string(),
            self.bytes_on_wire.to_string(),
            self.bytes_captured.to_string(),
            self.decoded.to_string(),
            self.processed.to_string(),
            self.denied.to_string(),
            self.flows.to_string(),
            self.flows_expired.to_string(),
            self.seconds.to_string(),
            self.digest.clone(),
            self.run.layout.to_owned(),
            self.run.workers.to_string(),
            self.run.app.to_owned(),
            self.run.table.to_owned(),
            self.interrupted.to_string(),
        ];
        // The columns are the same for every run, whether or not a reason occurred.
        for reason in flowloom::packet::DropReason::ALL {
            head.push(reason.name());
            let packets = self.no_result.iter().find(|(name, _)| *name == reason.name());
            row.push(packets.map_or(0, |(_, packets)| packets).to_string());
        }
        // One column for all workers, because their number differs between runs.
        let of_workers = |figure: fn(&WorkerFigures) -> u64| {
            let each: Vec<String> = self.workers.iter().map(|worker| figure(worker).to_string()).collect();
            each.join(" ")
        };
        head.extend(["worker_ring_full", "worker_full_waits", "unplaced", "pool_full_waits"]);
        row.push(of_workers(|worker| worker.ring_full));
        row.push(of_workers(|worker| worker.full_waits));
        row.extend([self.unplaced, self.pool_full_waits].map(|packets| packets.to_string()));
        vec![head.into_iter().map(str::to_owned).collect(), row]
    }
}
