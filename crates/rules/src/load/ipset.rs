//! The output of `ipset save`: named sets of addresses, networks and ports, to which iptables rules
//! refer.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, protocol};
use crate::firewall::{Conditions, InterfacePattern, Ranges, Test, TestKind};
use crate::rule::decimal;
use flowloom_flow_key::protocol::{
    AUTHENTICATION, FRAGMENT, ICMP, ICMPV6, NO_NEXT_HEADER, ROUTING, SCTP, TCP, UDP, UDPLITE,
};

/// The address or port of a packet with which an element is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetSide {
    /// The sender's.
    Source,
    /// The receiver's.
    Destination,
}

/// A part of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Address,
    Port,
    Mac,
    Interface,
}

/// A set.
#[derive(Clone, Debug, Default)]
struct Set {
    is_v6: bool,
    parts: Vec<Part>,
    /// Elements of sets that contain only addresses, and whether `nomatch` excludes them. They are
    /// merged when the set is used.
    addresses: Vec<((u128, u128), bool)>,
    /// Length of the prefix in which addresses are stored and looked up.
    netmask: Option<String>,
    /// Elements of other sets, as text.
    elements: Vec<Vec<String>>,
    /// Names of member sets.
    members: Vec<String>,
    /// Its elements time out.
    is_timed: bool,
    /// Rules add and remove elements.
    is_changing: bool,
    /// The words that create it, without `-exist`.
    created: String,
}

/// Named sets.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    sets: BTreeMap<String, Set>,
}

/// Maximum number of elements of a set with several parts; each becomes a separate condition.
const PRODUCT_MAX: usize = 1 << 16;

/// Reads all sets of a text.
///
/// # Errors
///
/// Returns [`LoadErrors`]: every line that is not read.
///
/// # Examples
///
/// ```
/// use flowloom_rules::load::{LoadLimits, ipset};
/// let text = "create bad hash:net family inet hashsize 1024 maxelem 65536\n\
///             add bad 203.0.113.0/24\n";
/// let sets = ipset::parse(text, LoadLimits::default())?;
/// assert!(sets.test("bad", &[ipset::SetSide::Source], false).is_some());
/// assert!(sets.test("good", &[ipset::SetSide::Source], false).is_none());
/// # Ok::<(), flowloom_rules::load::LoadErrors>(())
/// ```
pub fn parse(text: &str, limits: LoadLimits) -> Result<Sets, LoadErrors> {
    limits.check_bytes(text)?;
    let mut sets = Sets::default();
    let mut errors = Vec::new();
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        count += 1;
        if count > limits.rules_max {
            let kind = LoadErrorKind::TooMuch { what: "elements", limit: limits.rules_max };
            errors.push(LoadError::new(number, line, 0, kind));
            break;
        }
        if let Err(error) = sets.line(number, line) {
            errors.push(error);
        }
    }
    match LoadErrors::from_list(errors) {
        Some(errors) => Err(errors),
        None => Ok(sets),
    }
}

/// Returns whether a text looks like the output of `ipset save`.
#[must_use]
pub fn is_ipset(text: &str) -> bool {
    text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).is_some_and(
        |line| {
            let mut words = line.split_whitespace();
            words.next() == Some("create") && words.nth(1).is_some_and(|kind| kind.contains(':'))
        },
    )
}

impl Sets {
    /// The empty collection.
    pub(crate) const NONE: Self = Self { sets: BTreeMap::new() };

