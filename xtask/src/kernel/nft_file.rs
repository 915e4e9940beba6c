//! Random scripts of nft: sets, intervals, concatenations, verdict maps, chains.

use std::fmt::Write as _;

use super::hosts::{Family, PORTS, SENDER_MAC};
use super::iptables_file::Features;
use crate::draw::Draw;

/// Number of user chains in a script. Rules jump only to chains with higher numbers, so there are
/// no loops.
const CHAINS: usize = 3;

/// What a script uses.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a file")]
struct Uses {
    state: bool,
    /// Rules write marks and fields of headers, and ask for them.
    writes: bool,
    /// Another base chain comes first.
    before: bool,
    /// Tables of one family have base chains too.
    families: bool,
    /// Commands change the ruleset after its tables.
    commands: bool,
    /// Rules leave packets untracked.
    notrack: bool,
}

/// Returns a script whose chain `forward` decides packets. Every rule has a counter except those
/// with a verdict map: a counter before a map also counts packets that the map leaves undecided.
pub(super) fn text(draw: &mut Draw, features: Features) -> String {
    let uses = Uses {
        state: features.state,
        writes: draw.percent(35),
        before: draw.percent(25),
        families: draw.percent(25),
        commands: draw.percent(35),
        notrack: features.state && draw.percent(30),
    };
    let mut text = String::from("table inet filter {\n");
    let v4: Vec<String> = (0..3).map(|_| Family::V4.range(draw)).collect();
    let mut v4: Vec<&String> = v4.iter().collect();
    v4.sort();
    v4.dedup();
    // Intervals of one set must not overlap.
    let first = v4[0];
    let _ = writeln!(
        text,
        "\tset near {{ type ipv4_addr; flags interval; elements = {{ {first}, 203.0.113.0/29 }} }}"
    );
    text.push_str("\tset web { type inet_service; elements = { 80, 443, 8080 } }\n");
    // A chain is declared before rules that jump to it.
    for chain in (0..CHAINS).rev() {
        let _ = writeln!(text, "\tchain c{chain} {{");
        for _ in 0..2 + draw.below(4) {
            rule(draw, uses, chain + 1..CHAINS, &mut text);
        }
        text.push_str("\t}\n");
    }
    if uses.before {
        let policy = draw.pick(&["accept", "accept", "drop"]);
        let priority = draw.pick(&["-10", "filter - 5", "mangle"]);
        let _ = writeln!(
            text,
            "\tchain {BEFORE} {{\n\t\ttype filter hook forward priority {priority}; policy {policy};"
        );
        for _ in 0..=draw.below(3) {
            // No rule has written the mark that these would ask for.
            let uses = Uses { writes: false, ..uses };
            let conditions = conditions(draw, uses).join(" ");
            let verdict = draw.pick(&["accept", "drop"]);
            // Packets that are accepted here go on, so no counter tells who decides.
            let counter = if verdict == "drop" { "counter " } else { "" };
            let name = name(&text);
            let _ = writeln!(text, "\t\t{conditions} {counter}{verdict} comment \"{name}\"");
        }
        text.push_str("\t}\n");
    }
    if uses.notrack {
        let priority = draw.pick(&["raw", "-250", "-299"]);
        let _ = writeln!(text, "\tchain early {{\n\t\ttype filter hook prerouting priority {priority};");
        for _ in 0..=draw.below(3) {
            let uses = Uses { state: false, writes: false, ..uses };
            let mut conditions = conditions(draw, uses);
            conditions.retain(|part| !part.contains("oifname"));
            let verdict = draw.pick(&["notrack", "notrack", "notrack", "accept", "return"]);
            let _ = writeln!(text, "\t\t{} {verdict}", conditions.join(" "));
        }
        text.push_str("\t}\n");
    }
    let policy = draw.pick(&["accept", "drop"]);
    let _ = writeln!(
        text,
        "\tchain forward {{\n\t\ttype filter hook forward priority filter; policy {policy};"
    );
    if uses.writes {
        // Without it, marks would depend on what came before.
        text.push_str("\t\tmeta mark set 0\n");
    }
    for _ in 0..4 + draw.below(12) {
        rule(draw, uses, 0..CHAINS, &mut text);
    }
    text.push_str("\t}\n}\n");
    if uses.families {
        one_family(draw, &mut text);
    }
    if uses.commands {
        text.push_str(COMMANDS);
        for _ in 0..2 + draw.below(4) {
            command(draw, uses, &mut text);
        }
    }
    text
}

