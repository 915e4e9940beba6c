//! How often a bucket of four is not enough [FLOWNP §4.2, Fig. 5].

use flowloom::flow_key::hash::fold::split_mix;
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig5_exceptions",
    place: "§4.2, Fig. 5",
    claim: "below a load of 1 fewer than 2 % of the flows are exceptions",
    fidelity: &[Fidelity::Simulated],
    run,
};

/// Entries of a bucket.
const BINS: u8 = 4;

/// Results for one load, in percent.
struct Shares {
    /// Buckets that are full.
    full: f64,
    /// Flows that found theirs full, filled once.
    once: f64,
    /// Flows outside their bucket under churn.
    steady: f64,
}

fn shares(context: &Context<'_>, bits: u32, load: f64) -> Result<Shares, ItemError> {
    let buckets = 1_u64 << bits;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the buckets")]
    let flows = (buckets as f64 * load) as usize;
    let mut state = context.seed;
    let mut taken = vec![0_u8; usize::try_from(buckets).unwrap_or(0)];
    // Every flow that was offered, accepted or not.
    let mut asked = vec![0_u8; taken.len()];
    let mut homes = Vec::with_capacity(flows);
    let mut outside = 0_u64;
    let draw = |state: &mut u64| usize::try_from(split_mix(state) % buckets).unwrap_or(0);
    let enter = |bucket: usize, taken: &mut [u8], outside: &mut u64| {
        let fits = taken[bucket] < BINS;
        if fits {
            taken[bucket] += 1;
        } else {
            *outside += 1;
        }
        (bucket, fits)
    };
    for _ in 0..flows {
        let bucket = draw(&mut state);
        asked[bucket] = asked[bucket].saturating_add(1);
        homes.push(enter(bucket, &mut taken, &mut outside));
    }
    let percent = |part: u64, whole: f64| part as f64 * 100.0 / whole;
    let full = asked.iter().filter(|&&count| count >= BINS).count() as u64;
    let (full, once) = (percent(full, buckets as f64), percent(outside, flows as f64));
    for _ in 0..context.scale.pick(3, 5, 8) {
        context.check_stop()?;
        for _ in 0..flows {
            let leaver = usize::try_from(split_mix(&mut state) % flows as u64).unwrap_or(0);
            let (bucket, fits) = homes[leaver];
            if fits {
                taken[bucket] -= 1;
            } else {
                outside -= 1;
            }
            homes[leaver] = enter(draw(&mut state), &mut taken, &mut outside);
        }
    }
    Ok(Shares { full, once, steady: percent(outside, flows as f64) })
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let bits = context.scale.pick(13, 17, 20);
    let mut rows = Vec::new();
    for load in [0.25, 0.5, 0.75, 1.0, 1.25, 1.611, 2.0] {
        rows.push((load, shares(context, bits, load)?));
    }
    let series =
        |pick: fn(&Shares) -> f64| rows.iter().map(|(load, shares)| (*load, pick(shares))).collect();
    let at_1 = &rows[3].1;
    let at_limit = &rows[5].1;
    let checked = context.scale > Scale::Smoke;
    // An eighth of the buckets scatters √8 as much.
    let scatter = if context.scale == Scale::Full { 1.0 } else { 2.5 };
    let value = |name: &str, ours: f64, expected: f64, width: f64| {
        Value::new(name, "%", ours).within(Band::around(expected, width * scatter)).checked_if(checked)
    };
    Ok(Outcome::new(Verdict::of(
        at_1.full < 2.0 && at_1.steady < 2.0,
        "below 2 % at a load of 1 by all three counts: buckets that are full, flows that overflow, and flows outside when \
         they come and go",
        "at a load of 1 more than 2 % are exceptions",
    ))
    .value(value("full buckets at load 1", at_1.full, 1.899, 0.06).paper_below(2.0))
    .value(value("flows that overflow at load 1, filled once", at_1.once, 0.435, 0.08))
    .value(value("flows outside at load 1, steady (Erlang 1.54)", at_1.steady, 1.54, 0.08))
    .value(value("flows that overflow at load 1.611, filled once", at_limit.once, 2.0, 0.06))
    .chart(
        Chart::new("Exceptions", Axis::linear("flows a bucket"), Axis::linear("%"))
            .with(Series::line("full buckets", series(|shares| shares.full)))
            .with(Series::line("overflow, filled once", series(|shares| shares.once)))
            .with(Series::line("outside, steady", series(|shares| shares.steady)))
            .with(Series::line("paper's bound", vec![(0.25, 2.0), (1.0, 2.0)])),
    )
    .note(format!("2^{bits} buckets of four. \"Exceed five collisions\" is read as more than four entries in a bucket.")))
}
