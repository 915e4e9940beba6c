//! Passes traffic between two hosts through `flowloom bridge`, and compares its counts with the
//! kernel's.

use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::ip;
use super::network::{BRIDGE, CLIENT, Network, PORTS, Rules, Running, SERVER, SERVER_V4, SERVER_V6};
use crate::program::{debug_command, finish};

/// A port that the rules permit, and one that they deny.
const OPEN: &str = "80";
const DENIED: &str = "81";
/// Time limit for events that should happen soon.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of seconds after which idle flows end.
const TIMEOUT: &str = "2";

/// The kernel's counts of both ports: frames received and sent.
type Counts = [[u64; 2]; 2];

/// A configuration of the bridge.
struct Way {
    name: &'static str,
    backend: &'static str,
    workers: u32,
}

impl Way {
    /// Whether frames are taken from the driver.
    fn is_by_driver(&self) -> bool {
        self.backend != "af-packet"
    }

    /// Whether a worker sees all frames of its flows. The hosts share the frames of a connection
    /// out to queues by a random number, or by the processor that sends.
    fn is_symmetric(&self) -> bool {
        !self.is_by_driver() || self.workers == 1
    }
}

const WAYS: [Way; 6] = [
    Way { name: "af-packet", backend: "af-packet", workers: 1 },
    Way { name: "af-packet, two workers", backend: "af-packet", workers: 2 },
    Way { name: "xdp", backend: "xdp", workers: 1 },
    Way { name: "xdp, two workers", backend: "xdp", workers: 2 },
    Way { name: "xdp-generic", backend: "xdp-generic", workers: 1 },
    Way { name: "xdp-generic, two workers", backend: "xdp-generic", workers: 2 },
];

/// Runs the tests with each configuration, or a few of them in a short run.
pub(super) fn run(root: &Path, is_short: bool, backend: Option<&str>) -> Result<()> {
    let flowloom = debug_command(root)?;
    // The directory of cargo's build output.
    let folder = flowloom.with_file_name("live");
    std::fs::create_dir_all(&folder)?;
    let is_selected = |way: &&Way| backend.is_none_or(|backend| way.backend == backend);
    ensure!(WAYS.iter().any(|way| is_selected(&way)), "no such backend: {}", backend.unwrap_or_default());
    let has_ethtool = Command::new("ethtool").arg("--version").stdout(Stdio::null()).status().is_ok();
    for way in WAYS.iter().filter(is_selected) {
        if way.is_by_driver() && !has_ethtool {
            eprintln!("bridge by {}: not run, because ethtool is not installed", way.name);
            continue;
        }
        let tests = Tests {
            way,
            network: Network::new(way.is_by_driver(), way.workers)?,
            flowloom: flowloom.clone(),
            rules: Rules(folder.join("rules.toml")),
            folder: folder.clone(),
            is_short,
        };
        tests.run().with_context(|| format!("bridge by {}", way.name))?;
    }
    Ok(())
}

struct Tests<'a> {
    way: &'a Way,
    network: Network,
    flowloom: PathBuf,
    folder: PathBuf,
    rules: Rules,
    is_short: bool,
}

