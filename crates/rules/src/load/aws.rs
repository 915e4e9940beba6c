//! Security groups and network access lists of AWS, as printed by
//! `aws ec2 describe-security-groups` and `describe-network-acls`.
//!
//! A security group permits packets, and denies those that it does not permit. It tracks
//! connections, so replies need no rule. A reference to the members of another group, or to a
//! prefix list, is a condition that [may hold](crate::firewall::Truth::Maybe), because the text
//! does not contain their addresses. The rules of a network list are evaluated in the order of
//! their numbers; the list denies what none of them matches.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value as Json;

use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, ipset, line_of};
use crate::firewall::{
    Chain, ChainRule, Chains, Conditions, Families, Policy, Ranges, Target, TestKind, has_ports,
};
use crate::rule::{Action, decimal};

/// The parts of a document to read.
///
/// Fields may be added in any version: a literal ends with `..Options::default()`.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// `ingress` or `egress`, or an id followed by a colon and one of these: `sg-1:egress`. A
    /// direction alone selects the only group or list of the document.
    pub chain: &'a str,
    /// The limits of the loader.
    pub limits: LoadLimits,
}

impl Default for Options<'_> {
    /// Returns the options for incoming packets.
    fn default() -> Self {
        Self { chain: "ingress", limits: LoadLimits::default() }
    }
}

/// Returns whether a text looks like one of these documents.
#[must_use]
pub fn is_aws(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && (text.contains("\"SecurityGroups\"") || text.contains("\"NetworkAcls\""))
}

/// Reads the rules of a security group, or of a network list, as a policy.
///
/// # Errors
///
/// Returns [`LoadErrors`]: everything that is wrong with the document, or that it has several
/// groups and none was named.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::aws::{self, Options};
/// let text = r#"{"SecurityGroups": [{"GroupId": "sg-1", "IpPermissions": [
///   {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443,
///    "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]}]}"#;
/// assert_eq!(aws::load(text, &Options::default())?.len(), 2);
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
#[expect(clippy::too_many_lines, reason = "one pass over the document, in its order")]
pub fn load(text: &str, options: &Options<'_>) -> Result<Policy, LoadErrors> {
    options.limits.check_bytes(text)?;
    let refuse = |at: usize, message: String| error(text, at, LoadErrorKind::Refused(message));
    let document: Json = serde_json::from_str(text).map_err(|error| LoadError::of_json(text, &error))?;
    let (id, direction) =
        options.chain.rsplit_once(':').map_or((None, options.chain), |(id, d)| (Some(id), d));
    let is_egress = match direction {
        "ingress" | "INPUT" => false,
        "egress" | "OUTPUT" => true,
        _ => {
            return Err(
                refuse(0, format!("unknown direction '{direction}': write ingress or egress")).into()
            );
        }
    };
    let groups = document.get("SecurityGroups").and_then(Json::as_array);
    let lists = document.get("NetworkAcls").and_then(Json::as_array);
    let (objects, key) = match (groups, lists) {
        (Some(groups), _) => (groups, "GroupId"),
        (None, Some(lists)) => (lists, "NetworkAclId"),
        (None, None) => {
            return Err(refuse(0, "expected SecurityGroups or NetworkAcls".to_owned()).into());
        }
    };
    let name = |object: &Json| object.get(key).and_then(Json::as_str).unwrap_or("").to_owned();
    let matching: Vec<&Json> =
        objects.iter().filter(|object| id.is_none_or(|id| name(object) == id)).collect();
    let object = match matching[..] {
        [one] => one,
        [] => return Ok(Policy::default()),
        _ => {
            let names: Vec<String> = objects.iter().map(name).collect();
            let message = format!(
                "there are {} of them; select one with its direction, such as {}:ingress",
                names.len(),
                names[0]
            );
            return Err(refuse(0, message).into());
        }
    };
    // Rules are located by a key that each of them has.
    let marker = if key == "GroupId" { "\"IpProtocol\"" } else { "\"RuleNumber\"" };
    let mut places = text.match_indices(marker).map(|(at, _)| at);
    let before: usize = objects
        .iter()
        .take_while(|other| !core::ptr::eq(*other, object))
        .map(|other| count(other, key))
        .sum();
    let places: Vec<usize> = places.by_ref().skip(before).take(count(object, key)).collect();
    let start = text.find(&name(object)).unwrap_or(0);
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    let mut push =
        |at: usize, number: usize, read: Result<Vec<Conditions>, String>, action: Action| match read {
            Ok(all) => {
                let line = text[..at].matches('\n').count() + 1;
                let target = || Target::Decide { action, value: u32::from(action == Action::Accept) };
                let rule = |conditions| ChainRule { number, ..ChainRule::new(conditions, target(), line) };
                rules.extend(all.into_iter().map(rule));
            }
            Err(message) => errors.push(refuse(at, message)),
        };
    if key == "GroupId" {
        let ingress = list(object, "IpPermissions");
        let (permissions, skipped) =
            if is_egress { (list(object, "IpPermissionsEgress"), ingress.len()) } else { (ingress, 0) };
        for (index, permission) in permissions.iter().enumerate() {
            let at = places.get(skipped + index).copied().unwrap_or(start);
            push(at, index + 1, permitted(permission, is_egress), Action::Accept);
        }
    } else {
        let mut entries: Vec<(usize, &Json)> = list(object, "Entries").iter().enumerate().collect();
        entries
            .retain(|(_, entry)| entry.get("Egress").and_then(Json::as_bool).unwrap_or(false) == is_egress);
        entries
            .sort_by_key(|(_, entry)| entry.get("RuleNumber").and_then(Json::as_u64).unwrap_or(u64::MAX));
        for (index, entry) in entries {
            let at = places.get(index).copied().unwrap_or(start);
            let action = match entry.get("RuleAction").and_then(Json::as_str) {
                Some("allow") => Action::Accept,
                Some("deny") => Action::Deny,
                _ => {
                    push(at, index + 1, Err("RuleAction must be allow or deny".to_owned()), Action::Deny);
                    continue;
                }
            };
            push(at, index + 1, listed(entry, is_egress), action);
        }
    }
    if rules.len() > options.limits.rules_max {
        let kind = LoadErrorKind::TooMuch { what: "rules", limit: options.limits.rules_max };
        return Err(error(text, 0, kind).into());
    }
    if let Some(errors) = LoadErrors::from_list(errors) {
        return Err(errors);
    }
    let line = text[..start].matches('\n').count() + 1;
    let chain = Chain { name: name(object), rules, policy: Some((Action::Deny, 0, line)) };
    let chains = Chains { chains: Vec::from([chain]), families: None };
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    chains
        .flatten(&name(object), options.limits.rules_max, &mut entries, &mut sources)
        .map_err(|error| refuse(0, error.to_string()))?;
    Policy::new(entries, sources, Vec::new()).map_err(|error| refuse(0, error.to_string()).into())
}

