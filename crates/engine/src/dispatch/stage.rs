//! The input stage of the pipeline layout: batches from the reader, decoded and dispatched in
//! order.
//!
//! ```text
//!  source ─ reader ─ packets ─▶ decode, key, hash ─▶ descriptors, work items ─▶ policy ─▶ rings
//! ```

use std::sync::Arc;

use flowloom_cpu::prefetch;
use flowloom_packet::census::Census;
use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::{DropReason, LinkType, RawPacket, SharedBlock};
use flowloom_scheduler::WorkItem;

use crate::batch::packet::{PacketDescriptor, PacketRef};
use crate::batch::pool::{BATCH_DESCRIPTORS, BatchPool, DescriptorBatch};
use crate::control::Control;
use crate::error::Fault;
use crate::ingest::decode::{Decoder, Losses};
use crate::ingest::reader::{Next, Reader};
use crate::report::counters::{FullCounts, InputCounters};
use crate::stage::panics::caught;
use crate::stage::poll::{Capacity, Polled};

/// Packets between the packet being decoded and the packet whose first line is prefetched.
const PREFETCH_DISTANCE: usize = 4;

/// Dispatches decoded packets to workers. No method blocks.
pub(crate) trait Dispatcher: Send {
    /// Returns whether `packets` more may be dispatched. Frees capacity if possible.
    fn capacity(&mut self, losses: &mut Losses, packets: usize) -> Capacity;
    /// Dispatches a batch that fits. Puts the batch's descriptors into `pool`.
    fn dispatch(&mut self, losses: &mut Losses, batch: &mut DecodedBatch, pool: &mut BatchPool);
    /// Dispatches packets held back earlier, while no new packets arrive. Returns whether it
    /// dispatched any.
    fn resume(&mut self, _: &mut Losses) -> bool {
        false
    }
    /// Lets time pass while no packets arrive: all packets before this time have been dispatched.
    fn pass_time(&mut self, time_ns: u64);
    /// Dispatches the remaining packets and closes the way to the workers. Called until it returns
    /// a value other than `Full`.
    fn end(&mut self, losses: &mut Losses) -> Capacity;
    /// Discards the packets held back, after a panic.
    fn discard(&mut self, losses: &mut Losses);
    /// Publishes how often rings or the pool were full.
    fn publish(&mut self) {}
    /// Returns the counts of dispatched packets. The workers have ended by then.
    fn finish(&mut self, losses: &mut Losses) -> Dispatched;
}

/// Counts of the packets dispatched in a run.
#[derive(Debug, Default)]
pub(crate) struct Dispatched {
    /// Number of packets.
    pub(crate) packets: u64,
    /// Packets sent to each worker that has a ring.
    pub(crate) sent: Vec<u64>,
    /// How often each worker's ring was full.
    pub(crate) rings: Vec<FullCounts>,
    /// How often the pool was full. Also counts packets that a policy dropped.
    pub(crate) unplaced: FullCounts,
}

/// One or two batches of one block, from the reader to the rings.
#[derive(Debug, Default)]
pub(crate) struct DecodedBatch {
    /// The number of its first packet.
    pub(crate) first: u64,
    /// The latest time of the packets.
    pub(crate) latest_ns: u64,
    /// The number and the pass that identify the packets' block.
    pub(crate) block_number: (u64, u32),
    block: Option<SharedBlock>,
    raw: Vec<RawPacket>,
    /// Their time stamps.
    stamps: Vec<u64>,
    /// The descriptors that the batch is decoded into.
    pub(crate) descriptors: Option<Arc<DescriptorBatch>>,
    /// The decoder has finished.
    is_decoded: bool,
    /// The work items that the policy sees, one for each descriptor.
    pub(crate) items: Vec<WorkItem>,
    /// Bit `i` is set when packet `i` has a descriptor.
    pub(crate) mask: u64,
    /// Packets without a flow key.
    pub(crate) refused: Vec<(DropReason, LinkType)>,
}

impl DecodedBatch {
    /// Returns the number of packets, with and without a key.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns the number of packets that have a key, or were not decoded.
    fn with_keys(&self) -> usize {
        self.raw.len() - self.refused.len()
    }

    fn clear(&mut self) {
        self.block = None;
        self.raw.clear();
        self.stamps.clear();
        self.items.clear();
        self.refused.clear();
        (self.mask, self.is_decoded) = (0, false);
    }

