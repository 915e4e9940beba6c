//! The first handshake message of a direction of TLS over TCP: ClientHello or ServerHello.
//!
//! ```text
//!  22 | 3.x | length | 1 or 2 | length | version | random | …      records may cut the message
//!  └─── record ────┘ └── handshake ──┘
//! ```
//!
//! Warnings may precede the message: a server that does not know the requested name may say so and
//! go on [RFC 6066 §3].

use std::borrow::Cow;

use super::Reading;
use super::cursor::Cursor;
use super::ja4::{Ja4Input, is_grease, ja4};
use super::text::{CUT, PrintableList, printable};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// The level of an alert after which the handshake goes on.
const WARNING: u8 = 1;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const RECORD_BYTES_MAX: u16 = (1 << 14) + 256;
/// Maximum length of a message including its header, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xFE0D;

/// The first message of a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsHello {
    /// The client's.
    Client(ClientHello),
    /// The server's.
    Server(ServerHello),
}

/// The offers of a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The host name of the server name extension.
    pub server_name: Option<String>,
    /// The offered ALPN protocols, separated by commas. A comma within a name is `\x2c`.
    pub alpn: Option<String>,
    /// Its JA4 fingerprint.
    pub ja4: Option<String>,
    /// Whether it has an encrypted ClientHello inside, so that its server name is the outer one
    /// [RFC 9849 §5]. Clients also send a random one that has no meaning.
    pub has_ech: bool,
}

/// The choices of a ServerHello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHello {
    /// The version: that of `supported_versions` if present, otherwise that of the header.
    pub version: u16,
}

/// Reads the first message of a direction. For a truncated message, with `is_all`, it returns the
/// available parts; the others are [cut off](CUT).
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::{Reading, tls_hello};
/// assert_eq!(tls_hello::read(&[22, 3, 1], false), Reading::More);
/// assert_eq!(tls_hello::read(b"GET /", false), Reading::Other);
/// ```
#[must_use]
pub fn read(bytes: &[u8], is_all: bool) -> Reading<TlsHello> {
    handshake(bytes).map_or(Reading::Other, |message| read_message(&message, is_all, false))
}

/// Reads a message without the records around it, as QUIC carries it.
#[must_use]
pub fn read_message(message: &[u8], is_all: bool, is_quic: bool) -> Reading<TlsHello> {
    let &[kind, a, b, c, ref body @ ..] = message else {
        return if is_all { Reading::Other } else { Reading::More };
    };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if !matches!(kind, CLIENT_HELLO | SERVER_HELLO) || length > MESSAGE_BYTES_MAX {
        return Reading::Other;
    }
    let is_whole = body.len() >= length;
    if !is_whole && !is_all {
        return Reading::More;
    }
    let body = &body[..body.len().min(length)];
    let hello = if kind == CLIENT_HELLO {
        client_hello(body, is_whole, is_quic).map(TlsHello::Client)
    } else {
        server_hello(body, is_whole).map(TlsHello::Server)
    };
    hello.map_or(Reading::Other, Reading::Found)
}

