//! Sends packets through a veth pair to `replay --iface`, in a network namespace.
//!
//! The receiver must count every packet sent: processed, or dropped for a reason. One run keeps up,
//! one has workers, one selects packets, one captures on all interfaces and so counts each packet
//! twice, and one is stopped while packets arrive, so that the kernel's buffer overflows. A program
//! that captures through libpcap follows.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{ip, signal};
use crate::program::{build_in, debug_command, finish, has_libpcap};

/// Name of the network namespace; an existing one with this name is removed.
const NETWORK: &str = "flowloom-live";
const SENDER: &str = "fl0";
const RECEIVER: &str = "fl1";
/// Number of packets in the trace, and number of times that it is sent.
const PACKETS: u64 = 50_000;
const TIMES: u64 = 4;
/// Time limits for the start of a run, and for the time without packets before all have arrived.
const PATIENCE: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(1500);

/// A network namespace that is removed on drop.
struct Network;

impl Network {
    fn new() -> Result<Self> {
        // Removes the namespace of an earlier run that was killed.
        let _ = Command::new("ip").args(["netns", "delete", NETWORK]).stderr(Stdio::null()).status();
        finish(&mut ip(&["netns", "add", NETWORK])).context(
            "cannot make a network namespace: run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN",
        )?;
        let network = Self;
        let inside = |words: &[&str]| finish(ip(&["-n", NETWORK]).args(words));
        inside(&["link", "add", SENDER, "type", "veth", "peer", "name", RECEIVER])?;
        // IPv6 would send announcements, which the test must not count.
        for interface in [SENDER, RECEIVER] {
            let setting = format!("net.ipv6.conf.{interface}.disable_ipv6=1");
            finish(network.command(Path::new("sysctl")).args(["-q", "-w", &setting]))?;
            inside(&["link", "set", interface, "up"])?;
        }
        Ok(network)
    }

    /// Returns a command that runs in the namespace.
    #[expect(clippy::unused_self, reason = "the namespace must exist")]
    fn command(&self, program: &Path) -> Command {
        let mut command = ip(&["netns", "exec", NETWORK]);
        command.arg(program);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", NETWORK]).status();
    }
}

/// Runs the three tests and prints the counts of each.
pub(super) fn run(root: &Path) -> Result<()> {
    let flowloom = debug_command(root)?;
    // The directory of cargo's build output.
    let trace = flowloom.with_file_name("live.pcap");
    finish(
        Command::new(&flowloom)
            .args(["generate", "trace", "-q", "--flows", "2k", "--size", "200", "--seed", "7"])
            .args(["--packets", &PACKETS.to_string(), "-o"])
            .arg(&trace),
    )?;
    let libpcap = if has_libpcap() {
        let what = ["-p", "flowloom-traffic", "--example", "libpcap", "--features", "live"];
        Some(build_in(root, "dev", &what)?)
    } else {
        None
    };
    let network = Network::new()?;
    let bench = Bench { network, flowloom, trace };
    for (name, interface, options, stopped) in [
        ("inline", RECEIVER, &[][..], false),
        ("two workers, with --defrag", RECEIVER, &["--workers", "2", "--defrag"][..], false),
        ("a selection", RECEIVER, &["--filter", "tcp or not tcp"][..], false),
        ("all interfaces", "any", &[][..], false),
        ("stopped while packets arrive", RECEIVER, &[][..], true),
    ] {
        let document = bench.replay(interface, options, stopped)?;
        let expected = PACKETS * TIMES * if interface == "any" { 2 } else { 1 };
        let count = |field: &str| document[field].as_u64().unwrap_or_default();
        let dropped = document["dropped"].as_object().cloned().unwrap_or_default();
        let not_tracked = document["not_tracked"].as_object().cloned().unwrap_or_default();
        let lost: u64 = dropped.values().chain(not_tracked.values()).filter_map(Value::as_u64).sum();
        eprintln!(
            "{name}: expected {expected}, seen {} = processed {} + not tracked or dropped {lost} {} {}",
            count("packets"),
            count("processed"),
            document["not_tracked"],
            document["dropped"]
        );
        ensure!(document["balanced"] == true, "the report is not balanced: {document:#}");
        ensure!(count("packets") == expected, "packets are missing: {document:#}");
        ensure!(count("packets") == count("processed") + lost, "the sums differ: {document:#}");
        ensure!(
            stopped == dropped.contains_key("interface_full"),
            "unexpected drops of the interface: {document:#}"
        );
    }
    if let Some(libpcap) = libpcap {
        let (counts, bytes) = bench.libpcap(&libpcap)?;
        eprintln!("libpcap: {counts}");
        ensure!(
            counts == format!("{} packets, {bytes} bytes, 0 dropped", PACKETS * TIMES),
            "{bytes} bytes were sent"
        );
    } else {
        eprintln!("libpcap: not run, because its header pcap.h is not installed (Debian: libpcap-dev)");
    }
    Ok(())
}