    fn line(&mut self, number: usize, line: &str) -> Result<(), LoadError> {
        let error = |word: &str, kind: LoadErrorKind| {
            // A word is a slice of the line.
            let at = word.as_ptr() as usize - line.as_ptr() as usize;
            LoadError::new(number, line, at, kind)
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let end = &line[line.len()..];
        let word = |at: usize| words.get(at).copied().unwrap_or(end);
        match word(0) {
            "create" | "-N" => {
                let name = word(1);
                let kind = word(2);
                let types = kind.split_once(':').map_or("", |(_, types)| types);
                let part = |text: &str| match text {
                    "ip" | "net" => Some(Part::Address),
                    "port" => Some(Part::Port),
                    "mac" => Some(Part::Mac),
                    "iface" => Some(Part::Interface),
                    _ => None,
                };
                let is_list = kind == "list:set";
                let parts: Option<Vec<Part>> =
                    if is_list { Some(Vec::new()) } else { types.split(',').map(part).collect() };
                let parts = parts.ok_or_else(|| {
                    let text = format!("unsupported set type '{kind}'; use ip, net, port, mac or iface");
                    error(kind, LoadErrorKind::Refused(text))
                })?;
                let mut set = Set { parts, ..Set::default() };
                let mut options = words.iter().skip(3).copied();
                while let Some(option) = options.next() {
                    match option {
                        "family" => set.is_v6 = options.next() == Some("inet6"),
                        "netmask" => set.netmask = options.next().map(String::from),
                        "hashsize" | "maxelem" | "bucketsize" | "initval" | "size" | "range" => {
                            options.next();
                        }
                        "timeout" => set.is_timed |= options.next() != Some("0"),
                        "counters" | "comment" | "forceadd" | "skbinfo" => {}
                        option if is_exist(option) => {}
                        other => return Err(error(other, unread(other))),
                    }
                }
                let of_set = words.iter().skip(2).filter(|word| !is_exist(word));
                set.created = of_set.fold(String::new(), |all, word| all + " " + word);
                match self.sets.get(name) {
                    None => {
                        self.sets.insert(String::from(name), set);
                    }
                    // The set keeps its elements.
                    Some(known)
                        if words.iter().any(|word| is_exist(word)) && known.created == set.created => {}
                    Some(known) => {
                        let text = format!(
                            "set '{name}' is there already, as 'create {name}{}'; ipset accepts the same words \
                             again with -exist, and no others; remove one of the two lines",
                            known.created
                        );
                        return Err(error(name, LoadErrorKind::Refused(text)));
                    }
                }
            }
            "add" | "-A" => {
                let (name, element) = (word(1), word(2));
                let set = self.sets.get_mut(name).ok_or_else(|| {
                    error(name, LoadErrorKind::Refused(format!("no line above creates a set '{name}'")))
                })?;
                let mut is_out = false;
                let mut options = words.iter().skip(3).copied();
                while let Some(option) = options.next() {
                    match option {
                        "nomatch" => is_out = true,
                        "timeout" => set.is_timed |= options.next() != Some("0"),
                        "packets" | "bytes" | "skbmark" | "skbprio" | "skbqueue" => {
                            options.next();
                        }
                        option if is_exist(option) => {}
                        // The rest of a quoted text.
                        "comment" => {
                            let mut quotes = 0;
                            while quotes < 2
                                && let Some(word) = options.next()
                            {
                                quotes += word.matches('"').count();
                            }
                        }
                        other => return Err(error(other, unread(other))),
                    }
                }
                set.add(element, is_out).map_err(|kind| error(element, kind))?;
            }
            "del" | "flush" | "destroy" | "swap" | "rename" => {
                let text = format!("'{}' is not from ipset save; save the sets again", word(0));
                return Err(error(word(0), LoadErrorKind::Refused(text)));
            }
            other => {
                let text = format!("unsupported line '{other}': only create and add are supported");
                return Err(error(other, LoadErrorKind::Refused(text)));
            }
        }
        Ok(())
    }

    /// Returns the sets, of which rules change those with these names.
    pub(super) fn changing<'a>(&self, names: impl Iterator<Item = &'a str>) -> Cow<'_, Self> {
        let mut sets = Cow::Borrowed(self);
        for name in names.filter(|name| self.sets.contains_key(*name)) {
            if let Some(set) = sets.to_mut().sets.get_mut(name) {
                set.is_changing = true;
            }
        }
        sets
    }

    /// Returns the conditions for packets that are in a set, or not in it; `None` if there is no
    /// such set, or if it cannot be compared with these sides.
    #[must_use]
    pub fn test(&self, name: &str, sides: &[SetSide], not: bool) -> Option<Conditions> {
        self.test_at(name, sides, not, 0)
    }

    fn test_at(&self, name: &str, sides: &[SetSide], not: bool, depth: usize) -> Option<Conditions> {
        let set = self.sets.get(name)?;
        let mut conditions = Conditions::default();
        if set.is_changing {
            let text = format!("in set {name}, which rules change");
            conditions.ask(Test::new(TestKind::Unknowable(text), not));
            return Some(conditions);
        }
        if set.is_timed {
            // Each element may have timed out, also where the packet must not be in the set.
            let mut members = set.conditions(self, sides, false, depth)?;
            members.ask(TestKind::Unknowable(format!("elements of set {name} that have not timed out")));
            if !not {
                return Some(members);
            }
            conditions.ask(Test::new(TestKind::AnyOf(Vec::from([members])), true));
            return Some(conditions);
        }
        set.conditions(self, sides, not, depth)
    }
}

