//! Access lists of Cisco IOS and ASA: numbered and named, standard and extended, for IPv4 and IPv6.
//!
//! ```text
//! ip access-list extended EDGE                                   IOS: addresses under wildcard masks
//!  10 permit tcp 10.0.0.0 0.255.255.255 any eq www 443
//!  permit tcp any any established
//! access-list 101 deny udp any host 192.0.2.1 range 135 139
//! access-list OUT extended permit tcp 10.0.0.0 255.0.0.0 any     ASA: addresses under network masks
//! ```
//!
//! What no entry matches is denied: that is the list's last rule, at the line that begins it. An entry that asks for ports
//! or flags matches no later fragment; Cisco's devices let `permit` entries match them by their addresses alone.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::iptables::icmp;
use super::services::service;
use super::{LoadError, LoadErrorKind, LoadErrors, LoadLimits, ipset, protocol};
use crate::policy::{
    Chain, ChainRule, Chains, Conditions, Families, Note, Policy, Ranges, Target, Test, TestKind,
    WITH_PORTS, bits_of,
};
use crate::rule::{Action, decimal};

/// Lists of a file: the name, whether it is of IPv6, and its rules.
#[derive(Default)]
struct Lists {
    chains: Vec<Chain>,
    is_v6: Vec<bool>,
    errors: BTreeMap<usize, Vec<LoadError>>,
    notes: BTreeMap<usize, Vec<Note>>,
}

impl Lists {
    fn list(&mut self, name: &str, line: usize, is_v6: bool) -> usize {
        self.chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            let policy = Some((Action::Deny, 0, line));
            self.chains.push(Chain { name: name.into(), rules: Vec::new(), policy });
            self.is_v6.push(is_v6);
            self.chains.len() - 1
        })
    }
}

/// Objects of an ASA that entries name.
#[derive(Default)]
struct Objects {
    networks: BTreeMap<String, Vec<(bool, u128, u128)>>,
    ports: BTreeMap<String, Vec<(u128, u128)>>,
}

/// How the addresses of an entry are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Bits that do not count are set in the mask.
    Wildcard,
    /// Bits that count are set in the mask.
    Netmask,
}

