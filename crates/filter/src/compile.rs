//! Compiles the syntax tree to a program for packets of one link type.
//!
//! `vlan`, `mpls` and `pppoes` shift everything that follows them in the text: `vlan and ip` tests
//! for IPv4 after a VLAN tag. libpcap reads filters in the same way, regardless of brackets.

use flowloom_packet::LinkType;

use crate::FilterError;
use crate::program::{Base, Node, Value};
use crate::syntax::{Arith, Expr, NumberOf, Primitive, PrimitiveTest, Protocol, Relation, Way};

const IP: u16 = 0x0800;
const IP6: u16 = 0x86DD;
const ARP: u16 = 0x0806;
const RARP: u16 = 0x8035;
/// Ethertypes of VLAN tags in libpcap.
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];
/// The maximum length of an 802.3 frame, in the place of the Ethertype.
const LENGTH_MAX: u16 = 1500;

/// How a header identifies the header after it.
#[derive(Clone, Copy, Debug)]
enum Next {
    EtherType {
        at: u32,
    },
    Ppp {
        at: u32,
    },
    /// By the version of the IP header.
    Version,
    /// By an address family of the capturing system.
    Family,
    /// By the bottom of the label stack, and the version of the IP header.
    Mpls {
        label_at: u32,
    },
}

struct Compiler {
    link: LinkType,
    next: Next,
    payload_at: u32,
}

/// Compiles a filter for a link type.
pub(crate) fn compile(expr: &Expr, link: LinkType) -> Result<Node, FilterError> {
    let (next, payload_at) = match link {
        LinkType::ETHERNET => (Next::EtherType { at: 12 }, 14),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType(228 | 229) => {
            (Next::Version, 0)
        }
        LinkType::NULL | LinkType::LOOP => (Next::Family, 4),
        LinkType::LINUX_SLL => (Next::EtherType { at: 14 }, 16),
        LinkType(276) => (Next::EtherType { at: 0 }, 20),
        LinkType::PPP | LinkType::PPP_HDLC => (Next::Ppp { at: 2 }, 4),
        _ => {
            return Err(FilterError::new(
                0,
                format!("filters do not read packets of link type {} ({})", link.0, link.name()),
            ));
        }
    };
    Compiler { link, next, payload_at }.expr(expr)
}

fn equals(base: Base, bytes: u8, value: u32) -> Node {
    Node::Compare { base, bytes, mask: u32::MAX, relation: Relation::Equal, value }
}

fn masked(base: Base, bytes: u8, mask: u32, value: u32) -> Node {
    Node::Compare { base, bytes, mask, relation: Relation::Equal, value }
}

fn and(a: Node, b: Node) -> Node {
    Node::And(Box::new(a), Box::new(b))
}

fn or(a: Node, b: Node) -> Node {
    Node::Or(Box::new(a), Box::new(b))
}

impl Compiler {
    fn expr(&mut self, expr: &Expr) -> Result<Node, FilterError> {
        Ok(match expr {
            Expr::Chain(first, rest) => {
                let first = Box::new(self.expr(first)?);
                let rest = rest.iter().map(|(join, expr)| Ok((*join, self.expr(expr)?)));
                Node::Chain(first, rest.collect::<Result<_, FilterError>>()?)
            }
            Expr::Not(inner) => Node::Not(Box::new(self.expr(inner)?)),
            Expr::Primitive(primitive) => self.primitive(primitive)?,
            Expr::Relation(left, relation, right) => {
                let (mut checks, mut values) = (Vec::new(), Vec::new());
                for arith in [left, right] {
                    values.push(self.value(arith, &mut checks)?);
                }
                let right = values.pop().unwrap_or(Value::Number(0));
                let left = values.pop().unwrap_or(Value::Number(0));
                let node = Node::Relation(left, *relation, right);
                checks.into_iter().rev().fold(node, |node, check| and(check, node))
            }
        })
    }

    /// Returns a position in the payload of the link layer.
    fn payload(&self, offset: u32) -> Base {
        Base::Packet(self.payload_at + offset)
    }

    fn transport(&self, offset: u32) -> Base {
        Base::BehindIp { ip_at: self.payload_at, offset }
    }

