//! Random conversions: the programs of netfilter load the written rules, and the kernel
//! forwards the same frames as with the original.
//!
//! All files use one pair of namespaces. The frames are numbered, so each one is compared.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flowloom_io::{PacketOptions, PacketPort, Port as _, PortFrame};
use flowloom_rules::firewall::{Families, Policy};
use flowloom_rules::load::{LoadOptions, RuleFormat, load, toml};
use flowloom_rules::write;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, recv, sendto, socket, sockopt,
};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use super::frames::{self, Frames};
use super::hosts::{Family, RECEIVER_MAC, SENDER_MAC};
use super::iptables_file::Features;
use super::network::Network;
use super::{Bench, LOADERS, Loader, Options, draw_rules};
use crate::draw::Draw;

/// The type of the last frame, which passes the router under any rules.
const LAST: [u8; 2] = [0x88, 0xb5];

/// The table that forwards the last frame.
const PASS: &str = "table netdev last {\n chain c {\n type filter hook ingress device in0 priority 0;\n \
                    ether type 0x88b5 fwd to out0\n }\n}\n";

/// Removes the rules of all families that see packets.
const FLUSH: &str = "flush ruleset ip\nflush ruleset ip6\nflush ruleset inet\n";

/// Time limit for the last frame.
const PATIENCE: Duration = Duration::from_secs(5);

/// Steps of minimising a file.
const STEPS: u64 = 100_000;

/// The interfaces of the sender, and the router in which the thread runs.
#[derive(Debug)]
struct Wire<'a> {
    network: &'a Network,
    port: PacketPort,
    receiver: OwnedFd,
    /// Ends all tracked connections.
    control: OwnedFd,
    /// The legacy tables that may have rules.
    legacy: Vec<Family>,
}

impl<'a> Wire<'a> {
    /// Opens the interfaces. The thread then runs in the router.
    fn open(network: &'a Network) -> Result<Self> {
        enter(&network.sender)?;
        let port = PacketPort::open("snd0", &PacketOptions::default())?;
        // The protocol is in the order of the network: all of them.
        let all = std::num::NonZeroU32::new(3_u32.to_be() >> 16).map(Protocol::from_raw);
        let receiver = socket(AddressFamily::PACKET, SocketType::RAW, all)?;
        sockopt::set_socket_recv_buffer_size_force(&receiver, 8 << 20)?;
        sockopt::set_socket_timeout(&receiver, sockopt::Timeout::Recv, Some(PATIENCE))?;
        enter(&network.router)?;
        let control = socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::NETFILTER))?;
        network.here(&["nft", "-f", "-"], Some(PASS))?;
        network.relax_tracking()?;
        Ok(Self { network, port, receiver, control, legacy: Vec::new() })
    }

    /// Replaces all rules by those of a text.
    fn load(&mut self, loader: Loader, text: &str) -> Result<()> {
        let is_same = |family: &Family| matches!(loader, Loader::Legacy(own) if own == *family);
        for family in self.legacy.extract_if(.., |family| !is_same(family)) {
            let empty = "*raw\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n";
            self.network.here(&[&Loader::Legacy(family).program("-restore")], Some(empty))?;
        }
        let is_nft = loader == Loader::Nft;
        let script = if is_nft { format!("{FLUSH}{text}") } else { String::from(FLUSH) };
        self.network.here(&["nft", "-f", "-"], Some(&script))?;
        self.add(loader, if is_nft { "" } else { text })
    }

    /// Loads the tables of a family beside those of others.
    fn add(&mut self, loader: Loader, text: &str) -> Result<()> {
        if loader == Loader::Nft {
            return Ok(());
        }
        // The table raw of the file before.
        let empty = "*raw\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n";
        self.network.here(&[&loader.program("-restore")], Some(&format!("{empty}{text}")))?;
        if let Loader::Legacy(family) = loader
            && !self.legacy.contains(&family)
        {
            self.legacy.push(family);
        }
        Ok(())
    }

    /// Returns which frames the router forwards.
    fn forwarded(&self, frames: &[Vec<u8>]) -> Result<Vec<bool>> {
        self.forget_connections()?;
        let mut last = frames[0][..12].to_vec();
        last.extend(LAST);
        last.resize(60, 0);
        let all: Vec<PortFrame<'_>> =
            frames.iter().chain([&last]).map(|frame| PortFrame::new(frame)).collect();
        let mut taken = Vec::new();
        self.port.send(&all, &mut taken);
        ensure!(taken.iter().all(|taken| *taken), "the sender's interface refused frames");
        let mut forwarded = vec![false; frames.len()];
        let mut buffer = vec![0; 1 << 16];
        let begun = Instant::now();
        // The last frame is seen where it is sent, and where it arrives.
        let mut last_seen = 0;
        let own = [SENDER_MAC, RECEIVER_MAC].map(bytes_of);
        while last_seen < 2 {
            let (length, _) = recv(&self.receiver, &mut buffer[..], RecvFlags::empty())
                .context("the last frame did not arrive")?;
            ensure!(begun.elapsed() < PATIENCE, "the last frame did not arrive");
            let frame = &buffer[..length];
            if frame[12..14] == LAST {
                last_seen += 1;
            } else if !own.contains(&frame[6..12].to_vec())
                && let Some(number) = frames::number(frame)
                && frames.get(number).is_some_and(|sent| frames::is_same(sent, frame))
            {
                forwarded[number] = true;
            }
        }
        Ok(forwarded)
    }

    fn forget_connections(&self) -> Result<()> {
        /// A message of 20 bytes: delete, of `ctnetlink`, for all families.
        const MESSAGE: u16 = 1 << 8 | 2;
        const REQUEST: u16 = 1;
        let mut message = 20_u32.to_ne_bytes().to_vec();
        message.extend(MESSAGE.to_ne_bytes());
        message.extend(REQUEST.to_ne_bytes());
        message.resize(20, 0);
        sendto(&self.control, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }
}

