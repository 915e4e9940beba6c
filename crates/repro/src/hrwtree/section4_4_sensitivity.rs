//! Parameters on which the headline of 59.2 % depends [HRWTREE §4.4].

use flowloom::scheduler::sim::Machine;
use flowloom::scheduler::sim::models::Model;
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{CACHE_COST, DEMAND, FEEDBACK, niagara, run as run_scheme, saturating};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/section4_4_sensitivity",
    place: "§4.4",
    claim: "the adaptive tree is 59.2 % above connections scheduled by the OS",
    numbers: "text of §4.4",
    fidelity: &[Fidelity::Simulated],
    switches: &[FEEDBACK],
    guesses: &[CACHE_COST],
    draws: 6,
    run,
    ..Item::PLAIN
};

/// Packets per queue, thousandths of a pipeline that a thread uses, thousandths of the jobs that
/// belong to one elephant; and the band of the gain. Feedback gains nothing with long queues,
/// little with short ones, and more where threads leave cycles of a pipeline or flows are unlike.
const SETUPS: [(u32, u32, u32, (f64, f64)); 6] = [
    (Machine::UNBOUNDED, 1000, 0, (0.6, 1.1)),
    (64, 1000, 0, (0.7, 1.15)),
    (16, 1000, 0, (0.85, 1.2)),
    (8, 1000, 0, (0.95, 1.35)),
    (16, 400, 0, GAIN),
    (16, 1000, 50, (1.0, 1.6)),
];

/// What feedback gains over threads that the operating system moves, where these use two fifths
/// of a pipeline: a tenth at least, and a tenth more than in the paper at most.
pub(super) const GAIN: (f64, f64) = (1.1, 1.1 * HEADLINE);

/// The paper's value of the adaptive tree relative to connections scheduled by the OS.
pub(super) const HEADLINE: f64 = 1.592;

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let mut labels = Vec::new();
    let mut rows: Vec<[f64; 4]> = Vec::new();
    for (queue, demand, elephant, _) in SETUPS {
        let mut machine = niagara(context, &DEMAND)?;
        machine.queue_packets = queue;
        machine.thread_demand_permille = demand;
        let offered = saturating(context, Model::L7 { elephant_permille: elephant })?;
        let base = run_scheme(context, "conn+os", &machine, &offered)?;
        let mut row = [0.0; 4];
        for (value, name) in row.iter_mut().zip(["adaptive-racy", "adaptive", "flowpin", "flowpull"]) {
            *value = run_scheme(context, name, &machine, &offered)?.speed_up(&base);
        }
        let bound = if queue == Machine::UNBOUNDED { String::from("any") } else { queue.to_string() };
        let traffic = if elephant > 0 { ", elephant" } else { "" };
        labels.push(format!("queue {bound}, demand {} %{traffic}", demand / 10));
        rows.push(row);
    }
    let column = |at: usize| rows.iter().map(move |row| row[at]).collect::<Vec<_>>();
    let racing = column(0);
    let least = racing.iter().copied().fold(f64::INFINITY, f64::min);
    let most = racing.iter().copied().fold(0.0, f64::max);
    let mut chart = Chart::bars("Throughput over conn+os", labels.clone(), Axis::linear("times"));
    for (at, name) in ["as published", "order-safe", "flowpin", "flowpull"].into_iter().enumerate() {
        chart = chart.with(Series::bars(name, column(at)));
    }
    let found = format!(
        "between {least:.2} and {most:.2} times, depending on how long a queue may be before the dispatcher waits, on how much of a \
         pipeline a thread uses, and on elephants: no one of them is in the paper. With queues without a bound it is {:.2}",
        racing[0]
    );
    let mut outcome = Outcome::new(Agreement::from_check(
        (least..=most).contains(&HEADLINE),
        format!("{HEADLINE} lies within what the setups give, {found}"),
        format!("{HEADLINE} is not reached: ours is {found}"),
    ))
    .value(Value::new("least gain", "×", least).band(0.6, 1.1))
    .value(Value::new("greatest gain", "×", most).paper(HEADLINE).band(1.1, 3.0));
    for ((label, row), (_, _, _, (low, high))) in labels.iter().zip(&rows).zip(SETUPS) {
        outcome = outcome
            .value(Value::new(format!("as published, {label}"), "×", row[0]).band(low, high))
            .value(Value::new(format!("flowpull, {label}"), "×", row[3]));
    }
    Ok(outcome.chart(chart))
}
