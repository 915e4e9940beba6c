//! What leaves: packets that an application has accepted, given to a sink in the order that was promised.
//!
//! Workers say what became of each packet, the input stage which numbers were given out. The egress stage keeps a
//! window of numbers. In *exact* order it holds a packet back until all before it have left or were dropped, which is
//! external order [FLOWNP §5.1]; otherwise a packet leaves as soon as its worker says so, which keeps the order of a
//! flow while the flow stays with one worker.
//!
//! The input stage gives out no number that lies a window beyond the oldest one still inside. So no ring here ever
//! fills, and nothing waits for the egress stage but the input stage.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use flowloom_packet::{LinkType, SharedBlock};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::app::Verdict;
use crate::batch::packet::PacketRef;
use crate::error::SinkError;
use crate::runtime::poll::Polled;
use crate::runtime::shutdown::Halt;

/// Packets between the input stage and the sink at most.
pub(crate) const WINDOW: u64 = 1 << 14;
/// Messages taken from one ring before the next is looked at.
const CHUNK: usize = 64;

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Released<'a> {
    /// The captured bytes, from the link layer on.
    pub bytes: &'a [u8],
    /// Bytes the packet had on the wire.
    pub wire_bytes: u32,
    /// Nanoseconds since 1970, of a packet in the order of arrival never before those of earlier ones. So a sink sees no time go back
    /// inline or in [external order](crate::Order::External); otherwise packets of different flows may come with times in any order.
    pub time_ns: u64,
    /// The link type of `bytes`.
    pub link: LinkType,
    /// The packet's number in the run, from 0.
    pub number: u64,
}

impl<'a> Released<'a> {
    /// Returns a packet that leaves first of a run: for sinks that are called by something else, and for tests.
    #[must_use]
    pub const fn new(bytes: &'a [u8], wire_bytes: u32, time_ns: u64, link: LinkType) -> Self {
        Self { bytes, wire_bytes, time_ns, link, number: 0 }
    }
}

/// Where packets go that an application has accepted: a capture file, an interface, a socket.
///
/// They come in the order that [`EngineConfig::order`](crate::EngineConfig::order) promises: of a flow unless told otherwise, not of all.
///
/// # Examples
///
/// ```
/// use flowloom_engine::{PacketSink, Released, SinkError};
///
/// /// Writes the bytes of packets to whatever can be written to.
/// struct Bytes<W>(W);
///
/// impl<W: std::io::Write> PacketSink for Bytes<W> {
///     fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
///         self.0.write_all(packet.bytes).map_err(|error| SinkError(Box::new(error)))
///     }
///
///     fn finish(&mut self) -> Result<(), SinkError> {
///         self.0.flush().map_err(|error| SinkError(Box::new(error)))
///     }
/// }
/// ```
pub trait PacketSink {
    /// Takes a packet. Called by one thread only.
    ///
    /// # Errors
    ///
    /// When it cannot be taken. The run then stops; the sink is not asked again, and packets not taken are counted.
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError>;

    /// Writes out what is held back for the time being: the input has nothing more, and all that it had has been taken. Called once whenever
    /// it runs dry after packets, not while it stays so. Does nothing unless told otherwise.
    ///
    /// # Errors
    ///
    /// When it cannot be written: as those of [`PacketSink::take`].
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Writes out whatever is held back; called once at the end, but not where one of the other two has failed or panicked.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// What a sink was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkCounters {
    /// Packets that the sink has taken.
    pub taken: u64,
    /// Accepted packets that it has not: it had failed, or the egress stage was gone.
    pub refused: u64,
}

/// What the input stage tells.
enum Notice {
    /// From `first` on so many numbers were given out; those in `mask` are on their way. They lie in `block`, if it is
    /// another one than before.
    Batch { first: u64, count: u32, mask: u64, block: Option<SharedBlock> },
    /// A packet was dropped on its way.
    Dropped(u64),
}

/// What a worker tells.
struct Decided {
    packet: PacketRef,
    accepted: bool,
}

/// Which numbers may be given out.
pub(crate) struct Window {
    next: Arc<CachePadded<AtomicU64>>,
    starved: Arc<CachePadded<AtomicU64>>,
    /// What was told last.
    starved_at: u64,
}

impl Window {
    /// Says whether so many numbers from `number` on may be given out.
    pub(crate) fn admits(&self, number: u64, count: usize) -> bool {
        number + count as u64 <= self.next.load(Ordering::Acquire) + WINDOW
    }

    /// Tells that the source has nothing more for now than the numbers below this one.
    pub(crate) fn starve(&mut self, number: u64) {
        if self.starved_at != number {
            self.starved_at = number;
            // Relaxed: it is a number, and nothing is published with it.
            self.starved.store(number, Ordering::Relaxed);
        }
    }
}

/// The input stage's end.
pub(crate) struct EgressNotices(Producer<Notice>);

impl EgressNotices {
    /// Tells which packets of a batch are on their way.
    pub(crate) fn batch(&mut self, first: u64, count: usize, mask: u64, block: Option<SharedBlock>) {
        self.send(Notice::Batch { first, count: count as u32, mask, block });
    }

    /// Tells that a packet was dropped.
    pub(crate) fn dropped(&mut self, number: u64) {
        self.send(Notice::Dropped(number));
    }

