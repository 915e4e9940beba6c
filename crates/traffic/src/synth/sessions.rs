//! The traces of the paper: N sessions of twenty packets, at the maximum reuse distance.
//!
//! The packets come in twenty rounds. A round contains the next packet of every session, always in
//! the same order. Between two packets of a session, there are therefore N − 1 other packets, which
//! is the worst case for a cache.
//!
//! ```text
//!  packet    0 … N−1    N … 2N−1     2N … 3N−1          19N … 20N−1
//!  all       SYN        SYN-ACK      ACK          …     last ACK
//! ```
//!
//! Paper: [DHASH §V-B, Tab. II]. Table II also states the average number of concurrent sessions,
//! but does not define it. Here, sessions are counted after every packet, and a session is open
//! from its first packet until its last. Session *i* then opens with packet *i* and closes with
//! packet 19N + *i*, so every session is open after 19N of the 20N packets. Hence the average is N
//! · 19N / 20N = 0.95 N: 249,036.8 and 498,073.6 for File-1 and File-2, of which the table prints
//! the whole part. For File-3, it is 996,147.2, whereas the table states 996,189, which is 0.004 %
//! more. The maximum number is N, from packet N − 1 to packet 19N − 1.
//!
//! The mean length of 67 bytes in Table II is exact here: each session sends 20 · 67 = 1,340 bytes,
//! of which 1,080 are twenty Ethernet, IPv4 and TCP headers, 16 are the options of the two SYNs,
//! and 244 are data. Frames are as seen by their sender: pure acknowledgments have 54 bytes,
//! because Ethernet pads to 60 bytes only on the wire.

use thiserror::Error;

use super::hosts::{self, FLOWS_MAX, Hosts};
use super::random::{Stride, word_of};
use super::wire::{self, ACK, FIN, PSH, Packet, Pool, SYN, SYN_OPTIONS, Slice, Transport};
use super::{Generate, Meta, START_NS};

/// Number of packets per session [DHASH §V-B].
pub const PACKETS_PER_SESSION: u64 = 20;

/// The mean length of a frame [DHASH Tab. II].
pub const MEAN_LENGTH_BYTES: u64 = 67;

/// Nanoseconds between packets: ten million packets per second.
const GAP_NS: u64 = 100;

/// A packet of the script: its direction, its flags, and its number of data bytes.
struct Line {
    from_client: bool,
    flags: u8,
    data_bytes: u16,
}

const fn client(flags: u8, data_bytes: u16) -> Line {
    Line { from_client: true, flags, data_bytes }
}

const fn server(flags: u8, data_bytes: u16) -> Line {
    Line { from_client: false, flags, data_bytes }
}

/// The packets of a session: handshake, four exchanges, and closing by both ends.
const SCRIPT: [Line; PACKETS_PER_SESSION as usize] = [
    client(SYN, 0),
    server(SYN | ACK, 0),
    client(ACK, 0),
    client(PSH | ACK, 44),
    server(ACK, 0),
    server(PSH | ACK, 60),
    client(ACK, 0),
    server(PSH | ACK, 48),
    client(ACK, 0),
    client(PSH | ACK, 28),
    server(ACK, 0),
    server(PSH | ACK, 36),
    client(ACK, 0),
    client(PSH | ACK, 12),
    server(PSH | ACK, 16),
    client(ACK, 0),
    client(FIN | ACK, 0),
    server(ACK, 0),
    server(FIN | ACK, 0),
    client(ACK, 0),
];

/// The amount that each side has sent before a packet of the script: data, and one number for each
/// SYN and FIN.
const SENT_BEFORE: [(u32, u32); PACKETS_PER_SESSION as usize] = {
    let mut sent = [(0, 0); PACKETS_PER_SESSION as usize];
    let mut index = 1;
    while index < SCRIPT.len() {
        let line = &SCRIPT[index - 1];
        let (by_client, by_server) = sent[index - 1];
        let count = line.data_bytes as u32 + (line.flags & (SYN | FIN) != 0) as u32;
        sent[index] =
            if line.from_client { (by_client + count, by_server) } else { (by_client, by_server + count) };
        index += 1;
    }
    sent
};

const fn line_bytes(line: &Line) -> u64 {
    let options = if line.flags & SYN != 0 { SYN_OPTIONS.len() as u64 } else { 0 };
    14 + 20 + 20 + options + line.data_bytes as u64
}

const _: () = {
    let (mut total, mut index) = (0, 0);
    while index < SCRIPT.len() {
        total += line_bytes(&SCRIPT[index]);
        index += 1;
    }
    assert!(total == PACKETS_PER_SESSION * MEAN_LENGTH_BYTES, "the mean length is exact");
};

/// The reason why a trace of the paper cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PaperTraceError {
    /// The paper has no file with that number.
    #[error("the paper has no File-{number}; Table II lists File-1, File-2 and File-3")]
    NoSuchFile {
        /// The requested number.
        number: u8,
    },
    /// The number of sessions is outside the limits.
    #[error(
        "{sessions} sessions: a trace has at least 1 and at most {limit}, because each has its own \
         endpoint"
    )]
    Sessions {
        /// The requested number.
        sessions: u64,
        /// Maximum number of sessions.
        limit: u64,
    },
}

