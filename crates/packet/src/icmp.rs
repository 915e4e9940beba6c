//! What distinguishes ICMP flows: the type and code of a message, or the identifier of a query.
//!
//! A query and its reply contain the same identifier, which takes the place of ports. Other
//! messages, including errors, have no reply. An ICMP flow is therefore one of two:
//!
//! * the queries and replies of one kind, with one identifier and one asking side (echo, timestamp,
//!   information and address mask [RFC 792, RFC 950], extended echo [RFC 8335], mobile prefixes and
//!   home agents [RFC 6275]), or
//! * the messages of one type and code between two addresses.
//!
//! [`FlowKey::message`] encodes this: it contains the type (high byte) and code of the message. For
//! a query it contains the type of the request, and whether the higher endpoint asks.

use flowloom_flow_key::{Direction, FlowKey, IpFamily};

/// The protocol number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// The protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;

/// Requests of IPv4 that carry an identifier, with the types of their replies.
const QUERIES_V4: [(u8, u8); 5] = [(8, 0), (13, 14), (15, 16), (17, 18), (42, 43)];
/// The same for IPv6.
const QUERIES_V6: [(u8, u8); 4] = [(128, 129), (160, 161), (144, 145), (146, 147)];

/// The role of an ICMP message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A request that carries an identifier.
    Request,
    /// The reply to a request of this type, with the same identifier.
    ReplyTo(u8),
    /// An error, an announcement, or another message without an identifier.
    Alone,
}

/// Returns the role of a message type in this family's ICMP.
///
/// # Examples
///
/// ```
/// use flowloom_packet::IpFamily;
/// use flowloom_packet::icmp::{MessageKind, message_kind};
/// assert_eq!(message_kind(IpFamily::V4, 14), MessageKind::ReplyTo(13));
/// assert_eq!(message_kind(IpFamily::V6, 160), MessageKind::Request);
/// assert_eq!(message_kind(IpFamily::V4, 3), MessageKind::Alone);
/// ```
#[must_use]
pub fn message_kind(family: IpFamily, icmp_type: u8) -> MessageKind {
    let queries: &[(u8, u8)] = match family {
        IpFamily::V4 => &QUERIES_V4,
        IpFamily::V6 => &QUERIES_V6,
    };
    for &(request, reply) in queries {
        if icmp_type == request {
            return MessageKind::Request;
        }
        if icmp_type == reply {
            return MessageKind::ReplyTo(request);
        }
    }
    MessageKind::Alone
}

/// Returns the key and direction of a message with this type and code, from those of its addresses
/// and identifier.
pub(crate) fn keyed(
    (key, direction): (FlowKey, Direction),
    [icmp_type, code]: [u8; 2],
) -> (FlowKey, Direction) {
    let (request, is_reply) = match message_kind(key.family(), icmp_type) {
        MessageKind::Alone => {
            return (key.with_message(u16::from_be_bytes([icmp_type, code])), direction);
        }
        MessageKind::Request => (icmp_type, false),
        MessageKind::ReplyTo(request) => (request, true),
    };
    if key.low_address() == key.high_address() {
        // The host sends to itself, so only the type distinguishes the two directions.
        let direction = if is_reply { Direction::HighToLow } else { Direction::LowToHigh };
        return (key.with_message(u16::from_be_bytes([request, 0])), direction);
    }
    let asks_from = if is_reply { direction.reversed() } else { direction };
    (key.with_message(u16::from_be_bytes([request, asks_from as u8])), direction)
}
