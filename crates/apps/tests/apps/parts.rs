//! Every application has the same results on parts of an input, divided anywhere, as on the whole
//! input.

use std::sync::Arc;

use flowloom_apps::accounting::LabelledAccounting;
use flowloom_apps::accounting::fields::{AllFields, DetailedAccounting};
use flowloom_apps::firewall::{Defaults, Firewall, FirewallOptions, FirewallRules, LiveRules};
use flowloom_apps::{Accounting, L7Options, L7Plan, Null, TcpTracker};
use flowloom_classifier::{Action, ClassifierBuilder, PortRange, Rule, RuleSet};
use flowloom_dpi::builtin;
use flowloom_engine::{
    App, Control, Cores, EngineConfig, IdleTimeout, Layout, PartSource, PartitionedSource, RunReport,
    run_sharded,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{DHash, DHashConfig, Timeouts};
use flowloom_packet::{Fill, PacketBatch, PacketSource, SourceError};
use flowloom_traffic::synth::MixConfig;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Memory, go, values};

/// Packets in memory, in parts. The engine reads a part again if its assumed beginning is wrong.
struct Cuts<'a> {
    memory: &'a Memory,
    /// Where each part ends.
    ends: Vec<usize>,
    /// The assumed beginning of each part.
    begins: Vec<usize>,
}

impl<'a> Cuts<'a> {
    /// Cuts at these positions, each modulo the number of packets.
    fn new(memory: &'a Memory, cuts: &[usize], wrong: Option<usize>) -> Self {
        let packets = memory.len();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (packets + 1)).collect();
        ends.sort_unstable();
        ends.push(packets);
        let mut begins: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
        begins.pop();
        if let Some(wrong) = wrong {
            let at = wrong % begins.len();
            if at > 0 {
                begins[at] = (begins[at] + 1 + wrong).min(ends[at]);
            }
        }
        Self { memory, ends, begins }
    }
}

struct Part {
    memory: Memory,
    begin: usize,
}

impl PacketSource for Part {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.memory.next_batch(batch)
    }
}

impl PartSource for Part {
    type Read = (usize, usize);

    fn finish(self) -> (usize, usize) {
        (self.begin, self.memory.at())
    }
}

impl PartitionedSource for Cuts<'_> {
    type Boundary = usize;
    type Read = (usize, usize);
    type Part = Part;

    fn parts(&self) -> usize {
        self.ends.len()
    }

    fn open(&self, part: usize) -> Result<Part, SourceError> {
        self.open_at(part, self.begins[part])
    }

    fn open_at(&self, part: usize, begin: usize) -> Result<Part, SourceError> {
        Ok(Part { memory: self.memory.between(begin, self.ends[part]), begin })
    }

    fn begin(&self, &(begin, _): &(usize, usize)) -> usize {
        begin
    }

    fn unconfirmed(&self, reads: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let ends = std::iter::once(0).chain(reads.iter().map(|&(_, end)| end));
        let wrong = reads.iter().zip(ends).enumerate().filter(|(_, ((begin, _), end))| begin != end);
        wrong.map(|(part, (_, end))| (part, end)).collect()
    }
}

/// Runs an application on parts of the packets.
fn go_on_parts<A: App>(
    cuts: &Cuts<'_>,
    idle_ns: Option<u64>,
    packet_limit: Option<u64>,
    mut app: impl FnMut() -> A,
) -> RunReport<A::Flow> {
    let idle_timeout = idle_ns.map(IdleTimeout::from_ns);
    let config = EngineConfig {
        cores: Cores::Unpinned,
        hasher: FlowHasher::with_seed(5),
        idle_timeout,
        packet_limit,
        ..EngineConfig::new(Layout::Sharded { workers: cuts.parts() })
    };
    let timeouts = idle_timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table);
    let table =
        |_| DHash::<FlowKey, A::Flow>::try_new(&DHashConfig { timeouts, ..DHashConfig::for_flows(1000) });
    let run = run_sharded(&config, cuts, table, |_| app(), &Control::default()).unwrap();
    assert!(run.report.is_balanced() && run.report.fault.is_none(), "{:?}", run.report.fault);
    run.report
}

/// Compares all results that must not depend on the layout.
fn assert_same<A: App>(whole: &RunReport<A::Flow>, parts: &RunReport<A::Flow>) {
    let (ours, theirs): (Vec<_>, Vec<_>) = (parts.flows.iter().collect(), whole.flows.iter().collect());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(
            (ours.key, values(&ours.state)),
            (theirs.key, values(&theirs.state)),
            "of {:?}",
            parts.sharded
        );
    }
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(parts.digest(), whole.digest());
    assert_eq!(parts.input, whole.input);
    let (ours, theirs) = (parts.worker_totals(), whole.worker_totals());
    assert_eq!((ours.processed, ours.denied), (theirs.processed, theirs.denied));
    assert_eq!(ours.flows_begun, theirs.flows_begun);
}

