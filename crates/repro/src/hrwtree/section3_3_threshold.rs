//! The threshold between hashing and minimum-load mapping [HRWTREE §3.3].

use flowloom::scheduler::placement::adaptive::{Form, Threshold};
use flowloom::scheduler::sim::models::Model;
use flowloom::scheduler::sim::push;
use flowloom::scheduler::{Adaptive, SetupError};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};
use crate::virtual_time::{niagara, run as run_scheme, saturating};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/section3_3_threshold",
    place: "§3.3",
    claim: "a threshold of 10 % of the shortest queue balances locality and load",
    fidelity: &[Fidelity::Simulated],
    run,
};

/// Thousandths of the shortest queue; the last is any.
const THRESHOLDS: [Option<u32>; 9] =
    [Some(0), Some(50), Some(100), Some(250), Some(500), Some(1000), Some(2000), Some(5000), None];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = niagara()?;
    let offered = saturating(context, Model::L7 { elephant_permille: 0 })?;
    let base = run_scheme(context, "conn+os", &machine, &offered)?;
    let minimum = run_scheme(context, "minload", &machine, &offered)?;
    let failed = |error: SetupError| ItemError::during("running the adaptive scheduler")(error);
    let mut points = Vec::new();
    for permille in THRESHOLDS {
        context.check_stop()?;
        let threshold = Threshold { permille, floor_permille: 0 };
        let mut policy =
            Adaptive::new(&machine.topology, Form::OrderSafe, threshold, Adaptive::BITS).map_err(failed)?;
        let report = push(&machine, &mut policy, offered.workload()).map_err(failed)?;
        points.push((permille, report.speed_up(&base), report.migrations as f64 / report.completed as f64));
    }
    let of = |permille: Option<u32>| {
        points.iter().find(|point| point.0 == permille).map_or((0.0, 0.0), |p| (p.1, p.2))
    };
    let (paper, hash) = (of(Some(100)), of(None));
    let best = points.iter().copied().reduce(|best, point| if point.1 > best.1 { point } else { best });
    let (best_at, best_speed, best_moves) =
        best.map_or((0.0, 0.0, 0.0), |best| (f64::from(best.0.unwrap_or(u32::MAX)) / 10.0, best.1, best.2));
    let line = |value: fn(&(Option<u32>, f64, f64)) -> f64| {
        points.iter().filter_map(|point| point.0.map(|x| (f64::from(x) / 10.0, value(point)))).collect()
    };
    let chart = Chart::new(
        "Threshold",
        Axis::linear("% of the shortest queue"),
        Axis::linear("over conn+os; moves a job"),
    )
    .with(Series::line("throughput", line(|point| point.1)))
    .with(Series::line("moves a job", line(|point| point.2)));
    Ok(Outcome::new(Verdict::differs(
        "throughput hardly depends on the threshold over a wide range, and larger ones than 10 % move fewer flows for it. The text \
         has the two ends the wrong way round; its next sentence and the table have them right",
    ))
    .value(Value::new("10 %, over conn+os", "", paper.0).band(0.8, 1.6))
    .value(Value::new("best threshold", "%", best_at).paper(10.0))
    .value(Value::new("best threshold, over conn+os", "", best_speed).band(0.8, 1.6))
    .value(Value::new("moves a job at 10 %", "", paper.1).band(0.0, 1.0))
    .value(Value::new("moves a job at the best", "", best_moves).band(0.0, 1.0))
    .value(Value::new("no threshold: the hash alone", "", hash.0).band(0.4, 1.0))
    .value(Value::new("minimum load, which keeps no order", "", minimum.speed_up(&base)).band(0.8, 1.7))
    .chart(chart)
    .note("Order kept: flows move only while none of their packets is in flight. Queues of 16."))
}
