//! Gaps between requests: short within a page, long between pages [TCBCACHE §2.2, Fig. 3].

use flowloom::tcb_cache::model::{Session, SessionSource, Surge, SurgeConfig};
use flowloom::tcb_cache::random::Random;
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::day;
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig3_gaps",
    place: "§2.2, Fig. 3",
    claim: "gaps within a page are small, typically below a second; gaps between pages are long",
    numbers: "text of §2.2: a second divides both kinds of gaps; Fig. 3 is not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

/// Upper ends of the bins, in seconds.
const BINS_S: [f64; 12] = [0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0];

fn gaps_s(session: &Session) -> impl Iterator<Item = f64> {
    session.requests.windows(2).map(|pair| (pair[1].offset_ms - pair[0].offset_ms) as f64 / 1000.0)
}

/// Returns the gaps as recorded by a log with a resolution of whole seconds.
fn whole_gaps_s(begin_ms: u64, session: &Session) -> impl Iterator<Item = f64> {
    let second = move |offset_ms: u64| (begin_ms + offset_ms) / 1000;
    session
        .requests
        .windows(2)
        .map(move |pair| (second(pair[1].offset_ms) - second(pair[0].offset_ms)) as f64)
}

/// Returns the cumulative share of gaps at the upper end of each bin, in percent.
fn cumulative(gaps: &[f64]) -> Vec<(f64, f64)> {
    let up_to = |end: f64| gaps.iter().filter(|gap| **gap <= end).count() as f64;
    BINS_S.iter().map(|end| (*end, up_to(*end) * 100.0 / gaps.len().max(1) as f64)).collect()
}

fn share(gaps: &[f64], low: f64, high: f64) -> f64 {
    gaps.iter().filter(|gap| (low..=high).contains(*gap)).count() as f64 * 100.0 / gaps.len().max(1) as f64
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let config = SurgeConfig::default();
    // Pauses between pages are at least this long in the model; shorter gaps lie within a page.
    let pause_s = config.think_least_s * config.think_factor;
    let mut source = Surge::new(config, context.seed);
    let (mut random, mut session) = (Random::new(context.seed), Session::default());
    let mut model = Vec::new();
    for _ in 0..context.scale.pick(1000, 10_000, 50_000) {
        source.next_session(&mut random, &mut session);
        model.extend(gaps_s(&session));
    }
    let within: Vec<f64> = model.iter().copied().filter(|gap| *gap < pause_s).collect();
    let mut chart = Chart::new(
        format!("Gaps between requests of a session (model S, seed {})", context.seed),
        Axis::log("gap in s"),
        Axis::linear("gaps up to this, %"),
    )
    .with(Series::line("model S", cumulative(&model)));
    let mut values = vec![
        Value::new("model S, gaps within a page below 1 s", "%", share(&within, 0.0, 1.0)).band(80.0, 95.0),
        Value::new("model S, gaps that are pauses", "%", share(&model, pause_s, f64::INFINITY))
            .band(14.0, 22.0),
    ];
    let mut notes = vec![String::from("the model is made so; its agreement is no evidence")];
    let mut of_day = None;
    if let Some(day) = day(context)? {
        let gaps: Vec<f64> = day.iter().flat_map(|(_, session)| gaps_s(session)).collect();
        let near: Vec<f64> = gaps.iter().copied().filter(|gap| *gap <= 10.0).collect();
        let (within_1_s, within_2_s) = (share(&near, 0.0, 1.0), share(&near, 0.0, 2.0));
        let whole: Vec<f64> =
            day.iter().flat_map(|(begin, session)| whole_gaps_s(begin, session)).collect();
        let near_whole: Vec<f64> = whole.into_iter().filter(|gap| *gap <= 10.0).collect();
        let in_log = share(&near_whole, 0.0, 1.0);
        of_day = Some((within_1_s, in_log));
        chart = chart.with(Series::line("NASA day", cumulative(&gaps)));
        values.extend([
            Value::new("NASA day, gaps up to 1 s", "%", share(&gaps, 0.0, 1.0)).band(20.0, 45.0),
            Value::new("NASA day, gaps up to 10 s", "%", share(&gaps, 0.0, 10.0)).band(60.0, 72.0),
            Value::new("NASA day, gaps above 60 s", "%", share(&gaps, 60.0, f64::INFINITY)).band(8.0, 18.0),
            Value::new("NASA day, of gaps up to 10 s those up to 1 s", "%", within_1_s).band(30.0, 70.0),
            Value::new("NASA day, of gaps up to 10 s those up to 2 s", "%", within_2_s).band(50.0, 80.0),
        ]);
        values.push(
            Value::new("NASA day, the same up to 1 s, in the log's whole seconds", "%", in_log)
                .band(50.0, 60.0),
        );
        notes.push(String::from(
            "the log knows seconds only: each request is put at random into its second; sessions end after half an hour of rest, so longer gaps are missing",
        ));
    } else {
        notes.push(String::from("the real day is not in the data directory"));
    }
    let verdict = match of_day {
        Some((within_1_s, in_log)) => Agreement::from_check(
            in_log > 50.0,
            format!(
                "in shape: of gaps up to ten seconds {in_log:.0} % are none or one of the log's whole seconds, which are all that it \
                 knows, or {within_1_s:.0} % within one where requests are spread over theirs; a tail of minutes lies apart from them. Where a page ends the log does not say"
            ),
            "short gaps of the real day are mostly of more than one of the log's whole seconds",
        ),
        None => Agreement::cannot_run(
            "the model has such gaps because it is made so; it takes the real day's log: name a directory with `--data`, or set `FLOWLOOM_DATA`",
        ),
    };
    let mut outcome = Outcome::new(verdict).values(values).chart(chart);
    outcome.notes = notes;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use flowloom::tcb_cache::model::Request;

    #[test]
    fn requests_in_the_same_second_of_a_log_have_no_gap() {
        let request = |offset_ms| Request { offset_ms, reply_bytes: 1000 };
        let session =
            Session { requests: [0, 100, 999, 1100, 3099].map(request).to_vec(), ..Session::default() };
        assert_eq!(whole_gaps_s(5000, &session).collect::<Vec<_>>(), [0.0, 0.0, 1.0, 2.0]);
        assert_eq!(whole_gaps_s(5950, &session).collect::<Vec<_>>(), [1.0, 0.0, 1.0, 2.0]);
    }

    #[test]
    fn model_alone_does_not_agree_with_its_own_input() {
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let outcome = run(&context).unwrap();
        assert!(matches!(outcome.verdict, Agreement::CannotRun { .. }), "{:?}", outcome.verdict);
    }
}
