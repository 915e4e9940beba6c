//! Lets outputs of records fail, an interface be silent, and rule files change, and checks that
//! packets are judged and forwarded as before, and that every lost record is counted.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::network::{BRIDGE, Network, PORTS, Rules, Running, SERVER, SERVER_V4};
use super::{ip, signal};
use crate::program::{debug_command, finish};

/// Time limit for events that should happen soon.
const PATIENCE: Duration = Duration::from_secs(20);
/// The port of the collector.
const COLLECTOR: &str = "4739";
/// Number of flows whose records are written or lost, fewer than a bridge holds.
const FLOWS: &str = "3200";

/// Runs all tests.
pub(super) fn run(root: &Path) -> Result<()> {
    let flowloom = debug_command(root)?;
    // The directory of cargo's build output.
    let folder = flowloom.with_file_name("live");
    std::fs::create_dir_all(&folder)?;
    let network = Network::new(false, 1)?;
    finish(&mut ip(&["-n", BRIDGE, "link", "set", "lo", "up"]))?;
    let faults = Faults { network, flowloom, rules: Rules(folder.join("faults.toml")), folder };
    let server = faults.network.serve(SERVER, &["80", "81", "82"])?;
    let tested = faults
        .survives_the_collector()
        .and_then(|()| faults.survives_a_full_disk())
        .and_then(|()| faults.ignores_half_a_file())
        .and_then(|()| faults.reloads_on_request())
        .and_then(|()| faults.ends_flows_in_silence());
    drop(server);
    tested
}

struct Faults {
    network: Network,
    flowloom: PathBuf,
    folder: PathBuf,
    rules: Rules,
}

fn say(what: &str) {
    eprintln!("faults: {what}");
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(begun.elapsed())
}

impl Faults {
    /// A bridge starts without its collector, and forwards when the collector comes and goes. It
    /// denies the same frames beside a kernel bridge that would forward them.
    fn survives_the_collector(&self) -> Result<()> {
        self.rules.deny(&["81"])?;
        let inside = |words: &[&str]| finish(ip(&["-n", BRIDGE]).args(words));
        inside(&["link", "add", "name", "br0", "type", "bridge"])?;
        for link in ["br0", PORTS[0], PORTS[1]] {
            let to = if link == "br0" { &["up"][..] } else { &["master", "br0"] };
            finish(ip(&["-n", BRIDGE, "link", "set", link]).args(to))?;
        }
        let to = format!("ipfix+tcp://127.0.0.1:{COLLECTOR}");
        let running = self.bridge(&["--fail-open", "--flows", &to, "--timeout", "1"])?;
        // The first attempt has failed.
        std::thread::sleep(Duration::from_secs(1));
        self.judges("without a collector")?;
        let mut collector = self.network.peer(BRIDGE).args(["collect", COLLECTOR]).spawn()?;
        let output = collector.stdout.take().context("it has standard output")?;
        let collector = Running(collector);
        let mut said = BufReader::new(output).lines();
        for expected in ["ready", "templates"] {
            let line = said.next().transpose()?.unwrap_or_default();
            ensure!(line == expected, "the collector said '{line}' instead of {expected}");
        }
        self.judges("with a collector")?;
        self.network.ask(&["flood", FLOWS])?;
        std::thread::sleep(Duration::from_secs(3));
        drop(collector);
        self.network.ask(&["flood", FLOWS])?;
        std::thread::sleep(Duration::from_secs(3));
        self.judges("without a collector again")?;
        let (status, document) = running.stop()?;
        inside(&["link", "delete", "br0"])?;
        let count = |name: &str| document["flows"][name].as_u64().unwrap_or_default();
        say(&format!("collector: records {}, lost {}", count("records"), count("records_lost")));
        ensure!(status == Some(5), "the bridge ended with {status:?}: {document:#}");
        let flows: u64 = FLOWS.parse()?;
        ensure!(count("records") >= flows, "records did not arrive: {document:#}");
        ensure!(count("records_lost") >= flows, "lost records are not counted: {document:#}");
        ensure!(document["balanced"] == true, "the counts are not balanced: {document:#}");
        Ok(())
    }

    /// A full disk keeps whole lines, and the writing continues when there is space.
    fn survives_a_full_disk(&self) -> Result<()> {
        let disk = Disk::new(&self.folder.join("disk"))?;
        let records = disk.0.join("records.jsonl");
        let running = self.bridge(&["--flows", &records.to_string_lossy(), "--timeout", "1"])?;
        let lines = || std::fs::read_to_string(&records).unwrap_or_default();
        self.network.ask(&["flood", FLOWS])?;
        std::thread::sleep(Duration::from_secs(3));
        self.judges("with a full disk")?;
        let full = lines();
        ensure!(full.ends_with('\n'), "a line is cut: {:?}", full.lines().last());
        ensure!((full.lines().count() as u64) < FLOWS.parse()?, "the disk is not full");
        disk.resize("64m")?;
        wait_for("lines with space", || Ok(lines().len() > full.len()))?;
        let (status, document) = running.stop()?;
        let count = |name: &str| document["flows"][name].as_u64().unwrap_or_default();
        let found = lines();
        let whole = found.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count() as u64;
        say(&format!(
            "full disk: {whole} lines, records {}, lost {}",
            count("records"),
            count("records_lost")
        ));
        ensure!(status == Some(0), "the bridge ended with {status:?}: {document:#}");
        ensure!(whole == found.lines().count() as u64, "a line is cut");
        ensure!(whole == count("records"), "lines and counted records differ: {document:#}");
        ensure!(whole + count("records_lost") >= FLOWS.parse()?, "records are missing: {document:#}");
        Ok(())
    }

