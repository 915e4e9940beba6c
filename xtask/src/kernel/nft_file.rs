//! Random scripts of nft: sets, intervals, concatenations, verdict maps, chains.

use std::fmt::Write as _;

use super::draw::Draw;
use super::hosts::{Family, PORTS, SENDER_MAC};

/// Number of user chains in a script. Rules jump only to chains with higher numbers, so there are
/// no loops.
const CHAINS: usize = 3;

/// Returns a script whose chain `forward` decides packets. Every rule has a counter except those
/// with a verdict map: a counter before a map also counts packets that the map leaves undecided.
pub(super) fn text(draw: &mut Draw, asks_state: bool) -> String {
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
            rule(draw, asks_state, chain + 1..CHAINS, &mut text);
        }
        text.push_str("\t}\n");
    }
    let policy = draw.pick(&["accept", "drop"]);
    let _ = writeln!(
        text,
        "\tchain forward {{\n\t\ttype filter hook forward priority filter; policy {policy};"
    );
    for _ in 0..4 + draw.below(12) {
        rule(draw, asks_state, 0..CHAINS, &mut text);
    }
    text.push_str("\t}\n}\n");
    text
}

fn rule(draw: &mut Draw, asks_state: bool, later: std::ops::Range<usize>, text: &mut String) {
    let parts = conditions(draw, asks_state);
    let conditions = parts.join(" ");
    let verdict = verdict(draw, later.clone());
    if draw.percent(12) && !later.is_empty() {
        let chain = later.start + draw.below(later.len());
        let map = match draw.below(3) {
            0 => format!("meta l4proto vmap {{ tcp : jump c{chain}, udp : accept, sctp : drop }}"),
            1 => format!("tcp dport vmap {{ 22 : drop, 80-90 : goto c{chain}, 443 : accept }}"),
            _ => format!(
                "ip saddr . tcp dport vmap {{ 10.1.0.1 . 22 : drop, 10.1.0.0/29 . 25-80 : jump c{chain} }}"
            ),
        };
        let _ = writeln!(text, "\t\t{map}");
        return;
    }
    let _ = writeln!(text, "\t\t{conditions} counter {verdict}");
}

fn verdict(draw: &mut Draw, later: std::ops::Range<usize>) -> String {
    if !later.is_empty() && draw.percent(35) {
        let word = draw.pick(&["jump", "jump", "goto"]);
        return format!("{word} c{}", later.start + draw.below(later.len()));
    }
    String::from(draw.pick(&["accept", "accept", "drop", "reject", "return", ""]))
}

/// Returns comparisons that nft does not consider contradictory: at most one per header.
fn conditions(draw: &mut Draw, asks_state: bool) -> Vec<String> {
    let not = |draw: &mut Draw| draw.text(20, "!= ");
    let port = draw.pick(&PORTS);
    let mut parts = Vec::new();
    // 0 is IPv4, 1 is IPv6, and any other value means both.
    let family = draw.below(5);
    if draw.percent(12) {
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
        match draw.below(9) {
            0 => parts.push(format!("tcp dport {not}@web")),
            1 => parts.push(format!("tcp dport {not}{{ {port}, 10000-30000 }}")),
            2 => parts.push(format!("udp dport {not}{port}")),
            3 => parts.push(format!("meta l4proto {{ tcp, udp, sctp }} th dport {not}{port}")),
            4 => parts.push(String::from(draw.pick(&[
                "tcp flags & (fin | syn | rst | ack) == syn",
                "tcp flags syn",
                "tcp flags & (syn | ack) != syn",
            ]))),
            5 | 6 => parts.push(icmp),
            _ => {}
        }
    }
    let not = not(draw);
    match draw.below(if asks_state { 8 } else { 5 }) {
        0 => parts
            .push(format!("iifname {not}{}", draw.pick(&["\"in0\"", "\"in*\"", "{ \"eth9\", \"in0\" }"]))),
        1 => parts.push(format!("oifname {not}{}", draw.pick(&["\"out0\"", "\"eth9\""]))),
        2 => parts.push(format!("ether saddr {not}{}", draw.pick(&[SENDER_MAC, "02:00:00:00:00:77"]))),
        5 | 6 => parts.push(format!("ct state {not}{}", draw.pick(&["new", "established", "invalid"]))),
        7 => parts.push(String::from(
            draw.pick(&["ct state established,related", "ct state { new, untracked }"]),
        )),
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
