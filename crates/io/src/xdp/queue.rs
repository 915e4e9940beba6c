//! One `AF_XDP` socket: its four rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Context, IoError};
use crate::ring::{Consuming, Producing};
use crate::sys::map::Mapping;
use crate::sys::socket;
use crate::sys::umem::{Chunk, Umem};
use crate::sys::{halves, joined};

const LEVEL: libc::c_int = libc::SOL_XDP;
/// Size of a descriptor in the receive and transmit rings, and of an address in the other two, in
/// bytes.
const DESCRIPTOR: usize = 16;
const ADDRESS: usize = 8;

/// The memory of a ring: the positions of its indices, flags and entries.
#[derive(Debug)]
struct Ring {
    map: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    flags: usize,
}

impl Ring {
    /// Maps a ring. `offsets` has the positions of the producer index, the consumer index, the
    /// entries and the flags.
    fn map(fd: BorrowedFd<'_>, offsets: &[u64], entries: u32, entry: usize, at: u64) -> io::Result<Self> {
        let place = |number: usize| offsets.get(number).map_or(0, |offset| *offset as usize);
        let bytes = place(2) + entries as usize * entry;
        let map = Mapping::of_socket(fd, bytes, at)?;
        Ok(Self { map, producer: place(0), consumer: place(1), entries: place(2), flags: place(3) })
    }

