//! A network interface as a source, through libpcap.
//!
//! ```text
//!  interface ─▶ kernel's buffer ─▶ libpcap ─ one copy ─▶ block of ≤ 256 packets ─ batches of 32 ─▶
//!                     │ when full, the kernel counts drops: `interface_full`
//! ```
//!
//! libpcap lends its buffer until the next call, so packets are copied once, into blocks that are
//! reused after every worker has released them. While workers hold all blocks, the source is
//! starved, the kernel's buffer fills, and packets that no longer fit count as withheld. Therefore
//! sent = yielded + withheld, independent of the load.
//!
//! No call waits for packets longer than half a millisecond, so a run can stop quickly.

use std::time::{Duration, Instant};

use flowloom_packet::{
    BlockPool, DropCounts, DropReason, Fill, InterfaceName, LinkType, LiveTime, PacketBatch, PacketSource,
    RawPacket, SourceError,
};
use pcap::{Active, Capture, Device, Error, Stat};

/// Milliseconds for which the kernel may hold a packet to deliver several at once.
const HAND_OVER_MS: i32 = 10;
/// The sleep when no packet has arrived.
const IDLE: Duration = Duration::from_micros(500);
/// Number of blocks between two reads of the kernel's counters while packets keep arriving.
const BLOCKS_PER_LOOK: u32 = 64;

/// How an interface is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// Maximum number of captured bytes per packet.
    pub snaplen_bytes: u32,
    /// Whether to capture packets that are addressed to other machines.
    pub promiscuous: bool,
    /// Size of the kernel's buffer in bytes.
    pub buffer_bytes: u32,
    /// The filter in libpcap's language; empty for all packets.
    pub filter: String,
}

impl Default for LiveOptions {
    /// Whole packets addressed to this machine, with a buffer of 16 MiB.
    fn default() -> Self {
        Self { snaplen_bytes: 262_144, promiscuous: false, buffer_bytes: 16 << 20, filter: String::new() }
    }
}

/// The reason why an interface cannot be captured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// libpcap or the kernel returned an error.
    #[error(
        "cannot capture on {interface}: {why}\n  available interfaces: {}\n  capturing needs root or \
         CAP_NET_RAW (setcap cap_net_raw+ep on the program)",
        interfaces.join(", ")
    )]
    Open {
        /// The interface.
        interface: String,
        /// The error of libpcap.
        why: String,
        /// The names of the existing interfaces.
        interfaces: Vec<String>,
    },
    /// The filter is invalid.
    #[error(
        "'{filter}' is not a valid capture filter for {interface}: {why}\n  the language is \
        pcap-filter(7)"
    )]
    Filter {
        /// The interface.
        interface: String,
        /// The filter.
        filter: String,
        /// The error of libpcap.
        why: String,
    },
    /// The interface has a link type that is not decoded.
    #[error("link type {link} of {interface} is not decoded")]
    Link {
        /// The interface.
        interface: String,
        /// Its link type.
        link: LinkType,
    },
    /// A value is too large for libpcap.
    #[error("{what} of {bytes} bytes exceeds the limit of libpcap, which is {max}", max = i32::MAX)]
    TooLarge {
        /// The option.
        what: &'static str,
        /// The value.
        bytes: u32,
    },
}

/// A source of packets that arrive at an interface.
///
/// # Examples
///
/// ```no_run
/// use flowloom_packet::{Fill, PacketBatch, PacketSource};
/// use flowloom_traffic::live::{LiveOptions, LiveSource};
///
/// let mut source = LiveSource::open("eth0", &LiveOptions::default())?;
/// let mut batch = PacketBatch::new();
/// while source.packets() < 1000 {
///     match source.next_batch(&mut batch)? {
///         Fill::Packets => println!("{} packets", batch.packets.len()),
///         Fill::Starved => {}
///         Fill::End => break,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveSource {
    interface: String,
    capture: Capture<Active>,
    link: LinkType,
    snaplen_bytes: u32,
    pool: BlockPool,
    packets: u64,
    time: LiveTime,
    error: Option<Error>,
    /// The kernel's counters at the last read.
    seen: Stat,
    blocks_since_look: u32,
    idle: bool,
    asked: bool,
}

impl std::fmt::Debug for LiveSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveSource({}, {} packets)", self.interface, self.packets)
    }
}

