//! Table I in three forms [HRWTREE §3.3, Table I].

use flowloom::scheduler::sim::models::Model;
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{DEMAND, FEEDBACK, QUEUE, demand_note, niagara, run as run_scheme, saturating};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/table1_forms",
    place: "Table I, §3.3",
    claim: "the feedback as pseudocode: the node with the shortest queue is taken where the hashed one's is longer by a threshold",
    numbers: "none: Table I is pseudocode",
    fidelity: &[Fidelity::Simulated],
    switches: &[FEEDBACK],
    guesses: &[QUEUE, DEMAND],
    draws: 10,
    run,
    ..Item::PLAIN
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = niagara(context, &DEMAND)?;
    let offered = saturating(context, Model::L7 { elephant_permille: 50 })?;
    let base = run_scheme(context, "conn+os", &machine, &offered)?;
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was run"));
    let mut broken = Vec::new();
    for (name, is_safe) in
        [("adaptive-2009", false), ("adaptive-racy", false), ("adaptive", true), ("adaptive-fitted", true)]
    {
        let report = run_scheme(context, name, &machine, &offered)?;
        let (reorders, races) = (report.reorders as f64, report.races as f64);
        if reorders + races > 0.0 {
            broken.push(format!(
                "{name} breaks the order of {reorders} jobs and works on {races} with another of their flow"
            ));
        }
        let band = if is_safe { (0.0, 0.0) } else { (1.0, f64::INFINITY) };
        outcome = outcome
            .value(Value::new(format!("{name}: reorders"), "", reorders).band(band.0, band.1))
            .value(Value::new(format!("{name}: two of a flow at once"), "", races).band(band.0, band.1))
            .value(Value::new(format!("{name}: over conn+os"), "", report.speed_up(&base)).band(0.5, 4.0))
            .value(Value::new(format!("{name}: share of the bound"), "", report.share_of_bound()));
    }
    outcome.verdict = Agreement::from_check(
        broken.is_empty(),
        "all forms keep the order of flows",
        format!(
            "the print cannot be executed: its pipeline test reads a core's length, its thread branch sets the core, thread lengths change \
             only when overruled. It, or its correction, moves flows whose packets are in flight: {}. Moving idle flows only costs little \
             and breaks nothing; what the racing form is faster by exists only because one flow runs on several threads",
            broken.join("; ")
        ),
    );
    Ok(outcome
        .chart_of("Order that the forms break", Axis::linear("jobs"), |value| {
            value.name.ends_with("reorders") || value.name.ends_with("at once")
        })
        .note("adaptive-fitted is not in the paper: queues in measured time, divided by a node's capacity.")
        .note(demand_note(context, &DEMAND))
        .note(format!("{} jobs, 5 % of them one flow's; queues of 16", base.jobs)))
}
