//! The loop of one wire.

use std::time::{Duration, Instant};

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::wire::{Decision, WIRE_BATCH, Wire};
use flowloom_packet::{
    BATCH_PACKETS, DropReason, Headers, InterfaceName, PacketView, RawPacket, SourceError,
};

use crate::app::{App, Verdict};
use crate::control::{Control, Publisher, ReaderPublisher};
use crate::error::Fault;
use crate::ingest::decode::{Arrivals, Decoder, Losses};
use crate::runtime::clock;
use crate::runtime::panics::caught;
use crate::runtime::shutdown::Halt;
use crate::wire::options::{DecisionCounts, NoFlow, WireOptions};
use crate::worker::flows::Flows;
use crate::worker::process::{AppRunner, Burst};

const _: () = assert!(WIRE_BATCH <= BATCH_PACKETS, "a batch of a wire is one burst");

/// The interval at which flows end while no frame arrives, and the maximum wait for a frame.
const TICK: Duration = Duration::from_millis(100);
/// Number of polls for a frame before the first wait; a wait costs more than several polls.
const LOOKS: u32 = 16;

/// The frames of the current burst.
#[derive(Debug, Default)]
pub(super) struct Batch {
    raw: Vec<RawPacket>,
    decisions: Vec<Decision>,
    /// The frame of each packet of the burst.
    frames: Vec<usize>,
    answer: Vec<u8>,
    /// Answers to frames, by the port that sends them.
    answers: Vec<(u16, Vec<u8>)>,
}

/// All stages of one wire.
pub(super) struct WireStage<'a, W, A: App, T> {
    pub(super) wire: W,
    pub(super) decoder: Decoder,
    pub(super) runner: AppRunner<A>,
    pub(super) flows: Flows<A::Flow, T>,
    pub(super) burst: Burst,
    pub(super) options: WireOptions,
    pub(super) arrivals: Arrivals,
    pub(super) losses: Losses,
    pub(super) counts: DecisionCounts,
    pub(super) batch: Batch,
    pub(super) published: (ReaderPublisher<'a>, Publisher<'a>),
}