/// Reads an access list as a policy. `list` names it; it may be missing where the text has one list alone.
///
/// # Errors
///
/// [`LoadErrors`]: every entry of the list that is not read, or that there are several lists and none was named.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::load::{LoadLimits, cisco};
/// let text = "ip access-list extended EDGE\n permit tcp 10.0.0.1 0.255.255.0 any eq 443\n deny ip any any\n";
/// let policy = cisco::load(text, None, LoadLimits::default())?;
/// assert_eq!(policy.len(), 3);
/// # Ok::<(), flowloom_classifier::load::LoadErrors>(())
/// ```
pub fn load(text: &str, list: Option<&str>, limits: LoadLimits) -> Result<Policy, LoadErrors> {
    limits.check_bytes(text)?;
    let mut lists = read(text, limits)?;
    let chosen = match list {
        Some(name) => lists.chains.iter().position(|chain| chain.name == name),
        None if lists.chains.len() > 1 => {
            let names: Vec<&str> = lists.chains.iter().map(|chain| chain.name.as_str()).collect();
            let message =
                format!("{} access lists are here; name one of: {}", names.len(), names.join(", "));
            return Err(LoadError::new(1, "", 0, LoadErrorKind::Refused(message)).into());
        }
        None => (!lists.chains.is_empty()).then_some(0),
    };
    let Some(chosen) = chosen else { return Ok(Policy::default()) };
    if let Some(errors) = LoadErrors::of(lists.errors.remove(&chosen).unwrap_or_default()) {
        return Err(errors);
    }
    let families = if lists.is_v6[chosen] { Families::V6 } else { Families::V4 };
    // A list of an ASA may hold entries of both families.
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
    let mut object: Option<(bool, String)> = None;
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['!', '#']) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut entry = Entry {
            number,
            line,
            words: &words,
            next: 0,
            style: Style::Wildcard,
            is_v6: false,
            objects: &objects,
        };
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
            ["object", "network", name] => (list, object) = (None, Some((true, name.to_string()))),
            ["object-group", "network", name] => (list, object) = (None, Some((true, name.to_string()))),
            ["object-group", "service", name, ..] => {
                (list, object) = (None, Some((false, name.to_string())))
            }
            _ => {
                if let Some((at, is_standard)) = list {
                    entry.is_v6 = lists.is_v6[at];
                    // Another part of the configuration begins at the margin.
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
                } else if let Some((is_network, name)) =
                    object.clone().filter(|_| line.starts_with([' ', '\t']))
                {
                    if let Err(error) = objects.line(is_network, &name, &words, number, line) {
                        return Err(error.into());
                    }
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
    Ok(lists)
}

fn add(lists: &mut Lists, list: usize, entry: Entry<'_>, is_standard: bool) {
    let number = entry.number;
    match entry.read(is_standard) {
        Ok(Some((conditions, action))) => {
            let value = u32::from(action == Action::Accept);
            let target = Target::Decide { action, value };
            lists.chains[list].rules.push(ChainRule { conditions, target, line: number, number });
        }
        Ok(None) => {}
        Err(error) => lists.errors.entry(list).or_default().push(error),
    }
}

impl Objects {
    fn line(
        &mut self,
        is_network: bool,
        name: &str,
        words: &[&str],
        number: usize,
        line: &str,
    ) -> Result<(), LoadError> {
        let wrong = || {
            let message =
                format!("unsupported line of object '{name}'; write its addresses or ports in the list");
            LoadError::new(number, line, 0, LoadErrorKind::Refused(message))
        };
        if !is_network {
            let ports = self.ports.entry(name.into()).or_default();
            match words {
                ["port-object", "eq", one] => {
                    let one = port(one).ok_or_else(wrong)?;
                    ports.push((one, one));
                }
                ["port-object", "range", low, high] => {
                    ports.push((port(low).ok_or_else(wrong)?, port(high).ok_or_else(wrong)?));
                }
                ["description", ..] => {}
                ["group-object", other] => {
                    let other = self.ports.get(*other).cloned().ok_or_else(wrong)?;
                    self.ports.entry(name.into()).or_default().extend(other);
                }
                _ => return Err(wrong()),
            }
            return Ok(());
        }
        let words = words.strip_prefix(&["network-object"]).unwrap_or(words);
        let found = match words {
            ["host", address] => {
                let address: IpAddr = address.parse().map_err(|_| wrong())?;
                Vec::from([(address.is_ipv6(), bits_of(address), bits_of(address))])
            }
            ["range", low, high] => {
                let (low, high): (IpAddr, IpAddr) =
                    low.parse().ok().zip(high.parse().ok()).ok_or_else(wrong)?;
                Vec::from([(low.is_ipv6(), bits_of(low), bits_of(high))])
            }
            ["object" | "group-object", other] => self.networks.get(*other).cloned().ok_or_else(wrong)?,
            ["subnet", address, mask] | [address, mask] if address.parse::<IpAddr>().is_ok() => {
                let both = address.parse::<IpAddr>().ok().zip(mask.parse::<IpAddr>().ok());
                let (address, mask) = both.ok_or_else(wrong)?;
                let set = Ranges::under_mask(bits_of(address) & bits_of(mask), bits_of(mask), 32, 1 << 12);
                set.ok_or_else(wrong)?.as_slice().iter().map(|&(low, high)| (false, low, high)).collect()
            }
            ["subnet", prefix] | [prefix] if prefix.contains('/') => {
                let is_v6 = prefix.contains(':');
                let (low, high) = ipset::addresses(prefix, is_v6).ok_or_else(wrong)?;
                Vec::from([(is_v6, low, high)])
            }
            ["description" | "nat", ..] => return Ok(()),
            _ => return Err(wrong()),
        };
        self.networks.entry(name.into()).or_default().extend(found);
        Ok(())
    }
}

fn port(word: &str) -> Option<u128> {
    decimal::<u16>(word).or_else(|| service(word)).map(u128::from)
}

/// An entry of a list.
struct Entry<'a> {
    number: usize,
    line: &'a str,
    words: &'a [&'a str],
    next: usize,
    style: Style,
    is_v6: bool,
    objects: &'a Objects,
}

