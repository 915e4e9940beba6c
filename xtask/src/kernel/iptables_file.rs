//! Random files in the format of `iptables-save`, with constructs that are common in practice.
//!
//! Shares follow a survey of public files: `-i` 88 %, states 82 %, `-o` 66 %, user chains 58 %,
//! ICMP types 49 %, LOG 31 %, TCP flags 29 %, limit 28 %, RETURN 28 %, negation 26 %, recent 14 %,
//! no target 14 %. A feature is drawn once per file; a file that has it uses it in several rules.

use std::fmt::Write as _;

use super::hosts::{Family, PORTS};
use super::ipset_file;
use crate::draw::Draw;

/// The constructs that a file uses.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a file")]
pub(super) struct Features {
    input: bool,
    /// Rules match connection states, so that the kernel tracks connections and reassembles
    /// fragments.
    pub(super) state: bool,
    output: bool,
    chains: bool,
    icmp: bool,
    log: bool,
    flags: bool,
    limit: bool,
    returns: bool,
    negation: bool,
    recent: bool,
    no_target: bool,
    /// Rules ask for sets.
    pub(super) sets: bool,
    /// Rules write marks and fields of headers, and ask for them.
    writes: bool,
    /// Rules before connection tracking leave packets untracked.
    notrack: bool,
}

impl Features {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self {
            input: draw.percent(88),
            state: draw.percent(82),
            output: draw.percent(66),
            chains: draw.percent(58),
            icmp: draw.percent(49),
            log: draw.percent(31),
            flags: draw.percent(29),
            limit: draw.percent(28),
            returns: draw.percent(28),
            negation: draw.percent(26),
            recent: draw.percent(14),
            no_target: draw.percent(14),
            sets: draw.percent(20),
            writes: draw.percent(25),
            notrack: draw.percent(30),
        }
    }

    /// Returns the features without what depends on more than packets, which is not converted.
    pub(super) fn convertible(self) -> Self {
        Self { limit: false, recent: false, sets: false, ..self }
    }

    /// Returns the features without states, with chains, LOG and rules without a target.
    pub(super) fn passing(self) -> Self {
        Self { state: false, chains: true, log: true, no_target: true, ..self }
    }
}

/// Maximum number of user chains in a file. Rules jump only to chains with higher numbers, so there
/// are no loops.
const CHAINS: usize = 4;

/// Returns a file whose chain FORWARD decides packets.
pub(super) fn text(draw: &mut Draw, family: Family, features: Features) -> String {
    let chains = if features.chains { 1 + draw.below(CHAINS) } else { 0 };
    let mut text = String::new();
    if features.state && features.notrack {
        untracking(draw, family, features, &mut text);
    }
    text.push_str("*filter\n:INPUT ACCEPT [0:0]\n");
    let _ = writeln!(text, ":FORWARD {} [0:0]\n:OUTPUT ACCEPT [0:0]", draw.pick(&["ACCEPT", "DROP"]));
    for chain in 0..chains {
        let _ = writeln!(text, ":chain-{chain} - [0:0]");
    }
    if features.writes {
        // Without it, marks would depend on what came before.
        text.push_str("-A FORWARD -j MARK --set-xmark 0x0/0xffffffff\n");
    }
    for chain in 0..=chains {
        let name = if chain == 0 { String::from("FORWARD") } else { format!("chain-{}", chain - 1) };
        for number in 0..3 + draw.below(if chain == 0 { 14 } else { 6 }) {
            let conditions = conditions(draw, family, features);
            let mut target = target(draw, features, chain..chains, number);
            // Whether such a rule writes is unknown.
            if target.contains("MARK") && ["recent", "limit"].iter().any(|name| conditions.contains(name)) {
                target.clear();
            }
            let _ = writeln!(text, "-A {name}{conditions}{target}");
        }
    }
    text.push_str("COMMIT\n");
    text
}

/// Appends a table whose rules leave packets untracked.
fn untracking(draw: &mut Draw, family: Family, features: Features, text: &mut String) {
    let features = Features { state: false, output: false, writes: false, ..features }.convertible();
    text.push_str("*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:early - [0:0]\n");
    for chain in ["PREROUTING", "early"] {
        for _ in 0..=draw.below(3) {
            let mut conditions = conditions(draw, family, features);
            // Connection tracking puts fragments together.
            conditions = conditions.replace(" ! -f", "").replace(" -f", "");
            let target = match draw.below(10) {
                0 => "RETURN",
                1 | 2 => "ACCEPT",
                3 | 4 if chain == "PREROUTING" => "early",
                _ => "CT --notrack",
            };
            let _ = writeln!(text, "-A {chain}{conditions} -j {target}");
        }
    }
    text.push_str("COMMIT\n");
}

