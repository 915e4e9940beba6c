//! Policies as TOML, which says everything that they say.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::Unwritable;
use super::expand::{Ports, expanded, one_test_a_field};
use crate::firewall::{
    Conditions, ConnectionState, Entry, Families, Outcome, Policy, Ranges, Test, TestKind,
};
use crate::firewall::{address_text, flags_text, mac_text, protocol_name};
use crate::rule::RuleId;

/// Returns the text of a policy, which [`crate::load::toml::load`] reads.
///
/// # Errors
///
/// Returns [`Unwritable`] where alternatives make too many rules.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, iptables, toml};
/// use flowloom_rules::write;
/// let text = "*filter\n:INPUT DROP [0:0]\n\
///             -A INPUT -p tcp -m tcp --syn -m state --state NEW -i eth+ -j ACCEPT\nCOMMIT\n";
/// let policy = iptables::load(text, &iptables::Options::default())?;
/// let written = write::toml::write(&policy)?;
/// assert!(written.contains("tcp_flags = \"SYN/FIN,SYN,RST,ACK\""), "{written}");
/// let again = toml::load(&written, LoadLimits::default())?;
/// assert_eq!(write::toml::write(&again)?, written);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(policy: &Policy) -> Result<String, Unwritable> {
    super::check_tracking(policy)?;
    let entries = expanded(policy, Ports::Either)?;
    let entries = one_test_a_field(&entries, |_| Vec::new(), key, |_| Vec::new());
    let mut text = String::new();
    let mut line = |args: core::fmt::Arguments<'_>| {
        let written = text.write_fmt(args).and_then(|()| text.write_char('\n'));
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    };
    line(format_args!("rules = {}", entries.len()));
    let hooks = policy.hooks().iter().map(|hook| {
        let [kind, name, chain] = [&hook.kind, &hook.name, &hook.chain].map(|text| quoted(text));
        format!("{{ kind = {kind}, name = {name}, priority = {}, chain = {chain} }}", hook.priority)
    });
    if !policy.hooks().is_empty() {
        line(format_args!("hooks = [{}]", hooks.collect::<Vec<_>>().join(", ")));
    }
    if policy.reads_later() {
        line(format_args!("reads_later_fragments = true"));
    }
    let is_v6 = |entry: &Entry| entry.conditions.families.v6;
    if policy.stops_at_authentication() && entries.iter().any(is_v6) {
        line(format_args!("stops_at_authentication = true"));
    }
    let is_silent = |entry: &Entry| matches!(entry.outcome, Outcome::Decide { action: None, .. });
    if entries.iter().any(is_silent) {
        line(format_args!("default_action = \"none\""));
    }
    for (index, entry) in entries.iter().enumerate() {
        line(format_args!("\n[[rule]]"));
        for (name, value) in fields(&entry.conditions) {
            line(format_args!("{name} = {value}"));
        }
        // Of a plain list, priorities are the file's; rules are written in the order of matching
        // all the same.
        if policy.is_plain()
            && let Some(rule) = policy.set().get(RuleId(index as u32)).filter(|rule| rule.priority != 0)
        {
            line(format_args!("priority = {}", rule.priority));
        }
        match entry.outcome {
            Outcome::Decide { action, value } => {
                line(format_args!("value = {value}"));
                if let Some(action) = action {
                    line(format_args!("action = \"{action}\""));
                }
            }
            Outcome::Skip { to } => {
                line(format_args!("action = \"skip\"\nskip = {}", to as usize - index - 1));
            }
        }
    }
    Ok(text)
}

/// Returns the field that a test is written in, where a rule has one value of it.
fn key(test: &Test) -> Option<&'static str> {
    match &test.kind {
        TestKind::Address { is_destination: false, .. } => Some("source_mask"),
        TestKind::Address { is_destination: true, .. } => Some("destination_mask"),
        _ => field(test).map(|(name, _)| name),
    }
}

