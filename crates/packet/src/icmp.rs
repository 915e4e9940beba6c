//! What distinguishes ICMP flows: the type and code of a message, who sent it, and an identifier.
//!
//! An ICMP flow is one of two:
//!
//! * the queries and replies of one kind from one asking side, with one identifier if they carry
//!   one (it takes the place of ports), or
//! * the messages of one type and code from one address to another: errors, redirects.
//!
//! Queries that both ends send are therefore two flows, as they have two Community IDs.
//! [`FlowKey::message`] contains the type (high byte) and code of the message, or for a query the
//! type of the request; [`FlowKey::query_direction`] its direction.

pub use flowloom_flow_key::protocol::{ICMP, ICMPV6};
use flowloom_flow_key::{Direction, FlowKey};

/// A type that another answers.
struct Query {
    request: u8,
    reply: u8,
    has_identifier: bool,
}

const fn query(request: u8, reply: u8, has_identifier: bool) -> Query {
    Query { request, reply, has_identifier }
}

/// Echo, timestamp, information and address mask [RFC 792, RFC 950], extended echo [RFC 8335];
/// router solicitation [RFC 1256].
const QUERIES_V4: [Query; 6] = [
    query(8, 0, true),
    query(13, 14, true),
    query(15, 16, true),
    query(17, 18, true),
    query(42, 43, true),
    query(10, 9, false),
];
/// Echo and extended echo, home agents and mobile prefixes [RFC 6275]; multicast listeners
/// [RFC 2710], routers and neighbours [RFC 4861], node information [RFC 4620].
const QUERIES_V6: [Query; 8] = [
    query(128, 129, true),
    query(160, 161, true),
    query(144, 145, true),
    query(146, 147, true),
    query(130, 131, false),
    query(133, 134, false),
    query(135, 136, false),
    query(139, 140, false),
];

/// The role of an ICMP message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A request.
    Request,
    /// The reply to a request of this type.
    ReplyTo(u8),
    /// An error, or another message without a reply.
    Alone,
}

fn find(protocol: u8, icmp_type: u8) -> Option<&'static Query> {
    let queries: &[Query] = if protocol == ICMPV6 { &QUERIES_V6 } else { &QUERIES_V4 };
    queries.iter().find(|query| icmp_type == query.request || icmp_type == query.reply)
}

/// Returns the role of a message type in ICMP of this protocol number.
///
/// # Examples
///
/// ```
/// use flowloom_packet::icmp::{ICMP, ICMPV6, MessageKind, message_kind};
/// assert_eq!(message_kind(ICMP, 14), MessageKind::ReplyTo(13));
/// assert_eq!(message_kind(ICMPV6, 160), MessageKind::Request);
/// assert_eq!(message_kind(ICMP, 3), MessageKind::Alone);
/// ```
#[must_use]
pub fn message_kind(protocol: u8, icmp_type: u8) -> MessageKind {
    match find(protocol, icmp_type) {
        Some(query) if query.request == icmp_type => MessageKind::Request,
        Some(query) => MessageKind::ReplyTo(query.request),
        None => MessageKind::Alone,
    }
}

/// Returns whether messages of this type carry an identifier, which a request and its reply share.
#[must_use]
pub fn has_identifier(protocol: u8, icmp_type: u8) -> bool {
    find(protocol, icmp_type).is_some_and(|query| query.has_identifier)
}

/// Returns the key and direction of a message with this type and code, from those of its addresses
/// and identifier.
pub(crate) fn keyed(
    (key, direction): (FlowKey, Direction),
    [icmp_type, code]: [u8; 2],
) -> (FlowKey, Direction) {
    let (message, is_reply) = match message_kind(key.protocol(), icmp_type) {
        MessageKind::Alone => ([icmp_type, code], false),
        MessageKind::Request => ([icmp_type, 0], false),
        MessageKind::ReplyTo(request) => ([request, 0], true),
    };
    // In a host that sends to itself, only the type distinguishes the two directions.
    let is_to_itself = is_reply && key.low_address() == key.high_address();
    let direction = if is_to_itself { direction.reversed() } else { direction };
    let asked = if is_reply { direction.reversed() } else { direction };
    (key.with_message(u16::from_be_bytes(message), asked), direction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_messages_share_a_key_exactly_if_one_answers_the_other(
            is_v6 in any::<bool>(),
            kinds in any::<[u8; 2]>(),
            codes in proptest::array::uniform2(0_u8..3),
            ends in proptest::array::uniform2(proptest::array::uniform2(1_u32..3)),
        ) {
            let protocol = if is_v6 { ICMPV6 } else { ICMP };
            let message = |at: usize, kind: u8| {
                let [from, to] = ends[at];
                let addressed = if is_v6 {
                    FlowKey::from_v6(from.into(), to.into(), 7, 7, protocol)
                } else {
                    FlowKey::from_v4(from, to, 7, 7, protocol)
                };
                keyed(addressed, [kind, codes[at]])
            };
            let answer = match find(protocol, kinds[0]) {
                Some(query) if query.request == kinds[0] => Some(query.reply),
                Some(query) => Some(query.request),
                None => None,
            };
            for kind in [Some(kinds[1]), Some(kinds[0]), answer].into_iter().flatten() {
                let [(first, way), (second, other)] = [message(0, kinds[0]), message(1, kind)];
                let is_same = kind == kinds[0]
                    && ends[0] == ends[1]
                    && (answer.is_some() || codes[0] == codes[1]);
                let is_answer = Some(kind) == answer && ends[0] == [ends[1][1], ends[1][0]];
                prop_assert_eq!(first == second, is_same || is_answer, "{} {}", first, second);
                if is_answer {
                    prop_assert_eq!(way, other.reversed());
                }
            }
        }
    }
}
