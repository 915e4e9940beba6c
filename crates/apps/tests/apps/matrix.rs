//! Any table, with any modules, under any policy, in any layout: the records are those of one
//! thread with `LineHash`.
//!
//! `FLOWLOOM_MATRIX` sets how many combinations are drawn; they follow from their number.

use std::sync::Arc;

use flowloom_apps::accounting::fields::{AllFields, Detailed, DetailedAccounting};
use flowloom_apps::firewall::{Firewall, FirewallFlow, FirewallOptions, LiveRules};
use flowloom_apps::{
    Accounting, AnyFlow, EndedFlow, L7Flow, L7Plan, Meter, MeterFlow, RecordState, any_app,
};
use flowloom_engine::record::{Group, GroupSet, Value};
use flowloom_engine::{
    App, Control, Cores, Endpoints, EngineConfig, FlowRecord, IdleTimeout, Layout, Order, PolicyRef, run,
    run_seeded, run_with,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::{DHash, LineHash, SigHash, TableOptions, Timeouts};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{DirectHash, Topology, WorkerCount};
use flowloom_traffic::synth::MixConfig;

use crate::layouts::{STATES, firewall, plan};
use crate::support::Memory;

/// Combinations that are drawn unless the environment says otherwise.
const USUAL: u64 = 60;
const FLOWS: u32 = 4000;

#[derive(Clone, Copy, Debug)]
enum Table {
    Line,
    D,
    Sig,
    Chained,
    Direct,
}

#[derive(Clone, Copy, Debug)]
struct Combination {
    table: Table,
    fields: GroupSet,
    has_labels: bool,
    has_rules: bool,
    layout: Layout,
    order: Order,
    policy: &'static str,
    idle_ns: Option<u64>,
    seed: Option<u64>,
    /// The application and its states have no types.
    is_any: bool,
}

impl Combination {
    /// Draws a combination.
    fn draw(number: u64) -> Self {
        // Steps of an additive sequence with an irrational ratio, one for each choice.
        let mut state = number;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % count
        };
        let tables = [Table::Line, Table::D, Table::Sig, Table::Chained, Table::Direct];
        let table = tables[below(5)];
        let fields = Group::FIELDS.into_iter().filter(|_| below(3) == 0).collect();
        let workers = 1 + below(4);
        let (layout, order, policy) = match below(4) {
            0 => (Layout::Inline, Order::Internal, "dh"),
            1 => (Layout::Sharded { workers }, Order::Internal, "dh"),
            _ => {
                let schemes: Vec<&Scheme> =
                    Scheme::ALL.iter().filter(|scheme| !scheme.is_simulated_only).collect();
                let scheme = schemes[below(schemes.len())];
                let topology = Topology::flat(WorkerCount::new(workers).unwrap());
                let keeps_order = scheme.policy(&topology, 1).unwrap().order().keeps_flow_order();
                // A policy without an order of its own needs that of the whole input.
                let order = if keeps_order { Order::Internal } else { Order::External };
                (Layout::Pipeline { workers }, order, scheme.name)
            }
        };
        Self {
            table,
            fields,
            has_labels: below(2) == 0,
            has_rules: below(2) == 0,
            layout,
            order,
            policy,
            idle_ns: (below(2) == 0).then_some(5_000_000),
            seed: (below(2) == 0).then_some(number),
            is_any: below(2) == 0,
        }
    }

    /// Returns the same modules on one thread with `LineHash`.
    fn reference(self) -> Self {
        let (layout, policy) = (Layout::Inline, "dh");
        Self {
            table: Table::Line,
            layout,
            order: Order::Internal,
            policy,
            seed: None,
            is_any: false,
            ..self
        }
    }

    fn meter(&self, plan: &L7Plan, live: &Arc<LiveRules>) -> Meter {
        let mut meter = Meter::new(Accounting::new(Some(20_000_000))).with_fields(self.fields);
        if self.has_labels {
            meter = meter.with_labels(plan.app());
        }
        if self.has_rules {
            meter = meter.with_rules(Firewall::new(Arc::clone(live), FirewallOptions::default()));
        }
        meter
    }

    /// Returns the records of a run, and their digest.
    fn run(&self, memory: &Memory, plan: &L7Plan) -> (Vec<Vec<Value>>, String) {
        let timeouts = self.idle_ns.map_or(Timeouts::NEVER, |ns| IdleTimeout::from_ns(ns).for_table());
        let (flows, usual) = (FLOWS, timeouts);
        macro_rules! with {
            ($table:ident, $config:ident) => {{
                let config = $config { timeouts: usual, ..$config::for_flows(flows) };
                let live = Arc::new(LiveRules::new(firewall(STATES)));
                let meter = || self.meter(plan, &live);
                if self.is_any {
                    let app = |_| any_app(meter());
                    self.run_on(memory, |_| $table::<FlowKey, AnyFlow>::try_new(&config), app)
                } else {
                    self.run_on(memory, |_| $table::<FlowKey, MeterFlow>::try_new(&config), |_| meter())
                }
            }};
        }
        match self.table {
            Table::Line => with!(LineHash, TableOptions),
            Table::D => with!(DHash, TableOptions),
            Table::Sig => with!(SigHash, TableOptions),
            Table::Chained => with!(Chained, TableOptions),
            Table::Direct => with!(DirectTable, TableOptions),
        }
    }

    fn run_on<A: App + 'static, T>(
        &self,
        memory: &Memory,
        table: impl FnMut(usize) -> Result<T, flowloom_flow_table::BuildError>,
        app: impl FnMut(usize) -> A,
    ) -> (Vec<Vec<Value>>, String)
    where
        T: flowloom_flow_table::FlowTable<FlowKey, A::Flow> + Send + 'static,
        FlowRecord<A::Flow>: EndedFlow,
    {
        let config = EngineConfig {
            cores: Cores::Unpinned,
            hasher: FlowHasher::with_seed(5),
            idle_timeout: self.idle_ns.map(IdleTimeout::from_ns),
            chunk_packets: 64,
            threads_after_packets: 0,
            ring_slots: 256,
            order: self.order,
            ..EngineConfig::new(self.layout)
        };
        let topology = Topology::flat(WorkerCount::new(self.layout.workers()).unwrap());
        let mut policy = Scheme::named(self.policy).unwrap().policy(&topology, 1).unwrap();
        let (mut source, control) = (memory.clone(), Control::default());
        let endpoints = Endpoints::new(&mut source, PolicyRef::new(&mut policy), &control);
        let report = match self.seed {
            Some(seed) => run_seeded(&config, endpoints, table, app, seed).unwrap(),
            None => run_with(&config, endpoints, table, app).unwrap(),
        };
        assert!(report.is_balanced() && report.fault.is_none(), "{self:?}: {:?}", report.fault);
        let rows = report.flows.iter().map(|record| {
            let mut values = Vec::new();
            EndedFlow::record_values(record, GroupSet::ALL, &mut values);
            values
        });
        (rows.collect(), report.digest())
    }
}

