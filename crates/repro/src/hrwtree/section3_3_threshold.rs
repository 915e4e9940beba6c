//! The threshold between hashing and minimum-load mapping [HRWTREE §3.3].

use flowloom::scheduler::placement::adaptive::{AdaptiveForm, Threshold};
use flowloom::scheduler::sim::push;
use flowloom::scheduler::{Adaptive, SetupError};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{
    CACHE_COST, DEMAND, ELEPHANT, FEEDBACK, QUEUE, demand_note, l7, niagara, run as run_scheme, saturating,
};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/section3_3_threshold",
    place: "§3.3",
    claim: "a threshold of 10 % of the shortest queue balances locality and load",
    numbers: "text of §3.3",
    fidelity: &[Fidelity::Simulated],
    switches: &[THRESHOLD, FEEDBACK],
    guesses: &[ELEPHANT, QUEUE, CACHE_COST, DEMAND],
    draws: 10,
    run,
    ..Item::PLAIN
};
use crate::variation::Switch;

const THRESHOLD: Switch = Switch::mechanism(
    "threshold",
    "every threshold acts as one of 10 %: the policy ignores what it is given",
);

/// Thresholds in thousandths of the shortest queue; the last one means no limit.
const THRESHOLDS: [Option<u32>; 9] =
    [Some(0), Some(50), Some(100), Some(250), Some(500), Some(1000), Some(2000), Some(5000), None];

/// A threshold in thousandths, its throughput relative to conn+os, and its moves per job.
type Point = (Option<u32>, f64, f64);

/// Share of the best throughput that counts as equally fast: the throughput of a threshold varies
/// by a hundredth between draws of the jobs.
const AS_FAST: f64 = 0.98;

/// Factor above which a number of moves counts as larger, for a threshold that keeps flows where
/// they are.
const LESS_CALM: f64 = 1.02;