/// Appends tables of one family, whose chains come before `forward`.
fn one_family(draw: &mut Draw, text: &mut String) {
    for family in draw.pick(&[&["ip"][..], &["ip6"], &["ip", "ip6"], &["ip6", "ip"]]) {
        let priority = draw.pick(&["-20", "-15", "-5"]);
        let policy = draw.pick(&["accept", "drop"]);
        let _ = writeln!(
            text,
            "table {family} {BEFORE}_{family} {{\n\tchain {BEFORE}_{family} {{\n\t\ttype filter hook forward priority {priority}; policy {policy};"
        );
        for verdict in ["accept", "drop", "accept"] {
            let port = draw.pick(&PORTS);
            let counter = if verdict == "drop" { "counter " } else { "" };
            let name = name(text);
            let _ = writeln!(text, "\t\ttcp dport {port} {counter}{verdict} comment \"{name}\"");
        }
        text.push_str("\t}\n}\n");
    }
}

/// The name of a base chain before `forward`.
const BEFORE: &str = "before";

/// The line before the commands of a script.
const COMMANDS: &str = "# Commands.\n";

/// Returns whether the lines of a script do not tell the chains of all rules, or whether rules that
/// accept do not decide.
pub(super) fn has_several_places(text: &str) -> bool {
    text.contains(COMMANDS) || text.contains(BEFORE)
}

/// Returns the name of the next rule, for its comment.
fn name(text: &str) -> String {
    format!("r{:03}", text.lines().count())
}

/// Appends a command that changes the ruleset.
fn command(draw: &mut Draw, uses: Uses, text: &mut String) {
    // A rule before all others would ask for a mark from before.
    let uses = Uses { writes: false, ..uses };
    let mut line = String::new();
    match draw.below(7) {
        0 => line.push_str("delete element inet filter web { 443 }\nadd element inet filter web { 443 }\n"),
        1 => line.push_str("add element inet filter web { 22, 25 }\n"),
        2 => line.push_str("table inet filter {\n\tset web { type inet_service; elements = { 53 } }\n}\n"),
        3 => {
            let _ = writeln!(line, "flush chain inet filter c{}", draw.below(CHAINS));
        }
        kind => {
            let conditions = conditions(draw, uses).join(" ");
            let verdict = draw.pick(&["accept", "drop"]);
            let (verb, place) = match kind {
                4 => ("insert", ""),
                5 => ("insert", " index 2"),
                _ => ("add", " index 1"),
            };
            let name = name(text);
            let _ = writeln!(
                line,
                "{verb} rule inet filter forward{place} {conditions} counter {verdict} comment \"{name}\""
            );
        }
    }
    text.push_str(&line);
}

fn rule(draw: &mut Draw, uses: Uses, later: std::ops::Range<usize>, text: &mut String) {
    // In a chain that several rules lead to, a mark would depend on too much.
    if uses.writes && later.start == 0 && draw.percent(20) {
        let parts = conditions(draw, uses);
        let write = draw.pick(&[
            "meta mark set 1",
            "meta mark set 2",
            "meta mark set meta mark or 0x4",
            "meta mark set meta mark and 0x1",
            "ip dscp set 46",
            "ip6 dscp set 10",
            "ip ttl set 9",
            "meta mark set 3 ct mark set meta mark",
            "notrack",
        ]);
        // nft refuses a rule of two families.
        let says_family = ["ip ", "ip6 ", "icmp", "ether type", "meta protocol", "nfproto", "exthdr"];
        let is_open = !says_family.iter().any(|word| parts.iter().any(|part| part.contains(word)));
        let write = if is_open || write.starts_with("meta") || write == "notrack" {
            write
        } else {
            "meta mark set 5"
        };
        // A state would make the kernel track connections.
        let write = if uses.state { write } else { write.trim_end_matches(" ct mark set meta mark") };
        let name = name(text);
        let _ = writeln!(text, "\t\t{} counter {write} comment \"{name}\"", parts.join(" "));
        return;
    }
    let parts = conditions(draw, uses);
    let conditions = parts.join(" ");
    let verdict = verdict(draw, later.clone());
    if draw.percent(18) && !later.is_empty() {
        let chain = later.start + draw.below(later.len());
        let rest = draw.pick(&["accept", "drop", "continue", "return"]);
        let map = match draw.below(6) {
            0 => format!("meta l4proto vmap {{ tcp : jump c{chain}, udp : accept, sctp : drop }}"),
            1 => format!("tcp dport vmap {{ 22 : drop, 80-90 : goto c{chain}, 443 : accept }}"),
            2 => format!("tcp dport vmap {{ 22 : continue, 80 : jump c{chain}, * : {rest} }}"),
            3 => format!("meta l4proto vmap {{ tcp : return, udp : goto c{chain}, * : {rest} }}"),
            4 => {
                format!("ip daddr vmap {{ 192.0.2.1 : continue, 10.1.0.0/29 : jump c{chain}, * : {rest} }}")
            }
            _ => format!(
                "ip saddr . tcp dport vmap {{ 10.1.0.1 . 22 : drop, 10.1.0.0/29 . 25-80 : jump c{chain} }}"
            ),
        };
        let rest = draw.pick(&["", "", " accept", " tcp dport 22 drop"]);
        let _ = writeln!(text, "\t\t{map}{rest}");
        return;
    }
    let name = name(text);
    let _ = writeln!(text, "\t\t{conditions} counter {verdict} comment \"{name}\"");
}

