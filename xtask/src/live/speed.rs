//! Measures forwarders between the same two hosts, in turn: throughput, processor time per packet,
//! and latency at half of each one's throughput.
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::ip;
use super::network::{BRIDGE, CLIENT, Network, PORTS, Running, SERVER, SERVER_V4};
use crate::program::{build, finish};

const ROUNDS: usize = 3;
/// Seconds of each load.
const SECONDS: u64 = 2;
const RULES: u32 = 1000;

/// What forwards.
#[derive(Clone, Copy)]
enum Forwarder {
    /// The kernel's bridge, with this number of nftables rules.
    Kernel(u32),
    /// A program of this workspace that does not look at frames, by a backend.
    Bare(&'static str),
    /// `flowloom bridge` with a thousand rules, by a backend.
    Bridge(&'static str),
}

const FORWARDERS: [(&str, Forwarder); 8] = [
    ("kernel bridge", Forwarder::Kernel(0)),
    ("kernel bridge, nftables, 1,000 rules", Forwarder::Kernel(RULES)),
    ("AF_PACKET copy", Forwarder::Bare("af-packet")),
    ("AF_XDP native copy", Forwarder::Bare("xdp")),
    ("AF_XDP generic copy", Forwarder::Bare("xdp-generic")),
    ("flowloom bridge, AF_PACKET, 1,000 rules", Forwarder::Bridge("af-packet")),
    ("flowloom bridge, AF_XDP native, 1,000 rules", Forwarder::Bridge("xdp")),
    ("flowloom bridge, AF_XDP generic, 1,000 rules", Forwarder::Bridge("xdp-generic")),
];

/// The figures of one measurement.
#[derive(Clone, Copy, Default)]
struct Figures {
    per_second: f64,
    cpu_ns: Option<f64>,
    /// In microseconds.
    latency: [u64; 2],
}

struct Programs {
    flowloom: PathBuf,
    forward: PathBuf,
    rules: PathBuf,
}

/// Measures all forwarders and prints the medians.
pub(super) fn run(root: &Path) -> Result<()> {
    let flowloom = build(root, &["-p", "flowloom-cli", "--bin", "flowloom"])?;
    let forward = build(root, &["-p", "flowloom-io", "--example", "forward"])?;
    let programs = Programs { rules: flowloom.with_file_name("speed.toml"), flowloom, forward };
    let mut text = String::new();
    for number in 0..RULES {
        let [_, _, a, b] = number.to_be_bytes();
        writeln!(text, "[[rule]]\nsource = \"172.16.{a}.{b}/32\"\nprotocol = \"tcp\"\naction = \"deny\"")?;
    }
    std::fs::write(&programs.rules, text)?;
    let mut measured = vec![Vec::new(); FORWARDERS.len()];
    for round in 1..=ROUNDS {
        for ((name, forwarder), all) in FORWARDERS.iter().zip(&mut measured) {
            match measure(&programs, *forwarder) {
                Ok(figures) => all.push(figures),
                Err(error) => eprintln!("round {round}: {name}: {error:#}"),
            }
        }
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    eprintln!("load: {}", load.trim());
    eprintln!(
        "| forwarder | kpackets/s | CPU ns per packet | p50, p99 at half load, µs |\n| --- | --- | --- | --- |"
    );
    for ((name, _), all) in FORWARDERS.iter().zip(&mut measured) {
        if all.is_empty() {
            continue;
        }
        all.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        let median = all[all.len() / 2];
        let cpu = median.cpu_ns.map_or_else(|| String::from("–"), |ns| format!("{ns:.0}"));
        let [p50, p99] = median.latency;
        eprintln!("| {name} | {:.0} | {cpu} | {p50}, {p99} |", median.per_second / 1000.0);
    }
    Ok(())
}

fn measure(programs: &Programs, forwarder: Forwarder) -> Result<Figures> {
    let by_driver = matches!(forwarder, Forwarder::Bare(backend) | Forwarder::Bridge(backend) if backend != "af-packet");
    let network = Network::new(by_driver, 1)?;
    let running = start(&network, programs, forwarder)?;
    let answered = network.ask(&["ping", SERVER_V4, "20", "64"])?;
    ensure!(answered.contains("lost 0 "), "{answered}");
    let received = || -> Result<u64> {
        let output =
            network.command(SERVER, "cat").arg("/sys/class/net/eth0/statistics/rx_packets").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
    };
    let ticks = || running.as_ref().map(|running| ticks_of(running.0.id())).transpose();
    let (packets, busy) = (received()?, ticks()?);
    network.ask(&["blast", &SECONDS.to_string(), "0"])?;
    std::thread::sleep(Duration::from_millis(200));
    let packets = received()? - packets;
    // A tick is a hundredth of a second.
    let cpu_ns = busy.zip(ticks()?).map(|(before, now)| (now - before) as f64 * 1e7 / packets as f64);
    let per_second = packets as f64 / SECONDS as f64;
    let half = format!("{:.0}", per_second / 2.0);
    let mut load = Running(network.peer(CLIENT).args(["blast", "6", &half]).spawn()?);
    std::thread::sleep(Duration::from_millis(300));
    let said = network.ask(&["ping", SERVER_V4, "2000", "64"])?;
    load.0.kill()?;
    // `sent N lost N p50 N µs p99 N µs`
    let words: Vec<&str> = said.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let (Some(p50), Some(p99)) = (number(5), number(8)) else { bail!("ping said: {said}") };
    Ok(Figures { per_second, cpu_ns, latency: [p50, p99] })
}

/// Returns the processor time of a process, in ticks.
fn ticks_of(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

/// Starts a forwarder; the kernel's has no process.
fn start(network: &Network, programs: &Programs, forwarder: Forwarder) -> Result<Option<Running>> {
    let mut command: Command = match forwarder {
        Forwarder::Kernel(rules) => {
            join(network, rules)?;
            return Ok(None);
        }
        Forwarder::Bare(backend) => {
            let mut command = network.command(BRIDGE, &programs.forward);
            command.args(PORTS).arg(backend);
            command
        }
        Forwarder::Bridge(backend) => {
            let mut command = network.command(BRIDGE, &programs.flowloom);
            command.arg("bridge").args(PORTS).args(["--backend", backend, "--default", "accept", "-q"]);
            command.arg("--rules").arg(&programs.rules);
            command
        }
    };
    let mut running = Running(command.stdout(Stdio::null()).spawn()?);
    std::thread::sleep(Duration::from_secs(1));
    if let Some(status) = running.0.try_wait()? {
        bail!("it ended with {status}");
    }
    Ok(Some(running))
}

/// Joins both ports by a bridge of the kernel.
fn join(network: &Network, rules: u32) -> Result<()> {
    let inside = |words: &[&str]| finish(ip(&["-n", BRIDGE]).args(words));
    inside(&["link", "add", "name", "br0", "type", "bridge"])?;
    inside(&["link", "set", "br0", "up"])?;
    for port in PORTS {
        inside(&["link", "set", port, "master", "br0"])?;
    }
    if rules > 0 {
        let mut text = String::from(
            "table bridge t {\nchain c {\ntype filter hook forward priority 0; policy accept;\n",
        );
        for number in 0..rules {
            let [_, _, a, b] = number.to_be_bytes();
            writeln!(text, "ip saddr 172.16.{a}.{b} tcp dport 0-65535 drop")?;
        }
        text.push_str("}\n}\n");
        let file = std::env::temp_dir().join(format!("flowloom-speed-{}.nft", std::process::id()));
        std::fs::write(&file, text)?;
        let loaded = finish(network.command(BRIDGE, "nft").arg("-f").arg(&file));
        std::fs::remove_file(&file)?;
        loaded.context("this kernel has no nftables for bridges")?;
    }
    Ok(())
}
