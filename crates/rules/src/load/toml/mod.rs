//! Flowloom's TOML format for rules.
//!
//! ```toml
//! # How many rules the file has: a file that was cut short is an error.
//! rules = 2
//! # For rules without an action of their own: "accept", "deny", or "none".
//! default_action = "none"
//! # The base chain that the rules come from, if any.
//! hooks = [{ kind = "filter", name = "input", priority = 0, chain = "INPUT" }]
//! # The ports of a later fragment are read from its payload, as nf_tables does.
//! reads_later_fragments = false
//! stops_at_authentication = false
//!
//! [[rule]]
//! # Or "2001:db8::/32", "192.0.2.1-192.0.2.9", "!10.1.0.0/16", a list of these, or "any".
//! source = "10.0.0.0/8"
//! destination = "192.0.2.7"
//! source_ports = "1024-65535"        # or a number, or a list
//! destination_ports = [80, 443]
//! # Or a number, or "0x06/0x0f" for a value under a mask, or a list.
//! protocol = "tcp"
//! priority = 10                      # higher goes first; 0 where it is missing
//! value = 1                          # the caller's own
//! # Or "accept"; "skip" with skip = N passes over the next N rules.
//! action = "deny"
//! ```
//!
//! A rule may have further conditions: `family`, `tcp_flags = "SYN/SYN,ACK,RST,FIN"`, `icmp_type`,
//! `icmpv6_type`, `fragment`, `state`, `in_interface`, `out_interface`, `vlan`, `dscp`, `ecn`,
//! `length`, `ttl`, `next_header`, `source_mac`, `contents` (the match `u32` or `string` of
//! iptables), `flags` (the column of ClassBench), and `may_match` for a condition on data that
//! packets do not contain. A mark `!` before the value negates these.
//!
//! A rule without an action, in a file without `default_action`, is an error, because its effect
//! would depend on the program that loads it.

mod fields;

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::Deserialize;
use toml::Spanned;

use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, Located, line_of};
use crate::firewall::{Conditions, Entry, Hook, Outcome, Policy, Source};
use crate::rule::{Action, Rule};

/// The part of a file before its rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    rules: Option<Spanned<i64>>,
    default_action: Option<Spanned<String>>,
    #[serde(default)]
    hooks: Vec<Hook>,
    #[serde(default)]
    reads_later_fragments: bool,
    #[serde(default)]
    stops_at_authentication: bool,
    #[serde(default)]
    rule: Vec<Spanned<fields::Fields>>,
}

/// What a file states about rules without an action.
#[derive(Clone, Copy)]
enum Default {
    /// The text sets no default, so each rule needs an action.
    Missing,
    /// They have none, so the defaults of the command that uses the rules apply.
    Silent,
    Does(Action),
}

/// A parsed rule.
struct Read {
    rule: Rule,
    /// Its conditions, if a box cannot express them. Behind a pointer, because most rules have
    /// none.
    conditions: Option<Arc<Conditions>>,
    skip: Option<u32>,
    has_action: bool,
    line: usize,
    /// First byte in the text.
    place: usize,
}

/// Reads all rules of a text, in order, if each is a box of the five fields. A rule without a value
/// gets its position in the file.
///
/// # Errors
///
/// The first error that [`load`] finds, or a rule with conditions beyond the five fields.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, toml};
/// let text = "[[rule]]\nsource = '10.0.0.0/8'\ndestination_ports = 443\nprotocol = 'tcp'\n\
///             action = 'deny'\n";
/// let rules = toml::parse(text, LoadLimits::default())?;
/// assert_eq!(rules[0].to_string(), "10.0.0.0/8 0.0.0.0/0 0 : 65535 443 : 443 0x06/0xff");
/// # Ok::<(), flowloom_rules::load::LoadError>(())
/// ```
pub fn parse(text: &str, limits: LoadLimits) -> Result<Vec<Rule>, LoadError> {
    let first = |errors: LoadErrors| errors.errors.into_iter().next();
    let read = match read(text, limits) {
        Ok(read) => read,
        Err(errors) => return first(errors).map_or(Ok(Vec::new()), Err),
    };
    let plain = |read: Read| {
        if read.conditions.is_some() || read.skip.is_some() {
            let kind = LoadErrorKind::Unsupported("a rule with several boxes; load the file as a policy");
            return Err(at(text, read.place, kind));
        }
        Ok(read.rule)
    };
    read.0.into_iter().map(plain).collect()
}