/// Expressions on bits of a packet, some of which lie behind its end.
const RAW: [&str; 18] = [
    "@nh,72,8 { 6, 17 }",
    "@nh,64,8 < 64",
    "@nh,64,8 != 64",
    "@nh,8,6 46",
    "@nh,4,4 5",
    "@nh,16,16 < 60",
    "@nh,96,32 0xa010001-0xa010003",
    "@nh,99,13 >= 0x200",
    "@nh,64,128 != 0x20010db8000000010000000000000001",
    "@nh,400,16 != 0x7878",
    "@th,16,16 { 22, 53, 80-443 }",
    "@th,0,16 != 53",
    "@th,106,6 2",
    "@th,107,1 1",
    "@th,160,8 0x78",
    "@th,1,7 > 0",
    "@ll,48,48 0x20000000002",
    // nft joins two adjacent comparisons by `!=` to one, so the type is only asked for.
    "@ll,96,16 0x800",
];

/// Returns a comparison by order, by number or of the fixed header, for a family.
fn number(draw: &mut Draw, family: usize, uses: Uses) -> String {
    let order = draw.pick(&["<", "<=", ">", ">=", "!=", ""]);
    if uses.writes && draw.percent(50) {
        return String::from(draw.pick(&[
            "meta mark 1", "meta mark != 2", "meta mark & 0x4 == 0x4", "meta mark & 0x3 != 0x1",
            "meta mark { 1, 3 }", "ip dscp 46", "ip6 dscp != 10", "ip ttl 9",
        ]));
    }
    let host = 1 + draw.below(5);
    match (family, draw.below(6)) {
        (0, 0) => format!("ip saddr {order} 10.1.0.{host}"),
        (0, 1) => format!("ip daddr {order} 192.0.2.{host}"),
        (0, 2) => format!("ip ttl {order} {}", draw.pick(&[4, 5, 63, 64])),
        (0, 3) => format!("ip dscp {order} {}", draw.pick(&[10, 46])),
        (0, 4) => format!("ip length {order} {}", draw.pick(&[48, 60])),
        (0, _) => format!("ip protocol {order} {}", draw.pick(&["tcp", "udp", "ah", "esp"])),
        (1, 0) => format!("ip6 saddr {order} 2001:db8:1::{host}"),
        (1, 1) => {
            format!("ip6 nexthdr {}", draw.pick(&["tcp", "udp", "0", "!= 60", "{ 17, 43, 58 }", ">= 44"]))
        }
        (1, 2) => format!("ip6 hoplimit {order} {}", draw.pick(&[4, 5, 63, 64])),
        (1, 3) => String::from(draw.pick(&["exthdr frag exists", "exthdr frag missing"])),
        (_, 0) => format!("tcp dport {order} {}", draw.pick(&PORTS)),
        (_, 1) => format!("meta l4proto {order} {}", draw.pick(&["tcp", "udp", "50", "132"])),
        (_, 2) => format!("meta length {order} {}", draw.pick(&[48, 60, 80])),
        (_, 3) => String::from(draw.pick(&["ether type 0x800", "ether type ip6", "meta protocol 2048"])),
        (_, 4) => String::from(draw.pick(&["meta protocol { ip, 0x86dd }", "meta protocol != 34525"])),
        _ => String::from(draw.pick(&["meta nfproto ipv4", "meta nfproto 10", "meta protocol arp"])),
    }
}

