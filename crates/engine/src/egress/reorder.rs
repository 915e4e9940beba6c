//! The egress stage: passes accepted packets to a sink in the guaranteed order.
//!
//! Workers report the outcome of each packet, and the input stage reports which packet numbers are
//! in flight. The egress stage keeps a window of numbers. In *exact* order it holds a packet until
//! all packets before it have left or were dropped. This is external order [FLOWNP §5.1]. Otherwise
//! a packet leaves as soon as its worker reports it, which keeps the order of a flow while the flow
//! stays with one worker.
//!
//! The input stage assigns no number beyond the window that begins at the oldest unfinished packet.
//! So no ring here ever fills, and only the input stage waits for the egress stage.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use flowloom_packet::{LinkType, SharedBlock};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::app::Verdict;
use crate::batch::packet::PacketRef;
use crate::error::SinkError;
use crate::stage::poll::Polled;
use crate::stage::shutdown::Halt;

/// Maximum number of packets between the input stage and the sink.
pub(crate) const WINDOW: u64 = 1 << 14;
/// Maximum number of messages taken from one ring before the next ring.
const CHUNK: usize = 64;

/// An accepted packet on its way to a sink.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Released<'a> {
    /// The captured bytes, from the link layer on.
    pub bytes: &'a [u8],
    /// Bytes of the packet on the wire.
    pub wire_bytes: u32,
    /// Nanoseconds since 1970. Times never decrease in arrival order. A sink therefore sees no
    /// time decrease in the inline layout and in [external order](crate::Order::External). In other
    /// orders the times of different flows may come in any order.
    pub time_ns: u64,
    /// The link type of `bytes`.
    pub link: LinkType,
    /// The packet's number in the run, counted from 0.
    pub number: u64,
}

impl<'a> Released<'a> {
    /// Returns the first packet of a run, with number 0. It serves tests, and callers of sinks
    /// outside the engine.
    #[must_use]
    pub const fn new(bytes: &'a [u8], wire_bytes: u32, time_ns: u64, link: LinkType) -> Self {
        Self { bytes, wire_bytes, time_ns, link, number: 0 }
    }
}

/// A destination of accepted packets: a capture file, an interface, a socket.
///
/// Packets arrive in the order that [`EngineConfig::order`](crate::EngineConfig::order) guarantees.
/// By default that is the order of each flow, not of all packets.
///
/// # Examples
///
/// ```
/// use flowloom_engine::{PacketSink, Released, SinkError};
///
/// /// Writes the bytes of packets to a writer.
/// struct Bytes<W>(W);
///
/// impl<W: std::io::Write> PacketSink for Bytes<W> {
///     fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
///         Ok(self.0.write_all(packet.bytes)?)
///     }
///
///     fn finish(&mut self) -> Result<(), SinkError> {
///         Ok(self.0.flush()?)
///     }
/// }
/// ```
pub trait PacketSink {
    /// Takes a packet. Only one thread calls it.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] when the sink cannot take the packet. The run then stops, the engine
    /// does not call the sink again, and the report counts the refused packets.
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError>;

    /// Writes out the packets that the sink has buffered. The engine calls it when the input has no
    /// packets for now and all packets so far have left. It calls it once each time the input runs
    /// dry. The default does nothing.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] when the sink cannot write, as in [`PacketSink::take`].
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Writes out the remaining packets. The engine calls it once at the end, unless another method
    /// has failed or panicked.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError`] when the sink cannot write.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Counts of the packets passed to a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkCounters {
    /// Packets that the sink took.
    pub taken: u64,
    /// Accepted packets that the sink did not take, because it had failed or the egress stage was
    /// gone.
    pub refused: u64,
}

/// A message from the input stage.
enum Notice {
    /// `count` numbers from `first` on are assigned, and the packets in `mask` are in flight.
    /// `block` holds them if it differs from the previous block.
    Batch { first: u64, count: u32, mask: u64, block: Option<SharedBlock> },
    /// A packet was dropped on its way.
    Dropped(u64),
}