impl<'a> Entry<'a> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.next) == Some(&word);
        self.next += usize::from(found);
        found
    }

    /// Returns the byte at which a word begins.
    fn at(&self, index: usize) -> usize {
        self.words
            .get(index)
            .map_or(self.line.len(), |word| word.as_ptr() as usize - self.line.as_ptr() as usize)
    }

    fn expected(&self, what: &'static str) -> LoadError {
        LoadError::new(self.number, self.line, self.at(self.next), LoadErrorKind::Expected(what))
    }

    fn word(&mut self, what: &'static str) -> Result<&'a str, LoadError> {
        let word = self.words.get(self.next).copied().ok_or_else(|| self.expected(what))?;
        self.next += 1;
        Ok(word)
    }

    /// Reads the entry; `None` is a remark.
    fn read(mut self, is_standard: bool) -> Result<Option<(Conditions, Action)>, LoadError> {
        if self.words.get(self.next).is_some_and(|word| word.parse::<u32>().is_ok()) {
            self.next += 1;
        }
        if self.take("sequence") {
            self.next += 1;
        }
        let action = match self.word("permit, deny or remark")? {
            "permit" => Action::Accept,
            "deny" => Action::Deny,
            "remark" | "description" => return Ok(None),
            "evaluate" => {
                self.next -= 1;
                let message = "unsupported entry 'evaluate': a reflexive list changes while packets flow; leave it out";
                let kind = LoadErrorKind::Refused(message.to_string());
                return Err(LoadError::new(self.number, self.line, self.at(self.next), kind));
            }
            _ => {
                self.next -= 1;
                return Err(self.expected("permit, deny or remark"));
            }
        };
        let mut conditions = Conditions::default();
        if is_standard {
            self.address(&mut conditions, false)?;
            while self.next < self.words.len() {
                self.option(&mut conditions)?;
            }
            return Ok(Some((conditions, action)));
        }
        self.protocol(&mut conditions)?;
        self.address(&mut conditions, false)?;
        self.ports(&mut conditions, false)?;
        self.address(&mut conditions, true)?;
        self.ports(&mut conditions, true)?;
        while self.next < self.words.len() {
            self.option(&mut conditions)?;
        }
        Ok(Some((conditions, action)))
    }

    fn protocol(&mut self, conditions: &mut Conditions) -> Result<(), LoadError> {
        let word = self.word("a protocol such as tcp or ip")?;
        let number = match word {
            "ip" | "ipv4" | "ipv6" => {
                if word == "ipv6" {
                    conditions.families = Families::V6;
                }
                return Ok(());
            }
            "ahp" => 51,
            "eigrp" => 88,
            "ipinip" => 4,
            "nos" => 94,
            "pcp" => 108,
            "icmp" if self.is_v6 => 58,
            "icmp6" => 58,
            name => {
                let found = protocol(name).filter(|found| found.mask() == 0xff && !name.contains('/'));
                let Some(found) = found else {
                    self.next -= 1;
                    return Err(self.expected("a protocol such as tcp or ip"));
                };
                found.value()
            }
        };
        conditions.ask_protocol(&Ranges::exact(u128::from(number)));
        Ok(())
    }

    fn address(&mut self, conditions: &mut Conditions, is_destination: bool) -> Result<(), LoadError> {
        const WHAT: &str = "any, host and an address, or an address and a mask";
        let word = self.word(WHAT)?;
        match word {
            "any" => return Ok(()),
            "any4" => conditions.families = conditions.families.and(Families::V4),
            "any6" => conditions.families = conditions.families.and(Families::V6),
            "host" => {
                let address: IpAddr = self.word("an address")?.parse().map_err(|_| {
                    self.next -= 1;
                    self.expected("an address")
                })?;
                conditions.ask_address(is_destination, address.is_ipv6(), &Ranges::exact(bits_of(address)));
            }
            "object" | "object-group" => {
                let name = self.word("the name of an object")?;
                let Some(found) = self.objects.networks.get(name) else {
                    self.next -= 1;
                    let message = format!("no object '{name}' of addresses before this line");
                    let kind = LoadErrorKind::Refused(message);
                    return Err(LoadError::new(self.number, self.line, self.at(self.next), kind));
                };
                let of = |is_v6: bool| {
                    Ranges::of(found.iter().filter(|one| one.0 == is_v6).map(|&(_, low, high)| (low, high)))
                };
                let (v4, v6) = (of(false), of(true));
                match (v4.is_empty(), v6.is_empty()) {
                    (false, true) => conditions.ask_address(is_destination, false, &v4),
                    (true, false) => conditions.ask_address(is_destination, true, &v6),
                    _ => {
                        let mut any = [Conditions::default(), Conditions::default()];
                        any[0].ask_address(is_destination, false, &v4);
                        any[1].ask_address(is_destination, true, &v6);
                        conditions.ask(TestKind::AnyOf(any.into()));
                    }
                }
            }
            word if word.contains('/') => {
                let is_v6 = word.contains(':');
                let range = ipset::addresses(word, is_v6).ok_or_else(|| {
                    self.next -= 1;
                    self.expected(WHAT)
                })?;
                if range.0 != 0 || range.1 != if is_v6 { u128::MAX } else { 0xffff_ffff } {
                    conditions.ask_address(is_destination, is_v6, &Ranges::of([range]));
                } else {
                    conditions.families =
                        conditions.families.and(if is_v6 { Families::V6 } else { Families::V4 });
                }
            }
            word => {
                let address: IpAddr = word.parse().map_err(|_| {
                    self.next -= 1;
                    self.expected(WHAT)
                })?;
                // A standard list may name a host without a mask.
                let mask: Option<IpAddr> = self.words.get(self.next).and_then(|word| word.parse().ok());
                self.next += usize::from(mask.is_some());
                let mask = match mask {
                    Some(mask) if self.style == Style::Wildcard => !bits_of(mask) & 0xffff_ffff,
                    Some(mask) => bits_of(mask),
                    None => 0xffff_ffff,
                };
                let value = bits_of(address) & mask;
                match Ranges::under_mask(value, mask, 32, 1 << 12) {
                    Some(set) => conditions.ask_address(is_destination, false, &set),
                    None => {
                        conditions.families = conditions.families.and(Families::V4);
                        conditions.ask(TestKind::Address { is_destination, value, mask });
                    }
                }
            }
        }
        Ok(())
    }

    fn ports(&mut self, conditions: &mut Conditions, is_destination: bool) -> Result<(), LoadError> {
        const WHAT: &str = "a port from 0 to 65535, or a service such as www";
        let Some(&word) = self.words.get(self.next) else { return Ok(()) };
        let start = self.next;
        let one = |entry: &mut Self| {
            let word = entry.word(WHAT)?;
            port(word).ok_or_else(|| {
                entry.next -= 1;
                entry.expected(WHAT)
            })
        };
        let set = match word {
            "eq" | "neq" => {
                self.next += 1;
                let mut ports = Vec::from([one(self)?]);
                // IOS takes several ports.
                while self.words.get(self.next).is_some_and(|word| port(word).is_some()) {
                    ports.push(one(self)?);
                }
                let set = Ranges::of(ports.into_iter().map(|port| (port, port)));
                if word == "neq" { set.complement(0xffff) } else { set }
            }
            "lt" | "gt" => {
                self.next += 1;
                let port = one(self)?;
                if word == "lt" {
                    Ranges::of(port.checked_sub(1).map(|end| (0, end)))
                } else {
                    Ranges::of([(port + 1, 0xffff)])
                }
            }
            "range" => {
                self.next += 1;
                let (low, high) = (one(self)?, one(self)?);
                Ranges::of([(low.min(high), low.max(high))])
            }
            "object-group"
                if self
                    .words
                    .get(self.next + 1)
                    .is_some_and(|name| self.objects.ports.contains_key(*name)) =>
            {
                self.next += 2;
                Ranges::of(self.objects.ports[self.words[self.next - 1]].iter().copied())
            }
            _ => return Ok(()),
        };
        let allowed = Ranges::of(WITH_PORTS.map(|number| (u128::from(number), u128::from(number))));
        if !conditions.protocols.as_ref().is_some_and(|asked| allowed.covers(asked)) {
            self.next = start;
            return Err(self.expected("a protocol that has ports, such as tcp or udp, before these"));
        }
        conditions.ask_port(is_destination, &set);
        Ok(())
    }

    fn option(&mut self, conditions: &mut Conditions) -> Result<(), LoadError> {
        let start = self.next;
        let word = self.word("an option")?;
        let protocols = conditions.protocols.as_ref().and_then(|set| set.hull()).map(|(low, _)| low);
        match word {
            // They write to a log, and decide nothing.
            "log" | "log-input" => {
                while self.words.get(self.next).is_some_and(|word| {
                    word.parse::<u32>().is_ok()
                        || matches!(
                            *word,
                            "interval"
                                | "default"
                                | "disable"
                                | "informational"
                                | "warnings"
                                | "debugging"
                                | "notifications"
                        )
                }) {
                    self.next += 1;
                }
            }
            "inactive" => conditions.families = Families { v4: false, v6: false },
            "established" => {
                conditions.ask(Test::new(TestKind::TcpFlags { mask: 0x14, value: 0 }, true));
            }
            "fragments" => conditions.ask(TestKind::Fragment(4)),
            "dscp" => {
                let word = self.word("a code point")?;
                let value = decimal::<u8>(word).or_else(|| match word {
                    "default" => Some(0),
                    name => super::iptables::dscp_class(name),
                });
                let value = value.filter(|&value| value < 64).ok_or_else(|| {
                    self.next -= 1;
                    self.expected("a code point from 0 to 63, or a class such as ef")
                })?;
                conditions.ask(TestKind::Dscp(Ranges::exact(u128::from(value))));
            }
            "precedence" => {
                let word = self.word("a precedence")?;
                let names = [
                    "routine",
                    "priority",
                    "immediate",
                    "flash",
                    "flash-override",
                    "critical",
                    "internet",
                    "network",
                ];
                let value = decimal::<u8>(word)
                    .or_else(|| names.iter().position(|name| *name == word).map(|i| i as u8));
                let value = value.filter(|&value| value < 8).ok_or_else(|| {
                    self.next -= 1;
                    self.expected("a precedence from 0 to 7, or its name")
                })?;
                let low = u128::from(value) * 8;
                conditions.ask(TestKind::Dscp(Ranges::of([(low, low + 7)])));
            }
            "ack" | "fin" | "psh" | "rst" | "syn" | "urg" if protocols == Some(6) => {
                // Several of these: one of the flags is set.
                let mut mask = flag(word);
                while let Some(&more) = self.words.get(self.next).filter(|word| flag(word) != 0) {
                    mask |= flag(more);
                    self.next += 1;
                }
                conditions.ask(Test::new(TestKind::TcpFlags { mask, value: 0 }, true));
            }
            "match-all" | "match-any" => {
                let (mut set, mut clear) = (0, 0);
                while let Some(&more) =
                    self.words.get(self.next).filter(|word| word.starts_with(['+', '-']))
                {
                    let bit = flag(&more[1..]);
                    if bit == 0 {
                        return Err(self.expected("a flag such as +ack or -syn"));
                    }
                    if more.starts_with('+') {
                        set |= bit
                    } else {
                        clear |= bit
                    }
                    self.next += 1;
                }
                let test = if word == "match-all" {
                    Test::from(TestKind::TcpFlags { mask: set | clear, value: set })
                } else {
                    // One of them: not all of them otherwise.
                    Test::new(TestKind::TcpFlags { mask: set | clear, value: clear }, true)
                };
                conditions.ask(test);
            }
            "time-range"
            | "tos"
            | "ttl"
            | "option"
            | "reflect"
            | "timeout"
            | "flow-label"
            | "routing"
            | "mobility"
            | "dest-option"
            | "hbh"
            | "auth"
            | "undetermined-transport" => {
                let mut text = String::from(word);
                while let Some(&more) =
                    self.words.get(self.next).filter(|word| !matches!(**word, "log" | "log-input"))
                {
                    text.push(' ');
                    text.push_str(more);
                    self.next += 1;
                }
                // A reflexive entry matches like any other, and makes another list grow.
                if word != "reflect" {
                    conditions.ask(TestKind::Unknowable(text));
                }
            }
            name if matches!(protocols, Some(1 | 58)) => {
                let is_v6 = protocols == Some(58);
                let mut codes = icmp_name(name, is_v6);
                if let Some(kind) = decimal::<u8>(name) {
                    let code = self.words.get(self.next).and_then(|word| decimal::<u8>(word));
                    self.next += usize::from(code.is_some());
                    let kind = u128::from(kind) << 8;
                    codes = Some(code.map_or_else(
                        || Ranges::of([(kind, kind | 0xff)]),
                        |code| Ranges::exact(kind | u128::from(code)),
                    ));
                }
                let codes = codes.ok_or_else(|| {
                    self.next = start;
                    self.expected("an ICMP type such as echo or 8")
                })?;
                conditions.ask(TestKind::Icmp { is_v6, codes });
            }
            other => {
                let kind = LoadErrorKind::Refused(format!(
                    "unsupported option '{other}'; leave the entry out or say it otherwise"
                ));
                return Err(LoadError::new(self.number, self.line, self.at(start), kind));
            }
        }
        Ok(())
    }
}

