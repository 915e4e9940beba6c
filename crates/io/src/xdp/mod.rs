//! Two interfaces through `AF_XDP`, with frames in memory that both share.
//!
//! ```text
//!  port 0  ─ receive ring ─▶ decide ─▶ transmit ring ─▶  port 1
//!               ▲                           │
//!            fill ring ◀──── chunks ◀── completion ring
//! ```
//!
//! A program of six instructions, attached to each interface by a link, passes the frames of a
//! queue to the socket of that queue. When the process ends the kernel detaches it.
//!
//! A frame has the form that the driver gives it. A sender on the same machine (a `veth`) must
//! therefore compute checksums, segment packets and write VLAN tags itself:
//! `ethtool -K eth0 tx off txvlan off`.

mod queue;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, Frame, PortCounts, WIRE_BATCH, Wire};
use flowloom_packet::{DropCounts, DropReason, Headers, SourceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Context, IoError, interface_number};
use crate::sys::bpf::{Attach, SocketMap};
use crate::sys::socket;
use crate::sys::umem::{Chunk, Umem};

use queue::{Queue, Received};

/// Size of a chunk in bytes: a page, as drivers require.
const CHUNK_BYTES: usize = 4096;
/// The maximum MTU: a chunk without the space that the kernel reserves before and after a frame.
const MTU_MAX: u32 = 3498;
/// Number of batches between two reads of the kernel's drop counters while frames keep arriving.
const BATCHES_PER_LOOK: u32 = 256;
/// Maximum wait for frames to leave at the end.
const LEAVE_IN: Duration = Duration::from_millis(200);

/// Where the program runs that receives the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, without a copy if the driver supports that.
    #[default]
    Native,
    /// In the kernel's generic code, for drivers without XDP. Frames are copied.
    Generic,
}

/// The settings of `AF_XDP` interfaces.
///
/// Any version may add fields, so end a literal with `..XdpOptions::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_io::{XdpMode, XdpOptions};
/// let options = XdpOptions { mode: XdpMode::Generic, ..XdpOptions::default() };
/// assert_eq!(options.ring_frames, 2048);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Where the program runs. Defaults to the driver.
    pub mode: XdpMode,
    /// Frames of each ring, rounded up to a power of two from 64 to 65,536. Defaults to 2,048. Each
    /// worker takes four times as many chunks of 4 KiB.
    pub ring_frames: u32,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self { mode: XdpMode::Native, ring_frames: 2048 }
    }
}

/// The programs on both interfaces, which all workers share.
#[derive(Debug)]
struct Attached {
    maps: [SocketMap; 2],
    /// Closing a link detaches its program, which needs no privilege.
    _links: [OwnedFd; 2],
}

/// A wire between one queue of two interfaces.
///
/// # Examples
///
/// ```no_run
/// use flowloom_io::{XdpOptions, XdpWire};
/// use flowloom_packet::wire::{Decision, Wire};
/// let mut wires = XdpWire::open("eth0", "eth1", 1, &XdpOptions::default())?;
/// let frames = wires[0].receive()?;
/// wires[0].settle(&vec![Decision::Pass; frames])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct XdpWire {
    queues: [Queue; 2],
    umem: Umem,
    free: Vec<Chunk>,
    counts: [PortCounts; 2],
    interfaces: [String; 2],
    queue: u16,
    /// `None` once the wire is closed; the last wire to close detaches the programs.
    attached: Option<Arc<Attached>>,
    /// A socket for checking whether interfaces exist.
    probe: OwnedFd,
    /// The port of the current batch, its frames, and their arrival time.
    at: usize,
    held: Vec<Option<Received>>,
    time_ns: u64,
    withheld: DropCounts,
    batches: u32,
}

impl XdpWire {
    /// Opens the first `workers` queues of two interfaces, with one wire per queue. The interfaces
    /// must have no further queues. If there are several, the cards must send both directions of a
    /// flow to queues with the same number, by a symmetric hash.
    ///
    /// # Errors
    ///
    /// Returns [`IoError`] when there is no such interface, it is down, its MTU is too large, or
    /// the driver, the kernel or the permissions do not suffice.
    pub fn open(a: &str, b: &str, workers: u32, options: &XdpOptions) -> Result<Vec<Self>, IoError> {
        let names = [a, b];
        let attach = match options.mode {
            XdpMode::Native => Attach::Native,
            XdpMode::Generic => Attach::Generic,
        };
        let mut opened = Vec::with_capacity(2);
        for name in names {
            let context = context(name);
            let probe = probe(name)?;
            let number = interface_number(&probe, name)?;
            let state =
                socket::interface_state(&probe, name).map_err(context.failed("ask for its state", ""))?;
            if !state.is_up {
                return Err(IoError::Down { interface: name.to_owned() });
            }
            if state.mtu > MTU_MAX {
                let interface = name.to_owned();
                return Err(IoError::Mtu { interface, backend: "AF_XDP", mtu: state.mtu, most: MTU_MAX });
            }
            let queues = receive_queues(name);
            if queues != workers {
                return Err(IoError::Queues { interface: name.to_owned(), queues, workers });
            }
            let remedy = "use --backend xdp-generic, or af-packet; XDP links need Linux 5.9";
            let map = SocketMap::new(queues).map_err(context.failed("make a map of sockets", remedy))?;
            let link =
                map.attach(number, attach).map_err(context.failed("attach an XDP program", remedy))?;
            opened.push((number, map, link));
        }
        let [(a, map_a, link_a), (b, map_b, link_b)] =
            <[_; 2]>::try_from(opened).unwrap_or_else(|_| unreachable!("two names"));
        let attached = Arc::new(Attached { maps: [map_a, map_b], _links: [link_a, link_b] });
        (0..workers).map(|queue| Self::open_queue(names, [a, b], queue, &attached, options)).collect()
    }

