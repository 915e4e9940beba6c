//! An entry of an access list: its conditions and its action.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::super::iptables::{dscp_class, icmp};
use super::super::{LoadError, LoadErrorKind, ipset, protocol};
use super::ports::port;
use super::{Objects, is_short};
use crate::firewall::{Conditions, Families, HeaderField, Ranges, Test, TestKind, WITH_PORTS, bits_of};
use crate::rule::{Action, decimal};

/// The notation of the addresses of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Bits set in the mask are ignored.
    Wildcard,
    /// Bits set in the mask are compared.
    Netmask,
}

/// An entry of a list.
pub(super) struct Entry<'a> {
    pub(super) number: usize,
    pub(super) line: &'a str,
    words: &'a [&'a str],
    /// The words in lower case, as keywords are compared.
    keys: &'a [&'a str],
    pub(super) next: usize,
    pub(super) style: Style,
    pub(super) is_v6: bool,
    pub(super) objects: &'a Objects,
}

impl<'a> Entry<'a> {
    /// Returns an entry of which nothing is read, with addresses under wildcard masks.
    /// The words come as they are and in lower case.
    pub(super) fn new(
        number: usize,
        line: &'a str,
        (words, keys): (&'a [&'a str], &'a [&'a str]),
        objects: &'a Objects,
    ) -> Self {
        Self { number, line, words, keys, next: 0, style: Style::Wildcard, is_v6: false, objects }
    }

    /// Reads a protocol with its ports or its ICMP type.
    pub(super) fn service(mut self) -> Result<Conditions, LoadError> {
        let mut conditions = Conditions::default();
        if self.take("tcp-udp") {
            conditions.ask_protocol(&Ranges::new([(6, 6), (17, 17)]));
        } else {
            self.protocol(&mut conditions)?;
        }
        while self.next < self.words.len() {
            let start = self.next;
            let is_destination = !self.take("source");
            self.take("destination");
            self.ports(&mut conditions, is_destination)?;
            if self.next == start {
                self.option(&mut conditions)?;
            }
        }
        Ok(conditions)
    }

    /// Returns the error about an object that the last word names.
    fn missing(&self) -> LoadError {
        let at = self.next - 1;
        self.objects.missing(self.words[at], (self.number, self.line), self.at(at))
    }

    pub(super) fn take(&mut self, word: &str) -> bool {
        self.take_short(word, word.len())
    }

    /// Reads a keyword or an abbreviation of it with so many letters, if it is next.
    pub(super) fn take_short(&mut self, word: &str, letters: usize) -> bool {
        let found = self.keys.get(self.next).is_some_and(|key| is_short(key, word, letters));
        self.next += usize::from(found);
        found
    }

    /// Returns the first byte of a word.
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

    /// Reads a word in lower case.
    fn key(&mut self, what: &'static str) -> Result<&'a str, LoadError> {
        self.word(what)?;
        Ok(self.keys[self.next - 1])
    }

    /// Returns the number that the entry states, which orders it within its list.
    pub(super) fn sequence(&self) -> Option<u32> {
        let word = self.keys.get(self.next)?;
        let word = if *word == "sequence" { self.keys.get(self.next + 1)? } else { word };
        decimal(word)
    }

    /// Reads the entry; returns `None` for a remark.
    pub(super) fn read(mut self, is_standard: bool) -> Result<Option<(Conditions, Action)>, LoadError> {
        self.take("sequence");
        self.next +=
            usize::from(self.keys.get(self.next).is_some_and(|word| decimal::<u32>(word).is_some()));
        let action = match self.key("permit, deny or remark")? {
            word if is_short(word, "permit", 3) => Action::Accept,
            word if is_short(word, "deny", 3) => Action::Deny,
            word if is_short(word, "remark", 3) => return Ok(None),
            // The description of a list, and the counters of NX-OS.
            "description" | "statistics" => return Ok(None),
            "evaluate" => {
                self.next -= 1;
                let message = "unsupported entry 'evaluate': a reflexive list changes while packets \
                    flow; remove it";
                let kind = LoadErrorKind::Refused(message.to_owned());
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
        let word = self.key("a protocol such as tcp or ip")?;
        let number = match word {
            "object" | "object-group" => {
                let name = self.word("the name of an object")?;
                if let Some(protocols) = self.objects.protocols.get(name) {
                    conditions.ask_protocol(&Ranges::new(protocols.iter().copied()));
                } else if let Some(services) = self.objects.services.get(name) {
                    conditions.ask(TestKind::AnyOf(services.clone()));
                } else {
                    return Err(self.missing());
                }
                return Ok(());
            }
            "ip" | "ipv4" | "ipv6" => {
                if word == "ipv6" {
                    conditions.families = Families::V6;
                }
                return Ok(());
            }
            "ahp" => 51,
            "igrp" => 9,
            "ipsec" => 50,
            "pptp" => 47,
            "snp" => 109,
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
        let word = self.key(WHAT)?;
        match word {
            "any" => return Ok(()),
            "any4" => conditions.families = conditions.families.and(Families::V4),
            "any6" => conditions.families = conditions.families.and(Families::V6),
            "host" => {
                let word = self.word("an address")?;
                let address = self.objects.address(word).ok_or_else(|| {
                    self.next -= 1;
                    self.expected("an address")
                })?;
                conditions.ask_address(is_destination, address.is_ipv6(), &Ranges::exact(bits_of(address)));
            }
            "interface" => {
                let name = self.word("the name of an interface")?;
                if let Some(address) = self.objects.interfaces.get(name) {
                    conditions.ask_address(
                        is_destination,
                        address.is_ipv6(),
                        &Ranges::exact(bits_of(*address)),
                    );
                } else {
                    // The interface gets its address elsewhere.
                    conditions.ask(TestKind::Unknowable(format!("the address of interface {name}")));
                }
            }
            "object" | "object-group" => {
                let name = self.word("the name of an object")?;
                let Some(found) = self.objects.networks.get(name) else { return Err(self.missing()) };
                let family = |is_v6: bool| {
                    Ranges::new(
                        found.iter().filter(|one| one.0 == is_v6).map(|&(_, low, high)| (low, high)),
                    )
                };
                let (v4, v6) = (family(false), family(true));
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
                    conditions.ask_address(is_destination, is_v6, &Ranges::new([range]));
                } else {
                    conditions.families =
                        conditions.families.and(if is_v6 { Families::V6 } else { Families::V4 });
                }
            }
            _ => {
                let address = self.objects.address(self.words[self.next - 1]).ok_or_else(|| {
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
                if let Some(set) = Ranges::under_mask(value, mask, 32, 1 << 12) {
                    conditions.ask_address(is_destination, false, &set);
                } else {
                    conditions.families = conditions.families.and(Families::V4);
                    conditions.ask(TestKind::Address { is_destination, value, mask });
                }
            }
        }
        Ok(())
    }

    fn ports(&mut self, conditions: &mut Conditions, is_destination: bool) -> Result<(), LoadError> {
        const WHAT: &str = "a port from 0 to 65535, or a service such as www";
        let Some(&word) = self.keys.get(self.next) else { return Ok(()) };
        let start = self.next;
        let one = |entry: &mut Self| {
            let word = entry.key(WHAT)?;
            port(word).ok_or_else(|| {
                entry.next -= 1;
                entry.expected(WHAT)
            })
        };
        let set = match word {
            "eq" | "neq" => {
                self.next += 1;
                let mut ports = Vec::from([one(self)?]);
                // IOS accepts several ports.
                while self.keys.get(self.next).is_some_and(|word| port(word).is_some()) {
                    ports.push(one(self)?);
                }
                let set = Ranges::new(ports.into_iter().map(|port| (port, port)));
                if word == "neq" { set.complement(0xffff) } else { set }
            }
            "lt" | "gt" => {
                self.next += 1;
                let port = one(self)?;
                if word == "lt" {
                    Ranges::new(port.checked_sub(1).map(|end| (0, end)))
                } else {
                    Ranges::new([(port + 1, 0xffff)])
                }
            }
            "range" => {
                self.next += 1;
                let (low, high) = (one(self)?, one(self)?);
                Ranges::new([(low.min(high), low.max(high))])
            }
            "object-group"
                if self
                    .words
                    .get(self.next + 1)
                    .is_some_and(|name| self.objects.ports.contains_key(*name)) =>
            {
                self.next += 2;
                Ranges::new(self.objects.ports[self.words[self.next - 1]].iter().copied())
            }
            _ => return Ok(()),
        };
        let allowed = Ranges::new(WITH_PORTS.map(|number| (u128::from(number), u128::from(number))));
        if !conditions.protocols.as_ref().is_some_and(|asked| allowed.covers(asked)) {
            self.next = start;
            return Err(self.expected("a protocol with ports, such as tcp or udp, before the ports"));
        }
        conditions.ask_port(is_destination, &set);
        Ok(())
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each option of an entry")]
    fn option(&mut self, conditions: &mut Conditions) -> Result<(), LoadError> {
        let start = self.next;
        let word = self.key("an option")?;
        let protocols = conditions.protocols.as_ref().and_then(Ranges::hull).map(|(low, _)| low);
        match word {
            // These options write to a log and do not affect the decision.
            "log" | "log-input" => {
                while self.keys.get(self.next).is_some_and(|word| {
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
            "fragments" => conditions.ask(TestKind::Fragment(12)),
            "dscp" => {
                let word = self.key("a code point")?;
                let value = decimal::<u8>(word).or_else(|| match word {
                    "default" => Some(0),
                    name => dscp_class(name),
                });
                let value = value.filter(|&value| value < 64).ok_or_else(|| {
                    self.next -= 1;
                    self.expected("a code point from 0 to 63, or a class such as ef")
                })?;
                conditions.ask(TestKind::Number(HeaderField::Dscp, Ranges::exact(u128::from(value))));
            }
            "precedence" => {
                let word = self.key("a precedence")?;
                let names = [
                    "routine", "priority", "immediate", "flash", "flash-override", "critical", "internet",
                    "network",
                ];
                let value = decimal::<u8>(word)
                    .or_else(|| names.iter().position(|name| *name == word).map(|i| i as u8));
                let value = value.filter(|&value| value < 8).ok_or_else(|| {
                    self.next -= 1;
                    self.expected("a precedence from 0 to 7, or its name")
                })?;
                let low = u128::from(value) * 8;
                conditions.ask(TestKind::Number(HeaderField::Dscp, Ranges::new([(low, low + 7)])));
            }
            "ack" | "fin" | "psh" | "rst" | "syn" | "urg" if protocols == Some(6) => {
                // Several of these mean: one of the flags is set.
                let mut mask = flag(word);
                while let Some(&more) = self.keys.get(self.next).filter(|word| flag(word) != 0) {
                    mask |= flag(more);
                    self.next += 1;
                }
                conditions.ask(Test::new(TestKind::TcpFlags { mask, value: 0 }, true));
            }
            "match-all" | "match-any" => {
                let (mut set, mut clear) = (0, 0);
                while let Some(&more) = self.keys.get(self.next).filter(|word| word.starts_with(['+', '-']))
                {
                    let bit = flag(&more[1..]);
                    if bit == 0 {
                        return Err(self.expected("a flag such as +ack or -syn"));
                    }
                    if more.starts_with('+') {
                        set |= bit;
                    } else {
                        clear |= bit;
                    }
                    self.next += 1;
                }
                let test = if word == "match-all" {
                    Test::from(TestKind::TcpFlags { mask: set | clear, value: set })
                } else {
                    // Any of them, as the negation of "none of them".
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
                    self.keys.get(self.next).filter(|word| !matches!(**word, "log" | "log-input"))
                {
                    text.push(' ');
                    text.push_str(more);
                    self.next += 1;
                }
                // A reflexive entry matches like any other, and adds entries to another list.
                if word != "reflect" {
                    conditions.ask(TestKind::Unknowable(text));
                }
            }
            "object-group" if matches!(protocols, Some(1 | 58)) => {
                let name = self.word("the name of an object")?;
                let Some(all) = self.objects.icmp.get(name) else { return Err(self.missing()) };
                let ranges = all.iter().flat_map(|codes| codes.as_slice().iter().copied());
                conditions.ask(TestKind::Icmp { is_v6: protocols == Some(58), codes: Ranges::new(ranges) });
            }
            name if matches!(protocols, Some(1 | 58)) => {
                let is_v6 = protocols == Some(58);
                let code = self.keys.get(self.next).and_then(|word| decimal::<u8>(word));
                let codes = match (decimal::<u8>(name), code) {
                    (Some(kind), Some(code)) => {
                        self.next += 1;
                        Some(Ranges::exact(u128::from(kind) << 8 | u128::from(code)))
                    }
                    _ => icmp_codes(name, is_v6),
                };
                let codes = codes.ok_or_else(|| {
                    self.next = start;
                    self.expected("an ICMP type such as echo or 8")
                })?;
                conditions.ask(TestKind::Icmp { is_v6, codes });
            }
            other => {
                let kind = LoadErrorKind::Refused(format!(
                    "unsupported option '{other}'; remove the entry or rewrite it"
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

/// Returns the codes of an ICMP type, which is a name or a number.
pub(super) fn icmp_codes(name: &str, is_v6: bool) -> Option<Ranges> {
    if let Some(kind) = decimal::<u8>(name) {
        let kind = u128::from(kind) << 8;
        return Some(Ranges::new([(kind, kind | 0xff)]));
    }
    let known = match (name, is_v6) {
        ("echo", false) => "8",
        ("echo", true) => "128",
        ("unreachable", false) => "3",
        ("unreachable", true) => "1",
        ("net-unreachable", false) => "3/0",
        ("packet-too-big", false) => "3/4",
        ("host-isolated", false) => "3/8",
        ("dod-net-prohibited", false) => "3/9",
        ("dod-host-prohibited", false) => "3/10",
        ("net-tos-unreachable", false) => "3/11",
        ("host-tos-unreachable", false) => "3/12",
        ("administratively-prohibited", false) => "3/13",
        ("host-precedence-unreachable", false) => "3/14",
        ("precedence-unreachable", false) => "3/15",
        ("net-redirect", false) => "5/0",
        ("net-tos-redirect", false) => "5/2",
        ("host-tos-redirect", false) => "5/3",
        ("alternate-address", false) => "6",
        ("ttl-exceeded", false) => "11/0",
        ("reassembly-timeout", false) => "11/1",
        ("general-parameter-problem", false) => "12/0",
        ("option-missing", false) => "12/1",
        (name, false) if name.starts_with("no-") && name.ends_with("-for-option") => "12/2",
        ("conversion-error", false) => "31",
        ("mobile-redirect", false) => "32",
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