/// Returns the verdict on 10 %.
fn verdict(points: &[Point]) -> Agreement {
    let best = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let Some(paper) = points.iter().find(|point| point.0 == Some(100)) else {
        return Agreement::cannot_run("10 % is not among the thresholds");
    };
    let percent = |permille: Option<u32>| {
        permille.map_or_else(|| String::from("any"), |permille| format!("{} %", f64::from(permille) / 10.0))
    };
    let fast: Vec<&Point> = points.iter().filter(|point| point.1 >= AS_FAST * best).collect();
    let range = fast.iter().map(|point| percent(point.0)).collect::<Vec<_>>().join(", ");
    let calmest = fast.iter().copied().reduce(|least, point| if point.2 < least.2 { point } else { least });
    let calmest = calmest.map_or_else(String::new, |point| {
        format!(
            "; of these {} moves least, {:.3} times per job, and 10 % {:.3} times",
            percent(point.0),
            point.2,
            paper.2
        )
    });
    // A balance has two sides: the load without feedback, and the moves without a threshold.
    let (Some(hash), Some(eager)) =
        (points.iter().find(|p| p.0.is_none()), points.iter().find(|p| p.0 == Some(0)))
    else {
        return Agreement::cannot_run("the two ends are not among the thresholds");
    };
    let is_calmer = eager.2 > LESS_CALM * paper.2;
    let sides = format!(
        "the hash alone does {:.2} of 10 %, and a threshold of 0 moves {:.3} times per job{}",
        hash.1 / paper.1,
        eager.2,
        if is_calmer { "" } else { ": 10 % of queues as short as these is nothing, so it does not calm" }
    );
    Agreement::from_check(
        paper.1 >= AS_FAST * best && hash.1 < AS_FAST * paper.1 && is_calmer,
        format!(
            "10 % is as fast as the best to within a fiftieth, and so is each of {range}{calmest}; {sides}"
        ),
        format!(
            "10 % does {:.3} of what the best threshold does; within a fiftieth of it lie {range}{calmest}; {sides}",
            paper.1 / best
        ),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = niagara(context, &DEMAND)?;
    let offered = saturating(context, l7(context))?;
    let base = run_scheme(context, "conn+os", &machine, &offered)?;
    let minimum = run_scheme(context, "minload", &machine, &offered)?;
    let failed = |error: SetupError| ItemError::during("running the adaptive scheduler")(error);
    let mut points = Vec::new();
    for permille in THRESHOLDS {
        context.check_stop()?;
        let permille_used = if context.is_off(&FEEDBACK) {
            None
        } else if context.is_off(&THRESHOLD) {
            Some(100)
        } else {
            permille
        };
        let threshold = Threshold { permille: permille_used, least_permille: 0 };
        let mut policy =
            Adaptive::new(&machine.topology, AdaptiveForm::OrderSafe, threshold, Adaptive::BITS)
                .map_err(failed)?;
        let report = push(&machine, &mut policy, offered.workload()).map_err(failed)?;
        points.push((permille, report.speed_up(&base), report.migrations as f64 / report.completed as f64));
    }
    let outcome = |permille: Option<u32>| {
        points.iter().find(|point| point.0 == permille).map_or((0.0, 0.0), |p| (p.1, p.2))
    };
    let (paper, hash) = (outcome(Some(100)), outcome(None));
    let best = points.iter().copied().reduce(|best, point| if point.1 > best.1 { point } else { best });
    let (best_at, best_speed, best_moves) =
        best.map_or((0.0, 0.0, 0.0), |best| (f64::from(best.0.unwrap_or(u32::MAX)) / 10.0, best.1, best.2));
    let line = |value: fn(&Point) -> f64| {
        points.iter().filter_map(|point| point.0.map(|x| (f64::from(x) / 10.0, value(point)))).collect()
    };
    let x = || Axis::linear("threshold, % of the shortest queue");
    let speeds = Chart::new("Throughput by threshold", x(), Axis::linear("over conn+os"))
        .with(Series::line("adaptive, order kept", line(|point| point.1)));
    let moves = Chart::new("Moves by threshold", x(), Axis::linear("moves per job"))
        .with(Series::line("adaptive, order kept", line(|point| point.2)));
    Ok(Outcome::new(verdict(&points))
    .value(Value::new("10 %, over conn+os", "", paper.0).band(0.8, 1.6))
    .value(Value::new("best threshold", "%", best_at).paper(10.0).not_comparable("thresholds up to 100 % differ by less than draws do"))
    .value(Value::new("best threshold, over conn+os", "", best_speed).band(0.8, 1.6))
    .value(Value::new("10 %, of the best", "", paper.0 / best_speed).band(0.9, 1.0))
    .value(Value::new("moves per job at 10 %", "", paper.1).band(0.01, 0.5))
    .value(Value::new("moves per job at the best", "", best_moves).band(0.01, 0.5))
    .value(Value::new("moves at 500 %, of those at 0 %", "", outcome(Some(5000)).1 / outcome(Some(0)).1).band(0.3, 0.9999))
    .value(Value::new("no threshold: the hash alone", "", hash.0).band(0.4, 1.0))
    .value(Value::new("minimum load, which keeps no order", "", minimum.speed_up(&base)).band(0.8, 1.7))
    .chart(speeds)
    .chart(moves)
    .note(
        "The text has the two ends the wrong way round, low for the hash and high for minimum load; its next sentence and the table have them right.",
    )
    .note(demand_note(context, &DEMAND))
    .note("Order kept: flows move only while none of their packets is in flight. Queues of 16."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_that_is_clearly_faster_than_a_tenth_refutes_it() {
        let points = |at_half: f64| {
            [(Some(0), 1.0, 0.3), (Some(100), 1.03, 0.2), (Some(500), at_half, 0.1), (None, 0.7, 0.0)]
        };
        let as_fast = verdict(&points(1.035));
        assert_eq!(as_fast.word(), "agrees", "{}", as_fast.text());
        assert!(
            as_fast.text().contains("each of 10 %, 50 %;") && as_fast.text().contains("50 % moves least")
        );
        assert_eq!(verdict(&points(1.2)).word(), "differs");
    }
}