fn verdict(draw: &mut Draw, later: std::ops::Range<usize>) -> String {
    if !later.is_empty() && draw.percent(35) {
        let word = draw.pick(&["jump", "jump", "goto"]);
        return format!("{word} c{}", later.start + draw.below(later.len()));
    }
    String::from(draw.pick(&["accept", "accept", "drop", "reject", "return", ""]))
}

/// Returns comparisons that nft does not consider contradictory: at most one per header.
fn conditions(draw: &mut Draw, uses: Uses) -> Vec<String> {
    let not = |draw: &mut Draw| draw.text(20, "!= ");
    let port = draw.pick(&PORTS);
    let mut parts = Vec::new();
    // 0 is IPv4, 1 is IPv6, and any other value means both.
    let family = draw.below(5);
    if draw.percent(8) {
        // The network header is unknown where rules write it.
        parts.push(String::from(draw.pick(if uses.writes { &RAW[10..] } else { &RAW })));
    } else if draw.percent(30) {
        parts.push(number(draw, family, uses));
    } else if draw.percent(12) {
        let not = not(draw);
        parts.push(format!(
            "ip saddr . tcp dport {not}{{ 10.1.0.0/29 . {port}, 192.0.2.1-192.0.2.4 . 1-1024 }}"
        ));
    } else {
        let not_network = not(draw);
        match (family, draw.below(3)) {
            (0, 0) => parts.push(format!("ip saddr {not_network}{}", v4_prefix(draw))),
            (0, 1) => parts.push(format!("ip daddr {not_network}{{ 10.1.0.0/29, 192.0.2.5 }}")),
            (0, _) => parts.push(format!("ip saddr {not_network}@near")),
            (1, _) => parts.push(format!("ip6 saddr {not_network}2001:db8:{}::/48", draw.below(3))),
            _ => {}
        }
        let not = not(draw);
        let icmp = match family {
            0 => format!("icmp type {not}{}", draw.pick(&["echo-request", "{ echo-reply, 3 }"])),
            1 => format!("icmpv6 type {not}{}", draw.pick(&["echo-request", "{ 1, 2, 129 }"])),
            _ => format!("meta l4proto {not}{{ tcp, udp, icmp }}"),
        };
        match draw.below(10) {
            7 if family > 1 => parts.push(format!("th {}port {not}{port}", draw.pick(&["s", "d"]))),
            0 => parts.push(format!("tcp dport {not}@web")),
            1 => parts.push(format!("tcp dport {not}{{ {port}, 10000-30000 }}")),
            2 => parts.push(format!("udp dport {not}{port}")),
            3 => parts.push(format!("meta l4proto {{ tcp, udp, sctp }} th dport {not}{port}")),
            4 => parts.push(String::from(draw.pick(&[
                "tcp flags & (fin | syn | rst | ack) == syn",
                "tcp flags syn",
                "tcp flags & (syn | ack) != syn",
                "tcp flags { syn | ack, fin }",
                "tcp flags { syn }",
                "tcp flags ! fin,rst",
                "tcp flags != { syn, fin | ack }",
                "tcp flags & (syn | ack) == { syn, ack }",
            ]))),
            5 | 6 => parts.push(icmp),
            _ => {}
        }
    }
    let not = not(draw);
    match draw.below(if uses.state { 8 } else { 5 }) {
        0 => parts
            .push(format!("iifname {not}{}", draw.pick(&["\"in0\"", "\"in*\"", "{ \"eth9\", \"in0\" }"]))),
        1 => parts.push(format!("oifname {not}{}", draw.pick(&["\"out0\"", "\"eth9\""]))),
        2 => parts.push(format!("ether saddr {not}{}", draw.pick(&[SENDER_MAC, "02:00:00:00:00:77"]))),
        5 | 6 => parts.push(format!("ct state {not}{}", draw.pick(&["new", "established", "invalid"]))),
        7 => parts.push(String::from(draw.pick(&[
            "ct state established,related", "ct state { new, untracked }", "ct state == new,established",
            "ct state != new,established",
        ]))),
        _ => {}
    }
    parts
}

fn v4_prefix(draw: &mut Draw) -> String {
    // nft interprets masks differently from iptables.
    loop {
        let prefix = Family::V4.prefix(draw);
        if !prefix.contains("/0.") {
            return prefix;
        }
    }
}
