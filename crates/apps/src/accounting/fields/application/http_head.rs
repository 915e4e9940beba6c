//! Request lines, status lines and headers of HTTP/1 [RFC 9112].

use super::Reading;
use super::text::{CUT, cut, printable};

/// Maximum length of a method, in bytes.
const METHOD_BYTES_MAX: usize = 20;

/// The start of a direction of HTTP/1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpHead {
    /// A request.
    Request(HttpRequest),
    /// A response with this status code.
    Response(u16),
}

/// The request line of a request and some of its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The target: a path with its query, or a whole URI.
    pub target: String,
    /// The first `Host` header.
    pub host: Option<String>,
    /// The first `User-Agent` header.
    pub user_agent: Option<String>,
}

/// Reads the first request or the first status of a direction.
///
/// Empty lines before it do not count [RFC 9112 §2.2]. The status is the final one: interim ones
/// (1xx) count only where nothing follows them; 101 is final, because another protocol follows.
///
/// The result is available when the status code is known; for a request, when both headers are
/// known or the headers have ended. With `is_all`, the missing parts of a request are
/// [cut off](CUT). Lines may end with LF alone.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::Reading;
/// use flowloom_apps::accounting::fields::application::http_head::{self, HttpHead};
/// let bytes = b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";
/// let Reading::Found(HttpHead::Request(head)) = http_head::read(bytes, false) else { panic!() };
/// assert_eq!((&*head.method, &*head.target), ("GET", "/a"));
/// assert_eq!(head.host.as_deref(), Some("example.org"));
/// assert_eq!(http_head::read(b"HTTP/1.1 404 N", false), Reading::Found(HttpHead::Response(404)));
/// ```
#[must_use]
pub fn read(bytes: &[u8], is_all: bool) -> Reading<HttpHead> {
    let open = if is_all { Reading::Other } else { Reading::More };
    let Some(begin) = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else { return open };
    let bytes = &bytes[begin..];
    if starts_with(bytes, b"HTTP/1.") {
        return response(bytes, is_all);
    }
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    match bytes.get(method) {
        _ if method > METHOD_BYTES_MAX => return Reading::Other,
        None => return open,
        Some(b' ') if method > 0 => {}
        Some(_) => return Reading::Other,
    }
    let mut lines = bytes.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    if !bytes.contains(&b'\n') {
        let mut words = bytes[method + 1..].splitn(2, |&byte| byte == b' ');
        let (target, is_whole) = (words.next().unwrap_or_default(), words.next().is_some());
        if !is_all || !(target.starts_with(b"/") || target.starts_with(b"http")) {
            return open;
        }
        let [host, user_agent] = [(); 2].map(|()| Some(CUT.into()));
        let request = HttpRequest {
            method: printable(&bytes[..method]),
            target: if is_whole { printable(target) } else { cut(target) },
            host,
            user_agent,
        };
        return Reading::Found(HttpHead::Request(request));
    }
    let line = lines.next().unwrap_or_default();
    let Some((line, version)) = split_last(&line[method + 1..]) else { return Reading::Other };
    if !matches!(version, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if minor.is_ascii_digit()) {
        return Reading::Other;
    }
    let mut request = HttpRequest {
        method: printable(&bytes[..method]),
        target: printable(line.trim_ascii()),
        ..HttpRequest::default()
    };
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        let is_whole = lines.peek().is_some();
        if !is_whole {
            // Text after the last line end is not a complete line.
            if !is_all {
                return Reading::More;
            }
            request.host.get_or_insert_with(|| CUT.into());
            request.user_agent.get_or_insert_with(|| CUT.into());
            break;
        }
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        for (wanted, place) in [("host", &mut request.host), ("user-agent", &mut request.user_agent)] {
            if name.eq_ignore_ascii_case(wanted.as_bytes()) && place.is_none() {
                *place = Some(printable(value));
            }
        }
        if request.host.is_some() && request.user_agent.is_some() {
            break;
        }
    }
    Reading::Found(HttpHead::Request(request))
}

/// Reads the final status of a direction that begins with `HTTP/1.`.
fn response(bytes: &[u8], is_all: bool) -> Reading<HttpHead> {
    let (mut rest, mut interim) = (bytes, None);
    let decided =
        |code: Option<u16>| code.map_or(Reading::Other, |code| Reading::Found(HttpHead::Response(code)));
    while starts_with(rest, b"HTTP/1.") {
        // The twelfth byte ends the status code; the next one shows that no digit follows.
        if rest.len() < 13 && !rest.contains(&b'\n') && !is_all {
            return Reading::More;
        }
        let code = status(rest).filter(|_| !rest.get(12).is_some_and(u8::is_ascii_alphanumeric));
        let Some(code @ (100 | 102..=199)) = code else { return decided(code.or(interim)) };
        interim = Some(code);
        let end = (0..rest.len()).find_map(|at| {
            let behind = rest[at..].strip_prefix(b"\n")?;
            behind.strip_prefix(b"\r\n").or_else(|| behind.strip_prefix(b"\n"))
        });
        rest = end.unwrap_or_default();
    }
    // Behind the empty line only another status is HTTP.
    if rest.is_empty() && !is_all { Reading::More } else { decided(interim) }
}

