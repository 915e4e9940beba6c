//! Packets that a rule of the kernel's firewall hands over (`-j NFQUEUE`), through netlink.
//!
//! ```text
//!  iptables -A FORWARD -j NFQUEUE --queue-balance 0:1 --queue-bypass
//!           │ packet ▲ verdict, and changed bytes
//!           ▼        │
//!          one socket per queue, and one queue per worker
//! ```
//!
//! The kernel waits for a verdict on each packet. Packets have no link header.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};

use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, Frame, PortCounts, WIRE_BATCH, Wire};
use flowloom_packet::{DropCounts, DropReason, Headers, LinkType, SourceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Context, IoError};
use crate::sys::socket;

/// Message types: the subsystem and the number.
const PACKET: u16 = 3 << 8;
const VERDICT: u16 = 3 << 8 | 1;
const CONFIG: u16 = 3 << 8 | 2;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// Bytes of a message's header, and of it with the header of its family.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;
// Attributes of a configuration.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const LENGTH_MAX: u16 = 3;
const MASK: u16 = 4;
const FLAGS: u16 = 5;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FAIL_OPEN: u32 = 1;
/// Packets that the sender left to segment and to checksum arrive as they are.
const UNSEGMENTED: u32 = 4;
// Attributes of packets and verdicts.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const TIMESTAMP: u16 = 4;
const PAYLOAD: u16 = 10;
const CAPTURED: u16 = 13;
const SKB_INFO: u16 = 14;
const CHECKSUM_NOT_READY: u32 = 1;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
/// Maximum size of a packet with its attributes.
const MESSAGE_BYTES_MAX: usize = (64 << 10) + 4096;
const SOCKET_BYTES: libc::c_int = 8 << 20;
/// Time limit for the kernel's answer to a configuration.
const ANSWER_IN: Duration = Duration::from_secs(2);

/// The settings of queues.
///
/// Any version may add fields, so end a literal with `..NfqueueOptions::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_io::NfqueueOptions;
/// let options = NfqueueOptions { passes_when_full: true, ..NfqueueOptions::default() };
/// assert_eq!(options.packets_max, 4096);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfqueueOptions {
    /// Maximum number of packets that wait in a queue. Defaults to 4,096.
    pub packets_max: u32,
    /// Whether packets pass while the queue is full. Defaults to `false`: they are dropped.
    pub passes_when_full: bool,
}

impl Default for NfqueueOptions {
    fn default() -> Self {
        Self { packets_max: 4096, passes_when_full: false }
    }
}

/// A packet that waits for its verdict.
#[derive(Debug)]
struct Waiting {
    id: u32,
    bytes: Vec<u8>,
    wire_bytes: u32,
    time_ns: u64,
    is_unfinished: bool,
    is_changed: bool,
}

/// A queue of the kernel's firewall as a wire with one port. A packet that passes continues in the
/// kernel; it cannot leave by another port, and the wire emits no frames.
///
/// When the process ends, the kernel drops the packets of the queue, or passes them by a rule with
/// `--queue-bypass`.
///
/// # Examples
///
/// ```no_run
/// use flowloom_io::{NfqueueOptions, NfqueueWire};
/// use flowloom_packet::wire::{Decision, Wire};
/// let mut wire = NfqueueWire::open(0, &NfqueueOptions::default())?;
/// loop {
///     let packets = wire.receive()?;
///     wire.settle(&vec![Decision::Pass; packets])?;
///     if packets == 0 {
///         wire.wait(std::time::Duration::from_millis(100))?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NfqueueWire {
    socket: OwnedFd,
    queue: u16,
    held: Vec<Waiting>,
    /// Packets that arrived before the answer to a configuration.
    early: Vec<Waiting>,
    /// Buffers of packets that have left.
    spare: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    message: Vec<u8>,
    counts: PortCounts,
    /// The kernel's counter of lost packets at the last look.
    lost: u64,
    withheld: DropCounts,
    is_closed: bool,
}

fn failed(error: IoError) -> SourceError {
    SourceError(Box::new(error))
}

