//! The statistics of a run in Prometheus text exposition format 0.0.4.

use std::fmt::Write;

use flowloom::apps::firewall::{Hits, LiveRules};
use flowloom::engine::{Snapshot, WireSnapshot, WorkerSnapshot};
use flowloom::packet::DropReason;
use flowloom::packet::wire::PortCounts;

use super::reload::ReloadCounts;

/// Number of rules that have their own time series; the first rules get them. Prometheus reads a
/// page every few seconds and keeps it for weeks.
const RULES_MAX: usize = 1000;

/// A counter of verdicts: its name, its help text, and its field.
const FIGURES: [Figure; 3] = [
    ("packets", "Packets", |hits| hits.packets),
    ("bytes", "Bytes on the wire of packets", |hits| hits.bytes),
    ("flows", "Flows", |hits| hits.flows),
];

type Figure = (&'static str, &'static str, fn(&Hits) -> u64);

/// Returns the page for the present state. The set of series is constant over a run, except after a
/// reload of rules. A reason that has not occurred is zero, and so are the `workers` before a run
/// has begun. `interfaces` has the names of the ports of a wire.
pub(super) fn page(
    mut now: Snapshot,
    workers: usize,
    interfaces: &[String],
    rules: Option<&LiveRules>,
    reloads: Option<&ReloadCounts>,
) -> String {
    if now.workers.len() < workers {
        now.workers.resize(workers, WorkerSnapshot::default());
    }
    let mut page = Page(String::with_capacity(4096));
    page.one("packets_total", "counter", "Packets taken from the source.", now.packets);
    page.one("processed_total", "counter", "Packets that the application has processed.", now.processed);
    page.one("denied_total", "counter", "Packets that the application refused.", now.denied);
    page.one("in_flight", "gauge", "Packets taken from the source and not yet finished.", now.in_flight);
    page.head("not_tracked_total", "counter", "Packets that are not tracked, by reason.");
    for reason in DropReason::ALL.iter().filter(|reason| !reason.is_loss()) {
        page.value("not_tracked_total", "reason", reason.name(), now.dropped.get(*reason));
    }
    page.head("dropped_total", "counter", "Packets lost, by reason.");
    for reason in DropReason::ALL.iter().filter(|reason| reason.is_loss()) {
        page.value("dropped_total", "reason", reason.name(), now.dropped.get(*reason));
    }
    page.head("worker_processed_total", "counter", "Packets that a worker's application has processed.");
    page.workers(&now, "worker_processed_total", |worker| worker.processed);
    page.head("worker_denied_total", "counter", "Packets that a worker's application refused.");
    page.workers(&now, "worker_denied_total", |worker| worker.denied);
    page.head("worker_dropped_total", "counter", "Packets that a worker received and dropped.");
    page.workers(&now, "worker_dropped_total", |worker| worker.dropped);
    page.head("worker_ring_full_total", "counter", "Packets dropped because a worker's ring was full.");
    page.workers(&now, "worker_ring_full_total", |worker| worker.ring_full);
    page.head("worker_full_waits_total", "counter", "Times that a worker's ring was full.");
    page.workers(&now, "worker_full_waits_total", |worker| worker.full_waits);
    page.one(
        "unplaced_total",
        "counter",
        "Packets dropped as ring_full although no worker's ring was full.",
        now.unplaced,
    );
    let waits = now.pool_full_waits;
    page.one(
        "pool_full_waits_total",
        "counter",
        "Times that the pool from which workers fetch was full.",
        waits,
    );
    page.head("records_total", "counter", "Records of flows, by whether the output has taken them.");
    page.value("records_total", "outcome", "written", now.records_written);
    page.value("records_total", "outcome", "lost", now.records_lost);
    page.one(
        "records_held",
        "gauge",
        "Records that wait for an output that fails; they are neither written nor lost.",
        now.records_held,
    );
    page.head("build_info", "gauge", "Version of the program; the value is 1.");
    page.value("build_info", "version", env!("CARGO_PKG_VERSION"), 1);
    if let Some(wires) = &now.wires {
        page.wires(wires, interfaces);
    }
    if let Some(rules) = rules {
        page.verdicts(rules);
    }
    if let Some((taken, failed)) = reloads.map(ReloadCounts::get) {
        page.head("rule_reloads_total", "counter", "Reloads of the rules, by outcome.");
        page.value("rule_reloads_total", "outcome", "taken", taken);
        page.value("rule_reloads_total", "outcome", "failed", failed);
    }
    page.0
}

