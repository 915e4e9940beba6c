//! Files that are something else than what a command needs.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::bytes::pcap;
use crate::support::{Folder, command, flowloom};

#[test]
fn a_file_that_is_no_capture_is_named_with_what_takes_it() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(3));
    let flows = folder.path("flows.csv");
    flowloom(["replay", &trace, "-q", "--flows", &flows]).ends(0);
    let rules = folder.write("fw.ipt", b"*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -j ACCEPT\nCOMMIT\n");
    let part = folder.path("a.part");
    flowloom(["replay", &trace, "-q", "--app", "accounting", "--save-part", &part]).ends(0);
    for (path, what) in [
        (&rules, ["a file of rules (iptables-save output)", "--rules"]),
        (&flows, ["a table (CSV)", "flowloom compare"]),
        (&part, ["a part of a run", "flowloom merge"]),
    ] {
        for verb in ["replay", "inspect", "top"] {
            let outcome = flowloom([verb, path]).ends(3).says(&what).says(&["is not a capture file"]);
            assert!(!outcome.stderr.contains("first bytes"), "{}", outcome.stderr);
        }
    }
    flowloom(["replay", &trace, "--rules", &trace])
        .ends(3)
        .says(&["it is a capture, not text", "a rule file is"]);
    let unknown = folder.write("noise", &[0, 1, 2, 3, 0xfe, 0xfe]);
    flowloom(["inspect", &unknown]).ends(3).says(&["first bytes 00 01 02"]);
}

#[test]
fn a_pipe_without_a_reader_is_said_and_waited_for() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(3));
    let pipe = folder.path("flows.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let said = folder.path("said");
    let errors = std::fs::File::create(&said).unwrap();
    let mut run = command(["replay", &trace, "--flows", &pipe])
        .stdout(errors.try_clone().unwrap())
        .stderr(errors)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !std::fs::read_to_string(&said).unwrap().contains("waiting for a process that reads") {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was said");
        std::thread::sleep(Duration::from_millis(10));
    }
    let read = std::fs::read_to_string(&pipe).unwrap();
    assert_eq!(read.lines().count(), 4, "{read}");
    assert!(run.wait().unwrap().success());
}