fn error(text: &str, at: usize, kind: LoadErrorKind) -> LoadError {
    let (line, start, content) = line_of(text, at);
    LoadError::new(line, content, at - start.min(at), kind)
}

fn list<'a>(object: &'a Json, key: &str) -> &'a [Json] {
    object.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the number of rules of a group or a list.
fn count(object: &Json, key: &str) -> usize {
    if key == "GroupId" {
        list(object, "IpPermissions").len() + list(object, "IpPermissionsEgress").len()
    } else {
        list(object, "Entries").len()
    }
}

fn protocol(text: &str) -> Result<Option<u8>, String> {
    match text {
        "-1" | "all" => Ok(None),
        name => super::protocol(name)
            .filter(|found| found.mask() == 0xff)
            .map(|found| Some(found.value()))
            .ok_or_else(|| {
                format!(
                    "'{name}' is not a protocol: write a name such as tcp, a number, or \
                -1"
                )
            }),
    }
}

fn number(object: &Json, key: &str) -> Option<i64> {
    match object.get(key)? {
        Json::String(text) => decimal(text),
        number => number.as_i64(),
    }
}

fn address(text: &str, is_v6: bool) -> Result<Ranges, String> {
    ipset::addresses(text, is_v6).map(|range| Ranges::new([range])).ok_or_else(|| {
        format!("'{text}' is not a prefix such as {}", if is_v6 { "2001:db8::/32" } else { "192.0.2.0/24" })
    })
}