    /// Returns whether the packets from number `first` on continue this batch in its block.
    fn continues(
        &self,
        first: u64,
        packets: usize,
        block_number: (u64, u32),
        block: Option<&SharedBlock>,
    ) -> bool {
        !self.raw.is_empty()
            && self.raw.len() + packets <= BATCH_DESCRIPTORS
            && self.first + self.raw.len() as u64 == first
            && self.block_number == block_number
            && self.block.as_ref().map(Arc::as_ptr) == block.map(Arc::as_ptr)
    }

    /// Decodes the packets into `descriptors`, which no other stage holds.
    fn decode(&mut self, decoder: &Decoder, census: &mut Census, mut descriptors: Arc<DescriptorBatch>) {
        let Some(block) = self.block.take() else { return };
        let bytes = block.bytes();
        let (first, pass) = (self.first, self.block_number.1);
        let (raw, stamps) = (&self.raw[..], &self.stamps[..]);
        let (items, refused, mask) = (&mut self.items, &mut self.refused, &mut self.mask);
        let Some(target) = Arc::get_mut(&mut descriptors) else {
            unreachable!("the pool lends only batches that nothing else holds")
        };
        target.fill(|writer| {
            for (i, packet) in raw.iter().enumerate() {
                if let Some(packet) = raw.get(i + PREFETCH_DISTANCE) {
                    prefetch::read_at(bytes, packet.position as usize);
                }
                let number = first + i as u64;
                let packet_at = (number, packet, stamps[i]);
                let admitted = decoder.admit(packet_at, bytes, pass, census, |headers, hash, place| {
                    let digest = decoder.digest(&headers.key, hash);
                    let packet_ref = PacketRef::packet(hash.table, place, packet.link);
                    writer.push(PacketDescriptor::words(packet_ref, place.stamped_ns, headers));
                    items.push(WorkItem { digest, bytes: packet.wire_bytes });
                    *mask |= 1 << i;
                });
                if let Err(reason) = admitted {
                    refused.push((reason, packet.link));
                }
            }
        });
        target.block = Some(block);
        self.descriptors = Some(descriptors);
        self.is_decoded = true;
    }
}

/// The input stage's results.
#[derive(Debug)]
pub(crate) struct InputEnd {
    pub(crate) counters: InputCounters,
    pub(crate) interrupted: bool,
    pub(crate) fault: Option<Fault>,
}

/// Reads, decodes and dispatches one or two batches at a time.
pub(crate) struct InputStage<'a> {
    reader: Reader<'a>,
    decoder: Decoder,
    pub(crate) dispatcher: Box<dyn Dispatcher + 'a>,
    pool: BatchPool,
    /// The batch that is being filled, or that is decoded and waits for capacity.
    current: DecodedBatch,
    /// Packets taken from the reader that did not continue `current`.
    next: DecodedBatch,
    /// Packets without a key, and packets dropped for lack of capacity.
    losses: Losses,
    control: &'a Control,
    known: DropCounts,
    /// A worker is gone, or a stage panicked. Further packets are lost.
    is_broken: bool,
}

impl<'a> InputStage<'a> {
    pub(crate) fn new(
        reader: Reader<'a>,
        decoder: Decoder,
        dispatcher: Box<dyn Dispatcher + 'a>,
        control: &'a Control,
    ) -> Self {
        Self {
            reader,
            decoder,
            dispatcher,
            pool: BatchPool::default(),
            current: DecodedBatch::default(),
            next: DecodedBatch::default(),
            losses: Losses::default(),
            control,
            known: DropCounts::default(),
            is_broken: false,
        }
    }

    /// Reads, decodes and dispatches once. Returns `Done` when all packets are dispatched.
    pub(crate) fn poll(&mut self) -> Polled {
        // Unwind safety: after a panic the stage only ends, and its counters are consistent at any
        // moment.
        let polled = caught(|| self.step()).unwrap_or_else(|message| {
            self.fail(message);
            Polled::Worked
        });
        self.reader.publish();
        // Publish drops before ring counts, so that the ring counts never exceed the drops.
        self.control.publish_drops(self.losses.dropped(), &mut self.known);
        self.dispatcher.publish();
        polled
    }

    fn step(&mut self) -> Polled {
        if !self.current.is_decoded {
            let filled = self.fill();
            if self.current.len() == 0 {
                return match filled {
                    Polled::Done => self.end(),
                    _ if self.dispatcher.resume(&mut self.losses) => Polled::Worked,
                    polled => {
                        if let Some(time_ns) = self.reader.silent_ns {
                            self.dispatcher.pass_time(time_ns);
                        }
                        // The source can refill a block only once no descriptors refer to it.
                        self.pool.collect_all();
                        polled
                    }
                };
            }
            self.current.decode(&self.decoder, &mut self.losses.census, self.pool.lend());
        }
        match self.dispatch() {
            Capacity::Free | Capacity::Gone => Polled::Worked,
            Capacity::Full => {
                // Dispatching may need more descriptors, or the source may need their blocks.
                self.pool.collect_all();
                Polled::Idle
            }
        }
    }

