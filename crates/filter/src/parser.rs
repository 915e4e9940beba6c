//! Parses tokens to the syntax tree.
//!
//! `and` and `or` have equal precedence and associate to the left; `not` binds more tightly
//! (pcap-filter(7)). An identifier after `and` or `or` takes the qualifiers of the preceding
//! primitive: `port 80 or 443`.

use std::net::Ipv4Addr;

use crate::FilterError;
use crate::lexer::{Spanned, Token, number, tokens};
use crate::names;
use crate::syntax::{
    Arith, Expr, Join, NumberOf, Operator, Primitive, PrimitiveTest, Protocol, Relation, Way,
};

/// Maximum nesting of brackets and `not`.
const DEPTH_MAX: usize = 100;
/// Maximum length of a filter, in bytes.
const BYTES_MAX: usize = 64 << 10;

/// The kind of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeOf {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

/// The qualifiers before an identifier.
#[derive(Clone, Copy, Debug)]
struct Qualifiers {
    protocol: Option<Protocol>,
    way: Option<Way>,
    of: Option<TypeOf>,
}

/// Parses a filter.
pub(crate) fn parse(text: &str) -> Result<Option<Expr>, FilterError> {
    if text.len() > BYTES_MAX {
        return Err(FilterError::new(BYTES_MAX, format!("the filter is longer than {BYTES_MAX} bytes")));
    }
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(None);
    }
    let mut parser = Parser { tokens, next: 0, depth: 0, last: None, end: text.len() };
    let expr = parser.expr()?;
    match parser.peek() {
        None => Ok(Some(expr)),
        Some(_) => Err(parser.error("expected 'and', 'or' or the end of the filter")),
    }
}

