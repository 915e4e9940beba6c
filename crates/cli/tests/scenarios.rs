//! Scenarios with known answers: `replay` has the right records in every layout, and tshark reads
//! the captures as they were constructed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, command, flowloom, number};

/// The layouts, with the share of scenarios that run in each: one in so many.
const LAYOUTS: [(&[&str], usize); 3] =
    [(&[], 1), (&["--workers", "2"], 8), (&["--workers", "2", "--scheduler", "rss"], 8)];

/// A column of records, and what the answers have for it. A column `x` of a direction has its
/// counterpart `reverse_x`.
struct DirectionColumn {
    name: &'static str,
    is_of_tcp: bool,
    /// Returns the right value, or `None` where the column and the answers mean different things.
    answer: fn(&Value) -> Option<u64>,
}

const DIRECTION_COLUMNS: [DirectionColumn; 9] = [
    DirectionColumn { name: "packets", is_of_tcp: false, answer: |side| side["packets"].as_u64() },
    DirectionColumn { name: "bytes", is_of_tcp: false, answer: |side| side["wire_bytes"].as_u64() },
    DirectionColumn { name: "ip_bytes", is_of_tcp: false, answer: |side| side["ip_bytes"].as_u64() },
    DirectionColumn { name: "tcp_flags", is_of_tcp: true, answer: |side| side["tcp_flags"].as_u64() },
    DirectionColumn { name: "zero_windows", is_of_tcp: true, answer: |side| side["zero_windows"].as_u64() },
    // Copies, keep-alives and probes repeat numbers too.
    DirectionColumn {
        name: "retransmissions",
        is_of_tcp: true,
        answer: |side| {
            let others = ["duplicates", "keep_alives", "zero_window_probes"];
            let sum = number(side, "retransmissions_seen") + number(side, "retransmissions_filling");
            others.iter().all(|name| side[name] == 0).then_some(sum)
        },
    },
    DirectionColumn {
        name: "keep_alives",
        is_of_tcp: true,
        answer: |side| (side["duplicates"] == 0).then(|| number(side, "keep_alives")),
    },
    DirectionColumn {
        name: "window_probes",
        is_of_tcp: true,
        answer: |side| (side["duplicates"] == 0).then(|| number(side, "zero_window_probes")),
    },
    // What fills a gap after duplicate acknowledgements was sent again.
    DirectionColumn {
        name: "out_of_order",
        is_of_tcp: true,
        answer: |side| (side["duplicates"] == 0).then(|| number(side, "reordered")),
    },
];

/// Where records differ from the answers. Each has a row in `docs/scenarios.md`.
const KNOWN_DIFFERENCES: [(&str, &[&str]); 2] = [
    ("mirrored-twice", &["handshake_answer"]),
    ("mirrored-twice+fragments", &["packets", "bytes", "ip_bytes", "payload_bytes", "end"]),
];

