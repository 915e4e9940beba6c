//! Use of cores, pipelines and threads, and run queues [HRWTREE §4.5, Fig. 5, Fig. 6].

use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{
    CACHE_COST, DEMAND_WAITING, ELEPHANT, FEEDBACK, QUEUE, demand_note, l7, niagara, run as run_scheme,
    saturating, with_rivals,
};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/fig5_6_balance",
    place: "Figs. 5–6, §4.5",
    claim: "the spread of threads' use falls from 89 % to 10 %, and run queues become shorter and smoother",
    numbers: "text of §4.5: the spread at one level; the other bars and the curves of Fig. 6 are not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    switches: &[FEEDBACK],
    guesses: &[ELEPHANT, QUEUE, CACHE_COST, DEMAND_WAITING],
    draws: 10,
    run,
    ..Item::PLAIN
};

/// What counts as narrower or shorter: less by a tenth at least, since draws differ.
const LESS: f64 = 0.9;
/// The same of the variation of run queues, which differs more between draws.
const SMOOTHER: f64 = 0.75;

const SCHEMES: [&str; 6] = ["conn+aff", "hrw", "hrw3", "adaptive", "flowpin", "flowpull"];

/// Returns the verdict on the adaptive tree's part of what pinned connections have: the spread, at
/// the level where it is greatest, the mean length of run queues, and their variation.
fn verdict(narrowed: f64, shortened: f64, smoothed: f64) -> Agreement {
    let found = format!(
        "of what conn+aff has, the adaptive tree has {narrowed:.2} of the spread or less at every level, run queues of {shortened:.2} of the \
         length and {smoothed:.2} of the variation"
    );
    let is_even = narrowed <= LESS && smoothed <= SMOOTHER;
    Agreement::from_check(
        is_even && shortened <= LESS,
        format!(
            "in shape: {found}; it starts from a narrower spread than the paper's, since time is not counted while a thread waits for input"
        ),
        if is_even {
            format!(
                "{found}: queues do not become shorter by a tenth. Where jobs come as fast as they are taken, one full queue makes the \
                 dispatcher wait while the others run empty, and feedback ends that"
            )
        } else {
            format!("{found}; {LESS}, {LESS} and {SMOOTHER} at most would be an effect")
        },
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = niagara(context, &DEMAND_WAITING)?;
    let offered = saturating(context, l7(context))?;
    let schemes = with_rivals(context, &SCHEMES);
    let mut queues =
        Chart::new("Mean run queue of each thread", Axis::linear("thread"), Axis::linear("buffers"));
    let mut spreads = Chart::bars("Most used less least used", schemes.clone(), Axis::linear("%"));
    let mut by_level = vec![Vec::new(); machine.topology.levels()];
    let mut means = Vec::new();
    for name in schemes.iter().copied() {
        let report = run_scheme(context, name, &machine, &offered)?;
        for (level, spread) in report.levels.iter().zip(&mut by_level) {
            spread.push(f64::from(level.range().1 - level.range().0) / 10.0);
        }
        if !report.queue_mean_milli.is_empty() {
            let milli = &report.queue_mean_milli;
            let points =
                milli.iter().enumerate().map(|(at, &mean)| (at as f64 + 1.0, mean as f64 / 1000.0));
            queues = queues.with(Series::line(name, points.collect()));
            let mean = milli.iter().sum::<u64>() as f64 / milli.len() as f64;
            let squares: f64 = milli.iter().map(|&one| (one as f64 - mean).powi(2)).sum();
            means.push((name, mean / 1000.0, (squares / milli.len() as f64).sqrt() / mean.max(1.0)));
        }
    }
    for (level, spread) in by_level.iter().enumerate() {
        spreads = spreads.with(Series::bars(machine.topology.level_name(level), spread.iter().copied()));
    }
    let threads = &by_level[by_level.len() - 1];
    let queue_means = |name: &str| {
        means.iter().find(|row| row.0 == name).map_or((f64::NAN, f64::NAN), |row| (row.1, row.2))
    };
    let (pinned, fed_back) = (queue_means("conn+aff"), queue_means("adaptive"));
    let place = |scheme: &str| schemes.iter().position(|known| *known == scheme).unwrap_or(0);
    let spread = |scheme: &str| threads[place(scheme)];
    let narrowed = by_level
        .iter()
        .map(|level| level[place("adaptive")] / level[place("conn+aff")])
        .fold(0.0, f64::max);
    let (shortened, smoothed) = (fed_back.0 / pinned.0, fed_back.1 / pinned.1);
    let mut outcome = Outcome::new(verdict(narrowed, shortened, smoothed))
        .value(
            Value::new("spread of threads, conn+aff", "%", spread("conn+aff"))
                .paper(89.0)
                .band(10.0, 100.0),
        )
        .value(
            Value::new("spread of threads, adaptive", "%", spread("adaptive")).paper(10.0).band(0.0, 45.0),
        )
        .value(Value::new("spread of threads, flowpin", "%", spread("flowpin")).band(0.0, 45.0))
        .value(
            Value::new("adaptive over conn+aff", "×", spread("adaptive") / spread("conn+aff"))
                .paper(10.0 / 89.0)
                .band(0.0, LESS),
        )
        .value(
            Value::new("variation of run queues, adaptive over conn+aff", "×", smoothed)
                .band(0.0, SMOOTHER),
        );
    for rival in context.rivals.schedulers {
        outcome = outcome.value(Value::new(
            format!("spread of threads, {}", rival.name),
            "%",
            spread(rival.name),
        ));
    }
    for (name, mean, variation) in means {
        outcome = outcome.value(Value::new(format!("mean run queue, {name}"), "", mean)).value(Value::new(
            format!("variation of run queues, {name}"),
            "",
            variation,
        ));
    }
    Ok(outcome
        .chart(spreads)
        .chart(queues)
        .note("Queues of 16, no elephant.")
        .note(demand_note(context, &DEMAND_WAITING)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_the_right_sign_is_not_an_effect() {
        assert_eq!(verdict(0.6, 0.8, 0.5).word(), "agrees");
        let without = verdict(0.87, 0.85, 0.959);
        assert_eq!(without.word(), "differs");
        assert!(!without.text().contains("feedback"), "{}", without.text());
        assert_eq!(verdict(0.97, 0.8, 0.5).word(), "differs");
        assert!(verdict(0.6, 0.99, 0.5).text().contains("do not become shorter"));
    }
}
