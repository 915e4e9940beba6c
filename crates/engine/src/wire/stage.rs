//! The loop of one wire.

use std::ops::Range;
use std::time::{Duration, Instant};

use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, WIRE_BATCH, Wire};
use flowloom_packet::{
    BATCH_PACKETS, DropReason, Headers, InterfaceName, PacketView, RawPacket, SourceError,
};

use crate::app::{Actions, Verdict};
use crate::control::{Control, Publisher, ReaderPublisher, WireSnapshot};
use crate::error::Fault;
use crate::ingest::decode::{Arrivals, Decoder, Losses};
use crate::report::decisions::DecisionCounts;
use crate::stage::clock;
use crate::stage::panics::caught;
use crate::stage::shutdown::Halt;
use crate::wire::options::{NoFlow, OnPanic, WireOptions};
use crate::worker::process::{Burst, FlowStage, Packets};

const _: () = assert!(WIRE_BATCH <= BATCH_PACKETS, "a batch of a wire is one burst");

/// The interval at which flows end while no frame arrives, and the maximum wait for a frame.
const TICK: Duration = Duration::from_nanos(TICK_NS);
const TICK_NS: u64 = 100_000_000;
/// Number of polls for a frame before the first wait; a wait costs more than several polls.
const LOOKS: u32 = 16;

/// The frames of the current burst.
#[derive(Debug, Default)]
pub(super) struct Batch {
    raw: Vec<RawPacket>,
    stamps: Vec<u64>,
    decisions: Vec<Decision>,
    /// The frame of each packet of the burst.
    frames: Vec<usize>,
    /// The headers of each frame that has a flow.
    headers: [Option<Headers>; WIRE_BATCH],
    answer: Vec<u8>,
    /// Answers to frames, by the port that sends them.
    answers: Vec<(u16, Vec<u8>)>,
    actions: Actions,
    /// Frames to change before they leave.
    rewrites: Vec<(usize, Rewrite, Headers)>,
}

/// All stages of one wire.
pub(super) struct WireStage<'a, W> {
    pub(super) wire: W,
    pub(super) decoder: Decoder,
    pub(super) stage: FlowStage<'a>,
    pub(super) burst: Burst,
    pub(super) options: WireOptions,
    /// The time at which the application could last send frames of its own.
    pub(super) spoken_ns: Option<u64>,
    pub(super) arrivals: Arrivals,
    pub(super) losses: Losses,
    pub(super) counts: DecisionCounts,
    pub(super) batch: Batch,
    pub(super) published: (ReaderPublisher<'a>, Publisher<'a>),
}