struct Parser {
    tokens: Vec<Spanned>,
    next: usize,
    depth: usize,
    /// The qualifiers of the preceding primitive.
    last: Option<Qualifiers>,
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|spanned| &spanned.token)
    }

    fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.next + ahead).map(|spanned| &spanned.token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |spanned| spanned.at)
    }

    fn error(&self, what: &str) -> FilterError {
        FilterError::new(self.at(), what.to_owned())
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Some(Token::Symbol(found)) if *found == symbol)
    }

    fn takes_symbol(&mut self, symbol: &str) -> bool {
        let is_there = self.is_symbol(symbol);
        self.next += usize::from(is_there);
        is_there
    }

    fn word(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word { text, escaped: false }) => Some(text),
            _ => None,
        }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.word() == Some(word);
        self.next += usize::from(is_there);
        is_there
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error("the filter is nested too deeply"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn expr(&mut self) -> Result<Expr, FilterError> {
        let first = self.unary()?;
        let mut rest = Vec::new();
        while let Some(join) = self.join() {
            rest.push((join, self.unary()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn join(&mut self) -> Option<Join> {
        if self.takes_word("and") || self.takes_symbol("&&") {
            return Some(Join::And);
        }
        (self.takes_word("or") || self.takes_symbol("||")).then_some(Join::Or)
    }

    fn unary(&mut self) -> Result<Expr, FilterError> {
        if self.takes_word("not") || self.takes_symbol("!") {
            return self.deeper(|parser| Ok(Expr::Not(Box::new(parser.unary()?))));
        }
        // Both `(tcp[0] & 1) = 1` and `(tcp or udp)` begin with a bracket.
        let (begin, last) = (self.next, self.last);
        let relation_error = match self.relation() {
            Ok(Some(relation)) => return Ok(relation),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let furthest = relation_error.as_ref().map_or(0, |error| error.at);
        (self.next, self.last) = (begin, last);
        if self.takes_symbol("(") {
            let inner = self.deeper(Self::expr);
            let inner = inner.and_then(|inner| {
                if self.takes_symbol(")") { Ok(inner) } else { Err(self.error("expected ')'")) }
            });
            // If both readings fail, report the error of the one that got further.
            return match (inner, relation_error) {
                (Err(error), Some(relation)) if furthest > error.at => Err(relation),
                (inner, _) => inner,
            };
        }
        if let Some(error) = relation_error {
            return Err(error);
        }
        self.primitive()
    }

    /// Parses a relation, if one begins here.
    fn relation(&mut self) -> Result<Option<Expr>, FilterError> {
        let begins = match self.peek() {
            Some(Token::Symbol("(" | "-")) => true,
            Some(Token::Number(_)) => matches!(
                self.peek_at(1),
                Some(Token::Symbol(
                    "+" | "-"
                        | "*"
                        | "/"
                        | "%"
                        | "&"
                        | "|"
                        | "^"
                        | "<<"
                        | ">>"
                        | "="
                        | "=="
                        | "!="
                        | ">"
                        | "<"
                        | ">="
                        | "<="
                ))
            ),
            Some(Token::Word { text, escaped: false }) => {
                text == "len"
                    || names::constant(text).is_some()
                    || matches!(self.peek_at(1), Some(Token::Symbol("[")))
            }
            _ => false,
        };
        if !begins {
            return Ok(None);
        }
        let left = self.arith(0)?;
        let relation = match self.peek() {
            Some(Token::Symbol("=" | "==")) => Relation::Equal,
            Some(Token::Symbol("!=")) => Relation::NotEqual,
            Some(Token::Symbol(">")) => Relation::Greater,
            Some(Token::Symbol("<")) => Relation::Less,
            Some(Token::Symbol(">=")) => Relation::AtLeast,
            Some(Token::Symbol("<=")) => Relation::AtMost,
            _ => return Err(self.error("expected a comparison such as '=' or '>'")),
        };
        self.next += 1;
        let right = self.arith(0)?;
        Ok(Some(Expr::Relation(left, relation, right)))
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        let Some(Token::Symbol(symbol)) = self.peek() else { return None };
        Some(match *symbol {
            "|" => (Operator::Or, 1),
            "^" => (Operator::Xor, 1),
            "&" => (Operator::And, 2),
            "<<" => (Operator::Left, 3),
            ">>" => (Operator::Right, 3),
            "+" => (Operator::Add, 4),
            "-" => (Operator::Subtract, 4),
            "*" => (Operator::Multiply, 5),
            "/" => (Operator::Divide, 5),
            "%" => (Operator::Modulo, 5),
            _ => return None,
        })
    }

    /// Parses arithmetic whose operators bind more tightly than `above`.
    fn arith(&mut self, above: u8) -> Result<Arith, FilterError> {
        let mut left = self.deeper(Self::operand)?;
        let mut operators = 0;
        while let Some((operator, binds)) = self.operator().filter(|(_, binds)| *binds > above) {
            operators += 1;
            if operators > DEPTH_MAX {
                return Err(self.error("the filter is nested too deeply"));
            }
            let at = self.at();
            self.next += 1;
            let right = self.deeper(|parser| parser.arith(binds))?;
            if right == Arith::Number(0) && matches!(operator, Operator::Divide | Operator::Modulo) {
                return Err(FilterError::new(at, String::from("division by zero")));
            }
            left = Arith::Binary(Box::new(left), operator, Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Arith, FilterError> {
        if self.takes_symbol("(") {
            let inner = self.arith(0)?;
            return if self.takes_symbol(")") { Ok(inner) } else { Err(self.error("expected ')'")) };
        }
        if self.takes_symbol("-") {
            return Ok(Arith::Negate(Box::new(self.deeper(Self::operand)?)));
        }
        if let Some(&Token::Number(number)) = self.peek() {
            self.next += 1;
            return Ok(Arith::Number(number));
        }
        let Some(word) = self.word().map(str::to_owned) else {
            return Err(self.error("expected a number, 'len' or a field such as tcp[13]"));
        };
        if word == "len" {
            self.next += 1;
            return Ok(Arith::Length);
        }
        if let Some(number) = names::constant(&word) {
            self.next += 1;
            return Ok(Arith::Number(number));
        }
        let Some(protocol) = Protocol::named(&word) else {
            return Err(self.error(&format!("'{word}' is not a protocol whose bytes can be read")));
        };
        self.next += 1;
        if !self.takes_symbol("[") {
            return Err(self.error("expected '['"));
        }
        let index = Box::new(self.arith(0)?);
        let mut bytes = 1;
        if self.takes_symbol(":") {
            bytes = match self.peek() {
                Some(Token::Number(bytes @ (1 | 2 | 4))) => *bytes as u8,
                _ => return Err(self.error("the size of a field is 1, 2 or 4 bytes")),
            };
            self.next += 1;
        }
        if !self.takes_symbol("]") {
            return Err(self.error("expected ']'"));
        }
        Ok(Arith::Load { protocol, index, bytes })
    }

    fn primitive(&mut self) -> Result<Expr, FilterError> {
        let at = self.at();
        let is_identifier = match self.peek() {
            Some(Token::Number(_) | Token::V4 { .. } | Token::V6(_) | Token::Mac(_)) => true,
            Some(Token::Word { escaped, .. }) => *escaped,
            Some(Token::Symbol(_)) | None => {
                return Err(self.error("expected a primitive such as 'tcp' or 'host 10.0.0.1'"));
            }
        };
        if is_identifier {
            // An identifier by itself: it takes the preceding qualifiers, or means a host.
            let qualifiers = self.last.unwrap_or(Qualifiers { protocol: None, way: None, of: None });
            return self.identifier(qualifiers);
        }
        if let Some(kind) = self.simple()? {
            self.last = None;
            return Ok(Expr::Primitive(Primitive { kind, at }));
        }
        let mut qualifiers = Qualifiers { protocol: None, way: None, of: None };
        if let Some(protocol) = self.word().and_then(Protocol::named) {
            qualifiers.protocol = Some(protocol);
            self.next += 1;
            if let Some(kind) = self.of_protocol(protocol) {
                self.last = None;
                return Ok(Expr::Primitive(Primitive { kind, at }));
            }
        }
        qualifiers.way = self.way();
        qualifiers.of = match self.word() {
            Some("host") => Some(TypeOf::Host),
            Some("net") => Some(TypeOf::Net),
            Some("port") => Some(TypeOf::Port),
            Some("portrange") => Some(TypeOf::PortRange),
            Some("proto") => Some(TypeOf::Proto),
            Some("protochain" | "gateway") => {
                return Err(self.error("'protochain' and 'gateway' are not supported"));
            }
            _ => None,
        };
        self.next += usize::from(qualifiers.of.is_some());
        if let Qualifiers { protocol: Some(protocol), way: None, of: None } = qualifiers
            && !self.begins_identifier()
        {
            // A protocol by itself.
            self.last = Some(qualifiers);
            if protocol == Protocol::Ether {
                return Err(
                    self.error("expected 'host', 'proto', 'src', 'dst', 'broadcast' or 'multicast'")
                );
            }
            return Ok(Expr::Primitive(Primitive { kind: PrimitiveTest::Protocol(protocol), at }));
        }
        if qualifiers.protocol.is_none() && qualifiers.way.is_none() && qualifiers.of.is_none() {
            let word = self.word().unwrap_or_default().to_owned();
            let hint = match of_wireshark(&word) {
                Some(ours) => format!("that is a name of Wireshark's: write {ours}"),
                None => String::from("host names are not resolved: use an address"),
            };
            return Err(self.error(&format!("'{word}' is not a primitive of pcap-filter(7); {hint}")));
        }
        self.last = Some(qualifiers);
        if self.takes_symbol("(") {
            let inner = self.deeper(|parser| parser.list(qualifiers))?;
            return if self.takes_symbol(")") { Ok(inner) } else { Err(self.error("expected ')'")) };
        }
        self.identifier(qualifiers)
    }

    /// Parses identifiers in brackets, as in `host (10.0.0.1 or 10.0.0.2)`.
    fn list(&mut self, qualifiers: Qualifiers) -> Result<Expr, FilterError> {
        let first = self.listed(qualifiers)?;
        let mut rest = Vec::new();
        while let Some(join) = self.join() {
            rest.push((join, self.listed(qualifiers)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn listed(&mut self, qualifiers: Qualifiers) -> Result<Expr, FilterError> {
        if self.takes_word("not") || self.takes_symbol("!") {
            return self.deeper(|parser| Ok(Expr::Not(Box::new(parser.listed(qualifiers)?))));
        }
        self.identifier(qualifiers)
    }

    fn begins_identifier(&self) -> bool {
        match self.peek() {
            Some(Token::Number(_) | Token::V4 { .. } | Token::V6(_) | Token::Mac(_)) => true,
            Some(Token::Word { escaped, .. }) => *escaped,
            _ => false,
        }
    }

    fn way(&mut self) -> Option<Way> {
        let first = match self.word() {
            Some("src") => Way::Source,
            Some("dst") => Way::Destination,
            _ => return None,
        };
        self.next += 1;
        let other = if first == Way::Source { "dst" } else { "src" };
        let follows = |parser: &Self, joins: &[&str]| {
            let joint = match parser.peek() {
                Some(Token::Word { text, escaped: false }) => joins.contains(&text.as_str()),
                Some(Token::Symbol(symbol)) => joins.contains(symbol),
                _ => false,
            };
            joint
                && matches!(parser.peek_at(1), Some(Token::Word { text, escaped: false }) if text == other)
        };
        for (joins, way) in [(["or", "||"], Way::Either), (["and", "&&"], Way::Both)] {
            // `src or dst port 80` is one qualifier; `src 10.0.0.1 or dst 10.0.0.1` is two
            // primitives.
            if follows(self, &joins) {
                self.next += 2;
                return Some(way);
            }
        }
        Some(first)
    }

    fn optional_number(&mut self, max: u32, what: &str) -> Result<Option<u32>, FilterError> {
        match self.peek() {
            Some(&Token::Number(number)) if number <= max => {
                self.next += 1;
                Ok(Some(number))
            }
            Some(Token::Number(_)) => Err(self.error(&format!("{what} is at most {max}"))),
            _ => Ok(None),
        }
    }

    /// Parses a primitive without qualifiers.
    fn simple(&mut self) -> Result<Option<PrimitiveTest>, FilterError> {
        let Some(word) = self.word().map(str::to_owned) else { return Ok(None) };
        let begin = self.next;
        self.next += 1;
        Ok(Some(match word.as_str() {
            "less" | "greater" => match self.peek() {
                Some(&Token::Number(bytes)) => {
                    self.next += 1;
                    PrimitiveTest::Length { at_most: word == "less", bytes }
                }
                _ => return Err(self.error("expected a number of bytes")),
            },
            "broadcast" => PrimitiveTest::EtherBroadcast,
            "multicast" => PrimitiveTest::EtherMulticast,
            "vlan" => PrimitiveTest::Vlan(self.optional_number(4095, "a VLAN number")?),
            "mpls" => PrimitiveTest::Mpls(self.optional_number(0xF_FFFF, "an MPLS label")?),
            "pppoed" => PrimitiveTest::PppoeDiscovery,
            "pppoes" => PrimitiveTest::PppoeSession(self.optional_number(0xFFFF, "a PPPoE session")?),
            "inbound" => PrimitiveTest::Outbound(false),
            "outbound" => PrimitiveTest::Outbound(true),
            _ => {
                self.next = begin;
                return Ok(None);
            }
        }))
    }

    /// Parses what follows a protocol without an identifier: `ether multicast`, `ip multicast`.
    fn of_protocol(&mut self, protocol: Protocol) -> Option<PrimitiveTest> {
        let kind = match (protocol, self.word()?) {
            (Protocol::Ether, "multicast") => PrimitiveTest::EtherMulticast,
            (Protocol::Ether, "broadcast") => PrimitiveTest::EtherBroadcast,
            (Protocol::Ip, "multicast") => PrimitiveTest::IpMulticast,
            (Protocol::Ip6, "multicast") => PrimitiveTest::Ip6Multicast,
            _ => return None,
        };
        self.next += 1;
        Some(kind)
    }

    /// Parses an identifier with these qualifiers.
    fn identifier(&mut self, qualifiers: Qualifiers) -> Result<Expr, FilterError> {
        let at = self.at();
        let kind = match qualifiers.of {
            Some(TypeOf::Port) => {
                let port = self.port()?;
                ports(qualifiers, port, port, at)?
            }
            Some(TypeOf::PortRange) => {
                let (first, last) = self.port_range()?;
                ports(qualifiers, first, last, at)?
            }
            Some(TypeOf::Proto) => self.protocol_number(qualifiers)?,
            of => self.address(qualifiers, of == Some(TypeOf::Net))?,
        };
        Ok(Expr::Primitive(Primitive { kind, at }))
    }

    fn port(&mut self) -> Result<u16, FilterError> {
        let port = match self.peek() {
            Some(&Token::Number(number)) => u16::try_from(number).ok(),
            Some(Token::Word { text, .. }) => flowloom_flow_key::protocol::service(text),
            _ => None,
        };
        let port =
            port.ok_or_else(|| self.error("expected a port from 0 to 65535, or the name of a service"))?;
        self.next += 1;
        Ok(port)
    }

    fn port_range(&mut self) -> Result<(u16, u16), FilterError> {
        // Names of services may have hyphens: `http-https` is one word.
        if let Some(Token::Word { text, .. }) = self.peek()
            && flowloom_flow_key::protocol::service(text).is_none()
            && let Some((first, last)) = text.split_once('-')
            && let (Some(first), Some(last)) = (of_text(first), of_text(last))
        {
            self.next += 1;
            return Ok((first, last));
        }
        let first = self.port()?;
        if self.takes_symbol("-") { Ok((first, self.port()?)) } else { Ok((first, first)) }
    }

    fn protocol_number(&mut self, qualifiers: Qualifiers) -> Result<PrimitiveTest, FilterError> {
        let protocols = match qualifiers.protocol {
            None => NumberOf::Either,
            Some(Protocol::Ether) => NumberOf::Ether,
            Some(Protocol::Ip) => NumberOf::Ip,
            Some(Protocol::Ip6) => NumberOf::Ip6,
            Some(_) => return Err(self.error("only 'ether', 'ip' and 'ip6' may precede 'proto'")),
        };
        let number = match (self.peek(), protocols) {
            (Some(&Token::Number(number)), _) => Some(number),
            (Some(Token::Word { text, .. }), NumberOf::Ether) => names::ether_type(text).map(u32::from),
            (Some(Token::Word { text, .. }), _) => flowloom_flow_key::protocol::number(text).map(u32::from),
            _ => None,
        };
        let max = if protocols == NumberOf::Ether { 0xFFFF } else { 0xFF };
        let number = number.filter(|number| *number <= max);
        let number =
            number.ok_or_else(|| self.error("expected a protocol's number, or its name after a '\\'"))?;
        self.next += 1;
        Ok(PrimitiveTest::Number(protocols, number))
    }

    fn address(&mut self, qualifiers: Qualifiers, is_net: bool) -> Result<PrimitiveTest, FilterError> {
        let way = qualifiers.way.unwrap_or(Way::Either);
        let protocol = qualifiers.protocol;
        let token = self.peek().cloned();
        let kind = match token {
            Some(Token::Mac(address)) => {
                if !matches!(protocol, None | Some(Protocol::Ether)) || is_net {
                    return Err(self.error("a MAC address needs 'ether host'"));
                }
                self.next += 1;
                return Ok(PrimitiveTest::Mac { way, address });
            }
            Some(Token::V6(address)) => {
                if !matches!(protocol, None | Some(Protocol::Ip6)) {
                    return Err(self.error("an IPv6 address needs 'ip6 host'"));
                }
                self.next += 1;
                let bits = self.prefix_bits(128)?.unwrap_or(128);
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                if address.to_bits() & !mask != 0 {
                    return Err(self.error("the address has bits outside its network"));
                }
                return Ok(PrimitiveTest::V6 { way, address, bits: bits as u8 });
            }
            Some(Token::V4 { address, bytes }) => (address, u32::from(bytes) * 8),
            // A single number is the first byte of a network, or a whole address.
            Some(Token::Number(number)) if is_net && number < 256 => (number << 24, 8),
            Some(Token::Number(number)) => (number, 32),
            Some(Token::Word { text, .. }) => {
                return Err(self.error(&format!("'{text}' is not an address; names are not resolved")));
            }
            _ => return Err(self.error("expected an address")),
        };
        if !matches!(protocol, None | Some(Protocol::Ip | Protocol::Arp | Protocol::Rarp)) {
            return Err(self.error("only 'ip', 'arp' and 'rarp' may precede an IPv4 address"));
        }
        self.next += 1;
        let (address, stated) = kind;
        let bits = self.prefix_bits(32)?;
        let mask = if let Some(bits) = bits {
            u32::MAX.checked_shl(32 - bits).unwrap_or(0)
        } else if is_net && self.takes_word("mask") {
            match self.peek() {
                Some(&Token::V4 { address, .. }) => {
                    self.next += 1;
                    address
                }
                Some(&Token::Number(mask)) => {
                    self.next += 1;
                    mask
                }
                _ => return Err(self.error("expected a mask such as 255.255.0.0")),
            }
        } else if is_net || stated == 32 {
            u32::MAX.checked_shl(32 - stated).unwrap_or(0)
        } else {
            return Err(self.error("an address has four bytes; use 'net' for a prefix"));
        };
        if address & !mask != 0 {
            let (address, mask) = (Ipv4Addr::from_bits(address), Ipv4Addr::from_bits(mask));
            return Err(self.error(&format!("{address} has bits outside its network with the mask {mask}")));
        }
        Ok(PrimitiveTest::V4 { protocol, way, address, mask })
    }

    fn prefix_bits(&mut self, max: u32) -> Result<Option<u32>, FilterError> {
        if !self.takes_symbol("/") {
            return Ok(None);
        }
        match self.peek() {
            Some(&Token::Number(bits)) if bits <= max => {
                self.next += 1;
                Ok(Some(bits))
            }
            _ => Err(self.error(&format!("a prefix has from 0 to {max} bits"))),
        }
    }
}

fn of_text(text: &str) -> Option<u16> {
    flowloom_flow_key::protocol::service(text)
        .or_else(|| number(text).and_then(|number| u16::try_from(number).ok()))
}

fn ports(qualifiers: Qualifiers, first: u16, last: u16, at: usize) -> Result<PrimitiveTest, FilterError> {
    let protocol = match qualifiers.protocol {
        None => None,
        Some(protocol) => Some(protocol.transport().ok_or_else(|| {
            FilterError::new(at, String::from("only 'tcp', 'udp' and 'sctp' may precede 'port'"))
        })?),
    };
    let way = qualifiers.way.unwrap_or(Way::Either);
    Ok(PrimitiveTest::Ports { protocol, way, first: first.min(last), last: first.max(last) })
}

/// Returns what a field of Wireshark's display filters is here.
fn of_wireshark(name: &str) -> Option<&'static str> {
    let ours = match name {
        "ip.addr" | "ipv6.addr" | "eth.addr" => "host ADDRESS",
        "ip.src" | "ipv6.src" => "src host ADDRESS",
        "ip.dst" | "ipv6.dst" => "dst host ADDRESS",
        "tcp.port" => "tcp port NUMBER",
        "udp.port" => "udp port NUMBER",
        "tcp.srcport" => "tcp src port NUMBER",
        "tcp.dstport" => "tcp dst port NUMBER",
        "udp.srcport" => "udp src port NUMBER",
        "udp.dstport" => "udp dst port NUMBER",
        "ip.proto" => "ip proto NUMBER",
        "frame.len" => "greater LENGTH, or less LENGTH",
        "vlan.id" => "vlan NUMBER",
        "dns" => "port 53",
        "http" => "tcp port 80",
        "tls" | "ssl" => "tcp port 443",
        _ if name.contains("tcp.flags") => "tcp[tcpflags] & tcp-syn != 0",
        _ => return None,
    };
    Some(ours)
}
