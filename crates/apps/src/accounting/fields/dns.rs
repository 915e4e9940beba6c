//! The first question of a DNS flow, and its response code.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use super::application::Reading;
use super::application::cursor::Cursor;
use super::application::dns_message::{self, DnsMessage, Question, response_code_name, type_name};
use super::application::first_messages::{FirstMessages, Message};
use super::{FieldColumn, FieldGroup, FieldValue, Fields};

const UDP: u8 = 17;
/// DNS, multicast DNS, and link-local multicast name resolution.
const PORTS: [u16; 3] = [53, 5353, 5355];

/// The first question of a flow with port 53, 5353 or 5355, and the code of the first response with
/// the same identifier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dns {
    /// The first message with a question over UDP, and the code of its response.
    exchange: Option<Box<(u16, Question, Option<u8>)>>,
    /// The flow has a message over UDP.
    has_messages: bool,
    over_tcp: FirstMessages<DnsMessage>,
}

impl Message for DnsMessage {
    /// Over TCP, its length precedes a message.
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self> {
        let mut cursor = Cursor::new(bytes);
        let (Some(length), false) = (cursor.u16(), bytes.is_empty()) else {
            return if is_all { Reading::Other } else { Reading::More };
        };
        let rest = cursor.up_to(usize::from(length));
        match dns_message::read(rest) {
            Some(message) => Reading::Found(message),
            None if is_all || rest.len() == usize::from(length) => Reading::Other,
            None => Reading::More,
        }
    }
}

impl Dns {
    #[cold]
    #[inline(never)]
    fn datagram(&mut self, payload: &[u8]) {
        let Some(message) = dns_message::read(payload) else { return };
        self.has_messages = true;
        match (&mut self.exchange, message.question) {
            (Some(exchange), _) => {
                if exchange.0 == message.id {
                    exchange.2 = exchange.2.or(message.response_code);
                }
            }
            (none, Some(question)) => {
                *none = Some(Box::new((message.id, question, message.response_code)));
            }
            (None, None) => {}
        }
    }

    fn is_answered(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.2.is_some())
    }

    /// Returns the question and the response code.
    fn result(&self) -> Option<(Question, Option<u8>)> {
        if let Some(exchange) = &self.exchange {
            return Some((exchange.1.clone(), exchange.2));
        }
        let [low, high] = self.over_tcp.messages();
        // The query, or the response if the query is missing.
        let mut messages: Vec<DnsMessage> = [low, high].into_iter().flatten().collect();
        messages.sort_by_key(|message| message.response_code.is_some());
        let first = messages.iter().find(|message| message.question.is_some())?;
        let code = messages.iter().filter(|message| message.id == first.id).find_map(|m| m.response_code);
        Some((first.question.clone()?, code))
    }
}

impl Fields for Dns {
    const GROUP: Option<FieldGroup> = Some(FieldGroup::Dns);

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>) {
        let headers = &packet.headers;
        let key = &headers.key;
        if !PORTS.contains(&key.low_port()) && !PORTS.contains(&key.high_port()) {
            return;
        }
        if key.protocol() != UDP {
            self.over_tcp.add(packet);
        } else if !headers.later_fragment && !self.is_answered() {
            self.datagram(packet.payload());
        }
    }

    fn compose(&mut self, later: &Self) -> bool {
        // A response may be among the later packets.
        let waits = self.exchange.is_some() && !self.is_answered() && later.has_messages;
        if waits || !self.over_tcp.compose(&later.over_tcp) {
            return false;
        }
        if self.exchange.is_none() {
            self.exchange.clone_from(&later.exchange);
            self.has_messages |= later.has_messages;
        } else if !self.is_answered() {
            self.has_messages |= later.has_messages;
        }
        true
    }

    fn columns(out: &mut Vec<FieldColumn>) {
        let column = |name, description| FieldColumn::new(name, "text", description);
        out.extend([
            column("dns_query", "The name of the first DNS question, on port 53, 5353 or 5355."),
            column("dns_query_type", "The type of that question, such as `AAAA`, or `TYPE` and a number."),
            column("dns_response_code", "The response code, such as `NXDOMAIN`."),
        ]);
    }

    fn values(&self, _way: Direction, out: &mut Vec<FieldValue>) {
        let (name, kind, code) = match self.result() {
            Some((Question { name, kind }, code)) => (Some(name), Some(type_name(kind)), code),
            None => (None, None, None),
        };
        out.extend([name, kind, code.map(response_code_name)].map(FieldValue::from));
    }
}
