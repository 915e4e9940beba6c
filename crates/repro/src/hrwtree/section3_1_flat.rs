//! Flat highest random weight: its evenness, and the memory of its table [HRWTREE §3.1].

use flowloom::scheduler::{HrwFlat, WorkerCount};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::shares::Shares;
use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/section3_1_flat",
    place: "§3.1",
    claim: "every thread is chosen alike often; a table of weights for 10,000 connections takes 2.5 MB",
    fidelity: &[Fidelity::Simulated, Fidelity::Arithmetic],
    run,
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let threads = WorkerCount::new(64).map_err(ItemError::during("counting threads"))?;
    let keys = context.scale.pick(200_000, 1_000_000, 4_200_000);
    let shares = Shares::by_digest(&HrwFlat::new(threads), 64, keys, context.seed);
    let mean = keys as f64 / 64.0;
    let points =
        shares.counts.iter().enumerate().map(|(at, &count)| (at as f64, count as f64 / mean)).collect();
    let table_mb = 10_000.0 * 64.0 * 4.0 / 1e6;
    // Noise falls with the number of flows and this does not, so their ratio contains the same
    // information.
    let lasting = shares.beyond_noise() * 100.0;
    Ok(Outcome::new(Verdict::of(
        lasting <= 1.5,
        format!(
            "even to the eye, and not to the limit that the text has: of the deviation {lasting:.1} % is no noise and stays, \
             however many flows there are. The table is not needed: the chosen thread, in eight bytes a flow, is all that came of it"
        ),
        format!("the published weights deviate by {lasting:.1} % beyond the noise of drawing"),
    ))
    .value(Value::new("deviation that is not noise", "%", lasting).paper(0.0).band(0.0, 1.5).checked_if(context.scale > Scale::Smoke))
    .value(Value::new("deviation over the noise of drawing", "", shares.over_noise()).within(Band::at_most(2.5)).checked_if(context.scale < Scale::Full))
    .value(Value::new("busiest thread's share", "", shares.busiest()).paper(1.0).band(1.0, 1.12))
    .value(Value::new("threads without flows", "", shares.idle() as f64).band(0.0, 0.0))
    .value(Value::new("table of weights", "MB", table_mb).paper(2.5).band(2.56, 2.56))
    .value(Value::new("our memory of decisions, 65,536 flows", "MB", 65_536.0 * 8.0 / 1e6).band(0.52, 0.53))
    .chart(
        Chart::new("Flows of each thread, over an even share", Axis::linear("thread"), Axis::linear("shares"))
            .with(Series::points("flat HRW", points)),
    )
    .note("The deviation over the noise is held to 2.5 with a million flows. It grows with their root, and passes 2.5 at about four millions: \
           what is no noise is what is held to a limit at any number.")
    .note(format!("{keys} flows over 64 threads, seed {}", context.seed)))
}
