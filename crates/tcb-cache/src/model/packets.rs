//! The packets of a session: its connections, and the packets that access their state.
//!
//! | view | a request of n reply segments is |
//! | --- | --- |
//! | `request` | one access |
//! | `rx` | SYN, ACK, GET, an ACK for every two segments, FIN: what the server receives |
//! | `rxtx` | the same, and SYN-ACK, the segments and the server's FIN |
//!
//! Segments carry 1,460 bytes, of which 250 are the reply's header; there are 1 to 2,000 segments.
//! Requests of a connection are served one after another. Each connection draws its round trip,
//! lognormal(ln 0.08 s, 0.5), and its bandwidth, lognormal(ln 1 Mb/s, 0.8). The last access of a
//! connection is its closing one.

use crate::random::Random;

use super::draw::lognormal;
use super::session::{Request, Session};

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Connection {
    /// All requests of a session.
    PerSession,
    /// Requests with less than 15 s between them, the usual time for which a server keeps a
    /// connection open.
    PerPage,
    /// No requests.
    PerRequest,
}

/// The packets that the cache sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum View {
    /// One packet per request.
    Request,
    /// Packets that the server receives.
    Rx,
    /// Packets that the server receives and sends.
    RxTx,
}

/// How sessions are converted to accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketModel {
    /// Which requests share a connection.
    pub connection: Connection,
    /// Which packets count as accesses.
    pub view: View,
}

impl Default for PacketModel {
    /// One connection per session, one access per request.
    fn default() -> Self {
        Self { connection: Connection::PerSession, view: View::Request }
    }
}

/// Maximum pause that a connection survives with [`Connection::PerPage`].
const KEEP_ALIVE_MS: u64 = 15_000;
const SEGMENT_BYTES: u64 = 1460;
const HEADER_BYTES: u64 = 250;
const SEGMENTS_MAX: u64 = 2000;

impl core::fmt::Display for PacketModel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let view = match self.view {
            View::Request => "request",
            View::Rx => "rx",
            View::RxTx => "rxtx",
        };
        let connection = match self.connection {
            Connection::PerSession => "session",
            Connection::PerPage => "page",
            Connection::PerRequest => "request",
        };
        write!(f, "{view}, a connection per {connection}")
    }
}

impl PacketModel {
    /// Divides a session into connections, each of which is a run of requests.
    pub(crate) fn connections(self, session: &Session) -> impl Iterator<Item = &[Request]> {
        let apart = move |a: &Request, b: &Request| match self.connection {
            Connection::PerSession => false,
            Connection::PerPage => b.offset_ms - a.offset_ms > KEEP_ALIVE_MS,
            Connection::PerRequest => true,
        };
        session.requests.chunk_by(move |a, b| !apart(a, b))
    }

    /// Appends the times of a connection's accesses, in order, to `times_ms`; the first is the
    /// first request's.
    pub(crate) fn times(self, requests: &[Request], random: &mut Random, times_ms: &mut Vec<u64>) {
        times_ms.clear();
        if self.view == View::Request {
            times_ms.extend(requests.iter().map(|request| request.offset_ms));
            return;
        }
        let sends = self.view == View::RxTx;
        let round_trip_ms = lognormal(random, -2.525_728_644_308_255, 0.5) * 1000.0;
        let bytes_per_ms = lognormal(random, 13.815_510_557_964_274, 0.8) / 8000.0;
        let segment_ms = SEGMENT_BYTES as f64 / bytes_per_ms;
        let begin = requests.first().map_or(0, |request| request.offset_ms) as f64;
        let mut at = |ms: f64| times_ms.push(ms as u64);
        at(begin); // SYN
        if sends {
            at(begin); // SYN-ACK
        }
        let mut free = begin + round_trip_ms;
        at(free); // ACK
        for request in requests {
            let get = free.max(request.offset_ms as f64);
            at(get);
            let segments =
                (request.reply_bytes + HEADER_BYTES).div_ceil(SEGMENT_BYTES).clamp(1, SEGMENTS_MAX);
            for segment in 1..=segments {
                let sent = get + segment_ms * segment as f64;
                if sends {
                    at(sent);
                }
                free = sent + round_trip_ms;
                if segment % 2 == 0 || segment == segments {
                    at(free); // ACK
                }
            }
        }
        if sends {
            at(free); // the server's FIN
        }
        at(free + round_trip_ms); // FIN
        // Acknowledgements arrive one round trip after their segments, so later segments may arrive
        // before them.
        times_ms.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(requests: &[(u64, u64)]) -> Session {
        let requests =
            requests.iter().map(|&(offset_ms, reply_bytes)| Request { offset_ms, reply_bytes }).collect();
        Session { address: 1, requests }
    }

    #[test]
    fn connections_are_split_by_session_page_or_request() {
        let session = session(&[(0, 1), (100, 1), (15_100, 1), (30_101, 1)]);
        let lens = |connection| {
            let model = PacketModel { connection, view: View::Request };
            model.connections(&session).map(<[Request]>::len).collect::<Vec<_>>()
        };
        assert_eq!(lens(Connection::PerSession), [4]);
        assert_eq!(lens(Connection::PerPage), [3, 1]);
        assert_eq!(lens(Connection::PerRequest), [1, 1, 1, 1]);
    }

    #[test]
    fn packet_counts_match_the_table() {
        let session = session(&[(50, 1210), (60, 1211), (500, 10_000)]);
        let count = |view| {
            let mut times = Vec::new();
            let model = PacketModel { connection: Connection::PerSession, view };
            model.times(&session.requests, &mut Random::new(3), &mut times);
            assert!(times.is_sorted() && times[0] == 50, "{times:?}");
            times.len()
        };
        assert_eq!(count(View::Request), 3);
        // 1, 2 and 8 segments: SYN, ACK, 3 GET, 1 + 1 + 4 ACK, FIN.
        assert_eq!(count(View::Rx), 12);
        assert_eq!(count(View::RxTx), 12 + 1 + 11 + 1);
    }
}
