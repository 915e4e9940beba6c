//! Appliances: under any failure, every frame leaves or is dropped for a counted reason.

use std::time::Duration;

use flowloom_engine::record::{Column, Kind, Value};
use flowloom_engine::{
    Actions, App, Control, Fault, FlowState, IdleTimeout, Layout, NoFlow, NoFlowPolicy, OnPanic, Verdict,
    WireOptions, WireRun, run, run_wires,
};
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{DHash, TableOptions};
use flowloom_packet::refusal::Refusal;
use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, Frame, PortCounts, WIRE_BATCH, Wire};
use flowloom_packet::{DropCounts, DropReason, Headers, PacketView, SourceError};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::{Generate, Mix};
use proptest::prelude::*;

use crate::common::{Memory, Recorder, Seen, config, mix, small_table, table};

/// Frames in memory; the wire stops the run after all have arrived.
struct List<'a> {
    frames: &'a [(u64, Vec<u8>)],
    at: usize,
    batch: usize,
    control: &'a Control,
    fail_at: Option<usize>,
    missed: u64,
    /// Frames missed after the last that arrived.
    missed_late: u64,
    silent: Duration,
    counts: [PortCounts; 2],
    left: Vec<(usize, usize)>,
    emitted: usize,
}

impl<'a> List<'a> {
    fn new(frames: &'a [(u64, Vec<u8>)], control: &'a Control) -> Self {
        Self {
            frames,
            at: 0,
            batch: 0,
            control,
            fail_at: None,
            missed: 0,
            missed_late: 0,
            silent: Duration::ZERO,
            counts: [PortCounts::default(); 2],
            left: Vec::new(),
            emitted: 0,
        }
    }
}

impl Wire for List<'_> {
    fn receive(&mut self) -> Result<usize, SourceError> {
        if self.fail_at.is_some_and(|at| self.at >= at) {
            self.missed += std::mem::take(&mut self.missed_late);
            return Err(SourceError("injected failure".into()));
        }
        self.batch = (self.frames.len() - self.at).min(1 + self.at % WIRE_BATCH);
        self.counts[self.at & 1].received += self.batch as u64;
        Ok(self.batch)
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        let (time_ns, bytes) = &self.frames[self.at + index];
        Frame::ethernet(bytes, (self.at & 1) as u16, *time_ns)
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        assert_eq!(decisions.len(), self.batch, "a decision for each frame");
        for (index, decision) in decisions.iter().enumerate() {
            let to = match decision {
                Decision::Drop => continue,
                Decision::Pass | Decision::Mirror(_) => self.at & 1 ^ 1,
                Decision::To(port) => usize::from(*port),
            };
            self.counts[to].sent += 1;
            self.left.push((self.at + index, to));
        }
        self.at += std::mem::take(&mut self.batch);
        Ok(())
    }

    fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
        // Every other frame resists.
        let mut frame = self.frames[self.at + index].1.clone();
        (self.at + index).is_multiple_of(2) && rewrite.apply(&mut frame, headers, None)
    }

    fn emit(&mut self, port: u16, _bytes: &[u8]) -> bool {
        self.emitted += 1;
        self.counts[usize::from(port)].added += 1;
        true
    }

    fn wait(&mut self, at_most: Duration) -> Result<(), SourceError> {
        // Time passes until the silence is over.
        std::thread::sleep(at_most.min(self.silent));
        self.silent = self.silent.saturating_sub(at_most);
        if self.silent.is_zero() {
            self.control.stop();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        self.missed += std::mem::take(&mut self.missed_late);
        Ok(())
    }

    fn ports(&self) -> Vec<PortCounts> {
        self.counts.to_vec()
    }

    fn withheld(&mut self) -> DropCounts {
        let mut counts = DropCounts::default();
        counts.add(DropReason::InterfaceFull, std::mem::take(&mut self.missed));
        counts
    }
}

/// Frames of a mix, with an ARP frame before each `every`th.
fn frames(packets: u64, flows: u64, every: usize) -> Vec<(u64, Vec<u8>)> {
    let mut mix = Mix::new(mix(packets, flows)).unwrap();
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while let Some(meta) = mix.next_into(&mut frame) {
        if every > 0 && frames.len() % every == 0 {
            let mut arp = vec![0xFF; 12];
            arp.extend([8, 6]);
            arp.resize(60, 0);
            frames.push((meta.time_ns, arp));
        }
        frames.push((meta.time_ns, frame.clone()));
    }
    frames
}

