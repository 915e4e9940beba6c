//! Overlaps N sessions at a time.
//!
//! ```text
//! N slots begin at random within the first minute;
//! a slot whose session has ended begins another after 1 ms and an exponential pause of 2 s
//! ```
//!
//! The timing within a session is kept. No two live connections have the same key: a port that is
//! in use is drawn again.

use core::fmt;
use core::iter::repeat;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::access::Access;
use crate::random::Random;

use super::draw::exponential;
use super::logged::LogEntry;
use super::packets::PacketModel;
use super::ports::Ports;
use super::session::{Session, SessionSource};

/// All slots start within this time.
const BEGIN_MS: u64 = 60_000;
/// Mean pause of a slot in milliseconds.
const PAUSE_MS: f64 = 2000.0;
/// Number of draws of a port before the next free one is used.
const PORT_DRAWS: u32 = 16;
/// Number of ports, starting at 1024.
const PORTS: u32 = 65_536 - 1024;

/// How sessions overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Sessions at a time.
    pub sessions: u32,
    /// Number of accesses to generate.
    pub accesses: usize,
    /// How sessions are converted to accesses.
    pub packets: PacketModel,
    /// Which ports clients use.
    pub ports: Ports,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Overlap {
    /// Maximum number of sessions at a time.
    pub const SESSIONS_MAX: u32 = 1 << 20;
    /// Maximum number of accesses.
    pub const ACCESSES_MAX: usize = 1 << 28;
    /// Approximate number of bytes per access while a trace is generated; 16 of them remain
    /// afterwards.
    pub const BYTES_PER_ACCESS: u64 = 128;
}

/// A generated trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Workload {
    /// The accesses in order of time.
    pub accesses: Vec<Access>,
    /// Connections that started within the trace.
    pub connections: u64,
    /// Connections that found no free port of their model and used the next free one.
    pub ports_moved: u64,
}

/// An access with the size of the reply that it requests.
#[derive(Clone, Copy, Debug)]
struct Emitted {
    access: Access,
    reply_bytes: u64,
}

/// Overlapped sessions.
struct Laid {
    emitted: Vec<Emitted>,
    connections: u64,
    ports_moved: u64,
}

/// The reason why a trace cannot be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverlapError {
    /// The number of sessions at a time is zero or too large.
    Sessions {
        /// The requested value.
        sessions: u32,
    },
    /// The number of accesses is zero or too large.
    Accesses {
        /// The requested value.
        accesses: usize,
    },
    /// The accesses end before all slots have started, so that fewer than N sessions overlap.
    TooShort {
        /// Requested accesses.
        accesses: usize,
        /// Accesses before the last slot starts.
        needed: usize,
    },
    /// The source has no sessions.
    NoSessions,
}

impl fmt::Display for OverlapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sessions { sessions } => {
                write!(
                    f,
                    "invalid number of sessions at a time {sessions}: must be from 1 to {}",
                    Overlap::SESSIONS_MAX
                )
            }
            Self::Accesses { accesses } => {
                write!(
                    f,
                    "invalid number of accesses {accesses}: must be from 1 to {}",
                    Overlap::ACCESSES_MAX
                )
            }
            Self::TooShort { accesses, needed } => write!(
                f,
                "{accesses} accesses end before all sessions have started; request more than {needed} \
                 accesses, or fewer sessions at a time"
            ),
            Self::NoSessions => f.write_str("there are no sessions to overlap"),
        }
    }
}

impl core::error::Error for OverlapError {}

/// The open connections by key, with their end times.
#[derive(Debug, Default)]
struct Live {
    ends: BTreeMap<u64, u64>,
    /// Connections of each client so far, which only sequential ports need.
    earlier: BTreeMap<u32, u32>,
    moved: u64,
    /// Number of keys at which ended connections are next removed.
    forget_at: usize,
}

impl Live {
    /// Returns a key for a client's connection that no other connection uses during this time.
    fn key(&mut self, address: u32, ports: Ports, random: &mut Random, begin: u64, end: u64) -> u64 {
        let free = |live: &Self, key| live.ends.get(&key).is_none_or(|ends| *ends < begin);
        let mut earlier = 0;
        if ports == Ports::Sequential {
            let count = self.earlier.entry(address).or_insert(0);
            earlier = *count;
            *count = count.wrapping_add(1);
        }
        let mut key = 0;
        for draw in 0..PORT_DRAWS {
            key = Access::session_key(address, ports.draw(random, earlier.wrapping_add(draw)));
            if free(self, key) {
                self.ends.insert(key, end);
                return key;
            }
        }
        self.moved += 1;
        let first = (key & 0xFFFF) as u32 - 1024;
        for step in 1..PORTS {
            let next = Access::session_key(address, (1024 + (first + step) % PORTS) as u16);
            if free(self, next) {
                key = next;
                break;
            }
        }
        // A client with all ports in use uses one port twice.
        self.ends.insert(key, end);
        key
    }

