//! `cargo xtask kernel`: compares the decisions of the kernel and of `classify` for random
//! firewalls and packets.
//!
//! Each file is loaded into a network namespace by `iptables-restore` (legacy or nf_tables),
//! `ip6tables-restore` or `nft -f`. Random frames pass through its FORWARD chain. The counter of
//! each rule that decides must equal the count of `classify` for that rule, and `replay` must count
//! like `classify`. Counters of rules that pass packets on, such as LOG and jumps, are compared in
//! files without states. `rules explain` must name the rule that decides a frame. This is a verb
//! rather than a test because it needs root, namespaces and the tools of netfilter.

#![expect(clippy::cast_possible_truncation, reason = "numbers are drawn within the widths of their fields")]
#![expect(clippy::print_stdout, reason = "the result of the verb")]
#![expect(clippy::doc_markdown, reason = "the tools of netfilter have underscores in their names")]

mod conversions;
mod converted;
mod counters;
mod explained;
mod frames;
mod hosts;
mod ipset_file;
mod iptables_file;
mod network;
mod nft_file;
mod passed;
mod sequences;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::draw::Draw;
use crate::program::debug_command;
use counters::{Counted, Counters};
use frames::Frames;
use hosts::Family;
use iptables_file::Features;
use network::Network;

/// The program that loads a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loader {
    Legacy(Family),
    Tables(Family),
    Nft,
}

/// The loaders, used in turn.
const LOADERS: [Loader; 5] = [
    Loader::Legacy(Family::V4),
    Loader::Tables(Family::V4),
    Loader::Legacy(Family::V6),
    Loader::Tables(Family::V6),
    Loader::Nft,
];

impl Loader {
    /// Returns the name of a program of iptables with this loader's back end and family.
    fn program(self, what: &str) -> String {
        match self {
            Self::Legacy(Family::V4) => format!("iptables-legacy{what}"),
            Self::Legacy(Family::V6) => format!("ip6tables-legacy{what}"),
            Self::Tables(Family::V4) => format!("iptables-nft{what}"),
            Self::Tables(Family::V6) => format!("ip6tables-nft{what}"),
            Self::Nft => String::from("nft"),
        }
    }

    /// Returns the options that name the chain of a file, and its family where it does not say it.
    fn chain_options(self) -> &'static [&'static str] {
        match self {
            Self::Nft => &["--chain", "forward"],
            Self::Legacy(Family::V4) | Self::Tables(Family::V4) => {
                &["--chain", "FORWARD", "--family", "ipv4"]
            }
            Self::Legacy(Family::V6) | Self::Tables(Family::V6) => {
                &["--chain", "FORWARD", "--family", "ipv6"]
            }
        }
    }

    fn families(self) -> &'static [Family] {
        match self {
            Self::Legacy(Family::V4) | Self::Tables(Family::V4) => &[Family::V4],
            Self::Legacy(Family::V6) | Self::Tables(Family::V6) => &[Family::V6],
            Self::Nft => &[Family::V4, Family::V6],
        }
    }
}

/// Returns a random file for a loader.
fn draw_rules(draw: &mut Draw, loader: Loader, features: Features) -> String {
    match loader {
        Loader::Legacy(family) | Loader::Tables(family) => iptables_file::text(draw, family, features),
        Loader::Nft => nft_file::text(draw, features),
    }
}

/// Loads random firewalls into the kernel, sends random packets through them, and compares the
/// counters of rules with those of `flowloom classify` and `flowloom replay`. Needs root, ip,
/// iptables and nft.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The directory for what differs.
    #[arg(skip)]
    folder: PathBuf,
    /// Converts each file from iptables to nft or the other way round, also through TOML and
    /// minimised: the kernel must forward the same frames (--files 20000 --packets 100).
    #[arg(long = "conversions")]
    is_converting: bool,
    /// The number of the first file: --first 41 --files 1 repeats one.
    #[arg(long, default_value_t = 0)]
    first: u64,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Packets per file. The generated limits match up to 10,000 at once.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    packets: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Compares the kernel with `classify`.
