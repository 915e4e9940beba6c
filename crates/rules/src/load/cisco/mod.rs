//! Access lists of Cisco IOS and ASA: numbered and named, standard and extended, for IPv4 and IPv6.
//!
//! ```text
//! ip access-list extended EDGE                                IOS: addresses under wildcard masks
//!  10 permit tcp 10.0.0.0 0.255.255.255 any eq www 443
//!  permit tcp any any established
//! access-list 101 deny udp any host 192.0.2.1 range 135 139
//! access-list OUT extended permit tcp 10.0.0.0 255.0.0.0 any  ASA: addresses under network masks
//! ```
//!
//! The list denies what no entry matches: this is the list's last rule, at the line that begins the
//! list. An entry that asks for ports or flags matches no later fragment; Cisco's devices let
//! `permit` entries match later fragments by their addresses alone.

mod entry;
mod objects;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits};
use crate::firewall::{Chain, ChainRule, Chains, Families, Note, Policy, Target};
use crate::rule::Action;

use entry::{Entry, Style};
use objects::{Kind, Objects};

/// The lists of a file: the name, whether it is IPv6, and its rules.
#[derive(Default)]
struct Lists {
    chains: Vec<Chain>,
    is_v6: Vec<bool>,
    /// The sequence number of each rule of each list.
    sequences: Vec<Vec<u32>>,
    errors: BTreeMap<usize, Vec<LoadError>>,
    notes: BTreeMap<usize, Vec<Note>>,
}

impl Lists {
    fn list(&mut self, name: &str, line: usize, is_v6: bool) -> usize {
        self.chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            let policy = Some((Action::Deny, 0, line));
            self.chains.push(Chain { name: name.into(), rules: Vec::new(), policy });
            self.is_v6.push(is_v6);
            self.sequences.push(Vec::new());
            self.chains.len() - 1
        })
    }
}

/// Reads an access list as a policy. `list` selects it; it may be `None` if the text has only one
/// list.
///
/// # Errors
///
/// Returns [`LoadErrors`]: every entry of the list that is not read, or that there are several
/// lists and none was named.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, cisco};
/// let text = "ip access-list extended EDGE\n permit tcp 10.0.0.1 0.255.255.0 any eq 443\n\
///             \x20deny ip any any\n";
/// let policy = cisco::load(text, None, LoadLimits::default())?;
/// assert_eq!(policy.len(), 3);
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, list: Option<&str>, limits: LoadLimits) -> Result<Policy, LoadErrors> {
    limits.check_bytes(text)?;
    let mut lists = read(text, limits)?;
    let chosen = match list {
        Some(name) => lists.chains.iter().position(|chain| chain.name == name),
        None if lists.chains.len() > 1 => {
            let names: Vec<&str> = lists.chains.iter().map(|chain| chain.name.as_str()).collect();
            let message =
                format!("there are {} access lists; select one of: {}", names.len(), names.join(", "));
            return Err(LoadError::new(1, "", 0, LoadErrorKind::Refused(message)).into());
        }
        None => (!lists.chains.is_empty()).then_some(0),
    };
    let Some(chosen) = chosen else { return Ok(Policy::default()) };
    if let Some(errors) = LoadErrors::from_list(lists.errors.remove(&chosen).unwrap_or_default()) {
        return Err(errors);
    }
    let families = if lists.is_v6[chosen] { Families::V6 } else { Families::V4 };
    // A list of an ASA may contain entries of both families.
    let asks_v6 = |rule: &ChainRule| rule.conditions.families == Families::V6;
    let families = if families == Families::V4 && lists.chains[chosen].rules.iter().any(asks_v6) {
        Families::BOTH
    } else {
        families
    };
    let notes = lists.notes.remove(&chosen).unwrap_or_default();
    let name = lists.chains[chosen].name.clone();
    let chains = Chains { chains: lists.chains, families: Some(families) };
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    let whole =
        |message: String| LoadErrors::from(LoadError::new(1, "", 0, LoadErrorKind::Refused(message)));
    chains
        .flatten(&name, limits.rules_max, &mut entries, &mut sources)
        .map_err(|error| whole(error.to_string()))?;
    Policy::new(entries, sources, notes).map_err(|error| whole(error.to_string()))
}

/// Returns the names of a text's lists.
#[must_use]
pub fn lists(text: &str) -> Vec<String> {
    read(text, LoadLimits::default())
        .map(|lists| lists.chains.into_iter().map(|chain| chain.name).collect())
        .unwrap_or_default()
}

