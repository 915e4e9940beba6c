//! How many flows end in conflict lists [DHASH §VI-B].
//!
//! A million flows put into 100,000 buckets once leave a Poisson tail. Churn leaves more: a slot
//! that becomes free is not refilled from the list, so the share rises to Erlang's loss formula.

use flowloom::flow_key::TableHash;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::dhash::conflict::steady_share;
use flowloom::flow_table::dhash::layout::SLOTS_PER_BUCKET;
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/section6_conflicts",
    place: "§VI-B",
    claim: "11,413 of a million sessions are in conflict lists",
    fidelity: &[Fidelity::Simulated],
    run,
};

/// Returns the share of flows in lists, in percent: after the fill, and after each turnover.
fn shares(context: &Context<'_>, flows: u32, buckets: u32, turnovers: u32) -> Result<Vec<f64>, ItemError> {
    let mut state = context.seed;
    let mut in_slots = vec![0_u32; buckets as usize];
    // Bucket of each flow, and whether it has a slot.
    let mut homes: Vec<(u32, bool)> = Vec::with_capacity(flows as usize);
    let mut listed = 0_u32;
    let enter = |state: &mut u64, in_slots: &mut [u32], listed: &mut u32| {
        let bucket = TableHash::from_mixed(split_mix(state)).bucket(buckets);
        let has_slot = in_slots[bucket as usize] < SLOTS_PER_BUCKET;
        if has_slot {
            in_slots[bucket as usize] += 1;
        } else {
            *listed += 1;
        }
        (bucket, has_slot)
    };
    for _ in 0..flows {
        homes.push(enter(&mut state, &mut in_slots, &mut listed));
    }
    let mut shares = vec![f64::from(listed) * 100.0 / f64::from(flows)];
    for _ in 0..turnovers {
        context.check_stop()?;
        for _ in 0..flows {
            #[expect(clippy::cast_possible_truncation, reason = "below the number of flows")]
            let leaver = (split_mix(&mut state) % u64::from(flows)) as usize;
            let (bucket, has_slot) = homes[leaver];
            if has_slot {
                in_slots[bucket as usize] -= 1;
            } else {
                listed -= 1;
            }
            homes[leaver] = enter(&mut state, &mut in_slots, &mut listed);
        }
        shares.push(f64::from(listed) * 100.0 / f64::from(flows));
    }
    Ok(shares)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let divisor = context.scale.pick(20, 1, 1);
    let turnovers = context.scale.pick(4, 8, 8);
    let million = shares(context, 1_000_000 / divisor, 100_000 / divisor, turnovers)?;
    let file_3 = shares(context, 1_048_576 / divisor, 100_000 / divisor, turnovers)?;
    let last = million.len() - 1;
    // A twentieth of the flows scatters √20 as much.
    let spread = context.scale.pick(4.0, 1.0, 1.0);
    let band =
        |center: f64, width: f64| Band { low: center - width * spread, high: center + width * spread };
    let series = |shares: &[f64]| (0_u32..).map(f64::from).zip(shares.iter().copied()).collect();
    let paper = 1.1413;
    Ok(Outcome::new(Verdict::of(
        (million[0]..=million[last]).contains(&paper),
        "1.14 % lies between a fresh fill and the steady state of flows that come and go: a run between the two gives it",
        "1.14 % lies outside what a fresh fill and a steady state give",
    ))
    .value(Value::new("a million flows, filled once", "%", million[0]).paper(paper).within(band(0.55, 0.03)))
    .value(Value::new("File-3's flows, filled once", "%", file_3[0]).within(band(0.79, 0.03)))
    .value(Value::new("a million flows, steady", "%", million[last]).paper(paper).within(band(2.23, 0.1)))
    .value(Value::new("File-3's flows, steady", "%", file_3[last]).within(band(2.97, 0.1)))
    .value(Value::new("Erlang's loss formula at ten a bucket", "%", steady_share(10.0) * 100.0).band(2.22, 2.24))
    .chart(
        Chart::new("Flows in conflict lists", Axis::linear("turnovers"), Axis::linear("%"))
            .with(Series::line("1,000,000 flows", series(&million)))
            .with(Series::line("1,048,576 flows", series(&file_3)))
            .with(Series::line("paper", vec![(0.0, paper), (f64::from(turnovers), paper)])),
    )
    .note(format!("Numbers of flows and buckets divided by {divisor} at this scale.")))
}