pub(crate) fn run(root: &Path, mut plan: Options) -> Result<ExitCode> {
    if let Some(reason) = missing(plan.seed) {
        println!("kernel: not run: {reason}");
        return Ok(ExitCode::SUCCESS);
    }
    let flowloom = debug_command(root)?;
    let folder = flowloom.with_file_name("kernel").join(plan.seed.to_string());
    std::fs::create_dir_all(&folder)?;
    plan.folder.clone_from(&folder);
    let bench = Bench {
        flowloom,
        folder,
        seed: plan.seed,
        has_ipset: Command::new("ipset").arg("-v").output().is_ok(),
        has_sets: Cell::default(),
        conversions: Cell::default(),
    };
    if plan.is_converting {
        return Ok(ExitCode::from(u8::from(conversions::run(&plan, &bench)? > 0)));
    }
    let (mut rules, mut packets, mut different) = (0, 0, Vec::new());
    for file in plan.first..plan.first.saturating_add(plan.files) {
        let loader = LOADERS[(file % LOADERS.len() as u64) as usize];
        let outcome = bench
            .compare(loader, file, &plan)
            .with_context(|| format!("file {file}, {loader:?}; kept in {}", bench.folder.display()))?;
        rules += outcome.rules;
        packets += outcome.packets;
        if !outcome.differences.is_empty() {
            println!("kernel: file {file} ({loader:?}) differs:\n{}", outcome.differences.join("\n"));
            for name in ["rules", "trace.pcap"] {
                std::fs::copy(bench.folder.join(name), bench.folder.join(format!("{file}-{name}")))?;
            }
            different.push(file);
        }
    }
    let [loaded, refused] = bench.conversions.get();
    println!(
        "kernel: {} files, {rules} counters, {packets} packets, {loaded} conversions ({refused} refused): {} \
         files differ",
        plan.files,
        different.len()
    );
    Ok(ExitCode::from(u8::from(!different.is_empty())))
}

/// Returns why the comparison cannot run here.
fn missing(seed: u64) -> Option<String> {
    for program in
        ["ip", "taskset", "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft", "nft"]
    {
        let status = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if status.is_err() {
            return Some(format!("{program} is not installed"));
        }
    }
    let network = match Network::new(seed) {
        Ok(network) => network,
        Err(error) => return Some(format!("no network namespaces: {error:#}")),
    };
    for program in ["iptables-legacy-save", "ip6tables-legacy-save", "iptables-nft-save"] {
        if let Err(error) = network.router(&[program], None) {
            return Some(format!("{error:#}"));
        }
    }
    None
}

/// The programs, and a directory for their files.
#[derive(Debug)]
struct Bench {
    flowloom: PathBuf,
    folder: PathBuf,
    seed: u64,
    /// `ipset` is installed.
    has_ipset: bool,
    /// The rules of the file ask for sets, which lie beside it.
    has_sets: Cell<bool>,
    /// Conversions that were loaded, and those that were refused.
    conversions: Cell<[u64; 2]>,
}

/// The result for one file.
#[derive(Debug)]
struct Outcome {
    rules: usize,
    packets: u64,
    differences: Vec<String>,
}

/// The counts of `classify`.
#[derive(Debug, Default)]
struct Classified {
    /// Packets that the rule of a line decides, where rules that may match do.
    counters: Counters,
    /// The fewest and the most packets that it decides.
    bounds: BTreeMap<u64, (u64, u64)>,
    /// The line of each rule by its number.
    lines: Counters,
}

impl Classified {
    /// Returns whether the kernel's count is possible. Where states are tracked, no limit is
    /// reached, and all rules that may match do.
    fn may_be(&self, rule: &Counted, is_tracked: bool) -> bool {
        if is_tracked {
            return self.counters.get(&rule.line).copied().unwrap_or_default() == rule.packets;
        }
        let (low, high) = self.bounds.get(&rule.line).copied().unwrap_or_default();
        (low..=high).contains(&rule.packets)
    }
}

/// The decisions on the frames of a file.
#[derive(Debug)]
struct Decided {
    kernel: Vec<Counted>,
    /// Packets that the kernel forwards.
    forwarded: u64,
    differences: Vec<String>,
}

impl Bench {
    fn sets(&self) -> PathBuf {
        self.folder.join("sets")
    }

    /// Returns the options for a file of a loader.
    fn options(&self, loader: Loader) -> Vec<OsString> {
        let mut options: Vec<OsString> = loader.chain_options().iter().map(OsString::from).collect();
        if self.has_sets.get() {
            options.extend([OsString::from("--sets"), self.sets().into()]);
        }
        options
    }