/// Returns the fields of conditions that restrict packets.
fn fields(conditions: &Conditions) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    let is_v6 = conditions.families == Families::V6;
    let addresses = |set: &Ranges| {
        let bits = if is_v6 { 128 } else { 32 };
        let texts = set.as_slice().iter().map(|&(low, high)| {
            let (first, last) = (address_text(low, is_v6), address_text(high, is_v6));
            match Ranges::new([(low, high)]).prefixes(bits)[..] {
                [(_, length)] => format!("{first}/{length}"),
                _ => format!("{first}-{last}"),
            }
        });
        list(&texts.collect::<Vec<_>>())
    };
    let mut says_family = false;
    for (name, field) in [("source", &conditions.source), ("destination", &conditions.destination)] {
        if let Some(set) = field {
            says_family = true;
            fields.push((name, addresses(set)));
        }
    }
    for test in &conditions.tests {
        if let TestKind::Address { is_destination, value, mask } = &test.kind {
            says_family = true;
            let name = if *is_destination { "destination_mask" } else { "source_mask" };
            let text = format!("{}/{}", address_text(*value, is_v6), address_text(*mask, is_v6));
            fields.push((name, quoted(&negated(test, text))));
        }
    }
    if !says_family && conditions.families != Families::BOTH {
        fields.push(("family", quoted(if is_v6 { "ipv6" } else { "ipv4" })));
    }
    for (name, field) in
        [("source_ports", &conditions.source_ports), ("destination_ports", &conditions.destination_ports)]
    {
        if let Some(set) = field {
            fields.push((name, list(&numbers(set))));
        }
    }
    if let Some(set) = &conditions.protocols {
        let mut names = Vec::new();
        for (value, length) in set.prefixes(8) {
            names.push(if length == 8 {
                protocol_name(value as u8)
            } else {
                format!("0x{value:02x}/0x{:02x}", 0xff_u8.checked_shl(8 - length).unwrap_or(0))
            });
        }
        fields.push(("protocol", list(&names)));
    }
    let mut unknowable = Vec::new();
    let (mut flags, mut contents) = (Vec::new(), Vec::new());
    for test in &conditions.tests {
        match &test.kind {
            TestKind::TcpFlags { mask, value } => {
                flags.push(negated(test, format!("{}/{}", flags_text(*value), flags_text(*mask))));
            }
            TestKind::Contents(one) => {
                let prefix = if one.is_of_datagram() { "datagram " } else { "" };
                contents.push(negated(test, format!("{prefix}{one}")));
            }
            TestKind::Unknowable(text) => unknowable.push(negated(test, text.clone())),
            TestKind::Mark { .. } => {
                let text = Test::from(test.kind.clone()).to_string();
                unknowable.push(negated(test, text.trim_matches(['[', ']']).to_owned()));
            }
            _ => fields.extend(field(test)),
        }
    }
    if !flags.is_empty() {
        fields.push(("tcp_flags", list(&flags)));
    }
    if !contents.is_empty() {
        fields.push(("contents", list(&contents)));
    }
    if !unknowable.is_empty() {
        fields.push(("may_match", list(&unknowable)));
    }
    fields
}

/// Returns the field of a test that has one of its own.
fn field(test: &Test) -> Option<(&'static str, String)> {
    let set = |set: &Ranges| marked(test, numbers(set));
    let bits = |bits: u8, names: &[(u8, String)]| {
        let named = names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name.clone());
        marked(test, named.collect())
    };
    Some(match &test.kind {
        TestKind::Column(column) => {
            ("flags", quoted(&format!("0x{:04x}/0x{:04x}", column.value, column.mask)))
        }
        TestKind::Icmp { is_v6, codes } => {
            let mut texts = Vec::new();
            for &(low, high) in codes.as_slice() {
                for kind in low >> 8..=high >> 8 {
                    let (first, last) = (low.max(kind << 8), high.min(kind << 8 | 0xff));
                    if first.trailing_zeros() >= 8 && last & 0xff == 0xff {
                        texts.push(kind.to_string());
                    } else {
                        texts.extend((first..=last).map(|code| format!("{kind}/{}", code & 0xff)));
                    }
                }
            }
            (if *is_v6 { "icmpv6_type" } else { "icmp_type" }, marked(test, texts))
        }
        TestKind::Fragment(parts) => {
            let later: &[(u8, &str)] =
                if parts & 0b1100 == 0b1100 { &[(12, "later")] } else { &[(8, "second"), (4, "further")] };
            let names = [(1, "whole"), (2, "first")].iter().chain(later);
            let names: Vec<(u8, String)> = names.map(|&(bit, name)| (bit, name.to_owned())).collect();
            ("fragment", bits(*parts, &names))
        }
        TestKind::State(states) => {
            let names = ConnectionState::ALL.map(|state| (state.bit(), state.name().to_ascii_lowercase()));
            ("state", bits(*states, &names))
        }
        TestKind::Input(names) => {
            ("in_interface", marked(test, names.iter().map(ToString::to_string).collect()))
        }
        TestKind::Output(names) => {
            ("out_interface", marked(test, names.iter().map(ToString::to_string).collect()))
        }
        TestKind::Number(field, ranges) => (field.name(), set(ranges)),
        TestKind::EitherPort(ranges) => ("either_port", set(ranges)),
        TestKind::SourceMac { value, .. } => ("source_mac", quoted(&negated(test, mac_text(*value)))),
        _ => return None,
    })
}

/// Returns a text with a mark before it where the test is negated.
fn negated(test: &Test, text: String) -> String {
    if test.is_negated { format!("!{text}") } else { text }
}

/// Returns a list whose first value has the mark.
fn marked(test: &Test, mut texts: Vec<String>) -> String {
    if test.is_negated
        && let Some(first) = texts.first_mut()
    {
        first.insert(0, '!');
    }
    list(&texts)
}

fn numbers(set: &Ranges) -> Vec<String> {
    let text =
        |&(low, high): &(u128, u128)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    set.as_slice().iter().map(text).collect()
}

/// Returns one value, or a list of several, as TOML.
fn list(texts: &[String]) -> String {
    match texts {
        [one] => quoted(one),
        all => format!("[{}]", all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns a text in quotes, with what TOML needs before signs.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