fn enter(namespace: &str) -> Result<()> {
    let file = std::fs::File::open(format!("/run/netns/{namespace}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

fn bytes_of(address: &str) -> Vec<u8> {
    address.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

/// A text to load, and the loader.
type Part = (Loader, String);

/// Returns the files of a policy in the other form; `None` for what has no counterpart there.
fn written(policy: &Policy, loader: Loader) -> Result<Vec<Part>, String> {
    let unwritable = |error: write::Unwritable| error.text;
    if loader != Loader::Nft {
        return Ok(vec![(Loader::Nft, write::nft::write(policy).map_err(unwritable)?)]);
    }
    [(Family::V4, Families::V4), (Family::V6, Families::V6)]
        .into_iter()
        .map(|(family, families)| {
            Ok((Loader::Legacy(family), write::iptables::write(policy, families).map_err(unwritable)?))
        })
        .collect()
}

/// The ways of converting a file.
const WAYS: [&str; 3] = ["directly", "through TOML", "minimised"];

/// Returns the file converted in each way.
fn conversions(loader: Loader, text: &str) -> Result<[Result<Vec<Part>, String>; 3]> {
    let families = match loader.families() {
        [Family::V4] => Some(Families::V4),
        [Family::V6] => Some(Families::V6),
        _ => None,
    };
    let chain = Some(loader.chain_options()[1].to_owned());
    let options = LoadOptions { chain, families, ..LoadOptions::default() };
    let policy = load(text, RuleFormat::detect("rules", text), &options)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    // No file of nft meets later fragments.
    let policy = if loader == Loader::Nft { policy.without_later_fragments() } else { policy };
    let through = |policy: &Policy| {
        let toml = write::toml::write(policy).map_err(|error| error.text)?;
        toml::load(&toml, options.limits).map_err(|error| format!("not read again: {error}"))
    };
    let minimised = policy.minimised(STEPS).map_err(|error| anyhow::anyhow!("{error}"))?.policy;
    let minimised = if minimised.len() == policy.len() { None } else { Some(minimised) };
    Ok([
        written(&policy, loader),
        through(&policy).and_then(|policy| written(&policy, loader)),
        minimised.map_or_else(
            || Err(String::from("nothing is left out")),
            |smaller| through(&smaller).and_then(|policy| written(&policy, loader)),
        ),
    ])
}

/// Judges random files frame by frame, converts them, and compares the decisions of the kernel.
pub(super) fn run(plan: &Options, bench: &Bench) -> Result<u64> {
    let network = Network::new(plan.seed)?;
    let mut one = CpuSet::new();
    one.set(0);
    // One processor sends and forwards, so frames keep their order.
    sched_setaffinity(None, &one)?;
    let mut wire = Wire::open(&network)?;
    let (mut loaded, mut refused) = (BTreeMap::new(), BTreeMap::<String, u64>::new());
    let (mut different, mut judged) = (0, 0);
    for file in plan.first..plan.first.saturating_add(plan.files) {
        let loader = match file % 2 {
            0 => Loader::Nft,
            _ => LOADERS[(file / 2 % 4) as usize],
        };
        let mut draw = Draw::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(file));
        let features = Features::draw(&mut draw).convertible();
        let text = draw_rules(&mut draw, loader, features);
        let has_later = loader != Loader::Nft && !matches!(loader, Loader::Tables(_));
        let mut drawn =
            Frames::new(&mut draw, loader.families(), features.state, (has_later, loader != Loader::Nft));
        let mut frames: Vec<Vec<u8>> = (0..plan.packets).map(|_| drawn.frame()).collect();
        for (number, frame) in frames.iter_mut().enumerate() {
            frames::set_number(frame, number);
        }
        wire.load(loader, &text).with_context(|| format!("file {file}: {text}"))?;
        let expected = wire.forwarded(&frames)?;
        let accepted = bench.accepted(loader, &text, &frames)?;
        if let Some(first) = (0..accepted.len()).find(|&frame| accepted[frame] != expected[frame]) {
            let all = frames::capture(&frames);
            std::fs::write(plan.folder.join(format!("{file}-judged.pcap")), all)?;
            let (here, there) = if accepted[first] { ("accepts", "drops") } else { ("denies", "forwards") };
            println!(
                "kernel: file {file} ({loader:?}): classify {here} frame {}, which the kernel {there}\n{text}",
                first + 1
            );
            different += 1;
        }
        judged += accepted.len();
        let mut done: Vec<Vec<Part>> = Vec::new();
        for (way, parts) in WAYS.iter().zip(conversions(loader, &text)?) {
            let direction = if loader == Loader::Nft { "nft to iptables" } else { "iptables to nft" };
            let parts = match parts {
                Ok(parts) => parts,
                Err(reason) => {
                    // Of quoted words, the first one is kept.
                    let short = |(at, part): (usize, &str)| match at % 2 {
                        0 => part.to_owned(),
                        _ => part.split(' ').next().unwrap_or_default().to_owned(),
                    };
                    let reason = reason.split('\'').enumerate().map(short).collect::<Vec<_>>().join("'");
                    *refused.entry(format!("{direction}, {way}: {reason}")).or_default() += 1;
                    continue;
                }
            };
            *loaded.entry(format!("{direction}, {way}")).or_insert(0_u64) += 1;
            if done.contains(&parts) {
                continue;
            }
            let say = |what: &str| {
                let all: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
                println!(
                    "kernel: file {file} ({loader:?}), converted {way}: {what}\n{text}\n{}",
                    all.join("\n")
                );
            };
            let mut result = Ok(());
            for (index, (loader, text)) in parts.iter().enumerate() {
                result = result.and_then(|()| {
                    if index == 0 { wire.load(*loader, text) } else { wire.add(*loader, text) }
                });
            }
            if let Err(error) = result {
                say(&format!("{error:#}"));
                different += 1;
                continue;
            }
            let found = wire.forwarded(&frames)?;
            let differs: Vec<usize> =
                (0..frames.len()).filter(|&frame| found[frame] != expected[frame]).collect();
            if let Some(&first) = differs.first() {
                std::fs::write(
                    plan.folder.join(format!("{file}-converted.pcap")),
                    frames::capture(&frames),
                )?;
                let was = if expected[first] { "forwarded" } else { "denied" };
                say(&format!(
                    "{} frames differ; the original {was} the first, {}",
                    differs.len(),
                    first + 1
                ));
                different += 1;
            }
            done.push(parts);
        }
    }
    for (what, count) in loaded {
        println!("kernel: {count} conversions {what}");
    }
    for (what, count) in refused {
        println!("kernel: {count} refused {what}");
    }
    println!("kernel: {judged} frames judged; {different} files or conversions differ");
    Ok(different)
}
