//! A session: the requests of one client in one visit.

use crate::random::Random;

/// A request of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Milliseconds since the session began.
    pub offset_ms: u64,
    /// Bytes of the reply.
    pub reply_bytes: u64,
}

/// One client's visit: its requests in order of time, the first at 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The client's IPv4 address.
    pub address: u32,
    /// Its requests.
    pub requests: Vec<Request>,
}

/// A source of sessions.
pub trait SessionSource {
    /// Fills in the next session; returns `false` at the end.
    fn next_session(&mut self, random: &mut Random, session: &mut Session) -> bool;
}