/// Returns the part of the first message in the leading handshake records, behind any warnings, or
/// `None` if the bytes begin with something else.
fn handshake(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut message = Cow::Borrowed(&[][..]);
    let mut rest = bytes;
    while rest.first() == Some(&ALERT) {
        match *rest {
            [_, 3, 0..=4, 0, 2, WARNING, _, ref behind @ ..] => rest = behind,
            // Each byte is checked as soon as it is available.
            [_]
            | [_, 3]
            | [_, 3, 0..=4]
            | [_, 3, 0..=4, 0]
            | [_, 3, 0..=4, 0, 2]
            | [_, 3, 0..=4, 0, 2, WARNING] => return Some(message),
            _ => return None,
        }
    }
    loop {
        // Each byte is checked as soon as it is available.
        let is_record = rest.first().is_none_or(|&kind| kind == HANDSHAKE)
            && rest.get(1).is_none_or(|&major| major == 3)
            && rest.get(2).is_none_or(|&minor| minor <= 4);
        if !is_record {
            // A record of another kind follows a part of the message, so the message stays
            // incomplete.
            return (!message.is_empty()).then_some(message);
        }
        let Some((&[_, _, _, high, low], behind)) = rest.split_first_chunk::<5>() else {
            return Some(message);
        };
        let length = u16::from_be_bytes([high, low]);
        if length == 0 || length > RECORD_BYTES_MAX {
            return (!message.is_empty()).then_some(message);
        }
        let fragment = &behind[..behind.len().min(usize::from(length))];
        if message.is_empty() {
            message = Cow::Borrowed(fragment);
        } else {
            message.to_mut().extend_from_slice(fragment);
        }
        if let &[_, a, b, c, ..] = &*message
            && message.len() >= 4 + u32::from_be_bytes([0, a, b, c]) as usize
        {
            return Some(message);
        }
        rest = &behind[fragment.len()..];
        if fragment.len() < usize::from(length) || message.len() > MESSAGE_BYTES_MAX {
            return Some(message);
        }
    }
}

/// Reads a ClientHello [RFC 8446 §4.1.2]. Returns `None` if its header is incomplete.
fn client_hello(body: &[u8], is_whole: bool, is_quic: bool) -> Option<ClientHello> {
    let mut cursor = Cursor::new(body);
    let version = cursor.u16()?;
    if version >> 8 != 3 {
        return None;
    }
    cursor.bytes(32)?;
    cursor.list8()?;
    let mut input = Ja4Input { is_quic, version, ..Ja4Input::default() };
    let mut hello = ClientHello::default();
    let ciphers = cursor.list16();
    input.ciphers = ciphers.map(Cursor::numbers).unwrap_or_default();
    let is_read = ciphers.is_some()
        && cursor.list8().is_some()
        && read_client_extensions(&mut cursor, &mut hello, &mut input);
    if is_whole && is_read {
        hello.ja4 = Some(ja4(&input));
    } else if !is_whole {
        for text in [&mut hello.server_name, &mut hello.alpn, &mut hello.ja4] {
            text.get_or_insert_with(|| CUT.into());
        }
    }
    Some(hello)
}

/// Reads extensions into `hello` and `input`. Returns whether all of them were available.
fn read_client_extensions<'a>(
    cursor: &mut Cursor<'a>,
    hello: &mut ClientHello,
    input: &mut Ja4Input<'a>,
) -> bool {
    if cursor.is_empty() {
        return true;
    }
    let Some(bytes) = cursor.u16() else { return false };
    let is_whole = cursor.rest().len() >= usize::from(bytes);
    let mut extensions = Cursor::new(cursor.up_to(usize::from(bytes)));
    while !extensions.is_empty() {
        let Some(kind) = extensions.u16() else { return false };
        let Some(mut content) = extensions.list16() else { return false };
        input.extensions.push(kind);
        match kind {
            SERVER_NAME if hello.server_name.is_none() => hello.server_name = server_name(content),
            ALPN if hello.alpn.is_none() => {
                let mut protocols = content.list16().unwrap_or(Cursor::new(&[]));
                let mut names = PrintableList::default();
                while let Some(protocol) = protocols.list8() {
                    if input.alpn.is_none() {
                        input.alpn = Some(protocol.rest());
                    }
                    if !is_grease_protocol(protocol.rest()) {
                        names.push(protocol.rest());
                    }
                }
                hello.alpn = names.finish();
            }
            ENCRYPTED_CLIENT_HELLO => hello.has_ech = true,
            SUPPORTED_VERSIONS => {
                let versions = content.list8().map(Cursor::numbers);
                input.supported_versions = versions.or(input.supported_versions.take());
            }
            SIGNATURE_ALGORITHMS => {
                input.signature_algorithms = content.list16().map(Cursor::numbers).unwrap_or_default();
            }
            _ => {}
        }
    }
    is_whole
}

