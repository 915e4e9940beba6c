//! Names of flows: as reports print them, and as users select flows by them.
//!
//! ```text
//!  tcp 10.0.0.1:40000 > 192.0.2.1:443 vlan 5      a key: top --by conversation, inspect --top
//!  icmp 10.0.0.1 > 192.0.2.1 type 8 id 7
//!  10.0.0.1 → 192.0.2.1 port 443 tcp              from a source: compare
//!  10.0.0.1 > 192.0.2.1   10.0.0.1   tcp/443   ipv4/tcp/443   the other keys of top
//! ```

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use flowloom::apps::accounting::AccountingRecord;
use flowloom::flow_key::protocol::{ESP, ICMP, ICMPV6, WITH_PORTS};
use flowloom::flow_key::{Direction, FlowKey};
use flowloom::packet::icmp::has_identifier;
use flowloom::record::{PROTOCOL_NAMES, nearest, protocol_name};

use flowloom_command::args::parse;

/// The largest zone that is the id of one VLAN, and the largest that is those of two.
const VLANS_MAX: [u32; 2] = [0xFFF, 0xFF_FFFF];

/// Returns whether a protocol has ports.
pub(crate) fn has_ports(protocol: u8) -> bool {
    WITH_PORTS.contains(&protocol)
}

/// Returns the name of a protocol that stands alone, where `ipv4` and `ipv6` are families.
pub(crate) fn protocol_alone(number: u8) -> String {
    match protocol_name(number) {
        Some(name) if !matches!(name, "ipv4" | "ipv6") => name.to_owned(),
        _ => format!("protocol {number}"),
    }
}

/// Returns whether the name of a flow begins with the lower end of its key, if that end sent the
/// first packet or not. An ICMP flow begins with the end that asks.
pub(crate) fn begins_low(key: &FlowKey, is_low_first: bool) -> bool {
    if key.message() == 0 { is_low_first } else { key.query_direction() == Direction::LowToHigh }
}

/// Returns the name of a key, whose lower end is the first or not. `tells_vlan` says of a key
/// without VLAN that it has none.
pub(crate) fn name_of_key(key: &FlowKey, is_low_first: bool, tells_vlan: bool) -> String {
    let protocol = key.protocol();
    let low = SocketAddr::new(key.low_address(), key.low_port());
    let high = SocketAddr::new(key.high_address(), key.high_port());
    let (one, other) = if begins_low(key, is_low_first) { (low, high) } else { (high, low) };
    let title = protocol_name(protocol).map_or_else(|| protocol.to_string(), str::to_owned);
    let mut words = vec![if has_ports(protocol) {
        format!("{title} {one} > {other}")
    } else {
        format!("{title} {} > {}", one.ip(), other.ip())
    }];
    if matches!(protocol, ICMP | ICMPV6) {
        let [kind, code] = key.message().to_be_bytes();
        words.push(match (key.message(), code) {
            (0, _) => String::from("type none"),
            (_, 0) => format!("type {kind}"),
            _ => format!("type {kind}/{code}"),
        });
        if key.message() != 0 && has_identifier(protocol, kind) {
            words.push(format!("id {}", one.port()));
        }
    }
    let spi = u32::from(one.port()) << 16 | u32::from(other.port());
    if protocol == ESP && spi != 0 {
        words.push(format!("spi {spi}"));
    }
    match key.zone() {
        0 if tells_vlan => words.push(String::from("vlan none")),
        0 => {}
        zone if zone <= VLANS_MAX[0] => words.push(format!("vlan {zone}")),
        zone if zone <= VLANS_MAX[1] => {
            words.push(format!("vlan {}/{}", zone >> 12, zone & VLANS_MAX[0]));
        }
        zone => words.push(format!("zone {zone}")),
    }
    words.join(" ")
}