    fn compare(&self, loader: Loader, file: u64, plan: &Options) -> Result<Outcome> {
        /// One file in so many has no states, so that all its counters can be compared.
        const PASSING: u64 = 4;
        let mut draw = Draw::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(file));
        let features = Features::draw(&mut draw);
        let features = if file.is_multiple_of(PASSING) { features.passing() } else { features };
        let count = plan.packets;
        let features = if self.has_ipset { features } else { features.convertible() };
        self.has_sets.set(features.sets && loader != Loader::Nft);
        if self.has_sets.get() {
            std::fs::write(self.sets(), ipset_file::text(&mut draw, loader.families()[0]))?;
        }
        let text = draw_rules(&mut draw, loader, features);
        let has_later = !matches!(loader, Loader::Tables(_));
        let kind = (has_later, loader != Loader::Nft);
        // Of a file with converted rules, the other back end looks behind these headers.
        let signs_v6 = !matches!(loader, Loader::Tables(_)) && draw.percent(40);
        let mut frames = Frames::new(&mut draw, loader.families(), features.state, kind);
        frames.signs_v6 = signs_v6;
        let frames: Vec<Vec<u8>> = (0..count).map(|_| frames.frame()).collect();
        let (rules, trace) = (self.folder.join("rules"), self.folder.join("trace.pcap"));
        std::fs::write(&rules, &text)?;
        let Decided { kernel, forwarded, mut differences } =
            self.decided(loader, features.state, &text, &frames)?;
        if !differences.is_empty() {
            differences.push(self.first_frame(loader, features.state, &text, &frames)?);
            std::fs::write(&trace, frames::capture(&frames))?;
        }
        let (decides, passes): (Vec<Counted>, Vec<Counted>) = kernel.iter().partition(|rule| rule.decides);
        differences.extend(self.explained(loader, &rules, &frames)?);
        let is_once = !features.state && !nft_file::has_several_places(&text);
        let compared = if is_once { passed::once(loader, &text, &passes) } else { Vec::new() };
        if signs_v6 {
            return Ok(Outcome { rules: decides.len(), packets: frames.len() as u64, differences });
        }
        differences.extend(self.converted(
            loader,
            features.state,
            &rules,
            &trace,
            (frames.len(), forwarded),
        )?);
        differences.extend(self.passed(loader, &text, &compared, &trace)?);
        Ok(Outcome { rules: decides.len() + compared.len(), packets: frames.len() as u64, differences })
    }

    /// Returns the kernel's counts, and where those of `classify` and `replay` differ.
    fn decided(&self, loader: Loader, is_tracked: bool, text: &str, frames: &[Vec<u8>]) -> Result<Decided> {
        let (rules, trace) = (self.folder.join("rules"), self.folder.join("trace.pcap"));
        std::fs::write(&trace, frames::capture(frames))?;
        let (kernel, forwarded) = self.kernel(loader, is_tracked, text, &trace, frames.len())?;
        let classified = self.classify(loader, &rules, &trace)?;
        let replayed = self.replay(loader, &rules, &trace, &classified.lines)?;
        let lines: Vec<&str> = text.lines().collect();
        let differences = kernel.iter().filter(|rule| rule.decides).filter_map(|rule| {
            let text = lines.get(rule.line as usize - 1).map_or("", |line| line.trim());
            let all = [&classified.counters, &replayed];
            let [here, run] = all.map(|counters| counters.get(&rule.line).copied().unwrap_or(0));
            (!classified.may_be(rule, is_tracked) || here != run).then(|| {
                format!(
                    "  line {}: kernel {}, classify {here}, replay {run}: {text}",
                    rule.line, rule.packets
                )
            })
        });
        let differences = differences.collect();
        Ok(Decided { kernel, forwarded, differences })
    }

    /// Returns a line about the first frame that is decided differently.
    fn first_frame(
        &self,
        loader: Loader,
        is_tracked: bool,
        text: &str,
        frames: &[Vec<u8>],
    ) -> Result<String> {
        let (mut equal, mut differs) = (0, frames.len());
        while differs - equal > 1 {
            let middle = equal.midpoint(differs);
            let decided = self.decided(loader, is_tracked, text, &frames[..middle])?;
            *(if decided.differences.is_empty() { &mut equal } else { &mut differs }) = middle;
        }
        Ok(format!("  first at frame {differs}"))
    }

    /// Returns the kernel's counts.
    fn kernel(
        &self,
        loader: Loader,
        is_tracked: bool,
        text: &str,
        trace: &Path,
        count: usize,
    ) -> Result<(Vec<Counted>, u64)> {
        let network = Network::new(self.seed)?;
        if self.has_sets.get() {
            network
                .router(&["ipset", "restore", "-exist"], Some(&std::fs::read_to_string(self.sets())?))?;
        }
        if loader == Loader::Nft {
            network.router(&["nft", "-f", "-"], Some(text))?;
        } else {
            network.router(&[&loader.program("-restore")], Some(text))?;
        }
        if is_tracked {
            network.relax_tracking()?;
        }
        network.count_forwarded()?;
        let sent = network.send(&self.flowloom, trace)?;
        let document: Value = serde_json::from_str(&sent)?;
        ensure!(document["sent"] == count, "the sender said: {sent}");
        let forwarded = network.forwarded(count)?;
        let dump = if loader == Loader::Nft {
            network.router(&["nft", "list", "table", "inet", "filter"], None)?
        } else {
            network.router(&[&loader.program("-save"), "-c", "-t", "filter"], None)?
        };
        let counted = if loader == Loader::Nft {
            counters::of_nft(text, &dump)
        } else {
            counters::of_iptables(text, &dump)
        };
        Ok((counted, forwarded))
    }

    /// Returns the counts of `classify`.
    fn classify(&self, loader: Loader, rules: &Path, trace: &Path) -> Result<Classified> {
        let more = ["--rules", "--top", "1000000", "--unused", "--per-packet"].map(AsRef::as_ref);
        let document =
            self.json("classify", loader, trace, &[&more[..1], &[rules.as_os_str()], &more[1..]].concat())?;
        ensure!(document["undecoded"] == 0, "frames are not decoded: {document:#}");
        let mut found = Classified::default();
        let hit = document["top"].as_array().into_iter().flatten().map(|hits| &hits["rule"]);
        for rule in hit.chain(document["unused_listed"].as_array().into_iter().flatten()) {
            let line = rule["line"].as_u64().context("a rule has a line")?;
            found.lines.insert(rule["number"].as_u64().context("a rule has a number")?, line);
        }
        for packet in document["per_packet"].as_array().into_iter().flatten() {
            if let Some(line) = packet["line"].as_u64() {
                *found.counters.entry(line).or_default() += 1;
            }
            let possible = packet["possible"].as_array().into_iter().flatten();
            let mut lines: Vec<u64> =
                possible.filter_map(|rule| found.lines.get(&rule.as_u64()?).copied()).collect();
            lines.extend(packet["line"].as_u64());
            lines.sort_unstable();
            lines.dedup();
            for line in &lines {
                let bounds = found.bounds.entry(*line).or_default();
                bounds.0 += u64::from(lines.len() == 1 && packet["possible"].is_null());
                bounds.1 += 1;
            }
        }
        Ok(found)
    }

    /// Returns whether `classify` accepts each packet, up to the first one that depends on what is
    /// unknown, such as a mark from before.
    fn accepted(&self, loader: Loader, text: &str, frames: &[Vec<u8>]) -> Result<Vec<bool>> {
        let (rules, trace) = (self.folder.join("rules"), self.folder.join("trace.pcap"));
        std::fs::write(&rules, text)?;
        std::fs::write(&trace, frames::capture(frames))?;
        let more = ["--rules".as_ref(), rules.as_os_str(), "--per-packet".as_ref()];
        let document = self.json("classify", loader, &trace, &more)?;
        let packets = document["per_packet"].as_array().context("a list of packets")?;
        ensure!(packets.len() == frames.len(), "classify lists {} packets", packets.len());
        let known = packets.iter().take_while(|packet| packet["possible"].is_null());
        Ok(known.map(|packet| packet["verdict"] == "accept").collect())
    }

    /// Returns the counts of `replay`, which judges every packet separately here, as a filter does.
    fn replay(&self, loader: Loader, rules: &Path, trace: &Path, lines: &Counters) -> Result<Counters> {
        let more = [
            "--rules".as_ref(),
            rules.as_os_str(),
            "--top-rules".as_ref(),
            "1000000".as_ref(),
            "--per-packet".as_ref(),
        ];
        let document = self.json("replay", loader, trace, &more)?;
        let mut counters = Counters::new();
        for rule in document["firewall"]["top"].as_array().into_iter().flatten() {
            let number = rule["number"].as_u64().context("a rule has a number")?;
            let line = lines.get(&number).copied().unwrap_or_default();
            *counters.entry(line).or_default() += rule["packets"].as_u64().unwrap_or_default();
        }
        Ok(counters)
    }

    /// Runs a verb of the command and returns its report.
    fn json(&self, verb: &str, loader: Loader, trace: &Path, more: &[&std::ffi::OsStr]) -> Result<Value> {
        let mut command = Command::new(&self.flowloom);
        command.arg(verb).arg(trace).args(more);
        command.args(self.options(loader)).args(["--in", "in0", "--out", "out0", "--assume", "match"]);
        command.args(["--format", "json", "-q"]);
        let output = command.output()?;
        ensure!(
            output.status.success(),
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_rule_files_repeat_by_seed() {
        let make = |seed| {
            let mut draw = Draw::new(seed);
            let features = Features::draw(&mut draw);
            iptables_file::text(&mut draw, Family::V4, features)
        };
        assert_eq!(make(5), make(5));
        let all: String = (0..60).map(make).collect();
        for construct in [
            "-i in0", "--ctstate", "-o out0", "-A chain-0", "--icmp-type", "LOG", "--syn", "-m limit",
            "RETURN", " ! ", "recent", " -f",
        ] {
            assert!(all.contains(construct), "{construct}");
        }
    }
}