impl<W: Wire> WireStage<'_, W> {
    /// Forwards frames until the run is stopped or fails. Returns whether it was stopped, and the
    /// error if it failed.
    pub(super) fn run(&mut self, control: &Control, halt: &Halt, worker: usize) -> (bool, Option<Fault>) {
        let fault = match caught(|| self.pass(control, halt)) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Fault::Source { packets: self.arrivals.packets(), error }),
            Err(message) => {
                let runner = &self.stage.runner;
                let (packet, processed) = (runner.at(), runner.tally.counters.processed);
                let packet = packet.map(|number| number + 1);
                Some(Fault::WorkerPanicked { worker, packet, processed, message })
            }
        };
        if fault.is_some() {
            halt.halt();
            self.lose();
        }
        // Frames that the wire missed before it failed or stopped count too. A wire that panics
        // here has no count to give.
        let _ = caught(|| self.count_withheld());
        self.publish();
        self.publish_wire();
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
            self.count_withheld();
            if frames > 0 {
                idle = 0;
                self.process(frames)?;
                self.publish();
                last = clock::now();
            } else if is_closed {
                return self.wire.finish();
            }
            let now = if frames > 0 { last } else { clock::now() };
            if now.duration_since(ticked) >= TICK {
                ticked = now;
                // While few frames arrive, they alone would end few flows.
                self.tick(last, now);
                self.publish();
                self.publish_wire();
            }
            if frames > 0 {
                continue;
            }
            idle += 1;
            if idle > LOOKS {
                self.wire.wait(TICK)?;
            }
        }
    }

    fn count_withheld(&mut self) {
        self.arrivals.withhold(self.losses.withhold(&self.wire.withheld()));
    }

    /// Ends flows according to the time since the last frame, and sends their records.
    fn tick(&mut self, last: Instant, now: Instant) {
        let silent_ns = u64::try_from(now.duration_since(last).as_nanos()).unwrap_or(u64::MAX);
        let time_ns = self.arrivals.now_ns().saturating_add(silent_ns);
        if self.arrivals.packets() > 0 {
            self.stage.pass_time(time_ns);
            self.speak(time_ns);
        } else {
            self.stage.flows.flush_if_requested();
            self.speak(0);
        }
    }

    /// Lets the application send frames of its own.
    fn speak(&mut self, time_ns: u64) {
        self.spoken_ns = (self.arrivals.packets() > 0).then_some(time_ns);
        let Self { wire, stage, counts, batch, .. } = self;
        let actions = &mut batch.actions;
        stage.runner.decider().on_wire_time(time_ns, actions);
        actions.rewrite = None;
        for (port, bytes) in actions.emitted.drain(..) {
            counts.emitted += u64::from(wire.emit(port, &bytes));
        }
    }

    /// Judges the frames of a batch, and sends them.
    fn process(&mut self, frames: usize) -> Result<(), SourceError> {
        // After a silence, flows that it has ended must not judge the first frame.
        let (stamped_ns, now_ns) = (self.wire.frame(0).time_ns, self.arrivals.now_ns());
        let first_ns = if now_ns == 0 { stamped_ns } else { self.arrivals.without_packet(stamped_ns) };
        if self.arrivals.packets() > 0 && first_ns >= now_ns + TICK_NS {
            self.stage.pass_time(first_ns);
        }
        let first = self.arrive(frames);
        if self.spoken_ns.is_none_or(|spoken_ns| first_ns >= spoken_ns.saturating_add(TICK_NS)) {
            self.speak(first_ns);
        }
        let mut next = 0;
        // Packets before a frame that the application is asked about reach it earlier.
        while let Some((i, reason)) = self.decode(first, next..frames) {
            self.judge(first);
            self.ask(i, reason);
            next = i + 1;
        }
        self.judge(first);
        let Self { wire, stage, counts, batch, .. } = self;
        let Batch { raw, decisions, answers, actions, rewrites, .. } = batch;
        if let Some(last) = raw.last() {
            stage.runner.expire(&mut *stage.flows, last.time_ns);
        }
        for (i, rewrite, headers) in rewrites.drain(..) {
            if decisions[i] != Decision::Drop && !wire.rewrite(i, &rewrite, &headers) {
                decisions[i] = Decision::Drop;
                counts.not_rewritten += 1;
                counts.passed -= 1;
            }
        }
        for (port, bytes) in answers.drain(..) {
            counts.answered += u64::from(wire.emit(port, &bytes));
        }
        for (port, bytes) in actions.emitted.drain(..) {
            counts.emitted += u64::from(wire.emit(port, &bytes));
        }
        let settled = wire.settle(decisions);
        decisions.clear();
        settled
    }

    /// Counts the frames of a batch. Returns the number of the first.
    fn arrive(&mut self, frames: usize) -> u64 {
        let Self { wire, arrivals, batch, .. } = self;
        let Batch { raw, stamps, decisions, .. } = batch;
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
        let first = arrivals.count(raw, stamps, |i, _| wire.frame(i).bytes);
        decisions.clear();
        decisions.resize(frames, Decision::Drop);
        first
    }

    /// Fills the burst with packets of these frames, and decides about frames without a flow. It
    /// stops after a frame about which the application is asked, and returns its index with the
    /// reason why it has no flow.
    fn decode(&mut self, first: u64, frames: Range<usize>) -> Option<(usize, DropReason)> {
        let Self { wire, decoder, stage, burst, options, losses, counts, batch, .. } = self;
        let Batch { raw, stamps, decisions, frames: of_burst, headers: headers_of, .. } = batch;
        of_burst.clear();
        let mut asked = None;
        for i in frames {
            let raw = &raw[i];
            let (at, census) = ((first + i as u64, raw, stamps[i]), &mut losses.census);
            let admitted = decoder.admit(at, wire.frame(i).bytes, 0, census, |headers, hash, place| {
                burst.push(hash.table, headers, place);
                headers_of[i] = Some(*headers);
            });
            let Err(reason) = admitted else {
                of_burst.push(i);
                continue;
            };
            losses.refuse(reason, raw.link);
            decisions[i] = match options.no_flow.for_reason(reason) {
                NoFlow::Pass => counts.without_flow(Decision::Pass),
                NoFlow::Drop => counts.without_flow(Decision::Drop),
                NoFlow::Ask => {
                    asked = Some((i, reason));
                    break;
                }
            };
        }
        stage.flows.prefetch(burst.hashes_from(0));
        asked
    }

    /// Asks the application about a frame without a flow.
    fn ask(&mut self, i: usize, reason: DropReason) {
        let Self { wire, stage, options, counts, batch, .. } = self;
        let Batch { decisions, actions, .. } = batch;
        let frame = wire.frame(i);
        let mut ask = || stage.runner.decider().on_frame_without_flow(&frame, reason, actions);
        let decided = if options.on_panic == OnPanic::Stop { Ok(ask()) } else { caught(ask) };
        let rewrites = actions.rewrite.take().is_some();
        decisions[i] = match decided {
            Err(_) => counts.at_panic(options.on_panic == OnPanic::Pass),
            Ok(decision) if rewrites && decision != Decision::Drop => {
                counts.not_rewritten += 1;
                Decision::Drop
            }
            Ok(decision) => counts.without_flow(decision),
        };
    }

    /// Runs the application on the packets of the burst.
    fn judge(&mut self, first: u64) {
        let Self { wire, stage, burst, options, counts, batch, .. } = self;
        let FlowStage { runner, flows } = stage;
        let Batch {
            raw,
            decisions,
            frames: of_burst,
            headers: headers_of,
            answer,
            answers,
            actions,
            rewrites,
            ..
        } = batch;
        let refuses = options.refusal != flowloom_packet::refusal::Refusal::Silent;
        let (keys, hashes) = burst.take();
        let mut begin = 0;
        while begin < keys.len() {
            let done = runner.tally.counters.done();
            let of_rest = &of_burst[begin..];
            let mut work = || {
                let view = |nth: usize| {
                    let i = of_rest[nth];
                    let headers = headers_of[i].unwrap_or_else(|| unreachable!("the frame was decoded"));
                    let view = PacketView::of_frame(&wire.frame(i), headers, raw[i].time_ns);
                    (first + i as u64, view)
                };
                runner.work(
                    &mut **flows,
                    (&keys[begin..], &hashes[begin..]),
                    &Packets::Each(&view),
                    Some(&mut |app, nth, view, outcome| {
                        let i = of_rest[nth];
                        let decision = match outcome {
                            Some(verdict) => app.decide(view, verdict, actions),
                            None if options.table_full == Verdict::Accept => Decision::Pass,
                            None => Decision::Drop,
                        };
                        if let Some(rewrite) = actions.rewrite.take() {
                            rewrites.push((i, rewrite, view.headers));
                        }
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
                    }),
                );
            };
            if options.on_panic == OnPanic::Stop {
                work();
                return;
            }
            let Err(message) = caught(work) else { return };
            // A panic outside the application is a fault of the engine.
            let Some(number) = runner.recover() else { panic!("{message}") };
            let Some(nth) = of_burst.iter().position(|&i| first + i as u64 == number) else { return };
            actions.rewrite = None;
            flows.discard(&keys[nth], hashes[nth]);
            decisions[of_burst[nth]] = counts.at_panic(options.on_panic == OnPanic::Pass);
            if runner.tally.counters.done() - done == (nth - begin) as u64 {
                runner.tally.counters.dropped.count(DropReason::WorkerLost);
            }
            begin = nth + 1;
        }
    }

    /// Publishes the counts that other threads need less often.
    fn publish_wire(&self) {
        let (flows, table) = (self.stage.flows.counts(), self.stage.flows.occupancy());
        self.published.1.publish_wire(WireSnapshot {
            ports: self.wire.ports(),
            decisions: self.counts,
            flows_active: table.flows,
            flows_capacity: table.capacity,
            flows_begun: flows.begun,
            ended_idle: flows.expired,
            ended_by_application: flows.split,
            ended_evicted: flows.evicted,
            ended_at_panic: flows.discarded,
            table_bytes: table.bytes,
        });
    }

    fn publish(&mut self) {
        // Publish taken packets first, so that completed packets never exceed them.
        let (reader, worker) = &mut self.published;
        reader.publish(self.arrivals.packets(), self.losses.dropped());
        worker.publish(&self.stage.runner.tally);
    }

    /// Settles the counts after a panic or an error of the wire; the rest of the batch is lost.
    fn lose(&mut self) {
        let counters = &mut self.stage.runner.tally.counters;
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