/// Payloads: the first bytes of several protocols, and data of no protocol.
const PAYLOADS: [&[u8]; 9] = [
    b"",
    b"",
    b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03",
    b"neither of them",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0",
    b"\x03\0\0\x13\x0e\xd0\0\0\x12\x34\0\x02\x09\x08\0\x02\0\0\0",
];

/// One packet between a few hosts.
#[derive(Clone, Debug)]
struct Sent {
    host: u8,
    port: u8,
    from_low: bool,
    protocol: u8,
    flags: u8,
    payload: usize,
    sequence: u32,
    gap_ms: u64,
    back_ms: u64,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let payload = PAYLOADS[self.payload];
        let transport = if self.protocol == 6 { 20 } else { 8 };
        let ip_bytes = u16::try_from(20 + transport + payload.len()).unwrap();
        let mut frame = vec![0_u8; 14 + 20 + transport];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
        (frame[22], frame[23]) = (64, self.protocol);
        let (low, high) = ([10, 0, 0, self.host], [192, 168, 0, 1]);
        let (low_port, high_port) = ((4000 + u16::from(self.port)).to_be_bytes(), 80_u16.to_be_bytes());
        let (from, to) = if self.from_low { (low, high) } else { (high, low) };
        let (from_port, to_port) =
            if self.from_low { (low_port, high_port) } else { (high_port, low_port) };
        frame[26..30].copy_from_slice(&from);
        frame[30..34].copy_from_slice(&to);
        frame[34..36].copy_from_slice(&from_port);
        frame[36..38].copy_from_slice(&to_port);
        if self.protocol == 6 {
            frame[38..42].copy_from_slice(&self.sequence.to_be_bytes());
            frame[46] = 0x50;
            frame[47] = self.flags;
        } else {
            frame[38..40].copy_from_slice(&(ip_bytes - 20).to_be_bytes());
        }
        frame.extend_from_slice(payload);
        frame
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![
        6 => Just(16_u8), 2 => Just(2), 2 => Just(18), 2 => Just(17), 1 => Just(4),
        1 => Just(0), 1 => Just(1), 1 => Just(19), 1 => Just(3), 1 => any::<u8>(),
    ];
    let protocol = prop_oneof![5 => Just(6_u8), 1 => Just(17)];
    let gap = prop_oneof![6 => 0..20_u64, 1 => 0..3_000_u64];
    let back = prop_oneof![12 => Just(0_u64), 1 => 0..500_u64];
    ((0..2_u8, 0..2_u8, any::<bool>(), protocol), (flags, 0..PAYLOADS.len(), 0..60_u32, gap, back))
        .prop_map(|((host, port, from_low, protocol), (flags, payload, sequence, gap_ms, back_ms))| Sent {
            host,
            port,
            from_low,
            protocol,
            flags,
            payload,
            sequence,
            gap_ms,
            back_ms,
        })
}

fn memory(packets: &[Sent]) -> Memory {
    let mut now_ms = 1_000_000;
    let frames = packets.iter().map(|packet| {
        now_ms += packet.gap_ms;
        ((now_ms - packet.back_ms) * 1_000_000, packet.frame())
    });
    Memory::of_frames(frames)
}

fn rules() -> RuleSet {
    let from = |port: u16, action| Rule {
        action: Some(action),
        source_ports: PortRange::exact(port),
        ..Rule::ANY
    };
    RuleSet::new(vec![from(4000, Action::Accept), from(80, Action::Deny)]).unwrap()
}