/// Begins a message. `finish` sets its length.
fn begin(message: &mut Vec<u8>, kind: u16, flags: u16, queue: u16) -> usize {
    let start = message.len();
    message.extend([0; 4]);
    message.extend(kind.to_ne_bytes());
    message.extend((REQUEST | flags).to_ne_bytes());
    message.extend([0; 8]);
    // Any family, version 0.
    message.extend([0, 0]);
    message.extend(queue.to_be_bytes());
    start
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn finish(message: &mut [u8], start: usize) {
    let length = (message.len() - start) as u32;
    message[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

/// Returns the type of the first message in a buffer, and its bytes after the header.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    Some((kind, bytes.get(HEADER..length.min(bytes.len()))?))
}

/// Returns the attributes of a message.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & 0x3FFF;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn number(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Reads a packet into a buffer; `None` if the message contains no packet.
fn packet(bytes: &[u8], mut buffer: Vec<u8>) -> Option<Waiting> {
    buffer.clear();
    let (PACKET, body) = first_message(bytes)? else { return None };
    let mut packet = Waiting {
        id: 0,
        bytes: buffer,
        wire_bytes: 0,
        time_ns: 0,
        is_unfinished: false,
        is_changed: false,
    };
    let mut has_id = false;
    for (kind, value) in attributes(body.get(HEADERS - HEADER..)?) {
        match kind {
            PACKET_HEADER => (packet.id, has_id) = (number(value), value.len() >= 4),
            TIMESTAMP => {
                let part = |at: usize| Some(u64::from_be_bytes(*value.get(at..)?.first_chunk()?));
                if let (Some(seconds), Some(micros)) = (part(0), part(8)) {
                    packet.time_ns =
                        seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000));
                }
            }
            PAYLOAD => packet.bytes.extend(value),
            CAPTURED => packet.wire_bytes = number(value),
            SKB_INFO => packet.is_unfinished = number(value) & CHECKSUM_NOT_READY != 0,
            _ => {}
        }
    }
    packet.wire_bytes = packet.wire_bytes.max(packet.bytes.len() as u32);
    has_id.then_some(packet)
}

