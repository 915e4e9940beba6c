//! An interrupt ends a run with its result; a second one ends it immediately.

use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bytes::pcap;
use crate::support::{Folder, Outcome, check_balance, command, flowloom, number};

/// Time limits until a run has read something; a busy machine may need the longer ones.
const WAITS: [Duration; 3] =
    [Duration::from_millis(700), Duration::from_millis(2_500), Duration::from_secs(9)];

/// Starts a run that would take very long, and gives it time to read packets.
fn start(arguments: &[&str]) -> (Command, Child) {
    start_for(arguments, WAITS[0])
}

fn start_for(arguments: &[&str], wait: Duration) -> (Command, Child) {
    let mut command = command(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(wait);
    await_handler(&child);
    (command, child)
}

/// Starts a run that reads from a pipe.
fn start_piped(arguments: &[&str]) -> (Command, Child, ChildStdin) {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (command, child, stdin)
}

/// Waits until a process handles SIGINT, even on a slow machine, if the system reports it.
pub(crate) fn await_handler(child: &Child) {
    let begun = Instant::now();
    let path = format!("/proc/{}/status", child.id());
    while let Ok(status) = std::fs::read_to_string(&path) {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let is_caught = caught.is_none_or(|bits| u64::from_str_radix(bits.trim(), 16).unwrap() & 2 != 0);
        if is_caught || status.contains("State:\tZ") {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not handle SIGINT: {status}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn an_interrupted_run_prints_a_balanced_result() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(60_000));
    let paced = ["replay", &path, "--format", "json", "--speed", "1000"];
    for layout in [&[][..], &["--workers", "2"], &["--no-mmap"], &["--loop"]] {
        for signal in ["-INT", "-TERM"] {
            let mut read = WAITS.into_iter().map(|wait| {
                let (command, child) = start_for(&[&paced[..], layout].concat(), wait);
                let begun = Instant::now();
                send(signal, &child);
                let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
                assert!(begun.elapsed() < Duration::from_secs(20), "{layout:?}");
                let document = outcome.json();
                check_balance(&document);
                assert_eq!(document["interrupted"], true, "{layout:?}");
                assert_eq!(document["complete"], false, "{layout:?}");
                assert_eq!(document["inputs"][0]["path"], path.as_str(), "{layout:?}");
                assert_eq!(document["inputs"][0]["packets"], document["packets"], "{layout:?}");
                let share = document["read_share"].as_f64();
                if layout != ["--loop"] {
                    assert!((0.0..1.0).contains(&share.unwrap()), "{layout:?}: {share:?}");
                }
                number(&document, "packets")
            });
            let packets = read.find(|&packets| packets > 0);
            assert!(packets.is_some_and(|packets| packets < 60_000), "{layout:?}: {packets:?}");
        }
    }
}

#[test]
fn sighup_does_not_end_a_run_under_nohup() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(60_000));
    let mut run = Command::new("nohup");
    run.arg(env!("CARGO_BIN_EXE_flowloom")).args(["replay", &path, "--speed", "1000", "--format", "json"]);
    let mut child = run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(WAITS[0]);
    send("-HUP", &child);
    std::thread::sleep(WAITS[0]);
    assert_eq!(child.try_wait().unwrap(), None);
    send("-INT", &child);
    check_balance(&Outcome::new(&run, child.wait_with_output().unwrap()).ends(130).json());
}

#[test]
fn a_comparison_that_is_interrupted_before_its_first_round_says_so() {
    let (command, child) = start(&["bench", "table", "--flows", "100k", "--format", "json"]);
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
    assert_eq!(outcome.json()["complete"], false);
}

#[test]
fn comparison_is_interrupted_within_a_round_of_any_length() {
    let most = u64::MAX.to_string();
    for rounds in ["1", &most] {
        let (command, child) =
            start(&["bench", "pipeline", "--packets", &most, "--rounds", rounds, "--format", "json"]);
        let begun = Instant::now();
        send("-INT", &child);
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(outcome.json()["complete"], false);
    }
}

#[test]
fn an_inspection_is_interrupted_while_it_digests_a_file() {
    let folder = Folder::new();
    let path = folder.write("long.pcap", &pcap(10));
    // A hole: no data is on disk, and to digest it takes a minute.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(64 << 30).unwrap();
    let (command, child) = start(&["inspect", &path, "--limit", "5", "--format", "json"]);
    let begun = Instant::now();
    send("-INT", &child);
    let document = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130).json();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(
        (&document["packets"], &document["files"][0]["sha256"]),
        (&5.into(), &serde_json::Value::Null)
    );
}

#[test]
fn interrupted_run_has_a_verdict_that_says_so() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(60_000));
    let (command, child) = start(&["replay", &path, "--speed", "1000"]);
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130).silent();
    assert!(outcome.text().lines().last().unwrap().starts_with("interrupted at "), "{}", outcome.text());
}