/// A counter of ports: its name, its help text, and its field.
type PortFigure = (&'static str, &'static str, fn(&PortCounts) -> u64);

struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let written = self.0.write_fmt(line);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        self.0.push('\n');
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP flowloom_{name} {help}"));
        self.line(format_args!("# TYPE flowloom_{name} {kind}"));
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.line(format_args!("flowloom_{name} {value}"));
    }

    /// Adds a value with a label. Both words need no quoting.
    fn value(&mut self, name: &str, label: &str, of: &str, value: u64) {
        self.line(format_args!("flowloom_{name}{{{label}=\"{of}\"}} {value}"));
    }

    /// Adds the ports, decisions and flows of an appliance.
    fn wires(&mut self, now: &WireSnapshot, interfaces: &[String]) {
        let of_ports: [PortFigure; 8] = [
            ("port_received_total", "Frames received.", |port| port.received),
            ("port_received_bytes_total", "Bytes received.", |port| port.received_bytes),
            ("port_sent_total", "Received frames sent by the port.", |port| port.sent),
            ("port_sent_bytes_total", "Bytes of these frames.", |port| port.sent_bytes),
            ("port_refused_total", "Frames that the port refused to send.", |port| port.refused),
            ("port_added_total", "Copies, answers and other frames sent in addition.", |port| port.added),
            ("port_added_refused_total", "Such frames that the port refused.", |port| port.added_refused),
            ("port_missed_total", "Frames lost in the kernel or the card.", |port| port.missed),
        ];
        for (name, help, of) in of_ports {
            self.head(name, "counter", help);
            for (interface, port) in interfaces.iter().zip(&now.ports) {
                let quoted = interface.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                self.value(name, "interface", &quoted, of(port));
            }
        }
        let counts = &now.decisions;
        self.head("frames_total", "counter", "Received frames, by decision.");
        for (decision, frames) in [
            ("passed", counts.passed),
            ("passed_without_flow", counts.passed_without_flow),
            ("passed_at_full_table", counts.passed_at_full_table),
            ("passed_at_panic", counts.passed_at_panic),
            ("denied", counts.denied),
            ("dropped_without_flow", counts.dropped_without_flow),
            ("dropped_at_full_table", counts.dropped_at_full_table),
            ("dropped_at_panic", counts.dropped_at_panic),
            ("lost", counts.lost),
        ] {
            self.value("frames_total", "decision", decision, frames);
        }
        self.one("answers_total", "counter", "Answers to denied frames.", counts.answered);
        self.one("flows", "gauge", "Flows in the tables.", now.flows_active);
        let help = "Flows for which the tables have space at present.";
        self.one("flows_capacity", "gauge", help, now.flows_capacity);
        self.one("table_bytes", "gauge", "Memory of the tables, in bytes.", now.table_bytes);
        self.one("flows_begun_total", "counter", "Flows begun.", now.flows_begun);
        self.head("flows_ended_total", "counter", "Records of flows ended, by reason.");
        for (reason, flows) in [
            ("idle", now.ended_idle),
            ("application", now.ended_by_application),
            ("evicted", now.ended_evicted),
            ("panic", now.ended_at_panic),
        ] {
            self.value("flows_ended_total", "reason", reason, flows);
        }
    }

    /// Adds the decisions of the rules.
    fn verdicts(&mut self, live: &LiveRules) {
        let counts = live.counts();
        let (generation, rules) = live.current();
        for (name, what, of) in FIGURES {
            let name = format!("verdict_{name}_total");
            self.head(
                &name,
                "counter",
                &format!("{what} by their verdict; a flow has the verdict of its first packet."),
            );
            self.value(&name, "verdict", "accept", of(&counts.accepted));
            self.value(&name, "verdict", "deny", of(&counts.denied));
        }
        self.one(
            "unmatched_packets_total",
            "counter",
            "Packets that no rule matched.",
            counts.unmatched.packets,
        );
        let not_opened = counts.not_opened.packets;
        self.one(
            "not_opened_packets_total",
            "counter",
            "Packets of connections that no SYN opened.",
            not_opened,
        );
        self.one(
            "undecided_packets_total",
            "counter",
            "Packets denied because they lack what the rules ask for, such as later fragments.",
            counts.undecided.packets,
        );
        self.one(
            "rules_generation",
            "gauge",
            "Generation of the rules; each reload adds one.",
            generation.into(),
        );
        let help = format!("Number of rules; the first {RULES_MAX} have their own series.");
        self.one("rules", "gauge", &help, rules.set().len() as u64);
        // Until a worker has judged a packet by the newest rules, the numbers belong to older
        // rules.
        let hits = if counts.generation == generation { &counts.by_rule[..] } else { &[] };
        for (name, what, of) in FIGURES {
            let name = format!("rule_{name}_total");
            self.head(
                &name,
                "counter",
                &format!(
                    "{what} that a rule decided, by its position in the file; a reload resets the \
                    count."
                ),
            );
            for number in 1..=rules.set().len().min(RULES_MAX) {
                self.value(&name, "rule", &number.to_string(), hits.get(number).map_or(0, of));
            }
        }
    }

    fn workers(&mut self, now: &Snapshot, name: &str, value: impl Fn(&WorkerSnapshot) -> u64) {
        for (i, worker) in now.workers.iter().enumerate() {
            self.value(name, "worker", &i.to_string(), value(worker));
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom::apps::firewall::{Defaults, FirewallRules};
    use flowloom::classifier::{PrefixV4, Rule, RuleSet};

    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_value_and_every_name_is_declared_once() {
        let (mut now, mut worker) = (Snapshot::default(), WorkerSnapshot::default());
        (now.packets, now.processed, now.denied, now.in_flight) = (5, 3, 1, 1);
        (now.records_written, now.records_lost, now.records_held) = (15, 16, 17);
        (worker.processed, worker.denied) = (3, 1);
        (worker.ring_full, worker.full_waits, now.unplaced, now.pool_full_waits) = (11, 12, 13, 14);
        now.dropped.add(DropReason::NotIp, 1);
        now.workers = vec![worker, WorkerSnapshot::default()];
        let any = Rule::v4(PrefixV4::ANY, PrefixV4::ANY);
        let rules = RuleSet::new(vec![any; RULES_MAX + 1]).unwrap();
        let rules = LiveRules::new(FirewallRules::scanning(rules, Defaults::default()));
        let mut wires = WireSnapshot::default();
        (wires.flows_active, wires.ended_idle, wires.decisions.denied) = (7, 8, 9);
        let mut port = PortCounts::default();
        port.received = 6;
        wires.ports = vec![PortCounts::default(), port];
        now.wires = Some(wires);
        let interfaces = [String::from("eth0"), String::from("a\"b")];
        let page = page(now, 3, &interfaces, Some(&rules), Some(&ReloadCounts::default()));
        let mut declared = Vec::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                declared.push(rest.split(' ').next().unwrap());
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(value.parse::<u64>().is_ok(), "{line}");
                assert_eq!(Some(series.split('{').next().unwrap()), declared.last().copied(), "{line}");
            }
        }
        let mut names = declared.clone();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), declared.len());
        for line in [
            "flowloom_packets_total 5",
            "flowloom_not_tracked_total{reason=\"not_ip\"} 1",
            "flowloom_dropped_total{reason=\"ring_full\"} 0",
            "flowloom_worker_processed_total{worker=\"0\"} 3",
            "flowloom_worker_denied_total{worker=\"1\"} 0",
            "flowloom_worker_processed_total{worker=\"2\"} 0",
            "flowloom_worker_ring_full_total{worker=\"0\"} 11",
            "flowloom_worker_full_waits_total{worker=\"0\"} 12",
            "flowloom_worker_ring_full_total{worker=\"1\"} 0",
            "flowloom_unplaced_total 13",
            "flowloom_port_received_total{interface=\"a\\\"b\"} 6",
            "flowloom_frames_total{decision=\"denied\"} 9",
            "flowloom_flows 7",
            "flowloom_flows_ended_total{reason=\"idle\"} 8",
            "flowloom_pool_full_waits_total 14",
            "flowloom_records_total{outcome=\"lost\"} 16",
            "flowloom_records_held 17",
            "flowloom_verdict_bytes_total{verdict=\"deny\"} 0",
            "flowloom_rules 1001",
            "flowloom_rules_generation 1",
            "flowloom_rule_packets_total{rule=\"1000\"} 0",
            "flowloom_rule_reloads_total{outcome=\"failed\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
        assert!(!page.contains("rule=\"1001\""), "the last one has none");
        assert!(page.ends_with('\n'), "the last line ends too");
    }
}