fn flag(word: &str) -> u8 {
    match word {
        "fin" => 1,
        "syn" => 2,
        "rst" => 4,
        "psh" => 8,
        "ack" => 16,
        "urg" => 32,
        _ => 0,
    }
}

fn icmp_name(name: &str, is_v6: bool) -> Option<Ranges> {
    let known = match (name, is_v6) {
        ("echo", false) => "8",
        ("echo", true) => "128",
        ("unreachable", false) => "3",
        ("unreachable", true) => "1",
        ("net-unreachable", false) => "3/0",
        ("packet-too-big", false) => "3/4",
        ("administratively-prohibited", false) => "3/13",
        ("traceroute", false) => "30",
        ("information-request", false) => "15",
        ("information-reply", false) => "16",
        ("mask-request", false) => "17",
        ("mask-reply", false) => "18",
        ("nd-ns", true) => "135",
        ("nd-na", true) => "136",
        (name, _) => name,
    };
    icmp(known, is_v6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Assume, Packet};
    use flowloom_flow_key::FiveTuple;

    fn line(policy: &Policy, packet: &Packet<'_>) -> usize {
        let found = policy.first_match(packet, Assume::NoMatch);
        found.and_then(|id| policy.source(id)).map_or(0, |source| source.line)
    }

    fn tcp(source: [u8; 4], port: u16, flags: u8) -> Packet<'static> {
        let mut packet = Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 1024, port, 6));
        packet.tcp_flags = Some(flags);
        packet
    }

    #[test]
    fn wildcards_established_and_the_implicit_end_are_as_on_the_device() {
        let text = "!\nip access-list extended BORDER\n remark web\n 10 permit tcp 172.16.0.9 0.0.255.0 any eq www 8443\n\
                    \x20deny tcp any any range 6000 6063\n permit tcp any any established log\n permit icmp any any echo\n\
                    interface GigabitEthernet0\n ip address 192.0.2.1 255.255.255.0\n";
        let policy = load(text, None, LoadLimits::default()).unwrap();
        assert_eq!(line(&policy, &tcp([172, 16, 77, 9], 8443, 2)), 4);
        assert_eq!(line(&policy, &tcp([172, 16, 77, 8], 8443, 2)), 2, "the implicit end");
        assert_eq!(line(&policy, &tcp([172, 16, 77, 8], 8443, 0x10)), 6);
        assert_eq!(line(&policy, &tcp([8; 4], 6001, 0x10)), 5);
        let mut echo = tcp([8; 4], 0, 0);
        (echo.tuple.protocol, echo.icmp, echo.has_ports) = (1, Some((8, 0)), false);
        assert_eq!(line(&policy, &echo), 7);
        let six = Packet::new(FiveTuple::v6([1; 16], [2; 16], 9, 80, 6));
        assert_eq!(line(&policy, &six), 0, "a list of IPv4 decides no packet of IPv6");
    }

    #[test]
    fn numbered_lists_and_those_of_an_asa_are_read() {
        let text = "access-list 10 permit 10.0.0.0 0.255.255.255\naccess-list 10 deny any\n\
            access-list 101 deny udp any host 192.0.2.1 gt 1023\naccess-list 101 permit ip any any\n\
            object network dmz\n subnet 192.0.2.0 255.255.255.0\nobject-group service web tcp\n port-object eq https\n port-object range 8000 8010\n\
            access-list OUT remark x\naccess-list OUT extended permit tcp 10.0.0.0 255.0.0.0 object dmz object-group web log\n\
            access-list OUT extended deny ip any4 any6 inactive\naccess-list OUT extended deny ip any any\n";
        assert!(is_cisco(text));
        assert_eq!(lists(text), ["10", "101", "OUT"]);
        assert!(load(text, None, LoadLimits::default()).unwrap_err().to_string().contains("10, 101, OUT"));
        let of = |name: &str| load(text, Some(name), LoadLimits::default()).unwrap();
        assert_eq!(
            (line(&of("10"), &tcp([10, 1, 1, 1], 1, 2)), line(&of("10"), &tcp([11, 1, 1, 1], 1, 2))),
            (1, 2)
        );
        let mut udp = tcp([9; 4], 1024, 0);
        udp.tuple.protocol = 17;
        assert_eq!((line(&of("101"), &udp), line(&of("101"), &tcp([9; 4], 1024, 2))), (3, 4));
        assert_eq!(line(&of("OUT"), &tcp([10, 1, 1, 1], 8005, 2)), 11);
        assert_eq!(line(&of("OUT"), &tcp([10, 1, 1, 1], 8011, 2)), 13);
    }

    #[test]
    fn every_wrong_entry_is_said_with_its_place() {
        let text = "ip access-list extended A\n permit tcp any any eq nosuch\n permit xyz any any\n allow ip any any\n\
                    \x20permit icmp any any eq 5\n permit tcp any\n permit tcp any any strange\n";
        let errors = load(text, None, LoadLimits::default()).unwrap_err();
        let places: Vec<(usize, usize)> = errors.errors.iter().map(|e| (e.line, e.column)).collect();
        assert_eq!(places, [(2, 24), (3, 9), (4, 2), (5, 22), (6, 16), (7, 21)], "{errors}");
    }
}
