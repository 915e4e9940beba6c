//! Policies as a script for `nft -f`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::Unwritable;
use super::blocks::{Block, Step, blocks};
use super::expand::expanded;
use crate::firewall::{Conditions, ConnectionState, Families, Policy, Ranges, Test, TestKind};
use crate::firewall::{address_text, mac_text};
use crate::rule::Action;

/// Returns a script that creates the table `inet flowloom`, whose chain `input` decides as the
/// policy does.
///
/// # Errors
///
/// Returns [`Unwritable`] if a rule has a condition that nftables cannot express in these terms, or
/// has no action.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::load::{LoadLimits, nft, toml};
/// use flowloom_classifier::write;
/// let text = "[[rule]]\nprotocol = 'tcp'\ndestination_ports = [22, '80-90']\naction = 'accept'\n";
/// let policy = toml::load(text, LoadLimits::default())?;
/// let script = write::nft::write(&policy)?;
/// assert!(script.contains("meta l4proto 6 th dport { 22, 80-90 } accept"), "{script}");
/// assert_eq!(nft::load(&script, &nft::Options::default())?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(policy: &Policy) -> Result<String, Unwritable> {
    let entries = expanded(policy)?;
    let all = blocks(policy, &entries)?;
    let mut text = String::from(
        "#!/usr/sbin/nft -f\n\ntable inet flowloom\ndelete table inet flowloom\n\ntable inet flowloom {\n",
    );
    // A chain is written before the chains that jump to it.
    for (index, block) in all.iter().enumerate().rev() {
        text.push_str(&chain(policy, index, block)?);
    }
    text.push_str("}\n");
    Ok(text)
}

fn name(index: usize) -> String {
    if index == 0 { String::from("input") } else { format!("part{index}") }
}

fn chain(policy: &Policy, index: usize, block: &Block<'_>) -> Result<String, Unwritable> {
    let mut text = format!("\tchain {} {{\n", name(index));
    if index == 0 {
        // What no rule decides goes on, as without a firewall.
        text.push_str("\t\ttype filter hook input priority filter; policy accept;\n");
    }
    for step in &block.steps {
        let (conditions, what, source) = match step {
            Step::Decide(entry, action, value) => {
                let verdict = match (action, value) {
                    (Action::Accept, _) => "accept",
                    (Action::Deny, 2) => "reject",
                    (Action::Deny, _) => "drop",
                };
                (Some(&entry.conditions), String::from(verdict), entry.source)
            }
            Step::Return(entry) => (Some(&entry.conditions), String::from("return"), entry.source),
            Step::Jump(block) => (None, format!("jump {}", name(*block)), 0),
        };
        let line = policy.sources().get(source as usize).map_or(0, |source| source.line);
        let unwritable = |text: String| Unwritable { line, text };
        let asked =
            conditions.map_or(Ok(String::new()), |conditions| asks(conditions)).map_err(unwritable)?;
        let _ = writeln!(text, "\t\t{asked}{what}");
    }
    text.push_str("\t}\n");
    Ok(text)
}

/// Returns the conditions as comparisons, each with a blank behind it.
fn asks(conditions: &Conditions) -> Result<String, String> {
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
                match Ranges::of([(low, high)]).prefixes(bits)[..] {
                    [(_, length)] if length == bits => first,
                    [(_, length)] => format!("{first}/{length}"),
                    _ => format!("{first}-{last}"),
                }
            });
            let _ = write!(text, "{family} {side} {} ", braces(&parts.collect::<Vec<_>>()));
        }
    }
    if !says_family && conditions.families != Families::BOTH {
        text.push_str(if is_v6 { "meta nfproto ipv6 " } else { "meta nfproto ipv4 " });
    }
    if let Some(set) = &conditions.protocols {
        let _ = write!(text, "meta l4proto {} ", numbers(set));
    }
    let names_ports = conditions.names_ports()
        || conditions.tests.iter().any(|test| matches!(test.kind, TestKind::EitherPort(_)));
    if names_ports {
        // `th` reads whatever lies there: only protocols with ports may come so far.
        let allowed = Ranges::of(crate::firewall::WITH_PORTS.map(|p| (u128::from(p), u128::from(p))));
        if !conditions.protocols.as_ref().is_some_and(|set| allowed.covers(set)) {
            let _ = write!(text, "meta l4proto {} ", numbers(&allowed));
        }
    }
    for (side, field) in [("sport", &conditions.source_ports), ("dport", &conditions.destination_ports)] {
        if let Some(set) = field {
            let _ = write!(text, "th {side} {} ", numbers(set));
        }
    }
    for test in &conditions.tests {
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
        TestKind::Fragment(4) if families == Families::V4 => {
            let op = if test.is_negated { "==" } else { "!=" };
            format!("ip frag-off & 0x1fff {op} 0")
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
        TestKind::Vlan(set) => format!("vlan id {not}{}", numbers(set)),
        TestKind::Dscp(set) if families != Families::BOTH => format!("{family} dscp {not}{}", numbers(set)),
        TestKind::Length(set) => format!("meta length {not}{}", numbers(set)),
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