fn target(draw: &mut Draw, features: Features, later: std::ops::Range<usize>, number: usize) -> String {
    if !later.is_empty() && draw.percent(40) {
        let way = draw.pick(&["-j", "-j", "-j", "-g"]);
        return format!(" {way} chain-{}", later.start + draw.below(later.len()));
    }
    // In a chain that several rules lead to, a mark would depend on too much.
    if features.writes && later.start == 0 && draw.percent(20) {
        return String::from(draw.pick(&[
            " -j MARK --set-xmark 0x1/0xffffffff",
            " -j MARK --set-xmark 0x6/0x7",
            " -j MARK --or-mark 0x2",
            " -j MARK --and-mark 0x5",
            " -j MARK --xor-mark 0x1",
        ]));
    }
    if features.log && draw.percent(15) {
        return format!(" -j LOG --log-prefix \"rule {number}: \" --log-level 7");
    }
    if features.returns && draw.percent(20) {
        return String::from(" -j RETURN");
    }
    if features.no_target && draw.percent(15) {
        return String::new();
    }
    format!(" -j {}", draw.pick(&["ACCEPT", "ACCEPT", "ACCEPT", "DROP", "REJECT"]))
}

/// Expressions of the match u32: protocol, length, port behind the options, bytes past the end.
const WORDS: [&str; 10] = [
    "6&0xFF=0x6,0x11",
    "0&0xFFFF=0:60",
    "8>>24=0:0x40",
    "8>>24=0x3F,0xC7",
    "8&0xFFFF=0:0x7FFF",
    "0>>22&0x3C@0&0xFFFF=0:1023",
    "0>>22&0x3C@0>>16=53,80:443 && 6&0xFF=17",
    "16&0xFF=0:0x7F",
    "60=0:0xFFFFFFFF",
    "0>>22&0x3C@12>>26&0x3C@0=0:0xFFFFFFFF",
];

/// Texts of the match string.
const TEXTS: [&str; 5] = [
    "--hex-string \"|0050|\"", "--hex-string \"|0a00|\"", "--hex-string \"|3f|\"", "--string \"E\"",
    "--string \"aa\"",
];