#[test]
fn an_interrupted_run_still_writes_its_flows_and_verifies() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(60_000));
    let flows = folder.path("flows.csv");
    let arguments = ["replay", &path, "--speed", "1000", "--format", "json", "--verify", "--flows", &flows];
    let (command, child) = start(&[&arguments[..], &["--workers", "2"]].concat());
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
    let document = outcome.json();
    assert_eq!(document["verify"]["agrees"], true, "{document:#}");
    let records = std::fs::read_to_string(&flows).unwrap().lines().count() as u64 - 1;
    assert_eq!(records, number(&document, "flows"));
}

#[test]
fn run_waits_for_the_first_writer_of_a_named_pipe() {
    let folder = Folder::new();
    let path = folder.named_pipe();
    for (verb, layout) in [
        ("replay", &[][..]),
        ("replay", &["--workers", "2"]),
        ("inspect", &[]),
        (
            "classify",
            &["--rules", &folder.write("rules.txt", b"@1.2.3.4/32 0.0.0.0/0 0:65535 0:65535 0x06/0xFF\n")],
        ),
    ] {
        let arguments = [&[verb, &path, "--format", "json"], layout].concat();
        let (command, child) = start(&arguments);
        let begun = Instant::now();
        send("-INT", &child);
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments:?}");
        assert_eq!(number(&outcome.json(), "packets"), 0, "{arguments:?}");
        // A reader that is allowed to wait gets all available data.
        let (command, child) = start(&arguments);
        std::fs::write(&path, pcap(100)).unwrap();
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(0);
        assert_eq!(number(&outcome.json(), "packets"), 100, "{arguments:?}");
    }
}

#[test]
fn reading_a_log_from_a_named_pipe_ends_at_an_interrupt() {
    let folder = Folder::new();
    let path = folder.named_pipe();
    let arguments = ["simulate", "tcb-cache", &path, "--format", "json", "--policy", "fa-lru"];
    let picture = folder.path("curve.svg");
    let (command, child) = start(&[&arguments[..], &["--svg", &picture]].concat());
    let begun = Instant::now();
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130).silent();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!std::fs::exists(&picture).unwrap(), "there is nothing to draw");
    let document = outcome.json();
    assert_eq!(document["interrupted"], true, "{document:#}");
    assert_eq!(number(&document["trace"], "accesses"), 0, "{document:#}");
    // A reader that is allowed to wait gets all available data.
    let (command, child) = start(&arguments);
    let line = "10.0.0.7 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 203\n";
    std::fs::write(&path, line.repeat(100)).unwrap();
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(0);
    assert_eq!(number(&outcome.json()["trace"], "accesses"), 100);
    let (command, child) = start(&arguments);
    std::fs::write(&path, pcap(100)).unwrap();
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(2);
    outcome.says(&["from standard input or a pipe", "save it to a file first"]);
}

#[test]
fn interrupted_inspection_of_a_silent_pipe_prints_its_result() {
    for verb in ["inspect", "replay"] {
        let mut read = WAITS.into_iter().map(|wait| {
            let (command, child, mut stdin) = start_piped(&[verb, "-", "--format", "json"]);
            std::io::Write::write_all(&mut stdin, &pcap(100)).unwrap();
            std::thread::sleep(wait);
            send("-INT", &child);
            let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
            drop(stdin);
            number(&outcome.json(), "packets")
        });
        assert!(read.any(|packets| packets == 100), "{verb}");
    }
}

#[test]
fn interrupted_run_on_a_silent_pipe_prints_its_result() {
    let packets = pcap(100);
    // The whole file, a file that ends inside a record, the beginning of a header, and an empty
    // file.
    for (bytes, whole) in [(packets.len(), 100), (packets.len() - 10, 99), (10, 0), (0, 0)] {
        for layout in [&[][..], &["--workers", "1"], &["--workers", "2", "--strict"]] {
            let read =
                WAITS.into_iter().map(|wait| interrupted_at_a_silent_pipe(&packets[..bytes], layout, wait));
            let read: Vec<u64> = read.take_while(|&read| read != whole).collect();
            assert!(read.len() < 3, "{bytes} bytes, {layout:?}: {read:?} packets of {whole}");
        }
    }
}

#[test]
fn received_packets_are_processed_while_a_pipe_is_silent() {
    // More than several whole batches.
    let packets = pcap(1_234);
    for layout in
        [&[][..], &["--workers", "1"], &["--workers", "2"], &["--workers", "2", "--scheduler", "lfb"]]
    {
        let mut seen = WAITS.into_iter().map(|wait| {
            let (_, child, mut stdin) =
                start_piped(&[&["replay", "-", "--format", "json"], layout].concat());
            std::io::Write::write_all(&mut stdin, &packets).unwrap();
            std::thread::sleep(wait);
            send("-USR1", &child);
            std::thread::sleep(Duration::from_millis(200));
            drop(stdin);
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stderr).unwrap()
        });
        let all = |said: &String| said.contains("packets 1234 ") && said.contains("in flight 0");
        assert!(seen.any(|said| all(&said)), "{layout:?}");
    }
}

