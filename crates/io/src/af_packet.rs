//! Interfaces through `AF_PACKET`: frames arrive in a ring that the kernel fills, and leave in
//! batches.
//!
//! The ring uses version 2 of the kernel's interface. Version 3 holds a frame until a block is full
//! or a timer of at least a millisecond ends, which is too long on a wire. Frames that do not fit a
//! slot (jumbo frames, and unsegmented packets) arrive through the socket's queue, in order.
//!
//! Frames carry the header of offloads in both directions. A segment whose checksum or segmentation
//! its sender has left to the card therefore crosses whole and without a checksum, and the last
//! port segments and checksums it.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::{Context, IoError, interface_number};
use crate::port::{Offload, Port, PortFrame};
use crate::sys::bpf;
use crate::sys::packet_ring::{COPY, PacketRing, Slot, VLAN, VLAN_TYPE};
use crate::sys::socket::{self, Message};

/// Size of a slot, in bytes: a frame of the usual size, and its headers.
const SLOT_BYTES: usize = 2048;
/// Bytes that the kernel allocates at once.
const BLOCK_BYTES: usize = 1 << 18;
/// Size of the queue for frames that do not fit a slot, and of the transmit queue, in bytes.
pub(crate) const QUEUE_BYTES: libc::c_int = 32 << 20;
/// Maximum size of a frame: an unsegmented packet, and its headers.
const FRAME_BYTES_MAX: usize = (64 << 10) + 256;
const TAG_BYTES: usize = 4;
const TAG_AT: usize = 12;
pub(crate) const USUAL_TAG: u16 = 0x8100;
/// Maximum number of frames per send call.
const SEND_MOST: usize = 32;
/// Requests a group that has no members yet.
const UNIQUE: libc::c_int = (libc::PACKET_FANOUT_FLAG_UNIQUEID as libc::c_int) << 16;

/// The settings of an `AF_PACKET` port.
///
/// Any version may add fields, so end a literal with `..PacketOptions::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_io::PacketOptions;
/// let options = PacketOptions { ring_bytes: 64 << 20, ..PacketOptions::default() };
/// assert!(options.is_promiscuous);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// Bytes of the receive ring, rounded up to blocks of 256 KiB. Defaults to 8 MiB, 4,096 frames.
    pub ring_bytes: usize,
    /// Also receive frames addressed to other stations. Defaults to `true`.
    pub is_promiscuous: bool,
    /// Keep frames from the host's own network stack while the port is open. Defaults to `true`. It
    /// needs Linux 6.6.
    pub keeps_from_host: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        Self { ring_bytes: 8 << 20, is_promiscuous: true, keeps_from_host: true }
    }
}

/// The location of a received frame.
#[derive(Debug)]
enum FrameLocation {
    Slot(Slot, usize, usize),
    Copied(usize, usize),
}

#[derive(Debug)]
struct Held {
    place: FrameLocation,
    wire_bytes: u32,
    time_ns: u64,
    offload: Offload,
}

/// An interface through `AF_PACKET`.
///
/// # Examples
///
/// ```no_run
/// use flowloom_io::{PacketOptions, PacketPort, Port};
/// let mut port = PacketPort::open("eth0", &PacketOptions::default())?;
/// for index in 0..port.receive(32)? {
///     println!("{} bytes", port.frame(index).bytes.len());
/// }
/// port.release();
/// # Ok::<(), flowloom_io::IoError>(())
/// ```
#[derive(Debug)]
pub struct PacketPort {
    interface: String,
    // The ring is unmapped before its socket closes.
    ring: PacketRing,
    socket: OwnedFd,
    held: Vec<Held>,
    /// Frames that did not fit a slot.
    copied: Vec<Vec<u8>>,
    missed: u64,
    _kept: Option<OwnedFd>,
}

impl PacketPort {
    /// Opens an interface. Frames arrive from then on.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when there is no such interface, it is down, or the kernel or the
    /// permissions do not suffice.
    pub fn open(interface: &str, options: &PacketOptions) -> Result<Self, IoError> {
        let port = Self::open_in(interface, options, None)?;
        port.begin()?;
        Ok(port)
    }

    /// Opens an interface as several ports that share its frames by flow. Both directions of a flow
    /// arrive at ports with the same index, even if they arrive by two interfaces.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open).
    pub fn open_group(
        interface: &str,
        ports: usize,
        options: &PacketOptions,
    ) -> Result<Vec<Self>, IoError> {
        let mut group = Vec::with_capacity(ports);
        let first = Self::open_in(interface, options, (ports > 1).then_some(UNIQUE))?;
        let context = Context { interface, capability: "CAP_NET_RAW" };
        let number = if ports > 1 {
            socket::get::<libc::c_int>(&first.socket, libc::SOL_PACKET, libc::PACKET_FANOUT)
                .map_err(context.failed("ask for the group of its workers", ""))?
        } else {
            0
        };
        group.push(first);
        // The first port keeps frames from the host, and receives frames addressed to other
        // stations, for all ports.
        let others = PacketOptions { is_promiscuous: false, keeps_from_host: false, ..options.clone() };
        for _ in 1..ports {
            group.push(Self::open_in(interface, &others, Some(number & 0xFFFF))?);
        }
        group.iter().try_for_each(Self::begin)?;
        Ok(group)
    }