    fn producer(&self) -> &AtomicU32 {
        self.map.word(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.map.word(self.consumer)
    }

    /// Returns whether the kernel asks to be woken.
    fn asks_for_wake(&self) -> bool {
        self.map.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    // Loads and stores of entries are relaxed: the indices order them.

    fn word(&self, at: usize) -> u32 {
        self.map.word(self.entries + at).load(Ordering::Relaxed)
    }

    fn set_word(&self, at: usize, value: u32) {
        self.map.word(self.entries + at).store(value, Ordering::Relaxed);
    }

    fn address(&self, at: usize) -> u64 {
        joined([self.word(at), self.word(at + 4)])
    }

    fn set_address(&self, at: usize, address: u64) {
        let [first, second] = halves(address);
        self.set_word(at, first);
        self.set_word(at + 4, second);
    }
}

/// A received frame.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) chunk: Chunk,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// A socket on a queue of an interface.
#[derive(Debug)]
pub(super) struct Queue {
    // The rings are unmapped before the socket closes.
    receive: (Ring, Consuming),
    transmit: (Ring, Producing),
    fill: (Ring, Producing),
    completion: (Ring, Consuming),
    socket: OwnedFd,
    /// Number of frames passed to the kernel for sending that have not been returned.
    pub(super) in_flight: u64,
    /// The kernel's count of missed frames when last read.
    missed: u64,
    has_new: bool,
}

impl Queue {
    /// Opens a socket with rings of this many entries over a memory, which it registers unless
    /// another socket has.
    pub(super) fn open(
        context: &Context<'_>,
        (interface, queue): (u32, u32),
        (umem, chunk_bytes): (&Umem, usize),
        entries: u32,
        flags: u16,
        umem_of: Option<BorrowedFd<'_>>,
    ) -> Result<Self, IoError> {
        const NEEDS: &str = "use --backend af-packet; AF_XDP of two interfaces needs Linux 5.10";
        let failed = |what| context.failed(what, NEEDS);
        let socket = socket::open(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(failed("open an XDP socket"))?;
        if umem_of.is_none() {
            let (address, bytes) = umem.place();
            // `struct xdp_umem_reg`: address, length, size of a chunk and headroom, flags.
            let request = [address, bytes, joined([chunk_bytes as u32, 0]), 0];
            socket::set(&socket, LEVEL, libc::XDP_UMEM_REG, &request)
                .map_err(failed("register memory for frames"))?;
        }
        let rings = [
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
        ];
        for ring in rings {
            let entries = entries.cast_signed();
            socket::set(&socket, LEVEL, ring, &entries).map_err(failed("create the rings"))?;
        }
        let offsets: [u64; 16] = socket::get(&socket, LEVEL, libc::XDP_MMAP_OFFSETS)
            .map_err(failed("ask where the rings are"))?;
        let map = |number: usize, entry: usize, at: u64| {
            let offsets = &offsets[4 * number..4 * number + 4];
            Ring::map(socket.as_fd(), offsets, entries, entry, at).map_err(failed("map the rings"))
        };
        let receive = map(0, DESCRIPTOR, libc::XDP_PGOFF_RX_RING as u64)?;
        let transmit = map(1, DESCRIPTOR, libc::XDP_PGOFF_TX_RING as u64)?;
        let fill = map(2, ADDRESS, libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let completion = map(3, ADDRESS, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        // A socket that shares the memory has the flags of the other socket.
        let flags = if umem_of.is_some() { libc::XDP_SHARED_UMEM } else { flags };
        socket::bind_xdp(&socket, (interface, queue), flags, umem_of)
            .map_err(failed("bind an XDP socket"))?;
        Ok(Self {
            receive: (receive, Consuming::new(entries)),
            transmit: (transmit, Producing::new(entries)),
            fill: (fill, Producing::new(entries)),
            completion: (completion, Consuming::new(entries)),
            socket,
            in_flight: 0,
            missed: 0,
            has_new: false,
        })
    }

    /// Takes the next received frame.
    #[inline]
    pub(super) fn take(&mut self, umem: &Umem) -> Option<Received> {
        let (ring, side) = &mut self.receive;
        let at = side.take(ring.producer())? as usize * DESCRIPTOR;
        let (chunk, offset) = umem.returned(ring.address(at))?;
        Some(Received { chunk, offset, bytes: ring.word(at + 8) as usize })
    }

    /// Returns the entries of the receive ring to the kernel.
    pub(super) fn end_take(&mut self) {
        let (ring, side) = &self.receive;
        side.release(ring.consumer());
    }

    /// Puts a frame into the transmit ring, or returns it if the ring is full.
    #[inline]
    pub(super) fn put(&mut self, umem: &Umem, frame: Received) -> Result<(), Received> {
        let (ring, side) = &mut self.transmit;
        let Some(place) = side.reserve(ring.consumer()) else { return Err(frame) };
        let at = place as usize * DESCRIPTOR;
        ring.set_address(at, umem.given(frame.chunk, frame.offset));
        ring.set_word(at + 8, frame.bytes as u32);
        ring.set_word(at + 12, 0);
        self.in_flight += 1;
        self.has_new = true;
        Ok(())
    }

    /// Publishes the frames of the transmit ring.
    pub(super) fn end_put(&mut self) {
        let (ring, side) = &self.transmit;
        if std::mem::take(&mut self.has_new) {
            side.publish(ring.producer());
        }
        self.kick();
    }

    /// Makes the kernel send pending frames.
    pub(super) fn kick(&mut self) {
        if self.in_flight > 0 && self.transmit.0.asks_for_wake() {
            // A busy driver, or an interface that is down, sends later or never.
            let _ = socket::wake_transmit(&self.socket);
        }
    }

    /// Takes back the chunks whose frames have been sent.
    pub(super) fn reclaim(&mut self, umem: &Umem, free: &mut Vec<Chunk>) {
        let (ring, side) = &mut self.completion;
        let mut count = 0;
        while let Some(place) = side.take(ring.producer()) {
            free.extend(umem.returned(ring.address(place as usize * ADDRESS)).map(|(chunk, _)| chunk));
            count += 1;
        }
        if count > 0 {
            side.release(ring.consumer());
            self.in_flight -= count;
        }
    }

    /// Gives the kernel chunks for receiving.
    pub(super) fn refill(&mut self, umem: &Umem, free: &mut Vec<Chunk>) {
        let (ring, side) = &mut self.fill;
        let mut has_new = false;
        while !free.is_empty() {
            let Some(place) = side.reserve(ring.consumer()) else { break };
            let Some(chunk) = free.pop() else { break };
            ring.set_address(place as usize * ADDRESS, umem.given(chunk, 0));
            has_new = true;
        }
        if has_new {
            side.publish(ring.producer());
        }
    }

    /// Returns the number of frames that the kernel has dropped since the last call.
    pub(super) fn missed(&mut self) -> u64 {
        // `struct xdp_statistics`: dropped, two kinds of invalid descriptors, ring full, two of
        // empty.
        let Ok(counts) = socket::get::<[u64; 6]>(&self.socket, LEVEL, libc::XDP_STATISTICS) else {
            return 0;
        };
        let missed = counts[0] + counts[3];
        missed - std::mem::replace(&mut self.missed, missed)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
