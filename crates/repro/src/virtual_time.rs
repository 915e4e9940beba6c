//! Machines, traffic and runs in virtual time that items on schedulers share.

use flowloom::scheduler::registry::Scheme;
use flowloom::scheduler::sim::models::Model;
use flowloom::scheduler::sim::{Machine, Offered, Pace, Report};
use flowloom::scheduler::{SetupError, Topology};

use crate::experiment::{Context, ItemError};

fn failed(what: &str) -> impl FnOnce(SetupError) -> ItemError {
    ItemError::during(what.to_owned())
}

/// Returns a tree from its text.
pub(crate) fn topology(text: &str) -> Result<Topology, ItemError> {
    text.parse().map_err(failed("reading a topology"))
}

/// Returns the machine of [HRWTREE §4.1]: 63 threads, since thread 0 dispatches.
pub(crate) fn niagara() -> Result<Machine, ItemError> {
    Ok(Machine::niagara(topology("8x2x4,-0")?))
}

/// Returns the eight cores that the captures of [LFB Tab. 1] ran on.
pub(crate) fn xeon() -> Result<Machine, ItemError> {
    Ok(Machine::xeon(topology("8")?))
}

/// Returns jobs for a saturated machine: a tenth of the model's at the smallest scale, all at the
/// largest.
pub(crate) fn saturating(context: &Context<'_>, model: Model) -> Result<Offered, ItemError> {
    let packets = model.packets() / context.scale.pick(20, 4, 1);
    let traffic = model.generate(packets, context.seed).map_err(failed("making traffic"))?;
    Offered::of(traffic, Pace::Closed).map_err(failed("making traffic"))
}

/// Returns such jobs, every job of `cycles` cycles.
pub(crate) fn saturating_alike(
    context: &Context<'_>,
    model: Model,
    cycles: u32,
) -> Result<Offered, ItemError> {
    let packets = model.packets() / context.scale.pick(20, 4, 1);
    let mut traffic = model.generate(packets, context.seed).map_err(failed("making traffic"))?;
    for job in &mut traffic.jobs {
        job.work = cycles;
    }
    Offered::of(traffic, Pace::Closed).map_err(failed("making traffic"))
}

/// Returns jobs that arrive at random at `percent` of the machine's throughput, in waves of
/// `wave_cycles` if not 0.
pub(crate) fn arriving(
    context: &Context<'_>,
    model: Model,
    packets: u32,
    machine: &Machine,
    percent: u32,
    wave_cycles: u64,
) -> Result<Offered, ItemError> {
    let traffic = model.generate(packets, context.seed).map_err(failed("making traffic"))?;
    let jobs = traffic.jobs.len() as u64;
    let whole = Offered::of(traffic.clone(), Pace::Closed).map_err(failed("making traffic"))?;
    let least = whole.workload().least_cycles(machine) / jobs;
    let mean = (least * 100).checked_div(u64::from(percent)).unwrap_or(1).max(1);
    let traffic = traffic.with_arrivals(mean, wave_cycles, context.seed);
    Offered::of(traffic, Pace::Open).map_err(failed("making traffic"))
}

/// Runs a scheduler by name.
pub(crate) fn run(
    context: &Context<'_>,
    name: &str,
    machine: &Machine,
    offered: &Offered,
) -> Result<Report, ItemError> {
    context.check_stop()?;
    let Some(scheme) = Scheme::named(name) else {
        return Err(ItemError::during("choosing a scheduler")(format!("there is none called {name}")));
    };
    scheme.run(machine, offered, context.seed).map_err(failed(name))
}

/// Returns the properties of a run beside its speed.
pub(crate) fn order_of(report: &Report) -> String {
    format!("{} {} reorders, {} races", report.scheduler, report.reorders, report.races)
}