    fn open_queue(
        names: [&str; 2],
        [a, b]: [u32; 2],
        queue: u32,
        attached: &Arc<Attached>,
        options: &XdpOptions,
    ) -> Result<Self, IoError> {
        let entries = options.ring_frames.clamp(64, 1 << 16).next_power_of_two();
        let context = [context(names[0]), context(names[1])];
        // Both fill rings and both transmit rings may be full at once.
        let (umem, mut free) = Umem::new(4 * entries, CHUNK_BYTES)
            .map_err(context[0].failed("allocate memory for frames", ""))?;
        let copy = if options.mode == XdpMode::Generic { libc::XDP_COPY } else { 0 };
        let flags = libc::XDP_USE_NEED_WAKEUP | copy;
        let memory = (&umem, CHUNK_BYTES);
        let first = Queue::open(&context[0], (a, queue), memory, entries, flags, None)?;
        let shared = Some(std::os::fd::AsFd::as_fd(&first));
        let second = Queue::open(&context[1], (b, queue), memory, entries, flags, shared)?;
        let mut queues = [first, second];
        for (port, socket) in queues.iter_mut().enumerate() {
            socket.refill(&umem, &mut free);
            attached.maps[port]
                .set(queue, &*socket)
                .map_err(context[port].failed("give the program its socket", ""))?;
        }
        Ok(Self {
            queues,
            umem,
            free,
            counts: [PortCounts::default(); 2],
            interfaces: names.map(String::from),
            queue: queue as u16,
            attached: Some(Arc::clone(attached)),
            probe: probe(names[0])?,
            at: 0,
            held: Vec::with_capacity(WIRE_BATCH),
            time_ns: 0,
            withheld: DropCounts::default(),
            batches: 0,
        })
    }

    /// Counts the frames that the kernel has dropped.
    fn look(&mut self) {
        for (queue, counts) in self.queues.iter_mut().zip(&mut self.counts) {
            let missed = queue.missed();
            counts.missed += missed;
            self.withheld.add(DropReason::InterfaceFull, missed);
        }
    }

    /// Reuses chunks whose frames have been sent for receiving.
    fn turn_over(&mut self) {
        for queue in &mut self.queues {
            queue.reclaim(&self.umem, &mut self.free);
        }
        for queue in &mut self.queues {
            queue.refill(&self.umem, &mut self.free);
        }
    }

    /// Sends a frame by a port, either as a received frame or as an additional one.
    fn put(&mut self, to: usize, frame: Received, is_added: bool) {
        let bytes = frame.bytes as u64;
        let refused = match self.queues.get_mut(to) {
            Some(queue) => queue.put(&self.umem, frame).err(),
            None => Some(frame),
        };
        let counts = &mut self.counts[if to < 2 { to } else { self.at }];
        match (&refused, is_added) {
            (None, false) => {
                counts.sent += 1;
                counts.sent_bytes += bytes;
            }
            (None, true) => counts.added += 1,
            (Some(_), false) => counts.refused += 1,
            (Some(_), true) => counts.added_refused += 1,
        }
        self.free.extend(refused.map(|frame| frame.chunk));
    }

    /// Returns a copy of a frame in a separate chunk, if one is free.
    fn copied(&mut self, bytes: &[u8]) -> Option<Received> {
        let mut chunk = self.free.pop()?;
        let to = self.umem.bytes_mut(&mut chunk, 0, bytes.len());
        if to.len() != bytes.len() {
            self.free.push(chunk);
            return None;
        }
        to.copy_from_slice(bytes);
        Some(Received { chunk, offset: 0, bytes: bytes.len() })
    }

    fn put_copy(&mut self, to: usize, bytes: &[u8]) -> bool {
        let Some(copy) = self.copied(bytes) else {
            self.counts[to.min(1)].added_refused += 1;
            return false;
        };
        let before = self.counts[to.min(1)].added;
        self.put(to, copy, true);
        self.counts[to.min(1)].added > before
    }
}

