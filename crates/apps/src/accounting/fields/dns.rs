//! The first question of a DNS flow, and its response code.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::application::Reading;
use super::application::cursor::Cursor;
use super::application::dns_message::{self, DnsMessage, Question, response_code_name, type_name};
use super::application::first_messages::{FirstMessages, Message};
use super::memory::{Content, Held};
use super::{FieldStore, Fields};

const UDP: u8 = 17;
/// DNS, multicast DNS, and link-local multicast name resolution.
const PORTS: [u16; 3] = [53, 5353, 5355];

/// The first question of a flow with port 53, 5353 or 5355, and the code of the first response with
/// the same identifier.
#[derive(Clone, Debug, Default)]
pub struct Dns {
    /// The question of the first message with one over UDP.
    question: Option<Held<Question>>,
    /// The identifier of that message.
    id: u16,
    /// The code of its response.
    code: Option<u8>,
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

impl Content for DnsMessage {
    fn heap_bytes(&self) -> usize {
        self.question.as_ref().map_or(0, Content::heap_bytes)
    }
}

impl Content for Question {
    fn heap_bytes(&self) -> usize {
        self.name.capacity()
    }
}

impl Dns {
    #[cold]
    #[inline(never)]
    fn datagram(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let Some(message) = dns_message::read(packet.payload()) else { return };
        match (&self.question, message.question) {
            (Some(_), _) => {
                if self.id == message.id {
                    self.code = self.code.or(message.response_code);
                }
            }
            (None, Some(question)) => {
                self.question = Some(Held::new(question, store, packet.time_ns));
                (self.id, self.code) = (message.id, message.response_code);
            }
            (None, None) => {}
        }
    }

    fn is_answered(&self) -> bool {
        self.question.is_some() && self.code.is_some()
    }

    fn is_dropped(&self) -> bool {
        self.question.as_ref().is_some_and(Held::is_dropped) || self.over_tcp.is_dropped()
    }

    /// Returns the question, unless it was dropped, and the response code.
    fn result(&self) -> Option<(Option<Question>, Option<u8>)> {
        if let Some(question) = &self.question {
            return Some((question.get(), self.code));
        }
        let [low, high] = self.over_tcp.messages();
        // The query, or the response if the query is missing.
        let mut messages: Vec<DnsMessage> = [low, high].into_iter().flatten().collect();
        messages.sort_by_key(|message| message.response_code.is_some());
        let first = messages.iter().find(|message| message.question.is_some())?;
        let code = messages.iter().filter(|message| message.id == first.id).find_map(|m| m.response_code);
        Some((first.question.clone(), code))
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Text, description).in_group(Group::Dns)
}

impl Fields for Dns {
    const COLUMNS: &'static [Column] = &[
        column("dns_query", "The name of the first DNS question, on port 53, 5353 or 5355."),
        column("dns_query_type", "The type of that question, such as `AAAA`, or `TYPE` and a number."),
        column("dns_response_code", "The response code, such as `NXDOMAIN`."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let headers = &packet.headers;
        let key = &headers.key;
        if !PORTS.contains(&key.low_port()) && !PORTS.contains(&key.high_port()) {
            return;
        }
        if key.protocol() != UDP {
            self.over_tcp.add(packet, store);
        } else if !headers.later_fragment && !self.is_answered() {
            self.datagram(packet, store);
        }
    }

    fn values(&self, _way: Direction, out: &mut Vec<Value>) {
        let (question, code) = self.result().unwrap_or_default();
        let (name, kind) = question.map(|Question { name, kind }| (name, type_name(kind))).unzip();
        let is_dropped = self.is_dropped();
        out.extend([name, kind].map(|text| Value::from_text(text, is_dropped)));
        out.push(Value::from_text(code.map(response_code_name), false));
    }
}
