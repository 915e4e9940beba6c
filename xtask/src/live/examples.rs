//! Runs the example appliances between two hosts, and a firewall on a queue of the kernel.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::network::{BRIDGE, CLIENT, Network, PORTS, Running, SERVER, SERVER_V4};
use super::{ip, signal};
use crate::program::{build_in, debug_command, finish, output_of};

/// The address of the translator.
const OUTSIDE: &str = "10.9.0.9";
/// Time for an example to open its ports.
const START: Duration = Duration::from_millis(700);
const OPEN: &str = "10.9.0.2:80";

/// Runs each example, and the queue.
pub(super) fn run(root: &Path) -> Result<()> {
    let example = |name| build_in(root, "dev", &["-p", "flowloom", "--example", name]);
    translates(&example("nat")?).context("nat")?;
    balances(&example("wire_balancer")?).context("wire_balancer")?;
    limits(&example("rate_limiter")?).context("rate_limiter")?;
    mirrors(&example("mirror")?).context("mirror")?;
    if output_of(root, "pkg-config", &["--modversion", "libdpdk"]).is_some() {
        // Outside the workspace, because it needs the library.
        let outside = ["--manifest-path", "integrations/dpdk/Cargo.toml", "--target-dir", "target/dpdk"];
        let program = build_in(root, "dev", &[&outside[..], &["--example", "dpdk_bridge"]].concat())?;
        bridges_with_dpdk(&program).context("dpdk_bridge")?;
    } else {
        eprintln!("dpdk_bridge: DPDK is not installed (Debian: libdpdk-dev); it is not run");
    }
    let flowloom = debug_command(root)?;
    judges_a_queue(&flowloom).context("bridge queue:0")
}

/// Starts an example on both ports of the bridge, and a server.
fn start(network: &Network, program: &PathBuf, arguments: &[&str]) -> Result<[Running; 2]> {
    let server = network.serve(SERVER, &["80", "81"])?;
    let mut command = network.command(BRIDGE, program);
    let mut appliance = Running(command.args(PORTS).args(arguments).spawn()?);
    std::thread::sleep(START);
    ensure!(appliance.0.try_wait()?.is_none(), "{} has ended", program.display());
    Ok([server, appliance])
}

/// The server sees the translator's address only; TCP, echoes and their answers pass.
fn translates(program: &PathBuf) -> Result<()> {
    let network = Network::new(false, 1)?;
    let _running = start(&network, program, &[OUTSIDE])?;
    let pings = network.ask(&["ping", SERVER_V4, "200", "64"])?;
    ensure!(pings.contains("lost 0 "), "{pings}");
    let fetched = network.ask(&["fetch", OPEN, "67108864"])?;
    let mut holder = network.peer(CLIENT).args(["hold", OPEN, "3"]).stdin(Stdio::piped()).spawn()?;
    std::thread::sleep(START);
    let seen = network.command(SERVER, "cat").args(["/proc/net/tcp", "/proc/net/tcp6"]).output()?;
    drop(holder.stdin.take());
    holder.wait()?;
    let seen = String::from_utf8_lossy(&seen.stdout).to_uppercase();
    // Addresses are in the byte order of the machine, in hexadecimal.
    let count = |last: u8| seen.matches(&format!("0{last:X}00090A:")).count();
    ensure!(count(9) >= 3 && count(1) == 0, "the server sees other addresses:\n{seen}");
    // Connections from outside find no translation.
    let refused = network.ask_in(SERVER, &["connect", "10.9.0.9:80"])?;
    ensure!(refused == "TimedOut", "a connection from outside was {refused}");
    eprintln!("nat: {pings}; TCP {fetched}; the server sees {OUTSIDE} only");
    Ok(())
}

