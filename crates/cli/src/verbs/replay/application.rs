//! The applications of `replay`.
//!
//! A [`Role`] knows the types of an application. The default flow table is compiled for each of
//! them, and the other tables once, for applications [of any type](any_app). All else of a run
//! takes a role as an [`Application`].

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::apps::{
    Accounting, AnyApp, AnyFlow, CacheProbe, EndedFlow, Firewall, L7Filter, L7Plan, Meter, Null,
    RecordState, TcpTracker, any_app,
};
use flowloom::engine::{
    App, Control, Endpoints, EngineConfig, FlowRecord, FlowResults, FlowState, PacketSink, PolicyRef,
    RunReport, StartError, run_with,
};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::FlowTable;
use flowloom::packet::{PacketSource, SourceError};
use flowloom::record::{GroupSet, Schema};
use flowloom::scheduler::registry::Policy;

use super::firewall::FirewallRole;
use super::probe::Probe;
use super::records::{AnySink, Passed};
use super::setup::{Modules, Tables};
use crate::args::replay::TableName;
use crate::exit::TableError;
use crate::render::replay::VerifyFigures;
use crate::verify::{self, Sums};

/// An application of `replay`, chosen when a run starts.
pub(super) trait Application {
    /// Returns the name that users type and reports show.
    fn name(&self) -> &'static str;

    /// Returns the columns of its records.
    fn schema(&self) -> Schema;

    /// Returns whether its records have accounting.
    fn keeps_account(&self) -> bool;

    /// Returns the bytes of a record, and how many of them a flow takes outside of its slot in a
    /// table of this kind.
    fn record_bytes(&self, table: TableName) -> (usize, usize);

    /// Returns the plan of the L7 filter, if flows are labelled.
    fn l7(&self) -> Option<&L7Plan>;

    /// Returns the memory of the additional fields, if the application keeps some.
    fn field_memory(&self) -> Option<&FieldMemory>;

    /// Runs the application with tables of a kind.
    fn run(&self, ends: Ends<'_>, setup: Setup<'_>) -> Result<Ran<'_>, StartError>;
}

/// What a run connects.
pub(super) struct Ends<'a> {
    pub(super) source: &'a mut (dyn PacketSource + Send),
    pub(super) policy: &'a mut Policy,
    pub(super) control: &'a Control,
    pub(super) packets: Option<&'a mut (dyn PacketSink + Send)>,
    /// The records go here as flows end; otherwise they are in the results.
    pub(super) records: Option<&'a mut dyn AnySink>,
    /// Receives what a part keeps of each flow.
    pub(super) part: Option<Keep<'a>>,
}

/// Receives a record, the ticks of its first and last packet, and whether the flow is live at the
/// end.
pub(super) type Keep<'a> = &'a mut (dyn FnMut(&dyn EndedFlow, [u64; 2], bool) + Send);

/// The settings of a run.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) table: TableName,
    pub(super) config: &'a EngineConfig,
    pub(super) tables: &'a Tables,
}

/// A run that has ended.
pub(super) struct Ran<'a> {
    pub(super) report: RunReport<()>,
    /// The number of records, and their digest.
    pub(super) flows: u64,
    pub(super) digest: String,
    pub(super) results: Box<dyn Results + 'a>,
}

/// The records that a run has kept.
pub(super) trait Results {
    /// Passes the records on, in the order of keys and times, until one fails.
    fn each(&self, take: &mut dyn FnMut(&dyn EndedFlow) -> std::io::Result<()>) -> std::io::Result<()>;

    /// Compares the records with those of plain maps over the same input. Without packet order,
    /// compares only what does not depend on it. Returns `None` if interrupted.
    fn verify(
        &self,
        again: &mut dyn PacketSource,
        repeat: verify::Repeat,
        in_order: bool,
        control: &Control,
    ) -> Result<Option<VerifyFigures>, SourceError>;
}

/// The records of an application, with their type or without it.
struct RoleResults<'a, R, F> {
    role: &'a R,
    flows: FlowResults<F>,
}

impl<R: Role, F> Results for RoleResults<'_, R, F>
where
    FlowRecord<F>: EndedFlow,
{
    fn each(&self, take: &mut dyn FnMut(&dyn EndedFlow) -> std::io::Result<()>) -> std::io::Result<()> {
        self.flows.iter().try_for_each(|record| take(record))
    }

    fn verify(
        &self,
        again: &mut dyn PacketSource,
        repeat: verify::Repeat,
        in_order: bool,
        control: &Control,
    ) -> Result<Option<VerifyFigures>, SourceError> {
        let oracle = verify::oracle(again, self.role.oracle(), repeat, control)?;
        let mut records = self.flows.iter().map(|record| record as &dyn EndedFlow);
        Ok(oracle.map(|oracle| {
            let (flows, compared) = if in_order {
                (verify::count(&oracle), verify::compare(&mut records, &oracle))
            } else {
                (oracle.len() as u64, verify::compare_sums(&mut records, &oracle, R::SUMS))
            };
            let difference = compared.err();
            VerifyFigures { flows, in_order, agrees: difference.is_none(), difference }
        }))
    }
}

