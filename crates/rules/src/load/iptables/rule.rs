//! One rule of `iptables-save`: its options, and its conditions on packets.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::super::ipset::{SetSide, Sets};
use super::super::words::mac;
use super::super::{LoadError, LoadErrorKind, has_word, protocol, reject};
use super::contents;
use super::names;
use super::protocols::Needed;
use super::targets::{self, Does};
use super::words::Word;
use super::writes;
use crate::firewall::{
    Conditions, ConnectionState, InterfacePattern, Ranges, Test, TestKind, WITH_PORTS, Write, WrittenField,
    WrittenValue,
};
use crate::rule::{ProtocolMatch, decimal};
use flowloom_flow_key::protocol::service;

/// A parsed rule line.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) conditions: Conditions,
    pub(super) does: Does,
    /// The name of the target or the chain.
    pub(super) target: Option<String>,
    /// Byte of the line at which the target begins.
    pub(super) target_at: usize,
    pub(super) writes: Vec<Write>,
    /// Conditions under which the match of TCP drops a later fragment at byte 8.
    pub(super) drops_second: Option<Conditions>,
    /// A match reads the transport header, which a later fragment does not have.
    pub(super) reads_header: bool,
}

/// Maximum number of ranges in a port list, which is also the kernel's.
const PORTS_MAX: usize = 15;

/// Matches whose options are supported; their names have no effect by themselves.
const READ: &str = "\
    mark connmark ttl hl tos ecn tcp udp udplite dccp sctp icmp icmp6 icmpv6 ipv6-icmp \
    multiport comment iprange mac length dscp state conntrack set standard";

/// Options of matches in [`READ`] that are not modelled.
const KNOWN: &str = "\
    --tcp-option --chunk-types --dccp-types --dccp-option --ecn-tcp-cwr --ecn-tcp-ece --return-nomatch \
    --update-counters --update-subcounters --packets-eq --packets-lt \
    --packets-gt --bytes-eq --bytes-lt --bytes-gt";

/// Matches that read the transport header, even without an option.
const OF_HEADER: &str = "tcp udp udplite dccp sctp icmp icmp6 icmpv6 ipv6-icmp multiport";

/// Matches that need an option, and the beginnings of their options. Without one,
/// `iptables-restore` refuses the rule, which would match every packet.
const NEED: [(&str, &[&str]); 13] = [
    ("mark", &["--mark"]),
    ("connmark", &["--mark"]),
    ("ttl", &["--ttl"]),
    ("hl", &["--hl"]),
    ("tos", &["--tos"]),
    ("state", &["--state"]),
    ("conntrack", &["--ct"]),
    ("multiport", &["--sport", "--source-port", "--dport", "--destination-port", "--port"]),
    ("iprange", &["--src-range", "--dst-range"]),
    ("mac", &["--mac-source"]),
    ("length", &["--length"]),
    ("dscp", &["--dscp"]),
    ("set", &["--match-set", "--set"]),
];

