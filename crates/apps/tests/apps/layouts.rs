//! Every application has the same results in the sharded layout, for any number of threads, any
//! size of chunks and any schedule, as in one thread.

use std::sync::Arc;

use flowloom_apps::accounting::fields::{AllFields, DetailedAccounting};
use flowloom_apps::firewall::{Defaults, Enforcement, Firewall, FirewallOptions, FirewallRules, LiveRules};
use flowloom_apps::{Accounting, L7Options, L7Plan, Meter, Null, TcpTracker};
use flowloom_classifier::ClassifierBuilder;
use flowloom_dpi::builtin;
use flowloom_engine::counters::{InputCounters, WorkerCounters};
use flowloom_engine::record::{GroupSet, Value};
use flowloom_engine::{
    App, Control, Cores, EndedBy, Endpoints, EngineConfig, IdleTimeout, Layout, run_seeded, run_with,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{DHash, TableOptions, Timeouts};
use flowloom_rules::load::{self, LoadOptions, RuleFormat};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::{MixConfig, Sample};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Memory, values};
use crate::traffic::{memory, sent};

/// How a run is divided among threads.
#[derive(Clone, Copy, Debug)]
struct Division {
    layout: Layout,
    chunk_packets: usize,
    /// The seed of the schedule; `None` for real threads.
    seed: Option<u64>,
}

const INLINE: Division = Division { layout: Layout::Inline, chunk_packets: 1, seed: None };

/// What must not depend on the layout.
#[derive(Debug, PartialEq)]
struct Facts {
    records: Vec<(FlowKey, EndedBy, Vec<Value>)>,
    digest: String,
    input: InputCounters,
    workers: WorkerCounters,
    /// Counts of the application other than those of flows.
    counts: String,
}

/// Packets, and the divisions whose results must equal those of one thread.
struct Comparison<'a> {
    memory: &'a Memory,
    idle_ns: Option<u64>,
    divisions: &'a [Division],
}

impl Comparison<'_> {
    /// Compares every application.
    fn check(&self, active_ns: Option<u64>, plan: &L7Plan) {
        let none = String::new;
        self.app("null", || (|| Null, none));
        self.app("tcp-tracker", || (|| TcpTracker, none));
        self.app("accounting", || (|| Accounting::new(None), none));
        self.app("accounting, active timeout", || (|| Accounting::new(active_ns), none));
        let detailed = DetailedAccounting::<AllFields>::new(Accounting::new(active_ns));
        self.app("detailed", || (|| detailed.clone(), none));
        let meter = || Meter::new(Accounting::new(active_ns)).with_labels(plan.app());
        self.app("meter, labels", || (meter, none));
        self.app("meter, fields and labels", || (|| meter().with_fields(GroupSet::FIELDS), none));
        let live = Arc::new(LiveRules::new(firewall(STATES)));
        self.app("meter, fields, labels and rules", || {
            let rules = || Firewall::new(Arc::clone(&live), FirewallOptions::default());
            (move || meter().with_fields(GroupSet::FIELDS).with_rules(rules()), none)
        });
        self.app("l7", || {
            let before = plan.totals().scanned_bytes;
            (|| plan.app(), move || format!("{} bytes", plan.totals().scanned_bytes - before))
        });
        let [usual, strict, single] = [(false, false), (true, false), (false, true)]
            .map(|(strict_tcp, per_packet)| FirewallOptions { per_packet, strict_tcp });
        for (rules, options) in [(PORTS, usual), (PORTS, strict), (PORTS, single), (STATES, usual)] {
            self.app(&format!("firewall, {options:?}, {rules}"), || {
                let live = Arc::new(LiveRules::new(firewall(rules)));
                let counts = Arc::clone(&live);
                let app = move || Firewall::new(Arc::clone(&live), options);
                (app, move || format!("{:?}", counts.counts()))
            });
        }
    }

    /// Compares an application. `make` returns what builds it, and its counts after a run.
    fn app<A, F, C>(&self, name: &str, make: impl Fn() -> (F, C))
    where
        A: App,
        F: Fn() -> A,
        C: Fn() -> String,
    {
        let expected = self.run(INLINE, make());
        for &division in self.divisions {
            let found = self.run(division, make());
            assert_eq!(found, expected, "{name}: {division:?}, idle timeout {:?}", self.idle_ns);
        }
    }

    fn run<A: App>(
        &self,
        Division { layout, chunk_packets, seed }: Division,
        (app, counts): (impl Fn() -> A, impl Fn() -> String),
    ) -> Facts {
        let idle_timeout = self.idle_ns.map(IdleTimeout::from_ns);
        let config = EngineConfig {
            cores: Cores::Unpinned,
            hasher: FlowHasher::with_seed(5),
            idle_timeout,
            chunk_packets,
            threads_after_packets: 0,
            ..EngineConfig::new(layout)
        };
        let timeouts = idle_timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table);
        let table = |_| {
            DHash::<FlowKey, A::Flow>::try_new(&TableOptions { timeouts, ..TableOptions::for_flows(4000) })
        };
        let (mut source, control) = (self.memory.clone(), Control::default());
        let mut policy = DirectHash::new(WorkerCount::new(layout.workers()).unwrap());
        let endpoints = Endpoints::new(&mut source, &mut policy, &control);
        let report = match seed {
            Some(seed) => run_seeded(&config, endpoints, table, |_| app(), seed).unwrap(),
            None => run_with(&config, endpoints, table, |_| app()).unwrap(),
        };
        assert!(report.is_balanced() && report.fault.is_none(), "{:?}", report.fault);
        let record = |record: &_| {
            let flowloom_engine::FlowRecord { key, ended, state, .. } = record;
            (*key, *ended, values(state))
        };
        Facts {
            records: report.flows.iter().map(record).collect(),
            digest: report.digest(),
            workers: report.worker_totals(),
            input: report.input,
            counts: counts(),
        }
    }
}

