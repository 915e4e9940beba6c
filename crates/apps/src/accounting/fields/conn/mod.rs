//! State, history and payload of a connection, as Zeek's `conn.log` has them.
//!
//! The rules are those of Zeek's TCP analyzer: two endpoints, each with a state that its own flags
//! and the other's state determine, sequence numbers relative to the first, and a history of
//! letters in upper case for the originator.

mod endpoint;
mod ports;
mod tcp;

use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::{ICMP, ICMPV6, TCP, UDP};
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value, Word};

use super::{FieldStore, Fields};
use tcp::TcpConnection;

const ICMP_HEADER_BYTES: u32 = 8;

/// The states, in Zeek's words.
const STATES: [Word; 13] = {
    const NAMES: [&str; 13] =
        ["S0", "S1", "SF", "REJ", "S2", "S3", "RSTO", "RSTR", "RSTOS0", "RSTRH", "SH", "SHR", "OTH"];
    let mut words = [Word::new("", 0); 13];
    let mut at = 0;
    while at < words.len() {
        words[at] = Word::new(NAMES[at], 0);
        at += 1;
    }
    words
};
const ORIGINATORS: [Word; 2] = [Word::new("source", 0), Word::new("destination", 0)];

/// State, history and payload bytes of a connection in Zeek's terms.
#[derive(Clone, Debug, Default)]
pub struct Conn {
    connection: Option<Connection>,
}

/// The connection of one record.
#[derive(Clone, Debug)]
struct Connection {
    /// The direction of packets from the originator.
    originator: Direction,
    protocol: Protocol,
    history: History,
}

#[expect(clippy::large_enum_variant, reason = "a flow is allocated once, with its fields")]
#[derive(Clone, Debug)]
enum Protocol {
    Tcp(TcpConnection),
    /// Whether each direction of the key has packets, and its bytes behind the transport header.
    Other {
        number: u8,
        seen: [bool; 2],
        bytes: [u64; 2],
    },
}

/// The letters of a history. One that grows beyond the limit ends with `x`.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    letters: [u8; History::LETTERS_MAX],
    len: u8,
}

impl History {
    const LETTERS_MAX: usize = 32;

    fn add(&mut self, letter: u8, is_originator: bool) {
        let letter = if is_originator { letter } else { letter.to_ascii_lowercase() };
        let at = usize::from(self.len);
        if let Some(place) = self.letters.get_mut(at) {
            *place = if at + 1 == Self::LETTERS_MAX { b'x' } else { letter };
            self.len += 1;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl Connection {
    fn of_first(packet: &PacketView<'_>) -> Self {
        let headers = &packet.headers;
        let number = headers.key.protocol();
        let way = headers.direction;
        let mut history = History::default();
        let is_answer = !headers.later_fragment && ports::is_answer(number, headers);
        if is_answer {
            history.add(b'^', true);
        }
        let protocol = if number == TCP && !headers.later_fragment {
            Protocol::Tcp(TcpConnection::default())
        } else {
            Protocol::Other { number, seen: [false; 2], bytes: [0; 2] }
        };
        Self { originator: if is_answer { way.reversed() } else { way }, protocol, history }
    }

    fn take(&mut self, packet: &PacketView<'_>) {
        let headers = &packet.headers;
        let is_originator = headers.direction == self.originator;
        match &mut self.protocol {
            Protocol::Tcp(connection) => {
                if connection.take(packet, is_originator, &mut self.history) {
                    self.originator = self.originator.reversed();
                }
            }
            Protocol::Other { number, seen, bytes } => {
                let way = headers.direction.index();
                if *number == UDP && !seen[way] {
                    self.history.add(b'D', is_originator);
                }
                seen[way] = true;
                bytes[way] += u64::from(match *number {
                    ICMP | ICMPV6 => {
                        let ip_payload = headers.transport_offset.saturating_sub(headers.network_offset);
                        packet.ip_bytes().saturating_sub(ip_payload + ICMP_HEADER_BYTES)
                    }
                    UDP => packet.payload_bytes(),
                    _ => 0,
                });
            }
        }
    }

    fn state(&self) -> &'static str {
        match &self.protocol {
            Protocol::Tcp(connection) => connection.state(self.history.as_str()),
            Protocol::Other { number: UDP, seen, .. } => {
                match [self.originator, self.originator.reversed()].map(|way| seen[way.index()]) {
                    [true, true] => "SF",
                    [true, false] => "S0",
                    [false, true] => "SHR",
                    [false, false] => "OTH",
                }
            }
            Protocol::Other { .. } => "OTH",
        }
    }

    /// Returns the payload bytes in a direction.
    fn bytes(&self, way: Direction) -> u64 {
        match &self.protocol {
            Protocol::Tcp(connection) => connection.bytes(way == self.originator),
            Protocol::Other { bytes, .. } => bytes[way.index()],
        }
    }

    fn missed_bytes(&self) -> u64 {
        if let Protocol::Tcp(connection) = &self.protocol { connection.missed_bytes() } else { 0 }
    }
}

const fn column(name: &'static str, kind: Kind, description: &'static str) -> Column {
    Column::new(name, kind, description).in_group(Group::Conn)
}

impl Fields for Conn {
    const COLUMNS: &'static [Column] = &[
        column(
            "conn_state",
            Kind::Word(&STATES),
            "The state of the connection in Zeek's words: `SF` opened and closed, `S0` no answer, `REJ` refused, `S1` open, `S2`, `S3` half closed, `RSTO`, `RSTR` reset by originator or responder, `RSTOS0`, `RSTRH` reset while opening, `SH`, `SHR` closed without the other end, `OTH` without an opening. A run with a column of this group ends an attempt without an answer after 5 s, as Zeek does, and so has more records.",
        ),
        column(
            "conn_history",
            Kind::Text,
            "The history in Zeek's letters: SYN `s`, SYN+ACK `h`, ACK `a`, data `d`, FIN `f`, RST `r`, gap `g`, \
             retransmission `t`, zero window `w`, several flags `q` and `i`, in upper case from the originator; `^`: roles were \
             exchanged; `x`: more than 32 letters.",
        ),
        column(
            "conn_bytes",
            Kind::Bytes,
            "Payload bytes of the source; of TCP by sequence numbers, of UDP by its length.",
        ),
        column(
            "reverse_conn_bytes",
            Kind::Bytes,
            "Payload bytes of the destination; of TCP by sequence numbers.",
        ),
        column("conn_missed_bytes", Kind::Bytes, "Bytes that were acknowledged and not captured."),
        column(
            "conn_originator",
            Kind::Word(&ORIGINATORS),
            "The end that Zeek calls the originator: the sender of the first packet, unless only its port is a server's.",
        ),
    ];

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        self.connection.get_or_insert_with(|| Connection::of_first(packet)).take(packet);
    }

    fn ends_before(&self, packet: &PacketView<'_>) -> bool {
        matches!(&self.connection, Some(Connection { protocol: Protocol::Tcp(tcp), .. }) if tcp.is_over(packet.time_ns))
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        let Some(connection) = &self.connection else {
            out.extend(Self::COLUMNS.iter().map(|_| Value::None));
            return;
        };
        let history = connection.history.as_str();
        let originator = usize::from(connection.originator != way);
        out.extend([
            Value::Word(connection.state()),
            Value::from_text((!history.is_empty()).then(|| history.to_owned()), false),
            Value::Number(connection.bytes(way)),
            Value::Number(connection.bytes(way.reversed())),
            Value::Number(connection.missed_bytes()),
            Value::Word(ORIGINATORS[originator].name),
        ]);
    }
}
