//! Takes batches from the source until the run has a reason to stop.

use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{BATCH_PACKETS, Fill, PacketBatch, PacketSource, RawPacket, Segment, SourceError};

use crate::config::EngineConfig;
use crate::control::ReaderPublisher;
use crate::egress::reorder::Window;
use crate::error::Fault;
use crate::ingest::decode::{Arrivals, Arrived, Losses};
use crate::ingest::pace::Pacer;
use crate::stage::poll::Polled;
use crate::stage::shutdown::Halt;

/// The answer to a request for packets.
pub(crate) enum Next {
    /// These packets of the batch are taken.
    Packets {
        /// The number of the first packet.
        first: u64,
        /// The packets' range in the batch.
        range: Range<usize>,
    },
    /// No packets now.
    Pending(Polled),
    /// No packets any more.
    Over,
}

/// Does the work that must follow the order of the source.
pub(crate) struct Reader<'a> {
    source: &'a mut (dyn PacketSource + Send),
    publisher: ReaderPublisher<'a>,
    halt: Arc<Halt>,
    pub(crate) batch: PacketBatch,
    /// The time stamps of the packets that were taken last.
    pub(crate) stamps: Vec<u64>,
    /// Packets of the batch that were taken.
    taken: usize,
    pacer: Option<Pacer>,
    left: u64,
    is_limited: bool,
    /// Limits the packet numbers if the run has a sink.
    window: Option<Window>,
    pub(crate) is_over: bool,
    pub(crate) interrupted: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) arrivals: Arrivals,
    /// Packets that the source withholds.
    pub(crate) losses: Losses,
    /// The time that has passed without packets, if the latest answer of the source was that a live
    /// input is silent.
    pub(crate) silent_ns: Option<u64>,
    /// The number, the pass and the address of the latest block.
    latest: Option<((u64, u32), usize)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        config: &EngineConfig,
        source: &'a mut (dyn PacketSource + Send),
        window: Option<Window>,
        publisher: ReaderPublisher<'a>,
        halt: Arc<Halt>,
    ) -> Self {
        Self {
            source,
            publisher,
            halt,
            batch: PacketBatch::new(),
            stamps: Vec::with_capacity(BATCH_PACKETS),
            taken: 0,
            pacer: Pacer::new(config.pace),
            left: config.packet_limit.unwrap_or(u64::MAX),
            is_limited: config.packet_limit.is_some(),
            window,
            is_over: false,
            interrupted: false,
            fault: None,
            arrivals: Arrivals::new(config.timeline, config.decode),
            losses: Losses::default(),
            silent_ns: None,
            latest: None,
        }
    }

    /// Takes a batch, or a single packet of a batch if the run has a pace.
    #[inline]
    pub(crate) fn next(&mut self) -> Next {
        self.next_up_to(BATCH_PACKETS)
    }

    /// Takes a batch as [`next`](Self::next) does, but at most `packets_max` of its packets.
    #[inline]
    pub(crate) fn next_up_to(&mut self, packets_max: usize) -> Next {
        if self.is_over {
            return Next::Over;
        }
        if self.halt.is_halted() || self.publisher.control.is_stopped() {
            return self.end();
        }
        if self.taken == self.batch.packets.len()
            && let Some(none) = self.fetch()
        {
            return none;
        }
        let mut range = self.taken..self.batch.packets.len().min(self.taken + packets_max);
        if let Some(window) = &self.window
            && !window.admits(self.arrivals.yielded(), range.len())
        {
            return Next::Pending(Polled::Idle);
        }
        if let Some(pacer) = &mut self.pacer {
            // Take packets one by one, each at its time.
            if let Some(nap) = pacer.wait(self.batch.packets[range.start].time_ns) {
                return Next::Pending(Polled::Nap(nap));
            }
            range.end = range.start + 1;
            pacer.took();
        }
        self.taken = range.end;
        let PacketBatch { packets, block, .. } = &mut self.batch;
        let open = block.as_ref().map_or(&[][..], |block| block.bytes());
        let bytes_of = |_: usize, raw: &RawPacket| raw.bytes_in(open);
        let first = self.arrivals.count(&mut packets[range.clone()], &mut self.stamps, bytes_of);
        Next::Packets { first, range }
    }

    /// Splits the next packets off, if the source can be split and nothing depends on single
    /// packets.
    pub(crate) fn split(&mut self, bytes: u64) -> Option<Box<dyn Segment>> {
        let is_batch_taken = self.taken == self.batch.packets.len();
        let counts_single = self.is_limited || self.pacer.is_some() || self.arrivals.has_timeline();
        let is_ending = self.halt.is_halted() || self.publisher.control.is_stopped();
        if self.is_over || is_ending || counts_single || !is_batch_taken {
            return None;
        }
        self.source.split(bytes)
    }

    /// Takes back a segment whose packets are read. Returns the number of the first packet, and
    /// whether times differ from `stamps` as they were; `None` if the packets do not count.
    pub(crate) fn rejoin(
        &mut self,
        (segment, arrived, error): (Box<dyn Segment>, Arrived, Option<SourceError>),
        stamps: &mut [u64],
    ) -> Option<(u64, bool)> {
        if !self.source.rejoin(segment) {
            return None;
        }
        let counted = self.arrivals.count_read(arrived, stamps);
        if let Some(error) = error {
            self.fault = Some(Fault::Source { packets: self.arrivals.packets(), error });
            let _ = self.end();
        }
        self.publish();
        Some(counted)
    }

    /// Requests another batch from the source. Returns the reason if there is none.
    #[inline]
    fn fetch(&mut self) -> Option<Next> {
        if self.left == 0 {
            return Some(self.end());
        }
        self.taken = 0;
        self.silent_ns = None;
        self.batch.packets.clear();
        let fill = self.source.next_batch(&mut self.batch);
        self.arrivals.withhold(self.losses.withhold(&self.source.withheld()));
        let error = match fill {
            Ok(Fill::Packets) if !(1..=BATCH_PACKETS).contains(&self.batch.packets.len()) => {
                let packets = self.batch.packets.len();
                SourceError(
                    format!(
                        "the source yielded a batch of {packets} packets: must be from 1 to {BATCH_PACKETS}"
                    )
                    .into(),
                )
            }
            Ok(Fill::Packets) if self.batch.block.is_none() => {
                SourceError("the source yielded packets without a block".into())
            }
            Ok(Fill::Packets) if self.is_misnumbered() => {
                let number = self.batch.block_number;
                SourceError(
                    format!(
                        "the source yielded another block with the number of the block before, {number}"
                    )
                    .into(),
                )
            }
            Ok(Fill::Packets) => {
                self.batch.packets.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= self.batch.packets.len() as u64;
                return None;
            }
            Ok(Fill::Starved) => {
                self.batch.packets.clear();
                self.silent_ns = self.batch.yielded_until_ns.map(|ns| self.arrivals.without_packet(ns));
                if let Some(window) = &mut self.window {
                    window.starve(self.arrivals.yielded());
                }
                return Some(Next::Pending(Polled::Starved));
            }
            Ok(Fill::End) => return Some(self.end()),
            Err(error) => error,
        };
        self.fault = Some(Fault::Source { packets: self.arrivals.packets(), error });
        Some(self.end())
    }

    /// Returns whether the batch lies in a different block than the previous batch but has the same
    /// block number. Other stages identify blocks by their numbers, and would look for its packets
    /// in the wrong block.
    fn is_misnumbered(&mut self) -> bool {
        let PacketBatch { block, block_number, pass, .. } = &self.batch;
        let address = block.as_ref().map_or(0, |block| Arc::as_ptr(block).addr());
        let latest = self.latest.replace(((*block_number, *pass), address));
        latest.is_some_and(|(number, at)| number == (*block_number, *pass) && at != address)
    }

    fn end(&mut self) -> Next {
        // A source may end because it saw the stop request.
        self.interrupted |= self.publisher.control.is_stopped();
        // Count withheld packets a last time, because the source will not yield them any more.
        self.arrivals.withhold(self.losses.withhold(&self.source.withheld()));
        self.is_over = true;
        Next::Over
    }

    /// Publishes progress.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.publisher.publish(self.arrivals.packets(), self.losses.dropped());
    }

    /// Ends the reader after a panic in the source or another callee.
    pub(crate) fn fail(&mut self, fault: impl FnOnce(u64) -> Fault) {
        self.fault = Some(fault(self.arrivals.packets()));
        self.is_over = true;
    }
}
