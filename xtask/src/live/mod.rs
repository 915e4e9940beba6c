//! `cargo xtask live`: runs the command on interfaces in network namespaces.

mod bridge;
mod examples;
mod faults;
mod network;
mod peer;
mod replay;
mod speed;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Result, bail};

use crate::program::finish;

const USAGE: &str = "\
usage: cargo xtask live [bridge [BACKEND] | faults | examples | speed | --short]

  Sends packets through a veth pair to `flowloom replay --iface`, and between two namespaces through
  `flowloom bridge`, and compares counts. `bridge` runs the second part only,
  and with a BACKEND only this one (af-packet, xdp, xdp-generic); `faults` lets outputs of records
  fail, an interface be silent and rule files change; `examples` runs the example
  appliances and a queue of the kernel; `speed` measures forwarders beside each other; --short runs a few tests of the
  bridge and all of the faults in less than two minutes, and prints the reason if it runs nothing because it may not create namespaces.";

/// Runs the tests and prints the counts of each.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            replay::run(root)?;
            bridge::run(root, false, None)?;
            faults::run(root)?;
            examples::run(root)?;
        }
        ["faults"] => faults::run(root)?,
        ["examples"] => examples::run(root)?,
        ["speed"] => speed::run(root)?,
        ["bridge"] => bridge::run(root, false, None)?,
        ["bridge", backend] => bridge::run(root, false, Some(backend))?,
        ["--short"] => {
            if let Some(why) = cannot_run() {
                eprintln!("live: not run: {why}");
                return Ok(ExitCode::SUCCESS);
            }
            faults::run(root)?;
            bridge::run(root, true, None)?;
        }
        // The programs that the tests run in the namespaces.
        ["peer", ref words @ ..] => peer::run(words)?,
        _ => bail!(
            "live takes bridge, faults, examples, speed or --short, not '{}'\n{USAGE}",
            arguments.join(" ")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns why the tests cannot run here.
fn cannot_run() -> Option<&'static str> {
    let name = "flowloom-probe";
    let quietly = |words: &[&str]| {
        ip(words).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !quietly(&["-V"]) {
        return Some("there is no ip (iproute2)");
    }
    let _ = quietly(&["netns", "delete", name]);
    if !quietly(&["netns", "add", name]) {
        return Some("network namespaces need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN");
    }
    let has_veth =
        quietly(&["-n", name, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1"]);
    let _ = quietly(&["netns", "delete", name]);
    (!has_veth).then_some("this kernel has no veth")
}

fn ip(words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(words);
    command
}

fn signal(process: &Child, name: &str) -> Result<()> {
    finish(Command::new("kill").args([name, &process.id().to_string()]))
}