/// What a name says of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowName {
    community_id: Option<String>,
    is_v6: Option<bool>,
    protocol: Option<u8>,
    /// At most two addresses, with or without a port.
    ends: Vec<(IpAddr, Option<u16>)>,
    /// The first end is the source.
    is_directed: bool,
    destination_port: Option<u16>,
    message: Option<u16>,
    identifier: Option<u16>,
    spi: Option<u32>,
    zone: Option<u32>,
}

/// What an error says of all forms.
const FORMS: &str = "write a Community ID (1:…=), or protocol and ends as reports print them: 'tcp \
    10.0.0.1:40000 192.0.2.1:443', 'icmp 10.0.0.1 192.0.2.1', '10.0.0.1', 'udp/53'; commas in place of spaces need no quotes";

/// Reads a whole number, also in hexadecimal.
fn number<T: FromStr + TryFrom<u32>>(text: &str) -> Option<T> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok()?.try_into().ok(),
        _ => parse::unsigned(text),
    }
}

fn protocol(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let name = if lower == "icmpv6" || lower == "icmp6" { "ipv6-icmp" } else { &lower };
    let named = PROTOCOL_NAMES.iter().find(|word| word.name == name).map(|word| word.code);
    named.or_else(|| parse::unsigned(text))
}

fn vlans(text: &str) -> Option<u32> {
    let id = |text: &str| parse::unsigned::<u32>(text).filter(|id| *id <= VLANS_MAX[0]);
    match text.split_once('/') {
        _ if text == "none" => Some(0),
        Some((outer, inner)) => Some(id(outer)? << 12 | id(inner)?),
        None => id(text),
    }
}

fn message(text: &str) -> Option<u16> {
    if text == "none" {
        return Some(0);
    }
    let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
    Some(u16::from_be_bytes([parse::unsigned(kind)?, parse::unsigned(code)?]))
}

impl FromStr for FlowName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // Twenty bytes in base64.
        if text.strip_prefix("1:").is_some_and(|id| id.len() == 28 && id.ends_with('=')) {
            return Ok(Self { community_id: Some(text.to_owned()), ..Self::default() });
        }
        let mut name = Self::default();
        let known = name.read(text);
        if known.is_some() && name != Self::default() {
            return Ok(name);
        }
        let words: Vec<&str> = PROTOCOL_NAMES.iter().map(|word| word.name).collect();
        let meant = text.split([' ', '/']).find_map(|word| {
            let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic()) && protocol(word).is_none();
            nearest(word, &words).filter(|_| is_name)
        });
        let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant}?"));
        Err(format!(
            "'{text}' is not a flow{meant}\n  {FORMS}\n  --where selects by all else, for example \
             'address in 10.0.0.0/8' or 'l7_protocol == dns'"
        ))
    }
}

