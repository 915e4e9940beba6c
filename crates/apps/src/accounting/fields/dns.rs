//! The questions and answers of a DNS flow, and the code of the first response. Operations other
//! than queries, such as UPDATE and NOTIFY, have none of them.

use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::UDP;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::application::Reading;
use super::application::cursor::Cursor;
use super::application::dns_message::{self, DnsMessage, response_code_name};
use super::application::dns_names::DnsNames;
use super::application::first_messages::{BYTES_MAX, FirstMessages, Message};
use super::memory::{Content, Held};
use super::{FieldStore, Fields};

/// DNS, multicast DNS, and link-local multicast name resolution.
const PORTS: [u16; 3] = [53, 5353, 5355];

/// The questions and answers of a flow with port 53, 5353 or 5355, and the code of the response to
/// the first question.
#[derive(Clone, Debug, Default)]
pub struct Dns {
    /// The names of messages over UDP.
    names: Option<Held<DnsNames>>,
    /// The identifier of the first message with a question.
    id: Option<u16>,
    /// The code of its response.
    code: Option<u16>,
    /// No further names fit.
    is_full: bool,
    over_tcp: FirstMessages<DnsStream>,
}

/// The first bytes of a direction of DNS over TCP.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DnsStream {
    pub(super) first: DnsMessage,
    names: DnsNames,
}

impl Message for DnsStream {
    /// Over TCP, its length precedes a message.
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self> {
        let mut cursor = Cursor::new(bytes);
        let mut next = || {
            let length = usize::from(cursor.u16()?);
            let message = cursor.up_to(length);
            Some((message, message.len() == length))
        };
        let Some((message, is_whole)) = next() else {
            return if is_all { Reading::Other } else { Reading::More };
        };
        let Some(mut first) = dns_message::read(message) else {
            return if is_all || is_whole { Reading::Other } else { Reading::More };
        };
        if !is_all {
            return Reading::More;
        }
        let mut names = DnsNames::default();
        names.add(message, !is_whole);
        while let Some((message, is_whole)) = next() {
            // An operation without a question, such as UPDATE or a session, may come before.
            if !first.has_question && first.response_code.is_none() {
                first = dns_message::read(message).unwrap_or(first);
            }
            names.add(message, !is_whole);
        }
        if bytes.len() >= BYTES_MAX {
            names.mark_cut();
        }
        Reading::Found(Self { first, names })
    }
}

impl Content for DnsStream {
    fn heap_bytes(&self) -> usize {
        self.names.heap_bytes()
    }
}

impl Content for DnsNames {
    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

impl Dns {
    #[cold]
    #[inline(never)]
    fn datagram(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let payload = packet.payload();
        let Some(message) = dns_message::read(payload) else { return };
        if self.id.is_none() && message.has_question {
            self.id = Some(message.id);
        }
        if self.id == Some(message.id) {
            self.code = self.code.or(message.response_code);
        }
        if self.is_full {
            return;
        }
        let time_ns = packet.time_ns;
        let names = self.names.get_or_insert_with(|| Held::new(DnsNames::default(), store, time_ns));
        let is_cut = payload.len() < packet.payload_bytes() as usize;
        let is_full = names.change(time_ns, |names| {
            names.add(payload, is_cut);
            names.is_full()
        });
        self.is_full = is_full.unwrap_or(true);
    }

    /// Returns the names, unless they were dropped, and the response code.
    fn result(&self) -> (Option<DnsNames>, Option<u16>) {
        if let Some(names) = &self.names {
            return (names.get(), self.code);
        }
        let mut streams: Vec<DnsStream> = self.over_tcp.messages().into_iter().flatten().collect();
        // The queries come first.
        streams.sort_by_key(|stream| stream.first.response_code.is_some());
        let asked = streams.iter().map(|stream| &stream.first).find(|first| first.has_question);
        let code = asked.and_then(|asked| {
            let mut same = streams.iter().map(|stream| &stream.first).filter(|first| first.id == asked.id);
            same.find_map(|first| first.response_code)
        });
        let names = streams.into_iter().map(|stream| stream.names).reduce(|mut names, other| {
            names.append(&other);
            names
        });
        (names, code)
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Text, description).in_group(Group::Dns)
}

impl Fields for Dns {
    const COLUMNS: &'static [Column] = &[
        column("dns_query", "The name of the first DNS question, on port 53, 5353 or 5355."),
        column("dns_query_type", "The type of that question, such as `AAAA`, or `TYPE` and a number."),
        column("dns_response_code", "The code of the response to it, such as `NXDOMAIN`."),
        column(
            "dns_queries",
            "All different questions, at most 4,096 bytes: `a.example A;b.example AAAA`. `…` ends a list that lacks some.",
        ),
        column(
            "dns_responses",
            "All different responses, as many bytes, with their codes: `a.example A NOERROR;b.example AAAA NXDOMAIN`.",
        ),
        column(
            "dns_unanswered",
            "The questions that no response repeats. The first also counts as answered if a response has its identifier.",
        ),
        column(
            "dns_answers",
            "All different answers, also at most 4,096 bytes, each with name, time to live in seconds and type: `a.example 300 A 192.0.2.1;…`. Addresses and names are shown (types A, AAAA, CNAME, DNAME, NS, PTR, MX, SRV), other contents are not.",
        ),
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
        } else if !headers.later_fragment && (!self.is_full || self.code.is_none()) {
            self.datagram(packet, store);
        }
    }

    fn values(&self, _way: Direction, out: &mut Vec<Value>) {
        let (names, code) = self.result();
        let is_dropped = self.names.as_ref().is_some_and(Held::is_dropped) || self.over_tcp.is_dropped();
        let text = |text: Option<&str>| {
            Value::from_text(text.filter(|text| !text.is_empty()).map(str::to_owned), is_dropped)
        };
        let names = names.as_ref();
        let (name, kind) = names.and_then(DnsNames::first_question).unzip();
        let (code, is_answered) = (code.map(response_code_name), code.is_some());
        out.extend([text(name), text(kind), Value::from_text(code, false)]);
        out.extend([text(names.map(DnsNames::questions)), text(names.map(DnsNames::responses))]);
        out.push(text(names.map(|names| names.unanswered(is_answered)).as_deref()));
        out.push(text(names.map(DnsNames::answers)));
    }
}