    /// Removes connections that have ended, if there are many.
    fn forget(&mut self, now: u64) {
        if self.ends.len() >= self.forget_at.max(1 << 16) {
            self.ends.retain(|_, end| *end >= now);
            self.forget_at = 2 * self.ends.len();
        }
    }
}

impl Overlap {
    /// Generates the trace. Takes a heap operation per session and a sort of twice the accesses. If
    /// all 256 ports of a client's model are in use, each further connection of the client takes a
    /// check of each port in use, at most 64,512.
    ///
    /// # Errors
    ///
    /// Returns [`OverlapError`] for numbers out of range, or too few accesses for N sessions.
    pub fn make(&self, source: &mut dyn SessionSource) -> Result<Workload, OverlapError> {
        let Laid { emitted, connections, ports_moved } = self.lay(source)?;
        let accesses = emitted.into_iter().map(|emitted| emitted.access).collect();
        Ok(Workload { accesses, connections, ports_moved })
    }

    /// Generates the log that a server would write about the same sessions: one request each,
    /// independent of the packet model.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Overlap::make`].
    pub fn make_log(
        &self,
        source: &mut dyn SessionSource,
        begin_ms: u64,
    ) -> Result<Vec<LogEntry>, OverlapError> {
        let laid = Self { packets: PacketModel::default(), ..*self }.lay(source)?;
        let entry = |emitted: Emitted| LogEntry {
            address: (emitted.access.key() >> 16) as u32,
            time_ms: begin_ms + emitted.access.time_ms(),
            reply_bytes: emitted.reply_bytes,
        };
        Ok(laid.emitted.into_iter().map(entry).collect())
    }

