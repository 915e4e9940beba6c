//! An interface as a source of packets, without sending.
//!
//! ```text
//!  interface ─▶ ring shared with kernel ─ one copy ─▶ block of ≤ 256 packets ─ batches of 32 ─▶
//!                     │ when full, the kernel counts drops: `interface_full`
//! ```
//!
//! Packets are copied from the ring into blocks, which are reused after every worker has released
//! them. While workers hold all blocks, the source is starved, the ring fills, and packets that no
//! longer fit count as withheld. Therefore sent = yielded + withheld, independent of the load.
//!
//! Interfaces without Ethernet headers (tunnels, PPP) and `any` yield packets behind the kernel's
//! description of each, `LINKTYPE_LINUX_SLL2`, from which the decoder takes the protocol.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use flowloom_packet::{
    BlockPool, DropCounts, DropReason, Fill, InterfaceName, LinkType, LiveTime, PacketBatch, PacketSource,
    RawPacket, SourceError,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::af_packet::{QUEUE_BYTES, USUAL_TAG};
use crate::error::{Context, IoError, interface_number};
use crate::sys::packet_ring::{COPY, PacketRing, Slot, VLAN, VLAN_TYPE};
use crate::sys::socket;

/// Size of a slot, in bytes. Larger frames arrive through the socket's queue.
const SLOT_BYTES: usize = 2048;
/// Bytes that the kernel allocates at once.
const RING_BLOCK_BYTES: usize = 1 << 18;
/// The longest wait for a packet, so that a run stops quickly.
const WAIT_NS: i64 = 10_000_000;
/// The sleep while the interface is down, and its descriptor reports an error.
const DOWN: Duration = Duration::from_millis(10);
/// Number of blocks between two reads of the kernel's counters while packets keep arriving.
const BLOCKS_PER_LOOK: u32 = 64;
/// Maximum number of interfaces whose names are remembered.
const NAMES_MAX: usize = 1024;
/// The name that stands for all interfaces.
const ANY: &str = "any";

// Hardware types of interfaces, `ARPHRD_*`.
const ETHER: u16 = 1;
const LOOPBACK: u16 = 772;
const WLAN: u16 = 801;
const RADIOTAP: u16 = 803;

const SLL2: LinkType = LinkType(276);

/// How an interface is captured.
///
/// Any version may add fields, so end a literal with `..CaptureOptions::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_io::CaptureOptions;
/// let options = CaptureOptions { is_promiscuous: true, ..CaptureOptions::default() };
/// assert_eq!(options.ring_bytes, 64 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Maximum number of captured bytes per packet. Defaults to 262,144.
    pub snaplen_bytes: u32,
    /// Also capture packets addressed to other stations. Defaults to `false`.
    pub is_promiscuous: bool,
    /// Bytes of the ring, in which each packet takes 2 KiB, rounded up to 256 KiB, at most 1 GiB.
    /// Defaults to 64 MiB, 32,768 packets.
    pub ring_bytes: u64,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { snaplen_bytes: 262_144, is_promiscuous: false, ring_bytes: 64 << 20 }
    }
}

/// The packets that an interface receives and sends, as a source.
///
/// # Examples
///
/// ```no_run
/// use flowloom_io::{CaptureOptions, InterfaceSource};
/// use flowloom_packet::{Fill, PacketBatch, PacketSource};
///
/// let mut source = InterfaceSource::open("eth0", &CaptureOptions::default())?;
/// let mut batch = PacketBatch::new();
/// while source.packets() < 1000 {
///     if source.next_batch(&mut batch)? == Fill::Packets {
///         println!("{} packets", batch.packets.len());
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InterfaceSource {
    interface: String,
    // The ring is unmapped before its socket closes.
    ring: PacketRing,
    socket: OwnedFd,
    link: LinkType,
    snaplen_bytes: u32,
    /// Names by the kernel's number, for `any`.
    names: BTreeMap<u32, InterfaceName>,
    pool: BlockPool,
    packets: u64,
    time: LiveTime,
    /// Packets that the card had dropped at the last look.
    card_drops: u64,
    blocks_since_look: u32,
    is_idle: bool,
    was_asked: bool,
}

