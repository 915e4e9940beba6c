//! Compares records with answers.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value as Json;

use crate::derived;

/// Values by the names of their columns.
pub(crate) type Record = BTreeMap<&'static str, Json>;

/// A column of records, and what the answers have for it. A column `x` of a direction has its
/// counterpart `reverse_x`.
struct DirectionColumn {
    name: &'static str,
    is_of_tcp: bool,
    /// Returns the right value, or `None` where the column and the answers mean different things.
    answer: fn(&Json) -> Option<u64>,
}

const fn always(name: &'static str, is_of_tcp: bool, answer: fn(&Json) -> Option<u64>) -> DirectionColumn {
    DirectionColumn { name, is_of_tcp, answer }
}

const DIRECTION_COLUMNS: [DirectionColumn; 9] = [
    always("packets", false, |side| side["packets"].as_u64()),
    always("bytes", false, |side| side["wire_bytes"].as_u64()),
    always("ip_bytes", false, |side| side["ip_bytes"].as_u64()),
    always("tcp_flags", true, |side| side["tcp_flags"].as_u64()),
    always("zero_windows", true, |side| side["zero_windows"].as_u64()),
    // Copies, keep-alives and probes repeat numbers too.
    always("retransmissions", true, |side| {
        let others = ["duplicates", "keep_alives", "zero_window_probes"];
        let sum = number(side, "retransmissions_seen") + number(side, "retransmissions_filling");
        others.iter().all(|name| side[name] == 0).then_some(sum)
    }),
    always("keep_alives", true, |side| (side["duplicates"] == 0).then(|| number(side, "keep_alives"))),
    always("window_probes", true, |side| {
        (side["duplicates"] == 0).then(|| number(side, "zero_window_probes"))
    }),
    // What fills a gap after duplicate acknowledgements was sent again.
    always("out_of_order", true, |side| (side["duplicates"] == 0).then(|| number(side, "reordered"))),
];

/// The groups of columns about contents.
const CONTENTS: [&str; 5] = ["dns_", "http_", "tls_", "quic_", "ssh_"];

/// Where records differ from the answers. Each has a row in `docs/scenarios.md`.
const KNOWN_DIFFERENCES: [(&str, &[&str]); 5] = [
    ("mirrored-twice", &["handshake_answer", "handshake_rtt"]),
    ("mirrored-twice+fragments", &["packets", "bytes", "ip_bytes", "end"]),
    ("open-blind-reset", &["retransmissions", "out_of_order", "keep_alives", "window_probes"]),
    ("close-reset-outside", &["retransmissions", "out_of_order"]),
    ("ack-unsent", &["retransmissions"]),
];

pub(crate) fn known_differences() -> impl Iterator<Item = &'static str> {
    KNOWN_DIFFERENCES.iter().map(|(names, _)| *names)
}

/// Returns whether a scenario has a dimension.
pub(crate) fn has(scenario: &Json, name: &str) -> bool {
    scenario["dimensions"].as_array().unwrap().iter().any(|dimension| dimension == name)
}

/// Returns whether a scenario has a dimension whose name begins so.
pub(crate) fn begins(scenario: &Json, begin: &str) -> bool {
    let dimensions = scenario["dimensions"].as_array().unwrap();
    dimensions.iter().any(|dimension| dimension.as_str().unwrap().starts_with(begin))
}

/// Returns whether the terms of Zeek are clear for the packets that the tap has captured.
pub(crate) fn has_conn(scenario: &Json) -> bool {
    let misses_answers = ["tap-without-client", "tap-without-server", "tap-losses"];
    !misses_answers.iter().any(|name| has(scenario, name)) && !has(scenario, "clock-forward")
}

/// Returns whether a scenario has dimensions of whose connections parts do not say enough.
pub(crate) fn may_need_packets(scenario: &Json) -> bool {
    [
        "reuse", "active-timeout", "clock", "close-reset-outside", "close-reset-at-edge",
        "close-reset-in-flight", "close-reset-then", "close-fin-and-reset", "open-fast",
        "open-blind-reset", "open-scan", "open-early-ack", "open-answered-anew", "tap-", "mirrored",
    ]
    .iter()
    .any(|begin| begins(scenario, begin))
}

