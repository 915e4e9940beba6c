//! Values that are too large or malformed: the error names the option and the limit.

use crate::bytes::{gzip, pcap};
use crate::support::{Folder, flowloom};

#[test]
fn an_ending_that_names_no_form_of_records_is_refused() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(5));
    for name in ["flows.xlsx", "flows.txt.gz", "flows.CSVX"] {
        let path = folder.path(name);
        flowloom(["replay", &trace, "--flows", &path])
            .ends(2)
            .says(&["--flows ", name, ".csv", ".jsonl", ".ipfix", "[exit 2]"]);
        assert!(!std::path::Path::new(&path).exists());
    }
    for name in ["flows", "flows.CSV", ".flows"] {
        let path = folder.path(name);
        flowloom(["replay", &trace, "--flows", &path]).ends(0);
        assert!(std::fs::read_to_string(path).unwrap().starts_with("source,destination,"), "{name}");
    }
}

#[test]
fn more_flows_than_tables_can_number_or_memory_holds_name_the_option() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(5));
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["--flows-max", "1073741825"],
            &["--flows-max 1073741825", "1073741824", "a smaller --flows-max"],
        ),
        (&["--flows-max", "3G", "--workers", "2"], &["--flows-max 3000000000", "2147483648"]),
        (&["--table-flows", "1073741825"], &["--table-flows 1073741825", "a smaller --table-flows"]),
        (&["--table", "sighash", "--table-flows", "268435457"], &["--table-flows 268435457", "268435456"]),
        (&["--flows-max", "9999999999"], &["[exit 2]"]),
        (&["--table-flows", "9999999999"], &["[exit 2]"]),
    ];
    for (arguments, words) in cases {
        flowloom([&["replay", &trace], arguments].concat()).ends(2).says(words);
    }
    // Several hundred gigabytes, which are reserved but not touched if available.
    let outcome = flowloom(["replay", &trace, "--table-flows", "1G", "--flows-max", "1G"]);
    if outcome.status == Some(2) {
        outcome.says(&["free memory is", "a smaller --table-flows"]);
    }
}

#[test]
fn what_a_full_table_refused_is_why_results_differ() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "3000"]);
    let outcome =
        flowloom(["replay", &trace, "--flows-max", "20", "--table-flows", "20", "--verify"]).ends(1);
    outcome.says(&["the result differs from the oracle's", "[exit 1]", "--flows-max"]);
}

#[test]
fn inspect_unpacks_no_more_than_it_may() {
    let folder = Folder::new();
    let packed = folder.write("t.pcap.gz", &gzip(&pcap(100)));
    flowloom(["inspect", &packed]).ends(0);
    flowloom(["inspect", &packed, "--unpack-max", "1k"])
        .ends(6)
        .says(&["exceeds the unpack limit", "limit"]);
    flowloom(["inspect", &packed, "--unpack-max", "0"]).ends(2).says(&["--unpack-max", "at least 1"]);
}

/// Runs the command under limits of the shell, and returns its exit status and its messages.
#[cfg(target_os = "linux")]
fn limited(limits: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit {limits}; exec \"$0\" \"$@\"");
    let output = std::process::Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_flowloom")])
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_without_memory_or_descriptors_ends_with_a_status() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "50k", "--packets", "100k", "--size", "64"]);
    let flows = folder.path("flows.csv");
    let mut statuses = std::collections::BTreeMap::new();
    // Below the size of the program, the system ends the process before it begins.
    for kibibytes in (64..300).step_by(16).map(|mebibytes| mebibytes << 10) {
        for workers in ["1", "2"] {
            let arguments = ["replay", &trace, "--workers", workers, "--no-pin", "-q", "--flows", &flows];
            let (status, said) = limited(&format!("-v {kibibytes}"), &arguments);
            let is_typed = matches!(status, Some(0 | 2 | 3 | 5 | 6 | 7));
            assert!(is_typed, "{kibibytes} KiB: {status:?} {said}");
            assert!(status == Some(0) || !said.is_empty(), "{kibibytes} KiB: {status:?} without a word");
            *statuses.entry(status).or_insert(0) += 1;
        }
    }
    assert!(statuses.len() > 1 && statuses.contains_key(&Some(0)), "{statuses:?}");
    // The program needs some to load its libraries.
    for files in [6, 7, 8, 10] {
        let (status, said) = limited(&format!("-n {files}"), &["replay", &trace, "--workers", "2", "-q"]);
        assert!(matches!(status, Some(0 | 2 | 3 | 5 | 6)), "{files} descriptors: {status:?} {said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_refusal_for_lack_of_memory_names_only_options_of_its_command() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "50k", "--packets", "100k", "--size", "64"]);
    let written = folder.path("e.pcapng");
    let top = ["top", &trace, "--workers", "2"];
    let extract = ["extract", &trace, "--where", "bytes > 1", "-o", &written];
    let mut refusals = 0;
    for arguments in [&top[..], &extract] {
        let help = flowloom([arguments[0], "--help"]).ends(0);
        // Below the size of the program, the system ends the process before it begins.
        for mebibytes in (64..300).step_by(12) {
            let (status, said) = limited(&format!("-v {}", mebibytes << 10), arguments);
            let options = said.split(|c: char| c != '-' && !c.is_ascii_lowercase());
            for option in options.filter(|word| word.starts_with("--")) {
                assert!(help.text().contains(option), "{mebibytes} MiB: {option} in {said}");
            }
            refusals += u32::from(status == Some(2));
        }
    }
    assert!(refusals > 0, "some are refused");
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_figures() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "20k", "--packets", "40k"]);
    flowloom(["replay", &trace, "--memory", "1M"]).ends(2).says(&[
        "--memory is",
        "the process",
        "at least",
        "use a larger --memory",
    ]);
    // An estimate of the flows that exceeds the budget is none of the table's needs.
    let many = folder.trace("m.pcap", &["--flows", "200k", "--packets", "200k", "--size", "64"]);
    let report = flowloom(["replay", &many, "--memory", "40M", "--format", "json"]).ends(0);
    assert!(crate::support::number(&report.json()["table"], "refused") > 0, "fewer than estimated");
    // Tables stop growing at the budget, and the packets of further flows are counted.
    let outcome =
        flowloom(["replay", &trace, "--memory", "32M", "--table-flows", "100", "--format", "json"]);
    let document = outcome.ends(0).json();
    assert!(crate::support::number(&document["table"], "memory_bytes") <= 4 << 20);
    assert_eq!(document["balanced"], true);
}