/// Returns whether an ALPN protocol is reserved (RFC 8701).
fn is_grease_protocol(protocol: &[u8]) -> bool {
    matches!(*protocol, [high, low] if is_grease(u16::from_be_bytes([high, low])))
}

/// Returns the host name of the server name extension [RFC 6066 §3].
fn server_name(mut content: Cursor<'_>) -> Option<String> {
    let mut names = content.list16()?;
    while let Some(kind) = names.u8() {
        let name = names.list16()?;
        if kind == 0 {
            return Some(printable(name.rest()));
        }
    }
    None
}

/// Reads a ServerHello [RFC 8446 §4.1.3]. Returns `None` if it is incomplete, because the version
/// is not known without its extensions.
fn server_hello(body: &[u8], is_whole: bool) -> Option<ServerHello> {
    let mut cursor = Cursor::new(body);
    let mut version = cursor.u16()?;
    if version >> 8 != 3 && version >> 8 != 0x7F {
        return None;
    }
    cursor.bytes(32)?;
    cursor.list8()?;
    cursor.bytes(3)?;
    if !cursor.is_empty() {
        let mut extensions = cursor.list16()?;
        while let Some((kind, mut content)) = extensions.u16().zip(extensions.list16()) {
            if kind == SUPPORTED_VERSIONS {
                version = content.u16()?;
            }
        }
    }
    is_whole.then_some(ServerHello { version })
}

