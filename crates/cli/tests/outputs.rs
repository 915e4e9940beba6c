//! What output files contain after errors, interrupts and selections of nothing.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bytes::pcap;
use crate::interrupt::{await_handler, send};
use crate::support::{Folder, Outcome, flowloom, number};

/// Runs the command with a limit of the size of its files, in units of 512 bytes, which ends a file
/// as a full disk does.
fn with_file_limit(blocks: u32, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -f {blocks}; exec \"$@\"");
    command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_flowloom")]).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    Outcome::new(&command, output)
}

fn campus() -> String {
    format!("{}/../../traces/small/campus.pcap", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn full_disk_leaves_whole_records_and_reports_their_count() {
    let folder = Folder::new();
    let input = folder.write("t.pcap", &pcap(5000));
    for name in ["f.csv", "f.jsonl", "conn.log", "f.eve", "f.ipfix", "f.nf9"] {
        let path = folder.path(name);
        let outcome =
            with_file_limit(400, &["replay", &input, "--flows", &path, "--format", "json"]).ends(5);
        let outcome = outcome.says(&["cannot write flows", &path, "it ends after"]);
        let document = outcome.json();
        let records = &document["records"];
        let [written, lost] = ["written", "lost"].map(|name| number(records, name));
        assert_eq!(written + lost, 5000, "{name}: {records}");
        assert_eq!(document["balanced"], true, "{name}");
        let bytes = std::fs::read(&path).unwrap();
        assert!(lost > 0 && !bytes.is_empty(), "{name}: {records}");
        let text = String::from_utf8_lossy(&bytes);
        match name {
            "f.ipfix" => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
                    rest = rest.get(length..).expect("the last message is whole");
                }
            }
            "f.nf9" => {}
            _ => {
                assert!(text.ends_with('\n'), "{name}");
                let is_record = |line: &&str| {
                    !line.starts_with('#') && !line.starts_with("source,") && !line.is_empty()
                };
                assert_eq!(text.lines().filter(is_record).count() as u64, written, "{name}");
            }
        }
    }
}

#[test]
fn a_full_disk_leaves_whole_packets() {
    let folder = Folder::new();
    let input = folder.write("t.pcap", &pcap(60_000));
    for name in ["w.pcap", "w.pcapng"] {
        let path = folder.path(name);
        let written = ["replay", &input, "--write", &path];
        let extracted = ["extract", &input, "--filter", "tcp or udp", "-o", &path];
        for arguments in [&written[..], &extracted] {
            let outcome = with_file_limit(5000, arguments).ends(5);
            outcome.says(&["packets", &path, "it ends after", "bytes"]);
            let read = flowloom(["inspect", &path, "--strict", "--format", "json"]).ends(0).json();
            assert!(number(&read, "packets") > 1000, "{arguments:?}");
        }
    }
}

#[test]
fn records_for_an_absent_collector_are_counted() {
    let unused = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for scheme in ["ipfix", "netflow9"] {
        let collector = format!("{scheme}://{unused}");
        let outcome = flowloom(["replay", &campus(), "--flows", &collector, "--format", "json"]).ends(0);
        let outcome = outcome.says(&["400 records in", "did not reach the collector"]);
        let document = outcome.json();
        assert_eq!(number(&document["records"], "lost"), 400, "{scheme}");
        assert_eq!(document["balanced"], true);
    }
}

/// Starts a paced replay that writes records of flows that end early.
fn start_paced(path: &str, input: &str) -> (Command, std::process::Child) {
    let mut command = crate::support::command([
        "replay", input, "--speed", "2000", "--flows", path, "--timeout", "1", "--format", "json",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_handler(&child);
    (command, child)
}

#[test]
fn two_signals_within_half_a_second_are_one_interrupt() {
    let folder = Folder::new();
    let input = folder.write("t.pcap", &pcap(60_000));
    for pause in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(20)] {
        let path = folder.path("f.csv");
        let (command, child) = start_paced(&path, &input);
        std::thread::sleep(Duration::from_millis(300));
        send("-TERM", &child);
        std::thread::sleep(pause);
        send("-TERM", &child);
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
        let document = outcome.json();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count() as u64;
        assert_eq!(lines, 1 + number(&document, "flows"), "{pause:?}");
        assert_eq!(number(&document["records"], "lost"), 0);
    }
}

#[test]
fn an_exit_that_abandons_records_says_so() {
    let folder = Folder::new();
    let input = folder.write("t.pcap", &pcap(200));
    let path = folder.named_pipe();
    // A reader that opens the pipe and never reads, so that the run cannot end.
    let mut reader = Command::new("sh").args(["-c", &format!("sleep 60 < '{path}'")]).spawn().unwrap();
    let mut records = vec!["replay", &input, "--flows", &path, "--columns", "all", "--loop"];
    records.extend(["--timeout", "0.000001", "--speed", "100000"]);
    let mut command = crate::support::command(&records);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_handler(&child);
    std::thread::sleep(Duration::from_millis(2500));
    send("-INT", &child);
    std::thread::sleep(Duration::from_millis(700));
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
    reader.kill().unwrap();
    reader.wait().unwrap();
    outcome.says(&["interrupted a second time: the result is lost, with the records of", "flows", &path]);
}

#[test]
fn generate_that_is_interrupted_writes_nothing_to_a_file_and_whole_packets_to_a_pipe() {
    let folder = Folder::new();
    let path = folder.path("g.pcap");
    let most = ["generate", "trace", "--packets", "100000000", "-o"];
    let spawn = |output: &str| {
        let mut command = crate::support::command([&most[..], &[output]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (command, child)
    };
    let (command, child) = spawn(&path);
    await_handler(&child);
    std::thread::sleep(Duration::from_millis(500));
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
    outcome.says(&["interrupted after", &path, "was not written"]);
    assert!(!std::fs::exists(&path).unwrap());
    let (_, mut child) = spawn("-");
    let mut stdout = child.stdout.take().unwrap();
    let mut bytes = vec![0; 1 << 20];
    stdout.read_exact(&mut bytes).unwrap();
    send("-INT", &child);
    stdout.read_to_end(&mut bytes).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let path = folder.write("piped.pcap", &bytes);
    flowloom(["inspect", &path, "--strict"]).ends(0);
}

#[test]
fn an_interrupt_of_reproduce_keeps_the_items_before_it() {
    for wait in [0, 100, 400] {
        let folder = Folder::new();
        let saved = folder.path("saved");
        let mut command = crate::support::command([
            "reproduce", "dhash", "--scale", "quick", "--save", &saved, "--format", "json",
        ]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_handler(&child);
        std::thread::sleep(Duration::from_millis(wait));
        send("-INT", &child);
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
        assert_eq!(outcome.json()["complete"], false);
        assert!(std::fs::exists(format!("{saved}/result.json")).unwrap());
    }
}
