//! Builds programs, and asks others for a line.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// Paths of libpcap's header on supported systems.
const LIBPCAP_HEADERS: [&str; 4] = [
    "/usr/include/pcap/pcap.h",
    "/usr/include/pcap.h",
    "/usr/local/include/pcap/pcap.h",
    "/opt/homebrew/include/pcap/pcap.h",
];

/// Returns whether programs can be built with libpcap.
pub(crate) fn has_libpcap() -> bool {
    LIBPCAP_HEADERS.iter().any(|header| Path::new(header).is_file())
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

/// Runs a program to its end.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    ensure!(succeeds(command)?, "{command:?} failed");
    Ok(())
}

/// Shows a command line, and runs the program to its end.
pub(crate) fn finish_shown(command: &mut Command) -> Result<()> {
    eprintln!("{command:?}");
    finish(command)
}

/// Runs a program, and returns whether it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.status().with_context(|| format!("{command:?} cannot be run"))?.success())
}

/// Returns the exit code of a verb.
pub(crate) fn exit_code(is_right: bool) -> ExitCode {
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    fn built_program_is_found_in_the_output_of_cargo() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"executable\":null}
{\"reason\":\"compiler-artifact\",\"executable\":\"target/release/replay\"}
{\"reason\":\"build-finished\",\"success\":true}
";
        assert_eq!(executable(messages), Some(PathBuf::from("target/release/replay")));
        assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }
}