#[test]
fn inputs_before_a_named_pipe_without_a_writer_are_processed() {
    let folder = Folder::new();
    let (file, path) = (folder.write("t.pcap", &pcap(1_234)), folder.named_pipe());
    for (verb, layout) in [
        ("replay", &[][..]),
        ("replay", &["--workers", "2"]),
        ("replay", &["--workers", "2", "--scheduler", "lfb"]),
        ("replay", &["--workers", "2", "--order", "external"]),
        ("inspect", &[]),
    ] {
        // With a merge by time, the packets of the file would wait for the first packet of the
        // pipe.
        let order: &[&str] = if verb == "replay" { &["--concat"] } else { &[] };
        let arguments = [&[verb, &file, &path, "--format", "json"], order, layout].concat();
        if verb == "replay" {
            let mut seen = WAITS.into_iter().map(|wait| {
                let (command, child) = start_for(&arguments, wait);
                send("-USR1", &child);
                std::thread::sleep(Duration::from_millis(200));
                send("-INT", &child);
                let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
                check_balance(&outcome.json());
                outcome.stderr
            });
            let all = |said: &String| said.contains("packets 1234 ") && said.contains("in flight 0");
            assert!(seen.any(|said| all(&said)), "{arguments:?}");
        }
        // A reader that is allowed to wait gets all available data.
        let (command, child) = start(&arguments);
        std::fs::write(&path, pcap(100)).unwrap();
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(0);
        assert_eq!(number(&outcome.json(), "packets"), 1_334, "{arguments:?}");
        let (command, mut child) = start(&arguments);
        let begun = Instant::now();
        send("-INT", &child);
        child.wait().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{arguments:?}");
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
        assert_eq!(number(&outcome.json(), "packets"), 1_234, "{arguments:?}");
        // A file that is not a capture causes the usual error.
        let (command, child) = start(&arguments);
        std::fs::write(&path, "GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        let outcome = Outcome::new(&command, output);
        assert!(outcome.stderr.contains("no magic number"), "{arguments:?}: {}", outcome.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn run_that_fails_while_its_pipe_is_silent_ends() {
    // More bytes than one write of the file.
    let packets = pcap(60_000);
    for layout in [&[][..], &["--workers", "1"], &["--workers", "2"]] {
        let arguments = ["replay", "-", "--write", "/dev/full", "--format", "json"];
        let (command, mut child, mut stdin) = start_piped(&[&arguments[..], layout].concat());
        // It may have ended before all bytes are written.
        drop(std::io::Write::write_all(&mut stdin, &packets));
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{layout:?} waits for the pipe");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(stdin);
        let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(5);
        check_balance(&outcome.says(&["cannot be written"]).json());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn written_records_are_in_the_file_while_the_pipe_is_silent() {
    let folder = Folder::new();
    let packets = pcap(100);
    for layout in [&[][..], &["--workers", "1"], &["--workers", "2", "--scheduler", "lfb"]] {
        // Fewer bytes than one write of the file.
        for (path, status) in [(folder.path("out.pcapng"), 0), (String::from("/dev/full"), 5)] {
            let mut command =
                command([&["replay", "-", "--write", &path, "--format", "json"], layout].concat());
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            std::io::Write::write_all(&mut stdin, &packets).unwrap();
            let begun = Instant::now();
            let mut is_there = || match status {
                // Read by another command: the header, an interface and all packets.
                0 => {
                    let read = flowloom(["inspect", &path, "--format", "json"]);
                    read.status == Some(0) && number(&read.json(), "packets") == 100
                }
                _ => child.try_wait().unwrap().is_some(),
            };
            while !is_there() {
                assert!(begun.elapsed() < Duration::from_secs(20), "{path} {layout:?} waits for the pipe");
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(stdin);
            let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(status);
            check_balance(&outcome.json());
            drop(std::fs::remove_file(folder.path("out.pcapng")));
        }
    }
}

/// Interrupts a run that has had this long to read these bytes from a pipe that stays open. Returns
/// the number of packets in its result.
fn interrupted_at_a_silent_pipe(bytes: &[u8], layout: &[&str], wait: Duration) -> u64 {
    let (command, child, mut stdin) = start_piped(&[&["replay", "-", "--format", "json"], layout].concat());
    std::io::Write::write_all(&mut stdin, bytes).unwrap();
    std::thread::sleep(wait);
    let begun = Instant::now();
    send("-INT", &child);
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
    drop(stdin);
    assert!(begun.elapsed() < Duration::from_secs(20), "{layout:?}");
    let document = outcome.json();
    check_balance(&document);
    assert_eq!(document["interrupted"], true, "{layout:?}");
    number(&document, "packets")
}