/// Adds conditions on ports, or on type and code of ICMP; -1 means any.
fn ask_ports(
    conditions: &mut Conditions,
    protocol: Option<u8>,
    from: Option<i64>,
    to: Option<i64>,
) -> Result<(), String> {
    let Some(protocol) = protocol else { return Ok(()) };
    conditions.ask_protocol(&Ranges::exact(u128::from(protocol)));
    let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
    if matches!(protocol, 1 | 58) {
        let Ok(kind) = u8::try_from(from) else { return Ok(()) };
        let kind = u128::from(kind) << 8;
        let codes = u8::try_from(to).map_or_else(
            |_| Ranges::new([(kind, kind | 0xff)]),
            |code| Ranges::exact(kind | u128::from(code)),
        );
        conditions.ask(TestKind::Icmp { is_v6: protocol == 58, codes });
        return Ok(());
    }
    if from == -1 && to == -1 || !has_ports(protocol) {
        return Ok(());
    }
    match (u16::try_from(from), u16::try_from(to)) {
        // All ports: later fragments match too, as in the service.
        (Ok(0), Ok(u16::MAX)) => Ok(()),
        (Ok(low), Ok(high)) if low <= high => {
            conditions.ask_port(true, &Ranges::new([(u128::from(low), u128::from(high))]));
            Ok(())
        }
        _ => Err(format!("ports {from} to {to} are not a range from 0 to 65535")),
    }
}

/// Returns the conditions of a permission, one for each source of packets.
fn permitted(permission: &Json, is_egress: bool) -> Result<Vec<Conditions>, String> {
    let text = permission.get("IpProtocol").and_then(Json::as_str).ok_or("IpProtocol is missing")?;
    let mut base = Conditions::default();
    ask_ports(&mut base, protocol(text)?, number(permission, "FromPort"), number(permission, "ToPort"))?;
    let mut all = Vec::new();
    for (key, field, is_v6) in [("IpRanges", "CidrIp", false), ("Ipv6Ranges", "CidrIpv6", true)] {
        for range in list(permission, key) {
            let prefix =
                range.get(field).and_then(Json::as_str).ok_or_else(|| format!("{field} is missing"))?;
            let mut conditions = base.clone();
            conditions.ask_address(is_egress, is_v6, &address(prefix, is_v6)?);
            all.push(conditions);
        }
    }
    for (key, field) in [("UserIdGroupPairs", "GroupId"), ("PrefixListIds", "PrefixListId")] {
        for other in list(permission, key) {
            let name = other.get(field).and_then(Json::as_str).unwrap_or("?");
            let mut conditions = base.clone();
            conditions.ask(TestKind::Unknowable(format!("an address of {name}")));
            all.push(conditions);
        }
    }
    Ok(all)
}

