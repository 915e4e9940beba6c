//! Policies as a script for `nft -f`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::blocks::{Block, Step, blocks};
use super::expand::{Ports, expanded};
use super::{Unwritable, comments, hook, take_policy, target};
use crate::firewall::{
    Conditions, ConnectionState, Entry, Families, HeaderField, Outcome, Policy, Ranges, Test, TestKind,
};
use crate::firewall::{address_text, mac_text};
use crate::rule::Action;

/// Returns a script that creates the table `flowloom`, whose base chain decides as the policy does:
/// at the same hook, with the same priority and name, in a table of the same families.
///
/// # Errors
///
/// Returns [`Unwritable`] if a rule has a condition that nftables cannot express in these terms, or
/// has no action, or if no single base chain sees the packets of the policy.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, nft, toml};
/// use flowloom_rules::write;
/// let text = "[[rule]]\nprotocol = 'tcp'\ndestination_ports = [22, '80-90']\naction = 'accept'\n";
/// let policy = toml::load(text, LoadLimits::default())?;
/// let script = write::nft::write(&policy)?;
/// assert!(script.contains("meta l4proto 6 th dport { 22, 80-90 } accept"), "{script}");
/// assert_eq!(nft::load(&script, &nft::Options::default())?.hooks()[0].name, "input");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(policy: &Policy) -> Result<String, Unwritable> {
    let hook = hook(policy)?;
    let mut entries = expanded(policy, Ports::Apart)?;
    let default = take_policy(policy, &mut entries, Families::BOTH);
    // A kernel that tracks connections reassembles fragments; others read ports from their payload.
    let asks_state = |test: &Test| matches!(test.kind, TestKind::State(_));
    let is_tracked = entries.iter().any(|entry| entry.conditions.tests.iter().any(asks_state));
    let is_apart = !is_tracked && !policy.reads_later() && entries.iter().any(names_transport);
    let later = if is_apart { without(&entries, names_transport) } else { Vec::new() };
    let later = if is_apart { blocks(policy, &later)? } else { Vec::new() };
    if is_apart {
        // Drops of fragments stand in the other chain only, so that this entry cannot match here.
        let is_later = |entry: &Entry| entry.conditions.tests.contains(&TestKind::Fragment(8).into());
        entries = without(&entries, is_later);
    }
    let all = blocks(policy, &entries)?;
    let is_only = |families| {
        let mut all = policy.entries();
        all.all(|entry| entry.conditions.families == families) && !policy.is_empty()
    };
    let family = match () {
        () if is_only(Families::V4) => "ip",
        () if is_only(Families::V6) => "ip6",
        () => "inet",
    };
    let mut text = format!(
        "#!/usr/sbin/nft -f\n{comments}\ntable {family} flowloom\ndelete table {family} flowloom\n\n\
         table {family} flowloom {{\n",
        comments = comments(policy)
    );
    let policy_word = if default == Action::Accept { "accept" } else { "drop" };
    // A chain is written before the chains that jump to it.
    for (index, block) in later.iter().enumerate().rev() {
        let _ = writeln!(text, "\tchain {LATER}{} {{", name("", index));
        text.push_str(&chain(policy, LATER, family, block)?);
    }
    for (index, block) in all.iter().enumerate().rev() {
        let _ = writeln!(text, "\tchain {} {{", name(&hook.chain, index));
        if index == 0 {
            let _ = writeln!(text, "\t\t{hook}; policy {policy_word};");
            if is_apart && family != "ip6" {
                let _ = writeln!(text, "\t\tip frag-off & 0x1fff != 0 goto {LATER}");
            }
            if is_apart && family != "ip" {
                let _ = writeln!(text, "\t\tfrag frag-off != 0 goto {LATER}");
            }
        }
        text.push_str(&chain(policy, &hook.chain, family, block)?);
    }
    text.push_str("}\n");
    Ok(text)
}

/// The chain for later fragments, which have no ports.
const LATER: &str = "later";

/// Returns the name of a block: the first one has that of its chain.
fn name(first: &str, index: usize) -> String {
    match (first, index) {
        (first, 0) => String::from(first),
        (LATER, index) => format!("{LATER}part{index}"),
        (_, index) => format!("part{index}"),
    }
}

fn names_transport(entry: &Entry) -> bool {
    entry.conditions.names_transport()
}