impl NfqueueWire {
    /// Opens a queue. Packets arrive from then on.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when the kernel has no queues, another process has this one, or the
    /// permissions do not suffice.
    pub fn open(queue: u16, options: &NfqueueOptions) -> Result<Self, IoError> {
        let name = format!("queue {queue}");
        let context = Context { interface: &name, capability: "CAP_NET_ADMIN" };
        let remedy = "run modprobe nfnetlink_queue";
        let opened = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(NETFILTER),
        );
        let socket = opened.map_err(io::Error::from).map_err(context.failed("open netlink", remedy))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))
            .map_err(io::Error::from)
            .map_err(context.failed("open netlink", remedy))?;
        // A smaller buffer loses packets earlier, which are counted.
        let _ = socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &SOCKET_BYTES);
        socket::set(&socket, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, &1)
            .map_err(context.failed("set up netlink", ""))?;
        let mut wire = Self {
            socket,
            queue,
            held: Vec::with_capacity(WIRE_BATCH),
            early: Vec::new(),
            spare: Vec::new(),
            buffer: vec![0; MESSAGE_BYTES_MAX],
            message: Vec::new(),
            counts: PortCounts::default(),
            lost: 0,
            withheld: DropCounts::default(),
            is_closed: false,
        };
        let in_use = "take the queue; does another process have it?";
        wire.configure(COMMAND, &[BIND, 0, 0, 0], None).map_err(context.failed(in_use, ""))?;
        let mut parameters = 0xFFFF_u32.to_be_bytes().to_vec();
        parameters.push(COPY_PACKET);
        wire.configure(PARAMETERS, &parameters, None).map_err(context.failed("receive packets", ""))?;
        wire.configure(LENGTH_MAX, &options.packets_max.to_be_bytes(), None)
            .map_err(context.failed("set the length of the queue", ""))?;
        let when_full = if options.passes_when_full { FAIL_OPEN } else { 0 };
        let flags = (UNSEGMENTED | when_full).to_be_bytes();
        wire.configure(FLAGS, &flags, Some(flags)).map_err(context.failed("set up the queue", ""))?;
        Ok(wire)
    }

    /// Sends a configuration and waits for the kernel's answer.
    fn configure(&mut self, kind: u16, value: &[u8], mask: Option<[u8; 4]>) -> io::Result<()> {
        self.message.clear();
        let start = begin(&mut self.message, CONFIG, ACKNOWLEDGE, self.queue);
        attribute(&mut self.message, kind, value);
        if let Some(mask) = mask {
            attribute(&mut self.message, MASK, &mask);
        }
        finish(&mut self.message, start);
        rustix::net::send(&self.socket, &self.message, SendFlags::empty())?;
        let begun = std::time::Instant::now();
        while begun.elapsed() < ANSWER_IN {
            let Ok((read, _)) = rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())
            else {
                std::thread::yield_now();
                continue;
            };
            match first_message(&self.buffer[..read]) {
                Some((ERROR, body)) => {
                    let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                    return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
                }
                _ => self.early.extend(packet(&self.buffer[..read], Vec::new())),
            }
        }
        Err(io::Error::from(io::ErrorKind::TimedOut))
    }

    /// Sends the verdicts in `message`.
    fn send_verdicts(&mut self) -> Result<(), SourceError> {
        if !self.message.is_empty() {
            let sent = rustix::net::send(&self.socket, &self.message, SendFlags::empty());
            sent.map_err(|error| {
                let interface = format!("queue {}", self.queue);
                failed(IoError::Failed { interface, what: "return verdicts", error: error.into() })
            })?;
            self.message.clear();
        }
        Ok(())
    }

    /// Counts the packets that the kernel has dropped: those for which the queue or the socket had
    /// no space.
    fn look(&mut self) {
        let table = std::fs::read_to_string("/proc/net/netfilter/nfnetlink_queue").unwrap_or_default();
        let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let own = table
            .lines()
            .map(fields)
            .find(|fields| fields.first().and_then(|number| number.parse().ok()) == Some(self.queue));
        let count = |fields: &[String], at: usize| fields.get(at).and_then(|n| n.parse::<u64>().ok());
        let Some(lost) = own.and_then(|own| Some(count(&own, 5)? + count(&own, 6)?)) else { return };
        let missed = lost.saturating_sub(self.lost);
        self.lost = self.lost.max(lost);
        self.counts.missed += missed;
        self.withheld.add(DropReason::InterfaceFull, missed);
    }
}