fn run_one<A: App<Flow = Seen>>(
    wire: List<'_>,
    options: &WireOptions,
    app: impl FnMut(usize) -> A,
) -> WireRun<Seen> {
    let control = wire.control;
    run_wires(&config(Layout::Inline), options, vec![wire], |_| small_table(), app, control, None).unwrap()
}

#[test]
fn the_flows_of_a_wire_are_those_of_the_same_packets_in_a_capture() {
    let control = Control::default();
    let given = frames(6000, 400, 10);
    let ran = run_one(List::new(&given, &control), &WireOptions::default(), |_| Recorder::default());
    assert!(ran.report.fault.is_none() && ran.report.interrupted);
    assert!(ran.is_balanced() && ran.report.is_balanced(), "{ran:?}");
    let mut source = Memory::new(mix(6000, 400));
    let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
    let snapshot = control.snapshot();
    let control = Control::default();
    let app = |_| Recorder::default();
    let expected =
        run(&config(Layout::Inline), &mut source, &mut policy, |_| small_table(), app, &control).unwrap();
    assert_eq!(ran.report.digest(), expected.digest());
    // The mix has packets without a flow too.
    let processed = expected.processed();
    let others = given.len() as u64 - processed;
    assert_eq!((ran.decisions.passed, ran.decisions.passed_without_flow), (processed, others));
    assert_eq!((snapshot.packets, snapshot.processed), (given.len() as u64, processed));
}

/// Denies, redirects and mirrors by the port of the flow.
struct Router(Decision);

impl App for Router {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, _flow: &mut Seen) -> Verdict {
        let number = packet.headers.tuple().source_port % 4;
        self.0 =
            [Decision::Pass, Decision::Drop, Decision::To(0), Decision::Mirror(1)][usize::from(number)];
        if number == 1 { Verdict::Deny } else { Verdict::Accept }
    }

    fn decide(&mut self, packet: &PacketView<'_>, _verdict: Verdict, actions: &mut Actions) -> Decision {
        let number = packet.headers.tuple().source_port;
        if number.is_multiple_of(3) {
            actions.rewrite(Rewrite::new().source_port(number));
        }
        if number.is_multiple_of(5) {
            actions.emit(0, vec![0; 60]);
        }
        self.0
    }

    fn on_frame_without_flow(
        &mut self,
        frame: &Frame<'_>,
        reason: DropReason,
        actions: &mut Actions,
    ) -> Decision {
        if frame.time_ns.is_multiple_of(3) {
            actions.rewrite(Rewrite::new());
        }
        assert_eq!(reason, DropReason::NotIp);
        if frame.time_ns.is_multiple_of(2) { Decision::Pass } else { Decision::Drop }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_frame_is_accounted_for_whatever_fails(
        packets in 1_u64..2000, every in 0_usize..9, missed in 0_u64..50,
        missed_late in 0_u64..50, ask: bool, refuse: bool,
        fail_at in prop::option::of(0_usize..2500), panic_at in prop::option::of(1_u64..2500)
    ) {
        let control = Control::default();
        let given = frames(packets, packets.min(50), every);
        let mut wire = List::new(&given, &control);
        (wire.fail_at, wire.missed, wire.missed_late) = (fail_at, missed, missed_late);
        let options = WireOptions {
            no_flow: NoFlowPolicy::all(if ask { NoFlow::Ask } else { NoFlow::Drop }),
            refusal: if refuse { Refusal::Reset } else { Refusal::Silent },
            ..WireOptions::default()
        };
        let ran = if panic_at.is_some() {
            run_one(wire, &options, |_| Recorder { panic_at, ..Recorder::default() })
        } else {
            run_one(wire, &options, |_| Router(Decision::Drop))
        };
        prop_assert!(ran.is_balanced() && ran.report.is_balanced(), "{:?}", ran);
        let failed = fail_at.is_some_and(|at| at <= given.len());
        match &ran.report.fault {
            None => prop_assert!(!failed && ran.report.interrupted),
            Some(Fault::Source { .. }) => prop_assert!(failed),
            Some(Fault::WorkerPanicked { .. }) => prop_assert!(panic_at.is_some()),
            Some(other) => prop_assert!(false, "{}", other),
        }
        let received: u64 = ran.ports.iter().map(|port| port.received).sum();
        let panicked = matches!(ran.report.fault, Some(Fault::WorkerPanicked { .. }));
        let missed = missed + if panicked { 0 } else { missed_late };
        prop_assert_eq!(ran.report.input.packets, received + missed);
        let answers: u64 = ran.ports.iter().map(|port| port.added).sum();
        prop_assert_eq!(ran.decisions.answered + ran.decisions.emitted, answers);
        if !refuse {
            prop_assert_eq!(ran.decisions.answered, 0);
        }
    }
}

