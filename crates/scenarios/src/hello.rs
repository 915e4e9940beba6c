//! The first messages of TLS [RFC 8446 §4.1], and what a meter can read in them.

use sha2::{Digest as _, Sha256};

use crate::contents::{CUT, Exchange, Facts, READ_BYTES_MAX, host, some};
use crate::random::Random;

/// How the messages of a handshake become records, and what the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// One record with one message each.
    Plain,
    /// Messages that several records divide.
    Records,
    /// The server asks for another ClientHello first.
    Retry,
    /// The ClientHello is longer than what is read.
    Long,
    /// The server answers with an alert.
    Refused,
}

/// Reserved numbers [RFC 8701].
const GREASE: u16 = 0x3A3A;

fn list16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn list8(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8][..], bytes].concat()
}

fn numbers(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A message with its type and 24 bits of length.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

/// Records of at most so many bytes.
fn records(message: &[u8], bytes: usize) -> Vec<u8> {
    message.chunks(bytes).flat_map(|part| [&[22, 3, 1][..], &list16(part)].concat()).collect()
}

/// Returns twelve digits of a digest.
fn digest(text: &str) -> String {
    if text.is_empty() {
        return "0".repeat(12);
    }
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let digits = digest[..6].iter().fold(0_u64, |digits, byte| digits << 8 | u64::from(*byte));
    format!("{digits:012x}")
}

fn digits(numbers: &[u16]) -> String {
    numbers.iter().map(|number| format!("{number:04x}")).collect::<Vec<_>>().join(",")
}

/// Returns numbers in ascending order, without reserved ones.
fn known(numbers: &[u16]) -> Vec<u16> {
    let mut known: Vec<u16> = numbers.iter().copied().filter(|number| *number != GREASE).collect();
    known.sort_unstable();
    known
}

/// Returns the JA4 fingerprint of a `ClientHello`.
fn ja4(
    is_quic: bool,
    version: u16,
    ciphers: &[u16],
    extensions: &[u16],
    protocol: Option<&&[u8]>,
    algorithms: &[u16],
) -> String {
    let (ciphers, mut kinds) = (known(ciphers), known(extensions));
    let protocol = match protocol {
        None => "00",
        Some([0x2A, _]) => "2a",
        Some([0xAB, ..]) => "ad",
        Some([.., last]) if *last == b'3' => "h3",
        Some(_) => "h2",
    };
    let begin = format!(
        "{}{}{}{:02}{:02}{protocol}",
        if is_quic { 'q' } else { 't' },
        if version == 0x0304 { "13" } else { ["10", "11", "12"][usize::from(version - 0x0301)] },
        if kinds.contains(&0) { 'd' } else { 'i' },
        ciphers.len(),
        kinds.len(),
    );
    kinds.retain(|kind| !matches!(kind, 0 | 16));
    let algorithms: Vec<u16> = algorithms.iter().copied().filter(|number| *number != GREASE).collect();
    let mut third = digits(&kinds);
    if !algorithms.is_empty() && !kinds.is_empty() {
        third = format!("{third}_{}", digits(&algorithms));
    }
    format!("{begin}_{}_{}", digest(&digits(&ciphers)), digest(&third))
}

/// A ClientHello, and the values of its columns: name, protocols, fingerprint, and whether it has
/// another one inside.
struct ClientHello {
    message: Vec<u8>,
    values: [Option<String>; 4],
}

/// Draws a ClientHello. QUIC has transport parameters and its own protocol.
fn client_hello(random: &mut Random, is_quic: bool, padding: usize) -> ClientHello {
    let name = (is_quic || random.chance(80)).then(|| host(random));
    let protocols: &[&[u8]] = match random.within(0, 3) {
        _ if is_quic => &[b"h3"],
        0 => &[],
        1 => &[b"\x2A\x2A", b"h2"],
        2 => &[b"\xABx\xCD"],
        _ => &[b"h2", b"http/1.1"],
    };
    // The version of the header, and those of the extension.
    let (version, versions): (u16, &[u16]) = match random.within(0, 4) {
        0..=1 => (0x0303, &[GREASE, 0x0304, 0x0303]),
        _ if is_quic => (0x0303, &[0x0304]),
        2 => (0x0302, &[]),
        3 => (0x0301, &[]),
        _ => (0x0303, &[]),
    };
    let mut ciphers: Vec<u16> = vec![0x1303, 0x1301, 0xC02F, 0xC02B, 0x009C];
    ciphers.truncate(random.within(1, 5) as usize);
    let algorithms: &[u16] = if random.chance(80) { &[0x0804, 0x0403, GREASE, 0x0401] } else { &[] };
    let has_ech = random.chance(30);
    let mut extensions: Vec<(u16, Vec<u8>)> = Vec::new();
    if let Some(name) = &name {
        // A name of another type does not count.
        let other = if random.chance(30) { [&[1][..], &list16(b"other")].concat() } else { Vec::new() };
        let names = [other, [&[0][..], &list16(name.as_bytes())].concat()].concat();
        extensions.push((0, list16(&names)));
    }
    if !protocols.is_empty() {
        extensions
            .push((16, list16(&protocols.iter().flat_map(|protocol| list8(protocol)).collect::<Vec<_>>())));
    }
    if !versions.is_empty() {
        extensions.push((43, list8(&numbers(versions))));
    }
    if !algorithms.is_empty() {
        extensions.push((13, list16(&numbers(algorithms))));
    }
    if has_ech {
        extensions.push((0xFE0D, random.bytes(20)));
    }
    if is_quic {
        // An idle timeout of 30 s.
        extensions.push((57, vec![1, 4, 0x80, 0, 0x75, 0x30]));
    }
    // A ticket, as of a session that is resumed.
    if random.chance(40) {
        extensions.push((35, random.bytes(40)));
    }
    if random.chance(50) {
        extensions.push((GREASE, Vec::new()));
        ciphers.insert(0, GREASE);
    }
    for at in (1..extensions.len()).rev() {
        extensions.swap(at, random.within(0, at as u64) as usize);
    }
    if padding > 0 {
        extensions.push((21, vec![0; padding]));
    }
    let mut body = version.to_be_bytes().to_vec();
    body.extend(random.bytes(32));
    let session_bytes = random.pick(&[0, 32]);
    body.extend(list8(&random.bytes(session_bytes)));
    body.extend(list16(&numbers(&ciphers)));
    body.extend([1, 0]);
    let all: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| [&kind.to_be_bytes()[..], &list16(content)].concat())
        .collect();
    // Old clients have no list of extensions.
    if !extensions.is_empty() {
        body.extend(list16(&all));
    }
    let kinds: Vec<u16> = extensions.iter().map(|(kind, _)| *kind).collect();
    let highest = known(versions).last().copied().unwrap_or(version);
    let ja4 = ja4(is_quic, highest, &ciphers, &kinds, protocols.first(), algorithms);
    let shown: Vec<&str> =
        protocols
            .iter()
            .filter(|protocol| protocol[0] != 0x2A)
            .map(|protocol| {
                if protocol[0] == 0xAB { r"\xabx\xcd" } else { std::str::from_utf8(protocol).unwrap_or("") }
            })
            .collect();
    let shown = (!shown.is_empty()).then(|| shown.join(","));
    ClientHello {
        message: message(1, &body),
        values: [name, shown, Some(ja4), has_ech.then(|| "outer".to_owned())],
    }
}