impl Wire for NfqueueWire {
    fn receive(&mut self) -> Result<usize, SourceError> {
        let early = self.early.len().min(WIRE_BATCH);
        self.held.extend(self.early.drain(..early));
        while self.held.len() < WIRE_BATCH {
            let Ok((read, _)) = rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())
            else {
                break;
            };
            let spare = self.spare.pop().unwrap_or_default();
            self.held.extend(packet(&self.buffer[..read], spare));
        }
        if self.held.iter().any(|packet| packet.time_ns == 0) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            // The kernel stamps only packets that arrived by an interface.
            self.held.iter_mut().filter(|packet| packet.time_ns == 0).for_each(|p| p.time_ns = now);
        }
        self.counts.received += self.held.len() as u64;
        self.counts.received_bytes += self.held.iter().map(|p| u64::from(p.wire_bytes)).sum::<u64>();
        Ok(self.held.len())
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        let packet = &self.held[index];
        let mut frame = Frame::ethernet(&packet.bytes, 0, packet.time_ns).on_queue(self.queue);
        (frame.link, frame.wire_bytes) = (LinkType::RAW, packet.wire_bytes);
        frame
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        /// Bytes of verdicts that the socket takes at once.
        const AT_ONCE: usize = 64 << 10;
        self.message.clear();
        let mut held = std::mem::take(&mut self.held);
        for (index, packet) in held.iter().enumerate() {
            let decision = decisions.get(index).copied().unwrap_or(Decision::Drop);
            let passes = matches!(decision, Decision::Pass | Decision::Mirror(_));
            self.counts.added_refused += u64::from(matches!(decision, Decision::Mirror(_)));
            self.counts.refused += u64::from(matches!(decision, Decision::To(_)));
            let start = begin(&mut self.message, VERDICT, 0, self.queue);
            let mut header = if passes { ACCEPT } else { DROP }.to_be_bytes().to_vec();
            header.extend(packet.id.to_be_bytes());
            attribute(&mut self.message, VERDICT_HEADER, &header);
            if packet.is_changed && passes {
                attribute(&mut self.message, PAYLOAD, &packet.bytes);
            }
            finish(&mut self.message, start);
            if self.message.len() > AT_ONCE {
                self.send_verdicts()?;
            }
            if passes {
                self.counts.sent += 1;
                self.counts.sent_bytes += u64::from(packet.wire_bytes);
            }
        }
        self.send_verdicts()?;
        self.spare.extend(held.drain(..).map(|packet| packet.bytes));
        self.held = held;
        Ok(())
    }

    fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
        // The kernel lends a little less than the largest packet.
        let whole = |packet: &&mut Waiting| packet.wire_bytes as usize == packet.bytes.len();
        let Some(packet) = self.held.get_mut(index).filter(whole) else { return false };
        let unfinished = packet.is_unfinished.then_some(headers.transport_offset as usize);
        let is_changed = rewrite.apply(&mut packet.bytes, headers, unfinished);
        packet.is_changed |= is_changed;
        is_changed
    }

    /// Packets of the application's own have no place in a queue.
    fn emit(&mut self, _port: u16, _bytes: &[u8]) -> bool {
        self.counts.added_refused += 1;
        false
    }

    fn wait(&mut self, at_most: Duration) -> Result<(), SourceError> {
        self.look();
        let timeout =
            Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: at_most.subsec_nanos().into() };
        // A signal ends the wait, as a packet does.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)], Some(&timeout));
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        // The kernel takes no packet into a queue of length 0. Those in the socket are judged.
        if !std::mem::replace(&mut self.is_closed, true) {
            let interface = format!("queue {}", self.queue);
            self.configure(LENGTH_MAX, &[0; 4], None)
                .map_err(|error| failed(IoError::Failed { interface, what: "close the queue", error }))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        self.look();
        Ok(())
    }

    fn ports(&self) -> Vec<PortCounts> {
        vec![self.counts]
    }

    fn withheld(&mut self) -> DropCounts {
        std::mem::take(&mut self.withheld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_read_from_its_message() {
        let mut message = Vec::new();
        let start = begin(&mut message, PACKET, 0, 3);
        attribute(&mut message, PACKET_HEADER, &[0, 0, 0, 9, 8, 0, 1]);
        attribute(&mut message, TIMESTAMP, &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5]);
        attribute(&mut message, SKB_INFO, &[0, 0, 0, 3]);
        attribute(&mut message, CAPTURED, &[0, 0, 5, 220]);
        attribute(&mut message, PAYLOAD, b"abcde");
        finish(&mut message, start);
        let read = packet(&message, vec![1, 2, 3]).unwrap();
        assert_eq!((read.id, &read.bytes[..], read.wire_bytes), (9, &b"abcde"[..], 1500));
        assert_eq!((read.time_ns, read.is_unfinished), (2_000_005_000, true));
        message[4] = 1;
        assert!(packet(&message, Vec::new()).is_none(), "a verdict is no packet");
    }

    proptest! {
        #[test]
        fn any_kernel_message_is_parsed_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut message = (bytes.len() as u32).to_ne_bytes().to_vec();
            message.extend(PACKET.to_ne_bytes());
            message.extend(&bytes);
            for bytes in [&bytes, &message] {
                if let Some(packet) = packet(bytes, Vec::new()) {
                    prop_assert!(packet.bytes.len() <= bytes.len());
                }
            }
        }
    }
}
