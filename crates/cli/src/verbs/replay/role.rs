//! What a run needs of an application.
//!
//! A [`Role`] knows the types of an application. The default flow table is compiled for each of
//! them, and the other tables once, for applications [of any type](any_app). All else of a run
//! takes a role as an [`Application`].

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::apps::{AnyApp, AnyFlow, EndedFlow, L7Plan, RecordState, any_app};
use flowloom::engine::{
    App, Control, Endpoints, EngineConfig, FlowRecord, FlowResults, FlowState, PacketSink, PolicyRef,
    RunReport, StartError, run_with,
};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::baseline::{Chained, DirectTable};
use flowloom::flow_table::{DHash, FlowTable, LineHash, SigHash};
use flowloom::packet::{PacketSource, SourceError};
use flowloom::record::Schema;
use flowloom::scheduler::registry::Policy;

use super::records::{AnySink, Passed};
use super::tables::{MemoryOf, Tables};
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

    /// Returns what the application takes besides tables of this kind.
    fn memory(&self, table: TableName) -> MemoryOf<'_>;

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
        TableName::Linehash => {
            run_on(ends, config, || tables.build(LineHash::<FlowKey, AnyFlow>::try_new), app)
        }
        TableName::Dhash => match tables.published_search::<AnyFlow>() {
            None => run_on(ends, config, || tables.build(DHash::<FlowKey, AnyFlow>::try_new), app),
            Some(search) => run_on(ends, config, || tables.build(search), app),
        },
        TableName::Sighash => {
            run_on(ends, config, || tables.build(SigHash::<FlowKey, AnyFlow>::try_new), app)
        }
        TableName::Chained => {
            run_on(ends, config, || tables.build(Chained::<FlowKey, AnyFlow>::try_new), app)
        }
        TableName::Direct => {
            run_on(ends, config, || tables.build(DirectTable::<FlowKey, AnyFlow>::try_new), app)
        }
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

    fn memory(&self, table: TableName) -> MemoryOf<'_> {
        let beside = Role::bytes_beside(self);
        let (slot_bytes, beside_bytes) = if R::is_typed(table) {
            (size_of::<FlowRecord<FlowOf<R>>>(), beside)
        } else {
            (size_of::<FlowRecord<AnyFlow>>(), beside + size_of::<FlowOf<R>>() + ALLOCATION_BYTES)
        };
        MemoryOf {
            fields: Role::field_memory(self),
            record_bytes: slot_bytes + beside_bytes,
            beside_bytes,
            labels_bytes: Role::l7(self).map_or(0, L7Plan::bytes_max),
        }
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
        Ok(ran(
            self,
            run_on(
                ends,
                config,
                || tables.build(LineHash::<FlowKey, FlowOf<Self>>::try_new),
                || self.app(),
            )?,
        ))
    }
}

/// Bytes that an allocator takes in addition to those of a block.
const ALLOCATION_BYTES: usize = 16;

/// The state that a role's application keeps per flow.
pub(super) type FlowOf<R> = <<R as Role>::App as App>::Flow;