impl LiveSource {
    /// Opens an interface. Capturing starts immediately.
    ///
    /// # Errors
    ///
    /// Returns [`LiveError`] when the interface does not exist, may not be captured, or does not
    /// support the options.
    pub fn open(interface: &str, options: &LiveOptions) -> Result<Self, LiveError> {
        let signed =
            |what, bytes: u32| i32::try_from(bytes).map_err(|_| LiveError::TooLarge { what, bytes });
        let (snaplen, buffer) = (
            signed("a snapshot length", options.snaplen_bytes)?,
            signed("a buffer", options.buffer_bytes)?,
        );
        let refused = |error: Error| LiveError::Open {
            interface: interface.to_owned(),
            why: error.to_string(),
            interfaces: Device::list()
                .map(|devices| devices.into_iter().map(|device| device.name).collect())
                .unwrap_or_default(),
        };
        let mut capture = Capture::from_device(interface)
            .map_err(refused)?
            .snaplen(snaplen)
            .promisc(options.promiscuous)
            .buffer_size(buffer)
            .timeout(HAND_OVER_MS)
            .open()
            .and_then(Capture::setnonblock)
            .map_err(refused)?;
        // A filter that ignores IPv6 and VLAN is easily wrong, but it is the user's choice.
        capture.filter(&options.filter, true).map_err(|error| LiveError::Filter {
            interface: interface.to_owned(),
            filter: options.filter.clone(),
            why: error.to_string(),
        })?;
        let link = LinkType(u16::try_from(capture.get_datalink().0 & 0xFFFF).unwrap_or(u16::MAX));
        if !link.is_supported() {
            return Err(LiveError::Link { interface: interface.to_owned(), link });
        }
        Ok(Self {
            interface: interface.to_owned(),
            capture,
            link,
            snaplen_bytes: options.snaplen_bytes,
            pool: BlockPool::new(),
            packets: 0,
            time: LiveTime::default(),
            error: None,
            seen: Stat { received: 0, dropped: 0, if_dropped: 0 },
            blocks_since_look: 0,
            idle: false,
            asked: false,
        })
    }

    /// Returns the name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns its link type.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Returns the maximum number of captured bytes per packet.
    pub fn snaplen_bytes(&self) -> u32 {
        self.snaplen_bytes
    }

    /// Returns how many packets were yielded.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Reads the packets that have arrived into a block that no other holder has. Returns whether
    /// there was such a block.
    fn refill(&mut self) -> bool {
        let is_filled = self.pool.refill(|bytes, packets| match self.capture.next_packet() {
            Ok(packet) => {
                packets.push(RawPacket {
                    position: bytes.len() as u64,
                    captured_bytes: u32::try_from(packet.data.len()).unwrap_or(u32::MAX),
                    wire_bytes: packet.header.len,
                    time_ns: time_ns(packet.header.ts.tv_sec, packet.header.ts.tv_usec),
                    link: self.link,
                    interface: InterfaceName::UNKNOWN,
                });
                bytes.extend_from_slice(packet.data);
                true
            }
            Err(Error::TimeoutExpired) => false,
            Err(error) => {
                self.error = Some(error);
                false
            }
        });
        self.blocks_since_look += u32::from(is_filled);
        is_filled
    }
}

/// Returns a time in nanoseconds since 1970. Earlier times become 0.
fn time_ns(seconds: impl TryInto<u64>, microseconds: impl TryInto<u64>) -> u64 {
    let seconds = seconds.try_into().unwrap_or(0);
    let microseconds = microseconds.try_into().unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(microseconds.saturating_mul(1000))
}

impl PacketSource for LiveSource {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        batch.block = None;
        batch.ahead = 0..0;
        batch.yielded_until_ns = None;
        self.asked = false;
        self.idle = false;
        if self.pool.is_empty() {
            // Yield the packets that arrived before the interface failed.
            if let Some(error) = self.error.take() {
                let why = format!("capture on {} stopped: {error}", self.interface);
                return Err(SourceError(why.into()));
            }
            if !self.refill() {
                return Ok(Fill::Starved);
            }
            if self.pool.is_empty() && self.error.is_none() {
                self.idle = true;
                batch.yielded_until_ns = self.time.silent_ns(Instant::now());
                std::thread::sleep(IDLE);
                return Ok(Fill::Starved);
            }
            if self.pool.is_empty() {
                return self.next_batch(batch);
            }
        }
        self.packets += self.pool.pass_to(batch) as u64;
        batch.yielded_until_ns = self.time.yielded(&batch.packets, Instant::now());
        Ok(Fill::Packets)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut withheld = DropCounts::default();
        let is_last = std::mem::replace(&mut self.asked, true);
        if !is_last && !self.idle && self.blocks_since_look < BLOCKS_PER_LOOK {
            return withheld;
        }
        self.blocks_since_look = 0;
        // A removed interface has no counters; the earlier counts stay.
        if let Ok(now) = self.capture.stats() {
            // The kernel counts in 32 bits, which wrap.
            let since = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
            withheld.add(DropReason::InterfaceFull, since(now.dropped, self.seen.dropped));
            withheld.add(DropReason::InterfaceDropped, since(now.if_dropped, self.seen.if_dropped));
            self.seen = now;
        }
        withheld
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let error = LiveSource::open("no-such-interface", &LiveOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with("cannot capture on no-such-interface: "), "{error}");
        assert!(error.contains("CAP_NET_RAW"), "{error}");
        let options = LiveOptions { buffer_bytes: u32::MAX, ..LiveOptions::default() };
        let error = LiveSource::open("lo", &options).unwrap_err().to_string();
        assert!(error.contains("4294967295"), "{error}");
    }

    #[test]
    fn times_are_in_nanoseconds_since_1970() {
        assert_eq!(time_ns(2_i64, 5_i64), 2_000_005_000);
        assert_eq!(time_ns(-1_i64, 5_i64), 5000);
    }
}
