//! What a run needs, made from its arguments. Mistakes of usage appear here, before the run starts.

use std::rc::Rc;

use flowloom::apps::{EndedFlow, L7Plan};
use flowloom::cpu::features::Isa;
use flowloom::engine::{Control, EngineConfig, FlowTimeouts, PacketSink, RunReport, StartError};
use flowloom::packet::DecodeOptions;
use flowloom::scheduler::OrderGuarantee;
use flowloom::scheduler::registry::Policy;
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

use super::application::{AccountingRole, Beside, L7Role, MeterRole, NullRole, TrackerRole};
use super::layout::{self, Planned};
use super::outputs::Outputs;
use super::probe::Probe;
use super::records::{AnySink, Kept};
use super::role::{Application, Ends, Ran, Setup};
use super::select::{Selected, Selection};
use super::setup::{
    Modules, engine_config, policy, record_plan, set_options, warn_of_left_columns, warn_outside_pipeline,
};
use super::source::{Source, feed};
use super::tables::Tables;
use super::{Rules, conflicts, l7};
use crate::args::Common;
use crate::args::replay::{AppName, Replay};
use crate::exit::Failure;
use crate::host::isa_named;
use crate::part_file;
use crate::record_view::RecordPlan;
use crate::render::replay::VerifyFigures;
use crate::render::{bytes, warn};
use crate::verify;

/// A run that is ready to start.
pub(super) struct Plan<'a> {
    pub(super) arguments: &'a Replay,
    pub(super) application: Rc<dyn Application>,
    pub(super) rules: Option<Rules>,
    pub(super) probe: Option<Probe>,
    pub(super) records: RecordPlan,
    inputs: Vec<Input>,
    pub(super) options: SetOptions,
    pub(super) source: Source,
    pub(super) selection: Option<Selection>,
    pub(super) config: EngineConfig,
    /// Why the layout is not the usual one for the arguments.
    pub(super) why: Option<String>,
    policy: Policy,
    order: OrderGuarantee,
    pub(super) isa: Isa,
    pub(super) tables: Tables,
    pub(super) outputs: Outputs,
}

/// What a run does with its flows.
struct Work {
    application: Rc<dyn Application>,
    rules: Option<Rules>,
    probe: Option<Probe>,
}

impl Work {
    /// Chooses the bare application if it suffices, and otherwise accounting with modules.
    fn choose(arguments: &Replay, modules: Option<Modules>, common: &Common) -> Result<Self, Failure> {
        // Patterns and rules may take what is left before the tables ask.
        arguments.budget().without(&[])?;
        let rules = Rules::from_arguments(arguments, common)?;
        let labels = modules.map_or(arguments.app == AppName::L7, |modules| modules.labels);
        let l7 = l7::plan(arguments, labels)?;
        let probe = arguments.tcb_cache.map(|bytes| Probe::new(bytes, arguments.tcb_policy)).transpose()?;
        let application = Self::application(arguments, modules, l7, rules.as_ref(), probe.clone());
        Ok(Self { application, rules, probe })
    }

    fn application(
        arguments: &Replay,
        modules: Option<Modules>,
        l7: Option<L7Plan>,
        rules: Option<&Rules>,
        probe: Option<Probe>,
    ) -> Rc<dyn Application> {
        if let Some(modules) = modules {
            let role = MeterRole::new(modules, l7, rules.map(Rules::role));
            return match probe {
                Some(probe) => Rc::new(Beside(role, probe)),
                None => Rc::new(role),
            };
        }
        match (arguments.app, probe) {
            (AppName::Null, None) => Rc::new(NullRole),
            (AppName::Null, Some(probe)) => Rc::new(Beside(NullRole, probe)),
            (AppName::TcpTracker, None) => Rc::new(TrackerRole),
            (AppName::TcpTracker, Some(probe)) => Rc::new(Beside(TrackerRole, probe)),
            (AppName::Accounting, _) => Rc::new(AccountingRole(arguments.active_timeout)),
            (AppName::L7, _) => Rc::new(L7Role(l7.expect("the plan is made for this application"))),
            (AppName::Firewall, _) => {
                Rc::new(rules.expect("a firewall without rules is refused before").role())
            }
        }
    }
}

impl<'a> Plan<'a> {
    /// Plans a run with its outputs.
    ///
    /// # Errors
    ///
    /// Returns [`Failure`] for contradictory arguments, for rules and patterns that cannot be used,
    /// for inputs that cannot be read, outputs that cannot be written, and too little memory.
    pub(super) fn of_run(arguments: &'a Replay, common: &Common) -> Result<Self, Failure> {
        conflicts::check(arguments)?;
        let modules = Modules::from_arguments(arguments)?;
        if let Some(option) = arguments.option_of_merged_parts().filter(|_| modules.is_some()) {
            return Err(Failure::Usage(format!(
                "{option} keeps no additional fields, labels and verdicts, but --fields, --columns, --where \
                 or --rules needs some\n  omit one of them",
            )));
        }
        let plan = Self::new(arguments, modules, common, Outputs::open)?;
        warn_outside_pipeline(arguments, &plan.config, common);
        warn_of_left_columns(arguments, &plan.records, common);
        Ok(plan)
    }

    /// Plans a run whose records are only examined.
    ///
    /// # Errors
    ///
    /// As [`of_run`](Self::of_run).
    pub(super) fn of_records(arguments: &'a Replay, common: &Common) -> Result<Self, Failure> {
        conflicts::check(arguments)?;
        let modules = Modules::of_records(arguments)?;
        Self::new(arguments, modules, common, |_, _| Ok(Outputs::default()))
    }

