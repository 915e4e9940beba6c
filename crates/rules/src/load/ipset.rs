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
                        "counters" | "comment" | "forceadd" | "skbinfo" | "-exist" => {}
                        other => return Err(error(other, unread(other))),
                    }
                }
                self.sets.insert(String::from(name), set);
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
                        "-exist" => {}
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
            conditions.ask(TestKind::Unknowable(format!("elements of set {name} that have not timed out")));
        }
        if set.parts == [Part::Address] && set.members.is_empty() {
            let all = if set.is_v6 { u128::MAX } else { 0xffff_ffff };
            let ranges = set.merged(all);
            let ranges = if not { ranges.complement(all) } else { ranges };
            let is_destination = *sides.first()? == SetSide::Destination;
            conditions.ask_address(is_destination, set.is_v6, &ranges);
            return Some(conditions);
        }
        let any: Option<Vec<Conditions>> = if set.parts.is_empty() {
            // A list contains sets that are not lists.
            if depth > 0 {
                return None;
            }
            set.members.iter().map(|member| self.test_at(member, sides, false, depth + 1)).collect()
        } else {
            set.elements.iter().map(|element| set.condition(element, sides)).collect()
        };
        conditions.ask(Test::new(TestKind::AnyOf(any?), not));
        Some(conditions)
    }
}

/// An option that may change which packets are in a set.
fn unread(option: &str) -> LoadErrorKind {
    LoadErrorKind::Refused(format!("unsupported option '{option}' of a set; save the set without it"))
}

impl Set {
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
            if self.condition(&parts, &[SetSide::Source; 3]).is_none() {
                return Err(LoadErrorKind::Expected("an element of the set's type"));
            }
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
    fn condition(&self, element: &[String], sides: &[SetSide]) -> Option<Conditions> {
        let mut conditions = Conditions::default();
        for (at, (part, text)) in self.parts.iter().zip(element).enumerate() {
            let is_destination = *sides.get(at)? == SetSide::Destination;
            match part {
                Part::Address => {
                    conditions.ask_address(
                        is_destination,
                        self.is_v6,
                        &Ranges::new([addresses(text, self.is_v6)?]),
                    );
                }
                Part::Port => {
                    let (name, ports) =
                        text.split_once(':').map_or((None, text.as_str()), |(n, p)| (Some(n), p));
                    let (low, high) = ports.split_once('-').unwrap_or((ports, ports));
                    let (low, high): (u16, u16) = (decimal(low)?, decimal(high)?);
                    let Some(name) = name else {
                        // A set of ports alone has those of TCP and UDP.
                        conditions.ask_protocol(&Ranges::new([(6, 6), (17, 17)]));
                        conditions.ask_port(is_destination, &Ranges::new([(low.into(), high.into())]));
                        continue;
                    };
                    let protocol = protocol(name).filter(|p| p.mask() == 0xff)?.value();
                    conditions.ask_protocol(&Ranges::exact(protocol.into()));
                    if crate::firewall::WITH_PORTS.contains(&protocol) {
                        conditions.ask_port(is_destination, &Ranges::new([(low.into(), high.into())]));
                    } else if (low, high) != (0, 0) {
                        return None;
                    }
                }
                Part::Mac => {
                    let value = super::words::mac(text)?;
                    conditions.ask(TestKind::SourceMac { value, mask: (1 << 48) - 1 });
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
        Some(conditions)
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

    #[test]
    fn every_invalid_line_is_reported() {
        let text = "create a hash:net\nadd a 10.0.0.0/40\nadd b 1.2.3.4\nflush a\ncreate c hash:what\n";
        let errors = parse(text, LoadLimits::default()).unwrap_err();
        let places: Vec<(usize, usize)> = errors.errors.iter().map(|e| (e.line, e.column)).collect();
        assert_eq!(places, [(2, 7), (3, 5), (4, 1), (5, 10)]);
        assert!(is_ipset("# x\ncreate a hash:net\n") && !is_ipset("*filter\n"));
    }
}
