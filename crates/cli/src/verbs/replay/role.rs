//! What differs from application to application in a run.

use std::marker::PhantomData;

use flowloom::apps::accounting::fields::{
    AllFields, ApplicationFields, Detailed, DetailedAccounting, FieldSet, FieldValue, Fields,
};
use flowloom::apps::accounting::{Accounted, Labelled, LabelledAccounting};
use flowloom::apps::{
    Accounting, CacheProbe, L7Filter, L7Plan, NoState, Null, SaveState, SourceDirection, TcpFlow,
    TcpTracker,
};
use flowloom::engine::{App, Endpoints, EngineConfig, RunReport, StartError, run_with};

use super::probe::Probe;
use super::setup::{Tables, field_groups};
use crate::args::replay::{Replay, TableName};
use crate::part_file::SaveWith;
use crate::record_view::{AccountOf, FieldsOf, LabelOf};
use crate::verify::Sums;

/// An application of `replay`.
pub(super) trait Role: Sized {
    /// What each worker runs.
    type App: App<Flow: SourceDirection>;

    /// The application's name, as it is given and reported.
    const NAME: &'static str;

    /// What of its results does not depend on the order of a flow's packets.
    const SUMS: Sums;

    /// Returns the application of one worker.
    fn app(&self) -> Self::App;

    /// Returns the application that the oracle runs: where there is a plainer way to the same
    /// results, that.
    fn oracle(&self) -> Self::App {
        self.app()
    }

    /// Returns the plan of the L7 filter, of that application.
    fn l7(&self) -> Option<&L7Plan> {
        None
    }

    /// Returns how the accounting record is found in a flow's state, of an application that keeps
    /// one.
    fn account() -> Option<AccountOf<FlowOf<Self>>> {
        None
    }

    /// Returns how the further fields are found in a flow's state, of an application that keeps
    /// them.
    fn fields() -> Option<FieldsOf<FlowOf<Self>>> {
        None
    }

    /// Returns how the protocol's name is found in a flow's state, of an application that names it
    /// beside an account.
    fn label() -> Option<LabelOf<FlowOf<Self>>> {
        None
    }

    /// Returns how a flow's state is kept in a part file, of an application whose parts can be
    /// merged later.
    fn save_with() -> Option<SaveWith<FlowOf<Self>>> {
        None
    }

    /// Runs the application in the inline or the pipeline layout. The papers' tables are for the
    /// applications of comparisons: the engine is compiled for each pair of a table and an
    /// application.
    fn run<'a>(
        &self,
        table: TableName,
        config: &EngineConfig,
        endpoints: Endpoints<'a, FlowOf<Self>>,
        tables: Tables,
    ) -> Result<RunReport<FlowOf<Self>>, StartError>
    where
        Self::App: 'a,
    {
        assert!(table == TableName::Linehash, "other tables are refused before");
        run_with(config, endpoints, |_| tables.linehash::<FlowOf<Self>>(), |_| self.app())
    }
}

/// What a role's application keeps per flow.
pub(super) type FlowOf<R> = <<R as Role>::App as App>::Flow;

/// Runs a role's application with any table.
fn run_with_any_table<'a, R: Role<App: 'a>>(
    role: &R,
    table: TableName,
    config: &EngineConfig,
    endpoints: Endpoints<'a, FlowOf<R>>,
    tables: Tables,
) -> Result<RunReport<FlowOf<R>>, StartError> {
    let app = |_| role.app();
    match table {
        TableName::Linehash => run_with(config, endpoints, |_| tables.linehash::<FlowOf<R>>(), app),
        TableName::Dhash => run_with(config, endpoints, |_| tables.dhash::<FlowOf<R>>(), app),
        TableName::Sighash => run_with(config, endpoints, |_| tables.sighash::<FlowOf<R>>(), app),
    }
}

/// No work.
pub(super) struct NullRole;

impl Role for NullRole {
    type App = Null;
    const NAME: &'static str = "null";
    const SUMS: Sums = &[];