impl InterfaceSource {
    /// Opens an interface, or all with the name `any`. Capturing starts immediately.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when there is no such interface, it is down, or the kernel or the
    /// permissions do not suffice.
    pub fn open(interface: &str, options: &CaptureOptions) -> Result<Self, IoError> {
        const LEVEL: libc::c_int = libc::SOL_PACKET;
        const TPACKET_V2: libc::c_int = 1;
        let context = Context { interface, capability: "CAP_NET_RAW" };
        let no = |what| context.failed(what, "");
        let probe =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
                .map_err(|error| no("ask for the interface")(error.into()))?;
        let (number, link) = if interface == ANY {
            (0, SLL2)
        } else {
            let number = interface_number(&probe, interface)?;
            let state = socket::interface_state(&probe, interface).map_err(no("ask for the interface"))?;
            if !state.is_up {
                return Err(IoError::Down { interface: interface.to_owned() });
            }
            (number, link_of(state.hardware))
        };
        // Without a protocol the socket receives nothing before it is bound.
        let kind = if link == SLL2 { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
        let socket = socket::open(libc::AF_PACKET, kind, 0).map_err(no("open a packet socket"))?;
        socket::set(&socket, LEVEL, libc::PACKET_VERSION, &TPACKET_V2)
            .map_err(no("use version 2 of the ring"))?;
        if options.snaplen_bytes as usize > SLOT_BYTES / 2 {
            socket::set(&socket, LEVEL, libc::PACKET_COPY_THRESH, &1)
                .map_err(no("copy frames larger than a slot"))?;
        }
        // Without CAP_NET_ADMIN the default size must suffice.
        if socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &QUEUE_BYTES).is_err() {
            socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &QUEUE_BYTES)
                .map_err(no("size its queue"))?;
        }
        let bytes = usize::try_from(options.ring_bytes).unwrap_or(usize::MAX);
        let blocks = bytes.div_ceil(RING_BLOCK_BYTES).clamp(1, 1 << 12);
        let slots = blocks * (RING_BLOCK_BYTES / SLOT_BYTES);
        // `struct tpacket_req`: size and number of blocks, size and number of slots.
        let request = [RING_BLOCK_BYTES as u32, blocks as u32, SLOT_BYTES as u32, slots as u32];
        socket::set(&socket, LEVEL, libc::PACKET_RX_RING, &request).map_err(no("make a receive ring"))?;
        let ring = PacketRing::map(socket.as_fd(), slots, SLOT_BYTES).map_err(no("map the ring"))?;
        if options.is_promiscuous {
            socket::be_promiscuous(&socket, number)
                .map_err(no("receive packets addressed to other stations"))?;
        }
        socket::bind_packet(&socket, number).map_err(no("bind a packet socket"))?;
        let card_drops = card_drops(interface);
        Ok(Self {
            interface: interface.to_owned(),
            ring,
            socket,
            link,
            snaplen_bytes: options.snaplen_bytes,
            names: BTreeMap::new(),
            pool: BlockPool::new(),
            packets: 0,
            time: LiveTime::default(),
            card_drops,
            blocks_since_look: 0,
            is_idle: false,
            was_asked: false,
        })
    }

    /// Returns the name of the interface.
    #[must_use]
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the link type of its packets.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Returns the maximum number of captured bytes per packet.
    #[must_use]
    pub fn snaplen_bytes(&self) -> u32 {
        self.snaplen_bytes
    }

    /// Returns how many packets were yielded.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Copies the packets that have arrived into a block that no other holder has. Returns whether
    /// there was such a block.
    fn refill(&mut self) -> bool {
        let mut pool = std::mem::take(&mut self.pool);
        let is_filled = pool.refill(|bytes, packets| {
            let Some(slot) = self.ring.take() else { return false };
            packets.extend(self.copy(&slot, bytes));
            true
        });
        self.pool = pool;
        self.blocks_since_look += u32::from(is_filled);
        self.ring.release();
        is_filled
    }

    /// Appends the packet in a slot to the block, except the first of two copies.
    fn copy(&mut self, slot: &Slot, block: &mut Vec<u8>) -> Option<RawPacket> {
        let from = Origin::from_bytes(self.ring.bytes(slot, Origin::AT, Origin::BYTES));
        let start = block.len();
        let end = start + self.snaplen_bytes as usize;
        let tag = (slot.status & VLAN != 0).then(|| {
            let kind = if slot.status & VLAN_TYPE != 0 { slot.tag[1] } else { USUAL_TAG };
            (kind.to_be_bytes(), slot.tag[0].to_be_bytes())
        });
        let mut added = 0;
        if self.link == SLL2 {
            added = from.describe(tag, block);
        }
        let frame_at = block.len();
        let in_slot = self.ring.bytes(slot, slot.offset, slot.captured as usize);
        if slot.status & COPY == 0 {
            block.extend_from_slice(in_slot);
        } else {
            // The queue returns the whole frame, of which the slot has the beginning.
            block.resize(frame_at + (slot.length as usize).max(in_slot.len()), 0);
            let read = rustix::io::read(&self.socket, &mut block[frame_at..]);
            block.truncate(frame_at + read.unwrap_or(0));
            if read.is_err() {
                block.extend_from_slice(in_slot);
            }
        }
        if let Some(([a, b], [c, d])) = tag
            && self.link == LinkType::ETHERNET
            && block.len() >= frame_at + TAG_AT
        {
            let at = frame_at + TAG_AT;
            block.splice(at..at, [a, b, c, d]);
            added = 4;
        }
        block.truncate(end);
        if from.is_loopback_copy() {
            // The packet arrives a second time, as received.
            block.truncate(start);
            return None;
        }
        let interface =
            if self.interface == ANY { self.name_of(from.interface) } else { InterfaceName::UNKNOWN };
        Some(RawPacket {
            position: start as u64,
            captured_bytes: (block.len() - start) as u32,
            wire_bytes: slot.length.saturating_add(added),
            time_ns: slot.time_ns,
            link: self.link,
            interface,
        })
    }

    fn name_of(&mut self, number: u32) -> InterfaceName {
        if let Some(&name) = self.names.get(&number) {
            return name;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let name = rustix::net::netdevice::index_to_name(&self.socket, number);
        let name = name.map_or(InterfaceName::UNKNOWN, |name| InterfaceName::new(&name));
        self.names.insert(number, name);
        name
    }

    /// Waits until a packet arrives, for a short time.
    fn wait(&mut self) -> Result<(), SourceError> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let at_most = Timespec { tv_sec: 0, tv_nsec: WAIT_NS };
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&at_most));
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            // Reading the error clears it.
            let _ = socket::get::<libc::c_int>(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR);
            if self.interface != ANY
                && rustix::net::netdevice::name_to_index(&self.socket, &self.interface).is_err()
            {
                let interface = self.interface.clone();
                return Err(SourceError(Box::new(IoError::Gone { interface })));
            }
            std::thread::sleep(DOWN);
        }
        Ok(())
    }
}