fn conditions(draw: &mut Draw, family: Family, features: Features) -> String {
    let mut text = String::new();
    let not = |draw: &mut Draw| if features.negation && draw.percent(25) { " !" } else { "" };
    for option in ["-s", "-d"] {
        if draw.percent(30) {
            let not = not(draw);
            let _ = write!(text, "{not} {option} {}", family.prefix(draw));
        }
    }
    if features.input && draw.percent(40) {
        let not = not(draw);
        let _ = write!(text, "{not} -i {}", draw.pick(&["in0", "in0", "in+", "eth9", "out0"]));
    }
    if features.output && draw.percent(30) {
        let not = not(draw);
        let _ = write!(text, "{not} -o {}", draw.pick(&["out0", "out0", "out+", "eth9"]));
    }
    if draw.percent(65) {
        protocol(draw, family, features, &mut text);
    }
    if features.state && draw.percent(35) {
        let states =
            ["NEW", "ESTABLISHED", "RELATED,ESTABLISHED", "INVALID", "NEW,ESTABLISHED", "UNTRACKED"];
        let states = draw.pick(&states);
        let not = not(draw);
        let old = not.is_empty() && !states.contains("UNTRACKED") && draw.percent(40);
        if old {
            let _ = write!(text, " -m state --state {states}");
        } else {
            let _ = write!(text, " -m conntrack{not} --ctstate {states}");
        }
    }
    if features.limit && draw.percent(12) {
        // A limit that ends is unknown, and so is each state after it.
        let ends = !features.state && draw.percent(50);
        let limit = if ends { "1/hour --limit-burst 3" } else { "10000/sec --limit-burst 10000" };
        let _ = write!(text, " -m limit --limit {limit}");
    }
    if features.sets && draw.percent(25) {
        text.push_str(&ipset_file::condition(draw));
    }
    if features.recent && draw.percent(12) {
        text.push_str(" -m recent --set --name seen --rsource");
    }
    if draw.percent(6) {
        let not = not(draw);
        let _ = write!(text, " -m iprange{not} --src-range {}", family.range(draw));
    }
    if draw.percent(4) {
        let not = not(draw);
        let _ = write!(text, " -m dscp{not} --dscp {}", draw.pick(&["0x00", "0x2e", "0x0a"]));
    }
    if draw.percent(4) {
        let not = not(draw);
        let _ = write!(
            text,
            " -m mac{not} --mac-source {}",
            draw.pick(&[super::hosts::SENDER_MAC, "02:00:00:00:00:77"])
        );
    }
    if features.writes && draw.percent(30) {
        let not = not(draw);
        let _ = write!(text, " -m mark{not} --mark {}", draw.pick(&["0x1", "0x2/0x2", "0x0", "0x5/0x7"]));
    }
    if draw.percent(6) {
        let name = if family == Family::V4 { "ttl" } else { "hl" };
        let order = draw.pick(&["eq", "lt", "gt"]);
        let _ = write!(text, " -m {name} --{name}-{order} {}", draw.pick(&[4, 5, 63, 199]));
    }
    if draw.percent(4) {
        let _ = write!(text, " -m tos --tos {}", draw.pick(&["0xb8/0xff", "0x28/0x3f", "0x08/0x08"]));
    }
    if draw.percent(4) {
        let not = not(draw);
        let _ = write!(text, " -m length{not} --length {}", draw.pick(&["0:60", "61:90", "48"]));
    }
    if draw.percent(7) {
        let not = not(draw);
        let _ = write!(text, " -m u32{not} --u32 \"{}\"", draw.pick(&WORDS));
    }
    if draw.percent(6) {
        let not = not(draw);
        let place = draw.pick(&["", " --from 2", " --to 24", " --from 18 --to 23", " --icase"]);
        let _ = write!(text, " -m string{not} {} --algo bm{place}", draw.pick(&TEXTS));
    }
    if draw.percent(10) {
        text.push_str(
            draw.pick(&[" -m comment --comment web", " -m comment --comment \"it's \\\"web\\\" -j DROP\""]),
        );
    }
    if family == Family::V4 && !features.state && draw.percent(12) {
        text.push_str(draw.pick(&[" -f", " ! -f"]));
    }
    text
}

fn protocol(draw: &mut Draw, family: Family, features: Features, text: &mut String) {
    let icmp = family.icmp_name();
    let name = if features.icmp && draw.percent(25) {
        icmp
    } else {
        draw.pick(&["tcp", "tcp", "tcp", "udp", "udp", "sctp", "udplite", "dccp", "ah", "esp", icmp, "all"])
    };
    let not = |draw: &mut Draw| if features.negation && draw.percent(20) { " !" } else { "" };
    if features.negation && draw.percent(15) && name != "all" {
        let _ = write!(text, " ! -p {name}");
        return;
    }
    let _ = write!(text, " -p {name}");
    if name == icmp {
        if features.icmp && draw.percent(70) {
            let option = if family == Family::V4 { "--icmp-type" } else { "--icmpv6-type" };
            let not = not(draw);
            let _ = write!(text, " -m {icmp}{not} {option} {}", draw.pick(family.icmp_types()));
        }
        return;
    }
    if matches!(name, "all" | "ah" | "esp") {
        return;
    }
    if name != "udplite" && draw.percent(60) {
        let not = not(draw);
        let option = draw.pick(&["--dport", "--dport", "--sport"]);
        let _ = write!(text, " -m {name}{not} {option} {}", port_range(draw));
    } else if draw.percent(50) {
        let not = not(draw);
        let option = draw.pick(&["--dports", "--dports", "--sports", "--ports"]);
        let ports: Vec<String> = (0..=draw.below(4)).map(|_| port_range(draw)).collect();
        let _ = write!(text, " -m multiport{not} {option} {}", ports.join(","));
    }
    if name == "tcp" && features.flags && draw.percent(50) {
        let flags = [
            "--syn", "--tcp-flags SYN,ACK SYN", "--tcp-flags ALL NONE", "--tcp-flags FIN,RST RST",
            "--tcp-flags ACK ACK",
        ];
        let not = draw.text(30, " !");
        let _ = write!(text, "{not} {}", draw.pick(&flags));
    }
}

fn port_range(draw: &mut Draw) -> String {
    let port = draw.pick(&PORTS);
    match draw.below(5) {
        0 => format!("{port}:{}", port + 1000),
        1 => format!("{port}:65535"),
        _ => port.to_string(),
    }
}
