//! A compiled filter, and its evaluation.

use crate::syntax::{Join, Operator, Relation};

/// The origin of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The packet's first byte plus a constant.
    Packet(u32),
    /// The end of the IPv4 header that begins at `ip_at`, plus a constant.
    BehindIp { ip_at: u32, offset: u32 },
}

/// A test on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Constant(bool),
    Chain(Box<Node>, Vec<(Join, Node)>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Compare { base: Base, bytes: u8, mask: u32, relation: Relation, value: u32 },
    Relation(Value, Relation, Value),
}

/// A number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u32),
    /// The packet's bytes on the wire.
    Length,
    Load {
        base: Base,
        index: Box<Value>,
        bytes: u8,
    },
    Negate(Box<Value>),
    Binary(Box<Value>, Operator, Box<Value>),
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) wire_bytes: u32,
}

impl Packet<'_> {
    /// Returns a number at a position; `None` if the packet ends before its end.
    fn load(&self, base: Base, index: u32, bytes: u8) -> Option<u32> {
        let start = match base {
            Base::Packet(at) => at.checked_add(index)?,
            Base::BehindIp { ip_at, offset } => {
                let first = *self.bytes.get(ip_at as usize)?;
                ip_at.checked_add(u32::from(first & 0x0F) * 4 + offset)?.checked_add(index)?
            }
        } as usize;
        let taken = self.bytes.get(start..start.checked_add(usize::from(bytes))?)?;
        Some(taken.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }
}

impl Node {
    /// Returns the answer; `None` if the packet ends before a tested field, which rejects it
    /// regardless of the rest of the filter (`McCanne` and Jacobson, USENIX 1993).
    pub(crate) fn run(&self, packet: &Packet<'_>) -> Option<bool> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Chain(first, rest) => {
                let mut answer = first.run(packet)?;
                for (join, node) in rest {
                    if answer == (*join == Join::And) {
                        answer = node.run(packet)?;
                    }
                }
                Some(answer)
            }
            Self::And(a, b) => {
                if a.run(packet)? {
                    b.run(packet)
                } else {
                    Some(false)
                }
            }
            Self::Or(a, b) => {
                if a.run(packet)? {
                    Some(true)
                } else {
                    b.run(packet)
                }
            }
            Self::Not(inner) => inner.run(packet).map(|answer| !answer),
            &Self::Compare { base, bytes, mask, relation, value } => {
                let found = packet.load(base, 0, bytes)? & mask;
                Some(holds(found, relation, value))
            }
            Self::Relation(left, relation, right) => {
                let (left, right) = (left.run(packet)?, right.run(packet)?);
                Some(holds(left, *relation, right))
            }
        }
    }
}

fn holds(left: u32, relation: Relation, right: u32) -> bool {
    match relation {
        Relation::Equal => left == right,
        Relation::NotEqual => left != right,
        Relation::Greater => left > right,
        Relation::Less => left < right,
        Relation::AtLeast => left >= right,
        Relation::AtMost => left <= right,
    }
}

impl Value {
    fn run(&self, packet: &Packet<'_>) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Length => Some(packet.wire_bytes),
            Self::Load { base, index, bytes } => packet.load(*base, index.run(packet)?, *bytes),
            Self::Negate(inner) => inner.run(packet).map(u32::wrapping_neg),
            Self::Binary(left, operator, right) => {
                let (left, right) = (left.run(packet)?, right.run(packet)?);
                match operator {
                    Operator::Or => Some(left | right),
                    Operator::Xor => Some(left ^ right),
                    Operator::And => Some(left & right),
                    Operator::Left => Some(left.checked_shl(right).unwrap_or(0)),
                    Operator::Right => Some(left.checked_shr(right).unwrap_or(0)),
                    Operator::Add => Some(left.wrapping_add(right)),
                    Operator::Subtract => Some(left.wrapping_sub(right)),
                    Operator::Multiply => Some(left.wrapping_mul(right)),
                    Operator::Divide => left.checked_div(right),
                    Operator::Modulo => left.checked_rem(right),
                }
            }
        }
    }
}