    /// Starts the reception of frames.
    fn begin(&self) -> Result<(), IoError> {
        let context = Context { interface: &self.interface, capability: "CAP_NET_RAW" };
        socket::receive_all(&self.socket).map_err(context.failed("start receiving", ""))
    }

    /// Opens an interface for one port of a group without receiving frames yet: a socket that is
    /// bound but not yet in its group would receive the frames of all.
    fn open_in(
        interface: &str,
        options: &PacketOptions,
        group: Option<libc::c_int>,
    ) -> Result<Self, IoError> {
        const LEVEL: libc::c_int = libc::SOL_PACKET;
        const TPACKET_V2: libc::c_int = 1;
        let context = Context { interface, capability: "CAP_NET_RAW" };
        let no = |what| context.failed(what, "");
        // Without a protocol the socket receives nothing before it is bound.
        let socket =
            socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(no("open a packet socket"))?;
        let number = interface_number(&socket, interface)?;
        let state = socket::interface_state(&socket, interface).map_err(no("ask for the interface"))?;
        if !state.is_up {
            return Err(IoError::Down { interface: interface.to_owned() });
        }
        let options_of_socket = [
            (libc::PACKET_VERSION, TPACKET_V2, "use version 2 of the ring"),
            (libc::PACKET_VNET_HDR, 1, "read offload headers"),
            (libc::PACKET_IGNORE_OUTGOING, 1, "exclude sent frames"),
            (libc::PACKET_COPY_THRESH, 1, "copy frames larger than a slot"),
        ];
        for (name, value, what) in options_of_socket {
            let failed = context.failed(what, "use Linux 4.20 or later");
            socket::set(&socket, LEVEL, name, &value).map_err(failed)?;
        }
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            // Without CAP_NET_ADMIN the default size must suffice.
            let plain = if name == libc::SO_RCVBUFFORCE { libc::SO_RCVBUF } else { libc::SO_SNDBUF };
            if socket::set(&socket, libc::SOL_SOCKET, name, &QUEUE_BYTES).is_err() {
                socket::set(&socket, libc::SOL_SOCKET, plain, &QUEUE_BYTES)
                    .map_err(no("size its queue"))?;
            }
        }
        let blocks = options.ring_bytes.div_ceil(BLOCK_BYTES).clamp(1, 1 << 12);
        let slots = blocks * (BLOCK_BYTES / SLOT_BYTES);
        // `struct tpacket_req`: size and number of blocks, size and number of slots.
        let request = [BLOCK_BYTES as u32, blocks as u32, SLOT_BYTES as u32, slots as u32];
        socket::set(&socket, LEVEL, libc::PACKET_RX_RING, &request).map_err(no("make a receive ring"))?;
        let ring = PacketRing::map(socket.as_fd(), slots, SLOT_BYTES).map_err(no("map the ring"))?;
        if options.is_promiscuous {
            socket::be_promiscuous(&socket, number).map_err(no("receive frames addressed to other \
                stations"))?;
        }
        let context = Context { interface, capability: "CAP_NET_ADMIN and CAP_BPF" };
        let kept = if options.keeps_from_host {
            let failed = context.failed("keep frames from the host", "use Linux 6.6 or later");
            Some(bpf::keep_from_host(number).map_err(failed)?)
        } else {
            None
        };
        socket::receive_nothing(&socket).map_err(no("hold back frames"))?;
        socket::bind_packet(&socket, number).map_err(no("bind a packet socket"))?;
        if let Some(group) = group {
            let by_flow = (libc::PACKET_FANOUT_HASH as libc::c_int) << 16 | group;
            socket::set(&socket, LEVEL, libc::PACKET_FANOUT, &by_flow)
                .map_err(no("share frames with the other workers"))?;
        }
        Ok(Self {
            interface: interface.to_owned(),
            ring,
            socket,
            held: Vec::new(),
            copied: Vec::new(),
            missed: 0,
            _kept: kept,
        })
    }

    /// Takes a frame from a slot.
    fn take(&mut self, slot: Slot) -> Option<Held> {
        let header = slot.offset.checked_sub(Offload::BYTES)?;
        let mut offload = Offload::from_bytes(self.ring.bytes(&slot, header, Offload::BYTES));
        let mut captured = slot.captured as usize;
        let tag = (slot.status & VLAN != 0).then(|| {
            let kind = if slot.status & VLAN_TYPE != 0 { slot.tag[1] } else { USUAL_TAG };
            let ([a, b], [c, d]) = (kind.to_be_bytes(), slot.tag[0].to_be_bytes());
            [a, b, c, d]
        });
        let tag_bytes = if tag.is_some() { TAG_BYTES } else { 0 };
        if tag.is_some() {
            offload.shift(TAG_BYTES as u16);
        }
        let wire_bytes = slot.length + tag_bytes as u32;
        let held = |place| Some(Held { place, wire_bytes, time_ns: slot.time_ns, offload });
        if slot.status & COPY != 0 {
            let place = self.receive_copy(tag)?;
            let is_whole = matches!(place, FrameLocation::Copied(_, bytes) if bytes >= wire_bytes as usize);
            return if is_whole { held(place) } else { None };
        }
        if slot.captured < slot.length {
            // It fits neither the slot nor the queue.
            return None;
        }
        let start = slot.offset - tag_bytes;
        if let Some(tag) = tag {
            // The addresses move over the offload header, which was read.
            captured += TAG_BYTES;
            let frame = self.ring.bytes_mut(&slot, start, captured);
            if frame.len() < TAG_AT + TAG_BYTES {
                return None;
            }
            frame.copy_within(TAG_BYTES..TAG_BYTES + TAG_AT, 0);
            frame[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(&tag);
        }
        held(FrameLocation::Slot(slot, start, captured))
    }

    /// Receives the next frame that did not fit a slot.
    fn receive_copy(&mut self, tag: Option<[u8; TAG_BYTES]>) -> Option<FrameLocation> {
        let index = self.held.iter().filter(|held| matches!(held.place, FrameLocation::Copied(..))).count();
        if self.copied.len() == index {
            self.copied.push(vec![0; FRAME_BYTES_MAX]);
        }
        let buffer = &mut self.copied[index];
        let mut header = [0; Offload::BYTES];
        let (addresses, rest) = buffer.split_at_mut(TAG_AT);
        let (place, rest) = rest.split_at_mut(if tag.is_some() { TAG_BYTES } else { 0 });
        place.copy_from_slice(tag.as_ref().map_or(&[][..], |tag| &tag[..]));
        let mut parts = [&mut header[..], addresses, rest].map(IoSliceMut::new);
        let read = rustix::io::readv(&self.socket, &mut parts).ok()?;
        let bytes = read.checked_sub(Offload::BYTES + TAG_AT)? + TAG_AT + place.len();
        Some(FrameLocation::Copied(index, bytes))
    }
}