/// Runs applications of one type with tables of one kind.
fn run_on<A: App + 'static, T>(
    ends: Ends<'_>,
    config: &EngineConfig,
    table: impl Fn() -> Result<T, TableError>,
    app: impl Fn() -> A,
) -> Result<RunReport<A::Flow>, StartError>
where
    FlowRecord<A::Flow>: EndedFlow,
    T: FlowTable<FlowKey, A::Flow> + Send + 'static,
{
    let Ends { source, policy, control, packets, records, part } = ends;
    let mut passed = records.map(|sink: &mut dyn AnySink| Passed(sink));
    let mut keep =
        part.map(|keep| move |record: &FlowRecord<A::Flow>, ticks, is_live| keep(record, ticks, is_live));
    let mut ends = Endpoints::new(&mut *source, PolicyRef::new(policy), control)
        .with_packets(packets.map(|sink| sink as _))
        .with_records(passed.as_mut().map(|sink| sink as _));
    ends.part = keep.as_mut().map(|keep| keep as _);
    run_with(config, ends, |_| table(), |_| app())
}

/// Runs applications of any type.
fn run_any(
    ends: Ends<'_>,
    Setup { table, config, tables }: Setup<'_>,
    app: &dyn Fn() -> AnyApp,
) -> Result<RunReport<AnyFlow>, StartError> {
    match table {
        TableName::Linehash => run_on(ends, config, || tables.linehash::<AnyFlow>(), app),
        TableName::Dhash => match tables.published {
            None => run_on(ends, config, || tables.dhash::<AnyFlow>(), app),
            Some(strategies) => run_on(ends, config, || tables.published_dhash::<AnyFlow>(strategies), app),
        },
        TableName::Sighash => run_on(ends, config, || tables.sighash::<AnyFlow>(), app),
        TableName::Chained => run_on(ends, config, || tables.chained::<AnyFlow>(), app),
        TableName::Direct => run_on(ends, config, || tables.direct::<AnyFlow>(), app),
    }
}

/// Returns a run that has ended, and its records.
fn ran<R: Role, F: FlowState>(role: &R, report: RunReport<F>) -> Ran<'_>
where
    FlowRecord<F>: EndedFlow,
{
    let (count, digest) = (report.record_count(), report.digest());
    let (report, flows) = report.split();
    Ran { report, flows: count, digest, results: Box::new(RoleResults { role, flows }) }
}

impl<R: Role> Application for R {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn schema(&self) -> Schema {
        FlowOf::<R>::schema()
    }

    fn keeps_account(&self) -> bool {
        FlowOf::<R>::default().account().is_some()
    }

    fn record_bytes(&self, table: TableName) -> (usize, usize) {
        let beside = Role::bytes_beside(self);
        if R::is_typed(table) {
            return (size_of::<FlowRecord<FlowOf<R>>>() + beside, beside);
        }
        let beside = beside + size_of::<FlowOf<R>>() + ALLOCATION_BYTES;
        (size_of::<FlowRecord<AnyFlow>>() + beside, beside)
    }

    fn l7(&self) -> Option<&L7Plan> {
        Role::l7(self)
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        Role::field_memory(self)
    }

    fn run(&self, ends: Ends<'_>, setup: Setup<'_>) -> Result<Ran<'_>, StartError> {
        Role::run(self, ends, setup)
    }
}

/// The types of an application of `replay`.
pub(super) trait Role: Sized {
    /// The application of each worker.
    type App: App<Flow: RecordState> + 'static;

    /// The name that users type and reports show.
    const NAME: &'static str;

    /// The results that do not depend on packet order.
    const SUMS: Sums;

    /// Returns the application of one worker.
    fn app(&self) -> Self::App;

    /// Returns the application of the oracle: a simpler implementation of the same results, if
    /// there is one.
    fn oracle(&self) -> Self::App {
        self.app()
    }

    /// See [`Application::l7`].
    fn l7(&self) -> Option<&L7Plan> {
        None
    }

    /// See [`Application::field_memory`].
    fn field_memory(&self) -> Option<&FieldMemory> {
        None
    }

    /// Returns the bytes that a flow's state takes in addition to its size.
    fn bytes_beside(&self) -> usize {
        0
    }

    /// Returns whether tables of this kind are compiled for the application's states.
    fn is_typed(table: TableName) -> bool {
        table == TableName::Linehash
    }

    /// See [`Application::run`].
    fn run(&self, ends: Ends<'_>, setup: Setup<'_>) -> Result<Ran<'_>, StartError> {
        let Setup { table, config, tables } = setup;
        if !Self::is_typed(table) {
            return Ok(ran(self, run_any(ends, setup, &|| any_app(self.app()))?));
        }
        Ok(ran(self, run_on(ends, config, || tables.linehash::<FlowOf<Self>>(), || self.app())?))
    }
}

