//! A standard output to which nothing can be written.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::bytes::pcap;
use crate::support::{Folder, Outcome, command};

#[test]
fn standard_output_that_is_full_is_an_error() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    let to_full = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.stdout(File::options().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        Outcome::of(&command, output)
    };
    let flows = folder.path("flows.csv");
    for arguments in [
        &["replay", &path, "--flows", &flows][..],
        &["inspect", &path],
        &["completions", "bash"],
        &["schema", "top"],
        &["generate", "trace", "-o", "-"],
        &["generate", "weblog", "-o", "-"],
        &["generate", "trace", "-o", &folder.path("u.pcap")],
        &["--version"],
        &["help", "replay"],
        &["inspect", "--help"],
    ] {
        to_full(arguments).ends(5).says(&[
            "error: cannot write to standard output",
            "No space left",
            "[exit 5]",
        ]);
    }
    let written = std::fs::read_to_string(&flows).expect("the flows are written all the same");
    assert_eq!(written.lines().count(), 6);
}

#[test]
#[cfg(target_os = "linux")]
fn standard_output_that_is_closed_is_an_error_where_something_is_written() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    let flows = folder.path("flows.csv");
    let to_nothing = |closed: &str, arguments: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" \"$@\" {closed}"), env!("CARGO_BIN_EXE_flowloom")]);
        shell.args(arguments).stdin(Stdio::null());
        let output = shell.output().unwrap();
        Outcome::of(&shell, output)
    };
    for arguments in [
        &["replay", &path, "--flows", &flows][..],
        &["replay", &path, "--flows", "-", "-qq"],
        &["inspect", &path],
        &["generate", "trace", "-o", "-"],
        &["--version"],
    ] {
        for closed in [">&-", "<&- >&-"] {
            to_nothing(closed, arguments)
                .ends(5)
                .says(&["error: cannot write ", ": it is closed; > /dev/null"]);
        }
    }
    assert_eq!(std::fs::read_to_string(&flows).unwrap().lines().count(), 6);
    to_nothing(">&-", &["replay", &path, "--flows", &flows, "-qq"]).ends(0);
    to_nothing(">/dev/null", &["inspect", &path]).ends(0);
    // Their own errors have nowhere to go.
    to_nothing("2>&-", &["inspect", "none.pcap"]).ends(3);
}