/// Returns whether a difference is known. A row of two dimensions holds where both do.
fn is_known(scenario: &Json, column: &str) -> bool {
    let column = column.trim_start_matches("reverse_");
    KNOWN_DIFFERENCES.iter().any(|(names, columns)| {
        names.split('+').all(|name| has(scenario, name)) && columns.contains(&column)
    })
}

pub(crate) fn number(of: &Json, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} of {of}"))
}

/// Returns what separates flows, as text.
fn key(protocol: &Json, mut ends: [(Json, Json); 2], vlans: &[Json; 2]) -> String {
    ends.sort_by_key(|end| format!("{end:?}"));
    format!("{protocol} {ends:?} {vlans:?}")
}

fn key_of_record(record: &Record) -> String {
    let of = |name: &str| record[name].clone();
    let ends = [(of("source"), of("source_port")), (of("destination"), of("destination_port"))];
    key(&record["protocol"], ends, &[of("vlan"), of("customer_vlan")])
}

fn key_of_answer(scenario: &Json, flow: &Json) -> String {
    let ends = ["client", "server"].map(|side| (flow[side]["address"].clone(), flow[side]["port"].clone()));
    let in_key = scenario["settings"]["vlan_in_key"] == true;
    let vlan = |at: usize| if in_key { flow["client"]["vlans"][at].clone() } else { Json::Null };
    key(&flow["protocol"], ends, &[vlan(0), vlan(1)])
}

/// Returns the flows by key, in the order of their starts.
fn by_key<T>(
    flows: Vec<T>,
    key: impl Fn(&T) -> String,
    start: impl Fn(&T) -> u64,
) -> BTreeMap<String, Vec<T>> {
    let mut all: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for flow in flows {
        all.entry(key(&flow)).or_default().push(flow);
    }
    for flows in all.values_mut() {
        flows.sort_by_key(&start);
    }
    all
}

/// What was compared, and what differs.
#[derive(Default)]
pub(crate) struct Judge {
    pub(crate) values: usize,
    pub(crate) known: usize,
    pub(crate) differences: String,
}

impl Judge {
    /// Compares the records of a scenario. Records of parts have no fields.
    pub(crate) fn records(&mut self, scenario: &Json, records: Vec<Record>, has_fields: bool) {
        let flows = scenario["flows"].as_array().unwrap().clone();
        let flows = by_key(flows, |flow| key_of_answer(scenario, flow), |flow| number(flow, "start_ns"));
        let records = by_key(records, key_of_record, |record| record["start"].as_u64().unwrap());
        let [found, right] = [
            records.iter().map(|(key, all)| (key, all.len())).collect::<Vec<_>>(),
            flows.iter().map(|(key, all)| (key, all.len())).collect(),
        ];
        if found != right {
            let name = &scenario["name"];
            writeln!(self.differences, "{name}: flows are {found:?}, by construction {right:?}").unwrap();
            return;
        }
        for (flow, record) in flows.values().flatten().zip(records.values().flatten()) {
            Comparison { judge: self, scenario, record, has_fields }.flow(flow);
        }
    }
}

/// The comparison of one record.
struct Comparison<'a> {
    judge: &'a mut Judge,
    scenario: &'a Json,
    record: &'a Record,
    has_fields: bool,
}