/// Returns the name of a version, as Suricata writes it: `SSLv3`, `TLSv1`, `TLS 1.3`, or the number
/// in hexadecimal.
#[must_use]
pub fn version_name(version: u16) -> String {
    match version {
        0x0300 => String::from("SSLv3"),
        0x0301 => String::from("TLSv1"),
        0x0302..=0x0304 => format!("TLS 1.{}", version - 0x0301),
        0x7F00..=0x7FFF => format!("TLS 1.3 draft-{}", version & 0xFF),
        _ => format!("{version:#06x}"),
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;

    /// Returns numbers of two bytes after their length in bytes.
    fn list16(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), list16(content)].concat()
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind], &length[1..], body].concat()
    }

    /// Returns a message split into records of at most `record_bytes` bytes.
    fn records(message: &[u8], record_bytes: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[22, 3, 1][..], &list16(part)].concat();
        message.chunks(record_bytes).flat_map(record).collect()
    }

    /// Returns the ClientHello of JA4's published example with this server name, in records.
    pub(in super::super::super) fn example(name: &str, record_bytes: usize) -> Vec<u8> {
        let numbers = |numbers: &[u16]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
        let ciphers = numbers(&[
            0x2A2A, 0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0xC013, 0xC014,
            0x009C, 0x009D, 0x002F, 0x0035,
        ]);
        let signatures = numbers(&[0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601]);
        let host = [&[0][..], &list16(name.as_bytes())].concat();
        let extensions = [
            extension(0xFAFA, &[]),
            extension(0x001B, &[2, 0, 2]),
            extension(0, &list16(&host)),
            extension(0x0033, &[0; 40]),
            extension(16, &list16(b"\x02h2\x08http/1.1")),
            extension(0x4469, &[0, 3, 2, b'h', b'2']),
            extension(0x0017, &[]),
            extension(0x002D, &[1, 1]),
            extension(13, &list16(&signatures)),
            extension(0x0005, &[1, 0, 0, 0, 0]),
            extension(0x0023, &[]),
            extension(0x0012, &[]),
            extension(43, &[6, 0x3A, 0x3A, 3, 4, 3, 3]),
            extension(0xFF01, &[0]),
            extension(0x000B, &[1, 0]),
            extension(0x000A, &[0, 2, 0, 29]),
            extension(0x0015, &[0; 60]),
        ]
        .concat();
        let body =
            [&[3, 3][..], &[7; 32], &[1, 9], &list16(&ciphers), &[1, 0], &list16(&extensions)].concat();
        records(&message(1, &body), record_bytes)
    }

    fn client(bytes: &[u8], is_all: bool) -> Option<ClientHello> {
        match read(bytes, is_all) {
            Reading::Found(TlsHello::Client(hello)) => Some(hello),
            _ => None,
        }
    }

    #[test]
    fn client_hello_split_into_any_records_is_read() {
        for record_bytes in [1, 3, 100, 1 << 14] {
            let bytes = example("example.org", record_bytes);
            let hello = client(&bytes, false).unwrap();
            assert_eq!(hello.server_name.as_deref(), Some("example.org"));
            assert_eq!(hello.alpn.as_deref(), Some("h2,http/1.1"));
            assert_eq!(hello.ja4.as_deref(), Some("t13d1516h2_8daaf6152771_e5627efa2ab1"));
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end], false), Reading::More, "{record_bytes}, {end}");
                let cut = client(&bytes[..end], true).unwrap_or_default();
                assert!(cut.ja4.is_none_or(|ja4| ja4 == CUT), "the fingerprint of a part is another's");
                assert!(cut.server_name.is_none_or(|name| name == "example.org" || name == CUT));
            }
        }
    }

    #[test]
    fn server_hello_has_the_version_from_its_extension() {
        let hello = |extensions: &[u8]| {
            let body = [&[3, 3][..], &[7; 32], &[0], &[0x13, 1], &[0], extensions].concat();
            read(&records(&message(2, &body), 9000), false)
        };
        let version = |version| Reading::Found(TlsHello::Server(ServerHello { version }));
        assert_eq!(hello(&[]), version(0x0303));
        assert_eq!(hello(&list16(&extension(43, &[3, 4]))), version(0x0304));
        assert_eq!(hello(&list16(&extension(51, &[3, 4]))), version(0x0303));
        assert_eq!(
            ["TLS 1.3", "TLS 1.1", "TLSv1", "SSLv3"].map(String::from),
            [0x304, 0x302, 0x301, 0x300].map(version_name)
        );
    }

    #[test]
    fn hello_behind_warnings_is_read() {
        let warning = [21, 3, 1, 0, 2, 1, 112];
        let body = [&[3, 3][..], &[7; 32], &[0], &[0x13, 1], &[0]].concat();
        let server = records(&message(2, &body), 9000);
        for warnings in 1..4 {
            let bytes = [&warning.repeat(warnings)[..], &server].concat();
            let expected = Reading::Found(TlsHello::Server(ServerHello { version: 0x0303 }));
            assert_eq!(read(&bytes, false), expected);
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end], false), Reading::More, "{end}");
                assert_eq!(read(&bytes[..end], true), Reading::Other, "{end}");
            }
            let hello = [&warning.repeat(warnings)[..], &example("a.example", 9000)].concat();
            assert_eq!(client(&hello, false).unwrap().server_name.as_deref(), Some("a.example"));
        }
        for (at, byte) in [(1, 2), (2, 9), (3, 1), (4, 3), (5, 2), (5, 0)] {
            let mut other = warning;
            other[at] = byte;
            assert_eq!(read(&[&other[..], &server].concat(), false), Reading::Other, "{at} {byte}");
            assert_eq!(read(&other[..=at], false), Reading::Other, "{at} {byte}");
        }
    }

    #[test]
    fn other_protocols_are_excluded_at_the_first_byte_that_differs() {
        for bytes in [
            &b"G"[..],
            &[22, 4],
            &[22, 3, 9],
            &[23, 3, 3],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 4, 11, 0, 0, 0],
        ] {
            assert_eq!(read(bytes, false), Reading::Other, "{bytes:?}");
        }
    }

    #[test]
    fn names_that_are_not_text_are_escaped_and_cut() {
        let hello = client(&example("a\r\nb\u{e9}", 9000), false).unwrap();
        assert_eq!(hello.server_name.as_deref(), Some(r"a\x0d\x0ab\xc3\xa9"));
        let hello = client(&example(&"x".repeat(3000), 9000), false).unwrap();
        assert_eq!(hello.server_name, Some("x".repeat(252) + CUT));
    }
}