/// A message from a worker.
struct Decided {
    packet: PacketRef,
    accepted: bool,
}

/// Limits the packet numbers that the input stage may assign.
pub(crate) struct Window {
    next: Arc<CachePadded<AtomicU64>>,
    starved: Arc<CachePadded<AtomicU64>>,
    /// The number of the last notice.
    starved_at: u64,
}

impl Window {
    /// Returns whether the input stage may assign `count` numbers from `number` on.
    pub(crate) fn admits(&self, number: u64, count: usize) -> bool {
        number + count as u64 <= self.next.load(Ordering::Acquire) + WINDOW
    }

    /// Reports that the source has nothing for now beyond the numbers below `number`.
    pub(crate) fn starve(&mut self, number: u64) {
        if self.starved_at != number {
            self.starved_at = number;
            // Relaxed: the number publishes no other data.
            self.starved.store(number, Ordering::Relaxed);
        }
    }
}

/// The sending end of the input stage's notices.
pub(crate) struct EgressNotices(Producer<Notice>);

impl EgressNotices {
    /// Reports which packets of a batch are in flight.
    pub(crate) fn batch(&mut self, first: u64, count: usize, mask: u64, block: Option<SharedBlock>) {
        self.send(Notice::Batch { first, count: count as u32, mask, block });
    }

    /// Reports that a packet was dropped.
    pub(crate) fn dropped(&mut self, number: u64) {
        self.send(Notice::Dropped(number));
    }

    fn send(&mut self, notice: Notice) {
        // The ring fills only when the egress stage is gone, and then the notice is not needed.
        let _ = self.0.push(notice);
    }
}

/// The sending end of a worker's outcomes.
pub(crate) struct OutcomeSender {
    ring: Producer<Decided>,
    /// Accepted packets that no egress stage took.
    pub(crate) refused: u64,
}

impl OutcomeSender {
    /// Reports the outcome of a packet.
    #[inline]
    pub(crate) fn send(&mut self, packet: PacketRef, outcome: Option<Verdict>) {
        let accepted = outcome == Some(Verdict::Accept);
        if self.ring.is_abandoned() || self.ring.push(Decided { packet, accepted }).is_err() {
            self.refused += u64::from(accepted);
        }
    }
}

/// The state of a number in the window.
#[derive(Clone, Copy)]
enum Slot {
    /// Not assigned yet.
    Unknown,
    /// In flight.
    Expected,
    /// The packet has left, or will not leave.
    Gone,
    /// The packet may leave.
    Ready(PacketRef),
}

/// The stage that passes packets to a sink.
pub(crate) struct Egress<'a> {
    sink: &'a mut (dyn PacketSink + Send),
    notices: Consumer<Notice>,
    workers: Vec<Consumer<Decided>>,
    exact: bool,
    slots: Box<[Slot]>,
    next: u64,
    /// The number after the last announced batch. Workers may report packets of later batches,
    /// whose blocks are not known yet. The window therefore does not pass this number.
    announced: u64,
    published: Arc<CachePadded<AtomicU64>>,
    /// The number at which the source last had nothing more.
    starved: Arc<CachePadded<AtomicU64>>,
    /// The last such number at which all earlier packets had left.
    dry_at: u64,
    /// The sink has taken packets since its last flush.
    is_held: bool,
    /// The first number of each block and the block, oldest first.
    blocks: VecDeque<(u64, SharedBlock)>,
    halt: Arc<Halt>,
    pub(crate) counters: SinkCounters,
    pub(crate) failed: Option<SinkError>,
}

/// The other ends of an egress stage: two for the input stage, and one per worker.
pub(crate) struct Ends {
    pub(crate) window: Window,
    pub(crate) notices: EgressNotices,
    pub(crate) workers: Vec<OutcomeSender>,
}

