//! The inline layout: one thread runs each packet to completion.

use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{BATCH_PACKETS, DropReason, PacketView};

use crate::app::{Outcome, Verdict};
use crate::control::Publisher;
use crate::egress::reorder::{PacketSink, Released, SinkCounters};
use crate::error::{Fault, SinkError};
use crate::ingest::decode::Decoder;
use crate::ingest::reader::{Next, Reader};
use crate::stage::poll::Polled;
use crate::stage::shutdown::Halt;
use crate::worker::process::{Burst, Decider, FlowStage};

/// Packets whose lines of the table are requested at a time, while the next ones are decoded.
const REQUESTED: usize = 8;

/// All stages on one thread.
pub(crate) struct InlineStage<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) decoder: Decoder,
    pub(crate) stage: FlowStage<'a>,
    pub(crate) burst: Burst,
    pub(crate) publisher: Publisher<'a>,
    pub(crate) output: Option<SinkOutput<'a>>,
}

/// The sink of the inline layout, where packets leave in arrival order.
pub(crate) struct SinkOutput<'a> {
    pub(crate) sink: &'a mut (dyn PacketSink + Send),
    pub(crate) halt: Arc<Halt>,
    pub(crate) counters: SinkCounters,
    pub(crate) failed: Option<SinkError>,
    /// The sink has taken packets since its last flush.
    pub(crate) is_held: bool,
    /// A call of the sink has not returned yet.
    pub(crate) is_called: bool,
}

impl<'a> SinkOutput<'a> {
    pub(crate) fn new(sink: &'a mut (dyn PacketSink + Send), halt: Arc<Halt>) -> Self {
        let counters = SinkCounters::default();
        Self { sink, halt, counters, failed: None, is_held: false, is_called: false }
    }

    pub(crate) fn release(&mut self, packet: &Released<'_>) {
        // Count the packet as refused until the sink has taken it, in case the sink panics.
        self.counters.refused += 1;
        if self.failed.is_some() {
            return;
        }
        self.is_called = true;
        let taken = self.sink.take(packet);
        self.is_called = false;
        match taken {
            Ok(()) => {
                self.counters.refused -= 1;
                self.counters.taken += 1;
                self.is_held = true;
            }
            Err(error) => self.fail(error),
        }
    }

    /// Asks the sink to write out its buffered packets, if it may have any.
    pub(crate) fn flush(&mut self) {
        if !std::mem::take(&mut self.is_held) || self.failed.is_some() {
            return;
        }
        self.is_called = true;
        let flushed = self.sink.flush();
        self.is_called = false;
        if let Err(error) = flushed {
            self.fail(error);
        }
    }

    pub(crate) fn fail(&mut self, error: SinkError) {
        self.failed = Some(error);
        self.halt.halt();
    }

    /// Asks the sink to write out its buffered packets.
    pub(crate) fn finish(&mut self) {
        if self.failed.is_none() {
            self.is_called = true;
            self.failed = self.sink.finish().err();
            self.is_called = false;
        }
    }
}

impl InlineStage<'_> {
    /// Reads one batch, or a part of one, and processes it to completion.
    pub(crate) fn poll(&mut self) -> Polled {
        let polled = match self.reader.next() {
            Next::Packets { first, range } => {
                self.process(first, range);
                Polled::Worked
            }
            Next::Pending(polled) => {
                self.stage.flows.flush_if_requested();
                if let Some(time_ns) = self.reader.silent_ns {
                    self.stage.pass_time(time_ns);
                }
                if polled == Polled::Starved
                    && let Some(output) = &mut self.output
                {
                    output.flush();
                }
                polled
            }
            Next::Over => {
                if let Some(output) = &mut self.output {
                    output.finish();
                }
                Polled::Done
            }
        };
        // Publish taken packets first, so that completed packets never exceed them.
        self.reader.publish();
        self.publisher.publish(&self.stage.runner.tally);
        polled
    }

    #[inline]
    fn process(&mut self, first: u64, range: Range<usize>) {
        let Self { reader: Reader { batch, stamps, losses, .. }, decoder, stage, burst, .. } = self;
        let Some(block) = &batch.block else { return };
        let open = block.open();
        let block = open.bytes;
        let mut ahead = batch.lookahead();
        let packets = &batch.packets[range];
        let mut requested = 0;
        for ((number, raw), &stamp) in (first..).zip(packets).zip(&*stamps) {
            ahead.request(block);
            let census = &mut losses.census;
            let admitted =
                decoder.admit((number, raw, stamp), block, batch.pass, census, |headers, hash, place| {
                    burst.push(hash.table, headers, place);
                });
            if let Err(reason) = admitted {
                losses.refuse(reason, raw.link);
            }
            if burst.len() - requested == REQUESTED {
                stage.flows.prefetch(burst.hashes_from(requested));
                requested = burst.len();
            }
        }
        if burst.is_empty() {
            return;
        }
        stage.flows.prefetch(burst.hashes_from(requested));
        let Some(output) = &mut self.output else { return stage.run(open, burst, None) };
        let places: [u64; BATCH_PACKETS] = burst.numbers();
        let mut release = |_: &mut dyn Decider, i: usize, packet: &PacketView<'_>, outcome: Outcome| {
            if outcome == Some(Verdict::Accept) {
                let number = places[i];
                output.release(&Released {
                    bytes: packet.bytes,
                    wire_bytes: packet.wire_bytes,
                    time_ns: packet.time_ns,
                    link: packets[(number - first) as usize].link,
                    number,
                });
            }
        };
        stage.run(open, burst, Some(&mut release));
    }

    /// Settles the counts after a panic. The packet that the application panicked on and the rest
    /// of its burst are lost. The fault names the packet if an application was processing one, or
    /// the sink if the sink panicked.
    pub(crate) fn settle(&mut self, message: String) {
        let counters = &mut self.stage.runner.tally.counters;
        let lost = self.reader.arrivals.packets() - self.reader.losses.dropped().total() - counters.done();
        counters.dropped.add(DropReason::WorkerLost, lost);
        if let Some(output) = self.output.as_mut().filter(|output| output.is_called) {
            output.failed = Some(SinkError::of_panic(&message));
            self.reader.is_over = true;
            return;
        }
        let (at, processed) = (self.stage.runner.at(), self.stage.runner.tally.counters.processed);
        let is_called = self.stage.runner.is_called();
        let packet = at.map(|number| number + 1);
        self.reader.fail(|packets| {
            if is_called {
                Fault::WorkerPanicked { worker: 0, packet, processed, message }
            } else {
                Fault::InputPanicked { packets, message }
            }
        });
    }
}