    /// The rules stay in force while a new file takes the place of the old one, piece by piece.
    fn ignores_half_a_file(&self) -> Result<()> {
        self.rules.deny(&["81"])?;
        let running = self.bridge(&["--watch-rules"])?;
        let (path, begun) = (&self.rules.0, Instant::now());
        std::fs::rename(path, self.folder.join("rules.backup"))?;
        std::fs::write(path, Rules::text("82"))?;
        while begun.elapsed() < Duration::from_millis(1400) {
            self.judges_port("81", true)?;
        }
        std::fs::write(path, Rules::text("82") + &Rules::text("81"))?;
        wait_for("the new rules", || {
            self.judges_port("81", true)?;
            Ok(self.network.connect("82")? == "ConnectionRefused")
        })?;
        let (_, document) = running.stop()?;
        ensure!(document["firewall"]["reloads"] == 1, "reloads: {document:#}");
        say("half a rule file was never in force");
        Ok(())
    }

    /// SIGHUP reloads the rules without `--watch-rules`.
    fn reloads_on_request(&self) -> Result<()> {
        self.rules.deny(&["81"])?;
        let running = self.bridge(&[])?;
        self.judges_port("82", false)?;
        self.rules.deny(&["81", "82"])?;
        self.judges_port("82", false)?;
        signal(&running.0, "-HUP")?;
        let took = wait_for("the new rules", || Ok(self.network.connect("82")? == "ConnectionRefused"))?;
        self.judges_port("81", true)?;
        let (status, document) = running.stop()?;
        ensure!(status == Some(0) && document["firewall"]["reloads"] == 1, "{document:#}");
        say(&format!("rules reloaded on request after {:.1} s", took.as_secs_f64()));
        Ok(())
    }

    /// Records of ended flows come by the clock while no packet arrives, or none that is selected.
    fn ends_flows_in_silence(&self) -> Result<()> {
        let records = self.folder.join("silent.csv");
        let select = ["--filter", "tcp port 80"];
        for options in [&[][..], &["--workers", "2"], &["--workers", "2", "--scheduler", "lfb"], &select] {
            let _ = std::fs::remove_file(&records);
            let mut run = self.network.command(SERVER, &self.flowloom);
            run.args(["replay", "--iface", "lo", "--format", "json", "-q", "--timeout", "1", "--flows"]);
            let run = run.arg(&records).args(options).stdout(Stdio::piped()).spawn()?;
            let run = Running(run);
            let lines = || std::fs::read_to_string(&records).unwrap_or_default().lines().count();
            wait_for("the header", || Ok(lines() == 1))?;
            self.network.ask_in(SERVER, &["fetch", "127.0.0.1:80", "100000"])?;
            // Packets that are not selected let time pass too.
            let noise = options.first() == Some(&"--filter");
            let took = wait_for("a record", || {
                if noise {
                    self.network.ask_in(SERVER, &["ping", "127.0.0.1", "5", "64"])?;
                }
                Ok(lines() > 1)
            })?;
            ensure!(took < Duration::from_secs(5), "the record came after {took:?}");
            say(&format!(
                "a record came after {:.1} s of silence {}",
                took.as_secs_f64(),
                options.join(" ")
            ));
            let (status, document) = run.stop()?;
            ensure!(status == Some(130) && document["balanced"] == true, "{status:?}: {document:#}");
        }
        Ok(())
    }

    /// Checks that the bridge forwards and denies.
    fn judges(&self, when: &str) -> Result<()> {
        let said = self.network.ask(&["ping", SERVER_V4, "50", "64"])?;
        ensure!(said.starts_with("sent 50 lost 0 "), "{when}: {said}");
        self.judges_port("80", false)
            .and_then(|()| self.judges_port("81", true))
            .context(when.to_owned())?;
        say(&format!("{when}: {said}"));
        Ok(())
    }

    fn judges_port(&self, port: &str, is_denied: bool) -> Result<()> {
        let found = self.network.connect(port)?;
        let expected = if is_denied { "ConnectionRefused" } else { "open" };
        ensure!(found == expected, "port {port} is {found} instead of {expected}");
        Ok(())
    }

    /// Starts a bridge, and waits until it passes frames.
    fn bridge(&self, options: &[&str]) -> Result<Running> {
        let mut bridge = self.network.command(BRIDGE, &self.flowloom);
        bridge.args(["bridge", PORTS[0], PORTS[1], "--format", "json", "--deny-with", "reset"]);
        bridge.args(["--default", "accept", "--rules"]).arg(&self.rules.0).args(options);
        Running::bridge(&mut bridge, |line| say(&line))
    }
}

/// A small disk in memory, which is removed on drop.
struct Disk(PathBuf);

impl Disk {
    fn new(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        let disk = Self(path.to_path_buf());
        finish(Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "flowloom"]).arg(path))?;
        Ok(disk)
    }

    fn resize(&self, size: &str) -> Result<()> {
        finish(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).stderr(Stdio::null()).status();
    }
}
