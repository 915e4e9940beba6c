//! Limits of memory and of descriptors, and interfaces that the machine lacks.

use crate::bytes::pcap;
use crate::support::{Folder, flowloom};

#[test]
fn lack_of_memory_for_flows_names_the_option() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(5));
    // Several hundred gigabytes, which are reserved but not touched if available.
    let outcome = flowloom(["replay", &trace, "--table-flows", "1G", "--flows-max", "1G"]);
    if outcome.status == Some(2) {
        outcome.says(&["free memory is", "a smaller --table-flows"]);
    }
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
fn tables_stay_within_the_budget_of_memory() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "20k", "--packets", "40k"]);
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

#[cfg(target_os = "linux")]
#[test]
fn unknown_interface_error_lists_the_existing_ones() {
    let refused = flowloom(["replay", "--iface", "no-such-if"]).ends(3);
    if cfg!(feature = "live") {
        refused.says(&["no-such-if", "CAP_NET_RAW"]);
    } else {
        refused.says(&["no interface no-such-if", "interfaces: ", "lo"]);
    }
}
