//! The applications of `replay`.
//!
//! A [`Role`] knows the types of an application, and the flow tables are compiled for it. All else
//! of a run takes it as an [`Application`].

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::apps::{
    Accounting, CacheProbe, EndedFlow, Firewall, L7Filter, L7Plan, Meter, Null, RecordState, TcpTracker,
};
use flowloom::engine::{
    App, Control, Endpoints, EngineConfig, FlowRecord, FlowResults, PacketSink, PolicyRef, RunReport,
    StartError, run_with,
};
use flowloom::packet::{PacketSource, SourceError};
use flowloom::record::{GroupSet, Schema};
use flowloom::scheduler::registry::Policy;

use super::firewall::FirewallRole;
use super::probe::Probe;
use super::records::{AnySink, Passed};
use super::setup::{Modules, Tables};
use crate::args::replay::TableName;
use crate::render::replay::VerifyFigures;
use crate::verify::{self, Sums};

/// An application of `replay`, chosen when a run starts.
pub(super) trait Application {
    /// Returns the name that users type and reports show.
    fn name(&self) -> &'static str;

    /// Returns the columns of its records.
    fn schema(&self) -> Schema;

    /// Returns the bytes of a record.
    fn record_bytes(&self) -> usize;

    /// Returns the bytes that a flow takes outside of its slot in the table.
    fn bytes_beside(&self) -> usize;

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

/// The records of an application.
struct RoleResults<'a, R: Role> {
    role: &'a R,
    flows: FlowResults<FlowOf<R>>,
}

impl<R: Role> Results for RoleResults<'_, R> {
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
        Ok(oracle.map(|oracle| {
            let (flows, compared) = if in_order {
                (verify::count(&oracle), verify::compare(&self.flows, &oracle))
            } else {
                (oracle.len() as u64, verify::compare_sums(&self.flows, &oracle, R::SUMS))
            };
            let difference = compared.err();
            VerifyFigures { flows, in_order, agrees: difference.is_none(), difference }
        }))
    }
}

impl<R: Role> Application for R {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn schema(&self) -> Schema {
        FlowOf::<R>::schema()
    }

    fn record_bytes(&self) -> usize {
        size_of::<FlowRecord<FlowOf<R>>>() + Role::bytes_beside(self)
    }

    fn bytes_beside(&self) -> usize {
        Role::bytes_beside(self)
    }

    fn l7(&self) -> Option<&L7Plan> {
        Role::l7(self)
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        Role::field_memory(self)
    }

    fn run(&self, ends: Ends<'_>, setup: Setup<'_>) -> Result<Ran<'_>, StartError> {
        let Ends { source, policy, control, packets, records, part } = ends;
        let Setup { table, config, tables } = setup;
        let mut passed = records.map(|sink: &mut dyn AnySink| Passed(sink));
        let mut keep = part
            .map(|keep| move |record: &FlowRecord<FlowOf<R>>, ticks, is_live| keep(record, ticks, is_live));
        let mut ends = Endpoints::new(&mut *source, PolicyRef::of(policy), control)
            .with_packets(packets.map(|sink| sink as _))
            .with_records(passed.as_mut().map(|sink| sink as _));
        ends.part = keep.as_mut().map(|keep| keep as _);
        let app = |_| self.app();
        let report = match table {
            TableName::Linehash => run_with(config, ends, |_| tables.linehash::<FlowOf<R>>(), app),
            TableName::Dhash => run_with(config, ends, |_| tables.dhash::<FlowOf<R>>(), app),
            TableName::Sighash => run_with(config, ends, |_| tables.sighash::<FlowOf<R>>(), app),
            TableName::Chained => run_with(config, ends, |_| tables.chained::<FlowOf<R>>(), app),
            TableName::Direct => run_with(config, ends, |_| tables.direct::<FlowOf<R>>(), app),
        }?;
        let (count, digest) = (report.record_count(), report.digest());
        let (report, flows) = report.split();
        Ok(Ran { report, flows: count, digest, results: Box::new(RoleResults { role: self, flows }) })
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

    /// See [`Application::bytes_beside`].
    fn bytes_beside(&self) -> usize {
        0
    }
}

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
}