/// Returns the entries but some; what leads to one of these leads to the next one.
fn without(entries: &[Entry], is_out: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let mut places = Vec::with_capacity(entries.len() + 1);
    let mut next = 0;
    for entry in entries {
        places.push(next);
        next += u32::from(!is_out(entry));
    }
    places.push(next);
    let mut kept: Vec<Entry> = entries.iter().filter(|entry| !is_out(entry)).cloned().collect();
    for entry in &mut kept {
        if let Outcome::Skip { to } = &mut entry.outcome {
            *to = places[*to as usize];
        }
    }
    kept
}

fn chain(policy: &Policy, first: &str, family: &str, block: &Block<'_>) -> Result<String, Unwritable> {
    let mut text = String::new();
    for step in &block.steps {
        let (conditions, what, source) = match step {
            Step::Decide(entry, action, value) => {
                (Some(&entry.conditions), target(*action, *value, true), entry.source)
            }
            Step::Return(entry) => (Some(&entry.conditions), Ok(String::from("return")), entry.source),
            Step::Jump(block) => (None, Ok(format!("jump {}", name(first, *block))), 0),
            Step::Goto(entry, block) => (
                entry.map(|entry| &entry.conditions),
                Ok(format!("goto {}", name(first, *block))),
                entry.map_or(0, |entry| entry.source),
            ),
        };
        let line = policy.sources().get(source as usize).map_or(0, |source| source.line);
        let unwritable = |text: String| Unwritable { line, text };
        let asked = conditions
            .map_or(Ok(String::new()), |conditions| asks(conditions, family == "inet"))
            .map_err(unwritable)?;
        let what = what.map_err(unwritable)?;
        let _ = writeln!(text, "\t\t{asked}{what}");
    }
    text.push_str("\t}\n");
    Ok(text)
}

/// Returns the conditions as comparisons, each with a blank behind it.
fn asks(conditions: &Conditions, is_of_both: bool) -> Result<String, String> {
    let mut text = String::new();
    let is_v6 = conditions.families == Families::V6;
    let family = if is_v6 { "ip6" } else { "ip" };
    let mut says_family = false;
    for (side, field) in [("saddr", &conditions.source), ("daddr", &conditions.destination)] {
        if let Some(set) = field {
            says_family = true;
            let bits = if is_v6 { 128 } else { 32 };
            let parts = set.as_slice().iter().map(|&(low, high)| {
                let (first, last) = (address_text(low, is_v6), address_text(high, is_v6));
                match Ranges::new([(low, high)]).prefixes(bits)[..] {
                    [(_, length)] if length == bits => first,
                    [(_, length)] => format!("{first}/{length}"),
                    _ => format!("{first}-{last}"),
                }
            });
            let _ = write!(text, "{family} {side} {} ", braces(&parts.collect::<Vec<_>>()));
        }
    }
    if is_of_both && !says_family && conditions.families != Families::BOTH {
        text.push_str(if is_v6 { "meta nfproto ipv6 " } else { "meta nfproto ipv4 " });
    }
    if let Some(set) = &conditions.protocols {
        let _ = write!(text, "meta l4proto {} ", numbers(set));
    }
    if conditions.names_ports() {
        // `th` reads whatever lies there: only protocols with ports may come so far.
        let allowed = Ranges::new(crate::firewall::WITH_PORTS.map(|p| (u128::from(p), u128::from(p))));
        if !conditions.protocols.as_ref().is_some_and(|set| allowed.covers(set)) {
            let _ = write!(text, "meta l4proto {} ", numbers(&allowed));
        }
    }
    for (side, field) in [("sport", &conditions.source_ports), ("dport", &conditions.destination_ports)] {
        if let Some(set) = field {
            let _ = write!(text, "th {side} {} ", numbers(set));
        }
    }
    // nft takes a next header for the protocol of what stands behind it.
    let (last, tests): (Vec<&Test>, Vec<&Test>) = conditions
        .tests
        .iter()
        .partition(|test| matches!(test.kind, TestKind::Number(HeaderField::NextHeader, _)));
    for test in tests.into_iter().chain(last) {
        text.push_str(&ask(test, conditions.families)?);
        text.push(' ');
    }
    Ok(text)
}

