//! 64 threads on sixteen pipelines compared with one thread [HRWTREE §1, Fig. 1].

use flowloom::scheduler::sim::Machine;
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{
    CACHE_COST, DEMAND, ELEPHANT, OS_MOVES, QUEUE, demand_note, l7, niagara, run as run_scheme, saturating,
    topology,
};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/fig1_scaling",
    place: "Fig. 1, §1",
    claim: "with all 64 threads throughput is at most 10.1 times one thread's, where pipelines would allow 16; use differs widely at each level",
    numbers: "text of §1: 10.1 and 16; the bars of Fig. 1 have no numbers",
    fidelity: &[Fidelity::Simulated],
    switches: &[OS_MOVES],
    guesses: &[ELEPHANT, QUEUE, CACHE_COST, DEMAND],
    draws: 10,
    run,
    ..Item::PLAIN
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let offered = saturating(context, l7(context))?;
    let one = run_scheme(
        context,
        "pckt+os",
        &Machine { dispatcher_on_first_pipeline: false, ..Machine::niagara(topology("1")?) },
        &offered,
    )?;
    let machine = niagara(context, &DEMAND)?;
    let names = ["pckt+os", "conn+aff", "conn+os"];
    let mut speeds = Vec::new();
    let mut reports = Vec::new();
    for name in names {
        let report = run_scheme(context, name, &machine, &offered)?;
        speeds.push(report.speed_up(&one));
        reports.push(report);
    }
    let pinned = &reports[1];
    let spread = |level: usize| {
        let (least, most) = pinned.levels[level].range();
        f64::from(most - least) / 10.0
    };
    let chart = Chart::bars("Throughput over one thread's", names, Axis::linear("times"))
        .with(Series::bars("64 threads, one of which dispatches", speeds.clone()))
        .with(Series::bars("ideal", [16.0; 3]));
    let differs = format!(
        "our model has no cost of locking a connection's buffer and of an operating system's moves, so 64 threads come closer to the \
         sixteen pipelines than the paper's: {:.1} times for conn+os. That threads pinned by connection stay below, \
         and that use differs by tens of percent at each level, agrees",
        speeds[2]
    );
    let holds = (9.0..11.2).contains(&speeds[2]);
    Ok(Outcome::new(Agreement::from_check(
        holds,
        "conn+os comes out where the paper has it, in a model with guessed costs",
        differs,
    ))
    .value(Value::new("conn+os over one thread", "×", speeds[2]).paper(10.1).band(8.0, 16.0))
    .value(Value::new("conn+affinity over one thread", "×", speeds[1]).band(4.0, 14.0))
    .value(
        Value::new("conn+os over conn+affinity", "×", speeds[2] / speeds[1]).within(Band::at_least(1.05)),
    )
    .value(Value::new("packets + OS over one thread", "×", speeds[0]).band(8.0, 16.1))
    .value(Value::new("spread of cores, pinned", "%", spread(0)))
    .value(Value::new("spread of pipelines, pinned", "%", spread(1)))
    .value(Value::new("spread of threads, pinned", "%", spread(2)).band(10.0, 100.0))
    .chart(chart)
    .note(demand_note(context, &DEMAND))
    .note("The paper's bars are read from a figure without numbers; only 10.1 and 16 are in its text."))
}