/// Reads the rules of a text as a policy.
///
/// # Errors
///
/// Returns [`LoadErrors`] if the text is not TOML, a field is invalid, a rule has no action, rules
/// are missing, or a limit is exceeded.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, toml};
/// let text = "[[rule]]\nsource = ['10.0.0.0/8', '192.168.0.0/16']\n\
///             destination_ports = [80, 443]\naction = 'accept'\n";
/// let policy = toml::load(text, LoadLimits::default())?;
/// assert_eq!((policy.len(), policy.set().len()), (1, 4));
/// let error = toml::load("[[rule]]\nsource = '10.0.0.0/8'\n", LoadLimits::default()).unwrap_err();
/// assert!(error.to_string().contains("no action"));
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn load(text: &str, limits: LoadLimits) -> Result<Policy, LoadErrors> {
    let (mut read, head) = read(text, limits)?;
    if head.reads_later_fragments {
        for one in &mut read {
            let plain = || Arc::new(crate::firewall::conditions_of(&one.rule));
            let conditions = one.conditions.get_or_insert_with(plain);
            Arc::make_mut(conditions).read_later(true);
        }
    }
    let policy = policy(text, read)?.with_hooks(head.hooks);
    Ok(if head.stops_at_authentication { policy.stopping_at_authentication() } else { policy })
}

fn policy(text: &str, mut read: Vec<Read>) -> Result<Policy, LoadErrors> {
    let too_many = |error: crate::rule_set::TooManyRules| {
        LoadErrors::from(at(text, 0, LoadErrorKind::RuleFormat(alloc::format!("{error}"))))
    };
    if read.iter().all(|read| read.conditions.is_none() && read.skip.is_none()) {
        let located = read.into_iter().map(|read| Located { rule: read.rule, line: read.line });
        let mut located: Vec<Located> = located.collect();
        // The vector reuses the memory of the parsed rules, which is larger.
        located.shrink_to_fit();
        return Policy::plain(located).map_err(too_many);
    }
    // Entries are in matching order, sources in the order of the file.
    let sources =
        read.iter().map(|read| Source { line: read.line, ..Source::default() }).collect::<Vec<_>>();
    let mut order: Vec<usize> = (0..read.len()).collect();
    if let Some(skip) = read.iter().find(|read| read.skip.is_some())
        && let Some(other) = read.iter().find(|read| read.rule.priority != 0)
    {
        let place = skip.place.max(other.place);
        let kind = LoadErrorKind::Unsupported("priorities in a file with skips; order the rules instead");
        return Err(at(text, place, kind).into());
    }
    order.sort_by_key(|&index| core::cmp::Reverse(read[index].rule.priority));
    let count = read.len();
    let mut entries = Vec::with_capacity(count);
    for (place, index) in order.into_iter().enumerate() {
        let one = &mut read[index];
        let of_rule = || Arc::new(crate::firewall::conditions_of(&one.rule));
        let conditions = one.conditions.take().unwrap_or_else(of_rule);
        let outcome = match one.skip {
            Some(skip) => {
                let to = (place + 1).saturating_add(skip as usize);
                if to > count {
                    let kind = LoadErrorKind::Expected(
                        "a number of rules to skip that does not pass \
                        the end",
                    );
                    return Err(at(text, one.place, kind).into());
                }
                Outcome::Skip { to: to as u32 }
            }
            None => Outcome::Decide { action: one.rule.action, value: one.rule.value },
        };
        entries.push(Entry { conditions, outcome, source: index as u32 });
    }
    // The boxes take the same amount of memory again.
    drop(read);
    Policy::new(entries, sources, Vec::new()).map_err(too_many)
}

fn at(text: &str, place: usize, kind: LoadErrorKind) -> LoadError {
    let (line, start, content) = line_of(text, place);
    LoadError::new(line, content, place - start, kind)
}

/// Reads all rules.
fn read(text: &str, limits: LoadLimits) -> Result<(Vec<Read>, Head), LoadErrors> {
    limits.check_bytes(text)?;
    match in_parts(text, limits) {
        Ok(read) => Ok(read),
        // A multi-line text may contain what looks like a header of a rule, so read the whole file.
        Err(errors) if text.contains("\"\"\"") || text.contains("'''") => {
            parse_document(text, limits).or(Err(errors))
        }
        Err(errors) => Err(errors),
    }
}

/// Reads a file whose rules are consecutive tables: the memory is that of the rules, not of the
/// text's tree.
fn in_parts(text: &str, limits: LoadLimits) -> Result<(Vec<Read>, Head), LoadErrors> {
    let mut errors = Vec::new();
    let mut starts = Vec::new();
    let mut place = 0;
    for line in text.split_inclusive('\n') {
        let words = line.trim_start();
        if words.strip_prefix("[[").is_some_and(|rest| rest.trim_start().starts_with("rule")) {
            starts.push(place);
        }
        place += line.len();
    }
    let mut rules = Vec::with_capacity(starts.len().min(limits.rules_max));
    let head_end = starts.first().copied().unwrap_or(text.len());
    let mut head: Head = parse_part(text, 0, head_end).map_err(LoadErrors::from)?;
    let default = default_action(text, head.default_action.as_ref())?;
    let (mut line, mut counted) = (1, 0);
    for entry in core::mem::take(&mut head.rule) {
        push(text, 0, entry, limits, &mut rules, &mut errors, (&mut line, &mut counted))?;
    }
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(text.len());
        match parse_part::<Head>(text, start, end) {
            Ok(part) => {
                for (field, what) in [
                    (part.rules.map(|f| f.span()), "rules"),
                    (part.default_action.map(|f| f.span()), "default_action"),
                    ((!part.hooks.is_empty()).then_some(0..0), "hooks"),
                    (part.reads_later_fragments.then_some(0..0), "reads_later_fragments"),
                    (part.stops_at_authentication.then_some(0..0), "stops_at_authentication"),
                ] {
                    if let Some(span) = field {
                        let text_of =
                            alloc::format!("'{what}' after a rule; write it before the first rule");
                        errors.push(at(text, start + span.start, LoadErrorKind::Refused(text_of)));
                    }
                }
                for entry in part.rule {
                    push(text, start, entry, limits, &mut rules, &mut errors, (&mut line, &mut counted))?;
                }
            }
            Err(error) => errors.push(error),
        }
    }
    Ok((finish(text, rules, errors, default, head.rules.as_ref())?, head))
}

