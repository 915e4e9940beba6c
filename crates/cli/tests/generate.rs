//! `generate`: the same bytes for the same seed, and exactly the requested amount.

use std::process::Stdio;

use crate::support::{Folder, Outcome, command, flowloom, number, replay};

#[test]
fn a_seed_fixes_every_byte() {
    let folder = Folder::new();
    for ending in ["pcap", "pcapng", "pcap.gz", "pcap.zst"] {
        let make = |name: &str, seed: &str| {
            let path = folder
                .trace(&format!("{name}.{ending}"), &["--flows", "100", "--packets", "1k", "--seed", seed]);
            std::fs::read(path).unwrap()
        };
        let first = make("a", "7");
        assert_eq!(first, make("b", "7"), "{ending}: the same seed");
        assert_ne!(first, make("c", "8"), "{ending}: another seed");
    }
}

#[test]
fn a_mixture_has_the_flows_and_packets_asked_for() {
    let folder = Folder::new();
    for (flows, packets) in [("1", "10"), ("100", "100"), ("300", "5000"), ("2k", "20k")] {
        let path = folder.trace("t.pcap", &["--flows", flows, "--packets", packets, "--other", "0"]);
        let document = replay(&[&path]);
        let wanted = |text: &str| text.replace('k', "000").parse::<u64>().unwrap();
        assert_eq!(number(&document, "packets"), wanted(packets), "{flows} flows, {packets} packets");
        assert_eq!(number(&document, "flows"), wanted(flows), "{flows} flows, {packets} packets");
        assert_eq!(document["decoded"], document["packets"]);
    }
}

#[test]
fn the_document_counts_what_replay_counts() {
    let folder = Folder::new();
    for options in [&[][..], &["--snaplen", "64"], &["--size", "200"], &["--syn-flood", "500"]] {
        let path = folder.path("t.pcapng.zst");
        let base = ["generate", "trace", "--format", "json", "--packets", "3k", "-o", &path];
        let made = flowloom([&base, options].concat()).ends(0).silent().json();
        assert_eq!(made["schema"], "flowloom/generate/1");
        let read = replay(&[&path]);
        for field in ["packets", "bytes_on_wire", "bytes_captured"] {
            assert_eq!(made[field], read[field], "{field} with {options:?}");
        }
    }
}

#[test]
fn a_paper_trace_has_twenty_small_packets_a_session() {
    let folder = Folder::new();
    let path = folder.trace("t.pcap", &["--sessions", "1000"]);
    let document = replay(&[&path]);
    assert_eq!(number(&document, "packets"), 20_000);
    assert_eq!(number(&document, "flows"), 1000);
    assert_eq!(number(&document, "decoded"), 20_000);
    let tenths = number(&document, "bytes_on_wire") * 10 / 20_000;
    assert!((665..=675).contains(&tenths), "mean length {tenths} tenths of a byte");
}

#[test]
fn a_capture_on_standard_output_can_be_piped() {
    let folder = Folder::new();
    let path = folder.trace("t.pcap", &[]);
    let mut make = command(["generate", "trace", "--flows", "300", "--packets", "5000", "-o", "-"]);
    let mut make = make.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut read = command(["replay", "-", "--format", "json"]);
    read.stdin(make.stdout.take().unwrap());
    let output = read.output().unwrap();
    let read = Outcome::of(&read, output).ends(0).silent();
    let made = make.wait_with_output().unwrap();
    assert!(made.status.success());
    assert_eq!(made.stderr, b"", "nothing stands beside the capture");
    assert_eq!(read.json()["digest"], replay(&[&path])["digest"]);
}

#[test]
fn the_committed_samples_can_be_made_again() {
    let folder = Folder::new();
    let unknown = flowloom(["generate", "trace", "--sample", "no-such", "-o", &folder.path("x")]).ends(2);
    let names = unknown.stderr.lines().find_map(|line| line.trim().strip_prefix("samples: ")).unwrap();
    for name in names.split(", ") {
        let path = folder.trace(&format!("{name}.pcap"), &["--sample", name]);
        assert!(number(&replay(&[&path]), "packets") > 0, "{name}");
    }
}

#[test]
fn the_examples_of_the_help_can_be_made() {
    let folder = Folder::new();
    let help = flowloom(["generate", "trace", "--help"]).ends(0);
    let mut made = 0;
    for line in help.text().lines().filter_map(|line| line.trim().strip_prefix("flowloom ")) {
        // The text after the command describes its purpose; a trace of the paper has a file of a
        // gigabyte.
        let command: Vec<&str> = line.split("  ").next().unwrap_or_default().split_whitespace().collect();
        if command.contains(&"--paper-file") {
            continue;
        }
        let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
        let output = command.last_mut().unwrap();
        *output = folder.path(output);
        command.extend(["--snaplen", "60"].map(str::to_owned));
        flowloom(command).ends(0);
        made += 1;
    }
    assert_eq!(made, 2, "{}", help.text());
}

#[test]
fn what_cannot_be_made_is_said() {
    let folder = Folder::new();
    let path = folder.path("t.pcap");
    for (options, parts) in [
        (&["--flows", "0"][..], &["--flows", "at least 1"][..]),
        (&["--v6", "101%"], &["--v6", "not a share"]),
        (&["--size", "big"], &["--size", "imix, or a number of bytes"]),
        (&["--paper-file", "4"], &["--paper-file", "between 1 and 3"]),
        (&["--paper-file", "1", "--sessions", "5"], &["cannot be used with"]),
        (&["--paper-file", "1", "--flows", "5"], &["--flows", "cannot be used with", "--paper-file"]),
        (&["--sessions", "5", "--syn-flood", "2"], &["--syn-flood", "cannot be used with", "--sessions"]),
        (&["--sample", "campus", "--rate", "5"], &["--rate", "cannot be used with", "--sample"]),
        (&["--sample", "campus", "--seed", "5"], &["--seed", "cannot be used with", "--sample"]),
        (&["--flows", "100", "--packets", "10"], &["error: ", "100", "10"]),
    ] {
        let outcome = flowloom([&["generate", "trace", "-o", &path], options].concat());
        outcome.ends(2).says(parts);
    }
    let nowhere = folder.path("no/such/t.pcap");
    flowloom(["generate", "trace", "-o", &nowhere]).ends(5).says(&["cannot write", "t.pcap", "[exit 5]"]);
    flowloom(["generate", "trace", "-o", "/dev/full"]).ends(5).says(&["cannot write /dev/full"]);
}
