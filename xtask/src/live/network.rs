//! Three namespaces: a client, a server, and between them the two ports of a bridge.
//!
//! ```text
//!  client eth0 ── pa  bridge  pb ── eth0 server
//! ```

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{ip, signal};
use crate::program::finish;

/// The names of the namespaces.
pub(super) const CLIENT: &str = "flowloom-client";
pub(super) const BRIDGE: &str = "flowloom-bridge";
pub(super) const SERVER: &str = "flowloom-server";
/// The ports of the bridge.
pub(super) const PORTS: [&str; 2] = ["pa", "pb"];
/// The addresses of the server.
pub(super) const SERVER_V4: &str = "10.9.0.2";
pub(super) const SERVER_V6: &str = "fd09::2";

/// A process that is killed on drop.
pub(super) struct Running(pub(super) Child);

impl Running {
    /// Starts a bridge, and waits until it passes frames. `on_line` gets what it says later.
    pub(super) fn bridge(command: &mut Command, on_line: fn(String)) -> Result<Self> {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut running = Self(child.context("cannot start the bridge")?);
        let errors = running.0.stderr.take().context("it has standard error")?;
        let mut lines = BufReader::new(errors).lines();
        let mut said = Vec::new();
        for line in lines.by_ref() {
            let line = line?;
            if line.starts_with("bridge of ") {
                // Continues to read, so that the bridge never waits for its reader.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(on_line));
                return Ok(running);
            }
            said.push(line);
        }
        bail!("the bridge ended with {}: {}", running.0.wait()?, said.join("\n"))
    }