/// Returns whether a text looks like a configuration with access lists.
#[must_use]
pub fn is_cisco(text: &str) -> bool {
    text.lines().map(str::trim).take(10_000).any(|line| {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ip" | "ipv6") => words.next() == Some("access-list"),
            Some("access-list") => words.nth(1).is_some_and(|word| {
                matches!(word, "permit" | "deny" | "remark" | "extended" | "standard" | "line")
            }),
            _ => false,
        }
    })
}

fn read(text: &str, limits: LoadLimits) -> Result<Lists, LoadErrors> {
    let mut lists = Lists::default();
    let mut objects = Objects::default();
    // What indented lines belong to.
    let mut list: Option<(usize, bool)> = None;
    let mut object: Option<(Kind, &str)> = None;
    let mut interface: Option<&str> = None;
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['!', '#']) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["name", address, name, ..] = words[..] {
            objects.name(name, address);
            continue;
        }
        match words[..] {
            ["interface", ..] => interface = None,
            ["nameif", name, ..] => interface = Some(name),
            // A firewall of the older series names the interface in the line.
            ["ip", "address", name, address, _, ..] if name.parse::<IpAddr>().is_err() => {
                objects.interface(name, address);
            }
            ["ip", "address", address, ..] => {
                if let Some(name) = interface {
                    objects.interface(name, address);
                }
            }
            _ => {}
        }
        if let Some(begun) = Kind::parse(&words) {
            (list, object) = (None, Some(begun));
            continue;
        }
        let mut entry = Entry::new(number, line, &words, &objects);
        match words[..] {
            ["ip" | "ipv6", "access-list", "extended" | "standard", name, ..] => {
                (list, object) =
                    (Some((lists.list(name, number, words[0] == "ipv6"), words[2] == "standard")), None);
            }
            ["ipv6" | "ip", "access-list", name] => {
                (list, object) = (Some((lists.list(name, number, words[0] == "ipv6"), false)), None);
            }
            ["access-list", name, ..] => {
                (list, object) = (None, None);
                let at = lists.list(name, number, false);
                entry.next = 2;
                if entry.take("line") {
                    entry.next += 1;
                }
                let is_extended = entry.take("extended");
                let is_numbered_standard =
                    name.parse::<u32>().is_ok_and(|n| n < 100 || (1300..2000).contains(&n));
                let is_standard = entry.take("standard") || is_numbered_standard && !is_extended;
                if is_extended || name.parse::<u32>().is_err() {
                    entry.style = Style::Netmask;
                }
                count += 1;
                add(&mut lists, at, entry, is_standard);
            }
            _ => {
                if let Some((at, is_standard)) = list {
                    entry.is_v6 = lists.is_v6[at];
                    // An unindented line begins another part of the configuration.
                    let is_entry = words
                        .iter()
                        .take(2)
                        .any(|word| matches!(*word, "permit" | "deny" | "remark" | "evaluate"));
                    if line.starts_with([' ', '\t']) || is_entry {
                        count += 1;
                        add(&mut lists, at, entry, is_standard);
                    } else {
                        list = None;
                    }
                } else if let Some(begun) = object.filter(|_| line.starts_with([' ', '\t'])) {
                    objects.line(begun, &words, number, line);
                } else {
                    object = None;
                }
            }
        }
        if count > limits.rules_max {
            let kind = LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max };
            return Err(LoadError::new(number, line, 0, kind).into());
        }
    }
    // A device orders the entries of a list by their sequence numbers.
    for (chain, sequences) in lists.chains.iter_mut().zip(&lists.sequences) {
        if !sequences.is_sorted() {
            let mut rules: Vec<_> = sequences.iter().zip(core::mem::take(&mut chain.rules)).collect();
            rules.sort_by_key(|(sequence, _)| **sequence);
            chain.rules = rules.into_iter().map(|(_, rule)| rule).collect();
        }
    }
    Ok(lists)
}

fn add(lists: &mut Lists, list: usize, entry: Entry<'_>, is_standard: bool) {
    let number = entry.number;
    let sequences = &lists.sequences[list];
    let sequence = entry.sequence().unwrap_or(sequences.last().map_or(10, |last| last.saturating_add(10)));
    match entry.read(is_standard) {
        Ok(Some((conditions, action))) => {
            let value = u32::from(action == Action::Accept);
            let target = Target::Decide { action, value };
            lists.chains[list].rules.push(ChainRule::new(conditions, target, number));
            lists.sequences[list].push(sequence);
        }
        Ok(None) => {}
        Err(error) => lists.errors.entry(list).or_default().push(error),
    }
}

#[cfg(test)]
mod tests;
