//! Messages of applications, and what a meter can read in them.

use crate::random::Random;

/// The names of columns, and their right values.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// What a client sends first, and what the server answers.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) response: Vec<u8>,
    pub(crate) facts: Facts,
}

fn host(random: &mut Random) -> String {
    let label = |random: &mut Random| {
        let count = random.within(1, 20);
        (0..count).map(|_| char::from(random.within(b'a'.into(), b'z'.into()) as u8)).collect::<String>()
    };
    format!("{}.{}.example", label(random), label(random))
}

/// Returns a question of DNS for an address, and its answer.
pub(crate) fn dns(random: &mut Random) -> Exchange {
    let name = host(random);
    let identifier = (random.next() as u16).to_be_bytes();
    let mut question = Vec::new();
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend(label.bytes());
    }
    // The root, type A, class IN.
    question.extend([0, 0, 1, 0, 1]);
    let message = |flags: [u8; 2], answers: u8, answer: &[u8]| {
        let head = [identifier, flags, [0, 1], [0, answers], [0, 0], [0, 0]].concat();
        [&head[..], &question, answer].concat()
    };
    // The name of the question, for 300 seconds, four bytes.
    let answer = [0xC0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 77];
    let is_known = random.chance(50);
    Exchange {
        request: message([1, 0], 0, &[]),
        response: if is_known { message([0x81, 0x80], 1, &answer) } else { message([0x81, 0x83], 0, &[]) },
        facts: vec![
            ("dns_query", name),
            ("dns_query_type", String::from("A")),
            ("dns_response_code", String::from(if is_known { "NOERROR" } else { "NXDOMAIN" })),
        ],
    }
}

/// Returns a request of HTTP/1.1, and its response.
pub(crate) fn http(random: &mut Random) -> Exchange {
    let (name, status) = (host(random), random.pick(&[200_u16, 204, 301, 404, 503]));
    let (method, target) =
        (random.pick(&["GET", "HEAD", "DELETE"]), format!("/{}", random.within(0, 99_999)));
    Exchange {
        request: format!("{method} {target} HTTP/1.1\r\nHost: {name}\r\nAccept: */*\r\n\r\n").into_bytes(),
        response: format!("HTTP/1.1 {status} Done\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        facts: vec![
            ("http_method", method.to_owned()),
            ("http_host", name),
            ("http_target", target),
            ("http_status", status.to_string()),
        ],
    }
}

/// Returns a `ClientHello` of TLS [RFC 8446 §4.1.2], and an alert that refuses it.
pub(crate) fn tls(random: &mut Random) -> Exchange {
    let name = host(random);
    let message = client_hello(random, &name, b"\x02h2\x08http/1.1", &[]);
    Exchange {
        // The type of the record, and 16 bits of length.
        request: [&[22, 3, 1][..], &(message.len() as u16).to_be_bytes(), &message].concat(),
        response: vec![21, 3, 3, 0, 2, 2, 40],
        facts: vec![("tls_sni", name), ("tls_alpn", String::from("h2,http/1.1"))],
    }
}

/// Returns the `ClientHello` of a QUIC client, without a record, and what a server knows by it.
pub(crate) fn quic(random: &mut Random) -> (Vec<u8>, Facts) {
    let name = host(random);
    // Transport parameters: an idle timeout of 30 s.
    let parameters = [0, 57, 0, 6, 1, 4, 0x80, 0, 0x75, 0x30];
    let message = client_hello(random, &name, b"\x02h3", &parameters);
    (message, vec![("quic_sni", name), ("quic_alpn", String::from("h3"))])
}

/// Returns the message with its type and 24 bits of length.
fn client_hello(random: &mut Random, name: &str, protocols: &[u8], more: &[u8]) -> Vec<u8> {
    let short = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = |kind: [u8; 2], bytes: &[u8]| [&kind[..], &short(bytes)].concat();
    let server_name = short(&[&[0][..], &short(name.as_bytes())].concat());
    let protocols = extension([0, 16], &short(protocols));
    let extensions = [&extension([0, 0], &server_name)[..], &protocols, more].concat();
    let mut hello = vec![3, 3];
    hello.extend(random.bytes(32));
    hello.push(32);
    hello.extend(random.bytes(32));
    hello.extend(short(&[0x13, 1, 0x13, 2]));
    hello.extend([1, 0]);
    hello.extend(short(&extensions));
    [&[1, 0][..], &short(&hello)].concat()
}
