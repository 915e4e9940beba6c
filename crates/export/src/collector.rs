//! Collectors on the network.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ipfix::MessageSink;

/// Maximum time for a TCP collector to accept a connection, and to accept bytes.
const TCP_PATIENCE: Duration = Duration::from_secs(5);

/// The settings for sending datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpOptions {
    /// Maximum bytes per second: a collector has a buffer of a few hundred KiB, and does not report
    /// when it overflows.
    pub bytes_per_second: u64,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { bytes_per_second: 25_000_000 }
    }
}

/// Counts of datagrams and their records.
#[derive(Debug, Default)]
pub struct UdpCounters {
    sent: AtomicU64,
    refused: AtomicU64,
    lost_records: AtomicU64,
}

impl UdpCounters {
    /// Returns how many datagrams were sent and, as far as the system knows, not refused.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns how many datagrams this system or the collector's refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns how many records the refused datagrams carried.
    pub fn lost_records(&self) -> u64 {
        self.lost_records.load(Ordering::Relaxed)
    }
}

/// Time from one refusal to the next within which the datagrams between them count as refused: a
/// host reports no more than about one refused datagram per second.
const REFUSALS_APART: Duration = Duration::from_secs(2);

/// A number of datagrams and of their records.
#[derive(Clone, Copy, Debug, Default)]
struct Datagrams {
    count: u64,
    records: u64,
}

/// Sends each message as a datagram.
///
/// Datagrams that are refused, for example because no collector listens, are counted and do not end
/// the run: UDP gives no guarantees, and collectors restart. A refusal on the same host is known at
/// once, so the counts are exact. Another host reports some refusals only, so datagrams between
/// two that are less than two seconds apart count as refused too. Datagrams that are lost on the
/// way are never known.
#[derive(Debug)]
pub struct UdpCollector {
    socket: UdpSocket,
    options: UdpOptions,
    counters: Arc<UdpCounters>,
    /// The time by which all bytes so far may have been sent.
    free_at: Instant,
    /// Datagrams sent after the last refusal.
    unanswered: Datagrams,
    /// The latest of these.
    last: Datagrams,
    refused_at: Option<Instant>,
}

impl UdpCollector {
    /// Returns a sender of datagrams to a collector.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn connect(collector: SocketAddr, options: UdpOptions) -> io::Result<Self> {
        let local: SocketAddr =
            if collector.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(local)?;
        socket.connect(collector)?;
        Ok(Self {
            socket,
            options,
            counters: Arc::default(),
            free_at: Instant::now(),
            unanswered: Datagrams::default(),
            last: Datagrams::default(),
            refused_at: None,
        })
    }

    /// Returns the counters, which can be read while records are sent.
    pub fn counters(&self) -> Arc<UdpCounters> {
        Arc::clone(&self.counters)
    }

    fn count_refused(&self, datagrams: Datagrams) {
        self.counters.refused.fetch_add(datagrams.count, Ordering::Relaxed);
        self.counters.lost_records.fetch_add(datagrams.records, Ordering::Relaxed);
    }

    /// Counts datagrams that were sent and turn out to be refused.
    fn take_back(&self, datagrams: Datagrams) {
        self.counters.sent.fetch_sub(datagrams.count, Ordering::Relaxed);
        self.count_refused(datagrams);
    }

    /// Handles the report that the last datagram, or an earlier one, was refused.
    fn note_refusal(&mut self) {
        let is_soon = self.refused_at.is_some_and(|at| at.elapsed() < REFUSALS_APART);
        self.take_back(if is_soon { self.unanswered } else { self.last });
        (self.unanswered, self.last) = Default::default();
        self.refused_at = Some(Instant::now());
    }

    /// Takes the report of a refusal that has arrived since the last call.
    fn hear(&mut self) {
        if let Ok(Some(_)) = self.socket.take_error() {
            self.note_refusal();
        }
    }
}

impl MessageSink for UdpCollector {
    fn send(&mut self, datagram: &[u8], records: u64) -> io::Result<()> {
        let now = Instant::now();
        if self.free_at > now {
            std::thread::sleep(self.free_at - now);
        }
        let ns = datagram.len() as u64 * 1_000_000_000 / self.options.bytes_per_second.max(1);
        // Unused time accumulates only to a small amount.
        self.free_at = self.free_at.max(now) + Duration::from_nanos(ns);
        // A report that waits would keep this datagram from being sent.
        self.hear();
        let this = Datagrams { count: 1, records };
        match self.socket.send(datagram) {
            Ok(_) => {
                self.counters.sent.fetch_add(1, Ordering::Relaxed);
                self.unanswered.count += 1;
                self.unanswered.records += records;
                self.last = this;
                self.hear();
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            Err(_) => self.count_refused(this),
        }
        Ok(())
    }

    fn flush_messages(&mut self) -> io::Result<()> {
        self.hear();
        Ok(())
    }
}

/// Sends messages over a TCP connection. A collector that accepts no data for five seconds causes
/// an error.
#[derive(Debug)]
pub struct TcpCollector {
    stream: TcpStream,
}

impl TcpCollector {
    /// Connects to a collector.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, or a timeout of five seconds.
    pub fn connect(collector: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&collector, TCP_PATIENCE)?;
        stream.set_write_timeout(Some(TCP_PATIENCE))?;
        Ok(Self { stream })
    }

    /// Returns whether the collector has closed the connection. The system would still accept
    /// bytes, which would be lost. A collector sends nothing; data that it sends is discarded.
    pub fn is_closed(&self) -> bool {
        let mut discarded = [0; 512];
        let mut stream = &self.stream;
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let is_closed = match stream.read(&mut discarded) {
            Ok(bytes) => bytes == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        stream.set_nonblocking(false).is_err() || is_closed
    }
}

impl Write for TcpCollector {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the collector has accepted no data for {} seconds", TCP_PATIENCE.as_secs()),
            ),
            _ => error,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
