//! The differences between the applications of a run.

use flowloom::apps::accounting::Accounted;
use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::apps::{
    Accounting, CacheProbe, Firewall, L7Filter, L7Flow, L7Plan, Meter, MeterFlow, NoState, Null,
    RecordState, SaveState, TcpFlow, TcpTracker,
};
use flowloom::engine::{App, Endpoints, EngineConfig, RunReport, StartError, run_with};
use flowloom::record::GroupSet;

use super::firewall::FirewallRole;
use super::probe::Probe;
use super::setup::{Modules, Tables};
use crate::args::replay::TableName;
use crate::part_file::SaveWith;
use crate::record_view::{AccountOf, LabelOf};
use crate::verify::Sums;

/// An application of `replay`.
pub(super) trait Role: Sized {
    /// The application of each worker.
    type App: App<Flow: RecordState>;

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

    /// Returns the plan of the L7 filter, for that application.
    fn l7(&self) -> Option<&L7Plan> {
        None
    }

    /// Returns the memory of the additional fields, if the application keeps some.
    fn field_memory(&self) -> Option<&FieldMemory> {
        None
    }

    /// Returns the function that finds the accounting record in a flow's state, if the application
    /// keeps one.
    fn account() -> Option<AccountOf<FlowOf<Self>>> {
        None
    }

    /// Returns the bytes that a flow takes outside of its slot in the table.
    fn bytes_beside(&self) -> usize {
        0
    }

    /// Returns the function that finds what is known of the protocol in a flow's state, if the
    /// application labels flows.
    fn label() -> Option<LabelOf<FlowOf<Self>>> {
        None
    }

    /// Returns the function that saves a flow's state in a part file, if parts of the application
    /// can be merged.
    fn save_with() -> Option<SaveWith<FlowOf<Self>>> {
        None
    }

    /// Runs the application with any table.
    fn run<'a>(
        &self,
        table: TableName,
        config: &EngineConfig,
        endpoints: Endpoints<'a, FlowOf<Self>>,
        tables: &Tables,
    ) -> Result<RunReport<FlowOf<Self>>, StartError>
    where
        Self::App: 'a,
    {
        let app = |_| self.app();
        match table {
            TableName::Linehash => run_with(config, endpoints, |_| tables.linehash::<FlowOf<Self>>(), app),
            TableName::Dhash => run_with(config, endpoints, |_| tables.dhash::<FlowOf<Self>>(), app),
            TableName::Sighash => run_with(config, endpoints, |_| tables.sighash::<FlowOf<Self>>(), app),
            TableName::Chained => run_with(config, endpoints, |_| tables.chained::<FlowOf<Self>>(), app),
            TableName::Direct => run_with(config, endpoints, |_| tables.direct::<FlowOf<Self>>(), app),
        }
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

    fn save_with() -> Option<SaveWith<NoState>> {
        Some(NoState::save)
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

    fn save_with() -> Option<SaveWith<TcpFlow>> {
        Some(TcpFlow::save)
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

    fn account() -> Option<AccountOf<Accounted>> {
        Some(|flow| Some(flow))
    }

    fn save_with() -> Option<SaveWith<Accounted>> {
        Some(Accounted::save)
    }
}

/// Accounting with the modules of a run.
pub(super) struct MeterRole<'a> {
    pub(super) active_ns: Option<u64>,
    /// The groups of additional fields that it keeps.
    pub(super) fields: GroupSet,
    pub(super) memory: FieldMemory,
    pub(super) l7: Option<&'a L7Plan>,
    pub(super) rules: Option<FirewallRole>,
}

impl<'a> MeterRole<'a> {
    pub(super) fn new(modules: Modules, l7: Option<&'a L7Plan>, rules: Option<FirewallRole>) -> Self {
        let Modules { active_ns, fields, .. } = modules;
        // The plan of the tables sets the limit.
        Self { active_ns, fields, memory: FieldMemory::new(u64::MAX), l7, rules }
    }

    fn with_rules(&self, rules: Option<Firewall>) -> Meter {
        let mut meter =
            Meter::new(Accounting::new(self.active_ns)).with_fields(self.fields).with_memory(&self.memory);
        if let Some(plan) = self.l7 {
            meter = meter.with_labels(plan.app());
        }
        match rules {
            Some(rules) => meter.with_rules(rules),
            None => meter,
        }
    }
}

impl Role for MeterRole<'_> {
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
        self.l7
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        (!self.fields.is_empty()).then_some(&self.memory)
    }

    fn bytes_beside(&self) -> usize {
        Meter::bytes_per_flow(self.app().groups())
    }

    fn account() -> Option<AccountOf<MeterFlow>> {
        Some(|flow| Some(flow.record()))
    }

    fn label() -> Option<LabelOf<MeterFlow>> {
        Some(MeterFlow::label)
    }
}

/// The L7 filter.
pub(super) struct L7Role<'a>(pub(super) &'a L7Plan);

impl Role for L7Role<'_> {
    type App = L7Filter;
    const NAME: &'static str = "l7";
    const SUMS: Sums = &[&["packets"], &["bytes"]];

    fn app(&self) -> L7Filter {
        self.0.app()
    }

    fn l7(&self) -> Option<&L7Plan> {
        Some(self.0)
    }

    fn label() -> Option<LabelOf<L7Flow>> {
        Some(|flow| Some(flow))
    }
}

/// Another application, combined with a simulated cache.
pub(super) struct Beside<'a, R>(pub(super) R, pub(super) &'a Probe);

impl<R: Role> Role for Beside<'_, R> {
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
        self.0.l7()
    }

    fn field_memory(&self) -> Option<&FieldMemory> {
        self.0.field_memory()
    }

    fn bytes_beside(&self) -> usize {
        self.0.bytes_beside()
    }
}