    /// Tests for a protocol of the network layer.
    fn follows(&self, ether_type: u16) -> Node {
        let version = |version: u32| masked(self.payload(0), 1, 0xF0, version << 4);
        match (self.next, ether_type) {
            (Next::EtherType { at }, _) if ether_type <= LENGTH_MAX => {
                let length = Node::Compare {
                    base: Base::Packet(at),
                    bytes: 2,
                    mask: u32::MAX,
                    relation: Relation::AtMost,
                    value: u32::from(LENGTH_MAX),
                };
                and(length, equals(Base::Packet(at + 2), 1, u32::from(ether_type)))
            }
            (Next::EtherType { at }, _) => equals(Base::Packet(at), 2, u32::from(ether_type)),
            (Next::Ppp { at }, IP) => equals(Base::Packet(at), 2, 0x21),
            (Next::Ppp { at }, IP6) => equals(Base::Packet(at), 2, 0x57),
            (Next::Version, IP) => version(4),
            (Next::Version, IP6) => version(6),
            (Next::Family, IP) => family(&[2]),
            (Next::Family, IP6) => family(&[10, 24, 28, 30]),
            (Next::Mpls { label_at }, IP | IP6) => {
                let bottom = masked(Base::Packet(label_at + 2), 1, 1, 1);
                and(bottom, version(if ether_type == IP { 4 } else { 6 }))
            }
            _ => Node::Constant(false),
        }
    }

    fn ip_protocol(&self, number: u32) -> Node {
        and(self.follows(IP), equals(self.payload(9), 1, number))
    }

    /// Tests for a protocol of IPv6, also after one fragment header.
    fn ip6_protocol(&self, number: u32) -> Node {
        let behind_fragment = and(equals(self.payload(6), 1, 44), equals(self.payload(40), 1, number));
        and(self.follows(IP6), or(behind_fragment, equals(self.payload(6), 1, number)))
    }

    fn either_protocol(&self, number: u32) -> Node {
        or(self.ip_protocol(number), self.ip6_protocol(number))
    }

    fn is_first_fragment(&self) -> Node {
        masked(self.payload(6), 2, 0x1FFF, 0)
    }

    fn protocol(&self, protocol: Protocol) -> Node {
        match protocol {
            Protocol::Ether => Node::Constant(true),
            Protocol::Ip => self.follows(IP),
            Protocol::Ip6 => self.follows(IP6),
            Protocol::Arp => self.follows(ARP),
            Protocol::Rarp => self.follows(RARP),
            Protocol::EtherType(number) => self.follows(number),
            Protocol::Tcp => self.either_protocol(6),
            Protocol::Udp => self.either_protocol(17),
            Protocol::Sctp => self.either_protocol(132),
            Protocol::Icmp => self.ip_protocol(1),
            Protocol::Icmp6 => self.ip6_protocol(58),
            Protocol::Transport { number, in_ip6: true } => self.either_protocol(u32::from(number)),
            Protocol::Transport { number, in_ip6: false } => self.ip_protocol(u32::from(number)),
        }
    }

    fn needs_ethernet(&self, at: usize, what: &str) -> Result<(), FilterError> {
        if self.link == LinkType::ETHERNET {
            return Ok(());
        }
        Err(FilterError::new(
            at,
            format!("{what} needs Ethernet, but the packets have link type {}", self.link.name()),
        ))
    }