/// Returns whether the bytes begin with `begin`, as far as they go.
fn starts_with(bytes: &[u8], begin: &[u8]) -> bool {
    let shared = bytes.len().min(begin.len());
    shared > 0 && bytes[..shared] == begin[..shared]
}

/// Returns the three digits of `HTTP/1.1 404`.
fn status(bytes: &[u8]) -> Option<u16> {
    let &[b' ', a, b, c] = bytes.get(8..12)? else { return None };
    let is_code = bytes[7].is_ascii_digit() && [a, b, c].iter().all(u8::is_ascii_digit);
    is_code.then(|| [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0')))
}

/// Splits at the last space.
fn split_last(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().rposition(|&byte| byte == b' ')?;
    Some((&line[..space], &line[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8], is_all: bool) -> Option<HttpRequest> {
        match read(bytes, is_all) {
            Reading::Found(HttpHead::Request(request)) => Some(request),
            _ => None,
        }
    }

    #[test]
    fn header_names_ignore_case_and_partial_headers_are_not_read() {
        let bytes = b"POST http://a/ HTTP/1.0\nuser-AGENT:  curl/8 \nX: y\nHOST:a:80\n\nbody";
        let found = request(bytes, false).unwrap();
        assert_eq!((&*found.method, &*found.target), ("POST", "http://a/"));
        assert_eq!((found.host.as_deref(), found.user_agent.as_deref()), (Some("a:80"), Some("curl/8")));
        assert_eq!(request(b"GET / HTTP/1.1\r\nHost: exam", false), None);
        let cut = request(b"GET / HTTP/1.1\r\nX: y\r\nHost: exam", true).unwrap();
        assert_eq!(
            (cut.host.as_deref(), cut.user_agent.as_deref()),
            (Some("…"), Some("…")),
            "half a header"
        );
        let endless = [b"PUT /", &[b'a'; 4000][..]].concat();
        assert_eq!(request(&endless, false), None);
        let cut = request(&endless, true).unwrap();
        assert!(cut.target.starts_with("/aa") && cut.target.ends_with("a…") && cut.host.is_some());
        assert_eq!(request(b"QUIT now", true), None);
    }

    #[test]
    fn request_is_undecided_until_it_is_complete() {
        let bytes = b"GET /index.html HTTP/1.1\r\nAccept: */*\r\nHost: h\r\n\r\n";
        for end in 1..bytes.len() {
            assert_eq!(read(&bytes[..end], false), Reading::More, "{end}");
        }
        assert!(request(bytes, false).is_some());
        let response = b"HTTP/1.1 200 OK\r\n";
        for end in 1..response.len() {
            let expected = if end < 13 { Reading::More } else { Reading::Found(HttpHead::Response(200)) };
            assert_eq!(read(&response[..end], false), expected, "{end}");
        }
    }

    #[test]
    fn empty_lines_before_a_request_are_skipped() {
        for lines in ["\r\n", "\n", "\r\n\r\n\n"] {
            let bytes = [lines.as_bytes(), b"GET /crlf HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
            assert_eq!(request(&bytes, false).unwrap().target, "/crlf");
            assert!((0..bytes.len()).all(|end| read(&bytes[..end], false) == Reading::More));
        }
        assert_eq!(read(b"\r\n 5", false), Reading::Other);
    }

    #[test]
    fn a_final_status_follows_interim_ones() {
        let found = |code| Reading::Found(HttpHead::Response(code));
        for (bytes, code) in [
            (&b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n"[..], 201),
            (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 P\n\nHTTP/1.0 304 N", 304),
            (b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\n", 101),
            (b"HTTP/1.1 100 Continue\r\n\r\n\x16\x03\x01", 100),
        ] {
            assert_eq!(read(bytes, false), found(code), "{}", bytes.escape_ascii());
            for end in 1..bytes.len() {
                let reading = read(&bytes[..end], false);
                assert!(reading == Reading::More || reading == found(code), "{end} {reading:?}");
            }
        }
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
        assert_eq!((read(interim, false), read(interim, true)), (Reading::More, found(100)));
        assert_eq!(read(&interim[..24], true), found(100));
    }

    #[test]
    fn other_protocols_are_distinguished_by_their_first_line() {
        for bytes in [
            &b"EHLO example.org\r\n"[..],
            b"OPTIONS rtsp://a RTSP/1.0\r\n",
            b"SSH-2.0-x\r\n",
            b"\x16\x03\x01",
            b" GET / HTTP/1.1\r\n",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            b"HTTP/1.1 2000\r\n",
            b"HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            assert_eq!(read(bytes, false), Reading::Other, "{}", bytes.escape_ascii());
        }
    }
}