#[test]
fn every_combination_of_the_matrix_has_the_records_of_one_thread() {
    let count = std::env::var("FLOWLOOM_MATRIX").map_or(USUAL, |count| count.parse().unwrap());
    let config = MixConfig { packets: 3_000, flows: 400, fragment_permille: 20, ..MixConfig::default() };
    let (memory, plan) = (Memory::new(config), plan());
    for number in 0..count {
        let combination = Combination::draw(number);
        let expected = combination.reference().run(&memory, &plan);
        let found = combination.run(&memory, &plan);
        assert!(!expected.0.is_empty());
        for (found, expected) in found.0.iter().zip(&expected.0) {
            assert_eq!(found, expected, "{number}: {combination:?}");
        }
        assert_eq!((found.0.len(), found.1), (expected.0.len(), expected.1), "{number}: {combination:?}");
    }
}

/// Runs an application on one thread. Returns the values of its records, and how many packets it
/// refused.
fn alone<A: App<Flow: RecordState>>(memory: &Memory, app: impl Fn() -> A) -> (Vec<Vec<Value>>, u64) {
    let config = EngineConfig { hasher: FlowHasher::with_seed(5), ..EngineConfig::new(Layout::Inline) };
    let (mut source, control) = (memory.clone(), Control::default());
    let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
    let table = |_| LineHash::<FlowKey, A::Flow>::try_new(&TableOptions::for_flows(FLOWS));
    let report = run(&config, &mut source, &mut policy, table, |_| app(), &control).unwrap();
    let rows = report.flows.iter().map(|record| {
        let mut values = Vec::new();
        record.state.record_values(&record.key, record.ended, GroupSet::ALL, &mut values);
        values
    });
    (rows.collect(), report.worker_totals().denied)
}

/// Returns the values of the columns that two schemas have in common, if the column is `shared`.
fn shared<A: RecordState, B: RecordState>(
    rows: &[Vec<Value>],
    is_shared: fn(Group) -> bool,
) -> Vec<Vec<Value>> {
    let (schema, other) = (A::schema(), B::schema());
    let common: Vec<usize> = schema
        .iter()
        .filter(|found| is_shared(found.column.group) && other.named(found.column.name).is_some())
        .map(|found| found.index)
        .collect();
    assert!(common.len() > 1);
    rows.iter().map(|row| common.iter().map(|&at| row[at].clone()).collect()).collect()
}

#[test]
fn combined_modules_give_the_results_of_each_alone() {
    let config = MixConfig { packets: 3_000, flows: 400, fragment_permille: 20, ..MixConfig::default() };
    let (memory, plan) = (Memory::new(config), plan());
    let live = Arc::new(LiveRules::new(firewall(STATES)));
    let rules = || Firewall::new(Arc::clone(&live), FirewallOptions::default());
    let (all, denied) = alone(&memory, || {
        let meter = Meter::new(Accounting::new(None)).with_fields(GroupSet::FIELDS);
        meter.with_labels(plan.app()).with_rules(rules())
    });
    let (fields, _) = alone(&memory, || DetailedAccounting::<AllFields>::new(Accounting::new(None)));
    let kept = |group: Group| group != Group::Own;
    assert_eq!(
        shared::<MeterFlow, Detailed<AllFields>>(&all, kept),
        shared::<Detailed<AllFields>, MeterFlow>(&fields, kept)
    );
    let (verdicts, denied_alone) = alone(&memory, rules);
    assert_eq!(denied, denied_alone);
    let (labels, _) = alone(&memory, || plan.app());
    // Where accounting has one record per flow, the others have the same.
    assert_eq!(all.len(), labels.len(), "the mixture has one connection per flow");
    let label = |group| group == Group::Label;
    assert_eq!(shared::<MeterFlow, L7Flow>(&all, label), shared::<L7Flow, MeterFlow>(&labels, label));
    let verdict = |group| group == Group::Verdict;
    assert_eq!(
        shared::<MeterFlow, FirewallFlow>(&all, verdict),
        shared::<FirewallFlow, MeterFlow>(&verdicts, verdict)
    );
}