/// Returns an egress stage and its other ends.
pub(crate) fn connect<'a>(
    sink: &'a mut (dyn PacketSink + Send),
    workers: usize,
    exact: bool,
    halt: &Arc<Halt>,
) -> (Egress<'a>, Ends) {
    // The input stage reports a number at most twice: in its batch, and when the packet is dropped.
    let (producer, notices) = RingBuffer::new(2 * WINDOW as usize);
    let (next, starved): (Arc<CachePadded<AtomicU64>>, Arc<CachePadded<AtomicU64>>) = Default::default();
    let (ends, rings) = (0..workers)
        .map(|_| {
            let (ring, done) = RingBuffer::new(WINDOW as usize);
            (OutcomeSender { ring, refused: 0 }, done)
        })
        .unzip();
    let egress = Egress {
        sink,
        notices,
        workers: rings,
        exact,
        slots: vec![Slot::Unknown; WINDOW as usize].into_boxed_slice(),
        next: 0,
        announced: 0,
        published: Arc::clone(&next),
        starved: Arc::clone(&starved),
        dry_at: 0,
        is_held: false,
        blocks: VecDeque::new(),
        halt: Arc::clone(halt),
        counters: SinkCounters::default(),
        failed: None,
    };
    let window = Window { next, starved, starved_at: 0 };
    (egress, Ends { window, notices: EgressNotices(producer), workers: ends })
}

impl Egress<'_> {
    pub(crate) fn poll(&mut self) -> Polled {
        // Read this first. All messages that a sender sent before it was dropped are then visible
        // below.
        let are_senders_gone =
            self.notices.is_abandoned() && self.workers.iter().all(Consumer::is_abandoned);
        let mut worked = false;
        for _ in 0..CHUNK {
            let Ok(notice) = self.notices.pop() else { break };
            worked = true;
            match notice {
                Notice::Batch { first, count, mask, block } => {
                    if let Some(block) = block {
                        self.blocks.push_back((first, block));
                    }
                    self.announced = first + u64::from(count);
                    for number in first..first + u64::from(count) {
                        let slot = index(number);
                        // A worker may have been faster than this notice.
                        match self.slots[slot] {
                            Slot::Unknown if mask >> (number - first) & 1 == 1 => {
                                self.slots[slot] = Slot::Expected;
                            }
                            Slot::Unknown => self.slots[slot] = Slot::Gone,
                            // The packet leaves before its worker reports later packets of its
                            // flow.
                            Slot::Ready(packet) if !self.exact => {
                                self.slots[slot] = Slot::Gone;
                                self.release(packet);
                            }
                            Slot::Ready(_) | Slot::Expected | Slot::Gone => {}
                        }
                    }
                }
                Notice::Dropped(number) => self.slots[index(number)] = Slot::Gone,
            }
        }
        for worker in 0..self.workers.len() {
            for _ in 0..CHUNK {
                let Ok(Decided { packet, accepted }) = self.workers[worker].pop() else { break };
                worked = true;
                let slot = index(packet.number());
                self.slots[slot] = match accepted {
                    false => Slot::Gone,
                    true if self.exact => Slot::Ready(packet),
                    // The block is known only once the batch is announced. Until then the packet
                    // waits.
                    true if matches!(self.slots[slot], Slot::Unknown) => Slot::Ready(packet),
                    true => {
                        self.release(packet);
                        Slot::Gone
                    }
                };
            }
        }
        self.advance(are_senders_gone && !worked);
        if are_senders_gone && !worked {
            if self.failed.is_none()
                && let Err(error) = self.sink.finish()
            {
                self.failed = Some(error);
            }
            return Polled::Done;
        }
        // Flush once: without exact order, later packets may leave before the window moves on.
        let starved = self.starved.load(Ordering::Relaxed);
        if self.next == starved && self.dry_at != starved {
            self.dry_at = starved;
            if self.is_held {
                self.flush();
            }
        }
        if worked { Polled::Worked } else { Polled::Idle }
    }

    /// Moves the window past all packets that have left; at the end also past packets that were
    /// lost on the way.
    fn advance(&mut self, to_the_end: bool) {
        let mut lost = 0;
        while lost < WINDOW && (to_the_end || self.next < self.announced) {
            let slot = index(self.next);
            match self.slots[slot] {
                Slot::Ready(packet) => {
                    self.slots[slot] = Slot::Unknown;
                    self.release(packet);
                    lost = 0;
                }
                Slot::Gone => {
                    self.slots[slot] = Slot::Unknown;
                    lost = 0;
                }
                Slot::Expected | Slot::Unknown if to_the_end => {
                    self.slots[slot] = Slot::Unknown;
                    lost += 1;
                }
                Slot::Expected | Slot::Unknown => break,
            }
            self.next += 1;
        }
        while self.blocks.get(1).is_some_and(|&(first, _)| first <= self.next) {
            self.blocks.pop_front();
        }
        // Release pairs with the Acquire in `admits`.
        self.published.store(self.next, Ordering::Release);
    }

    fn release(&mut self, packet: PacketRef) {
        // References keep only the lower bits of numbers.
        let number = self.next + (packet.number().wrapping_sub(self.next) & PacketRef::NUMBERS);
        let after = self.blocks.partition_point(|&(first, _)| first <= number);
        let block = after.checked_sub(1).and_then(|at| self.blocks.get(at));
        let (None, Some((_, block))) = (&self.failed, block) else {
            self.counters.refused += 1;
            return;
        };
        let released = Released {
            bytes: packet.bytes(block.bytes()),
            wire_bytes: packet.wire,
            time_ns: packet.time_ns,
            link: packet.link(),
            number,
        };
        match self.sink.take(&released) {
            Ok(()) => {
                self.counters.taken += 1;
                self.is_held = true;
            }
            Err(error) => {
                self.counters.refused += 1;
                self.fail(error);
            }
        }
    }

    /// Asks the sink to write out its buffered packets.
    fn flush(&mut self) {
        self.is_held = false;
        if self.failed.is_none()
            && let Err(error) = self.sink.flush()
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: SinkError) {
        self.failed = Some(error);
        self.halt.halt();
    }
}

