//! `cargo xtask bench`: builds a bench and runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{is_help, show};

const USAGE: &str =
    "usage: cargo xtask bench replay [--rounds N] [--capture FILE] [--format json|text] [-o FILE]
       cargo xtask bench sharded [--packets N] [--rounds N] [--workers N,...] [--format json|text] [-o FILE]

  replay   compares the packet path with copying the same bytes, with libpcap where it is installed, and with
           itself step by step; `flowloom bench against` compares whole programs. Without --capture it works on pcaps/dev_mix_ether.pcap.zst
           below $FLOWLOOM_DATA, or on a generated mixture.
  sharded  compares whole programs on a generated capture [5M packets, 7 rounds]: one thread, workers with shards
           of the flows [2, 4, ... as far as there are CPUs], a pipeline, and two programs on its halves. Both
           captures take 700 bytes per packet below $TMPDIR.";

/// Paths of libpcap's header on supported systems.
const LIBPCAP_HEADERS: [&str; 4] = [
    "/usr/include/pcap/pcap.h",
    "/usr/include/pcap.h",
    "/usr/local/include/pcap/pcap.h",
    "/opt/homebrew/include/pcap/pcap.h",
];

/// Runs the bench with the given name.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        _ if is_help(arguments) => Ok(show(USAGE, arguments)),
        Some((name, rest)) if name == "replay" => replay(root, rest),
        Some((name, rest)) if name == "sharded" => {
            let flowloom = build(root, &["-p", "flowloom-cli", "--bin", "flowloom"])?;
            let bench = build(root, &["-p", "flowloom-benches", "--bin", "sharded"])?;
            hand_over(root, Command::new(bench).args(rest).arg("--flowloom").arg(flowloom))
        }
        Some((name, _)) if !name.starts_with('-') => {
            bail!("unknown bench '{name}'\n{USAGE}")
        }
        _ => Ok(show(USAGE, arguments)),
    }
}

fn replay(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut what = vec!["-p", "flowloom-benches", "--bin", "replay"];
    if has_libpcap() {
        what.extend(["--features", "libpcap"]);
    } else {
        eprintln!("missing row: libpcap: its header pcap.h is not installed");
    }
    let mut command = Command::new(build(root, &what)?);
    command.args(arguments);
    hand_over(root, &mut command)
}

/// Returns whether programs can be built with libpcap.
pub(crate) fn has_libpcap() -> bool {
    LIBPCAP_HEADERS.iter().any(|header| Path::new(header).is_file())
}

/// Runs a bench, with the commit and the compiler in its environment.
fn hand_over(root: &Path, command: &mut Command) -> Result<ExitCode> {
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

/// A message of cargo's build output, with the fields that this program needs.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// Builds one program with optimisation and returns its path.
pub(crate) fn build(root: &Path, what: &[&str]) -> Result<PathBuf> {
    build_in(root, "release", what)
}

/// Builds one program in a profile and returns its path.
pub(crate) fn build_in(root: &Path, profile: &str, what: &[&str]) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--profile", profile, "--quiet", "--message-format=json-render-diagnostics"])
        .args(what)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build {} failed", what.join(" "));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("cargo build {} built no program", what.join(" ")))
}

/// Returns the command, built without optimisation. If `FLOWLOOM_PROGRAM` names one, it is that
/// one: the tests of the workspace have built it with the features of all crates, and cargo would
/// build it once more with its own.
pub(crate) fn debug_command(root: &Path) -> Result<PathBuf> {
    match std::env::var_os("FLOWLOOM_PROGRAM") {
        Some(program) => Ok(PathBuf::from(program)),
        None => build_in(root, "dev", &["-p", "flowloom-cli", "--bin", "flowloom"]),
    }
}

/// Returns the last program that cargo's messages name.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter_map(|message| message.executable)
        .next_back()
}

/// Returns the output of a program, or an empty text if it cannot run.
pub(crate) fn output_of(root: &Path, program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).current_dir(root).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_what_cargo_says() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"executable\":null}
{\"reason\":\"compiler-artifact\",\"executable\":\"target/release/replay\"}
{\"reason\":\"build-finished\",\"success\":true}
";
        assert_eq!(executable(messages), Some(PathBuf::from("target/release/replay")));
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }

    #[test]
    fn unknown_benches_are_refused() {
        let error = run(Path::new("."), &[String::from("table")]).unwrap_err();
        assert!(error.to_string().contains("unknown bench 'table'"));
    }
}
