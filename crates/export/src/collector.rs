//! Collectors on the network.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// Counts of datagrams.
#[derive(Debug, Default)]
pub struct UdpCounters {
    sent: AtomicU64,
    refused: AtomicU64,
}

impl UdpCounters {
    /// Returns how many datagrams the system accepted.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns how many datagrams the system refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Sends each [`write`](Write::write) as a datagram.
///
/// Datagrams that the system refuses, for example because no collector listens, are counted and do
/// not end the run: UDP gives no guarantees, and collectors restart.
#[derive(Debug)]
pub struct UdpCollector {
    socket: UdpSocket,
    options: UdpOptions,
    counters: Arc<UdpCounters>,
    /// The time by which all bytes so far may have been sent.
    free_at: Instant,
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
        Ok(Self { socket, options, counters: Arc::default(), free_at: Instant::now() })
    }

    /// Returns the counters, which can be read while records are sent.
    pub fn counters(&self) -> Arc<UdpCounters> {
        Arc::clone(&self.counters)
    }
}

impl Write for UdpCollector {
    fn write(&mut self, datagram: &[u8]) -> io::Result<usize> {
        let now = Instant::now();
        if self.free_at > now {
            std::thread::sleep(self.free_at - now);
        }
        let ns = datagram.len() as u64 * 1_000_000_000 / self.options.bytes_per_second.max(1);
        // Unused time accumulates only to a small amount.
        self.free_at = self.free_at.max(now) + Duration::from_nanos(ns);
        match self.socket.send(datagram) {
            Ok(_) => self.counters.sent.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            Err(_) => self.counters.refused.fetch_add(1, Ordering::Relaxed),
        };
        Ok(datagram.len())
    }

    fn flush(&mut self) -> io::Result<()> {
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
    /// bytes, which would be lost. A collector sends nothing; what it sends is discarded.
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