#[test]
fn idle_flows_end_while_no_frame_comes() {
    let control = Control::default();
    let given = frames(500, 40, 0);
    let mut wire = List::new(&given, &control);
    wire.silent = Duration::from_millis(900);
    let timeout = Some(IdleTimeout::from_ns(200_000_000));
    let mut config = config(Layout::Inline);
    config.idle_timeout = timeout;
    let (options, app) = (WireOptions::default(), |_| Recorder::default());
    let ran =
        run_wires(&config, &options, vec![wire], |_| table(2000, timeout), app, &control, None).unwrap();
    let totals = ran.report.worker_totals();
    assert_eq!(totals.flows_expired, ran.report.flows.len() as u64, "all have ended by their timeout");
    assert_eq!(ran.report.timed_out_at_end, 0, "and before the end of the run");
}

/// A connection that has packets in both directions remains.
#[derive(Debug, Default)]
struct Answered([u64; 2]);

impl FlowState for Answered {
    const COLUMNS: &'static [Column] = &[Column::new("packets", Kind::Packets, "")];
    const EVICTABLE: bool = true;

    fn values(&self, out: &mut Vec<Value>) {
        out.push(Value::Number(self.0.iter().sum()));
    }

    fn is_established(&self) -> bool {
        self.0.iter().all(|packets| *packets > 0)
    }
}

struct Handshakes;

impl App for Handshakes {
    type Flow = Answered;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Answered) -> Verdict {
        flow.0[packet.headers.direction as usize] += 1;
        Verdict::Accept
    }
}

/// A datagram from or to a client, by its number.
fn datagram(client: u32, is_reply: bool) -> Vec<u8> {
    let ([a, b, c, d], server) = ((0x0A00_0000 + client).to_be_bytes(), [192, 0, 2, 1]);
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    let ends = [([a, b, c, d], [4, 0]), (server, [0, 53])];
    let (from, to) = if is_reply { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
    for part in [&from.0[..], &to.0, &from.1, &to.1, &[0, 8, 0, 0]] {
        frame.extend(part);
    }
    frame
}

#[test]
fn syn_flood_evicts_no_answered_flow_and_blocks_no_new_one() {
    // A table of 1,000 flows contains 300 answered flows; 20,000 openings flood it, and 300 new
    // clients are still answered immediately.
    let mut given = Vec::new();
    let mut push = |frame| given.push((1_000_000_000 + given.len() as u64 * 1000, frame));
    for client in 0..300 {
        push(datagram(client, false));
        push(datagram(client, true));
    }
    for number in 0..20_000 {
        push(datagram(100_000 + number, false));
        if number % 67 == 0 {
            push(datagram(1000 + number, false));
            push(datagram(1000 + number, true));
        }
    }
    for client in 0..300 {
        push(datagram(client, false));
    }
    let control = Control::default();
    let table = |_| DHash::<FlowKey, Answered>::try_new(&TableOptions::for_flows(1000));
    let (wire, options) = (List::new(&given, &control), WireOptions::default());
    let ran =
        run_wires(&config(Layout::Inline), &options, vec![wire], table, |_| Handshakes, &control, None)
            .unwrap();
    assert!(ran.is_balanced() && ran.report.fault.is_none());
    let full = ran.report.dropped().get(DropReason::TableFull);
    assert_eq!((full, ran.decisions.dropped_at_full_table), (0, 0), "every opening finds a place");
    let evicted = ran.report.worker_totals().flows_evicted;
    assert!(evicted > 19_000, "{evicted} were evicted");
    let answered =
        |record: &flowloom_engine::FlowRecord<Answered>| record.state.0.iter().all(|packets| *packets > 0);
    let longest = ran.report.flows.iter().filter(|record| record.state.0.iter().sum::<u64>() == 3).count();
    assert_eq!(longest, 300, "the flows from before the flood have lasted");
    assert_eq!(ran.report.flows.iter().filter(|record| answered(record)).count(), 599);
}

/// Panics at the packets of some flows, at other flows after its verdict, and at some frames
/// without a flow.
struct Fragile;

impl App for Fragile {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        flow.packets += 1;
        assert!(!packet.headers.tuple().source_port.is_multiple_of(7), "injected panic");
        Verdict::Accept
    }

    fn decide(&mut self, packet: &PacketView<'_>, _verdict: Verdict, actions: &mut Actions) -> Decision {
        actions.rewrite(Rewrite::new());
        assert!(packet.headers.tuple().source_port % 7 != 1, "injected panic");
        Decision::Pass
    }

    fn on_frame_without_flow(&mut self, frame: &Frame<'_>, _: DropReason, _: &mut Actions) -> Decision {
        assert!(frame.time_ns.is_multiple_of(2), "injected panic");
        Decision::Pass
    }
}