/// A trace of N sessions with twenty packets each. N − 1 other packets separate any two packets of
/// a session.
///
/// The generator produces a stream: its memory does not grow with N.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::synth::sessions::PaperTrace;
/// use flowloom_traffic::synth::{Generate, TraceProfile};
/// let mut trace = PaperTrace::with_sessions(100, 1)?;
/// let profile = TraceProfile::from_generator(&mut trace);
/// assert_eq!((profile.packets, profile.sessions_max), (2000, 100));
/// assert_eq!((profile.sessions_average, profile.mean_length_bytes), (95.0, 67.0));
/// assert_eq!(PaperTrace::file(1, 1)?.packets(), 5_242_880);
/// # Ok::<(), flowloom_traffic::synth::sessions::PaperTraceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PaperTrace {
    sessions: u64,
    seed: u64,
    hosts: Hosts,
    pool: Pool,
    order: Stride,
    position: u64,
    round: usize,
    place: u64,
}

impl PaperTrace {
    /// Returns File-1, File-2 or File-3: 2^18, 2^19 or 2^20 sessions [DHASH Tab. II].
    ///
    /// # Errors
    ///
    /// Returns [`PaperTraceError::NoSuchFile`] for another number.
    pub fn file(number: u8, seed: u64) -> Result<Self, PaperTraceError> {
        if !(1..=3).contains(&number) {
            return Err(PaperTraceError::NoSuchFile { number });
        }
        Self::with_sessions(1 << (17 + number), seed)
    }

    /// Returns a trace of `sessions` sessions, 1 to 268,435,456.
    ///
    /// # Errors
    ///
    /// Returns [`PaperTraceError::Sessions`] outside this range.
    pub fn with_sessions(sessions: u64, seed: u64) -> Result<Self, PaperTraceError> {
        if !(1..=FLOWS_MAX).contains(&sessions) {
            return Err(PaperTraceError::Sessions { sessions, limit: FLOWS_MAX });
        }
        Ok(Self {
            sessions,
            seed,
            hosts: Hosts::new(seed),
            pool: Pool::new(seed),
            order: Stride::new(sessions, word_of(seed, 0)),
            position: 0,
            round: 0,
            place: 0,
        })
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Returns the script's line, the session's number and the metadata of the next packet.
    #[inline]
    fn advance(&mut self) -> Option<(usize, u64, Meta)> {
        if self.round == SCRIPT.len() {
            return None;
        }
        let (round, session) = (self.round, self.order.advance());
        let meta = Meta {
            time_ns: START_NS + self.position * GAP_NS,
            wire_bytes: line_bytes(&SCRIPT[round]) as u32,
            flow: Some(session as u32),
        };
        self.position += 1;
        self.place += 1;
        if self.place == self.sessions {
            self.place = 0;
            self.round += 1;
        }
        Some((round, session, meta))
    }

    fn build(&self, frame: &mut Vec<u8>, round: usize, session: u64) {
        let line = &SCRIPT[round];
        let (client, client_port) = self.hosts.client(session);
        let addresses = hosts::v4(client, self.hosts.server(session));
        let server_port = self.hosts.tcp_port(session);
        let word = word_of(self.seed, session);
        let (by_client, by_server) = SENT_BEFORE[round];
        let client_sequence = (word as u32).wrapping_add(by_client);
        let server_sequence = ((word >> 32) as u32).wrapping_add(by_server);
        let (addresses, source_port, destination_port, sequence, acknowledgment) = if line.from_client {
            (addresses, client_port, server_port, client_sequence, server_sequence)
        } else {
            (addresses.reversed(), server_port, client_port, server_sequence, client_sequence)
        };
        let packet = Packet {
            tags: [None, None],
            addresses,
            source_port,
            destination_port,
            identification: (word as u16).wrapping_add(round as u16),
            transport: Transport::Tcp {
                flags: line.flags,
                sequence,
                acknowledgment: if line.flags & ACK == 0 { 0 } else { acknowledgment },
                options: if line.flags & SYN == 0 { &[] } else { SYN_OPTIONS },
            },
            payload: Slice::new(word.rotate_left(round as u32), usize::from(line.data_bytes)),
        };
        wire::write(frame, &packet, &self.pool);
    }
}

impl Generate for PaperTrace {
    #[inline]
    fn next_into(&mut self, frame: &mut Vec<u8>) -> Option<Meta> {
        let (round, session, meta) = self.advance()?;
        self.build(frame, round, session);
        debug_assert_eq!(frame.len(), meta.wire_bytes as usize, "the script states the length");
        Some(meta)
    }

    #[inline]
    fn next_meta(&mut self) -> Option<Meta> {
        self.advance().map(|(_, _, meta)| meta)
    }

    fn packets(&self) -> u64 {
        self.sessions * PACKETS_PER_SESSION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_files_exist() {
        for (number, sessions) in [(1, 262_144), (2, 524_288), (3, 1_048_576)] {
            assert_eq!(PaperTrace::file(number, 1).unwrap().sessions(), sessions);
        }
        assert_eq!(PaperTrace::file(4, 1).unwrap_err(), PaperTraceError::NoSuchFile { number: 4 });
    }

    #[test]
    fn trace_without_sessions_is_refused() {
        let error = PaperTrace::with_sessions(0, 1).unwrap_err();
        assert!(error.to_string().contains("at most 268435456"), "{error}");
        assert!(PaperTrace::with_sessions(FLOWS_MAX + 1, 1).is_err());
    }

    #[test]
    fn each_side_acknowledges_all_that_the_other_sent() {
        // SYN, 84 bytes of data and FIN; SYN, 160 bytes and FIN.
        assert_eq!(SENT_BEFORE[19], (1 + 84 + 1, 1 + 160 + 1));
    }
}