impl Port for PacketPort {
    fn receive(&mut self, most: usize) -> Result<usize, IoError> {
        self.release();
        while self.held.len() < most {
            let Some(slot) = self.ring.take() else { break };
            match self.take(slot) {
                Some(held) => self.held.push(held),
                None => self.missed += 1,
            }
        }
        Ok(self.held.len())
    }

    fn frame(&self, index: usize) -> PortFrame<'_> {
        let held = &self.held[index];
        let bytes = match &held.place {
            FrameLocation::Slot(slot, start, bytes) => self.ring.bytes(slot, *start, *bytes),
            FrameLocation::Copied(index, bytes) => &self.copied[*index][..*bytes],
        };
        PortFrame { bytes, wire_bytes: held.wire_bytes, time_ns: held.time_ns, offload: held.offload }
    }

    fn release(&mut self) {
        self.held.clear();
        self.ring.release();
    }

    fn send(&self, frames: &[PortFrame<'_>], taken: &mut Vec<bool>) {
        taken.clear();
        for batch in frames.chunks(SEND_MOST) {
            let none = Message { header: &[], bytes: &[] };
            let mut messages = [none; SEND_MOST];
            for (message, frame) in messages.iter_mut().zip(batch) {
                *message = Message { header: &frame.offload.0, bytes: frame.bytes };
            }
            let mut done = 0;
            while done < batch.len() {
                match socket::send_batch(&self.socket, &messages[done..batch.len()]) {
                    Ok(sent) => {
                        taken.extend(std::iter::repeat_n(true, sent));
                        done += sent;
                    }
                    Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                    // The first frame was refused; later ones may fit.
                    Err(_) => {
                        taken.push(false);
                        done += 1;
                    }
                }
            }
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn missed(&mut self) -> u64 {
        let mut missed = std::mem::take(&mut self.missed);
        // `struct tpacket_stats`: frames and dropped frames since the last query.
        if let Ok([_, dropped]) =
            socket::get::<[u32; 2]>(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)
        {
            missed += u64::from(dropped);
        }
        missed
    }

    fn close(&mut self) -> Result<(), IoError> {
        let context = Context { interface: &self.interface, capability: "CAP_NET_RAW" };
        socket::receive_nothing(&self.socket).map_err(context.failed("stop receiving", ""))
    }

    fn recover(&mut self) -> Result<(), IoError> {
        // Reading the error clears it.
        let _ = socket::get::<libc::c_int>(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR);
        match rustix::net::netdevice::name_to_index(&self.socket, &self.interface) {
            Ok(_) => Ok(()),
            Err(_) => Err(IoError::Gone { interface: self.interface.clone() }),
        }
    }

    fn interface(&self) -> &str {
        &self.interface
    }
}