fn ask(test: &Test, families: Families) -> Result<String, String> {
    let family = if families == Families::V6 { "ip6" } else { "ip" };
    let not = if test.is_negated { "!= " } else { "" };
    Ok(match &test.kind {
        TestKind::TcpFlags { mask, value } => {
            let bits = |flags: u8| if flags == 0 { String::from("0x0") } else { format!("0x{flags:x}") };
            let op = if test.is_negated { "!=" } else { "==" };
            format!("tcp flags & {} {op} {}", bits(*mask), bits(*value))
        }
        TestKind::Icmp { is_v6, codes } => {
            let header = if *is_v6 { "icmpv6" } else { "icmp" };
            let mut parts = Vec::new();
            let mut has_codes = false;
            for &(low, high) in codes.as_slice() {
                for kind in low >> 8..=high >> 8 {
                    let (first, last) = (low.max(kind << 8) & 0xff, high.min(kind << 8 | 0xff) & 0xff);
                    has_codes |= (first, last) != (0, 0xff);
                    parts.push((kind, first, last));
                }
            }
            if has_codes {
                let texts = parts.iter().map(|(kind, first, last)| format!("{kind} . {first}-{last}"));
                format!("{header} type . {header} code {not}{{ {} }}", texts.collect::<Vec<_>>().join(", "))
            } else {
                format!(
                    "{header} type {not}{}",
                    braces(&parts.iter().map(|(kind, ..)| kind.to_string()).collect::<Vec<_>>())
                )
            }
        }
        // Parts that are not later fragments, where the kernel does not see these as such.
        TestKind::Fragment(parts) if families == Families::V4 => {
            let parts = if test.is_negated { 15 & !parts } else { *parts };
            let (mask, op, value) = match parts {
                12 => ("0x1fff", "!=", 0),
                3 => ("0x1fff", "==", 0),
                8 => ("0x1fff", "==", 1),
                7 => ("0x1fff", "!=", 1),
                14 => ("0x3fff", "!=", 0),
                1 => ("0x3fff", "==", 0),
                2 => ("0x3fff", "==", 0x2000),
                _ => return Err(format!("'{test}' has no counterpart here; write TOML")),
            };
            format!("ip frag-off & {mask} {op} {value}")
        }
        TestKind::State(states) => {
            let names = ConnectionState::ALL.iter().filter(|state| states & state.bit() != 0);
            let names: Vec<String> = names.map(|state| state.name().to_ascii_lowercase()).collect();
            format!("ct state {not}{}", braces(&names))
        }
        TestKind::Input(names) | TestKind::Output(names) => {
            let key = if matches!(test.kind, TestKind::Input(_)) { "iifname" } else { "oifname" };
            let name = |pattern: &crate::firewall::InterfacePattern| {
                format!("\"{}{}\"", pattern.name, if pattern.is_prefix { "*" } else { "" })
            };
            format!("{key} {not}{}", braces(&names.iter().map(name).collect::<Vec<_>>()))
        }
        TestKind::SourceMac { value, mask } if *mask == (1 << 48) - 1 => {
            format!("ether saddr {not}{}", mac_text(*value))
        }
        TestKind::Number(field, set) => {
            let name = match field {
                HeaderField::Vlan => "vlan id",
                HeaderField::Length => "meta length",
                HeaderField::NextHeader => "ip6 nexthdr",
                _ if families == Families::BOTH => {
                    return Err(format!("'{test}' is of both families; write TOML"));
                }
                HeaderField::Ttl if families == Families::V4 => "ip ttl",
                HeaderField::Ttl => "ip6 hoplimit",
                field => &format!("{family} {}", field.name()),
            };
            format!("{name} {not}{}", numbers(set))
        }
        TestKind::Mark { is_connection, mask, values } => {
            let key = if *is_connection { "ct" } else { "meta" };
            match (values.as_slice(), mask) {
                (_, &u32::MAX) => format!("{key} mark {not}{}", numbers(values)),
                ([(low, high)], _) if low == high => {
                    let op = if test.is_negated { "!=" } else { "==" };
                    format!("{key} mark & {mask:#x} {op} {low:#x}")
                }
                _ => return Err(format!("'{test}' has several values under a mask; write several rules")),
            }
        }
        TestKind::Contents(contents) if contents.in_nft(false).is_some() => {
            contents.in_nft(test.is_negated).unwrap_or_default()
        }
        TestKind::Address { is_destination, value, mask } => {
            let is_v6 = family == "ip6";
            let side = if *is_destination { "daddr" } else { "saddr" };
            let op = if test.is_negated { "!=" } else { "==" };
            format!("{family} {side} & {} {op} {}", address_text(*mask, is_v6), address_text(*value, is_v6))
        }
        _ => return Err(format!("'{test}' has no counterpart here; write TOML")),
    })
}

fn numbers(set: &Ranges) -> String {
    let text =
        |&(low, high): &(u128, u128)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    braces(&set.as_slice().iter().map(text).collect::<Vec<_>>())
}

fn braces(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        all => format!("{{ {} }}", all.join(", ")),
    }
}
