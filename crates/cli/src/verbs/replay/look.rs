//! Runs accounting over captures for commands that examine records. It writes no output itself.

use std::sync::Arc;

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::engine::{Control, Fault};
use flowloom::record::NO_MEMORY;
use flowloom::traffic::capture::{Input, Notice};

use super::layout::{self, Planned};
use super::outputs::Outputs;
use super::records::{Show, Shown};
use super::role::{AccountingRole, FlowOf, MeterRole, Role};
use super::select::Selection;
use super::setup::{MemoryOf, Modules, Tables, engine_config, plan_of, policy, set_options};
use super::{Kept, Prepared, Rules};
use crate::args::Common;
use crate::args::replay::Replay;
use crate::exit::{Failure, check_decodable};
use crate::host::isa_named;
use crate::progress::{Progress, label};
use crate::record_view::FilterCounts;
use crate::render::reasons::NoResult;
use crate::render::{counted, warn, warn_of};
use crate::signals::stop_on_signals;

/// The results of a run other than its records.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) packets: u64,
    /// Packets that --filter, --from and --to rejected.
    pub(crate) passed_over: u64,
    /// Packets that belong to no record, by reason.
    pub(crate) no_result: NoResult,
    /// Whether ICMP errors belong to the flows that they concern, because rules ask for states.
    pub(crate) errors_by_flow: bool,
    /// Counts of --where, if it was given.
    pub(crate) filtered: Option<FilterCounts>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) notices: Vec<String>,
    /// Part of an input could not be used.
    pub(crate) is_partial: bool,
    pub(crate) interrupted: bool,
    pub(crate) fault: Option<String>,
}

/// Passes the records that match the filter of the arguments to `show`, as flows end. With
/// `--app l7` it also passes their protocol labels. `verb` appears before the progress bar.
///
/// # Errors
///
/// Returns [`Failure`] for contradictory arguments, and for input that cannot be read.
pub(crate) fn look(
    arguments: &Replay,
    common: &Common,
    verb: &str,
    show: Show<'_>,
) -> Result<Looked, Failure> {
    let rules = Rules::of(arguments, common)?;
    let Some(modules) = Modules::of_records(arguments)? else {
        let role = AccountingRole(arguments.active_timeout);
        return look_as(&role, arguments, common, false, (verb, show));
    };
    let l7 = super::l7::plan(arguments, modules.labels)?;
    let role = MeterRole::new(modules, l7.as_ref(), rules.as_ref().map(Rules::role));
    let errors_by_flow = rules.as_ref().is_some_and(Rules::ask_state);
    look_as(&role, arguments, common, errors_by_flow, (verb, show))
}

fn look_as<R: Role>(
    role: &R,
    arguments: &Replay,
    common: &Common,
    errors_by_flow: bool,
    (verb, show): (&str, Show<'_>),
) -> Result<Looked, Failure> {
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    let options = set_options(arguments);
    let Planned { layout, mut source, .. } = layout::plan(arguments, &inputs, options)?;
    let mut config = engine_config(arguments, layout)?;
    config.decode = config.decode.with_errors_by_flow(errors_by_flow);
    let mut policy = policy(arguments, &config)?;
    let selection = Selection::of(arguments, &source.paths())?;
    let isa = isa_named(&arguments.isa)?;
    let memory = MemoryOf::role(role);
    let tables = Tables::plan(arguments, &config, policy.order(), &source, options, isa, memory)?;
    let control = Arc::new(Control::default());
    source.stop_with(&control);
    stop_on_signals(&control);
    let title = format!("{verb}  {}", label(&arguments.inputs));
    let progress = Progress::start(title, source.progress(), Arc::clone(&control), common.quiet > 0);
    let account = R::account().expect("each of the roles keeps account");
    let view = plan_of::<FlowOf<R>>(arguments)?.view();
    let mut shown = Shown { view, account, label: R::label(), show };
    let run = Prepared {
        arguments,
        config: &config,
        tables: &tables,
        control: &control,
        selection: selection.as_ref(),
    };
    let mut outputs = Outputs::default();
    let ran = run.run(role, &mut source, &mut policy, (&mut outputs, &mut Kept::Nothing, Some(&mut shown)));
    drop(progress);
    let (report, passed_over, _) = ran?;
    if let Some(Fault::Source { packets, error }) = &report.fault {
        check_decodable(*packets, error)?;
    }
    if report.fault.is_none() && arguments.limit.is_some() {
        source.check_decodable()?;
    }
    if let Some(dropped @ 1..) = role.field_memory().map(FieldMemory::dropped) {
        let fields = counted(dropped, "field");
        warn(&format!("{fields} dropped for lack of memory: --where sees {NO_MEMORY}"), common);
    }
    for notice in source.notices() {
        warn_of(notice, arguments.strict, common);
    }
    Ok(Looked {
        packets: report.input.packets,
        passed_over,
        no_result: NoResult::new(&report.dropped()),
        errors_by_flow,
        filtered: shown.view.counts(),
        first_ns: report.input.first_ns,
        last_ns: report.input.last_ns,
        notices: source.notices().iter().map(ToString::to_string).collect(),
        is_partial: source.notices().iter().any(Notice::is_partial_input),
        interrupted: report.interrupted,
        fault: report.fault.as_ref().map(ToString::to_string),
    })
}