    fn lay(&self, source: &mut dyn SessionSource) -> Result<Laid, OverlapError> {
        if !(1..=Self::SESSIONS_MAX).contains(&self.sessions) {
            return Err(OverlapError::Sessions { sessions: self.sessions });
        }
        if !(1..=Self::ACCESSES_MAX).contains(&self.accesses) {
            return Err(OverlapError::Accesses { accesses: self.accesses });
        }
        let mut random = Random::new(self.seed);
        let mut slots: BinaryHeap<Reverse<(u64, u32)>> =
            (0..self.sessions).map(|slot| Reverse((random.below(BEGIN_MS), slot))).collect();
        let mut begun = 0_u32;
        let mut emitted: Vec<Emitted> = Vec::new();
        let mut live = Live::default();
        let mut connections = 0_u64;
        let mut session = Session::default();
        let mut times = Vec::new();
        // Sessions start in order of time, so all accesses before the start of the next one are
        // complete.
        let mut look_at = self.accesses + self.accesses / 2;
        let mut horizon = u64::MAX;
        while let Some(Reverse((now, slot))) = slots.pop() {
            if emitted.len() >= look_at {
                let complete = emitted.iter().filter(|e| e.access.time_ms() < now).count();
                if complete >= self.accesses {
                    horizon = now;
                    break;
                }
                look_at = emitted.len() + emitted.len() / 4;
            }
            if !source.next_session(&mut random, &mut session) {
                continue;
            }
            begun = begun.max(slot + 1);
            let mut end = now;
            for requests in self.packets.connections(&session) {
                self.packets.times(requests, &mut random, &mut times);
                let (Some(first), Some(last)) = (times.first(), times.last()) else { continue };
                let (first, last) = (now + first, now + last);
                let key = live.key(session.address, self.ports, &mut random, first, last);
                // The connection's number distinguishes it from others with the same address and
                // port.
                let key = key | (connections & 0xFFFF) << 48;
                connections += 1;
                // With one access per request, the two correspond; other views have packets that
                // carry no reply.
                let replies = requests.iter().map(|request| request.reply_bytes).chain(repeat(0));
                emitted.extend(times.iter().zip(replies).map(|(time, reply_bytes)| Emitted {
                    access: Access::new(key, now + time),
                    reply_bytes,
                }));
                if let Some(last) = emitted.last_mut() {
                    last.access = last.access.closing();
                }
                end = end.max(last);
            }
            live.forget(now);
            slots.push(Reverse((end + 1 + exponential(&mut random, PAUSE_MS) as u64, slot)));
        }
        if begun == 0 {
            return Err(OverlapError::NoSessions);
        }
        // The sort is stable: of accesses at the same time, those of the session that started first
        // come first.
        emitted.sort_by_key(|emitted| emitted.access.time_ms());
        let complete = emitted.partition_point(|emitted| emitted.access.time_ms() < horizon);
        emitted.truncate(complete.min(self.accesses));
        let before_all = emitted.partition_point(|emitted| emitted.access.time_ms() < BEGIN_MS);
        if horizon <= BEGIN_MS || before_all >= self.accesses {
            return Err(OverlapError::TooShort {
                accesses: self.accesses,
                needed: before_all.max(self.accesses),
            });
        }
        Ok(Laid { emitted, connections, ports_moved: live.moved })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::packets::{Connection, View};
    use crate::model::surge::{Surge, SurgeConfig};

    fn overlap(sessions: u32, accesses: usize) -> Overlap {
        let packets = PacketModel::default();
        Overlap { sessions, accesses, packets, ports: Ports::PAPER_LIKE, seed: 1 }
    }

    fn surge() -> Surge {
        Surge::new(SurgeConfig::default(), 1)
    }

    #[test]
    fn a_seed_fixes_every_access() {
        let made = |overlap: Overlap| overlap.make(&mut surge()).unwrap();
        let first = made(overlap(50, 20_000));
        assert_eq!(first, made(overlap(50, 20_000)));
        assert_ne!(first.accesses, made(Overlap { seed: 2, ..overlap(50, 20_000) }).accesses);
        assert_eq!(first.accesses.len(), 20_000);
        assert!(first.accesses.is_sorted_by_key(|access| access.time_ms()));
        // The first numbers of a trace are the same on every machine.
        let digest = first.accesses.iter().fold(0_u64, |digest, access| {
            (digest.rotate_left(5) ^ access.key() ^ access.time_ms() << 48 ^ u64::from(access.closes()))
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        assert_eq!(digest, GOLDEN, "{digest:#018x}");
    }

    const GOLDEN: u64 = 0xF3FB_0A1B_D167_E9E1;

    #[test]
    fn requested_number_of_sessions_is_open_at_a_time() {
        let work = overlap(200, 100_000).make(&mut surge()).unwrap();
        let mut open = std::collections::BTreeSet::new();
        let mut sizes = Vec::new();
        for access in &work.accesses {
            open.insert(access.key());
            if access.closes() {
                open.remove(&access.key());
            }
            if access.time_ms() > 2 * BEGIN_MS {
                sizes.push(open.len());
            }
        }
        let most = sizes.iter().max().unwrap();
        assert!(*most <= 200, "{most} at once");
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((185..=200).contains(&mean), "{mean} on average");
    }

    #[test]
    fn views_and_connections_change_the_trace() {
        let made = |connection, view| {
            let packets = PacketModel { connection, view };
            Overlap { packets, ports: Ports::Sequential, ..overlap(20, 20_000) }.make(&mut surge()).unwrap()
        };
        let per = |work: &Workload| work.accesses.iter().filter(|access| access.closes()).count();
        let session = made(Connection::PerSession, View::Request);
        let request = made(Connection::PerRequest, View::Request);
        assert_eq!(per(&request), 20_000);
        assert!(per(&session) < 2000);
        let packets = made(Connection::PerPage, View::Rx);
        assert!(per(&packets) < 1000 && per(&packets) > 10, "{}", per(&packets));
        assert!(request.accesses.iter().any(|access| access.key() & 0xFFFF > 1100));
    }

    #[test]
    fn a_log_of_the_same_sessions_has_their_requests() {
        let overlap = overlap(50, 5000);
        let log = overlap.make_log(&mut surge(), 1_000_000).unwrap();
        let work = overlap.make(&mut surge()).unwrap();
        assert_eq!(log.len(), 5000);
        for (entry, access) in log.iter().zip(&work.accesses) {
            assert_eq!(u64::from(entry.address), access.key() >> 16 & 0xFFFF_FFFF);
            assert_eq!(entry.time_ms, 1_000_000 + access.time_ms());
        }
        assert!(log.iter().filter(|entry| entry.reply_bytes > 100).count() > 4900);
    }

    /// A client that sends one request per second, a hundred times.
    struct OneClient;

    impl SessionSource for OneClient {
        fn next_session(&mut self, _: &mut Random, session: &mut Session) -> bool {
            session.address = 7;
            let request = |offset_ms| crate::model::Request { offset_ms, reply_bytes: 0 };
            session.requests = (0..100).map(|i| request(i * 1000)).collect();
            true
        }
    }

    struct Nothing;

    impl SessionSource for Nothing {
        fn next_session(&mut self, _: &mut Random, _: &mut Session) -> bool {
            false
        }
    }

    #[test]
    fn busy_client_uses_several_ports() {
        let work = overlap(600, 200_000).make(&mut OneClient).unwrap();
        let keys: std::collections::BTreeSet<u64> =
            work.accesses.iter().map(|access| access.key()).collect();
        assert!(keys.len() >= 600 && work.ports_moved > 0, "{} keys", keys.len());
        let mut open = BTreeMap::new();
        for access in &work.accesses {
            *open.entry(access.key()).or_insert(0) += 1;
            if access.closes() {
                assert_eq!(open.remove(&access.key()), Some(100), "no two share a key");
            }
        }
    }

    #[test]
    fn invalid_overlaps_are_errors() {
        let error = |overlap: Overlap| overlap.make(&mut surge()).unwrap_err().to_string();
        assert!(error(overlap(0, 1)).contains("must be from 1 to"));
        assert!(error(overlap(1, 0)).contains("must be from 1 to"));
        assert!(error(overlap(50_000, 1000)).contains("request more than"));
        assert_eq!(overlap(5, 5).make(&mut Nothing), Err(OverlapError::NoSessions));
    }
}
