//! Table I in three forms [HRWTREE §3.3, Table I].

use flowloom::scheduler::sim::models::Model;
use flowloom_measure::chart::Axis;

use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};
use crate::virtual_time::{niagara, run as run_scheme, saturating};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/table1_forms",
    place: "Table I, §3.3",
    claim: "the feedback as pseudocode: the node with the shortest queue is taken where the hashed one's is longer by a threshold",
    fidelity: &[Fidelity::Simulated],
    run,
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = niagara()?;
    let offered = saturating(context, Model::L7 { elephant_permille: 50 })?;
    let base = run_scheme(context, "conn+os", &machine, &offered)?;
    let mut outcome = Outcome::new(Verdict::differs(
        "the print cannot be executed: its pipeline test reads a core's length, its thread branch sets the core, thread lengths change \
         only when overruled. Corrected, it moves flows whose packets are in flight: packets of one flow are worked on at once and finish \
         out of order. Moving idle flows only costs little and breaks nothing; with an elephant both are as fast as they can be, and \
         what the racing form is faster by exists only because one flow runs on several threads",
    ));
    for (name, is_safe) in [("adaptive-2009", false), ("adaptive-racy", false), ("adaptive", true)] {
        let report = run_scheme(context, name, &machine, &offered)?;
        let (reorders, races) = (report.reorders as f64, report.races as f64);
        let band = if is_safe { (0.0, 0.0) } else { (1.0, f64::INFINITY) };
        outcome = outcome
            .value(Value::new(format!("{name}: reorders"), "", reorders).band(band.0, band.1))
            .value(Value::new(format!("{name}: two of a flow at once"), "", races).band(band.0, band.1))
            .value(Value::new(format!("{name}: over conn+os"), "", report.speed_up(&base)).band(0.7, 4.0))
            .value(Value::new(format!("{name}: share of the bound"), "", report.share_of_bound()));
    }
    Ok(outcome
        .chart_of("Order that the forms break", Axis::linear("jobs"), |value| {
            value.name.ends_with("reorders") || value.name.ends_with("at once")
        })
        .note(format!("{} jobs, 5 % of them one flow's; queues of 16", base.jobs)))
}