fn index(number: u64) -> usize {
    (number % WINDOW) as usize
}

#[cfg(test)]
mod tests {
    use flowloom_packet::Block;

    use super::*;
    use crate::batch::packet::PacketPlace;

    #[derive(Default)]
    struct Bytes(Vec<Vec<u8>>);

    impl PacketSink for Bytes {
        fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
            self.0.push(packet.bytes.to_vec());
            Ok(())
        }

        fn flush(&mut self) -> Result<(), SinkError> {
            self.0.push(b"flushed".to_vec());
            Ok(())
        }

        fn finish(&mut self) -> Result<(), SinkError> {
            Ok(())
        }
    }

    fn packet(number: u64) -> PacketRef {
        let place = PacketPlace { position: 0, time_ns: 0, stamped_ns: 0, captured: 3, wire: 3, number };
        PacketRef::packet(flowloom_flow_key::TableHash::default(), place, LinkType::ETHERNET)
    }

    fn block(bytes: &[u8]) -> SharedBlock {
        Arc::new(Block::Owned(bytes.to_vec()))
    }

    #[test]
    fn a_packet_that_waited_for_its_block_leaves_before_later_packets_of_its_worker() {
        let (mut sink, halt) = (Bytes::default(), Arc::new(Halt::default()));
        let (mut egress, Ends { mut notices, workers: mut done, .. }) = connect(&mut sink, 2, false, &halt);
        notices.batch(0, 1, 1, Some(block(b"old")));
        egress.poll();
        // The other worker holds packet 0 all the time.
        done[0].send(packet(1), Some(Verdict::Accept));
        egress.poll();
        notices.batch(1, 1, 1, Some(block(b"1st")));
        notices.batch(2, 1, 1, Some(block(b"2nd")));
        done[0].send(packet(2), Some(Verdict::Accept));
        egress.poll();
        done[1].send(packet(0), Some(Verdict::Accept));
        egress.poll();
        drop(egress);
        assert_eq!(sink.0, [b"1st", b"2nd", b"old"]);
    }

    #[test]
    fn a_sink_is_flushed_once_though_later_packets_leave_before_the_window_moves_on() {
        for accepts_first in [true, false] {
            let (mut sink, halt) = (Bytes::default(), Arc::new(Halt::default()));
            let (mut egress, Ends { mut window, mut notices, workers: mut done }) =
                connect(&mut sink, 2, false, &halt);
            let mut send =
                |worker: usize, number, verdict| done[worker].send(packet(number), Some(verdict));
            notices.batch(0, 1, 1, Some(block(b"one")));
            // Nothing is flushed before the input runs dry for the first time.
            notices.batch(1, 1, 1, None);
            send(1, 1, Verdict::Accept);
            egress.poll();
            send(0, 0, if accepts_first { Verdict::Accept } else { Verdict::Deny });
            egress.poll();
            window.starve(2);
            egress.poll();
            // A slow worker holds the next packet.
            notices.batch(2, 3, 0b111, Some(block(b"two")));
            for number in [3, 4] {
                send(1, number, Verdict::Accept);
                egress.poll();
            }
            send(0, 2, Verdict::Accept);
            egress.poll();
            window.starve(5);
            egress.poll();
            drop(egress);
            let first: &[&[u8]] = if accepts_first { &[b"one", b"one"] } else { &[b"one"] };
            let rest: [&[u8]; 5] = [b"flushed", b"two", b"two", b"two", b"flushed"];
            assert_eq!(sink.0, [first, &rest].concat());
        }
    }

    #[test]
    fn a_sink_that_rests_for_a_whole_window_misses_no_message() {
        let (mut sink, halt) = (Bytes::default(), Arc::new(Halt::default()));
        let (mut egress, Ends { window, mut notices, workers: _workers }) =
            connect(&mut sink, 1, true, &halt);
        // Maximum number of messages there can be: one batch for each packet, and each packet
        // dropped.
        for number in 0..WINDOW {
            assert!(window.admits(number, 1));
            notices.batch(number, 1, 1, None);
            notices.dropped(number);
        }
        assert!(!window.admits(WINDOW, 1));
        while egress.poll() == Polled::Worked {}
        assert!(window.admits(WINDOW, WINDOW as usize) && !window.admits(2 * WINDOW, 1));
    }

    /// A thread may pause between reading the notices and reading the outcomes.
    #[test]
    fn a_worker_that_is_quicker_than_the_news_of_its_batch_waits_for_the_block() {
        for exact in [true, false] {
            let (mut sink, halt) = (Bytes::default(), Arc::new(Halt::default()));
            let (mut egress, Ends { window, mut notices, workers: mut done }) =
                connect(&mut sink, 1, exact, &halt);
            notices.batch(0, 1, 1, Some(block(b"old")));
            done[0].send(packet(0), Some(Verdict::Accept));
            assert_eq!(egress.poll(), Polled::Worked);
            done[0].send(packet(1), Some(Verdict::Accept));
            assert_eq!(egress.poll(), Polled::Worked);
            assert_eq!(egress.counters.taken, 1, "the second block is not known yet");
            notices.batch(1, 1, 1, Some(block(b"new")));
            assert_eq!(egress.poll(), Polled::Worked);
            assert_eq!(egress.counters, SinkCounters { taken: 2, refused: 0 });
            // One window later, the slot of a number that has left must not be marked.
            for number in 2..2 + WINDOW {
                assert!(window.admits(number, 1), "{number}");
                notices.batch(number, 1, 0, None);
                egress.poll();
            }
            drop((notices, done));
            assert_eq!(egress.poll(), Polled::Done);
            drop(egress);
            assert_eq!(sink.0, [b"old", b"new"]);
        }
    }
}