    /// Takes packets from the reader while they continue the current batch. Returns why it stopped.
    fn fill(&mut self) -> Polled {
        if self.next.len() > 0 {
            std::mem::swap(&mut self.current, &mut self.next);
        }
        while self.current.len() < BATCH_DESCRIPTORS {
            // Unwind safety: after a panic the reader only ends, and its counters are consistent at
            // any moment.
            let next = caught(|| self.reader.next()).unwrap_or_else(|message| {
                self.reader.fail(|packets| Fault::InputPanicked { packets, message });
                Next::Over
            });
            let (first, range) = match next {
                Next::Packets { first, range } => (first, range),
                Next::Pending(polled) => return polled,
                Next::Over => return Polled::Done,
            };
            let batch = &mut self.reader.batch;
            let mut ahead = batch.lookahead();
            let bytes = batch.block.as_ref().map_or(&[][..], |block| block.bytes());
            for _ in range.clone() {
                ahead.request(bytes);
            }
            let is_all = range.end == batch.packets.len();
            let block = if is_all { batch.block.take() } else { batch.block.clone() };
            let block_number = (batch.block_number, batch.pass);
            let packets = &batch.packets[range];
            let is_new = self.current.len() == 0;
            let continues = self.current.continues(first, packets.len(), block_number, block.as_ref());
            let target = if is_new || continues { &mut self.current } else { &mut self.next };
            if !continues {
                (target.first, target.block_number, target.block) = (first, block_number, block);
            }
            target.latest_ns = packets[packets.len() - 1].time_ns;
            target.raw.extend_from_slice(packets);
            target.stamps.extend_from_slice(&self.reader.stamps);
            if self.next.len() > 0 {
                break;
            }
        }
        Polled::Worked
    }

    /// Dispatches the current batch if it fits.
    fn dispatch(&mut self) -> Capacity {
        let capacity = if self.is_broken {
            Capacity::Gone
        } else {
            self.dispatcher.capacity(&mut self.losses, self.current.len())
        };
        match capacity {
            Capacity::Full => return Capacity::Full,
            Capacity::Free => {
                self.dispatcher.dispatch(&mut self.losses, &mut self.current, &mut self.pool);
            }
            Capacity::Gone => {
                self.is_broken = true;
                self.lose_current();
            }
        }
        self.current.clear();
        capacity
    }

    /// Counts the packets of the current batch as lost.
    fn lose_current(&mut self) {
        self.current.descriptors = None;
        self.losses.lose(DropReason::WorkerLost, self.current.with_keys() as u64);
        for (reason, link) in self.current.refused.drain(..) {
            self.losses.refuse(reason, link);
        }
    }

    fn end(&mut self) -> Polled {
        match self.dispatcher.end(&mut self.losses) {
            Capacity::Free | Capacity::Gone => Polled::Done,
            Capacity::Full => Polled::Idle,
        }
    }

    /// Stops reading and dispatching after a panic of the policy.
    fn fail(&mut self, message: String) {
        self.is_broken = true;
        self.current.clear();
        self.next.clear();
        self.dispatcher.discard(&mut self.losses);
        self.reader.fail(|packets| Fault::InputPanicked { packets, message });
    }

