//! Sessions extracted from a log: one client's requests until it pauses for half an hour [TCBCACHE
//! §2.2].

use flowloom_flow_key::hash::fold::fold;

use crate::access::Access;
use crate::random::Random;

use super::packets::PacketModel;
use super::ports::Ports;
use super::session::{Request, Session, SessionSource};

/// Duration of a pause that ends a session.
pub const IDLE_MS: u64 = 30 * 60 * 1000;

/// A request in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEntry {
    /// The client's IPv4 address, or a substitute: see [`address_of`].
    pub address: u32,
    /// Milliseconds since 1970; multiples of 1000 in logs that record only seconds.
    pub time_ms: u64,
    /// Bytes of the reply.
    pub reply_bytes: u64,
}

/// Returns the IPv4 address of a host: its own if the host is numeric, otherwise one derived from
/// its name.
///
/// Hosts of a domain share a /24 network, as real ones often do: the network is derived from the
/// name without its first label, and the last octet from the whole name. The result is the same on
/// every machine.
#[must_use]
pub fn address_of(host: &[u8]) -> u32 {
    let text = core::str::from_utf8(host).unwrap_or_default();
    if let Ok(address) = text.parse::<core::net::Ipv4Addr>() {
        return address.to_bits();
    }
    let domain = host.iter().position(|byte| *byte == b'.').map_or(host, |dot| &host[dot + 1..]);
    let network = digest(domain) as u32 & 0x00FF_FFFF;
    network << 8 | digest(host) as u32 & 0xFF
}

/// FNV-1a, followed by a mixer because its low bits are poor. Upper and lower case count as equal.
fn digest(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01B3)
    });
    fold(fnv, 0x9E37_79B9_7F4A_7C15)
}

/// The sessions of a log.
#[derive(Clone)]
pub struct LoggedSessions {
    /// Start time and session, in order of start times.
    sessions: Vec<(u64, Session)>,
}

impl std::fmt::Debug for LoggedSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedSessions").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl LoggedSessions {
    /// Divides a log into sessions. With `jitter`, times are drawn at random within each second:
    /// old logs record only seconds, so all requests of a page would coincide.
    ///
    /// The log need not be in chronological order. Takes two sorts.
    #[must_use]
    pub fn cut(mut entries: Vec<LogEntry>, jitter: Option<u64>) -> Self {
        if let Some(seed) = jitter {
            let mut random = Random::new(seed);
            for entry in &mut entries {
                entry.time_ms += random.below(1000);
            }
        }
        // The sort is stable, so that requests with the same time keep their order.
        entries.sort_by_key(|entry| (entry.address, entry.time_ms));
        let same = |a: &LogEntry, b: &LogEntry| a.address == b.address && b.time_ms - a.time_ms <= IDLE_MS;
        let mut sessions: Vec<(u64, Session)> = entries
            .chunk_by(same)
            .map(|entries| {
                let begin = entries[0].time_ms;
                let request = |entry: &LogEntry| Request {
                    offset_ms: entry.time_ms - begin,
                    reply_bytes: entry.reply_bytes,
                };
                let requests = entries.iter().map(request).collect();
                (begin, Session { address: entries[0].address, requests })
            })
            .collect();
        sessions.sort_by_key(|(begin, _)| *begin);
        Self { sessions }
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the sessions with their start times, in order.
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.sessions.iter().map(|(begin, session)| (*begin, session))
    }

    /// Returns the accesses of the log in its own order; time starts with the first session.
    #[must_use]
    pub fn as_logged(&self, packets: PacketModel, ports: Ports, seed: u64) -> Vec<Access> {
        let mut random = Random::new(seed);
        let origin = self.sessions.first().map_or(0, |(begin, _)| *begin);
        let mut accesses = Vec::new();
        let mut times = Vec::new();
        let mut earlier = std::collections::BTreeMap::new();
        let mut connections = 0_u16;
        for (begin, session) in &self.sessions {
            for requests in packets.connections(session) {
                packets.times(requests, &mut random, &mut times);
                let count = earlier.entry(session.address).or_insert(0_u32);
                let port = ports.draw(&mut random, *count);
                let key = Access::nth_session_key(session.address, port, connections);
                connections = connections.wrapping_add(1);
                *count = count.wrapping_add(1);
                let at = |time: &u64| Access::new(key, begin - origin + time);
                accesses.extend(times.iter().map(at));
                if let Some(access) = accesses.last_mut() {
                    *access = access.closing();
                }
            }
        }
        accesses.sort_by_key(|access| access.time_ms());
        accesses
    }

    /// Returns a source that repeatedly draws from the sessions.
    #[must_use]
    pub fn drawn(&self) -> Drawn<'_> {
        Drawn { sessions: &self.sessions }
    }
}