impl Tests<'_> {
    fn say(&self, what: &str) {
        eprintln!("bridge by {}: {what}", self.way.name);
    }

    fn run(&self) -> Result<()> {
        self.rules.deny(&[DENIED])?;
        let server = self.network.serve(SERVER, &[OPEN, DENIED, "82"])?;
        let tested = self.passes().and_then(|()| {
            if self.is_short {
                Ok(())
            } else {
                let flooded = if self.way.is_symmetric() { self.withstands_a_flood() } else { Ok(()) };
                flooded.and_then(|()| self.stops_under_load()).and_then(|()| self.heals())
            }
        });
        drop(server);
        tested
    }

    /// Passes traffic and checks that the counts are exact.
    fn passes(&self) -> Result<()> {
        // The announcements of the hosts when their links come up.
        std::thread::sleep(Duration::from_secs(4));
        let before = self.counts()?;
        let records = self.folder.join("records.jsonl");
        // Records of an earlier run would be counted.
        let _ = std::fs::remove_file(&records);
        let running = self.start(&["--flows", &records.to_string_lossy()])?;
        let opened = self.counts()?;
        let pings = if self.is_short { 200 } else { 1000 };
        for host in [SERVER_V4, SERVER_V6] {
            self.ping(host, pings, 64)?;
        }
        self.pass_tagged(200)?;
        // AF_XDP needs a frame to fit a page.
        let (mtu, bytes) = if self.way.is_by_driver() { ("3498", 3400) } else { ("9000", 8000) };
        self.network.set_links(&["mtu", mtu])?;
        self.ping(SERVER_V4, 100, bytes)?;
        let megabytes = if self.is_short { 16 } else { 256 };
        self.fetch(megabytes << 20)?;
        let refused = self.network.connect(DENIED)?;
        ensure!(refused == "ConnectionRefused", "the denied port was {refused}");
        if !self.is_short {
            self.reload_under_load()?;
            self.iperf()?;
            self.curl()?;
            self.idles(&running)?;
        }
        self.ends_idle_flows(&records)?;
        // An interface that goes down and comes up again causes only a pause.
        let port = |state| finish(&mut ip(&["-n", BRIDGE, "link", "set", PORTS[0], state]));
        port("down")?;
        std::thread::sleep(Duration::from_millis(300));
        port("up")?;
        std::thread::sleep(Duration::from_millis(300));
        self.ping(SERVER_V4, 20, 64)?;
        std::thread::sleep(Duration::from_millis(500));
        let settled = self.counts()?;
        let document = stop(running)?;
        // The hosts announce themselves when they like, also while the bridge opens and ends.
        self.check(&document, [opened, settled], [before, self.counts()?])
    }

    /// Compares the counts of the bridge with each other and with the kernel's: those while it ran
    /// are the least, those from before its start until after its end the most.
    fn check(&self, document: &Value, least: [Counts; 2], most: [Counts; 2]) -> Result<()> {
        ensure!(document["balanced"] == true, "the counts are not balanced: {document:#}");
        let mut sum = 0_i64;
        let frames = |name: &str| document["frames"][name].as_i64().unwrap_or_default();
        for number in 0..2 {
            let port = |name: &str| document["ports"][number][name].as_u64().unwrap_or_default();
            let between = |counts: [Counts; 2], way: usize| counts[1][number][way] - counts[0][number][way];
            let [received, sent] = [0, 1].map(|way| between(least, way)..=between(most, way));
            self.say(&format!(
                "{}: received {} + missed {}, kernel {}; sent {} + answers {}, kernel {}; refused {}",
                PORTS[number],
                port("received"),
                port("missed"),
                range_text(&received),
                port("sent"),
                port("added"),
                range_text(&sent),
                port("refused")
            ));
            ensure!(
                received.contains(&(port("received") + port("missed"))),
                "received, and the kernel's count: {document:#}"
            );
            ensure!(
                sent.contains(&(port("sent") + port("added"))),
                "sent, and the kernel's count: {document:#}"
            );
            for (name, sign) in [("received", 1), ("sent", -1), ("refused", -1)] {
                sum += sign * port(name).cast_signed();
            }
        }
        let dropped = ["denied", "dropped_without_flow", "dropped_at_full_table", "lost"].map(frames);
        ensure!(sum == dropped.iter().sum::<i64>(), "received, sent and dropped: {document:#}");
        Ok(())
    }

    /// Passes frames other than IP, in a VLAN. They stay in order, except where the sender's system
    /// moves them to another queue while it runs, as it does here for hosts with two queues.
    fn pass_tagged(&self, count: u32) -> Result<()> {
        let count = count.to_string();
        let mut receiver = self.peer(SERVER).args(["receive-tagged", &count]).spawn()?;
        let mut said = BufReader::new(receiver.stdout.take().context("it has standard output")?).lines();
        ensure!(said.next().transpose()?.as_deref() == Some("ready"), "the receiver does not start");
        self.output(&["send-tagged", &count])?;
        let received = said.next().transpose()?.unwrap_or_default();
        receiver.wait()?;
        let is_whole = if self.way.is_symmetric() {
            received == format!("received {count} turned 0")
        } else {
            received.starts_with(&format!("received {count} "))
        };
        ensure!(is_whole, "of {count} frames in a VLAN: {received}");
        self.say(&format!("of {count} frames in a VLAN: {received}"));
        Ok(())
    }

    /// Replaces the rules ten times per second while data flows.
    fn reload_under_load(&self) -> Result<()> {
        let mut load = self.peer(CLIENT).args(["fetch", &at(OPEN), &(1_u64 << 30).to_string()]).spawn()?;
        let begun = Instant::now();
        let mut times = 0;
        while begun.elapsed() < Duration::from_secs(3) {
            self.rules.deny(if times % 2 == 0 { &[DENIED, "82"] } else { &[DENIED] })?;
            times += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        ensure!(load.wait()?.success(), "the load broke");
        self.rules.deny(&[DENIED, "82"])?;
        let begun = Instant::now();
        while self.network.connect("82")? != "ConnectionRefused" {
            ensure!(begun.elapsed() < PATIENCE, "the last rules are not in effect");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.say(&format!("rules written {times} times under load"));
        Ok(())
    }

    /// Fetches a file of a web server if curl and Python are installed.
    fn curl(&self) -> Result<()> {
        let has =
            |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !has("curl") || !has("python3") {
            self.say("curl or python3 is not installed, skipped");
            return Ok(());
        }
        let mut server = self.network.command(SERVER, "python3");
        server.args(["-I", "-m", "http.server", "86", "--bind", "::", "--directory"]).arg(&self.folder);
        let _server = Running(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write(self.folder.join("fetched"), vec![b'x'; 8 << 20])?;
        for host in [SERVER_V4.to_owned(), format!("[{SERVER_V6}]")] {
            let mut curl = self.network.command(CLIENT, "curl");
            curl.args([
                "--silent",
                "--show-error",
                "--max-time",
                "30",
                "--write-out",
                "%{http_code} %{size_download}",
            ]);
            let output =
                curl.args(["--output", "/dev/null"]).arg(format!("http://{host}:86/fetched")).output()?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(
                said == "200 8388608",
                "curl {host}: {said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        self.say("curl has fetched 8 MiB by IPv4 and by IPv6");
        Ok(())
    }

    /// Measures TCP and UDP if iperf3 is installed.
    fn iperf(&self) -> Result<()> {
        if Command::new("iperf3").arg("--version").stdout(Stdio::null()).status().is_err() {
            self.say("iperf3 is not installed, skipped");
            return Ok(());
        }
        for options in [&["-t", "2"][..], &["-u", "-b", "500M", "-t", "2"]] {
            let mut server = self
                .network
                .command(SERVER, "iperf3")
                .args(["-s", "-1", "-p", "85"])
                .stdout(Stdio::null())
                .spawn()?;
            std::thread::sleep(Duration::from_millis(300));
            let output = self
                .network
                .command(CLIENT, "iperf3")
                .args(["-c", SERVER_V4, "-p", "85", "--json"])
                .args(options)
                .output()?;
            let _ = server.kill();
            server.wait()?;
            ensure!(output.status.success(), "iperf3 failed: {}", String::from_utf8_lossy(&output.stdout));
            let document: Value = serde_json::from_slice(&output.stdout)?;
            let end = &document["end"];
            let received =
                end["sum_received"]["bits_per_second"].as_f64().or(end["sum"]["bits_per_second"].as_f64());
            let lost = end["sum"]["lost_percent"].as_f64().unwrap_or_default();
            self.say(&format!(
                "iperf3 {}: {:.2} Gbit/s, lost {lost:.2} %",
                options.join(" "),
                received.unwrap_or_default() / 1e9
            ));
        }
        Ok(())
    }

    /// Checks that a bridge without traffic uses less than a hundredth of a processor.
    fn idles(&self, running: &Running) -> Result<()> {
        let id = running.0.id();
        // `ip netns exec` has been replaced by the bridge.
        let ticks = || -> Result<u64> {
            let text = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
            let fields: Vec<&str> =
                text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
        };
        let before = ticks()?;
        std::thread::sleep(Duration::from_secs(5));
        // A tick is a hundredth of a second.
        let busy = ticks()? - before;
        self.say(&format!("idle: {busy} hundredths of a second in five"));
        ensure!(busy < 5, "an idle bridge takes {busy} ticks in five seconds");
        Ok(())
    }

    /// Checks that the records of idle flows are written even if no frames arrive.
    fn ends_idle_flows(&self, records: &Path) -> Result<()> {
        let count = || std::fs::read_to_string(records).unwrap_or_default().lines().count();
        self.ping("10.9.0.2", 1, 64)?;
        let is_written = |text: &str| text.contains("\"idle\"");
        let begun = Instant::now();
        let limit = Duration::from_secs(4);
        let expected = count() + 1;
        while count() < expected {
            ensure!(begun.elapsed() < limit, "an idle flow has not ended after {:?}", begun.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
        ensure!(is_written(&std::fs::read_to_string(records)?), "no record ended by its timeout");
        self.say(&format!("an idle flow's record came after {:.1} s", begun.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Floods the flow table with connection attempts, ten times as many as its capacity.
    fn withstands_a_flood(&self) -> Result<()> {
        const FLOWS: u32 = 5000;
        const COUNT: u32 = 200;
        let running =
            self.start(&["--flows-max", &FLOWS.to_string(), "--strict-tcp", "--timeout", "60"])?;
        let mut holder = self
            .peer(CLIENT)
            .args(["hold", &at(OPEN), &COUNT.to_string()])
            .stdin(Stdio::piped())
            .spawn()?;
        let mut said = BufReader::new(holder.stdout.take().context("it has standard output")?).lines();
        ensure!(said.next().transpose()?.as_deref() == Some("ready"), "the connections are not made");
        let mut flood = self.peer(CLIENT).args(["flood", &(40 * FLOWS).to_string()]).spawn()?;
        // The table is full before more connections are made.
        std::thread::sleep(Duration::from_millis(500));
        drop(holder.stdin.take());
        let result = said.next().transpose()?.unwrap_or_default();
        holder.wait()?;
        flood.wait()?;
        let document = stop(running)?;
        self.say(&format!(
            "flood: {result} of {COUNT}, evicted {}, full {}",
            document["flows"]["evicted"], document["frames"]["dropped_at_full_table"]
        ));
        ensure!(document["balanced"] == true, "the counts are not balanced: {document:#}");
        let evicted = document["flows"]["evicted"].as_u64().unwrap_or_default();
        ensure!(evicted > u64::from(FLOWS), "the flood did not fill the table: {document:#}");
        let numbers: Vec<u32> = result.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [stayed, made] = numbers[..] else { bail!("the connections said: {result}") };
        ensure!(stayed == COUNT && made * 100 >= COUNT * 99, "connections were lost: {result}");
        Ok(())
    }

    /// Stops the bridge while frames arrive.
    fn stops_under_load(&self) -> Result<()> {
        let running = self.start(&[])?;
        self.ping(SERVER_V4, 5, 64)?;
        let mut load = self
            .peer(CLIENT)
            .args(["fetch", &at(OPEN), &(64_u64 << 30).to_string()])
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_secs(1));
        let stopped = stop(running);
        load.kill()?;
        load.wait()?;
        let document = stopped?;
        ensure!(document["balanced"] == true, "the counts are not balanced: {document:#}");
        self.say(&format!("stopped under load after {} frames, balanced", document["frames"]["received"]));
        Ok(())
    }

    /// Kills the bridge: the link closes, or the kernel's bridge takes over.
    fn heals(&self) -> Result<()> {
        let running = self.start(&[])?;
        self.ping(SERVER_V4, 5, 64)?;
        drop(running);
        ensure!(self.lost(SERVER_V4, 1, 64)? == 1, "frames pass after the bridge was killed");
        let inside = |words: &[&str]| finish(ip(&["-n", BRIDGE]).args(words));
        inside(&["link", "add", "name", "br0", "type", "bridge"])?;
        finish(self.network.command(BRIDGE, "sysctl").args([
            "-q",
            "-w",
            "net.ipv6.conf.br0.disable_ipv6=1",
        ]))?;
        inside(&["link", "set", "br0", "up"])?;
        for port in PORTS {
            inside(&["link", "set", port, "master", "br0"])?;
        }
        let running = self.start(&["--fail-open"])?;
        self.ping(SERVER_V4, 20, 64)?;
        let refused = self.network.connect(DENIED)?;
        ensure!(
            refused == "ConnectionRefused",
            "the kernel's bridge passes frames in addition to \
            flowloom: {refused}"
        );
        drop(running);
        self.ping(SERVER_V4, 20, 64)?;
        self.say("killed: the link is closed, and open with --fail-open");
        inside(&["link", "delete", "br0"])
    }

    /// Starts a bridge, and waits until it passes frames.
    fn start(&self, options: &[&str]) -> Result<Running> {
        let mut bridge = self.network.command(BRIDGE, &self.flowloom);
        bridge.args(["bridge", PORTS[0], PORTS[1], "--format", "json", "--deny-with", "reset", "--rules"]);
        bridge.arg(&self.rules.0).args(["--default", "accept", "--watch-rules"]);
        bridge.args(["--backend", self.way.backend, "--workers", &self.way.workers.to_string()]);
        bridge.args(options);
        if !options.contains(&"--timeout") {
            bridge.args(["--timeout", TIMEOUT]);
        }
        Running::bridge(&mut bridge, drop)
    }

    fn peer(&self, namespace: &str) -> Command {
        self.network.peer(namespace)
    }

    fn output(&self, words: &[&str]) -> Result<String> {
        self.network.ask(words)
    }

    /// Sends pings to the server. Returns how many requests were not answered.
    fn lost(&self, host: &str, count: u32, bytes: u32) -> Result<u32> {
        let said = self.output(&["ping", host, &count.to_string(), &bytes.to_string()])?;
        if count >= 100 {
            self.say(&format!("ping {host} with {bytes} bytes: {said}"));
        }
        let lost = said.split_whitespace().nth(3).context("ping printed nothing")?;
        Ok(lost.parse()?)
    }

    fn ping(&self, host: &str, count: u32, bytes: u32) -> Result<()> {
        let lost = self.lost(host, count, bytes)?;
        ensure!(lost == 0, "{lost} of {count} requests to {host} were not answered");
        Ok(())
    }

    fn fetch(&self, bytes: u64) -> Result<()> {
        let said = self.output(&["fetch", &at(OPEN), &bytes.to_string()])?;
        self.say(&format!("TCP: {said}"));
        Ok(())
    }

    fn counts(&self) -> Result<Counts> {
        Ok([self.network.counts(PORTS[0])?, self.network.counts(PORTS[1])?])
    }
}

/// Stops a bridge, which must succeed, and returns its document.
fn stop(running: Running) -> Result<Value> {
    let (status, document) = running.stop()?;
    ensure!(status == Some(0), "the bridge ended with {status:?}: {document:#}");
    Ok(document)
}

/// Returns a count of the kernel, or its limits.
fn range_text(count: &RangeInclusive<u64>) -> String {
    let (least, most) = (count.start(), count.end());
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// Returns the server's address with a port.
fn at(port: &str) -> String {
    format!("{SERVER_V4}:{port}")
}