    fn primitive(&mut self, primitive: &Primitive) -> Result<Node, FilterError> {
        let at = primitive.at;
        Ok(match primitive.kind {
            PrimitiveTest::Protocol(protocol) => self.protocol(protocol),
            PrimitiveTest::Number(NumberOf::Ether, number) => self.follows(number as u16),
            PrimitiveTest::Number(NumberOf::Ip, number) => self.ip_protocol(number),
            PrimitiveTest::Number(NumberOf::Ip6, number) => self.ip6_protocol(number),
            PrimitiveTest::Number(NumberOf::Either, number) => self.either_protocol(number),
            PrimitiveTest::V4 { protocol, way, address, mask } => {
                let test = |compiler: &Self, ether_type, source, destination| {
                    let one = |offset| masked(compiler.payload(offset), 4, mask, address);
                    and(compiler.follows(ether_type), by_way(way, one(source), one(destination)))
                };
                match protocol {
                    Some(Protocol::Ip) => test(self, IP, 12, 16),
                    Some(Protocol::Arp) => test(self, ARP, 14, 24),
                    Some(Protocol::Rarp) => test(self, RARP, 14, 24),
                    _ => or(test(self, IP, 12, 16), or(test(self, ARP, 14, 24), test(self, RARP, 14, 24))),
                }
            }
            PrimitiveTest::V6 { way, address, bits } => {
                let one = |offset| self.v6(offset, address.to_bits(), bits);
                and(self.follows(IP6), by_way(way, one(8), one(24)))
            }
            PrimitiveTest::Mac { way, address } => {
                self.needs_ethernet(at, "a MAC address")?;
                let one = |offset| {
                    let ([high, low], rest) = ([address[0], address[1]], &address[2..]);
                    let rest = rest.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
                    let high = equals(Base::Packet(offset), 2, u32::from(u16::from_be_bytes([high, low])));
                    and(equals(Base::Packet(offset + 2), 4, rest), high)
                };
                by_way(way, one(6), one(0))
            }
            PrimitiveTest::Ports { protocol, way, first, last } => self.ports(protocol, way, first, last),
            PrimitiveTest::EtherMulticast => {
                self.needs_ethernet(at, "'multicast'")?;
                masked(Base::Packet(0), 1, 1, 1)
            }
            PrimitiveTest::EtherBroadcast => {
                self.needs_ethernet(at, "'broadcast'")?;
                and(equals(Base::Packet(2), 4, u32::MAX), equals(Base::Packet(0), 2, 0xFFFF))
            }
            PrimitiveTest::IpMulticast => {
                let base = self.payload(16);
                let class_d = Node::Compare {
                    base,
                    bytes: 1,
                    mask: u32::MAX,
                    relation: Relation::AtLeast,
                    value: 224,
                };
                and(self.follows(IP), class_d)
            }
            PrimitiveTest::Ip6Multicast => and(self.follows(IP6), equals(self.payload(24), 1, 255)),
            PrimitiveTest::Length { at_most, bytes } => {
                let relation = if at_most { Relation::AtMost } else { Relation::AtLeast };
                Node::Relation(Value::Length, relation, Value::Number(bytes))
            }
            PrimitiveTest::Vlan(number) => self.vlan(number, at)?,
            PrimitiveTest::Mpls(label) => self.mpls(label, at)?,
            PrimitiveTest::PppoeDiscovery => {
                self.needs_ethernet(at, "'pppoed'")?;
                self.follows(0x8863)
            }
            PrimitiveTest::PppoeSession(session) => {
                self.needs_ethernet(at, "'pppoes'")?;
                let mut node = self.follows(0x8864);
                if let Some(session) = session {
                    node = and(node, equals(self.payload(2), 2, session));
                }
                // Six bytes of PPPoE, two of PPP.
                self.next = Next::Ppp { at: self.payload_at + 6 };
                self.payload_at += 8;
                node
            }
            PrimitiveTest::Outbound(outbound) => {
                let sent = match self.link {
                    LinkType::LINUX_SLL => equals(Base::Packet(0), 2, 4),
                    LinkType(276) => equals(Base::Packet(10), 1, 4),
                    _ => {
                        let what = "'inbound' and 'outbound' need captures on all interfaces of Linux";
                        return Err(FilterError::new(at, what.to_owned()));
                    }
                };
                if outbound { sent } else { Node::Not(Box::new(sent)) }
            }
        })
    }

    fn v6(&self, offset: u32, address: u128, bits: u8) -> Node {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        let word = |bits: u128, i: u32| (bits >> (96 - 32 * i)) as u32;
        let each = (0..4)
            .filter(|&i| word(mask, i) != 0)
            .map(|i| masked(self.payload(offset + 4 * i), 4, word(mask, i), word(address, i)));
        each.reduce(and).unwrap_or(Node::Constant(true))
    }

    fn ports(&self, protocol: Option<u8>, way: Way, first: u16, last: u16) -> Node {
        let one = |base: Base| {
            if first == last {
                return equals(base, 2, u32::from(first));
            }
            let bound = |relation, value: u16| Node::Compare {
                base,
                bytes: 2,
                mask: u32::MAX,
                relation,
                value: u32::from(value),
            };
            and(bound(Relation::AtLeast, first), bound(Relation::AtMost, last))
        };
        let protocols: &[u8] = match &protocol {
            Some(protocol) => std::slice::from_ref(protocol),
            None => &[6, 17, 132],
        };
        let any = |base_of: &dyn Fn(u8) -> Node| {
            protocols.iter().map(|&number| base_of(number)).reduce(or).unwrap_or(Node::Constant(false))
        };
        let v4 = any(&|number| equals(self.payload(9), 1, u32::from(number)));
        let v6 = any(&|number| equals(self.payload(6), 1, u32::from(number)));
        let ports4 = by_way(way, one(self.transport(0)), one(self.transport(2)));
        let ports6 = by_way(way, one(self.payload(40)), one(self.payload(42)));
        or(
            and(self.follows(IP6), and(v6, ports6)),
            and(self.follows(IP), and(v4, and(self.is_first_fragment(), ports4))),
        )
    }