/// Sends a frame each time that it may, and lists these times.
struct Asking<'a>(&'a std::sync::Mutex<Vec<u64>>);

impl App for Asking<'_> {
    type Flow = Seen;

    fn on_packet(&mut self, _: &PacketView<'_>, _: &mut Seen) -> Verdict {
        Verdict::Accept
    }

    fn on_wire_time(&mut self, time_ns: u64, actions: &mut Actions) {
        self.0.lock().unwrap().push(time_ns);
        actions.emit(1, vec![7; 60]);
    }
}

/// Panics at each frame without a flow, after it has asked for a change of the frame.
struct Failing;

impl App for Failing {
    type Flow = Seen;

    fn on_packet(&mut self, _: &PacketView<'_>, _: &mut Seen) -> Verdict {
        Verdict::Accept
    }

    fn on_frame_without_flow(&mut self, _: &Frame<'_>, _: DropReason, to: &mut Actions) -> Decision {
        to.rewrite(Rewrite::new().destination_port(9));
        panic!("injected panic")
    }
}

/// Panics when it may send frames of its own.
struct Speechless;

impl App for Speechless {
    type Flow = Seen;

    fn on_packet(&mut self, _: &PacketView<'_>, _: &mut Seen) -> Verdict {
        Verdict::Accept
    }

    fn on_wire_time(&mut self, time_ns: u64, _: &mut Actions) {
        assert_eq!(time_ns, 0, "injected panic");
    }
}

#[test]
fn a_panic_while_an_application_speaks_leaves_every_frame_accounted_for() {
    std::panic::set_hook(Box::new(|_| {}));
    let given = frames(400, 20, 5);
    for on_panic in [OnPanic::Stop, OnPanic::Pass, OnPanic::Drop] {
        let options = WireOptions { on_panic, ..WireOptions::default() };
        let control = Control::default();
        let ran = run_one(List::new(&given, &control), &options, |_| Speechless);
        assert!(ran.is_balanced() && ran.report.is_balanced(), "{ran:?}");
        assert!(matches!(ran.report.fault, Some(Fault::WorkerPanicked { .. })), "{ran:?}");
    }
}

#[test]
fn a_rewrite_of_a_frame_whose_judgement_panics_changes_no_other_frame() {
    std::panic::set_hook(Box::new(|_| {}));
    let given = frames(400, 20, 5);
    let no_flow = NoFlowPolicy::all(NoFlow::Ask);
    let options = WireOptions { on_panic: OnPanic::Pass, no_flow, ..WireOptions::default() };
    let control = Control::default();
    let ran = run_one(List::new(&given, &control), &options, |_| Failing);
    assert!(ran.is_balanced() && ran.report.fault.is_none(), "{ran:?}");
    assert!(ran.decisions.passed_at_panic > 80, "{ran:?}");
    let others = given.len() as u64 - ran.decisions.passed_at_panic;
    assert_eq!((ran.decisions.not_rewritten, ran.decisions.passed), (0, others), "{ran:?}");
}