    fn send(&mut self, notice: Notice) {
        // It fills only when the egress stage is gone; then it is not needed.
        let _ = self.0.push(notice);
    }
}

/// A worker's end.
pub(crate) struct OutcomeSender {
    ring: Producer<Decided>,
    /// Accepted packets that no egress stage was there to take.
    pub(crate) refused: u64,
}

impl OutcomeSender {
    /// Tells what became of a packet.
    #[inline]
    pub(crate) fn send(&mut self, packet: PacketRef, outcome: Option<Verdict>) {
        let accepted = outcome == Some(Verdict::Accept);
        if self.ring.is_abandoned() || self.ring.push(Decided { packet, accepted }).is_err() {
            self.refused += u64::from(accepted);
        }
    }
}

/// What is known of a number in the window.
#[derive(Clone, Copy)]
enum Slot {
    /// Not given out yet.
    Unknown,
    /// On its way.
    Expected,
    /// It will not leave, or has left.
    Gone,
    /// It may leave.
    Ready(PacketRef),
}

/// The stage that gives packets to a sink.
pub(crate) struct Egress<'a> {
    sink: &'a mut (dyn PacketSink + Send),
    notices: Consumer<Notice>,
    workers: Vec<Consumer<Decided>>,
    exact: bool,
    slots: Box<[Slot]>,
    next: u64,
    /// The number after the last batch that was told of. Workers may have told of later ones, whose blocks are not
    /// known yet: the window stays behind it.
    announced: u64,
    published: Arc<CachePadded<AtomicU64>>,
    /// The number that the source had nothing from on, when it had nothing last.
    starved: Arc<CachePadded<AtomicU64>>,
    /// The last of these numbers that everything before had left at.
    dry_at: u64,
    /// The sink has taken packets since it was flushed.
    is_held: bool,
    /// First number and block, oldest first.
    blocks: VecDeque<(u64, SharedBlock)>,
    halt: Arc<Halt>,
    pub(crate) counters: SinkCounters,
    pub(crate) failed: Option<SinkError>,
}

/// What the others have of an egress stage: two ends for the input stage, and one for each worker.
pub(crate) struct Ends {
    pub(crate) window: Window,
    pub(crate) notices: EgressNotices,
    pub(crate) workers: Vec<OutcomeSender>,
}

/// Returns an egress stage and what the others have of it.
pub(crate) fn connect<'a>(
    sink: &'a mut (dyn PacketSink + Send),
    workers: usize,
    exact: bool,
    halt: &Arc<Halt>,
) -> (Egress<'a>, Ends) {
    // A number is told of twice at most: in its batch, and when it is dropped.
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
        // Looked at first: what was told before its teller went is then seen below.
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
                        // A worker may have been quicker than this message.
                        match self.slots[slot] {
                            Slot::Unknown if mask >> (number - first) & 1 == 1 => {
                                self.slots[slot] = Slot::Expected;
                            }
                            Slot::Unknown => self.slots[slot] = Slot::Gone,
                            // It leaves before its worker tells of later packets of its flow.
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
                    // Its block is known only once its batch is: until then it waits like the others.
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
        // Once: where the order is not exact, packets that come later may leave before the window moves on.
        let starved = self.starved.load(Ordering::Relaxed);
        if self.next == starved && self.dry_at != starved {
            self.dry_at = starved;
            if self.is_held {
                self.flush();
            }
        }
        if worked { Polled::Worked } else { Polled::Idle }
    }

    /// Moves the window over everything that has left; at the end also over what was lost on its way.
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
        // Descriptors keep the lower bits of numbers.
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

    /// Asks the sink to write out what it holds back for now.
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
        let place = PacketPlace { position: 0, time_ns: 0, captured: 3, wire: 3, number };
        PacketRef::packet(0, place, LinkType::ETHERNET)
    }

    fn block(bytes: &[u8]) -> SharedBlock {
        Arc::new(Block::Owned(bytes.to_vec()))
    }

    #[test]
    fn what_waited_for_its_block_leaves_before_what_its_worker_tells_later() {
        let (mut sink, halt) = (Bytes::default(), Arc::new(Halt::default()));
        let (mut egress, Ends { mut notices, workers: mut done, .. }) = connect(&mut sink, 2, false, &halt);
        notices.batch(0, 1, 1, Some(block(b"old")));
        egress.poll();
        // Packet 0 is with the other worker all the while.
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
            // Before the input was dry for the first time, nothing is flushed.
            notices.batch(1, 1, 1, None);
            send(1, 1, Verdict::Accept);
            egress.poll();
            send(0, 0, if accepts_first { Verdict::Accept } else { Verdict::Deny });
            egress.poll();
            window.starve(2);
            egress.poll();
            // The next one is with a worker that is slow.
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
        // As many messages as there can be: a batch for each packet, and each of them dropped.
        for number in 0..WINDOW {
            assert!(window.admits(number, 1));
            notices.batch(number, 1, 1, None);
            notices.dropped(number);
        }
        assert!(!window.admits(WINDOW, 1));
        while egress.poll() == Polled::Worked {}
        assert!(window.admits(WINDOW, WINDOW as usize) && !window.admits(2 * WINDOW, 1));
    }

    /// A thread may rest between its look at what was given out and its look at what was done.
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
            // A window later the same slot is one that nothing is expected in: what has left must not stay marked in it.
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