impl Comparison<'_> {
    fn value(&mut self, column: &str, answer: impl Into<Json>) {
        let answer = answer.into();
        let Some(value) = self.record.get(column) else {
            assert!(!self.has_fields, "there is no column {column}");
            return;
        };
        self.judge.values += 1;
        let is_near = |(one, other): (f64, f64)| (one - other).abs() <= 1e-9 * one.abs().max(other.abs());
        if *value == answer || value.as_f64().zip(answer.as_f64()).is_some_and(is_near) {
            return;
        }
        if is_known(self.scenario, column) {
            self.judge.known += 1;
        } else {
            let name = self.scenario["name"].as_str().unwrap();
            writeln!(self.judge.differences, "{name}: {column} is {value}, by construction {answer}")
                .unwrap();
        }
    }

    fn flow(&mut self, flow: &Json) {
        let is_of_tcp = flow["protocol"] == 6;
        let is_opened = flow["opening_captured"] == true;
        let source = flow[if is_opened { "initiator" } else { "first_sender" }].as_str().unwrap();
        let destination = if source == "client" { "server" } else { "client" };
        let [first, second] = [&flow[source], &flow[destination]];
        self.value("source", first["address"].clone());
        self.value("source_port", first["port"].clone());
        self.value("destination", second["address"].clone());
        self.value("destination_port", second["port"].clone());
        self.value("protocol_name", flow["protocol_name"].clone());
        self.value("start", flow["start_ns"].clone());
        self.value("end", flow["end_ns"].clone());
        self.value("end_reason", flow["end_reason"].clone());
        let direction = match (is_of_tcp, flow["syn_captured"] == true, is_opened) {
            (false, ..) => "first_packet",
            (_, true, _) => "syn",
            (_, _, true) => "syn_ack",
            _ => "arbitrary",
        };
        self.value("direction", direction);
        for column in ["icmp_type", "icmp_code", "icmp_identifier"] {
            let is_missing = column == "icmp_identifier"
                && !matches!(flow["icmp_type"].as_u64(), Some(0 | 8 | 128 | 129));
            self.value(column, if is_missing { Json::Null } else { flow[column].clone() });
        }
        let times = [&flow["handshake_answer_ns"], &flow["handshake_ack_ns"]];
        // Without a statement by the answers, there is nothing to compare.
        let is_stated = flow.get("handshake_answer_ns").is_some();
        // The time of a joined datagram is that of its last fragment.
        if is_stated && !(has(self.scenario, "fragments") && has(self.scenario, "tap-losses")) {
            self.value("handshake_answer", times[0].clone());
            self.value("handshake_ack", times[1].clone());
            let sum = times[0].as_u64().zip(times[1].as_u64()).map(|(answer, ack)| answer + ack);
            self.value("handshake_rtt", sum);
        }
        self.contents(flow);
        for (prefix, side, other) in [("", first, second), ("reverse_", second, first)] {
            // A probe of a closed window is one only to who saw that the window is closed.
            let probes = side["zero_window_probes"].as_u64().unwrap_or(0);
            let knows_probes = !has(self.scenario, "tap-losses")
                && (probes == 0 || number(other, "zero_windows") > probes);
            let stacks = side["vlan_stacks"].as_array().unwrap().iter().map(|stack| {
                let ids: Vec<String> = stack.as_array().unwrap().iter().map(ToString::to_string).collect();
                if ids.is_empty() { String::from("-") } else { ids.join(".") }
            });
            let mut tags: Vec<String> = stacks.collect();
            if tags.len() > 4 {
                tags.truncate(4);
                tags.push("more".into());
            }
            let tags = if tags.is_empty() { Json::Null } else { tags.join(",").into() };
            self.value(&format!("{prefix}vlan_tags"), tags);
            for DirectionColumn { name, is_of_tcp: only_tcp, answer } in &DIRECTION_COLUMNS {
                if matches!(*name, "keep_alives" | "window_probes") && !knows_probes {
                    continue;
                }
                if let Some(answer) = (is_of_tcp || !only_tcp).then(|| answer(side)).flatten() {
                    self.value(&format!("{prefix}{name}"), answer);
                }
            }
        }
        // A joined datagram is one packet to a field, and several in the answers.
        if !has(self.scenario, "fragments") {
            let is_first_client = source == "client";
            for (column, answer) in derived::columns(self.scenario, flow, is_first_client) {
                self.value(&column, answer);
            }
        }
    }

    /// Compares the columns about contents. Those that the answers do not state are missing.
    fn contents(&mut self, flow: &Json) {
        let stated = flow["contents"].as_object();
        for name in self.record.keys().filter(|name| CONTENTS.iter().any(|begin| name.starts_with(begin))) {
            let answer = stated.and_then(|stated| stated.get(*name)).cloned().unwrap_or(Json::Null);
            // A status is a number.
            let status =
                answer.as_str().filter(|_| *name == "http_status").and_then(|text| text.parse().ok());
            self.value(name, status.map_or(answer, |number: u64| number.into()));
        }
    }
}