    fn new(
        arguments: &'a Replay,
        modules: Option<Modules>,
        common: &Common,
        open: impl FnOnce(&Replay, &[&std::path::Path]) -> Result<Outputs, Failure>,
    ) -> Result<Self, Failure> {
        let Work { application, rules, probe } = Work::choose(arguments, modules, common)?;
        let records = record_plan(arguments, application.schema())?;
        if let (Some(filter), Some(plan)) = (&arguments.record_filter, application.l7()) {
            let schema = application.schema().with_words("l7_protocol", l7::words(plan));
            filter.parse(&schema).map_err(Failure::Usage)?;
        }
        let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
        let options = set_options(arguments);
        let isa = isa_named(&arguments.isa)?;
        let Planned { layout, source, why } = layout::plan(arguments, &inputs, options)?;
        let mut config = engine_config(arguments, layout)?;
        // Rules that ask for states process an ICMP error with the flow that it concerns.
        let errors_by_flow = config.decode.errors_by_flow || rules.as_ref().is_some_and(Rules::ask_state);
        config.decode = config.decode.with_errors_by_flow(errors_by_flow);
        let policy = policy(arguments, &config)?;
        let order = policy.order();
        let selection = Selection::from_arguments(arguments, &source.paths())?;
        let outputs = open(arguments, &source.paths())?;
        let memory = application.memory(arguments.table);
        let tables = Tables::plan(arguments, &config, order, &source, options, isa, memory)?;
        Ok(Self {
            arguments,
            application,
            rules,
            probe,
            records,
            inputs,
            options,
            source,
            selection,
            config,
            why,
            policy,
            order,
            isa,
            tables,
            outputs,
        })
    }

    /// Returns the decoding options of defragmentation, if it is requested.
    fn defrag(&self) -> Option<DecodeOptions> {
        self.arguments.defrag.then_some(self.config.decode)
    }

    /// Runs the application. The accepted packets go to `packets` and the records to `records` as
    /// flows end, if there are sinks, and `kept` receives those of a part.
    ///
    /// # Errors
    ///
    /// Returns the error of the engine if the run cannot start.
    pub(super) fn run<'r>(
        &mut self,
        application: &'r dyn Application,
        control: &Control,
        packets: Option<&mut (dyn PacketSink + Send)>,
        records: Option<&mut dyn AnySink>,
        kept: &mut Kept,
    ) -> Result<Ended<'r>, StartError> {
        let keeps = !matches!(kept, Kept::Nothing);
        let mut keep = |record: &dyn EndedFlow, ticks, is_live| kept.add(record, ticks, is_live);
        let defrag = self.defrag();
        let mut selected = Selected::new(&mut self.source, self.selection.clone());
        let mut fed = feed(&mut selected, self.arguments, defrag);
        let ends = Ends {
            source: &mut *fed,
            policy: &mut self.policy,
            control,
            packets: packets.map(|sink| sink as _),
            records: records.map(|sink| sink as _),
            part: keeps.then_some(&mut keep as _),
        };
        let setup = Setup { table: self.arguments.table, config: &self.config, tables: &self.tables };
        let ran = application.run(ends, setup)?;
        drop(fed);
        let (passed_over, outside) = (selected.passed_over, selected.outside());
        Ok(Ended { ran, passed_over, outside, range: self.source.finish() })
    }

    /// Warns that contents were not captured which the run reads fields from.
    pub(super) fn warn_of_cut_contents(&self, report: &RunReport<()>, common: &Common) {
        let mut groups = self.records.content_groups();
        if groups.is_empty() && self.application.l7().is_some() {
            groups.push("l7");
        }
        let input = &report.input;
        if !groups.is_empty() && input.bytes_captured < input.bytes_on_wire {
            let (captured, wire) = (bytes(input.bytes_captured), bytes(input.bytes_on_wire));
            let groups = groups.join(", ");
            warn(
                &format!(
                    "{captured} of {wire} were captured: fields of {groups} lack what the snap length cut \
                     off\n  inspect counts these packets; tcpdump -s 0 captures whole packets"
                ),
                common,
            );
        }
    }

    /// Compares the results with an oracle's, if the user asks for it. Returns `None` if not, or if
    /// interrupted.
    ///
    /// # Errors
    ///
    /// Returns [`Failure`] if the input cannot be read again.
    pub(super) fn verify(
        &self,
        ran: &Ran<'_>,
        control: &Control,
    ) -> Result<Option<VerifyFigures>, Failure> {
        if !self.arguments.verify {
            return Ok(None);
        }
        let input = &ran.report.input;
        let timeouts: FlowTimeouts = self.config.timeouts();
        let packets = input.packets - input.dropped.withheld();
        let repeat = verify::Repeat { packets, decode: self.config.decode, timeouts };
        let set = CaptureSet::open(&self.inputs, self.options)?;
        let mut again = Selected::new(set, self.selection.clone());
        let in_order = super::setup::keeps_flow_order(&self.config, self.order);
        ran.results
            .verify(&mut *feed(&mut again, self.arguments, self.defrag()), repeat, in_order, control)
            .map_err(|error| Failure::Usage(format!("the oracle cannot read the input again: {error}")))
    }
}

/// A run that has ended.
pub(super) struct Ended<'r> {
    pub(super) ran: Ran<'r>,
    /// Packets that the selection rejected.
    pub(super) passed_over: u64,
    /// Why it selected none, if all are outside of the time that options name.
    pub(super) outside: Option<String>,
    /// The range of a capture that was read.
    pub(super) range: Option<part_file::Range>,
}