/// Opens a socket for queries about interfaces.
fn probe(interface: &str) -> Result<OwnedFd, IoError> {
    let context = context(interface);
    let opened = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0);
    opened.map_err(context.failed("ask for the interface", ""))
}

fn context(interface: &str) -> Context<'_> {
    Context { interface, capability: "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF" }
}

/// Returns the number of receive queues of an interface.
fn receive_queues(interface: &str) -> u32 {
    let queues = std::fs::read_dir(format!("/sys/class/net/{interface}/queues"));
    let names = queues.into_iter().flatten().flatten();
    let count = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count();
    count.max(1) as u32
}

impl Wire for XdpWire {
    fn receive(&mut self) -> Result<usize, SourceError> {
        self.batches += 1;
        if self.batches >= BATCHES_PER_LOOK {
            self.batches = 0;
            self.look();
        }
        for _ in 0..2 {
            self.at ^= 1;
            let queue = &mut self.queues[self.at];
            while self.held.len() < WIRE_BATCH {
                let Some(frame) = queue.take(&self.umem) else { break };
                self.held.push(Some(frame));
            }
            if !self.held.is_empty() {
                queue.end_take();
                let counts = &mut self.counts[self.at];
                counts.received += self.held.len() as u64;
                counts.received_bytes +=
                    self.held.iter().flatten().map(|frame| frame.bytes as u64).sum::<u64>();
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                self.time_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                return Ok(self.held.len());
            }
        }
        self.turn_over();
        Ok(0)
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        let frame = self.held.get(index).and_then(Option::as_ref);
        let bytes = frame.map_or(&[][..], |frame| self.umem.bytes(&frame.chunk, frame.offset, frame.bytes));
        Frame::ethernet(bytes, self.at as u16, self.time_ns).on_queue(self.queue)
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        let mut held = std::mem::take(&mut self.held);
        for (index, frame) in held.iter_mut().enumerate() {
            let Some(frame) = frame.take() else { continue };
            match decisions.get(index).copied().unwrap_or(Decision::Drop) {
                Decision::Pass => self.put(self.at ^ 1, frame, false),
                Decision::Drop => self.free.push(frame.chunk),
                Decision::To(to) => self.put(usize::from(to), frame, false),
                Decision::Mirror(to) => {
                    let bytes = self.umem.bytes(&frame.chunk, frame.offset, frame.bytes).to_vec();
                    if to < 2 {
                        self.put_copy(usize::from(to), &bytes);
                    }
                    self.put(self.at ^ 1, frame, false);
                }
            }
        }
        held.clear();
        self.held = held;
        for queue in &mut self.queues {
            queue.end_put();
        }
        self.turn_over();
        Ok(())
    }

    fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
        let Some(Some(frame)) = self.held.get_mut(index) else { return false };
        // A sender that left its checksum to a card cannot be known here; see the module.
        rewrite.apply(self.umem.bytes_mut(&mut frame.chunk, frame.offset, frame.bytes), headers, None)
    }

    fn emit(&mut self, port: u16, bytes: &[u8]) -> bool {
        port < 2 && self.put_copy(usize::from(port), bytes)
    }

    fn wait(&mut self, at_most: Duration) -> Result<(), SourceError> {
        self.look();
        for queue in &mut self.queues {
            queue.end_put();
        }
        // Frames that wait for a busy driver are retried soon.
        let waits = self.queues.iter().any(|queue| queue.in_flight > 0);
        let at_most = if waits { at_most.min(Duration::from_millis(1)) } else { at_most };
        let timeout =
            Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: at_most.subsec_nanos().into() };
        let mut waiting = self.queues.each_ref().map(|queue| PollFd::new(queue, PollFlags::IN));
        let _ = poll(&mut waiting, Some(&timeout));
        let broken = waiting.each_ref().map(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP));
        for (port, _) in broken.iter().enumerate().filter(|(_, is_broken)| **is_broken) {
            let interface = &self.interfaces[port];
            if rustix::net::netdevice::name_to_index(&self.probe, interface).is_err() {
                return Err(SourceError(Box::new(IoError::Gone { interface: interface.clone() })));
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.attached = None;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        let begun = std::time::Instant::now();
        while self.queues.iter().any(|queue| queue.in_flight > 0) && begun.elapsed() < LEAVE_IN {
            for queue in &mut self.queues {
                queue.end_put();
            }
            self.turn_over();
            std::thread::yield_now();
        }
        // Frames that have not left by now never will.
        for (queue, counts) in self.queues.iter_mut().zip(&mut self.counts) {
            let held = std::mem::take(&mut queue.in_flight).min(counts.sent);
            counts.sent -= held;
            counts.refused += held;
        }
        self.look();
        Ok(())
    }

    fn ports(&self) -> Vec<PortCounts> {
        self.counts.to_vec()
    }

    fn withheld(&mut self) -> DropCounts {
        std::mem::take(&mut self.withheld)
    }
}