struct Bench {
    network: Network,
    flowloom: PathBuf,
    trace: PathBuf,
}

impl Bench {
    /// Sends the trace to a run, interrupts the run after all packets have arrived, and returns its
    /// report.
    fn replay(&self, interface: &str, options: &[&str], stopped: bool) -> Result<Value> {
        let mut run = self
            .network
            .command(&self.flowloom)
            .args(["replay", "--iface", interface, "--format", "json", "--no-pin"])
            // All packets fit, except where the run is stopped.
            .args(["--kernel-buffer", if stopped { "512k" } else { "1G" }])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the run")?;
        let sent = self.wait_for_socket(&mut run).and_then(|()| {
            if stopped {
                signal(&run, "-STOP")?;
            }
            let sent = self.send();
            if stopped {
                signal(&run, "-CONT")?;
            }
            sent
        });
        std::thread::sleep(QUIET);
        signal(&run, "-INT")?;
        let output = run.wait_with_output()?;
        sent?;
        ensure!(output.status.code() == Some(130), "the run ended with {}", output.status);
        serde_json::from_slice(&output.stdout).context("the run printed no document")
    }

    /// Sends the trace to a program that captures through libpcap. Returns what the program prints,
    /// and the number of bytes sent.
    fn libpcap(&self, program: &Path) -> Result<(String, u64)> {
        let packets = (PACKETS * TIMES).to_string();
        let mut run = self
            .network
            .command(program)
            .args([RECEIVER, &packets])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the program")?;
        let sent = self.wait_for_socket(&mut run).and_then(|()| self.send());
        std::thread::sleep(QUIET);
        if run.try_wait()?.is_none() {
            run.kill()?;
        }
        let output = run.wait_with_output()?;
        Ok((String::from_utf8_lossy(&output.stdout).trim().to_owned(), sent?))
    }

    /// Sends all packets, and returns their bytes.
    fn send(&self) -> Result<u64> {
        let mut sender = self.network.command(&self.flowloom);
        sender.args(["send", "--iface", SENDER, "--speed", "max", "--format", "json", "-q"]);
        let output = sender.args(["--passes", &TIMES.to_string()]).arg(&self.trace).output()?;
        let document: Value = serde_json::from_slice(&output.stdout).context("the sender")?;
        ensure!(document["sent"] == PACKETS * TIMES, "the sender said: {document:#}");
        document["sent_bytes"].as_u64().context("the sender counted no bytes")
    }

    /// Waits until a socket in the namespace captures packets.
    fn wait_for_socket(&self, run: &mut Child) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = run.try_wait()? {
                bail!("the run ended at once, with {status}");
            }
            let table = self.network.command(Path::new("cat")).arg("/proc/net/packet").output()?;
            // The fourth column is the protocol, which a socket has once it is bound: 3 for all.
            let is_bound = |line: &str| line.split_whitespace().nth(3) == Some("0003");
            if String::from_utf8_lossy(&table.stdout).lines().any(is_bound) {
                // libpcap attaches its filter afterwards.
                std::thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the run has opened no socket after {PATIENCE:?}")
    }
}
