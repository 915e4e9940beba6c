//! The HTTP server for the page of statistics. One thread serves all clients without blocking, so a
//! silent client delays no other one. The server bounds the size and the time of each request, and
//! closes the connection after the answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::Failure;

/// Maximum size of a request.
const REQUEST_BYTES_MAX: usize = 4096;
/// Maximum number of header fields in a request.
const HEADERS_MAX: usize = 64;
/// Maximum number of bytes to read after a request that is too long. The server reads and ignores
/// them: closing a connection with unread bytes resets it, and the client would lose the answer.
const REST_BYTES_MAX: usize = 64 << 10;
/// Maximum duration of a connection.
const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum number of connections. A further connection replaces the oldest.
const CONNECTIONS_MAX: usize = 256;
/// Pause after the system has refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns a socket that listens on a loopback address, or on any address if `publicly`.
pub(super) fn bind(address: SocketAddr, publicly: bool) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() && !publicly {
        return Err(Failure::Usage(format!(
            "--listen {address} can be reached by other hosts, and the server answers every request\n  \
             use 127.0.0.1 or [::1], or add --listen-publicly"
        )));
    }
    TcpListener::bind(address)
        .map_err(|error| Failure::Usage(format!("cannot listen on {address}: {error}")))
}

/// Serves clients until the process ends.
pub(super) fn serve(listener: &TcpListener, page: &dyn Fn() -> String) {
    // A blocking listener would still serve one client after another.
    let _ = listener.set_nonblocking(true);
    let mut exchanges: Vec<Exchange> = Vec::new();
    loop {
        let wait = exchanges.iter().map(|exchange| exchange.deadline).min().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            // One millisecond more, so that the deadline has passed when the wait ends.
            Timespec::try_from(left + Duration::from_millis(1)).unwrap_or_default()
        });
        let mut polled = vec![PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        polled.extend(exchanges.iter().map(|exchange| {
            let events = if exchange.is_answering() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(exchange.stream.as_fd(), events)
        }));
        if poll(&mut polled, wait.as_ref()).is_err() {
            // The system is out of memory; more may become available.
            std::thread::sleep(PAUSE);
            continue;
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let now = Instant::now();
        let mut ready = ready.into_iter();
        let is_asked = ready.next().unwrap_or(false);
        exchanges.retain_mut(|exchange| {
            let goes_on = !ready.next().unwrap_or(false) || exchange.step(page).unwrap_or(false);
            goes_on && exchange.deadline > now
        });
        if is_asked {
            accept(listener, &mut exchanges);
        }
    }
}

/// Accepts a connection.
fn accept(listener: &TcpListener, exchanges: &mut Vec<Exchange>) {
    match listener.accept() {
        Ok((stream, _)) => {
            if exchanges.len() == CONNECTIONS_MAX {
                exchanges.remove(0);
            }
            if stream.set_nonblocking(true).is_ok() {
                exchanges.push(Exchange::new(stream));
            }
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        // Most likely the process has no free file descriptors.
        Err(_) if !exchanges.is_empty() => drop(exchanges.remove(0)),
        Err(_) => std::thread::sleep(PAUSE),
    }
}

/// A connection.
struct Exchange {
    stream: TcpStream,
    deadline: Instant,
    state: RequestState,
}

enum RequestState {
    Asking(Vec<u8>),
    Answering {
        answer: Vec<u8>,
        sent: usize,
        /// The request was too long, and the server still has to read the rest.
        has_rest: bool,
    },
    Ignoring {
        bytes: usize,
    },
}

impl Exchange {
    fn new(stream: TcpStream) -> Self {
        let deadline = Instant::now() + EXCHANGE_TIME_MAX;
        Self { stream, deadline, state: RequestState::Asking(Vec::new()) }
    }

    fn is_answering(&self) -> bool {
        matches!(self.state, RequestState::Answering { .. })
    }

    /// Reads or writes as much as is possible without blocking. Returns whether the exchange
    /// continues.
    fn step(&mut self, page: &dyn Fn() -> String) -> std::io::Result<bool> {
        match self.advance(page) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(true)
            }
            done => done,
        }
    }

    fn advance(&mut self, page: &dyn Fn() -> String) -> std::io::Result<bool> {
        loop {
            let mut buffer = [0; REQUEST_BYTES_MAX];
            match &mut self.state {
                RequestState::Asking(request) => {
                    let read = self.stream.read(&mut buffer[request.len()..])?;
                    if read == 0 {
                        return Ok(false);
                    }
                    let before = request.len();
                    request.extend_from_slice(&buffer[before..before + read]);
                    let Some(answer) = answer(request, page) else { continue };
                    let has_rest = request.len() == REQUEST_BYTES_MAX;
                    self.state = RequestState::Answering { answer, sent: 0, has_rest };
                }
                RequestState::Answering { answer, sent, has_rest } => {
                    if *sent < answer.len() {
                        match self.stream.write(&answer[*sent..])? {
                            0 => return Ok(false),
                            written => *sent += written,
                        }
                        continue;
                    }
                    self.stream.shutdown(Shutdown::Write)?;
                    if !*has_rest {
                        return Ok(false);
                    }
                    self.state = RequestState::Ignoring { bytes: 0 };
                }
                RequestState::Ignoring { bytes } => {
                    match self.stream.read(&mut buffer)? {
                        0 => return Ok(false),
                        read => *bytes += read,
                    }
                    if *bytes >= REST_BYTES_MAX {
                        return Ok(false);
                    }
                }
            }
        }
    }
}