/// Returns whether an option accepts what is there already.
fn is_exist(option: &str) -> bool {
    matches!(option, "-exist" | "-!")
}

/// An option that may change which packets are in a set.
fn unread(option: &str) -> LoadErrorKind {
    LoadErrorKind::Refused(format!("unsupported option '{option}' of a set; save the set without it"))
}

impl Set {
    /// Returns the conditions for packets that are among the elements, or not among them.
    fn conditions(&self, sets: &Sets, sides: &[SetSide], not: bool, depth: usize) -> Option<Conditions> {
        let mut conditions = Conditions::default();
        if self.parts == [Part::Address] && self.members.is_empty() {
            let all = if self.is_v6 { u128::MAX } else { 0xffff_ffff };
            let ranges = self.merged(all);
            let ranges = if not { ranges.complement(all) } else { ranges };
            let is_destination = *sides.first()? == SetSide::Destination;
            conditions.ask_address(is_destination, self.is_v6, &ranges);
            return Some(conditions);
        }
        let any: Option<Vec<Conditions>> = if self.parts.is_empty() {
            // A list contains sets that are not lists.
            if depth > 0 {
                return None;
            }
            self.members.iter().map(|member| sets.test_at(member, sides, false, depth + 1)).collect()
        } else {
            self.elements.iter().map(|element| self.condition(element, sides).ok()).collect()
        };
        conditions.ask(Test::new(TestKind::AnyOf(any?), not));
        Some(conditions)
    }

    /// Adds an element, or takes one out.
    fn add(&mut self, element: &str, is_out: bool) -> Result<(), LoadErrorKind> {
        let masked = match &self.netmask {
            Some(length) if self.parts.first() == Some(&Part::Address) => {
                let (address, rest) = element.split_at(element.find(',').unwrap_or(element.len()));
                format!("{address}/{length}{rest}")
            }
            _ => String::from(element),
        };
        if self.parts.is_empty() {
            self.members.push(String::from(element));
        } else if self.parts == [Part::Address] {
            let range = addresses(&masked, self.is_v6)
                .ok_or(LoadErrorKind::Expected("an address, a prefix or a range of the set's family"))?;
            self.addresses.push((range, is_out));
        } else {
            let parts: Vec<String> = masked.split(',').map(String::from).collect();
            if parts.len() != self.parts.len() {
                return Err(LoadErrorKind::Expected("as many parts as the set's type has"));
            }
            self.condition(&parts, &[SetSide::Source; 3])?;
            if is_out || self.elements.len() == PRODUCT_MAX {
                let text = "exceptions, or more than 65536 elements, in a set with several parts";
                return Err(LoadErrorKind::Unsupported(text));
            }
            self.elements.push(parts);
        }
        Ok(())
    }