impl FlowName {
    /// Reads all words; `None` for a word that is unknown or twice there.
    fn read(&mut self, text: &str) -> Option<()> {
        fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
            place.replace(value).is_none().then_some(())
        }
        // Commas need no quotes in a shell.
        let mut words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            match word {
                ">" | "->" | "<->" | "<>" => {}
                "→" | "source" => self.is_directed = true,
                "protocol" | "proto" => set(&mut self.protocol, protocol(words.next()?)?)?,
                "port" => set(&mut self.destination_port, number(words.next()?)?)?,
                "type" => set(&mut self.message, message(words.next()?)?)?,
                "id" => set(&mut self.identifier, number(words.next()?)?)?,
                "spi" => set(&mut self.spi, number(words.next()?)?)?,
                "vlan" => set(&mut self.zone, vlans(words.next()?)?)?,
                "zone" => set(&mut self.zone, number(words.next()?)?)?,
                word => self.word(word, text)?,
            }
        }
        let is_icmp = self.protocol.is_none_or(|protocol| matches!(protocol, ICMP | ICMPV6));
        let is_plain = self.message.is_none() && self.identifier.is_none();
        let has_source = !self.is_directed || !self.ends.is_empty();
        (self.ends.len() <= 2 && has_source && (is_icmp || is_plain)).then_some(())
    }

    /// Reads a word that says by itself what it is.
    fn word(&mut self, word: &str, text: &str) -> Option<()> {
        let unbracketed = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
        if let Ok(end) = word.parse::<SocketAddr>() {
            self.ends.push((end.ip(), Some(end.port())));
        } else if let Ok(address) = unbracketed.parse() {
            self.ends.push((address, None));
        } else if word == text {
            // A port or a layer, which stands alone.
            let mut parts = word.split('/').peekable();
            if let Some(family @ ("ipv4" | "ipv6")) = parts.peek().copied() {
                self.is_v6 = Some(family == "ipv6");
                parts.next();
            }
            for (at, part) in parts.enumerate() {
                match at {
                    0 => self.protocol = Some(protocol(part)?),
                    1 => self.destination_port = Some(number(part)?),
                    _ => return None,
                }
            }
        } else {
            return self.protocol.replace(protocol(word)?).is_none().then_some(());
        }
        Some(())
    }

    /// Returns whether a record belongs to such a flow.
    pub(crate) fn is_of(&self, record: &AccountingRecord) -> bool {
        let key = &record.key;
        self.community_id.as_ref().is_none_or(|id| record.community_id().to_string() == *id)
            && self.is_v6.is_none_or(|is_v6| is_v6 == record.source.is_ipv6())
            && self.protocol.is_none_or(|protocol| protocol == record.protocol)
            && self.destination_port.is_none_or(|port| port == record.destination_port)
            && self.message.is_none_or(|message| message == key.message())
            && (self.identifier.is_none() || self.identifier == record.icmp_identifier)
            && (self.spi.is_none() || self.spi == record.spi)
            && self.zone.is_none_or(|zone| zone == key.zone())
            && self.has_ends(record)
    }

    fn has_ends(&self, record: &AccountingRecord) -> bool {
        let mut ends = [(record.source, record.source_port), (record.destination, record.destination_port)];
        let is_asked = self.message.is_some_and(|message| message != 0);
        if is_asked && ends[0].0 != asker(&record.key) {
            ends.reverse();
        }
        let are = |ends: [(IpAddr, u16); 2]| {
            let is = |((address, port), end): (&(IpAddr, Option<u16>), (IpAddr, u16))| {
                *address == end.0 && port.is_none_or(|port| port == end.1)
            };
            self.ends.iter().zip(ends).all(is)
        };
        are(ends) || !self.is_directed && !is_asked && are([ends[1], ends[0]])
    }

    /// Returns the two ends if the name says all that a Community ID is computed from, other than
    /// that of ICMP.
    pub(crate) fn tuple(&self) -> Option<([(IpAddr, u16); 2], u8)> {
        let protocol = self.protocol.filter(|protocol| !matches!(*protocol, ICMP | ICMPV6))?;
        let [one, other] = self.ends[..] else { return None };
        let end = |(address, port): (IpAddr, Option<u16>)| {
            Some((address, if has_ports(protocol) { port? } else { 0 }))
        };
        let is_of_key = !self.is_directed && self.destination_port.is_none();
        is_of_key.then_some(([end(one)?, end(other)?], protocol))
    }

    /// Returns the Community ID, if it is the name.
    pub(crate) fn community_id(&self) -> Option<&str> {
        self.community_id.as_deref()
    }
}

/// Returns the address that sends the messages of an ICMP flow which are no answers.
fn asker(key: &FlowKey) -> IpAddr {
    if key.query_direction() == Direction::LowToHigh { key.low_address() } else { key.high_address() }
}

#[cfg(test)]
mod tests {
    use flowloom::apps::accounting::{Accounted, EndedBy};
    use flowloom::flow_key::FiveTuple;

    use super::*;

    fn record(key: &FlowKey) -> AccountingRecord {
        AccountingRecord::new(key, &Accounted::default(), EndedBy::EndOfInput)
    }