/// Connections reach both servers by weight; a server that drains gets no further connection, and
/// keeps those that it has.
fn balances(program: &PathBuf) -> Result<()> {
    const SERVICE: &str = "10.9.0.8:80";
    let network = Network::new(false, 1)?;
    finish(ip(&["-n", SERVER]).args(["addr", "add", "10.9.0.3/24", "dev", "eth0"]))?;
    let station = network.command(SERVER, "cat").arg("/sys/class/net/eth0/address").output()?;
    let station = String::from_utf8_lossy(&station.stdout).trim().to_owned();
    let _server = network.serve(SERVER, &["80"])?;
    let servers = ["10.9.0.2", &station, "100", "10.9.0.3", &station, "300"];
    let mut command = network.command(BRIDGE, program);
    command.args(PORTS).arg(SERVICE).args(servers).stdin(Stdio::piped());
    let mut balancer = Running(command.spawn()?);
    std::thread::sleep(START);
    let hold = |count: &str| {
        let mut peer = network.peer(CLIENT);
        peer.args(["hold", SERVICE, count]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    // The number of open connections of each server.
    let open = || -> Result<[usize; 2]> {
        let seen = network.command(SERVER, "cat").args(["/proc/net/tcp", "/proc/net/tcp6"]).output()?;
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        // Addresses are in the byte order of the machine; state 1 is an open connection.
        let count = |host: u8| {
            let is =
                |line: &&str| line.contains(&format!("0{host:X}00090A:0050 ")) && line.contains(" 01 ");
            seen.lines().filter(is).count()
        };
        Ok([count(2), count(3)])
    };
    let (mut before, count) = (hold("200")?, 200);
    std::thread::sleep(2 * START);
    let [light, heavy] = open()?;
    ensure!(light + heavy == count && (25..75).contains(&light), "{light} and {heavy} connections");
    let mut orders = balancer.0.stdin.take().context("it has standard input")?;
    writeln!(orders, "drain 0")?;
    std::thread::sleep(START);
    let mut after = hold("100")?;
    std::thread::sleep(2 * START);
    let drained = open()?;
    ensure!(drained == [light, heavy + 100], "connections after draining: {drained:?}");
    for peer in [&mut before, &mut after] {
        drop(peer.stdin.take());
    }
    let stayed = String::from_utf8(before.wait_with_output()?.stdout)?;
    ensure!(stayed.contains("stayed 200 made 200"), "{stayed}");
    after.wait()?;
    eprintln!(
        "wire_balancer: {light} and {heavy} connections, then {drained:?}; {}",
        stayed.replace('\n', " ")
    );
    Ok(())
}

/// A flow gets as many bytes per second as configured, after the first second's worth.
fn limits(program: &PathBuf) -> Result<()> {
    const PER_SECOND: u64 = 4_000_000;
    let network = Network::new(false, 1)?;
    let _running = start(&network, program, &[&PER_SECOND.to_string()])?;
    let begun = Instant::now();
    network.ask(&["fetch", OPEN, &(4 * PER_SECOND).to_string()])?;
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("rate_limiter: {} bytes at {PER_SECOND} per second in {seconds:.1} s", 4 * PER_SECOND);
    ensure!((2.8..12.0).contains(&seconds), "the limit is not kept: {seconds:.1} s");
    Ok(())
}

/// The third interface gets a copy of each packet of a port, and of no other.
fn mirrors(program: &PathBuf) -> Result<()> {
    let network = Network::new(false, 1)?;
    let inside = |words: &[&str]| finish(ip(&["-n", BRIDGE]).args(words));
    inside(&["link", "add", "name", "pc", "type", "veth", "peer", "name", "pm"])?;
    for link in ["pc", "pm"] {
        let setting = format!("net.ipv6.conf.{link}.disable_ipv6=1");
        finish(network.command(BRIDGE, "sysctl").args(["-q", "-w", &setting]))?;
        inside(&["link", "set", link, "up"])?;
    }
    let _running = start(&network, program, &["pc", "81"])?;
    let before = network.counts("pm")?[0];
    network.ask(&["fetch", OPEN, "1000000"])?;
    ensure!(network.counts("pm")?[0] == before, "packets of another port were copied");
    let ports = || -> Result<u64> { Ok(network.counts(PORTS[0])?[0] + network.counts(PORTS[1])?[0]) };
    let passed = ports()?;
    network.ask(&["fetch", "10.9.0.2:81", "1000000"])?;
    std::thread::sleep(START);
    let (passed, copied) = (ports()? - passed, network.counts("pm")?[0] - before);
    eprintln!("mirror: {passed} frames passed, {copied} were copied");
    // Hosts may ask for each other's station in between.
    ensure!(copied > 0 && passed - copied < 10, "{passed} frames passed, {copied} were copied");
    Ok(())
}

/// Two ports of DPDK's driver for interfaces of Linux pass all frames; both sides count as many.
fn bridges_with_dpdk(program: &Path) -> Result<()> {
    let network = Network::new(true, 1)?;
    let _server = network.serve(SERVER, &["80"])?;
    let before = network.counts(PORTS[0])?[0];
    let mut command = network.command(BRIDGE, program);
    command
        .args(["net_af_packet0", "net_af_packet1", "--no-huge", "-m", "256", "--no-pci", "--no-telemetry"]);
    for (number, port) in PORTS.iter().enumerate() {
        command.arg(format!("--vdev=net_af_packet{number},iface={port}"));
    }
    let mut bridge = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    std::thread::sleep(3 * START);
    if let Some(status) = bridge.0.try_wait()? {
        anyhow::bail!("it has ended with {status}");
    }
    let pings = network.ask(&["ping", SERVER_V4, "200", "64"])?;
    ensure!(pings.contains("lost 0 "), "{pings}");
    let fetched = network.ask(&["fetch", OPEN, "67108864"])?;
    std::thread::sleep(START);
    let arrived = network.counts(PORTS[0])?[0] - before;
    drop(bridge.0.stdin.take());
    let mut said = String::new();
    bridge.0.stdout.take().context("it has standard output")?.read_to_string(&mut said)?;
    ensure!(bridge.0.wait()?.success() && said.contains("every frame accounted for: true"), "{said}");
    let counts =
        said.lines().find_map(|line| line.strip_prefix("net_af_packet0: ")).context("no counts")?;
    let number =
        |name: &str| -> Option<u64> { counts.split_once(name)?.1.split_whitespace().next()?.parse().ok() };
    let seen = number("received ").zip(number("missed ")).map(|(received, missed)| received + missed);
    eprintln!("dpdk_bridge: {pings}; TCP {fetched}; {counts}; the kernel counts {arrived}");
    // Hosts may announce themselves before the ports are open.
    let early = seen.and_then(|seen| arrived.checked_sub(seen));
    ensure!(early.is_some_and(|early| early < 5), "the kernel counts {arrived}");
    Ok(())
}

/// Rules judge the packets that a rule of the kernel hands over; the kernel counts as many.
fn judges_a_queue(flowloom: &Path) -> Result<()> {
    let network = Network::new(false, 1)?;
    finish(&mut ip(&["-n", BRIDGE, "link", "set", "lo", "up"]))?;
    let rules = flowloom.with_file_name("queue.toml");
    std::fs::write(&rules, "[[rule]]\nprotocol = \"tcp\"\ndestination_ports = 81\naction = \"deny\"\n")?;
    let _server = network.serve(BRIDGE, &["80", "81"])?;
    let table = |words: &[&str]| -> Result<Command> {
        let mut command = network.command(BRIDGE, "iptables");
        command.args(words);
        Ok(command)
    };
    let mut child = network
        .command(BRIDGE, flowloom)
        .args(["bridge", "queue:0", "--workers", "2", "--default", "accept", "--format", "json", "-q"])
        .arg("--rules")
        .arg(&rules)
        .stdout(Stdio::piped())
        .spawn()?;
    std::thread::sleep(2 * START);
    if let Some(status) = child.try_wait()? {
        anyhow::bail!("the firewall has ended with {status}");
    }
    let mut running = Running(child);
    finish(&mut table(&["-A", "INPUT", "-j", "NFQUEUE", "--queue-balance", "0:1"])?)?;
    let ask = |words: &[&str]| network.ask_in(BRIDGE, words);
    let pings = ask(&["ping", "127.0.0.1", "200", "64"])?;
    ensure!(pings.contains("lost 0 "), "{pings}");
    let fetched = ask(&["fetch", "127.0.0.1:80", "67108864"])?;
    let denied = ask(&["connect", "127.0.0.1:81"])?;
    ensure!(denied == "TimedOut", "the denied port was {denied}");
    std::thread::sleep(START);
    let listed = table(&["-nvxL", "INPUT"])?.output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    finish(&mut table(&["-F", "INPUT"])?)?;
    let queued = listed.lines().find(|line| line.contains("NFQUEUE"));
    let queued = queued.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    signal(&running.0, "-TERM")?;
    let output = running.0.stdout.take().context("it has standard output")?;
    let document: Value = serde_json::from_reader(output).context("it printed no document")?;
    let port = |name: &str| document["ports"][0][name].as_u64().unwrap_or_default();
    let denied = document["frames"]["denied"].as_u64().unwrap_or_default();
    eprintln!(
        "queue: {pings}; TCP {fetched}; received {} + missed {}, kernel {}; passed {}, denied {denied}",
        port("received"),
        port("missed"),
        queued.unwrap_or_default(),
        port("sent")
    );
    ensure!(Some(port("received") + port("missed")) == queued, "the kernel counts:\n{listed}");
    ensure!(document["balanced"] == true && denied > 0, "{document:#}");
    Ok(())
}