/// Rules for ports, which judge flows.
const PORTS: &str = "-A INPUT -p tcp --sport 4000 -j ACCEPT\n-A INPUT -p tcp --sport 80 -j DROP\n\
                     -A INPUT -p udp -j DROP\n";
/// Rules for states of connections.
pub(crate) const STATES: &str = "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                      -A INPUT -m conntrack --ctstate INVALID -j DROP\n-A INPUT -p tcp --dport 80 -j ACCEPT\n";

pub(crate) fn firewall(rules: &str) -> FirewallRules {
    let text = format!("*filter\n:INPUT DROP [0:0]\n{rules}COMMIT\n");
    let policy = load::load(&text, RuleFormat::Iptables, &LoadOptions::default()).unwrap();
    let builder = ClassifierBuilder::new();
    FirewallRules::of_policy(policy, Defaults::default(), Enforcement::default(), builder).unwrap()
}

pub(crate) fn plan() -> L7Plan {
    L7Plan::new(&builtin(), L7Options::default()).unwrap()
}

/// Compares applications over generated packets with and without an idle timeout, on threads and in
/// several schedules.
fn check_generated(memory: &Memory) {
    let plan = plan();
    for (idle_ns, active_ns) in [(None, 20_000_000), (Some(5_000_000), 3_000_000)] {
        let mut divisions = Vec::new();
        for workers in 2..=5 {
            for chunk_packets in [1, 3, 64, 4096] {
                let seeds = [None, Some(workers as u64 * 10_000 + chunk_packets as u64)];
                let layout = Layout::Sharded { workers };
                divisions.extend(seeds.map(|seed| Division { layout, chunk_packets, seed }));
            }
        }
        Comparison { memory, idle_ns, divisions: &divisions }.check(Some(active_ns), &plan);
    }
}

#[test]
fn mixed_traffic_has_the_same_results_in_shards() {
    let config = MixConfig { packets: 1_500, flows: 300, fragment_permille: 30, ..MixConfig::default() };
    check_generated(&Memory::new(config));
}

#[test]
fn samples_have_the_same_results_in_shards() {
    for sample in Sample::all() {
        check_generated(&Memory::of_generator(&mut *sample.generator()).between(0, 1_500));
    }
}

#[test]
fn connections_of_a_few_hosts_have_the_same_results_in_shards() {
    let plan = plan();
    let timeout = || prop::option::of(10..2_000_u64);
    let division =
        (2..=5_usize, prop::sample::select(vec![1, 3, 64, 4096]), prop::option::of(any::<u64>()));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
    let cases = (vec(sent(), 1..120), timeout(), timeout(), vec(division, 1..4));
    runner
        .run(&cases, |(packets, idle_ms, active_ms, divisions)| {
            let memory = memory(&packets);
            let divisions: Vec<_> = divisions
                .into_iter()
                .map(|(workers, chunk_packets, seed)| Division {
                    layout: Layout::Sharded { workers },
                    chunk_packets,
                    seed,
                })
                .collect();
            let [idle_ns, active_ns] = [idle_ms, active_ms].map(|ms| ms.map(|ms| ms * 1_000_000));
            Comparison { memory: &memory, idle_ns, divisions: &divisions }.check(active_ns, &plan);
            Ok(())
        })
        .unwrap();
}