    #[test]
    fn name_of_a_key_selects_only_its_records() {
        let v4 = |ports: (u16, u16), protocol| {
            FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, ports.0, ports.1, protocol).0
        };
        let v6 = FlowKey::from_v6(9, 3, 80, 1000, 6).0;
        let mut keys =
            vec![v6, v6.with_zone(7), v4((0, 0), 2), v4((0, 0), 253), v4((0, 0), 41), v4((1, 2), 50)];
        for protocol in WITH_PORTS {
            keys.extend([v4((5, 9), protocol), v4((9, 5), protocol)]);
        }
        let tcp = v4((5, 9), 6);
        keys.extend([1, 4095, 5 << 12 | 7, 5 << 12, 1 << 31 | 5].map(|zone| tcp.with_zone(zone)));
        for asked in [Direction::LowToHigh, Direction::HighToLow] {
            keys.extend([7, 8].map(|id| v4((id, id), 1).with_message(8 << 8, asked)));
            keys.extend([0x0300, 0x0301].map(|message| v4((0, 0), 1).with_message(message, asked)));
            keys.push(FlowKey::from_v6(9, 3, 4, 4, 58).0.with_message(128 << 8, asked));
        }
        keys.push(v4((0, 0), 1));
        for key in &keys {
            for is_low_first in [true, false] {
                // The index of ESP belongs to the direction of its record.
                if key.protocol() == ESP && !is_low_first {
                    continue;
                }
                let text = name_of_key(key, is_low_first, true);
                let name: FlowName = text.parse().unwrap();
                let found: Vec<_> = keys.iter().filter(|key| name.is_of(&record(key))).collect();
                assert_eq!(found, [key], "{text}");
            }
        }
    }

    #[test]
    fn shorter_name_selects_all_keys_that_it_fits() {
        let one = FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 40_000, 443, 6).canonical().0;
        let is = |text: &str| text.parse::<FlowName>().unwrap().is_of(&record(&one));
        let id = record(&one).community_id().to_string();
        for text in [
            "tcp 192.0.2.1:443 <-> 10.0.0.1:40000",
            "6 10.0.0.1:40000  192.0.2.1:443",
            "tcp,10.0.0.1:40000,192.0.2.1:443,vlan,none",
            "10.0.0.1 > 192.0.2.1",
            "192.0.2.1",
            "192.0.2.1:443",
            "tcp 192.0.2.1",
            "TCP",
            "ipv4",
            "ipv4/tcp",
            "protocol tcp",
            "192.0.2.1 vlan none",
            &id,
        ] {
            assert!(is(text), "{text}");
        }
        let source = record(&one).source;
        assert!(is(&format!("source {source}")));
        for text in [
            "udp", "ipv6", "tcp/80", "10.0.0.1:443", "10.0.0.1 10.0.0.2", "tcp 10.0.0.1 vlan 5", "ipv4/udp",
        ] {
            assert!(!is(text), "{text}");
        }
        let directed = |text: String| is(&text);
        let other = record(&one).destination;
        let port = record(&one).destination_port;
        assert!(directed(format!("{source} → {other} port {port} tcp")));
        assert!(!directed(format!("{other} → {source} port {port} tcp")));
    }

    #[test]
    fn unreadable_name_is_refused_with_the_forms() {
        for text in [
            "", ">", "source", "1:short=", "256 1.1.1.1:1 2.2.2.2:2", "+6 1.1.1.1:1 2.2.2.2:2",
            "tcp udp 1.1.1.1", "1.1.1.1 2.2.2.2 3.3.3.3", "tcp 1.1.1.1 vlan 4096", "tcp 1.1.1.1 type 8",
            "tcp/80/1", "ipv4/", "tcp 1.1.1.1 vlan",
        ] {
            let error = text.parse::<FlowName>().unwrap_err();
            assert!(error.contains("is not a flow") && error.contains("--where"), "{text}: {error}");
        }
        let error = "tpc 1.1.1.1:1 2.2.2.2:2".parse::<FlowName>().unwrap_err();
        assert!(error.contains("did you mean tcp?"), "{error}");
    }
}