/// Reads a file at once.
fn parse_document(text: &str, limits: LoadLimits) -> Result<(Vec<Read>, Head), LoadErrors> {
    let mut head: Head = parse_part(text, 0, text.len()).map_err(LoadErrors::from)?;
    let default = default_action(text, head.default_action.as_ref())?;
    let (mut errors, mut rules) = (Vec::new(), Vec::new());
    let (mut line, mut counted) = (1, 0);
    for entry in core::mem::take(&mut head.rule) {
        push(text, 0, entry, limits, &mut rules, &mut errors, (&mut line, &mut counted))?;
    }
    Ok((finish(text, rules, errors, default, head.rules.as_ref())?, head))
}

fn parse_part<T: for<'de> Deserialize<'de>>(text: &str, start: usize, end: usize) -> Result<T, LoadError> {
    ::toml::from_str(&text[start..end]).map_err(|error| {
        let place = start + error.span().map_or(0, |span| span.start);
        let message = error.message();
        // A table in place of a list of tables.
        if message.starts_with("invalid type: map") && text[place..].starts_with("[rule]") {
            return at(text, place, LoadErrorKind::Expected("[[rule]], with two brackets, for each rule"));
        }
        at(text, place, LoadErrorKind::RuleFormat(message.to_owned()))
    })
}

/// Reads a rule and keeps its errors; stops reading beyond the limit.
fn push(
    text: &str,
    start: usize,
    entry: Spanned<fields::Fields>,
    limits: LoadLimits,
    rules: &mut Vec<Read>,
    errors: &mut Vec<LoadError>,
    (line, counted): (&mut usize, &mut usize),
) -> Result<(), LoadErrors> {
    let place = start + entry.span().start;
    if rules.len() + errors.len() >= limits.rules_max {
        let kind = LoadErrorKind::TooMuch { what: "rules", limit: limits.rules_max };
        return Err(at(text, place, kind).into());
    }
    *line += text.get(*counted..place).unwrap_or("").matches('\n').count();
    *counted = place;
    match fields::rule(text, start, rules.len(), entry, *line) {
        Ok(read) => rules.push(read),
        Err(error) => errors.push(error),
    }
    Ok(())
}

fn default_action(text: &str, field: Option<&Spanned<String>>) -> Result<Default, LoadErrors> {
    let Some(field) = field else { return Ok(Default::Missing) };
    match field.get_ref().as_str() {
        "none" => Ok(Default::Silent),
        "accept" => Ok(Default::Does(Action::Accept)),
        "deny" => Ok(Default::Does(Action::Deny)),
        _ => {
            let kind = LoadErrorKind::Expected("\"accept\", \"deny\" or \"none\"");
            Err(at(text, field.span().start, kind).into())
        }
    }
}

/// Checks what concerns all rules.
fn finish(
    text: &str,
    mut rules: Vec<Read>,
    mut errors: Vec<LoadError>,
    default: Default,
    count: Option<&Spanned<i64>>,
) -> Result<Vec<Read>, LoadErrors> {
    for read in rules.iter_mut().filter(|read| !read.has_action) {
        match default {
            Default::Does(action) => read.rule.action = Some(action),
            Default::Silent => {}
            Default::Missing => errors.push(at(
                text,
                read.place,
                LoadErrorKind::Unsupported(
                    "this rule has no action: write action = \"accept\" or \"deny\", or default_action \
                     before the first rule; if it is the last rule, the file may be truncated",
                ),
            )),
        }
    }
    if let Some(count) = count.filter(|count| errors.is_empty() && *count.get_ref() != rules.len() as i64) {
        let found = rules.len();
        let message = alloc::format!(
            "the file states {} rules but has {found}; it may be truncated, or the number is out of date",
            count.get_ref()
        );
        errors.push(at(text, count.span().start, LoadErrorKind::Refused(message)));
    }
    match LoadErrors::from_list(errors) {
        Some(errors) => Err(errors),
        None => Ok(rules),
    }
}

#[cfg(test)]
mod tests;
