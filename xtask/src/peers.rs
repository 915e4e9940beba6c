//! `cargo xtask peers`: builds the program that times this project beside others, and runs it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::program::{build, build_in, exit_code, has_libpcap, output_of, succeeds};

/// Runs a comparison; `--help` and a wrong name are the program's.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut what = vec!["-p", "flowloom-benches", "--bin", "peers"];
    let mut more = Vec::new();
    let is_help = arguments.iter().any(|word| word == "-h" || word == "--help");
    if arguments.first().is_some_and(|word| word == "meters") {
        return crate::meters::run(root, &arguments[1..]);
    }
    let name = arguments.first().map_or("--help", String::as_str);
    match name {
        "flow-table" | "classifier" => what.extend(["--features", "dpdk"]),
        "tables" => what.extend(["--features", "dpdk,flat-maps"]),
        "l7" => what.extend(["--features", "vectorscan"]),
        "replay" if has_libpcap() => what.extend(["--features", "libpcap"]),
        "replay" => eprintln!("missing row: libpcap: its header pcap.h is not installed"),
        "sharded" if !is_help => {
            more.push("--flowloom".into());
            more.push(build(root, &["-p", "flowloom-cli", "--bin", "flowloom"])?.into_os_string());
        }
        _ => {}
    }
    // Help need not be fast.
    let profile = if is_help || arguments.is_empty() { "dev" } else { "release" };
    let mut command = Command::new(build_in(root, profile, &what)?);
    command.arg(name).args(arguments.get(1..).unwrap_or_default()).args(more);
    for (option, program, words) in [
        ("--git", "git", &["describe", "--always", "--dirty", "--exclude", "*"][..]),
        ("--rustc", "rustc", &["--version"][..]),
    ] {
        if let Some(text) = output_of(root, program, words) {
            command.arg(option).arg(text);
        }
    }
    succeeds(&mut command).map(exit_code)
}
