//! Server name, ALPN, fingerprint and version of TLS over TCP.

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::application::Reading;
use super::application::first_messages::{FirstMessages, Message};
use super::application::tls_hello::{self, ClientHello, TlsHello, version_name};
use super::memory::Content;
use super::{FieldStore, Fields};

/// The contents of the first ClientHello and the first ServerHello of a connection. A handshake
/// inside another protocol, as after STARTTLS, is not found.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    hellos: FirstMessages<TlsHello>,
}

impl Message for TlsHello {
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self> {
        tls_hello::read(bytes, is_all)
    }
}

/// Marks a ClientHello that has an encrypted one inside.
pub(super) const OUTER: &str = "outer";

impl Content for TlsHello {
    fn heap_bytes(&self) -> usize {
        if let Self::Client(hello) = self { hello.heap_bytes() } else { 0 }
    }
}

impl ClientHello {
    pub(super) fn heap_bytes(&self) -> usize {
        let texts = [&self.server_name, &self.alpn, &self.ja4];
        texts.into_iter().flatten().map(String::capacity).sum()
    }
}

const fn column(name: &'static str, description: &'static str) -> Column {
    Column::new(name, Kind::Text, description).in_group(Group::Tls)
}

impl Fields for Tls {
    const COLUMNS: &'static [Column] = &[
        column("tls_sni", "The server name indication: the host name that the TLS client requests."),
        column(
            "tls_alpn",
            r"The application protocols that the client offers (ALPN), separated by commas; a comma within a name is `\x2c`.",
        ),
        column("tls_ja4", "The JA4 fingerprint of the ClientHello."),
        column("tls_version", "The version that the server chooses, such as `TLSv1` or `TLS 1.3`."),
        column("tls_ech", "`outer` if the ClientHello has an encrypted one inside or pretends to."),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        self.hellos.add(packet, store);
    }

    fn values(&self, _way: Direction, out: &mut Vec<Value>) {
        let (mut client, mut version) = (None, None);
        for hello in self.hellos.messages().into_iter().flatten() {
            match hello {
                TlsHello::Client(hello) => client = client.or(Some(hello)),
                TlsHello::Server(hello) => version = version.or(Some(hello.version)),
            }
        }
        let client = client.unwrap_or_default();
        let ech = client.has_ech.then(|| OUTER.to_owned());
        let texts = [client.server_name, client.alpn, client.ja4, version.map(version_name), ech];
        let is_dropped = self.hellos.is_dropped();
        out.extend(texts.map(|text| Value::from_text(text, is_dropped)));
    }
}
