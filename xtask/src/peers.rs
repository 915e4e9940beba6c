//! `cargo xtask peers`: compares Flowloom's components with their rivals, in one process.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::bench::{build, output_of};
use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask peers flow-table [--rounds N] [--flows N,…] [--format json|text]
       cargo xtask peers maps [--rounds N] [--flows N,…] [--only owned|shared|users] [--format json|text]
       cargo xtask peers pauses [--rounds N] [--flows N]
       cargo xtask peers classifier [--rounds N] [--only NAME,…] [--sizes N,…] [--seeds N] [--headers N]
                                    [--dpdk-megabytes N] [--format json|text]
       cargo xtask peers tcb-cache [--rounds N] [--accesses N] [--trace FILE] [--python PROGRAM] [--format json|text]
       cargo xtask peers l7 [--labels] [--rounds N] [--capture FILE]… [--format json|text]

  flow-table   LineHash and DHash beside hashbrown, DashMap, the standard library's map, and DPDK's rte_hash where libdpdk
               is installed. DPDK needs reserved huge pages: as root, sysctl vm.nr_hugepages=2048
  maps         FlowMap beside LineHash, hashbrown and the standard library's map; ConcurrentFlowTable beside DashMap,
               papaya, scc and a locked hashbrown, alone and beside a writer; and the tables of two users, a virtual
               switch (BTreeMap, hashbrown) and a proxy (a map with a mutex, DashMap)
  pauses       the longest times of single operations while maps grow to 10 million flows and shrink again
  classifier   FlowCuts beside DPDK's rte_acl, on the rule sets below $FLOWLOOM_DATA and on generated ones. rte_acl
               runs on 4 KiB pages where no huge ones are reserved, which is slower. --only takes the sets whose names
               hold one of these; generated ones are made_acl_100000_2 (profile, rules, seed), so that one a call is a
               minute: --only made_acl_100000_2 --sizes 100000 --seeds 2
  tcb-cache    simulated caches beside libCacheSim's Python package (pip install libcachesim), on one oracleGeneral file
  l7           the L7 scanner beside vectorscan where libhs is installed (libvectorscan-dev), on the payload of the
               captures below $FLOWLOOM_DATA; with --labels its labels beside tshark's";

/// Runs the comparison with the given name.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        _ if is_help(arguments) => Ok(show(USAGE, arguments)),
        Some((name, rest)) if name == "flow-table" => flow_table(root, rest),
        Some((name, rest)) if name == "maps" || name == "pauses" => {
            let program = if name == "maps" { "map_peers" } else { "pauses" };
            let mut command = Command::new(build(root, &["-p", "flowloom-benches", "--bin", program])?);
            command.args(rest);
            finish(root, command)
        }
        Some((name, rest)) if name == "classifier" => classifier(root, rest),
        Some((name, rest)) if name == "tcb-cache" => tcb_cache(root, rest),
        Some((name, rest)) if name == "l7" => l7(root, rest),
        Some((name, _)) if !name.starts_with('-') => {
            bail!("unknown comparison '{name}'\n{USAGE}")
        }
        _ => Ok(show(USAGE, arguments)),
    }
}

fn flow_table(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let program =
        build(root, &["-p", "flowloom-benches", "--bin", "flow_table_peers", "--features", "dpdk"])?;
    let mut command = Command::new(program);
    command.args(arguments);
    match reserved_megabytes() {
        0 => eprintln!("missing row: rte_hash: no huge pages are reserved (sysctl vm.nr_hugepages=2048)"),
        megabytes => {
            command.args(["--dpdk-megabytes", &megabytes.to_string()]);
        }
    }
    finish(root, command)
}

fn classifier(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let program =
        build(root, &["-p", "flowloom-benches", "--bin", "classifier_peers", "--features", "dpdk"])?;
    let mut command = Command::new(program);
    command.args(arguments);
    if !arguments.iter().any(|argument| argument == "--dpdk-megabytes") {
        // DPDK also starts without reserved huge pages, on small ones; 100,000 rules need about a
        // gigabyte.
        let megabytes = match reserved_megabytes() {
            0 => 2048,
            megabytes => megabytes,
        };
        command.args(["--dpdk-megabytes", &megabytes.to_string()]);
    }
    finish(root, command)
}

fn tcb_cache(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let program = build(root, &["-p", "flowloom-benches", "--bin", "tcb_cache_peers"])?;
    let mut command = Command::new(program);
    // Without the Python package, the row is missing, and the program reports it.
    command.args(["--python", "python3"]).args(arguments);
    finish(root, command)
}

fn l7(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let program =
        build(root, &["-p", "flowloom-benches", "--bin", "l7_peers", "--features", "vectorscan"])?;
    let mut command = Command::new(program);
    command.args(arguments);
    finish(root, command)
}

/// Runs a comparison, with the commit and the compiler in its environment.
fn finish(root: &Path, mut command: Command) -> Result<ExitCode> {
    for (option, program, words) in [
        ("--git", "git", &["describe", "--always", "--dirty", "--exclude", "*"][..]),
        ("--rustc", "rustc", &["--version"][..]),
    ] {
        if let Some(text) = output_of(root, program, words) {
            command.arg(option).arg(text);
        }
    }
    let status = command.status().with_context(|| format!("{command:?} cannot be run"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the megabytes of reserved and free 2 MiB huge pages.
fn reserved_megabytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    free_megabytes(&meminfo)
}

fn free_megabytes(meminfo: &str) -> u64 {
    let field = |name: &str| {
        meminfo.lines().find_map(|line| {
            let value = line.strip_prefix(name)?.trim_start_matches(':').trim();
            value.split(' ').next()?.parse::<u64>().ok()
        })
    };
    field("HugePages_Free").unwrap_or(0) * field("Hugepagesize").unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_pages_are_counted_in_megabytes() {
        let meminfo = "HugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB\n";
        assert_eq!(free_megabytes(meminfo), 120);
        assert_eq!(free_megabytes(""), 0);
    }

    #[test]
    fn unknown_comparisons_are_refused() {
        let error = run(Path::new("."), &[String::from("tables")]).unwrap_err();
        assert!(error.to_string().contains("unknown comparison 'tables'"));
    }
}
