//! Messages of applications, and what a meter can read in them.

use crate::hello;
use crate::random::Random;

/// The names of columns, and their right values; `None` is a missing value.
pub(crate) type Facts = Vec<(&'static str, Option<String>)>;

/// The most bytes of a text in a record, and the end of one that is longer.
const TEXT_BYTES_MAX: usize = 255;
pub(crate) const CUT: &str = "…";
/// The most bytes of a direction that are read.
pub(crate) const READ_BYTES_MAX: usize = 4096;

/// What a client sends first, and what the server answers.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) response: Vec<u8>,
    pub(crate) facts: Facts,
}

pub(crate) fn label(random: &mut Random, bytes_max: u64) -> String {
    let count = random.within(1, bytes_max);
    (0..count).map(|_| char::from(random.within(b'a'.into(), b'z'.into()) as u8)).collect()
}

pub(crate) fn host(random: &mut Random) -> String {
    format!("{}.{}.example", label(random, 20), label(random, 20))
}

#[expect(clippy::unnecessary_wraps, reason = "values of columns are optional")]
pub(crate) fn some(text: impl Into<String>) -> Option<String> {
    Some(text.into())
}

/// Returns the value of a text without special characters, which a record cuts.
fn text(value: &str) -> Option<String> {
    some(if value.len() > TEXT_BYTES_MAX {
        format!("{}{CUT}", &value[..TEXT_BYTES_MAX - CUT.len()])
    } else {
        value.to_owned()
    })
}

/// Returns a request of HTTP/1.1, and its response.
pub(crate) fn http(random: &mut Random) -> Exchange {
    let (name, status) = (host(random), random.pick(&[200_u16, 204, 301, 404, 503]));
    let (method, target) = (
        random.pick(&["GET", "HEAD", "DELETE", "VERSION-CONTROL"]),
        format!("/{}", random.within(0, 99_999)),
    );
    // What is not printable is shown by its bytes.
    let (more, shown) = random.pick(&[("", ""), ("", ""), ("\\\u{e9}\u{7f}~", r"\\\xc3\xa9\x7f~")]);
    let (target, shown) = (format!("{target}{more}"), format!("{target}{shown}"));
    // Names are compared in any case, spaces around values do not count.
    let [header, agent] =
        [random.pick(&["Host:", "HOST:\t", "host:  "]), random.pick(&["", "curl/8.1", "A b"])];
    let end = random.pick(&["\r\n", "\n"]);
    let mut request =
        format!("{}{method} {target} HTTP/1.{}{end}", random.pick(&["", "\r\n"]), random.within(0, 1));
    let mut headers = vec![format!("{header}{name}")];
    if !agent.is_empty() {
        headers.push(format!("User-Agent: {agent} "));
    }
    if random.chance(50) {
        headers.reverse();
    }
    headers.insert(random.within(0, 1) as usize, String::from("Accept: */*"));
    for header in &headers {
        request.extend([header, end]);
    }
    // Neither a second request nor a second value of a header counts.
    request.extend(["HOST: other", end, end, "PUT /other HTTP/1.1", end, "Host: third", end, end]);
    let mut response = String::new();
    for code in [(30, 100), (20, 103)].into_iter().filter(|(percent, _)| random.chance(*percent)) {
        response.extend([format!("HTTP/1.1 {} Interim{end}Link: x{end}{end}", code.1)]);
    }
    response
        .extend([format!("HTTP/1.{} {status} Done{end}Content-Length: 0{end}{end}", random.within(0, 1))]);
    response.extend([format!("HTTP/1.1 500 Second{end}{end}")]);
    Exchange {
        request: request.into_bytes(),
        response: response.into_bytes(),
        facts: vec![
            ("http_method", some(method)),
            ("http_host", some(name)),
            ("http_target", text(&shown)),
            ("http_user_agent", (!agent.is_empty()).then(|| agent.to_owned())),
            ("http_status", some(status.to_string())),
        ],
    }
}

/// Returns a request whose target or headers are longer than what is read, and a response with an
/// interim status only.
pub(crate) fn http_long(random: &mut Random) -> Exchange {
    let name = host(random);
    let (target_bytes, filler) = random.pick(&[(20, 4000), (255, 100), (256, 5000), (5000, 10)]);
    let target = format!("/{}", "t".repeat(target_bytes - 1));
    let line = format!("POST {target} HTTP/1.1\r\n");
    let begin = format!("{line}X-Filler: {}\r\n", "f".repeat(filler));
    let request = format!("{begin}Host: {name}\r\n\r\n");
    let is_read = begin.len() + 8 + name.len() <= READ_BYTES_MAX;
    let target = text(&target);
    let host = some(if is_read { name.as_str() } else { CUT });
    let agent = if request.len() > READ_BYTES_MAX { some(CUT) } else { None };
    Exchange {
        request: request.into_bytes(),
        response: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n\x81\x05HTTP/".to_vec(),
        facts: vec![
            ("http_method", some("POST")),
            ("http_host", host),
            ("http_target", target),
            ("http_user_agent", agent),
            ("http_status", some("101")),
        ],
    }
}

/// Returns the identifications of both ends of SSH [RFC 4253 §4.2].
pub(crate) fn ssh(random: &mut Random) -> Exchange {
    let end = random.pick(&["\r\n", "\n"]);
    let [client, server] = [
        random.pick(&["OpenSSH_9.6", "PuTTY_Release_0.78 with comments"]),
        random.pick(&["Cisco-1.25", "x"]),
    ];
    let lines = random.pick(&["", "Welcome.\r\n", "All use\tis logged.\n\r\nSSH \n"]);
    let more = random.bytes(200);
    Exchange {
        request: [format!("SSH-2.0-{client}{end}").as_bytes(), &more].concat(),
        response: [format!("{lines}SSH-1.99-{server}{end}").as_bytes(), &more].concat(),
        facts: vec![("ssh_client", some(client)), ("ssh_server", some(server))],
    }
}

/// Returns messages that look like the beginning of one that is read, and have no columns.
pub(crate) fn lookalike(random: &mut Random) -> Exchange {
    let messages: [&[u8]; 17] = [
        b"OPTIONS rtsp://a RTSP/1.0\r\n\r\n",
        b"GETGETGETGETGETGETGETGET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b" GET / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.x 200 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"GET /path\r\n\r\n",
        b"SSH-x-y\r\n\r\n",
        b"SSH-2.0\r\n\r\n",
        b"GET / HTTP/1.1 \r\nSSH-2.0-x\r\n",
        b"a\x00\nSSH-2.0-x\r\n",
        b"\x16\x03\x05\0\x04\x01\0\0\0",
        b"\x16\x02\x01\0\x04\x01\0\0\0",
        b"\x17\x03\x03\0\x04\x01\0\0\0",
        b"\x16\x03\x01\0\0\x01\0\0\0",
        b"HTTP/1.1 20 OK\r\n\r\n",
    ];
    let [mut request, response] = [(); 2].map(|()| random.pick(&messages).to_vec());
    if random.chance(30) {
        request = hello::oversized(random);
    }
    Exchange { request, response, facts: vec![("http_method", None), ("http_status", None)] }
}