/// Offset of the type in an Ethernet header, where a tag belongs.
const TAG_AT: usize = 12;

/// Returns the link type of an interface's packets.
fn link_of(hardware: u16) -> LinkType {
    match hardware {
        ETHER | LOOPBACK => LinkType::ETHERNET,
        WLAN => LinkType(105),
        RADIOTAP => LinkType(127),
        _ => SLL2,
    }
}

/// Returns how many packets the card dropped because its memory was full; 0 if it does not count.
fn card_drops(interface: &str) -> u64 {
    let count = |name: &str| {
        let path = format!("/sys/class/net/{interface}/statistics/{name}");
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    if interface == ANY { 0 } else { count("rx_missed_errors").saturating_add(count("rx_fifo_errors")) }
}

/// Where a packet comes from: the fields of `struct sockaddr_ll`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origin {
    /// In network byte order.
    protocol: [u8; 2],
    interface: u32,
    hardware: u16,
    packet_type: u8,
    address_bytes: u8,
    address: [u8; 8],
}

impl Origin {
    /// Offset in a slot, behind `struct tpacket2_hdr`.
    const AT: usize = 32;
    const BYTES: usize = 20;
    const OUTGOING: u8 = 4;

    fn from_bytes(bytes: &[u8]) -> Self {
        let Ok(b) = <[u8; Self::BYTES]>::try_from(bytes) else { return Self::default() };
        Self {
            protocol: [b[2], b[3]],
            interface: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
            hardware: u16::from_ne_bytes([b[8], b[9]]),
            packet_type: b[10],
            address_bytes: b[11],
            address: [b[12], b[13], b[14], b[15], b[16], b[17], b[18], b[19]],
        }
    }

