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
//! Keywords are read in any case. Entries have the order of their sequence numbers; one without a
//! number follows the highest. `no` and `clear configure` before the name of a list remove it;
//! other commands that edit a list are refused.
//!
//! The list denies what no entry matches: this is the list's last rule, at the line that begins
//! the list. A list of IPv6 permits neighbour solicitations and advertisements before that, as IOS
//! does; NX-OS permits those of routers too.
//!
//! An entry that asks for ports or flags matches no later fragment; Cisco's devices let `permit`
//! entries match later fragments by their addresses alone.

mod entry;
mod lists;
mod objects;
mod ports;
mod reader;

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits};
use crate::firewall::{ChainRule, Chains, Families, Policy};

use lists::Lists;
use objects::Objects;
use reader::Reader;

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
    let mut lists = read(text, limits)?.all;
    let chosen = match list {
        Some(name) => lists.iter().position(|list| list.name == name),
        None if lists.len() > 1 => {
            let names: Vec<&str> = lists.iter().map(|list| list.name.as_str()).collect();
            let message =
                format!("there are {} access lists; select one of: {}", names.len(), names.join(", "));
            return Err(LoadError::new(1, "", 0, LoadErrorKind::Refused(message)).into());
        }
        None => (!lists.is_empty()).then_some(0),
    };
    let Some(chosen) = chosen else { return Ok(Policy::default()) };
    let mut list = lists.swap_remove(chosen);
    if let Some(errors) = LoadErrors::from_list(core::mem::take(&mut list.errors)) {
        return Err(errors);
    }
    if list.is_empty() {
        let message = "this access list has no entries, and a device lets all packets through an empty \
                       list; add the entry that it should have";
        return Err(super::at_line(text, list.line, message.to_owned()).into());
    }
    let (is_v6, name) = (list.is_v6, list.name.clone());
    let chain = list.chain();
    // A list of an ASA may contain entries of both families.
    let asks_v6 = |rule: &ChainRule| rule.conditions.families == Families::V6;
    let families = match is_v6 {
        true => Families::V6,
        false if chain.rules.iter().any(asks_v6) => Families::BOTH,
        false => Families::V4,
    };
    let chains = Chains { chains: Vec::from([chain]), families: Some(families) };
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    let whole =
        |message: String| LoadErrors::from(LoadError::new(1, "", 0, LoadErrorKind::Refused(message)));
    chains
        .flatten(&name, limits.rules_max, &mut entries, &mut sources)
        .map_err(|error| whole(error.to_string()))?;
    Policy::new(entries, sources, Vec::new()).map_err(|error| whole(error.to_string()))
}

/// Returns the names of a text's lists.
#[must_use]
pub fn lists(text: &str) -> Vec<String> {
    read(text, LoadLimits::default())
        .map(|lists| lists.all.into_iter().map(|list| list.name).collect())
        .unwrap_or_default()
}

/// Returns whether a text looks like a configuration with access lists.
#[must_use]
pub fn is_cisco(text: &str) -> bool {
    text.lines().map(str::trim).take(10_000).any(|line| {
        let lower = lower(line);
        let mut words = lower.split_whitespace();
        match words.next() {
            Some("ip" | "ipv6") => words.next() == Some("access-list"),
            Some("access-list") => words.nth(1).is_some_and(|word| {
                matches!(word, "permit" | "deny" | "remark" | "extended" | "standard" | "line")
            }),
            _ => false,
        }
    })
}

/// Returns a text in lower case. A device reads its keywords in any case, but not its names.
fn lower(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns whether a word is a keyword or an abbreviation of it with so many letters.
fn is_short(word: &str, keyword: &str, letters: usize) -> bool {
    word.len() >= letters && keyword.starts_with(word)
}

fn read(text: &str, limits: LoadLimits) -> Result<Lists, LoadErrors> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['!', '#']) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let lower = lower(line);
        let keys: Vec<&str> = lower.split_whitespace().collect();
        reader.line((index + 1, line), &words, &keys);
        if reader.entries > limits.rules_max {
            let kind = LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max };
            return Err(LoadError::new(index + 1, line, 0, kind).into());
        }
    }
    Ok(reader.lists)
}

#[cfg(test)]
mod tests;