/// Returns the answer to a request, or `None` if the request is not complete yet.
fn answer(request: &[u8], page: &dyn Fn() -> String) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let is_whole = match parsed.parse(request) {
        Ok(status) => status.is_complete(),
        Err(httparse::Error::TooManyHeaders) => return Some(too_long()),
        Err(_) => return Some(response("400 Bad Request", "this is not an HTTP/1 request\n", false)),
    };
    if !is_whole {
        return (request.len() == REQUEST_BYTES_MAX).then(too_long);
    }
    let path = parsed.path.map(|target| target.split('?').next().unwrap_or_default());
    Some(match (parsed.method, path) {
        (Some(method @ ("GET" | "HEAD")), Some("/metrics")) => {
            response("200 OK", &page(), method == "HEAD")
        }
        (Some(method @ ("GET" | "HEAD")), _) => {
            response("404 Not Found", "statistics are at /metrics\n", method == "HEAD")
        }
        _ => response("405 Method Not Allowed", "use GET or HEAD\n", false),
    })
}

fn too_long() -> Vec<u8> {
    response("431 Request Header Fields Too Large", "the request is too long\n", false)
}

fn response(status: &str, body: &str, head_only: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    if !head_only {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves a page, and returns the address.
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
    fn each_request_gets_its_status() {
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
            (b"\x16\x03\x01\x00\x05\r\n\r\n", "400"),
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
    fn silent_and_slow_clients_are_disconnected_and_delay_no_other() {
        let address = server();
        let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut slow = TcpStream::connect(address).unwrap();
        let begun = Instant::now();
        // Bytes keep arriving: the limit is the time of the whole exchange, not the time between
        // two bytes.
        let dripping = std::thread::spawn(move || {
            while slow.write_all(b"x").is_ok() && begun.elapsed() < 4 * EXCHANGE_TIME_MAX {
                std::thread::sleep(Duration::from_millis(50));
            }
            begun.elapsed()
        });
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < EXCHANGE_TIME_MAX / 2, "{:?}", begun.elapsed());
        assert!(dripping.join().unwrap() < 3 * EXCHANGE_TIME_MAX);
        for mut stream in silent {
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it was closed");
        }
        // With more connections than the server keeps, the oldest ones end.
        let _many: Vec<TcpStream> =
            (0..CONNECTIONS_MAX + 50).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(ask(address, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn non_loopback_address_needs_an_explicit_option() {
        let public: SocketAddr = "0.0.0.0:0".parse().unwrap();
        assert!(
            matches!(bind(public, false), Err(Failure::Usage(text)) if text.contains("--listen-publicly"))
        );
        assert!(bind(public, true).is_ok());
        let taken = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        assert!(matches!(bind(taken.local_addr().unwrap(), false), Err(Failure::Usage(_))));
    }
}
