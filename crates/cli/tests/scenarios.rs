//! Scenarios with known answers: `replay` has the right records in every layout and format, and
//! tshark reads the captures as they were constructed. The columns are judged in `flowloom-apps`.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, command, flowloom, number};

const LAYOUTS: [&[&str]; 2] = [&["--workers", "2"], &["--workers", "2", "--scheduler", "rss"]];

fn end(of: &Value, address: &str, port: &str) -> (String, u64) {
    (of[address].as_str().unwrap().to_owned(), number(of, port))
}

/// What identifies flows, and how many packets of each side they have.
type Counts = Vec<(u64, u64, [(String, u64, u64); 2])>;

fn counted(
    protocol: u64,
    start: u64,
    mut ends: [(String, u64, u64); 2],
) -> (u64, u64, [(String, u64, u64); 2]) {
    ends.sort();
    (protocol, start, ends)
}

fn counts_of_records(records: &[Value]) -> Counts {
    let count = |record: &Value| {
        let ends = [("", "source"), ("reverse_", "destination")].map(|(prefix, side)| {
            let (address, port) = end(record, side, &format!("{side}_port"));
            (address, port, number(record, &format!("{prefix}packets")))
        });
        counted(number(record, "protocol"), number(record, "start"), ends)
    };
    let mut counts: Counts = records.iter().map(count).collect();
    counts.sort();
    counts
}

fn counts_of_answers(scenario: &Value) -> Counts {
    let count = |flow: &Value| {
        let ends = ["client", "server"].map(|side| {
            let (address, port) = end(&flow[side], "address", "port");
            (address, port, number(&flow[side], "packets"))
        });
        counted(number(flow, "protocol"), number(flow, "start_ns"), ends)
    };
    let mut counts: Counts = scenario["flows"].as_array().unwrap().iter().map(count).collect();
    counts.sort();
    counts
}

fn records(path: &str, scenario: &Value, options: &[&str]) -> Vec<Value> {
    let timeout = scenario["settings"]["idle_timeout_s"].to_string();
    let base =
        ["replay", path, "-qq", "--no-pin", "--app", "accounting", "--timeout", &timeout, "--defrag"];
    let output =
        ["--fields", "tcp,handshake,vlan,dns,http,tls,quic,ssh", "--flows", "-", "--flows-format", "jsonl"];
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
fn records_of_scenarios_are_equal_in_all_layouts_and_formats() {
    for (options, ending) in
        [(&["--count", "111"][..], "pcap"), (&["--count", "111", "--pcapng"], "pcapng")]
    {
        let folder = Folder::new();
        let manifest = generate(&folder, options, ending);
        for (nth, (path, scenario)) in manifest.iter().enumerate() {
            let sorted = |layout: &[&str]| {
                let mut records = records(path, scenario, layout);
                records.sort_by_key(Value::to_string);
                records
            };
            let inline = sorted(&[]);
            assert_eq!(counts_of_records(&inline), counts_of_answers(scenario), "{path}");
            for layout in LAYOUTS.into_iter().filter(|_| nth % 4 == 0) {
                assert_eq!(sorted(layout), inline, "{path} {layout:?}");
            }
        }
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
    const CHECKS: [&str; 10] = [
        "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
        "-o", "sctp.checksum:crc32c", "-E", "occurrence=a",
    ];
    const STATUS: [&str; 6] = ["ip", "tcp", "udp", "icmp", "icmpv6", "sctp"];
    let folder = Folder::new();
    let scenarios = generate(&folder, &["--count", "111", "--seed", "3"], "pcap");
    let status = STATUS.map(|layer| format!("{layer}.checksum.status"));
    let fields: Vec<&str> = iter::once("frame.len").chain(status.iter().map(String::as_str)).collect();
    // mergecap ends at a file that is cut off.
    let (cut, whole): (Vec<_>, Vec<_>) =
        scenarios.iter().partition(|(_, scenario)| scenario["name"].as_str().unwrap().contains("cut-off"));
    assert!(!cut.is_empty() && whole.len() > 100);
    for group in [&cut, &whole] {
        // One file, because tshark takes longer to start than to read a scenario.
        let all = folder.path("all.pcapng");
        let mut join = Command::new("mergecap");
        join.args(["-a", "-w", &all]).args(group.iter().map(|(path, _)| path));
        let Some(packets) = join.status().ok().and_then(|_| tshark(&all, &CHECKS, &fields)) else {
            eprintln!("skipped: tshark is not installed");
            return;
        };
        let mut rest = packets.as_slice();
        for (_, scenario) in group {
            let name = scenario["name"].as_str().unwrap();
            let count = usize::try_from(number(&scenario["capture"], "packets")).unwrap();
            let (packets, others) = rest.split_at_checked(count).expect("tshark reads fewer packets");
            rest = others;
            let bytes: u64 = packets.iter().map(|packet| packet[0].parse::<u64>().unwrap()).sum();
            assert_eq!(bytes, number(&scenario["capture"], "wire_bytes"), "{name}");
            let is_bad = |packet: &Vec<String>| {
                packet[1..].iter().any(|all| all.split(',').any(|status| status == "0"))
            };
            assert_eq!(packets.iter().position(is_bad), None, "{name}: a bad checksum");
        }
        assert!(rest.is_empty(), "tshark reads more packets");
    }
}

/// Packets, bytes, flags, retransmissions and reordered segments of one direction.
type Sums = [u64; 5];

/// Returns what tshark counts in each direction of connections, or `None` without tshark.
fn directions_by_tshark(path: &str) -> Option<BTreeMap<[String; 4], Sums>> {
    let fields = [
        "ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst", "tcp.dstport", "frame.len", "tcp.flags",
        "tcp.analysis.retransmission", "tcp.analysis.out_of_order",
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
    let scenarios = generate(&folder, &["--count", "160", "--seed", "8"], "pcap");
    let mut wrong = Vec::new();
    for (path, scenario) in &scenarios {
        let dimensions = scenario["dimensions"].as_array().unwrap();
        // tshark has one conversation of twins and of equal numbers, counts a joined datagram once,
        // and reads no IPv6 packet that states no length. It believes the numbers of RSTs outside
        // of the window, and acknowledgements of what was never sent, as the columns do.
        if [
            "vlan-twins", "fragments", "offloaded", "ack-unsent", "open-blind-reset",
            "close-reset-outside", "reuse-same", "reuse-after-refusal", "reuse-after-scan",
        ]
        .iter()
        .any(|name| dimensions.contains(&(*name).into()))
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
        if found != right {
            wrong.push(format!("{}: {found:?}, by construction {right:?}", scenario["name"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsuitable_folder_is_refused() {
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