    /// Returns the counts and the dispatched packets. The workers have ended by then.
    pub(crate) fn finish(mut self) -> (InputEnd, Dispatched) {
        self.reader.publish();
        let dispatched = self.dispatcher.finish(&mut self.losses);
        if self.reader.fault.is_some() {
            // The packets that were neither dispatched nor dropped were in the code that panicked.
            let dropped = self.reader.losses.dropped().total() + self.losses.dropped().total();
            let lost = self.reader.arrivals.packets() - dropped - dispatched.packets;
            self.losses.lose(DropReason::WorkerLost, lost);
        }
        self.control.publish_drops(self.losses.dropped(), &mut self.known);
        let Reader { arrivals, losses: mut all, interrupted, fault, .. } = self.reader;
        all.merge(&self.losses, 0);
        (InputEnd { counters: arrivals.finish(all), interrupted, fault }, dispatched)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
pub(crate) mod tests {
    use std::collections::VecDeque;
    use std::sync::{Mutex, Weak};

    use flowloom_packet::{Block, Fill, InterfaceName, PacketBatch, PacketSource, SourceError};

    use super::*;
    use crate::config::{EngineConfig, Layout};
    use crate::control::ReaderPublisher;

    /// Packets of each batch; the second has no key.
    pub(crate) const PACKETS: usize = 4;

    /// Yields batches of [`PACKETS`] packets as `fills` lists them, each in a block of its own.
    struct Batches<'a> {
        fills: VecDeque<Fill>,
        latest: &'a Mutex<Weak<Block>>,
    }

    impl PacketSource for Batches<'_> {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            let fill = self.fills.pop_front().unwrap_or(Fill::End);
            batch.packets.clear();
            if fill != Fill::Packets {
                return Ok(fill);
            }
            let mut frame = vec![0; 42];
            (frame[12], frame[14], frame[17]) = (8, 0x45, 28);
            (frame[22], frame[23], frame[39]) = (64, 17, 8);
            batch.packets.extend((0..PACKETS).map(|i| RawPacket {
                position: 0,
                captured_bytes: if i == 1 { 0 } else { 42 },
                wire_bytes: 42,
                time_ns: 0,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            }));
            let block = Arc::new(Block::Owned(frame));
            *self.latest.lock().unwrap() = Arc::downgrade(&block);
            batch.block = Some(block);
            batch.block_number += 1;
            Ok(Fill::Packets)
        }
    }

    /// Yields batches of these sizes from one block, each with a block number and a pass.
    struct OneBlock(SharedBlock, std::vec::IntoIter<(usize, u64, u32)>);

    impl PacketSource for OneBlock {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            let Some((packets, number, pass)) = self.1.next() else { return Ok(Fill::End) };
            batch.packets.clear();
            let link = LinkType::ETHERNET;
            let (time_ns, interface) = (0, InterfaceName::UNKNOWN);
            let packet =
                RawPacket { position: 0, captured_bytes: 0, wire_bytes: 60, time_ns, link, interface };
            batch.packets.resize(packets, packet);
            (batch.block_number, batch.pass) = (number, pass);
            batch.block = Some(Arc::clone(&self.0));
            Ok(Fill::Packets)
        }
    }

    /// Returns the listed capacities, and then `Free`; panics at a `None`.
    struct Script<'a> {
        capacities: VecDeque<Option<Capacity>>,
        taken: &'a Mutex<Vec<(u64, usize)>>,
    }

    impl Dispatcher for Script<'_> {
        fn capacity(&mut self, _: &mut Losses, _: usize) -> Capacity {
            self.capacities.pop_front().unwrap_or(Some(Capacity::Free)).expect("injected panic")
        }

        fn dispatch(&mut self, losses: &mut Losses, batch: &mut DecodedBatch, pool: &mut BatchPool) {
            for (reason, link) in batch.refused.drain(..) {
                losses.refuse(reason, link);
            }
            pool.sent(batch.descriptors.take().unwrap());
            self.taken.lock().unwrap().push((batch.first, batch.len()));
        }

        fn end(&mut self, _: &mut Losses) -> Capacity {
            Capacity::Free
        }

        fn discard(&mut self, _: &mut Losses) {}

        fn pass_time(&mut self, _: u64) {}

        fn finish(&mut self, _: &mut Losses) -> Dispatched {
            let taken = self.taken.lock().unwrap();
            Dispatched { packets: 3 * taken.len() as u64, ..Dispatched::default() }
        }
    }

    fn reader<'a>(
        config: &EngineConfig,
        source: &'a mut (dyn PacketSource + Send),
        control: &'a Control,
    ) -> Reader<'a> {
        let publisher = ReaderPublisher::new(control, &control.begin(1, 1), 0);
        Reader::new(config, source, None, publisher, Arc::default())
    }

    /// Returns a decoded batch of [`PACKETS`] packets.
    pub(crate) fn decoded(first: u64) -> DecodedBatch {
        let latest = Mutex::default();
        let mut source = Batches { fills: [Fill::Packets].into(), latest: &latest };
        let (config, control) = (EngineConfig::new(Layout::Inline), Control::default());
        let reader = reader(&config, &mut source, &control);
        let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
        let taken = Mutex::default();
        let script = Script { capacities: VecDeque::new(), taken: &taken };
        let mut stage = InputStage::new(reader, decoder, Box::new(script), &control);
        assert_eq!(stage.fill(), Polled::Done);
        stage.current.decode(&stage.decoder, &mut Census::default(), Arc::default());
        stage.current.first = first;
        stage.current
    }

    fn with(
        source: &mut (dyn PacketSource + Send),
        capacities: &[Option<Capacity>],
        check: impl FnOnce(&mut InputStage<'_>, &dyn Fn() -> Vec<(u64, usize)>),
    ) -> (InputEnd, Dispatched) {
        let (config, control) = (EngineConfig::new(Layout::Inline), Control::default());
        let taken = Mutex::default();
        let reader = reader(&config, source, &control);
        let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
        let script = Script { capacities: capacities.iter().copied().collect(), taken: &taken };
        let mut stage = InputStage::new(reader, decoder, Box::new(script), &control);
        check(&mut stage, &|| taken.lock().unwrap().clone());
        stage.finish()
    }

    #[test]
    fn a_batch_that_does_not_fit_waits_and_is_dispatched_once() {
        let latest = Mutex::default();
        let fills = [Fill::Packets, Fill::Starved, Fill::Starved, Fill::Packets, Fill::End].into();
        let capacities = [Some(Capacity::Full), Some(Capacity::Full)];
        with(&mut Batches { fills, latest: &latest }, &capacities, |stage, taken| {
            assert_eq!((stage.poll(), stage.poll()), (Polled::Idle, Polled::Idle));
            assert_eq!(taken(), []);
            assert_eq!(stage.poll(), Polled::Worked);
            assert_eq!(taken(), [(0, PACKETS)]);
            assert!(latest.lock().unwrap().strong_count() > 0);
            assert_eq!(stage.poll(), Polled::Starved);
            assert_eq!(latest.lock().unwrap().strong_count(), 0, "a starved source gets its blocks back");
            assert_eq!((stage.poll(), stage.poll()), (Polled::Worked, Polled::Done));
            assert_eq!(taken(), [(0, PACKETS), (4, PACKETS)]);
        });
    }

    #[test]
    fn batches_that_continue_in_one_block_share_descriptors_as_long_as_they_fit() {
        let batches =
            [(32, 7, 0), (32, 7, 0), (32, 7, 0), (20, 7, 0), (12, 7, 0), (1, 7, 1), (1, 8, 1), (1, 8, 1)];
        let block: SharedBlock = Arc::new(Block::Owned(Vec::new()));
        with(
            &mut OneBlock(block, batches.into_iter().collect::<Vec<_>>().into_iter()),
            &[],
            |stage, taken| {
                while stage.poll() != Polled::Done {}
                assert_eq!(taken(), [(0, 64), (64, 64), (128, 1), (129, 2)]);
            },
        );
    }

    #[test]
    fn a_decoded_batch_knows_which_of_its_packets_have_a_key() {
        let batch = decoded(4);
        assert_eq!((batch.first, batch.len(), batch.with_keys()), (4, PACKETS, PACKETS - 1));
        assert_eq!((batch.mask, batch.items.len(), batch.refused.len()), (0b1101, 3, 1));
    }

    #[test]
    fn after_a_worker_is_gone_all_further_packets_are_lost() {
        let latest = Mutex::default();
        let fills = vec![Fill::Packets; 4].into();
        let capacities = [Some(Capacity::Free), Some(Capacity::Gone)];
        let (end, _) = with(&mut Batches { fills, latest: &latest }, &capacities, |stage, taken| {
            while stage.poll() != Polled::Done {}
            assert_eq!(taken(), [(0, PACKETS)]);
        });
        assert_eq!(end.counters.dropped.get(DropReason::WorkerLost), 3 * 3);
        assert_eq!(end.counters.dropped.total(), 3 * 3 + 4);
    }

    #[test]
    fn after_a_panic_nothing_is_dispatched_and_every_packet_is_counted() {
        let latest = Mutex::default();
        let fills = vec![Fill::Packets; 3].into();
        let capacities = [Some(Capacity::Free), None];
        let (end, dispatched) =
            with(&mut Batches { fills, latest: &latest }, &capacities, |stage, taken| {
                while stage.poll() != Polled::Done {}
                assert_eq!(taken(), [(0, PACKETS)]);
            });
        // The stage read the third batch to see whether it continues the second.
        assert!(matches!(end.fault, Some(Fault::InputPanicked { packets: 12, .. })), "{:?}", end.fault);
        assert_eq!(end.counters.packets, 12);
        assert_eq!(dispatched.packets + end.counters.dropped.total(), 12);
    }
}