impl<W: Wire, A: App, T: FlowTable<FlowKey, A::Flow>> WireStage<'_, W, A, T> {
    /// Forwards frames until the run is stopped or fails. Returns whether it was stopped, and the
    /// error if it failed.
    pub(super) fn run(&mut self, control: &Control, halt: &Halt, worker: usize) -> (bool, Option<Fault>) {
        let fault = match caught(|| self.pass(control, halt)) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Fault::Source { packets: self.arrivals.packets(), error }),
            Err(message) => {
                let (packet, processed) = (self.runner.at(), self.runner.counters.processed);
                let packet = packet.map(|number| number + 1);
                Some(Fault::WorkerPanicked { worker, packet, processed, message })
            }
        };
        if fault.is_some() {
            halt.halt();
            self.lose();
        }
        self.publish();
        (control.is_stopped(), fault)
    }

    fn pass(&mut self, control: &Control, halt: &Halt) -> Result<(), SourceError> {
        let (mut idle, mut is_closed) = (0, false);
        let mut last = clock::now();
        let mut ticked = last;
        loop {
            if !is_closed && (control.is_stopped() || halt.is_halted()) {
                self.wire.close()?;
                is_closed = true;
            }
            let frames = self.wire.receive()?;
            self.arrivals.withhold(self.losses.withhold(&self.wire.withheld()));
            if frames > 0 {
                idle = 0;
                self.process(frames)?;
                self.publish();
                last = clock::now();
                continue;
            }
            if is_closed {
                return self.wire.finish();
            }
            let now = clock::now();
            if now.duration_since(ticked) >= TICK {
                ticked = now;
                self.tick(last, now);
                self.publish();
            }
            idle += 1;
            if idle > LOOKS {
                self.wire.wait(TICK)?;
            }
        }
    }

    /// Ends flows according to the time since the last frame, and sends their records.
    fn tick(&mut self, last: Instant, now: Instant) {
        /// Maximum number of calls at a time, so that frames never wait long.
        const CALLS: u32 = 256;
        let silent_ns = u64::try_from(now.duration_since(last).as_nanos()).unwrap_or(u64::MAX);
        let time_ns = self.arrivals.clock().now_ns().saturating_add(silent_ns);
        self.flows.flush_if_requested();
        if self.arrivals.packets() > 0 {
            for _ in 0..CALLS {
                if !self.flows.expire(time_ns) {
                    break;
                }
            }
        }
    }

    /// Judges the frames of a batch, and sends them.
    fn process(&mut self, frames: usize) -> Result<(), SourceError> {
        let Self { wire, decoder, runner, flows, burst, options, arrivals, losses, counts, batch, .. } =
            self;
        let Batch { raw, decisions, frames: of_burst, answer, answers } = batch;
        raw.clear();
        raw.extend((0..frames).map(|i| {
            let frame = wire.frame(i);
            RawPacket {
                position: 0,
                captured_bytes: frame.bytes.len() as u32,
                wire_bytes: frame.wire_bytes,
                time_ns: frame.time_ns,
                link: frame.link,
                interface: InterfaceName::UNKNOWN,
            }
        }));
        let first = arrivals.count(raw);
        decisions.clear();
        decisions.resize(frames, Decision::Drop);
        of_burst.clear();
        let mut headers_of = [None::<Headers>; WIRE_BATCH];
        for (i, (number, raw)) in (first..).zip(raw.iter()).enumerate() {
            let frame = wire.frame(i);
            let (at, census) = ((number, raw), &mut losses.census);
            let admitted = decoder.admit(at, frame.bytes, 0, census, |headers, hash, place| {
                flows.table.prefetch(hash.table);
                burst.push(hash.table, headers, place);
                headers_of[i] = Some(*headers);
            });
            let Err(reason) = admitted else {
                of_burst.push(i);
                continue;
            };
            losses.refuse(reason, raw.link);
            decisions[i] = match options.no_flow.of(reason) {
                NoFlow::Pass => Decision::Pass,
                NoFlow::Drop => Decision::Drop,
                NoFlow::Ask => runner.app_mut().on_frame_without_flow(&frame, reason),
            };
            match decisions[i] {
                Decision::Drop => counts.dropped_without_flow += 1,
                _ => counts.passed_without_flow += 1,
            }
        }
        let refuses = options.refusal != flowloom_packet::refusal::Refusal::Silent;
        let (keys, hashes) = burst.take();
        runner.work(
            flows,
            (keys, hashes),
            |nth| {
                let i = of_burst[nth];
                let headers = headers_of[i].unwrap_or_else(|| unreachable!("the frame was decoded"));
                (first + i as u64, PacketView::of_frame(&wire.frame(i), headers, raw[i].time_ns))
            },
            |app, nth, view, outcome| {
                let i = of_burst[nth];
                let decision = match outcome {
                    Some(verdict) => app.decide(view, verdict),
                    None if options.table_full == Verdict::Accept => Decision::Pass,
                    None => Decision::Drop,
                };
                decisions[i] = decision;
                match (outcome, decision) {
                    (None, Decision::Drop) => counts.dropped_at_full_table += 1,
                    (None, _) => counts.passed_at_full_table += 1,
                    (Some(_), Decision::Drop) => {
                        counts.denied += 1;
                        if refuses && options.refusal.answer(view.bytes, &view.headers, answer) {
                            answers.push((view.port, std::mem::take(answer)));
                        }
                    }
                    (Some(_), _) => counts.passed += 1,
                }
            },
        );
        if let Some(last) = raw.last() {
            flows.expire(last.time_ns);
        }
        for (port, bytes) in answers.drain(..) {
            counts.answered += u64::from(wire.emit(port, &bytes));
        }
        let settled = wire.settle(decisions);
        decisions.clear();
        settled
    }

    fn publish(&mut self) {
        // Publish taken packets first, so that completed packets never exceed them.
        let (reader, worker) = &mut self.published;
        reader.publish(self.arrivals.packets(), self.losses.dropped());
        worker.publish(&self.runner.counters);
    }

    /// Settles the counts after a panic or an error of the wire; the rest of the batch is lost.
    fn lose(&mut self) {
        let counters = &mut self.runner.counters;
        let lost = self.arrivals.packets() - self.losses.dropped().total() - counters.done();
        counters.dropped.add(DropReason::WorkerLost, lost);
        let held = self.batch.decisions.len();
        // A failed wire may fail again; its frames are lost in either case.
        let _ = caught(|| self.wire.settle(&vec![Decision::Drop; held]));
        let received: u64 = self.wire.ports().iter().map(|port| port.received).sum();
        let accounted: u64 = self.wire.ports().iter().map(|port| port.sent + port.refused).sum();
        self.counts.lost = received.saturating_sub(accounted + self.counts.dropped() - self.counts.lost);
    }
}