/// Returns the condition of an entry of a network list.
fn listed(entry: &Json, is_egress: bool) -> Result<Vec<Conditions>, String> {
    let text = entry.get("Protocol").and_then(Json::as_str).ok_or("Protocol is missing")?;
    let protocol = protocol(text)?;
    let mut conditions = Conditions::default();
    let (from, to) = if matches!(protocol, Some(1 | 58)) {
        let kind = entry.get("IcmpTypeCode");
        (kind.and_then(|kind| number(kind, "Type")), kind.and_then(|kind| number(kind, "Code")))
    } else {
        let ports = entry.get("PortRange");
        (ports.and_then(|ports| number(ports, "From")), ports.and_then(|ports| number(ports, "To")))
    };
    ask_ports(&mut conditions, protocol, from, to)?;
    match (entry.get("CidrBlock").and_then(Json::as_str), entry.get("Ipv6CidrBlock").and_then(Json::as_str))
    {
        (Some(prefix), _) => conditions.ask_address(is_egress, false, &address(prefix, false)?),
        (None, Some(prefix)) => conditions.ask_address(is_egress, true, &address(prefix, true)?),
        (None, None) => return Err("CidrBlock or Ipv6CidrBlock is missing".to_owned()),
    }
    // A set of all addresses of a family is a condition on the family.
    for field in [&mut conditions.source, &mut conditions.destination] {
        let all = if conditions.families == Families::V6 { u128::MAX } else { 0xffff_ffff };
        if field.as_ref() == Some(&Ranges::up_to(all)) {
            *field = None;
        }
    }
    Ok(Vec::from([conditions]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::{Assume, Knowledge, Packet};
    use flowloom_flow_key::FiveTuple;

    const GROUPS: &str = r#"{ "SecurityGroups": [
      { "GroupId": "sg-a", "GroupName": "web", "IpPermissions": [
        { "IpProtocol": "tcp", "FromPort": 80, "ToPort": 81, "IpRanges": [{ "CidrIp": "10.0.0.0/8" }], "Ipv6Ranges": [{ "CidrIpv6": "::/0" }] },
        { "IpProtocol": "icmp", "FromPort": 8, "ToPort": -1, "IpRanges": [{ "CidrIp": "0.0.0.0/0" }] },
        { "IpProtocol": "-1", "UserIdGroupPairs": [{ "GroupId": "sg-b" }] } ],
        "IpPermissionsEgress": [
        { "IpProtocol": "-1", "IpRanges": [{ "CidrIp": "192.0.2.0/24" }] } ] } ] }"#;

    const LISTS: &str = r#"{"NetworkAcls": [{"NetworkAclId": "acl-1", "Entries": [
{"RuleNumber": 32767, "Protocol": "-1", "RuleAction": "deny", "Egress": false, "CidrBlock": "0.0.0.0/0"},
{"RuleNumber": 200, "Protocol": "6", "RuleAction": "allow", "Egress": false, "CidrBlock": "0.0.0.0/0", "PortRange": {"From": 22, "To": 22}},
{"RuleNumber": 100, "Protocol": "6", "RuleAction": "deny", "Egress": false, "CidrBlock": "203.0.113.0/24", "PortRange": {"From": 0, "To": 1023}},
{"RuleNumber": 100, "Protocol": "-1", "RuleAction": "allow", "Egress": true, "CidrBlock": "0.0.0.0/0"}]}]}"#;

    fn line(policy: &Policy, packet: &Packet<'_>) -> usize {
        let found = policy.first_match(packet, Assume::NoMatch);
        found.and_then(|id| policy.source(id)).map_or(0, |source| source.line)
    }

    fn tcp(source: [u8; 4], port: u16) -> Packet<'static> {
        Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 1024, port, 6))
    }

    #[test]
    fn security_groups_deny_unmatched_packets() {
        let policy = load(GROUPS, &Options::default()).unwrap();
        assert_eq!(
            (line(&policy, &tcp([10, 0, 0, 1], 81)), line(&policy, &tcp([11, 0, 0, 1], 81))),
            (3, 2)
        );
        assert_eq!(line(&policy, &Packet::new(FiveTuple::v6([1; 16], [2; 16], 9, 80, 6))), 3);
        let mut ping = tcp([8; 4], 0);
        (ping.tuple.protocol, ping.icmp, ping.has_ports) = (1, Some((8, 3)), false);
        assert_eq!((line(&policy, &ping), line(&policy, &Packet { icmp: Some((0, 0)), ..ping })), (4, 2));
        let missing = policy.undecidable(Knowledge { headers: true, ..Knowledge::default() });
        assert_eq!(missing[0].text, "[an address of sg-b]");
        let out = load(GROUPS, &Options { chain: "sg-a:egress", ..Options::default() }).unwrap();
        assert_eq!((line(&out, &tcp([8; 4], 9)), out.sources()[0].line), (7, 7));
    }

    #[test]
    fn access_list_entries_apply_by_number() {
        let policy = load(LISTS, &Options::default()).unwrap();
        let lines = [([203, 0, 113, 1], 22), ([8, 8, 8, 8], 22), ([8, 8, 8, 8], 23)]
            .map(|(s, p)| line(&policy, &tcp(s, p)));
        assert_eq!(lines, [4, 3, 2]);
        let wrong = LISTS
            .replace("203.0.113.0/24", "203.0.113.0/40")
            .replace("\"allow\", \"Egress\": false", "\"permit\", \"Egress\": false");
        let errors = load(&wrong, &Options::default()).unwrap_err();
        assert_eq!(errors.errors.iter().map(|error| error.line).collect::<Vec<_>>(), [3, 4], "{errors}");
        let two = r#"{"SecurityGroups": [{"GroupId": "sg-a"}, {"GroupId": "sg-c"}]}"#;
        let errors = load(two, &Options::default()).unwrap_err();
        assert!(errors.to_string().contains("sg-a:ingress"), "{errors}");
    }
}
