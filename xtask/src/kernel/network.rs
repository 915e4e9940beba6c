//! Two network namespaces: a sender, and a router with the firewall under test.
//!
//! ```text
//!  sender: snd0 ══ veth ══ in0 :router: FORWARD ──▶ out0 ══ veth ══ snd1, where all packets end
//! ```
//!
//! Nothing in the router answers, so its connection tracking sees only the sent frames.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::hosts::{RECEIVER_MAC, SENDER_MAC};

/// The table that counts forwarded packets.
const COUNTING: &str = "counting";

/// The namespaces, which are removed on drop.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) sender: String,
    pub(super) router: String,
}

impl Network {
    /// Makes the namespaces of a run, which its seed names.
    pub(super) fn new(seed: u64) -> Result<Self> {
        let names = ["sender", "router"].map(|name| format!("flowloom-{name}-{seed}"));
        for name in &names {
            delete(name);
        }
        let [sender, router] = &names;
        let network = Self { sender: sender.clone(), router: router.clone() };
        let make = |words: &str| run(Command::new("ip").args(words.split_whitespace()), None);
        make(&format!("netns add {sender}"))?;
        make(&format!("netns add {router}"))?;
        make(&format!("-n {router} link add in0 type veth peer name snd0 netns {sender}"))?;
        make(&format!("-n {router} link add out0 type veth peer name snd1 netns {sender}"))?;
        // Nothing answers on the other side of out0, so it needs no neighbours' addresses.
        make(&format!("-n {router} link set out0 arp off"))?;
        make(&format!("-n {router} link set in0 address {RECEIVER_MAC}"))?;
        make(&format!("-n {sender} link set snd0 address {SENDER_MAC}"))?;
        // The sender's own IPv6 would send announcements; those of the router cannot be forwarded.
        network.set(sender, "net.ipv6.conf.all.disable_ipv6=1")?;
        for setting in [
            "net.ipv4.ip_forward=1",
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.conf.default.rp_filter=0",
            "net.ipv4.conf.in0.rp_filter=0",
            "net.ipv6.conf.all.forwarding=1",
        ] {
            network.set(router, setting)?;
        }
        for interface in ["snd0", "snd1"] {
            make(&format!("-n {sender} link set {interface} up"))?;
        }
        for interface in ["lo", "in0", "out0"] {
            make(&format!("-n {router} link set {interface} up"))?;
        }
        make(&format!("-n {router} route add default dev out0"))?;
        make(&format!("-n {router} -6 route add default dev out0"))?;
        Ok(network)
    }

    /// Configures connection tracking, when it is loaded, to check neither checksums nor windows.
    pub(super) fn relax_tracking(&self) -> Result<()> {
        self.set(&self.router, "net.netfilter.nf_conntrack_checksum=0")?;
        self.set(&self.router, "net.netfilter.nf_conntrack_tcp_be_liberal=1")
    }

    #[expect(clippy::unused_self, reason = "the namespaces must exist")]
    fn set(&self, network: &str, setting: &str) -> Result<()> {
        run(inside(network, Path::new("sysctl")).args(["-q", "-w", setting]), None).map(drop)
    }

    /// Runs a program in the router, and returns its output.
    pub(super) fn router(&self, words: &[&str], input: Option<&str>) -> Result<String> {
        run(inside(&self.router, Path::new(words[0])).args(&words[1..]), input)
    }

    /// Runs a program where this thread is, in one of the namespaces.
    #[expect(clippy::unused_self, reason = "the namespaces must exist")]
    pub(super) fn here(&self, words: &[&str], input: Option<&str>) -> Result<String> {
        run(Command::new(words[0]).args(&words[1..]), input)
    }

    /// Begins to count the packets that the router forwards.
    pub(super) fn count_forwarded(&self) -> Result<()> {
        let table = format!(
            "table inet {COUNTING} {{\n chain c {{\n type filter hook postrouting priority 300\n \
             iifname in0 oifname out0 counter\n }}\n}}\ntable netdev {COUNTING} {{\n chain c {{\n \
             type filter hook ingress device in0 priority -500\n ether type {{ ip, ip6 }} counter\n }}\n}}\n"
        );
        self.router(&["nft", "-f", "-"], Some(&table)).map(drop)
    }

    /// Returns how many packets the router has forwarded since [`Self::count_forwarded`].
    /// It waits until those that were sent have come, and no more do.
    pub(super) fn forwarded(&self, sent: usize) -> Result<u64> {
        /// Maximum number of times that the counters are read.
        const READ_MAX: usize = 1000;
        let mut last = None;
        for _ in 0..READ_MAX {
            let [come, count] = ["netdev", "inet"].map(|family| self.counted(family));
            let (come, count) = (come?, count?);
            if come >= sent as u64 && last.replace(count) == Some(count) {
                return Ok(count);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        bail!("the router did not receive {sent} packets")
    }

    fn counted(&self, family: &str) -> Result<u64> {
        let table = self.router(&["nft", "list", "table", family, COUNTING], None)?;
        let count = table.split_once("counter packets ").and_then(|(_, rest)| rest.split(' ').next());
        count.unwrap_or_default().parse().context("a number of packets")
    }

    /// Sends the frames of a capture once, all on one processor so that they keep their order.
    pub(super) fn send(&self, flowloom: &Path, capture: &Path) -> Result<String> {
        let mut command = inside(&self.sender, Path::new("taskset"));
        command.args(["-c", "0"]).arg(flowloom);
        command.args(["send", "--iface", "snd0", "--speed", "max", "--format", "json", "-q"]);
        run(command.arg(capture), None)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        delete(&self.sender);
        delete(&self.router);
    }
}

fn delete(name: &str) {
    let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
}

fn inside(network: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network]).arg(program);
    command
}

fn run(command: &mut Command, input: Option<&str>) -> Result<String> {
    let mut child = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?} cannot be run"))?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        pipe.write_all(text.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
