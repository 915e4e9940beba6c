//! The version of QUIC, and what the client's Initial packets contain.

use flowloom_dpi::stream::Segment;
use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::UDP;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::application::first_messages::{BYTES_MAX, Destination, Message, StreamState as Stream};
use super::application::quic_initial::{InitialKeys, InitialPacket, crypto_frames, packets};
use super::application::tls_hello::{self, ClientHello, TlsHello};
use super::application::{Reading, quic_version};
use super::memory::{Content, Held};
use super::tls::OUTER;
use super::{FieldStore, Fields};

/// Number of datagrams examined per direction for the version. A handshake begins with long
/// headers, and a version negotiation or a retry precedes the final version.
const DATAGRAMS_MAX: u8 = 8;
/// Number of datagrams with long headers examined per flow for a ClientHello.
const LONG_DATAGRAMS_MAX: u8 = 16;
/// Number of keys that are tried per flow: those of the first ID of each direction, those after a
/// retry, and those of another version.
const KEYS_MAX: u8 = 4;

/// The version in a flow's first datagrams, and the ClientHello of the client's Initial packets.
#[derive(Clone, Debug, Default)]
pub struct Quic {
    sides: [DirectionVersion; 2],
    hello: Stream<QuicHello>,
    keys: Option<Held<Keys>>,
    /// The direction whose Initial packets are the client's.
    client: Option<Direction>,
    long_datagrams: u8,
    keys_tried: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DirectionVersion {
    version: Option<u32>,
    /// Number of datagrams examined, including the one with the version.
    datagrams: u8,
}

impl DirectionVersion {
    fn is_decided(self) -> bool {
        self.version.is_some() || self.datagrams == DATAGRAMS_MAX
    }
}

/// Keys that fitted, and from what they follow.
#[derive(Clone, Debug)]
struct Keys {
    version: u32,
    destination_id: Vec<u8>,
    initial: InitialKeys,
}

impl Content for Keys {
    fn heap_bytes(&self) -> usize {
        self.destination_id.capacity()
    }
}

#[derive(Clone, Debug)]
struct QuicHello(ClientHello);

impl Message for QuicHello {
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self> {
        match tls_hello::read_message(bytes, is_all, true) {
            Reading::Found(TlsHello::Client(hello)) => Reading::Found(Self(hello)),
            Reading::More => Reading::More,
            Reading::Found(TlsHello::Server(_)) | Reading::Other => Reading::Other,
        }
    }
}

impl Content for QuicHello {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl Quic {
    #[cold]
    #[inline(never)]
    fn long_header(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let way = packet.headers.direction;
        self.long_datagrams += 1;
        if self.client.is_some_and(|client| client != way) {
            return;
        }
        let to = Destination { store, time_ns: packet.time_ns };
        for initial in packets(packet.payload()) {
            let Some(frames) = self.decrypt(&initial, &to) else { continue };
            self.client = Some(way);
            let stream = &mut self.hello;
            crypto_frames(&frames, |offset, payload| {
                if let Some(sequence) = u32::try_from(offset)
                    .ok()
                    .filter(|at| !payload.is_empty() && (*at as usize) < BYTES_MAX)
                {
                    stream.push(Segment { sequence, syn: false, payload }, false, &to);
                }
            });
            if self.hello.is_decided() {
                self.long_datagrams = LONG_DATAGRAMS_MAX;
                self.keys = None;
                return;
            }
        }
    }

    /// Decrypts with the keys of the first destination ID, or with those of the packet's own, which
    /// a retry has changed.
    fn decrypt(&mut self, initial: &InitialPacket<'_>, to: &Destination<'_>) -> Option<Vec<u8>> {
        let known = self.keys.as_ref().and_then(Held::get);
        let same = known.as_ref().filter(|known| known.version == initial.version);
        if let Some(frames) = same.and_then(|known| initial.decrypt(&known.initial)) {
            return Some(frames);
        }
        let first_id = known.as_ref().filter(|_| same.is_none()).map(|known| &*known.destination_id);
        let same_id = same.map(|known| &*known.destination_id);
        for destination_id in first_id.into_iter().chain([initial.destination_id]) {
            if self.keys_tried == KEYS_MAX || same_id == Some(destination_id) {
                return None;
            }
            let keys = InitialKeys::of_client(initial.version, destination_id)?;
            self.keys_tried += 1;
            if let Some(frames) = initial.decrypt(&keys) {
                let destination_id = destination_id.to_vec();
                let keys = Keys { version: initial.version, destination_id, initial: keys };
                self.keys = Some(to.hold(keys));
                // With other keys the handshake begins anew.
                self.hello = Stream::Open(0);
                return Some(frames);
            }
        }
        None
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Text, description).in_group(Group::Quic)
}

impl Fields for Quic {
    const COLUMNS: &'static [Column] = &[
        column(
            "quic_version",
            "The QUIC version in the first long header of the destination, or of the source if that has none: `1`, `2`, `draft-29`, `Q050`.",
        ),
        column("quic_sni", "The server name indication in the client's Initial packets."),
        column(
            "quic_alpn",
            r"The application protocols that the client offers, separated by commas; a comma within a name is `\x2c`.",
        ),
        column("quic_ja4", "The JA4 fingerprint of the ClientHello."),
        column("quic_ech", "`outer` if the ClientHello has an encrypted one inside or pretends to."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let headers = &packet.headers;
        let side = &mut self.sides[headers.direction.index()];
        if headers.key.protocol() != UDP || headers.later_fragment || headers.payload_bytes == 0 {
            return;
        }
        if !side.is_decided() {
            side.datagrams += 1;
            side.version = quic_version::read(packet.payload());
        }
        if self.long_datagrams < LONG_DATAGRAMS_MAX
            && packet.payload().first().is_some_and(|flags| flags & 0xC0 == 0xC0)
        {
            self.long_header(packet, store);
        }
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        let version = self.sides[way.reversed().index()].version.or(self.sides[way.index()].version);
        out.push(Value::from_text(version.map(quic_version::name), false));
        let is_dropped = self.hello.is_dropped() || self.keys.as_ref().is_some_and(Held::is_dropped);
        let hello = self.hello.message().map(|QuicHello(hello)| hello);
        let ech = hello.as_ref().filter(|hello| hello.has_ech).map(|_| OUTER.to_owned());
        let hello = hello.unwrap_or_default();
        let texts = [hello.server_name, hello.alpn, hello.ja4, ech];
        out.extend(texts.map(|text| Value::from_text(text, is_dropped)));
    }
}
