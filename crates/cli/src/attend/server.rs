//! One page over HTTP, to a few readers at a time. A client gets a bounded request, a bounded
//! time, and the connection closed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::exit::Failure;

/// The longest request.
const REQUEST_BYTES_MAX: usize = 4096;
/// The most that is read and thrown away behind a request that was too long, so that the answer
/// arrives.
const REST_BYTES_MAX: usize = 64 << 10;
/// How long an exchange may take, from the first byte to the last.
const PATIENCE: Duration = Duration::from_secs(2);
/// Readers that are listened to at once: as many have to be silent before another has to wait.
const READERS: usize = 8;

/// Returns a socket that listens on a loopback address, or on any if that is asked for.
pub(crate) fn bind(address: SocketAddr, publicly: bool) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() && !publicly {
        return Err(Failure::Usage(format!(
            "--listen {address} can be reached by other hosts, and every request is answered\n  \
             take 127.0.0.1 or [::1], or say --listen-publicly"
        )));
    }
    TcpListener::bind(address)
        .map_err(|error| Failure::Usage(format!("cannot listen on {address}: {error}")))
}

/// Answers readers until the process ends.
pub(super) fn serve(listener: &TcpListener, page: &(dyn Fn() -> String + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..READERS {
            // Fewer will do where threads are short.
            let thread = std::thread::Builder::new().name("metrics".into());
            drop(thread.spawn_scoped(scope, || serve_in_turn(listener, page)));
        }
        serve_in_turn(listener, page);
    });
}

/// Answers readers, one after the other, until the process ends.
fn serve_in_turn(listener: &TcpListener, page: &dyn Fn() -> String) {
    for stream in listener.incoming() {
        match stream {
            // A reader that goes away, or never asks, is no matter of ours.
            Ok(stream) => drop(exchange(stream, page, Instant::now() + PATIENCE)),
            // No descriptors left, most likely: some will be free later.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Reads a request and answers it.
fn exchange(mut stream: TcpStream, page: &dyn Fn() -> String, deadline: Instant) -> std::io::Result<()> {
    let mut request = [0; REQUEST_BYTES_MAX];
    let mut length = 0;
    let head = loop {
        if length == request.len() {
            answer(
                &mut stream,
                deadline,
                "431 Request Header Fields Too Large",
                "the request is too long\n",
                false,
            )?;
            return discard(&mut stream, deadline);
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut request[length..]) {
            Ok(0) => return Ok(()),
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        let read = &request[..length];
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break &read[..end];
        }
    };
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1.")) && words.next().is_none();
    let path = target.and_then(|target| target.split(|&byte| byte == b'?').next());
    let (status, body) = match (is_http, method, path) {
        (false, ..) => ("400 Bad Request", String::from("this is no HTTP/1 request\n")),
        (_, Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", page()),
        (_, Some(b"GET" | b"HEAD"), _) => ("404 Not Found", String::from("statistics are at /metrics\n")),
        _ => ("405 Method Not Allowed", String::from("only GET and HEAD are answered\n")),
    };
    answer(&mut stream, deadline, status, &body, method == Some(b"HEAD"))
}

fn answer(
    stream: &mut TcpStream,
    deadline: Instant,
    status: &str,
    body: &str,
    head_only: bool,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    if !head_only {
        bytes.extend_from_slice(body.as_bytes());
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(rest) {
            Ok(0) => break,
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.shutdown(Shutdown::Write)
}

/// Reads what is left of a request: closed with unread bytes, a connection would be reset, and the
/// answer lost.
fn discard(stream: &mut TcpStream, deadline: Instant) -> std::io::Result<()> {
    let mut rest = [0; 4096];
    let mut total = 0;
    while total < REST_BYTES_MAX {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut rest)? {
            0 => break,
            read => total += read,
        }
    }
    Ok(())
}

/// Returns how much of an exchange's time is left.
fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves a page, and returns where.
    fn server() -> SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, &|| String::from("page 1\n")));
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests_get_what_they_deserve() {
        let address = server();
        let got = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\npage 1\n"), "{got}");
        assert!(got.contains("Content-Length: 7\r\n"), "{got}");
        let head = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(address, b"GET /metrics?x=1 HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"nonsense\r\n\r\n", "400"),
            (b"GET /metrics SPDY/3\r\n\r\n", "400"),
            (b"\r\n\r\n", "400"),
        ] {
            let got = ask(address, request);
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{got}");
        }
        let mut long = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
        long.resize(20_000, b'x');
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&long).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert!(got.starts_with("HTTP/1.1 431 "), "{got}");
    }

    #[test]
    fn a_client_that_drips_is_cut_off_and_the_next_is_served() {
        let address = server();
        let busy: Vec<TcpStream> = (1..READERS).map(|_| TcpStream::connect(address).unwrap()).collect();
        std::thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < PATIENCE / 2, "silent clients delay no other");
        let mut slow = TcpStream::connect(address).unwrap();
        let begun = Instant::now();
        // Bytes keep coming: the time of the whole exchange counts, not that between two bytes.
        let dripping = std::thread::spawn(move || {
            while slow.write_all(b"x").is_ok() && begun.elapsed() < 4 * PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
            }
            begun.elapsed()
        });
        let mute = TcpStream::connect(address).unwrap();
        drop(mute);
        std::thread::sleep(Duration::from_millis(50));
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
        assert!(dripping.join().unwrap() < 3 * PATIENCE);
        drop(busy);
    }

    #[test]
    fn other_hosts_are_let_in_only_when_that_is_said() {
        let public: SocketAddr = "0.0.0.0:0".parse().unwrap();
        assert!(
            matches!(bind(public, false), Err(Failure::Usage(text)) if text.contains("--listen-publicly"))
        );
        assert!(bind(public, true).is_ok());
        let taken = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        assert!(matches!(bind(taken.local_addr().unwrap(), false), Err(Failure::Usage(_))));
    }
}