/// Returns a `ServerHello` and the name of the version that it chooses.
fn server_hello(random: &mut Random, is_retry: bool) -> (Vec<u8>, &'static str) {
    let (header, chosen, name): (u16, Option<u16>, _) = match random.within(0, 6) {
        0..=1 => (0x0303, Some(0x0304), "TLS 1.3"),
        _ if is_retry => (0x0303, Some(0x0304), "TLS 1.3"),
        2 => (0x0302, None, "TLS 1.1"),
        3 => (0x0301, None, "TLSv1"),
        4 => (0x0300, None, "SSLv3"),
        5 => (0x0303, Some(0x7F1C), "TLS 1.3 draft-28"),
        _ => (0x0303, None, "TLS 1.2"),
    };
    let mut body = header.to_be_bytes().to_vec();
    body.extend(random.bytes(32));
    let session_bytes = random.pick(&[0, 32]);
    body.extend(list8(&random.bytes(session_bytes)));
    body.extend([0x13, 1, 0]);
    let key_share = [&[0, 51][..], &list16(&random.bytes(36))].concat();
    let version = chosen.map_or(vec![], |chosen| [&[0, 43, 0, 2][..], &chosen.to_be_bytes()].concat());
    // One without extensions ends behind the compression.
    if chosen.is_some() || random.chance(50) {
        body.extend(list16(&[key_share, version].concat()));
    }
    (message(2, &body), name)
}

/// Returns a handshake of TLS over TCP.
pub(crate) fn tls(random: &mut Random, handshake: Handshake) -> Exchange {
    let padding = if handshake == Handshake::Long { 2 * READ_BYTES_MAX } else { 0 };
    let ClientHello { message, values } = client_hello(random, false, padding);
    let bytes = if handshake == Handshake::Records { random.within(1, 60) as usize } else { 1 << 14 };
    let mut request = records(&message, bytes);
    let [name, protocols, mut ja4, ech] = values;
    let (mut name, mut protocols) = (name, protocols);
    if handshake == Handshake::Long {
        // What is missing may lie in the part that is not read.
        for value in [&mut name, &mut protocols] {
            value.get_or_insert_with(|| CUT.to_owned());
        }
        ja4 = some(CUT);
    }
    let (hello, version) = server_hello(random, handshake == Handshake::Retry);
    let certificate = self::message(11, &random.bytes(700));
    let mut response = match handshake {
        Handshake::Refused => vec![21, 3, 3, 0, 2, 2, 40],
        // Its record has the next message too.
        Handshake::Plain if random.chance(50) => records(&[hello, certificate].concat(), 1 << 14),
        _ => records(&hello, bytes),
    };
    if handshake == Handshake::Retry {
        // Change of the cipher, the second ClientHello, and the second ServerHello.
        request.extend([20, 3, 3, 0, 1, 1]);
        request.extend(records(&client_hello(random, false, 0).message, 1 << 14));
        response.extend([20, 3, 3, 0, 1, 1]);
        response.extend(records(&server_hello(random, true).0, 1 << 14));
    }
    if handshake != Handshake::Refused {
        response.extend([&[23, 3, 3][..], &list16(&random.bytes(300))].concat());
    }
    let version = (handshake != Handshake::Refused).then(|| version.to_owned());
    let values = [name, protocols, ja4, version, ech];
    let facts =
        ["tls_sni", "tls_alpn", "tls_ja4", "tls_version", "tls_ech"].into_iter().zip(values).collect();
    Exchange { request, response, facts }
}

/// Returns a ClientHello in a record that claims to be longer than records can be.
pub(crate) fn oversized(random: &mut Random) -> Vec<u8> {
    [&[22, 3, 1, 0x41, 0x01][..], &client_hello(random, false, 0).message].concat()
}

/// Returns the `ClientHello` of a QUIC client, without a record, and what a server knows by it.
pub(crate) fn quic(random: &mut Random) -> (Vec<u8>, Facts) {
    let ClientHello { message, values } = client_hello(random, true, 0);
    (message, ["quic_sni", "quic_alpn", "quic_ja4", "quic_ech"].into_iter().zip(values).collect())
}