    fn vlan(&mut self, number: Option<u32>, at: usize) -> Result<Node, FilterError> {
        let Next::EtherType { at: type_at } = self.next else {
            return Err(FilterError::new(at, String::from("no VLAN tag is possible here")));
        };
        let tags = VLAN_TAGS.map(|tag| self.follows(tag));
        let mut node = tags.into_iter().reduce(or).unwrap_or(Node::Constant(false));
        if let Some(number) = number {
            node = and(node, masked(self.payload(0), 2, 0x0FFF, number));
        }
        // The tag's own Ethertype follows its two bytes.
        self.next = Next::EtherType { at: type_at.max(self.payload_at - 2) + 4 };
        self.payload_at += 4;
        Ok(node)
    }

    fn mpls(&mut self, label: Option<u32>, at: usize) -> Result<Node, FilterError> {
        let mut node = match self.next {
            // The last label so far is not the bottom of the stack.
            Next::Mpls { label_at } => masked(Base::Packet(label_at + 2), 1, 1, 0),
            Next::EtherType { .. } => self.follows(0x8847),
            Next::Ppp { at } => equals(Base::Packet(at), 2, 0x281),
            Next::Version | Next::Family => {
                return Err(FilterError::new(at, String::from("no MPLS label is possible here")));
            }
        };
        if let Some(label) = label {
            node = and(node, masked(self.payload(0), 4, 0xFFFF_F000, label << 12));
        }
        self.next = Next::Mpls { label_at: self.payload_at };
        self.payload_at += 4;
        Ok(node)
    }

    fn value(&self, arith: &Arith, checks: &mut Vec<Node>) -> Result<Value, FilterError> {
        Ok(match arith {
            Arith::Number(number) => Value::Number(*number),
            Arith::Length => Value::Length,
            Arith::Negate(inner) => Value::Negate(Box::new(self.value(inner, checks)?)),
            Arith::Binary(left, operator, right) => {
                let left = self.value(left, checks)?;
                // libpcap tests for the protocol of the left side only.
                let right = self.value(right, &mut Vec::new())?;
                Value::Binary(Box::new(left), *operator, Box::new(right))
            }
            Arith::Load { protocol, index, bytes } => {
                let index = Box::new(self.value(index, checks)?);
                let base = match protocol {
                    Protocol::Ether => Base::Packet(0),
                    Protocol::Ip
                    | Protocol::Ip6
                    | Protocol::Arp
                    | Protocol::Rarp
                    | Protocol::EtherType(_) => {
                        checks.push(self.protocol(*protocol));
                        self.payload(0)
                    }
                    // Only ICMPv6 without extension headers, as in libpcap.
                    Protocol::Icmp6 => {
                        checks.push(and(self.follows(IP6), equals(self.payload(6), 1, 58)));
                        self.payload(40)
                    }
                    // Of the other protocols, only those in IPv4.
                    _ => {
                        let in_v4 = and(self.follows(IP), self.protocol(*protocol));
                        checks.push(and(in_v4, self.is_first_fragment()));
                        self.transport(0)
                    }
                };
                Value::Load { base, index, bytes: *bytes }
            }
        })
    }
}

fn by_way(way: Way, source: Node, destination: Node) -> Node {
    match way {
        Way::Source => source,
        Way::Destination => destination,
        Way::Either => or(source, destination),
        Way::Both => and(source, destination),
    }
}

/// Tests for an address family, in the byte order of either kind of host.
fn family(families: &[u32]) -> Node {
    let each = families.iter().flat_map(|family| [*family, family.swap_bytes()]);
    let ask = |value| equals(Base::Packet(0), 4, value);
    each.map(ask).reduce(or).unwrap_or(Node::Constant(false))
}