    /// Returns the addresses of a set of addresses. Of networks, the longest prefix decides.
    fn merged(&self, all: u128) -> Ranges {
        if self.addresses.iter().all(|(_, is_out)| !is_out) {
            return Ranges::new(self.addresses.iter().map(|(range, _)| *range));
        }
        // A network that is added again replaces the first one, as with `ipset restore -exist`.
        let mut networks: Vec<&((u128, u128), bool)> = self.addresses.iter().rev().collect();
        networks.sort_by_key(|((low, high), _)| (core::cmp::Reverse(high - low), *low));
        networks.dedup_by_key(|(network, _)| *network);
        let mut merged = Ranges::default();
        // Networks of one length do not overlap.
        for same in networks.chunk_by(|a, b| a.0.1 - a.0.0 == b.0.1 - b.0.0) {
            let members = |is_out: bool| same.iter().filter(move |one| one.1 == is_out).map(|one| one.0);
            merged = merged.union(&Ranges::new(members(false)));
            merged = merged.intersection(&Ranges::new(members(true)).complement(all));
        }
        merged
    }

    /// Returns the condition of an element.
    fn condition(&self, element: &[String], sides: &[SetSide]) -> Result<Conditions, LoadErrorKind> {
        const INVALID: LoadErrorKind = LoadErrorKind::Expected("an element of the set's type");
        let mut conditions = Conditions::default();
        for (at, (part, text)) in self.parts.iter().zip(element).enumerate() {
            let is_destination = *sides.get(at).ok_or(INVALID)? == SetSide::Destination;
            match part {
                Part::Address => {
                    let range = addresses(text, self.is_v6).ok_or(INVALID)?;
                    conditions.ask_address(is_destination, self.is_v6, &Ranges::new([range]));
                }
                Part::Port => self.ask_port(&mut conditions, is_destination, text)?,
                Part::Mac => {
                    let value = super::words::mac(text).ok_or(INVALID)?;
                    conditions.ask(if is_destination {
                        TestKind::Unknowable(format!("destination MAC address {text}"))
                    } else {
                        TestKind::SourceMac { value, mask: (1 << 48) - 1 }
                    });
                }
                Part::Interface if text.starts_with("physdev:") => {
                    let text = "unsupported port of a bridge in a set; name the bridge without physdev:";
                    return Err(LoadErrorKind::Unsupported(text));
                }
                Part::Interface => {
                    let names = Vec::from([InterfacePattern { name: text.clone(), is_prefix: false }]);
                    conditions.ask(if is_destination {
                        TestKind::Output(names)
                    } else {
                        TestKind::Input(names)
                    });
                }
            }
        }
        Ok(conditions)
    }

    /// Asks for the protocol and the port of an element.
    fn ask_port(
        &self,
        conditions: &mut Conditions,
        is_destination: bool,
        text: &str,
    ) -> Result<(), LoadErrorKind> {
        const INVALID: LoadErrorKind = LoadErrorKind::Expected("an element of the set's type");
        let (name, ports) = text.split_once(':').unwrap_or(("tcp", text));
        let protocol = protocol(name).filter(|p| p.mask() == 0xff).ok_or(INVALID)?.value();
        let is_only_port = self.parts == [Part::Port];
        if protocol == 0 || is_only_port && !matches!(protocol, TCP | UDP) {
            return Err(INVALID);
        }
        if matches!(protocol, ICMP | ICMPV6) {
            let text =
                "unsupported ICMP type in a set; ask for it in a rule with --icmp-type or --icmpv6-type";
            return Err(LoadErrorKind::Unsupported(text));
        }
        // The kernel skips these headers, so it finds no packet of this protocol.
        if self.is_v6 && matches!(protocol, 0 | ROUTING | FRAGMENT | AUTHENTICATION | NO_NEXT_HEADER | 60) {
            let text = "the kernel finds no such protocol in a set of IPv6; remove the element";
            return Err(LoadErrorKind::Unsupported(text));
        }
        let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
        let ports: (Option<u16>, Option<u16>) = (decimal(low), decimal(high));
        let (Some(low), Some(high)) = ports else { return Err(INVALID) };
        // A range may begin with its end.
        let (low, high) = (low.min(high), low.max(high));
        let has_ports = matches!(protocol, TCP | UDP | SCTP | UDPLITE);
        if !has_ports && (low, high) != (0, 0) {
            let text = "in a set, only tcp, udp, sctp and udplite have ports; write 0 for other protocols";
            return Err(LoadErrorKind::Unsupported(text));
        }
        // A set of ports alone has those of TCP and UDP, whatever its elements name.
        if is_only_port {
            conditions.ask_protocol(&Ranges::new([TCP, UDP].map(|number| (number.into(), number.into()))));
        } else {
            conditions.ask_protocol(&Ranges::exact(protocol.into()));
        }
        if has_ports {
            conditions.ask_port(is_destination, &Ranges::new([(low.into(), high.into())]));
        }
        Ok(())
    }
}