fn check(memory: &Memory, cuts: &Cuts<'_>, idle_ns: Option<u64>, active_ns: Option<u64>) {
    assert_same::<Null>(
        &go(memory, Layout::Inline, idle_ns, || Null),
        &go_on_parts(cuts, idle_ns, None, || Null),
    );
    let whole = go(memory, Layout::Inline, idle_ns, || TcpTracker);
    assert_same::<TcpTracker>(&whole, &go_on_parts(cuts, idle_ns, None, || TcpTracker));
    let app = || Accounting::new(active_ns);
    assert_same::<Accounting>(
        &go(memory, Layout::Inline, idle_ns, app),
        &go_on_parts(cuts, idle_ns, None, app),
    );
    for options in [
        FirewallOptions::default(),
        FirewallOptions { strict_tcp: true, ..FirewallOptions::default() },
        FirewallOptions { per_packet: true, ..FirewallOptions::default() },
    ] {
        let live = || {
            let rules =
                FirewallRules::build(rules(), Defaults::default(), ClassifierBuilder::new()).unwrap();
            Arc::new(LiveRules::new(rules))
        };
        let (of_whole, of_parts) = (live(), live());
        let whole = go(memory, Layout::Inline, idle_ns, || Firewall::new(Arc::clone(&of_whole), options));
        let parts = go_on_parts(cuts, idle_ns, None, || Firewall::new(Arc::clone(&of_parts), options));
        assert_same::<Firewall>(&whole, &parts);
        assert_eq!(of_parts.counts(), of_whole.counts(), "{options:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn parts_cut_anywhere_give_the_results_of_the_whole(
        packets in vec(sent(), 1..120),
        cuts in vec(any::<usize>(), 1..6),
        wrong in prop::option::of(0..20_usize),
        idle_ms in prop::option::of(10..2_000_u64),
        active_ms in prop::option::of(10..2_000_u64),
    ) {
        let memory = memory(&packets);
        let cuts = Cuts::new(&memory, &cuts, wrong);
        check(&memory, &cuts, idle_ms.map(|ms| ms * 1_000_000), active_ms.map(|ms| ms * 1_000_000));
    }

    #[test]
    fn a_limit_ends_parts_where_it_ends_the_whole(
        packets in vec(sent(), 1..80),
        cuts in vec(any::<usize>(), 1..4),
        limit in 1..90_u64,
    ) {
        let memory = memory(&packets);
        let cuts = Cuts::new(&memory, &cuts, None);
        let first = memory.between(0, memory.len().min(usize::try_from(limit).unwrap()));
        let whole = go(&first, Layout::Inline, None, || TcpTracker);
        assert_same::<TcpTracker>(&whole, &go_on_parts(&cuts, None, Some(limit), || TcpTracker));
    }
}

#[test]
fn protocols_are_named_as_in_the_whole_also_where_a_scan_is_cut() {
    let plan = L7Plan::new(&builtin(), L7Options::default()).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
    let cases = (vec(sent(), 1..120), vec(any::<usize>(), 1..5), prop::option::of(10..2_000_u64));
    runner
        .run(&cases, |(packets, cuts, idle_ms)| {
            let memory = memory(&packets);
            let cuts = Cuts::new(&memory, &cuts, None);
            let idle_ns = idle_ms.map(|ms| ms * 1_000_000);
            let whole = go(&memory, Layout::Inline, idle_ns, || plan.app());
            let parts = go_on_parts(&cuts, idle_ns, None, || plan.app());
            assert_same::<flowloom_apps::L7Filter>(&whole, &parts);
            Ok(())
        })
        .unwrap();
}

#[test]
fn records_with_fields_and_labels_are_those_of_the_whole_wherever_it_is_cut() {
    let plan = L7Plan::new(&builtin(), L7Options::default()).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(48));
    let timeout = || prop::option::of(10..2_000_u64);
    let cases = (vec(sent(), 1..120), vec(any::<usize>(), 1..5), timeout(), timeout());
    runner
        .run(&cases, |(packets, cuts, idle_ms, active_ms)| {
            let memory = memory(&packets);
            let cuts = Cuts::new(&memory, &cuts, None);
            let [idle_ns, active_ns] = [idle_ms, active_ms].map(|ms| ms.map(|ms| ms * 1_000_000));
            let detailed = DetailedAccounting::<AllFields>::new(Accounting::new(active_ns));
            let whole = go(&memory, Layout::Inline, idle_ns, || detailed.clone());
            let parts = go_on_parts(&cuts, idle_ns, None, || detailed.clone());
            assert_same::<DetailedAccounting<AllFields>>(&whole, &parts);
            let app = || LabelledAccounting::new(detailed.clone(), &plan);
            let whole = go(&memory, Layout::Inline, idle_ns, app);
            assert_same::<LabelledAccounting<AllFields>>(&whole, &go_on_parts(&cuts, idle_ns, None, app));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_generated_mixture_is_composed_without_packets_being_needed_again() {
    let memory = Memory::of(MixConfig { packets: 20_000, flows: 700, ..MixConfig::default() });
    let cuts = Cuts::new(&memory, &[3_000, 9_000, 9_001, 14_000], None);
    check(&memory, &cuts, Some(2_000_000), None);
    let report = go_on_parts(&cuts, None, None, || TcpTracker).sharded.unwrap();
    assert_eq!((report.parts, report.parts_reread, report.flows_reprocessed), (5, 0, 0));
    assert!(report.flows_joined > 500, "{report:?}");
}
