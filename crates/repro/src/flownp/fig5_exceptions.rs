//! The frequency with which a bucket of four is too small [FLOWNP §4.2, Fig. 5].

use flowloom::flow_key::TableHash;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::sighash::layout::{BINS, bucket_of};
use flowloom::flow_table::{FlowTable, SigHash, TableOptions, Tick, TimeoutClass};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig5_exceptions",
    place: "§4.2, Fig. 5",
    claim: "below a load of 1 fewer than 2 % of the flows are exceptions",
    numbers: "text of §4.2: a limit; the curve of Fig. 5 is not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    switches: &[HALF],
    draws: 3,
    run,
    ..Item::PLAIN
};

const HALF: Switch =
    Switch::fault("half-the-buckets", "the hash never chooses the lower half of the buckets");

/// Results for one load, in percent.
struct Shares {
    /// Full buckets.
    full: f64,
    /// Flows that found their bucket full after a single fill.
    once: f64,
    /// Flows outside their bucket under churn.
    steady: f64,
    /// Number of flows that the table rejected or did not find again.
    lost: u64,
}

/// Fills the table of signatures to a load, then replaces random flows.
fn shares(context: &Context<'_>, bits: u32, load: f64) -> Result<Shares, ItemError> {
    let buckets = 1_u32 << bits;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the buckets")]
    let flows = (f64::from(buckets) * load) as u32;
    let config = TableOptions {
        buckets: Some(buckets),
        pool: Some(flows / 4 + 64),
        list_cap: Some(64),
        ..TableOptions::for_flows(flows)
    };
    let mut table =
        SigHash::<u64, ()>::try_new(&config).map_err(ItemError::during("building the table"))?;
    let mut state = context.seed;
    let mut draw = || split_mix(&mut state) | (u64::from(context.is_off(&HALF)) << 63);
    // Every flow that was offered, whether accepted or not.
    let mut asked = vec![0_u8; buckets as usize];
    let mut present = Vec::with_capacity(flows as usize);
    let mut lost = 0;
    for _ in 0..flows {
        let hash = draw();
        let bucket = bucket_of(TableHash::from_mixed(hash), buckets) as usize;
        asked[bucket] = asked[bucket].saturating_add(1);
        present.push(hash);
        lost += u64::from(
            table.insert(hash, TableHash::from_mixed(hash), (), TimeoutClass(0), Tick(0)).is_err(),
        );
    }
    let percent = |part: u32, whole: u32| f64::from(part) * 100.0 / f64::from(whole);
    let full = asked.iter().filter(|&&count| u32::from(count) >= BINS).count();
    let full = percent(u32::try_from(full).unwrap_or(u32::MAX), buckets);
    let once = percent(table.stats().displaced, flows);
    for _ in 0..context.scale.pick(3, 5, 8) {
        context.check_stop()?;
        for _ in 0..flows {
            let leaver = usize::try_from(draw() % u64::from(flows)).unwrap_or(0);
            let hash = draw();
            let left = std::mem::replace(&mut present[leaver], hash);
            lost += u64::from(table.remove_key(&left, TableHash::from_mixed(left)).is_none());
            lost += u64::from(
                table.insert(hash, TableHash::from_mixed(hash), (), TimeoutClass(0), Tick(0)).is_err(),
            );
        }
    }
    Ok(Shares { full, once, steady: percent(table.stats().displaced, flows), lost })
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
    let lost: u64 = rows.iter().map(|(_, shares)| shares.lost).sum();
    let checked = context.scale > Scale::Smoke;
    // An eighth of the buckets has √8 times the standard deviation.
    let scatter = if context.scale == Scale::Full { 1.0 } else { 2.5 };
    let value = |name: &str, ours: f64, expected: f64, width: f64| {
        Value::new(name, "%", ours).within(Band::around(expected, width * scatter)).checked_if(checked)
    };
    Ok(Outcome::new(Agreement::from_check(
        at_1.full < 2.0 && at_1.steady < 2.0 && lost == 0,
        "below 2 % at a load of 1 by all three counts: buckets that are full, flows that overflow, and flows outside when \
         they come and go",
        "at a load of 1 more than 2 % are exceptions",
    ))
    .value(value("full buckets at load 1", at_1.full, 1.899, 0.06).paper_below(2.0))
    .value(value("flows that overflow at load 1, filled once", at_1.once, 0.435, 0.08))
    .value(value("flows outside at load 1, steady (Erlang 1.54)", at_1.steady, 1.54, 0.08))
    .value(value("flows that overflow at load 1.611, filled once", at_limit.once, 2.0, 0.06))
    .value(Value::new("flows refused or not found again", "", lost as f64).band(0.0, 0.0))
    .chart(
        Chart::new("Exceptions", Axis::linear("flows a bucket"), Axis::linear("%"))
            .with(Series::line("full buckets", series(|shares| shares.full)))
            .with(Series::line("overflow, filled once", series(|shares| shares.once)))
            .with(Series::line("outside, steady", series(|shares| shares.steady)))
            .with(Series::line("paper's bound", vec![(0.25, 2.0), (1.0, 2.0)])),
    )
    .note(format!("2^{bits} buckets of four, in the table of signatures itself. \"Exceed five collisions\" is read as more than four entries in a bucket.")))
}