/// Bytes that an allocator takes in addition to those of a block.
const ALLOCATION_BYTES: usize = 16;

/// The state that a role's application keeps per flow.
pub(super) type FlowOf<R> = <<R as Role>::App as App>::Flow;

/// The application without work.
pub(super) struct NullRole;

impl Role for NullRole {
    type App = Null;
    const NAME: &'static str = "null";
    const SUMS: Sums = &[];

    fn app(&self) -> Null {
        Null
    }
}

/// The connection tracker.
pub(super) struct TrackerRole;

impl Role for TrackerRole {
    type App = TcpTracker;
    const NAME: &'static str = "tcp-tracker";
    const SUMS: Sums = &[
        &["packets_low_to_high"],
        &["packets_high_to_low"],
        &["bytes_low_to_high"],
        &["bytes_high_to_low"],
        &["tcp_flags_low_to_high"],
        &["tcp_flags_high_to_low"],
    ];

    fn app(&self) -> TcpTracker {
        TcpTracker
    }
}

/// Accounting, with or without an active timeout.
pub(super) struct AccountingRole(pub(super) Option<u64>);

impl Role for AccountingRole {
    type App = Accounting;
    const NAME: &'static str = "accounting";
    const SUMS: Sums = &[
        &["packets_low_to_high"],
        &["packets_high_to_low"],
        &["bytes_low_to_high"],
        &["bytes_high_to_low"],
        &["ip_bytes_low_to_high"],
        &["ip_bytes_high_to_low"],
        &["tcp_flags_low_to_high"],
        &["tcp_flags_high_to_low"],
    ];

    fn app(&self) -> Accounting {
        Accounting::new(self.0)
    }
}

/// Accounting with the modules of a run.
pub(super) struct MeterRole {
    pub(super) active_ns: Option<u64>,
    /// The groups of additional fields that it keeps.
    pub(super) fields: GroupSet,
    pub(super) memory: FieldMemory,
    pub(super) l7: Option<L7Plan>,
    pub(super) rules: Option<FirewallRole>,
}

impl MeterRole {
    pub(super) fn new(modules: Modules, l7: Option<L7Plan>, rules: Option<FirewallRole>) -> Self {
        let Modules { active_ns, fields, .. } = modules;
        // The plan of the tables sets the limit.
        Self { active_ns, fields, memory: FieldMemory::new(u64::MAX), l7, rules }
    }

    fn with_rules(&self, rules: Option<Firewall>) -> Meter {
        let mut meter =
            Meter::new(Accounting::new(self.active_ns)).with_fields(self.fields).with_memory(&self.memory);
        if let Some(plan) = &self.l7 {
            meter = meter.with_labels(plan.app());
        }
        match rules {
            Some(rules) => meter.with_rules(rules),
            None => meter,
        }
    }
}

impl Role for MeterRole {
    type App = Meter;
    const NAME: &'static str = AccountingRole::NAME;
    const SUMS: Sums = AccountingRole::SUMS;

    fn app(&self) -> Meter {
        self.with_rules(self.rules.as_ref().map(Role::app))
    }

    fn oracle(&self) -> Meter {
        self.with_rules(self.rules.as_ref().map(Role::oracle))
    }

    fn l7(&self) -> Option<&L7Plan> {
        self.l7.as_ref()
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        (!self.fields.is_empty()).then_some(&self.memory)
    }

    fn bytes_beside(&self) -> usize {
        Meter::bytes_per_flow(self.app().groups())
    }
}

/// The L7 filter.
pub(super) struct L7Role(pub(super) L7Plan);

impl Role for L7Role {
    type App = L7Filter;
    const NAME: &'static str = "l7";
    const SUMS: Sums = &[&["packets"], &["bytes"]];

    fn app(&self) -> L7Filter {
        self.0.app()
    }

    fn l7(&self) -> Option<&L7Plan> {
        Some(&self.0)
    }
}

/// Another application, combined with a simulated cache.
pub(super) struct Beside<R>(pub(super) R, pub(super) Probe);

impl<R: Role> Role for Beside<R> {
    type App = CacheProbe<R::App>;
    const NAME: &'static str = R::NAME;
    const SUMS: Sums = R::SUMS;

    fn app(&self) -> Self::App {
        self.1.beside(self.0.app())
    }

    fn oracle(&self) -> Self::App {
        self.1.beside(self.0.oracle())
    }

    fn l7(&self) -> Option<&L7Plan> {
        Role::l7(&self.0)
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        Role::field_memory(&self.0)
    }

    fn bytes_beside(&self) -> usize {
        Role::bytes_beside(&self.0)
    }

    /// A simulated cache is slower than an allocation.
    fn is_typed(_table: TableName) -> bool {
        false
    }

    fn run(&self, ends: Ends<'_>, setup: Setup<'_>) -> Result<Ran<'_>, StartError> {
        Ok(ran(self, run_any(ends, setup, &|| any_app(self.app()))?))
    }
}