/// The line being read, and the position.
pub(super) struct Reader<'a> {
    pub(super) number: usize,
    pub(super) line: &'a str,
    pub(super) words: &'a [Word],
    pub(super) next: usize,
    pub(super) is_v6: bool,
    pub(super) sets: &'a Sets,
    pub(super) conditions: Conditions,
    /// Names of matches since the last supported one.
    module: Option<String>,
    does: Option<Does>,
    target: Option<String>,
    target_at: usize,
    ports_at: Option<usize>,
    /// The last match is that of connection marks, not of marks.
    pub(super) is_connmark: bool,
    reads_header: bool,
    /// Number of tests before the match of TCP.
    tcp_at: Option<usize>,
    writes: Vec<Write>,
    seen: Vec<&'static str>,
    /// Matches without an option so far, by their index in `NEED`, and their bytes.
    bare: Vec<(usize, usize)>,
    /// What the matches and options so far require.
    needed: Vec<Needed<'a>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        number: usize,
        line: &'a str,
        words: &'a [Word],
        is_v6: bool,
        sets: &'a Sets,
    ) -> Self {
        Self {
            number,
            line,
            words,
            next: 0,
            is_v6,
            sets,
            conditions: Conditions::default(),
            module: None,
            does: None,
            target: None,
            target_at: line.len(),
            ports_at: None,
            is_connmark: false,
            reads_header: false,
            tcp_at: None,
            writes: Vec::new(),
            seen: Vec::new(),
            bare: Vec::new(),
            needed: Vec::new(),
        }
    }

    fn error(&self, at: usize, kind: LoadErrorKind) -> LoadError {
        LoadError::new(self.number, self.line, at, kind)
    }

    fn refuse(&self, at: usize, text: String) -> LoadError {
        self.error(at, LoadErrorKind::Refused(text))
    }

    pub(super) fn expected(&self, at: usize, what: &'static str) -> LoadError {
        self.error(at, LoadErrorKind::Expected(what))
    }

    /// Returns the argument of an option.
    fn argument(&mut self, option: &Word, what: &'static str) -> Result<&'a Word, LoadError> {
        let end = option.at + option.text.len();
        let word = self.words.get(self.next).ok_or_else(|| self.expected(end, what))?;
        self.next += 1;
        Ok(word)
    }

    /// Returns the argument, which an exclamation mark may precede, as older iptables allowed.
    pub(super) fn negatable(
        &mut self,
        option: &Word,
        is_negated: &mut bool,
        what: &'static str,
    ) -> Result<&'a Word, LoadError> {
        let word = self.argument(option, what)?;
        if word.is_not() && !*is_negated {
            *is_negated = true;
            return self.argument(option, what);
        }
        Ok(word)
    }

    /// Refuses an option that occurs twice in a rule.
    fn once(&mut self, name: &'static str, at: usize) -> Result<(), LoadError> {
        if self.seen.contains(&name) {
            return Err(self.refuse(at, format!("a second {name} in one rule; write two rules")));
        }
        self.seen.push(name);
        Ok(())
    }

    /// Reads all options of the rule.
    pub(super) fn rule(mut self) -> Result<Rule, LoadError> {
        while self.next < self.words.len() {
            let mut is_negated = false;
            let mut word = &self.words[self.next];
            let start = word.at;
            if word.is_not() {
                is_negated = true;
                self.next += 1;
                word = self.words.get(self.next).ok_or_else(|| {
                    self.expected(self.line.len(), "an option after the exclamation mark")
                })?;
            }
            self.next += 1;
            let is_of = |name: usize| NEED[name].1.iter().any(|option| word.text.starts_with(option));
            self.bare.retain(|&(name, _)| !is_of(name));
            self.option(word, is_negated, start)?;
        }
        if let Some(&(name, at)) = self.bare.first() {
            let (name, options) = NEED[name];
            let text = format!("the match '{name}' has none of its options, such as {}", options[0]);
            return Err(self.refuse(at, text));
        }
        let asked = self.conditions.protocols.as_ref();
        if let Some((at, text)) = self.needed.iter().find_map(|needed| needed.missing(asked)) {
            return Err(self.refuse(at, text));
        }
        if let Some(at) = self.ports_at {
            let allowed = Ranges::new(WITH_PORTS.map(|number| (u128::from(number), u128::from(number))));
            if !self.conditions.protocols.as_ref().is_some_and(|asked| allowed.covers(asked)) {
                return Err(self.expected(at, "a protocol with ports: -p tcp, udp, udplite, sctp or dccp"));
            }
        }
        let drops_second = self.drops_second();
        let does =
            self.does.unwrap_or_else(|| Does::Passes(String::from("has no target, so it only counts")));
        let Self { conditions, target, target_at, mut writes, reads_header, .. } = self;
        let target_name = target.as_deref().unwrap_or_default();
        if target_name == "NOTRACK"
            || target_name == "CT" && self.words.iter().any(|word| word.text == "--notrack")
        {
            writes.push(Write::untrack());
        } else if target_name == "CT" {
            let value = WrittenValue::Unknown(String::from(target_name));
            writes.push(Write { field: WrittenField::State, value });
        }
        Ok(Rule { conditions, does, target, target_at, writes, drops_second, reads_header })
    }

    /// Returns whether an option, or its argument, uses the match of TCP.
    fn is_of_tcp(&self, option: &Word) -> bool {
        let argument = self.words.get(self.next).map(|word| word.text.as_str());
        let is_tcp = self.conditions.protocols.as_ref() == Some(&Ranges::exact(6));
        match option.text.as_str() {
            "-m" | "--match" => argument == Some("tcp"),
            "--syn" | "--tcp-flags" | "--tcp-option" => true,
            "--sport" | "--source-port" | "--dport" | "--destination-port" => is_tcp,
            _ => false,
        }
    }

    /// Returns the conditions that come before the match of TCP: those of the rule itself, and of
    /// earlier matches.
    fn drops_second(&self) -> Option<Conditions> {
        let tests_max = self.tcp_at?;
        let mut conditions = self.conditions.clone();
        (conditions.source_ports, conditions.destination_ports) = (None, None);
        let mut index = 0;
        conditions.tests.retain(|test| {
            index += 1;
            let is_own = matches!(
                test.kind,
                TestKind::Input(_) | TestKind::Output(_) | TestKind::Fragment(_) | TestKind::Address { .. }
            );
            let is_transport = test.names_transport();
            is_own || index <= tests_max && !is_transport
        });
        Some(conditions)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each option of iptables")]
    fn option(&mut self, option: &'a Word, mut not: bool, start: usize) -> Result<(), LoadError> {
        if self.is_of_tcp(option) {
            self.tcp_at.get_or_insert(self.conditions.tests.len());
        }
        self.needed.extend(Needed::parse(&option.text, start));
        match option.text.as_str() {
            "-s" | "--source" | "--src" => {
                self.once("-s", start)?;
                let word = self.negatable(option, &mut not, "an address")?;
                self.address(word, false, not)?;
            }
            "-d" | "--destination" | "--dst" => {
                self.once("-d", start)?;
                let word = self.negatable(option, &mut not, "an address")?;
                self.address(word, true, not)?;
            }
            // Matches of IPsec policies and of applications also have an option with this name.
            "--proto" if self.module.is_some() => self.other_option(option, not, start)?,
            "-p" | "--protocol" | "--proto" => {
                self.once("-p", start)?;
                let word = self.negatable(option, &mut not, "a protocol")?;
                self.protocol(word, not)?;
            }
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                let word = self.negatable(option, &mut not, "an interface")?;
                let names = Vec::from([InterfacePattern::new(&word.text, '+')]);
                let is_input = option.text.starts_with("-i") || option.text.starts_with("--in");
                let kind = if is_input { TestKind::Input(names) } else { TestKind::Output(names) };
                // The sign alone means every name.
                if word.text == "+" && !not {
                    return Ok(());
                }
                self.conditions.ask(Test::new(kind, not));
            }
            "-f" | "--fragment" => {
                if self.is_v6 {
                    return Err(self.refuse(start, String::from("-f is for IPv4; ip6tables has -m frag")));
                }
                self.conditions.ask(Test::new(TestKind::Fragment(12), not));
            }
            "-m" | "--match" => {
                let word = self.argument(option, "a match")?;
                self.needed.extend(Needed::parse(&word.text, word.at));
                self.reads_header |= has_word(OF_HEADER, &word.text);
                if let name @ ("u32" | "string") = word.text.as_str() {
                    self.module = None;
                    let options = self.words.get(self.next..).unwrap_or_default();
                    let contents::Read { words, test } = contents::read(name, options);
                    match test {
                        Some(test) => self.conditions.ask(test),
                        None => self.unknowable(contents::text_of(name, &options[..words])),
                    }
                    self.next += words;
                } else if has_word(READ, &word.text) {
                    self.module = None;
                    self.is_connmark = word.text == "connmark";
                    let name = NEED.iter().position(|(name, _)| *name == word.text);
                    self.bare.extend(name.map(|name| (name, word.at)));
                } else {
                    self.module = Some(word.text.clone());
                    self.unknowable(word.text.clone());
                }
            }
            "-j" | "--jump" => {
                let word = self.argument(option, "a target")?;
                self.target(word, false, start)?;
            }
            "-g" | "--goto" => {
                let word = self.argument(option, "a chain")?;
                self.target(word, true, start)?;
            }
            "-c" | "--set-counters" => {
                for _ in 0..2 {
                    self.argument(option, "packets and bytes")?;
                }
            }
            "-4" | "--ipv4" => {
                self.conditions.families = self.conditions.families.and(crate::firewall::Families::V4);
            }
            "-6" | "--ipv6" => {
                self.conditions.families = self.conditions.families.and(crate::firewall::Families::V6);
            }
            "--comment" => {
                self.argument(option, "a comment")?;
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                self.once("list of source ports", start)?;
                self.ports(option, false, not, start)?;
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                self.once("list of destination ports", start)?;
                self.ports(option, true, not, start)?;
            }
            "--ports" | "--port" => {
                let word = self.negatable(option, &mut not, "ports")?;
                let ports = self.port_list(word)?;
                self.ports_at.get_or_insert(start);
                self.conditions.ask(Test::new(TestKind::EitherPort(ports), not));
            }
            "--syn" => self.conditions.ask(Test::new(TestKind::TcpFlags { mask: 0x17, value: 2 }, not)),
            "--tcp-flags" => {
                let what = "flags such as SYN,ACK, ALL or NONE";
                let word = self.negatable(option, &mut not, what)?;
                let mask = names::tcp_flags(&word.text).ok_or_else(|| self.expected(word.at, what))?;
                let word = self.argument(option, what)?;
                let value = names::tcp_flags(&word.text).ok_or_else(|| self.expected(word.at, what))?;
                self.conditions.ask(Test::new(TestKind::TcpFlags { mask, value }, not));
            }
            "--icmp-type" | "--icmpv6-type" => {
                let is_v6 = option.text == "--icmpv6-type";
                let word = self.negatable(option, &mut not, "an ICMP type")?;
                // The match of iptables takes this type of IPv4 for any.
                let is_any = !is_v6 && matches!(word.text.split('/').next(), Some("255"));
                let codes = names::icmp(if is_any { "any" } else { &word.text }, is_v6)
                    .filter(|_| !is_v6 || word.text != "any")
                    .ok_or_else(|| self.expected(word.at, "an ICMP type: a name, 8, or 3/4"))?;
                self.conditions.ask(Test::new(TestKind::Icmp { is_v6, codes }, not));
            }
            "--state" | "--ctstate" => self.states(option, not)?,
            "--src-range" | "--dst-range" => {
                let is_destination = option.text == "--dst-range";
                let word = self.negatable(option, &mut not, "a range of addresses")?;
                let wrong = || self.expected(word.at, "two addresses such as 192.0.2.1-192.0.2.9");
                let (low, high) = word.text.split_once('-').unwrap_or((&word.text, &word.text));
                let (low, high) = (low.parse().map_err(|_| wrong())?, high.parse().map_err(|_| wrong())?);
                let is_v6 = IpAddr::is_ipv6(&low);
                if is_v6 != IpAddr::is_ipv6(&high) {
                    return Err(wrong());
                }
                let set = Ranges::new([(bits(low), bits(high))]);
                if set.is_empty() {
                    return Err(self.expected(word.at, "a range that ends after its start"));
                }
                self.ask_address(is_destination, is_v6, &set, not);
            }
            "--mac-source" => {
                let word = self.negatable(option, &mut not, "a MAC address")?;
                let value = mac(&word.text)
                    .ok_or_else(|| self.expected(word.at, "a MAC address such as 00:11:22:33:44:55"))?;
                self.conditions.ask(Test::new(TestKind::SourceMac { value, mask: (1 << 48) - 1 }, not));
            }
            "--length" | "--dscp" | "--dscp-class" | "--mark" | "--ttl" | "--ttl-eq" | "--ttl-lt"
            | "--ttl-gt" | "--hl" | "--hl-eq" | "--hl-lt" | "--hl-gt" | "--tos" | "--ecn-ip-ect" => {
                self.number(option, not)?;
            }
            "--match-set" => self.match_set(option, not)?,
            "--reject-with" => {
                let word = self.argument(option, "an answer such as tcp-reset")?;
                let number = reject::of_iptables(&word.text)
                    .ok_or_else(|| self.expected(word.at, "an answer such as tcp-reset"))?;
                if let Some(Does::Decide(_, value)) = &mut self.does {
                    *value = number;
                }
            }
            text if self.target.as_deref().is_some_and(|target| writes::is_of(target, text)) => {
                let target = self.target.clone().unwrap_or_default();
                let arguments = self.rest_of_option();
                let later = self.words.get(self.next..).unwrap_or_default();
                self.writes.extend(writes::read(&target, text, &arguments, later, self.is_v6));
            }
            // Options of targets, which follow the target.
            text if self.does.is_some() && self.module.is_none() && text.starts_with("--") => {
                let target = self.target.as_deref().unwrap_or_default();
                if matches!(target, "ACCEPT" | "DROP" | "RETURN") {
                    return Err(self.refuse(start, format!("the target {target} has no option '{text}'")));
                }
                self.rest_of_option();
            }
            text if text.starts_with("--") => self.other_option(option, not, start)?,
            _ if option.is_option() => {
                return Err(self.refuse(
                    start,
                    format!("unsupported option '{}'; remove the rule or rewrite it", option.text),
                ));
            }
            _ => {
                return Err(self.refuse(start, format!("'{}' belongs to no option", option.text)));
            }
        }
        Ok(())
    }

    /// Skips the arguments of an option, up to the next option.
    fn rest_of_option(&mut self) -> Vec<&'a str> {
        let mut arguments = Vec::new();
        while let Some(word) = self.words.get(self.next).filter(|word| !word.is_option() && !word.is_not())
        {
            arguments.push(word.text.as_str());
            self.next += 1;
        }
        arguments
    }

    /// Reads an option of a match that cannot be evaluated for a packet.
    fn other_option(&mut self, option: &'a Word, not: bool, start: usize) -> Result<(), LoadError> {
        let arguments = self.rest_of_option();
        let mut text = format!("{}{}", if not { "! " } else { "" }, option.text);
        for argument in arguments {
            text.push(' ');
            text.push_str(argument);
        }
        match self.module.take() {
            // The options of a match begin with its name.
            Some(module) => {
                self.conditions
                    .tests
                    .retain(|test| !matches!(&test.kind, TestKind::Unknowable(text) if *text == module));
                let joined = format!("{module} {text}");
                self.unknowable(joined.clone());
                self.module = Some(joined);
            }
            // These are known options of matches that are handled elsewhere.
            None if option.text.starts_with("--ct") || has_word(KNOWN, &option.text) => {
                self.unknowable(text);
            }
            None => {
                return Err(self.refuse(
                    start,
                    format!(
                        "unsupported option '{}': no match that precedes it has this option",
                        option.text
                    ),
                ));
            }
        }
        Ok(())
    }

    fn unknowable(&mut self, text: String) {
        self.conditions.ask(TestKind::Unknowable(text));
    }

    fn target(&mut self, word: &Word, is_goto: bool, start: usize) -> Result<(), LoadError> {
        if self.does.is_some() {
            return Err(self.refuse(start, String::from("a second target in one rule; write two rules")));
        }
        self.target_at = word.at;
        self.target = Some(word.text.clone());
        self.module = None;
        self.does = Some(if is_goto { Does::Goto(word.text.clone()) } else { targets::effect(&word.text) });
        Ok(())
    }

    fn protocol(&mut self, word: &Word, not: bool) -> Result<(), LoadError> {
        let named = match word.text.as_str() {
            "0" => Some(ProtocolMatch::ANY), // As in the kernel: 0 means every protocol here.
            name => protocol(&name.to_ascii_lowercase()),
        };
        let wrong = || self.expected(word.at, "a protocol such as tcp or 47");
        let named = named.filter(|_| !word.text.contains('/')).ok_or_else(wrong)?;
        if named == ProtocolMatch::ANY {
            if not {
                return Err(self.refuse(
                    word.at,
                    String::from(
                        "the negation of 'all' matches no packet; remove \
                        the rule",
                    ),
                ));
            }
            return Ok(());
        }
        let set = Ranges::exact(u128::from(named.value()));
        self.conditions.ask_protocol(&if not { set.complement(255) } else { set });
        Ok(())
    }

    fn ask_address(&mut self, is_destination: bool, is_v6: bool, set: &Ranges, not: bool) {
        let all = if is_v6 { u128::MAX } else { 0xffff_ffff };
        let set = if not { set.complement(all) } else { set.clone() };
        self.conditions.ask_address(is_destination, is_v6, &set);
    }

    fn address(&mut self, word: &Word, is_destination: bool, not: bool) -> Result<(), LoadError> {
        let mut all: Option<(bool, Ranges)> = None;
        let mut at = word.at;
        for part in word.text.split(',') {
            let (address, length) = part.split_once('/').map_or((part, None), |(a, l)| (a, Some(l)));
            let wrong = || self.expected(at, "an address or a prefix such as 192.0.2.0/24");
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let is_v6 = address.is_ipv6();
            let bits_max: u32 = if is_v6 { 128 } else { 32 };
            let full = u128::MAX >> (128 - bits_max);
            let mask = match length {
                None => full,
                Some(text) => match text.parse::<IpAddr>() {
                    Ok(mask) if mask.is_ipv6() == is_v6 => bits(mask),
                    Ok(_) => return Err(wrong()),
                    Err(_) => {
                        let length: u32 = decimal(text).ok_or_else(wrong)?;
                        if length > bits_max {
                            let error =
                                crate::rule::RuleError::PrefixTooLong { length, length_max: bits_max };
                            return Err(self.error(at, LoadErrorKind::Rule(error)));
                        }
                        full & !full.checked_shr(length).unwrap_or(0)
                    }
                },
            };
            let value = bits(address) & mask;
            match Ranges::under_mask(value, mask, bits_max, 1 << 12) {
                Some(ranges) => {
                    if all.as_ref().is_some_and(|(other, _)| *other != is_v6) {
                        return Err(self.expected(at, "addresses of one family in one list"));
                    }
                    let joined = all.map_or_else(|| ranges.clone(), |(_, other)| other.union(&ranges));
                    all = Some((is_v6, joined));
                }
                None if !word.text.contains(',') => {
                    let families =
                        if is_v6 { crate::firewall::Families::V6 } else { crate::firewall::Families::V4 };
                    self.conditions.families = self.conditions.families.and(families);
                    self.conditions.ask(Test::new(TestKind::Address { is_destination, value, mask }, not));
                    return Ok(());
                }
                None => {
                    let text = String::from(
                        "a mask with many holes in a list; write a separate rule \
                        for it",
                    );
                    return Err(self.refuse(at, text));
                }
            }
            at += part.len() + 1;
        }
        if let Some((is_v6, set)) = all {
            self.ask_address(is_destination, is_v6, &set, not);
        }
        Ok(())
    }

    fn ports(
        &mut self,
        option: &'a Word,
        is_destination: bool,
        mut not: bool,
        start: usize,
    ) -> Result<(), LoadError> {
        let word = self.negatable(option, &mut not, "a port, or a range such as 1:1023")?;
        let set = self.port_list(word)?;
        self.ports_at.get_or_insert(start);
        self.conditions.ask_port(is_destination, &if not { set.complement(0xffff) } else { set });
        Ok(())
    }

    fn port_list(&self, word: &Word) -> Result<Ranges, LoadError> {
        let mut ranges = Vec::new();
        let mut at = word.at;
        for part in word.text.split(',') {
            if ranges.len() == PORTS_MAX {
                let text = "a list of more than 15 ports, the limit of iptables; write another rule";
                return Err(self.refuse(at, text.to_owned()));
            }
            // A missing end of a range is the first or last of all ports.
            let (low, high) = part.split_once(':').unwrap_or((part, part));
            let number = |text: &str, missing: u16| {
                if text.is_empty() && part.contains(':') {
                    Some(missing)
                } else {
                    decimal(text).or_else(|| service(text))
                }
            };
            let ends: Option<(u16, u16)> = number(low, 0).zip(number(high, 0xffff));
            let what = "a port from 0 to 65535, the name of one such as ssh, or a range such as 1:1023";
            let (low, high) = ends.ok_or_else(|| self.expected(at, what))?;
            if low > high {
                let error = crate::rule::RuleError::ReversedRange { low, high };
                return Err(self.error(at, LoadErrorKind::Rule(error)));
            }
            ranges.push((u128::from(low), u128::from(high)));
            at += part.len() + 1;
        }
        Ok(Ranges::new(ranges))
    }

    fn states(&mut self, option: &'a Word, mut not: bool) -> Result<(), LoadError> {
        let what = "states such as NEW,ESTABLISHED";
        let word = self.negatable(option, &mut not, what)?;
        let mut states = 0;
        let mut at = word.at;
        for name in word.text.split(',') {
            if matches!(name.to_ascii_uppercase().as_str(), "SNAT" | "DNAT") {
                let text = format!("{}{} {}", if not { "! " } else { "" }, option.text, word.text);
                self.unknowable(text);
                return Ok(());
            }
            states |= ConnectionState::from_name(name).ok_or_else(|| self.expected(at, what))?.bit();
            at += name.len() + 1;
        }
        self.conditions.ask(Test::new(TestKind::State(states), not));
        Ok(())
    }

    fn match_set(&mut self, option: &'a Word, mut not: bool) -> Result<(), LoadError> {
        let name = self.negatable(option, &mut not, "the name of a set")?;
        let flags = self.argument(option, "src, dst, or a comma-separated list of these")?;
        let sides: Option<Vec<SetSide>> = flags
            .text
            .split(',')
            .map(|flag| match flag {
                "src" => Some(SetSide::Source),
                "dst" => Some(SetSide::Destination),
                _ => None,
            })
            .collect();
        let Some(sides) = sides else {
            return Err(self.expected(flags.at, "src, dst, or a comma-separated list of these"));
        };
        if let Some(conditions) = self.sets.test(&name.text, &sides, not) {
            self.conditions = self.conditions.and(&conditions);
        } else {
            let not = if not { "! " } else { "" };
            self.unknowable(format!("{not}set {} {}", name.text, flags.text));
        }
        Ok(())
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