#[test]
fn an_application_sends_frames_of_its_own_ten_times_per_second() {
    let mut given = frames(400, 20, 0);
    (0..).zip(&mut given).for_each(|(i, frame)| frame.0 = 1_000_000_000 + i * 10_000_000);
    let (control, times) = (Control::default(), std::sync::Mutex::default());
    let mut list = List::new(&given, &control);
    list.silent = Duration::from_millis(350);
    let ran = run_one(list, &WireOptions::default(), |_| Asking(&times));
    let times = times.into_inner().unwrap();
    assert!(ran.is_balanced() && ran.decisions.emitted == times.len() as u64, "{ran:?}");
    // Before the first frame, at each batch (about a third of a second), and in the silence behind
    // the last one, which only the wall clock measures.
    assert!(times.is_sorted() && times.contains(&1_000_000_000), "{times:?}");
    let at_frames = times.iter().filter(|time_ns| given.iter().any(|frame| frame.0 == **time_ns)).count();
    assert!((10..=40).contains(&at_frames), "{times:?}");
}

/// Lists the times of the frames that it gets.
struct Listing<'a>(&'a std::sync::Mutex<Vec<u64>>);

impl App for Listing<'_> {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, _: &mut Seen) -> Verdict {
        self.0.lock().unwrap().push(packet.time_ns);
        Verdict::Accept
    }

    fn on_frame_without_flow(&mut self, frame: &Frame<'_>, _: DropReason, _: &mut Actions) -> Decision {
        self.0.lock().unwrap().push(frame.time_ns);
        Decision::Pass
    }
}

#[test]
fn frames_with_and_without_a_flow_reach_the_application_in_their_order() {
    let mut given = frames(3000, 200, 5);
    (0..).zip(&mut given).for_each(|(time_ns, frame)| frame.0 = time_ns);
    let (control, seen) = (Control::default(), std::sync::Mutex::default());
    let options = WireOptions { no_flow: NoFlowPolicy::all(NoFlow::Ask), ..WireOptions::default() };
    let ran = run_one(List::new(&given, &control), &options, |_| Listing(&seen));
    assert!(ran.is_balanced() && ran.decisions.passed_without_flow > 500, "{ran:?}");
    assert_eq!(seen.into_inner().unwrap(), (0..given.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_panic_costs_one_frame_and_its_flow_if_so_configured() {
    std::panic::set_hook(Box::new(|_| {}));
    let given = frames(3000, 200, 10);
    let run = |on_panic| {
        let control = Control::default();
        let no_flow = NoFlowPolicy::all(NoFlow::Ask);
        let options = WireOptions { on_panic, no_flow, ..WireOptions::default() };
        let ran = run_one(List::new(&given, &control), &options, |_| Fragile);
        assert!(ran.is_balanced() && ran.report.is_balanced(), "{ran:?}");
        (ran, control.snapshot())
    };
    let (stopped, _) = run(OnPanic::Stop);
    assert!(matches!(stopped.report.fault, Some(Fault::WorkerPanicked { .. })));
    let (dropped, snapshot) = run(OnPanic::Drop);
    let (passed, _) = run(OnPanic::Pass);
    for ran in [&dropped, &passed] {
        assert!(ran.report.fault.is_none(), "{ran:?}");
        assert_eq!(ran.report.input.packets, given.len() as u64);
        let discarded = ran.report.worker_totals().flows_discarded;
        assert!(discarded > 20, "{discarded} flows were discarded");
        assert!(ran.report.flows.iter().all(|record| record.state.packets > 0));
    }
    let count = dropped.decisions.dropped_at_panic;
    assert!(count > 300 && dropped.decisions.passed_at_panic == 0, "{count} panics");
    assert_eq!(passed.decisions.passed_at_panic, count);
    let wires = snapshot.wires.unwrap();
    assert_eq!((wires.decisions, &wires.ports), (dropped.decisions, &dropped.ports));
    let live = wires.flows_begun - wires.ended_at_panic;
    assert_eq!((wires.flows_active, live), (live, dropped.report.flows.len() as u64));
}