/// Whether a difference is known. A row of two dimensions holds where both do.
fn is_known(scenario: &Value, column: &str) -> bool {
    let dimensions: Vec<&str> =
        scenario["dimensions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let column = column.trim_start_matches("reverse_");
    KNOWN_DIFFERENCES.iter().any(|(names, columns)| {
        names.split('+').all(|name| dimensions.contains(&name)) && columns.contains(&column)
    })
}

type Key = (u64, [(String, u64); 2], Value, Value);

fn key(protocol: u64, mut ends: [(String, u64); 2], vlans: [Value; 2]) -> Key {
    ends.sort();
    let [outer, inner] = vlans;
    (protocol, ends, outer, inner)
}

fn end(of: &Value, address: &str, port: &str) -> (String, u64) {
    (of[address].as_str().unwrap().to_owned(), number(of, port))
}

fn key_of_record(record: &Value) -> Key {
    let ends = [end(record, "source", "source_port"), end(record, "destination", "destination_port")];
    key(number(record, "protocol"), ends, [record["vlan"].clone(), record["customer_vlan"].clone()])
}

fn key_of_answer(scenario: &Value, flow: &Value) -> Key {
    let ends = ["client", "server"].map(|side| end(&flow[side], "address", "port"));
    let in_key = scenario["settings"]["vlan_in_key"] == true;
    let vlan = |at: usize| if in_key { flow["client"]["vlans"][at].clone() } else { Value::Null };
    key(number(flow, "protocol"), ends, [vlan(0), vlan(1)])
}

/// Returns the flows by key, in their order.
fn by_key(flows: impl IntoIterator<Item = (Key, Value)>) -> BTreeMap<String, Vec<Value>> {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (key, flow) in flows {
        all.entry(format!("{key:?}")).or_default().push(flow);
    }
    all
}

/// What was compared, and what differs.
#[derive(Default)]
struct Comparison {
    values: usize,
    known: usize,
    differences: String,
}

impl Comparison {
    fn value(&mut self, scenario: &Value, column: &str, record: &Value, answer: &Value) {
        self.values += 1;
        if record == answer {
            return;
        }
        if is_known(scenario, column) {
            self.known += 1;
        } else {
            let name = scenario["name"].as_str().unwrap();
            writeln!(self.differences, "{name}: {column} is {record}, by construction {answer}").unwrap();
        }
    }

    fn records(&mut self, scenario: &Value, records: Vec<Value>) {
        let mut records = by_key(records.into_iter().map(|record| (key_of_record(&record), record)));
        let flows = scenario["flows"].as_array().unwrap();
        let flows = by_key(flows.iter().map(|flow| (key_of_answer(scenario, flow), flow.clone())));
        let counts = |all: &BTreeMap<String, Vec<Value>>| -> Vec<(String, usize)> {
            all.iter().map(|(key, flows)| (key.clone(), flows.len())).collect()
        };
        let (found, right) = (counts(&records), counts(&flows));
        if found != right {
            writeln!(
                self.differences,
                "{}: flows are {found:?}, by construction {right:?}",
                scenario["name"]
            )
            .unwrap();
            return;
        }
        for (key, mut flows) in flows {
            let records = records.get_mut(&key).unwrap();
            records.sort_by_key(|record| number(record, "start"));
            flows.sort_by_key(|flow| number(flow, "start_ns"));
            for (record, flow) in records.iter().zip(flows) {
                self.record(scenario, record, &flow);
            }
        }
    }

    fn record(&mut self, scenario: &Value, record: &Value, flow: &Value) {
        let source = if flow["opening_captured"] == true { "initiator" } else { "first_sender" };
        let source = flow[source].as_str().unwrap();
        let destination = if source == "client" { "server" } else { "client" };
        let (is_of_tcp, first) = (flow["protocol"] == 6, &flow[source]);
        self.value(scenario, "source", &record["source"], &first["address"]);
        self.value(scenario, "source_port", &record["source_port"], &first["port"]);
        self.value(scenario, "protocol_name", &record["protocol_name"], &flow["protocol_name"]);
        self.value(scenario, "start", &record["start"], &flow["start_ns"]);
        self.value(scenario, "end", &record["end"], &flow["end_ns"]);
        self.value(scenario, "end_reason", &record["end_reason"], &flow["end_reason"]);
        for column in ["handshake_answer", "handshake_ack"] {
            // Without a statement by the answers, there is nothing to compare.
            if let Some(answer) = flow.get(format!("{column}_ns")) {
                self.value(scenario, column, &record[column], answer);
            }
        }
        for (column, answer) in flow["contents"].as_object().into_iter().flatten() {
            let record = &record[column];
            let text = record.as_str().map_or_else(|| record.to_string(), str::to_owned);
            self.value(scenario, column, &text.into(), answer);
        }
        for (prefix, side, other) in [("", source, destination), ("reverse_", destination, source)] {
            let (side, other) = (&flow[side], &flow[other]);
            // A probe of a closed window is one only to who saw that the window is closed.
            let probes = side["zero_window_probes"].as_u64().unwrap_or(0);
            let knows_probes = probes == 0 || number(other, "zero_windows") > probes;
            let vlans: Vec<String> =
                side["vlans"].as_array().unwrap().iter().map(ToString::to_string).collect();
            let tags = if vlans.is_empty() { String::from("-") } else { vlans.join(".") };
            let tags = if side["packets"] == 0 { Value::Null } else { tags.into() };
            let column = format!("{prefix}vlan_tags");
            self.value(scenario, &column, &record[&column], &tags);
            for DirectionColumn { name, is_of_tcp: only_tcp, answer } in &DIRECTION_COLUMNS {
                if matches!(*name, "keep_alives" | "window_probes") && !knows_probes {
                    continue;
                }
                if let Some(answer) = (is_of_tcp || !only_tcp).then(|| answer(side)).flatten() {
                    let column = format!("{prefix}{name}");
                    self.value(scenario, &column, &record[&column], &answer.into());
                }
            }
        }
    }
}

fn records(path: &str, scenario: &Value, options: &[&str]) -> Vec<Value> {
    let timeout = scenario["settings"]["idle_timeout_s"].to_string();
    let base =
        ["replay", path, "-qq", "--no-pin", "--app", "accounting", "--timeout", &timeout, "--defrag"];
    let output =
        ["--fields", "tcp,handshake,vlan,dns,http,tls,quic", "--flows", "-", "--flows-format", "jsonl"];
    let keys: &[&str] = if scenario["settings"]["vlan_in_key"] == true { &[] } else { &["--ignore-vlan"] };
    let inner: &[&str] = if scenario["settings"]["decapsulated"] == true { &["--decap"] } else { &[] };
    let active = scenario["settings"]["active_timeout_s"].as_u64().map(|seconds| seconds.to_string());
    let active = active.as_ref().map_or(vec![], |seconds| vec!["--active-timeout", seconds]);
    let outcome = flowloom([&base[..], &output, keys, inner, &active, options].concat()).ends(0);
    outcome.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Generates scenarios. Returns the paths of the captures, with the answers.
fn generate(folder: &Folder, options: &[&str], ending: &str) -> Vec<(String, Value)> {
    let corpus = folder.path("corpus");
    flowloom([&["generate", "scenarios", "-qq", &corpus], options].concat()).ends(0);
    let mut paths: Vec<_> = fs::read_dir(&corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let captures = paths.iter().filter(|path| path.extension().unwrap() == ending);
    let read = |path: &std::path::PathBuf| {
        let answers = fs::read(path.with_extension("json")).unwrap();
        (path.to_str().unwrap().to_owned(), serde_json::from_slice(&answers).unwrap())
    };
    captures.map(read).collect()
}

#[test]
fn records_of_scenarios_are_those_of_their_construction() {
    let variable = |name: &str| std::env::var(format!("FLOWLOOM_SCENARIOS{name}")).ok();
    let count = variable("").unwrap_or_else(|| String::from("250"));
    let seed = variable("_SEED").unwrap_or_else(|| String::from("11"));
    for (options, ending) in [
        (&["--count", &count][..], "pcap"),
        (&["--count", "57", "--pcapng"], "pcapng"),
        (&["--count", &count, "--dimensions", "3"], "pcap"),
    ] {
        let folder = Folder::new();
        let scenarios = generate(&folder, &[options, &["--seed", &seed]].concat(), ending);
        for (layout, every) in LAYOUTS {
            let mut comparison = Comparison::default();
            for (path, scenario) in scenarios.iter().step_by(every) {
                comparison.records(scenario, records(path, scenario, layout));
            }
            let Comparison { values, known, differences } = comparison;
            assert_eq!(differences, "", "generate scenarios {options:?} --seed {seed}, replay {layout:?}");
            assert!(values > scenarios.len() / every * 40, "{values} values");
            assert!(known * 20 < values, "{known} known differences of {values} values");
        }
    }
}

#[test]
fn every_known_difference_still_exists() {
    let folder = Folder::new();
    let scenarios = generate(&folder, &["--count", "1000", "--seed", "2"], "pcap");
    for (names, _) in KNOWN_DIFFERENCES {
        let mut comparison = Comparison::default();
        for (path, scenario) in &scenarios {
            let has = |name: &str| scenario["dimensions"].as_array().unwrap().contains(&name.into());
            if names.split('+').all(has) {
                comparison.records(scenario, records(path, scenario, &[]));
            }
        }
        assert_eq!(comparison.differences, "", "{names}");
        assert!(comparison.known > 0, "{names} differs no more: remove it here and in docs/scenarios.md");
    }
}

/// Returns the fields of each packet that matches, or `None` without tshark.
fn tshark(path: &str, options: &[&str], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", path, "-T", "fields", "-E", "occurrence=l"]).args(options);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let text = String::from_utf8(command.output().ok()?.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

#[test]
fn tshark_reads_what_was_constructed() {
    const BAD: &str = "ip.checksum.status == 0 || tcp.checksum.status == 0 || \
                       udp.checksum.status == 0 || icmp.checksum.status == 0 || \
                       icmpv6.checksum.status == 0 || sctp.checksum.status == 0";
    const CHECKS: [&str; 10] = [
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "sctp.checksum:crc32c",
        "-Y",
        BAD,
    ];
    let folder = Folder::new();
    let scenarios = generate(&folder, &["--count", "57", "--seed", "3"], "pcap");
    for (path, scenario) in &scenarios {
        let name = scenario["name"].as_str().unwrap();
        let Some(packets) = tshark(path, &[], &["frame.len"]) else {
            eprintln!("skipped: tshark is not installed");
            return;
        };
        assert_eq!(packets.len() as u64, number(&scenario["capture"], "packets"), "{name}");
        let bytes: u64 = packets.iter().map(|packet| packet[0].parse::<u64>().unwrap()).sum();
        assert_eq!(bytes, number(&scenario["capture"], "wire_bytes"), "{name}");
        assert_eq!(tshark(path, &CHECKS, &["frame.number"]).unwrap(), [[""; 0]; 0], "{name}: bad packets");
    }
}

/// Packets, bytes, flags, retransmissions and reordered segments of one direction.
type Sums = [u64; 5];

/// Returns what tshark counts in each direction of connections, or `None` without tshark.
fn directions_by_tshark(path: &str) -> Option<BTreeMap<[String; 4], Sums>> {
    let fields = [
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "ip.dst",
        "ipv6.dst",
        "tcp.dstport",
        "frame.len",
        "tcp.flags",
        "tcp.analysis.retransmission",
        "tcp.analysis.out_of_order",
    ];
    let mut all: BTreeMap<[String; 4], Sums> = BTreeMap::new();
    for packet in tshark(path, &["-Y", "tcp"], &fields)? {
        let address = |at: usize| if packet[at + 1].is_empty() { &packet[at] } else { &packet[at + 1] };
        let key = [address(0), &packet[2], address(3), &packet[5]].map(String::clone);
        let flags = u64::from_str_radix(packet[7].trim_start_matches("0x"), 16).unwrap();
        let sums = all.entry(key).or_default();
        sums[0] += 1;
        sums[1] += packet[6].parse::<u64>().unwrap();
        sums[2] |= flags;
        sums[3] += u64::from(!packet[8].is_empty());
        sums[4] += u64::from(packet.get(9).is_some_and(|mark| !mark.is_empty()));
    }
    Some(all)
}

#[test]
fn tshark_counts_connections_as_they_were_constructed() {
    let folder = Folder::new();
    let scenarios = generate(&folder, &["--count", "120", "--seed", "8"], "pcap");
    for (path, scenario) in &scenarios {
        let dimensions = scenario["dimensions"].as_array().unwrap();
        // tshark has one conversation of twins, counts a joined datagram once, and reads no IPv6
        // packet that states no length.
        if ["vlan-twins", "fragments", "offloaded"].iter().any(|name| dimensions.contains(&(*name).into()))
        {
            continue;
        }
        let Some(mut found) = directions_by_tshark(path) else {
            eprintln!("skipped: tshark is not installed");
            return;
        };
        let mut right: BTreeMap<[String; 4], Sums> = BTreeMap::new();
        let mut undefined = Vec::new();
        let flows = scenario["flows"].as_array().unwrap().iter().filter(|flow| flow["protocol"] == 6);
        for flow in flows {
            for (side, other) in [("client", "server"), ("server", "client")] {
                let ((address, port), (to, to_port)) =
                    (end(&flow[side], "address", "port"), end(&flow[other], "address", "port"));
                let (key, side) = ([address, port.to_string(), to, to_port.to_string()], &flow[side]);
                if side["packets"] == 0 {
                    continue;
                }
                let again = number(side, "retransmissions_seen") + number(side, "retransmissions_filling");
                let sums = right.entry(key.clone()).or_default();
                sums[0] += number(side, "packets");
                sums[1] += number(side, "wire_bytes");
                sums[2] |= number(side, "tcp_flags");
                sums[3] += again;
                sums[4] += number(side, "reordered");
                // Copies, keep-alives and probes repeat numbers too.
                if ["duplicates", "keep_alives", "zero_window_probes"].iter().any(|name| side[name] != 0) {
                    undefined.push(key);
                }
            }
        }
        for key in undefined {
            for all in [&mut found, &mut right] {
                all.entry(key.clone()).and_modify(|sums| sums[3..].fill(0));
            }
        }
        assert_eq!(found, right, "{}", scenario["name"]);
    }
}

#[test]
fn a_folder_that_is_not_fit_is_refused() {
    let folder = Folder::new();
    folder.write("old", b"");
    flowloom(["generate", "scenarios", &folder.path(".")])
        .ends(2)
        .says(&["is not empty", "name another one"]);
    let file = folder.path("old");
    flowloom(["generate", "scenarios", &file]).ends(5).says(&["cannot write", "old"]);
    flowloom(["generate", "scenarios", &folder.path("new"), "--count", "0"]).ends(2).says(&["--count"]);
    let limited = format!("ulimit -f 1; exec \"$0\" generate scenarios '{}'", folder.path("full"));
    let mut command = Command::new("bash");
    let program = command_path();
    let output = command.args(["-c", &limited, &program]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("cannot write") && stderr.contains("File too large"), "{stderr}");
    assert!(!fs::exists(folder.path("full/manifest.json")).unwrap());
}

fn command_path() -> String {
    command([""; 0]).get_program().to_str().unwrap().to_owned()
}