    /// Returns whether the packet is the sent half of a packet on a loopback interface, which
    /// arrives once more.
    fn is_loopback_copy(&self) -> bool {
        self.packet_type == Self::OUTGOING && self.hardware == LOOPBACK
    }

    /// Appends a header of `LINKTYPE_LINUX_SLL2`, and the tag. Returns their size.
    fn describe(&self, tag: Option<([u8; 2], [u8; 2])>, block: &mut Vec<u8>) -> u32 {
        let start = block.len();
        block.extend(tag.map_or(self.protocol, |(kind, _)| kind));
        block.extend([0, 0]);
        block.extend(self.interface.to_be_bytes());
        block.extend(self.hardware.to_be_bytes());
        block.extend([self.packet_type, self.address_bytes]);
        block.extend(self.address);
        if let Some((_, control)) = tag {
            block.extend(control);
            block.extend(self.protocol);
        }
        (block.len() - start) as u32
    }
}

impl PacketSource for InterfaceSource {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        batch.block = None;
        batch.ahead = 0..0;
        batch.yielded_until_ns = None;
        (self.was_asked, self.is_idle) = (false, false);
        if self.pool.is_empty() {
            if !self.refill() {
                return Ok(Fill::Starved);
            }
            if self.pool.is_empty() {
                self.is_idle = true;
                batch.yielded_until_ns = self.time.silent_ns(Instant::now());
                self.wait()?;
                return Ok(Fill::Starved);
            }
        }
        self.packets += self.pool.pass_to(batch) as u64;
        batch.yielded_until_ns = self.time.yielded(&batch.packets, Instant::now());
        Ok(Fill::Packets)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut withheld = DropCounts::default();
        let is_last = std::mem::replace(&mut self.was_asked, true);
        if !is_last && !self.is_idle && self.blocks_since_look < BLOCKS_PER_LOOK {
            return withheld;
        }
        self.blocks_since_look = 0;
        // `struct tpacket_stats`: packets and dropped packets since the last query.
        if let Ok([_, dropped]) =
            socket::get::<[u32; 2]>(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
        {
            withheld.add(DropReason::InterfaceFull, dropped.into());
        }
        if !self.is_idle {
            // A removed interface has no counters; the earlier counts stay.
            let dropped = card_drops(&self.interface);
            withheld.add(DropReason::InterfaceDropped, dropped.saturating_sub(self.card_drops));
            self.card_drops = self.card_drops.max(dropped);
        }
        withheld
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_interface_error_lists_existing_interfaces() {
        let error =
            InterfaceSource::open("no-such-if", &CaptureOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with("no interface no-such-if\n  interfaces: "), "{error}");
        assert!(error.contains("lo"), "{error}");
    }

    #[test]
    fn interfaces_without_ethernet_headers_are_described_by_the_kernel() {
        assert_eq!(link_of(ETHER), LinkType::ETHERNET);
        assert_eq!(link_of(LOOPBACK), LinkType::ETHERNET);
        for tunnel in [512, 768, 776, 0xFFFE] {
            assert_eq!(link_of(tunnel), SLL2);
        }
    }

    #[test]
    fn interface_descriptions_have_decodable_link_types() {
        let mut kernel = vec![17, 0, 8, 0];
        kernel.extend(7_u32.to_ne_bytes());
        kernel.extend(ETHER.to_ne_bytes());
        kernel.extend([Origin::OUTGOING, 6, 2, 0, 0, 0, 0, 9, 0, 0]);
        let origin = Origin::from_bytes(&kernel);
        assert!(!origin.is_loopback_copy() && origin.interface == 7);
        let mut datagram = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        datagram.extend([0, 53, 4, 0, 0, 8, 0, 0]);
        for tag in [None, Some(([0x81, 0], [0, 5]))] {
            let mut packet = Vec::new();
            let added = origin.describe(tag, &mut packet);
            assert_eq!(added as usize, packet.len());
            packet.extend(&datagram);
            let headers =
                flowloom_packet::decode(SLL2, &packet, flowloom_packet::DecodeOptions::default()).unwrap();
            assert_eq!(headers.tuple().source_port, 53, "{tag:?}");
        }
        assert_eq!(Origin::from_bytes(&kernel[1..]), Origin::default());
    }
}