    /// Stops a run, and returns its exit status and its document.
    pub(super) fn stop(mut self) -> Result<(Option<i32>, Value)> {
        ensure!(self.0.try_wait()?.is_none(), "the run has ended by itself");
        signal(&self.0, "-TERM")?;
        let mut text = String::new();
        self.0.stdout.take().context("it has standard output")?.read_to_string(&mut text)?;
        let status = self.0.wait()?;
        Ok((status.code(), serde_json::from_str(&text).context("the run printed no document")?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file of rules.
pub(super) struct Rules(pub(super) PathBuf);

impl Rules {
    /// Writes rules that deny these ports, as one change.
    pub(super) fn deny(&self, ports: &[&str]) -> Result<()> {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, ports.iter().map(|port| Self::text(port)).collect::<String>())?;
        Ok(std::fs::rename(beside, &self.0)?)
    }

    /// Returns a rule that denies a port.
    pub(super) fn text(port: &str) -> String {
        format!("[[rule]]\nprotocol = \"tcp\"\ndestination_ports = {port}\naction = \"deny\"\n")
    }
}

/// The namespaces, which are removed on drop.
pub(super) struct Network;

impl Network {
    /// Creates the namespaces, and links with this number of queues. If frames are taken from the
    /// driver, the hosts do the work that is otherwise left to a network card.
    pub(super) fn new(by_driver: bool, queues: u32) -> Result<Self> {
        remove();
        for name in [CLIENT, BRIDGE, SERVER] {
            finish(&mut ip(&["netns", "add", name])).context(
                "cannot make a network namespace: run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN",
            )?;
        }
        let network = Self;
        let queues = queues.to_string();
        for (port, host) in PORTS.iter().zip([CLIENT, SERVER]) {
            let mut link = ip(&["-n", BRIDGE, "link", "add", "name", port]);
            link.args(["numtxqueues", &queues, "numrxqueues", &queues, "type", "veth"]);
            link.args(["peer", "name", "eth0", "numtxqueues", &queues, "numrxqueues", &queues]);
            finish(link.args(["netns", host]))?;
            // Announcements sent by the ports themselves would not pass through the bridge.
            Self::set(BRIDGE, &format!("net.ipv6.conf.{port}.disable_ipv6=1"))?;
        }
        for (host, number) in [(CLIENT, 1), (SERVER, 2)] {
            for setting in ["router_solicitations=0", "accept_ra=0", "dad_transmits=0", "accept_dad=0"] {
                Self::set(host, &format!("net.ipv6.conf.eth0.{setting}"))?;
            }
            if by_driver {
                let mut ethtool = network.command(host, "ethtool");
                finish(ethtool.args(["-K", "eth0", "tx", "off", "txvlan", "off"]).stdout(Stdio::null()))?;
            }
            let on = |words: &[&str]| finish(ip(&["-n", host]).args(words));
            on(&["link", "set", "lo", "up"])?;
            on(&["addr", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"])?;
            on(&["link", "set", "eth0", "up"])?;
            on(&["addr", "add", &format!("fd09::{number}/64"), "dev", "eth0", "nodad"])?;
        }
        for port in PORTS {
            finish(&mut ip(&["-n", BRIDGE, "link", "set", port, "up"]))?;
        }
        Ok(network)
    }

    fn set(namespace: &str, setting: &str) -> Result<()> {
        finish(Command::new("ip").args(["netns", "exec", namespace, "sysctl", "-q", "-w", setting]))
    }

    /// Returns a command that runs in a namespace.
    #[expect(clippy::unused_self, reason = "the namespaces must exist")]
    pub(super) fn command(&self, namespace: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = ip(&["netns", "exec", namespace]);
        command.arg(program);
        command
    }

    /// Returns a command that runs a client or server of this program in a namespace.
    pub(super) fn peer(&self, namespace: &str) -> Command {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("xtask"));
        let mut command = self.command(namespace, program);
        command.args(["live", "peer"]).stdout(Stdio::piped());
        command
    }

    /// Runs a client, and returns its output.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String> {
        self.ask_in(CLIENT, words)
    }

    /// Runs a client in a namespace, and returns its output.
    pub(super) fn ask_in(&self, namespace: &str, words: &[&str]) -> Result<String> {
        let output = self.peer(namespace).args(words).stderr(Stdio::piped()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {errors}", words.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Connects to a port of the server, and returns what became of it.
    pub(super) fn connect(&self, port: &str) -> Result<String> {
        self.ask(&["connect", &format!("{SERVER_V4}:{port}")])
    }

    /// Starts a server on these ports.
    pub(super) fn serve(&self, namespace: &str, ports: &[&str]) -> Result<Running> {
        let mut server = self.peer(namespace).arg("serve").args(ports).spawn()?;
        let mut ready = String::new();
        let output = server.stdout.take().context("it has standard output")?;
        BufReader::new(output).read_line(&mut ready)?;
        let server = Running(server);
        ensure!(ready == "ready\n", "the server does not start");
        Ok(server)
    }

    /// Changes all links.
    #[expect(clippy::unused_self, reason = "the namespaces must exist")]
    pub(super) fn set_links(&self, words: &[&str]) -> Result<()> {
        for (namespace, link) in
            [(CLIENT, "eth0"), (SERVER, "eth0"), (BRIDGE, PORTS[0]), (BRIDGE, PORTS[1])]
        {
            finish(ip(&["-n", namespace, "link", "set", link]).args(words))?;
        }
        Ok(())
    }

    /// Returns the kernel's counts of a port: frames received and sent.
    pub(super) fn counts(&self, port: &str) -> Result<[u64; 2]> {
        let read = |what: &str| -> Result<u64> {
            let path = format!("/sys/class/net/{port}/statistics/{what}_packets");
            let output = self.command(BRIDGE, "cat").arg(&path).output()?;
            ensure!(output.status.success(), "cannot read {path}");
            Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
        };
        Ok([read("rx")?, read("tx")?])
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes the namespaces, including those of an earlier run that was killed.
fn remove() {
    for name in [CLIENT, BRIDGE, SERVER] {
        let _ = ip(&["netns", "delete", name]).stderr(Stdio::null()).status();
    }
}