    fn app(&self) -> Null {
        Null
    }

    fn run<'a>(
        &self,
        table: TableName,
        config: &EngineConfig,
        endpoints: Endpoints<'a, FlowOf<Self>>,
        tables: Tables,
    ) -> Result<RunReport<FlowOf<Self>>, StartError>
    where
        Self::App: 'a,
    {
        run_with_any_table(self, table, config, endpoints, tables)
    }

    fn save_with() -> Option<SaveWith<NoState>> {
        Some(NoState::save)
    }
}

/// Connection tracking.
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

    fn run<'a>(
        &self,
        table: TableName,
        config: &EngineConfig,
        endpoints: Endpoints<'a, FlowOf<Self>>,
        tables: Tables,
    ) -> Result<RunReport<FlowOf<Self>>, StartError>
    where
        Self::App: 'a,
    {
        run_with_any_table(self, table, config, endpoints, tables)
    }

    fn save_with() -> Option<SaveWith<TcpFlow>> {
        Some(TcpFlow::save)
    }
}

/// Accounting, with an active timeout or without.
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

/// Accounting with further fields, of which it keeps those of some groups.
pub(super) struct DetailedRole<F> {
    active_ns: Option<u64>,
    groups: FieldSet,
    fields: PhantomData<fn() -> F>,
}

/// Fields that are the last ones of all fields.
pub(super) trait LastFields: Fields {
    /// The columns of all fields before these.
    const BEFORE: usize;
}

impl LastFields for AllFields {
    const BEFORE: usize = 0;
}

impl LastFields for ApplicationFields {
    const BEFORE: usize = 34;
}

impl<F> DetailedRole<F> {
    /// Returns the role with the groups that the arguments ask for and that their filter reads.
    pub(super) fn of(arguments: &Replay) -> Self {
        Self { active_ns: arguments.active_timeout, groups: field_groups(arguments), fields: PhantomData }
    }
}

impl<F: LastFields> Role for DetailedRole<F> {
    type App = DetailedAccounting<F>;
    const NAME: &'static str = AccountingRole::NAME;
    const SUMS: Sums = AccountingRole::SUMS;

    fn app(&self) -> Self::App {
        DetailedAccounting::new(Accounting::new(self.active_ns)).with_groups(self.groups)
    }

    fn account() -> Option<AccountOf<Detailed<F>>> {
        Some(|flow| Some(flow.record()))
    }

    fn fields() -> Option<FieldsOf<Detailed<F>>> {
        Some(|flow, out| {
            out.extend(std::iter::repeat_n(FieldValue::None, F::BEFORE));
            flow.fields().values(flow.record().source_direction(), out);
        })
    }
}

/// Accounting with further fields, beside which the L7 filter names protocols.
pub(super) struct LabelledRole<'a>(pub(super) DetailedRole<AllFields>, pub(super) &'a L7Plan);

impl Role for LabelledRole<'_> {
    type App = LabelledAccounting<AllFields>;
    const NAME: &'static str = AccountingRole::NAME;
    const SUMS: Sums = AccountingRole::SUMS;

    fn app(&self) -> Self::App {
        LabelledAccounting::new(self.0.app(), self.1)
    }

    fn account() -> Option<AccountOf<Labelled<AllFields>>> {
        Some(|flow| Some(flow.detailed().record()))
    }

    fn fields() -> Option<FieldsOf<Labelled<AllFields>>> {
        Some(|flow, out| {
            let flow = flow.detailed();
            flow.fields().values(flow.record().source_direction(), out);
        })
    }

    fn label() -> Option<LabelOf<Labelled<AllFields>>> {
        Some(Labelled::protocol)
    }
}

/// Naming protocols.
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
}

/// Another application, with a simulated cache beside it.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom::apps::accounting::fields::all_columns;

    #[test]
    fn application_fields_stand_behind_the_others() {
        let mut columns = Vec::new();
        ApplicationFields::columns(&mut columns);
        assert_eq!(all_columns()[ApplicationFields::BEFORE..], columns);
    }
}
