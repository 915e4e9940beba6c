//! Parts of an input that separate runs have processed merge into the results of one run, or are
//! refused.

use flowloom_apps::{Accounting, Null, SaveState, TcpTracker};
use flowloom_engine::{
    App, Composed, Control, Cores, Endpoints, EngineConfig, FlowRecord, IdleTimeout, Layout, MergeError,
    MergedParts, PartRecord, RunReport, SavedPart, merge_parts, run_with,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{DHash, TableOptions, Timeouts};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::MixConfig;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Memory, values};
use crate::traffic::{memory, sent};

/// Runs an application over packets, and also returns the saved form of the part.
fn part<A: App<Flow: SaveState>>(
    memory: &Memory,
    layout: Layout,
    idle_timeout: Option<IdleTimeout>,
    app: impl Fn() -> A,
) -> (RunReport<A::Flow>, SavedPart<A::Flow>) {
    let config = EngineConfig {
        cores: Cores::Unpinned,
        hasher: FlowHasher::with_seed(5),
        idle_timeout,
        chunk_packets: 64,
        threads_after_packets: 0,
        ..EngineConfig::new(layout)
    };
    let timeouts = idle_timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table);
    let table =
        |_| DHash::<FlowKey, A::Flow>::try_new(&TableOptions { timeouts, ..TableOptions::for_flows(2000) });
    let (mut source, control) = (memory.clone(), Control::default());
    let mut policy = DirectHash::new(WorkerCount::new(layout.workers()).unwrap());
    let mut records = Vec::new();
    let mut save = |record: &FlowRecord<A::Flow>, ticks: [u64; 2], is_live: bool| {
        let mut bytes = Vec::new();
        record.state.save(&mut bytes);
        let state = SaveState::load(&bytes).unwrap();
        records.push(PartRecord::new(record.key, ticks, (!is_live).then_some(record.ended), state));
    };
    let mut endpoints = Endpoints::new(&mut source, &mut policy, &control);
    endpoints.part = Some(&mut save);
    let report = run_with(&config, endpoints, table, |_| app()).unwrap();
    assert!(report.is_balanced() && report.fault.is_none(), "{:?}", report.fault);
    let mut counters = report.worker_totals();
    // What ended only because the part ended may continue in the next one.
    counters.flows_expired -= report.timed_out_at_end;
    let saved = SavedPart::new(report.input.clone(), counters, records);
    (report, saved)
}

/// Merges the parts between `cuts`, and compares the result with one run over all packets.
fn merged<A: App<Flow: SaveState>>(
    memory: &Memory,
    cuts: &[usize],
    idle_ns: Option<u64>,
    app: impl Fn() -> A,
    compose: impl FnMut(&mut A::Flow, &mut A::Flow) -> Composed,
) -> Result<MergedParts<A::Flow>, MergeError> {
    let idle_timeout = idle_ns.map(IdleTimeout::from_ns);
    let ends = cuts.iter().copied().chain([memory.len()]);
    let begins = [0].into_iter().chain(cuts.iter().copied());
    let parts = begins.zip(ends).zip(1..).map(|((begin, end), nth)| {
        let layout = if nth % 2 == 0 { Layout::Sharded { workers: nth } } else { Layout::Inline };
        part(&memory.between(begin, end), layout, idle_timeout, &app).1
    });
    let merged = merge_parts(parts.collect(), idle_timeout, compose)?;
    let (whole, _) = part(memory, Layout::Inline, idle_timeout, &app);
    let shown = |record: &FlowRecord<A::Flow>| (record.key, record.ended, values(&record.state));
    let (ours, theirs): (Vec<_>, Vec<_>) =
        (merged.flows.iter().map(shown).collect(), whole.flows.iter().map(shown).collect());
    assert_eq!(ours, theirs, "cut at {cuts:?}");
    assert_eq!(merged.digest(), whole.digest());
    assert_eq!(merged.input, whole.input);
    assert_eq!(merged.counters, whole.worker_totals());
    Ok(merged)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn parts_merge_to_the_result_of_the_whole_or_are_refused(
        packets in vec(sent(), 1..120),
        cuts in vec(any::<prop::sample::Index>(), 1..5),
        idle_ms in prop::option::of(10..2_000_u64),
        active_ms in prop::option::of(10..2_000_u64),
    ) {
        let memory = memory(&packets);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(memory.len() + 1)).collect();
        cuts.sort_unstable();
        let [idle_ns, active_ns] = [idle_ms, active_ms].map(|ms| ms.map(|ms| ms * 1_000_000));
        let is_refused = |error: MergeError| match error {
            MergeError::NeedsPackets { .. } | MergeError::Overlap { .. } => Ok(()),
            error => Err(TestCaseError::fail(error.to_string())),
        };
        let compose = |flow: &mut _, later: &mut _| flowloom_engine::FlowState::compose(flow, later);
        let result = merged(&memory, &cuts, idle_ns, || Null, compose).map(|_| ());
        let is_composed = !matches!(result, Err(MergeError::NeedsPackets { .. }));
        prop_assert!(is_composed);
        result.or_else(is_refused)?;
        let compose = |flow: &mut _, later: &mut _| flowloom_engine::FlowState::compose(flow, later);
        merged(&memory, &cuts, idle_ns, || TcpTracker, compose).map(|_| ()).or_else(is_refused)?;
        let app = Accounting::new(active_ns);
        let compose = |flow: &mut _, later: &mut _| app.compose(flow, later);
        merged(&memory, &cuts, idle_ns, || app, compose).map(|_| ()).or_else(is_refused)?;
    }
}

#[test]
fn parts_of_generated_traffic_merge() {
    let memory = Memory::new(MixConfig { packets: 20_000, flows: 700, ..MixConfig::default() });
    let cuts = [3_000, 9_000, 9_001, 14_000];
    for idle_ns in [None, Some(2_000_000)] {
        let compose = |flow: &mut _, later: &mut _| flowloom_engine::FlowState::compose(flow, later);
        let tracked = merged(&memory, &cuts, idle_ns, || TcpTracker, compose).unwrap();
        assert!(tracked.flows_joined > 500, "{}", tracked.flows_joined);
        let app = Accounting::new(None);
        merged(&memory, &cuts, idle_ns, || app, |flow, later| app.compose(flow, later)).unwrap();
    }
}