impl<'a> IntoIterator for &'a LoggedSessions {
    type Item = (u64, &'a Session);
    type IntoIter =
        std::iter::Map<std::slice::Iter<'a, (u64, Session)>, fn(&(u64, Session)) -> (u64, &Session)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Draws sessions of a log with equal probability, any number of times.
#[derive(Clone, Debug)]
pub struct Drawn<'a> {
    sessions: &'a [(u64, Session)],
}

impl SessionSource for Drawn<'_> {
    fn next_session(&mut self, random: &mut Random, session: &mut Session) -> bool {
        let drawn = random.below(self.sessions.len() as u64) as usize;
        let Some((_, source)) = self.sessions.get(drawn) else { return false };
        session.clone_from(source);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::overlap::Overlap;

    fn entry(address: u32, second: u64) -> LogEntry {
        LogEntry { address, time_ms: second * 1000, reply_bytes: 100 }
    }

    #[test]
    fn names_of_a_domain_share_a_network() {
        assert_eq!(address_of(b"192.168.7.9"), 0xC0A8_0709);
        let (a, b) = (address_of(b"in24.inetnebr.com"), address_of(b"IN25.inetnebr.com"));
        assert_eq!(a >> 8, b >> 8);
        assert_ne!(a, b);
        assert_ne!(a >> 8, address_of(b"uplherc.upl.com") >> 8);
        assert_ne!(address_of(b"\xFF\xFE"), address_of(b""));
    }

    #[test]
    fn half_an_hour_of_rest_ends_a_session() {
        let log = vec![entry(2, 5), entry(1, 0), entry(1, 1800), entry(1, 3601), entry(2, 6)];
        let sessions = LoggedSessions::cut(log, None);
        let mut found = Vec::new();
        for (begin, session) in &sessions {
            found.push((begin, session.address, session.requests.len()));
        }
        assert_eq!(found, [(0, 1, 2), (5000, 2, 2), (3_601_000, 1, 1)]);
        let accesses = sessions.as_logged(PacketModel::default(), Ports::Sequential, 1);
        let times: Vec<u64> = accesses.iter().map(|access| access.time_ms()).collect();
        assert_eq!(times, [0, 5000, 6000, 1_800_000, 3_601_000]);
        assert_eq!(accesses.iter().filter(|access| access.closes()).count(), 3);
        assert_eq!((accesses[0].key() & 0xFFFF, accesses[4].key() & 0xFFFF), (1024, 1025));
    }

    #[test]
    fn jitter_stays_within_the_second_and_is_seeded() {
        let log: Vec<LogEntry> = (0..500).map(|i| entry(i % 9, u64::from(i / 20))).collect();
        let times = |seed| {
            let sessions = LoggedSessions::cut(log.clone(), Some(seed));
            sessions.as_logged(PacketModel::default(), Ports::Uniform, 1)
        };
        assert_eq!(times(3), times(3));
        assert_ne!(times(3), times(4));
        assert!(times(3).iter().any(|access| access.time_ms() % 1000 != 0));
    }

    #[test]
    fn an_empty_log_has_nothing_to_draw() {
        let none = LoggedSessions::cut(Vec::new(), Some(1));
        assert!(none.is_empty());
        let overlap = Overlap {
            sessions: 2,
            accesses: 10,
            packets: PacketModel::default(),
            ports: Ports::PAPER_LIKE,
            seed: 1,
        };
        assert!(overlap.make(&mut none.drawn()).is_err());
    }
}
