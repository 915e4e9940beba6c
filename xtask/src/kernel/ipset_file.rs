//! Random sets for rules of iptables, in the format of `ipset save`.

use std::fmt::Write as _;

use super::hosts::{Family, PORTS};
use crate::draw::Draw;

/// Returns sets of networks, with exceptions, of ports, of hosts with ports, and a list of sets.
pub(super) fn text(draw: &mut Draw, family: Family) -> String {
    let name = if family == Family::V4 { "inet" } else { "inet6" };
    let mut text = format!("create nets hash:net family {name} hashsize 64 maxelem 100\n");
    let host = |draw: &mut Draw| {
        let (network, host) = (draw.below(3), 1 + draw.below(6));
        match family {
            Family::V4 => format!("{}.{host}", ["10.1.0", "192.0.2", "203.0.113"][network]),
            Family::V6 => format!("2001:db8:{network}::{host}"),
        }
    };
    let wide = if family == Family::V4 { "10.1.0.0/24" } else { "2001:db8::/48" };
    let _ = writeln!(text, "add nets {wide}");
    for _ in 0..=draw.below(3) {
        let except = draw.text(60, " nomatch");
        let _ = writeln!(text, "add nets {}{except}", host(draw));
    }
    text.push_str("create services bitmap:port range 0-65535\n");
    for _ in 0..2 + draw.below(3) {
        let port = draw.pick(&PORTS);
        let _ = writeln!(text, "add services {port}-{}", port + draw.pick(&[0, 0, 100]));
    }
    let _ = writeln!(text, "create pairs hash:ip,port family {name} hashsize 64 maxelem 100");
    for _ in 0..2 + draw.below(4) {
        let protocol = draw.pick(&["tcp", "udp", "sctp"]);
        let _ = writeln!(text, "add pairs {},{protocol}:{}", host(draw), draw.pick(&PORTS));
    }
    let _ = writeln!(text, "create hosts hash:ip family {name} hashsize 64 maxelem 100");
    for _ in 0..2 + draw.below(4) {
        let _ = writeln!(text, "add hosts {}", host(draw));
    }
    text.push_str("create all list:set size 8\nadd all nets\nadd all hosts\n");
    text
}

/// Returns a condition of a rule.
pub(super) fn condition(draw: &mut Draw) -> String {
    let not = draw.text(25, "! ");
    let set = draw.pick(&[
        "nets src", "nets dst", "services dst", "pairs dst,dst", "pairs src,dst", "pairs src,src",
        "hosts src", "hosts dst", "all src", "all dst",
    ]);
    format!(" -m set {not}--match-set {set}")
}