/// Reads an address, a prefix, or a range with a dash.
pub(crate) fn addresses(text: &str, is_v6: bool) -> Option<(u128, u128)> {
    let one = |text: &str| {
        let address: IpAddr = text.parse().ok()?;
        match address {
            IpAddr::V4(v4) if !is_v6 => Some(u128::from(v4.to_bits())),
            IpAddr::V6(v6) if is_v6 => Some(v6.to_bits()),
            _ => None,
        }
    };
    if let Some((low, high)) = text.split_once('-') {
        let (low, high) = (one(low)?, one(high)?);
        return (low <= high).then_some((low, high));
    }
    let bits = if is_v6 { 128 } else { 32 };
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let length: u32 = length.map_or(Some(bits), decimal).filter(|&length| length <= bits)?;
    let host = (u128::MAX >> (128 - bits)).checked_shr(length).unwrap_or(0);
    let low = one(address)? & !host;
    Some((low, low | host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::{Packet, Truth};
    use flowloom_flow_key::FiveTuple;

    #[test]
    fn ipsets_match_the_requested_address_or_port() {
        let text = "create net hash:net family inet\nadd net 10.0.0.0/8\nadd net 10.1.0.0/16 nomatch\n\
                    create service hash:ip,port family inet\nadd service 192.0.2.1,tcp:443\nadd service 192.0.2.1,udp:53\n\
                    create both list:set size 8\nadd both net\n";
        let sets = parse(text, LoadLimits::default()).unwrap();
        let packet = |source: [u8; 4], port, protocol| {
            Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 9, port, protocol))
        };
        let test = |name: &str, sides: &[SetSide], not, packet: &Packet<'_>| {
            sets.test(name, sides, not).unwrap().matches(packet)
        };
        let from_ten = packet([10, 0, 0, 1], 443, 6);
        assert_eq!(test("net", &[SetSide::Source], false, &from_ten), Truth::Yes);
        assert_eq!(test("net", &[SetSide::Source], true, &from_ten), Truth::No);
        assert_eq!(test("net", &[SetSide::Destination], false, &from_ten), Truth::No);
        assert_eq!(test("net", &[SetSide::Source], false, &packet([10, 1, 0, 1], 1, 6)), Truth::No);
        assert_eq!(test("both", &[SetSide::Source], false, &from_ten), Truth::Yes);
        let sides = [SetSide::Destination, SetSide::Destination];
        assert_eq!(test("service", &sides, false, &from_ten), Truth::Yes);
        assert_eq!(test("service", &sides, false, &packet([1; 4], 443, 17)), Truth::No);
        assert_eq!(test("service", &sides, true, &packet([1; 4], 443, 17)), Truth::Yes);
    }

    #[test]
    fn longest_prefix_of_an_ipset_decides_and_ports_mean_tcp_and_udp() {
        let text = "create n hash:net\nadd n 10.0.0.0/8 comment \"a b\"\nadd n 10.1.0.0/16 nomatch\nadd n 10.1.2.0/24\n\
                    add n 10.2.0.0/16 nomatch\nadd n 10.2.0.0/16\nadd n 10.3.0.0/16\nadd n 10.3.0.0/16 nomatch\n\
                    create p bitmap:port range 0-65535\nadd p 80-90\ncreate m hash:ip family inet netmask 24\n\
                    add m 10.9.9.0 packets 1 bytes 2\ncreate g hash:ip,port\nadd g 10.0.0.1,gre:0\n";
        let sets = parse(text, LoadLimits::default()).unwrap();
        let holds = |name: &str, source: [u8; 4], port, protocol| {
            let packet = Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 9, port, protocol));
            sets.test(name, &[SetSide::Source, SetSide::Destination], false).unwrap().matches(&packet)
                == Truth::Yes
        };
        let from = |source| holds("n", source, 1, 6);
        assert_eq!([[10, 9, 9, 9], [10, 1, 9, 9], [10, 1, 2, 9]].map(from), [true, false, true]);
        assert_eq!([[10, 2, 1, 1], [10, 3, 1, 1]].map(from), [true, false], "the last one counts");
        let port = |protocol| {
            let packet = Packet::new(FiveTuple::v4([1; 4], [2; 4], 9, 85, protocol));
            sets.test("p", &[SetSide::Destination], false).unwrap().matches(&packet) == Truth::Yes
        };
        assert_eq!([6, 17, 132].map(port), [true, true, false]);
        assert_eq!([holds("m", [10, 9, 9, 77], 1, 6), holds("m", [10, 9, 8, 77], 1, 6)], [true, false]);
        assert!(holds("g", [10, 0, 0, 1], 0, 47));
        for line in
            ["create x hash:ip bitmask 255.0.255.0", "create x hash:net,iface\nadd x 10.0.0.0/8,e wildcard"]
        {
            assert!(
                parse(line, LoadLimits::default()).unwrap_err().to_string().contains("unsupported option")
            );
        }
    }

    /// Returns whether the packet is in set `m` of a text, or is not in it.
    fn holds(text: &str, sides: &[SetSide], not: bool, packet: &Packet<'_>) -> Truth {
        parse(text, LoadLimits::default()).unwrap().test("m", sides, not).unwrap().matches(packet)
    }

    #[test]
    fn a_port_has_the_protocol_that_the_kernel_compares() {
        const SIDES: [SetSide; 2] = [SetSide::Source, SetSide::Destination];
        let of = |protocol| Packet::new(FiveTuple::v4([10, 0, 0, 1], [2; 4], 9, 53, protocol));
        let protocols = |text: &str| {
            [6, 17, 33, 47, 132, 136]
                .map(|protocol| holds(text, &SIDES, false, &of(protocol)) == Truth::Yes)
        };
        let bare = "create m hash:ip,port\nadd m 10.0.0.1,60-50\n";
        assert_eq!(protocols(bare), [true, false, false, false, false, false], "a bare port is one of TCP");
        let named =
            "create m hash:ip,port\nadd m 10.0.0.1,dccp:0\nadd m 10.0.0.1,gre:0\nadd m 10.0.0.1,sctp:53\n";
        assert_eq!(protocols(named), [false, false, true, true, true, false], "DCCP has no ports here");
        for port in ["53", "tcp:53", "udp:53"] {
            let text = format!("create m bitmap:port range 0-100\nadd m {port}\n");
            let found =
                [6, 17, 132].map(|protocol| holds(&text, &SIDES[1..], false, &of(protocol)) == Truth::Yes);
            assert_eq!(found, [true, true, false], "a set of ports ignores the protocol of {port}");
        }
        for (element, part) in [
            ("10.0.0.1,dccp:53", "only tcp, udp"),
            ("10.0.0.1,icmp:0", "unsupported ICMP type"),
            ("10.0.0.1,icmp:8/0", "unsupported ICMP type"),
            ("10.0.0.1,tcp:x", "an element"),
            ("10.0.0.1,0:0", "an element"),
        ] {
            let text = format!("create m hash:ip,port\nadd m {element}\n");
            let error = parse(&text, LoadLimits::default()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let no_next = "create m hash:ip,port family inet6\nadd m 2001:db8::1,59:0\n";
        let error = parse(no_next, LoadLimits::default()).unwrap_err().to_string();
        assert!(error.contains("no such protocol"), "{error}");
    }

    #[test]
    fn a_mac_address_of_the_receiver_is_unknown() {
        let mut packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [2; 4], 9, 80, 6));
        packet.source_mac = Some([2, 0, 0, 0, 0, 1]);
        for kind in ["bitmap:ip,mac range 10.0.0.0/24", "hash:ip,mac"] {
            let text = format!("create m {kind}\nadd m 10.0.0.1,02:00:00:00:00:01\n");
            let holds = |side| holds(&text, &[SetSide::Source, side], false, &packet);
            assert_eq!([SetSide::Source, SetSide::Destination].map(holds), [Truth::Yes, Truth::Maybe]);
        }
        let text = "create m hash:mac\nadd m 02:00:00:00:00:01\n";
        let holds = |side| holds(text, &[side], false, &packet);
        assert_eq!([SetSide::Source, SetSide::Destination].map(holds), [Truth::Yes, Truth::Maybe]);
    }

    #[test]
    fn a_set_that_is_created_again_keeps_its_elements() {
        let from = |last| Packet::new(FiveTuple::v4([10, 0, 0, last], [2; 4], 9, 80, 6));
        let text = "create m hash:ip maxelem 9\nadd m 10.0.0.1\ncreate m hash:ip maxelem 9 -exist\nadd m 10.0.0.7\n";
        let found = [1, 7, 8].map(|last| holds(text, &[SetSide::Source], false, &from(last)));
        assert_eq!(found, [Truth::Yes, Truth::Yes, Truth::No]);
        for again in ["hash:ip maxelem 9", "hash:ip -exist", "hash:net maxelem 9 -!"] {
            let text = format!("create m hash:ip maxelem 9\nadd m 10.0.0.1\ncreate m {again}\n");
            let errors = parse(&text, LoadLimits::default()).unwrap_err();
            assert!(
                errors.errors[0].line == 3 && errors.to_string().contains("is there already"),
                "{errors}"
            );
        }
    }

    #[test]
    fn an_element_that_may_have_timed_out_is_unknown_on_both_sides_of_a_test() {
        let from = |last| Packet::new(FiveTuple::v4([10, 0, 0, last], [2; 4], 9, 80, 6));
        for text in [
            "create m hash:ip timeout 60\nadd m 10.0.0.1\n",
            "create m hash:ip,port timeout 60\nadd m 10.0.0.1,80\n",
        ] {
            let sides = [SetSide::Source, SetSide::Destination];
            let test = |not, last| holds(text, &sides, not, &from(last));
            assert_eq!([test(false, 1), test(false, 2)], [Truth::Maybe, Truth::No]);
            assert_eq!([test(true, 1), test(true, 2)], [Truth::Maybe, Truth::Yes]);
        }
    }

    #[test]
    fn every_invalid_line_is_reported() {
        let text = "create a hash:net\nadd a 10.0.0.0/40\nadd b 1.2.3.4\nflush a\ncreate c hash:what\n";
        let errors = parse(text, LoadLimits::default()).unwrap_err();
        let places: Vec<(usize, usize)> = errors.errors.iter().map(|e| (e.line, e.column)).collect();
        assert_eq!(places, [(2, 7), (3, 5), (4, 1), (5, 10)]);
        assert!(is_ipset("# x\ncreate a hash:net\n") && !is_ipset("*filter\n"));
    }
}
